"""A user's program is checked by mypy as it stands, and its slips are found."""

from __future__ import annotations

import fcntl
import re
import subprocess
import sys
from pathlib import Path

from tests.support.examples import ROOT

PROGRAM = """
from dataclasses import dataclass
from datetime import timedelta

from tenuto import Context, Graph, Run, Step, Tenuto, Workflow, current
from tenuto.sdk.builder.keys import Retry

app = Tenuto(":memory:")


@dataclass
class Order:
    id: str
    amount: float


@app.task
def charge(order: Order, here: Context) -> float:
    here.progress(1, 2, "half")
    here.logger.info("charged", order=order.id)
    current().heartbeat()
    key: str = here.idempotency_key
    stop: bool = here.cancelled
    return order.amount if key and not stop else 0.0


@app.task(name="parcels.ship", process=False)
async def ship(order: str) -> str:
    return order


retry: Retry = {
    "rules": [{"on": [TimeoutError, "http.5xx"], "max_attempts": 3, "max": timedelta(minutes=1)}],
    "give_up_on": ValueError,
}


def body() -> Graph:
    with Graph() as inner:
        done = inner.code("done", "def main(params): return 1", params={"n": inner.params.n})
        inner.output = {"done": done.output, "all": done.iterations}
    return inner


def build() -> Workflow:
    with Workflow("order", input=Order, timeout="3d", defaults={"retry": {"max_attempts": 3}}) as wf:
        paid = wf.task("paid", charge, params={"order": wf.input}, timeout=timedelta(seconds=3))
        asked = wf.wait_for_event("asked", "order.approved", key=wf.input.id, timeout="2d")
        sent = wf.task("sent", ship, params={"order": wf.input.id}, optional=True)
        pause = wf.wait("pause", for_="1m")
        both = wf.join("both", join="any")
        paid >> [asked, pause] >> both >> sent
        paid.on_failure.when("error.code == 'x'") >> wf.fail("no", "odd", message=paid.error.message)
        sent.loop(back_to=both, max=3, when="iteration < 2", keep=2)
        each = wf.foreach("each", over=wf.input.list, do=body(), params={"n": wf.item}, concurrency=wf.input.n)
        each.compensate(Step.task(ship, params={"order": wf.input.id}), when="started")
        pages = Step.task("pages", queue=wf.vars.queue)
        more = wf.foreach("more", source=pages, task=wf.item.task, params=wf.item.params, tolerate="5%")
        both >> each >> more >> wf.call("sub", "billing@stable", input=wf.input, wait=False)
        wf.emit("told", wf.input.event, key=pause.callback_key, keep=timedelta(days=1), needs=more)
        wf.on_failure = Step.http(request={"url": "http://127.0.0.1:1/"}, retry=retry)
        wf.output = {"amount": paid.output, "text": f"for {wf.input.id}"}
    return wf


async def main() -> None:
    run: Run = await app.astart(build(), {"id": "o", "amount": 3})
    more: Run = app.enqueue(charge, order=Order("o", 3))
    print(await run.aresult(), more.id, app.deploy(build()).version, build().to_yaml().upper())
"""
SLIPS = """
from tenuto import Step, Tenuto, Workflow

app = Tenuto(":memory:")


@app.task
def charge(order: str) -> float:
    return 1.0


wf = Workflow("w")
a = wf.task("a", charge, params={"order": 1}, priorty=3)
b = wf.http("b", request={"method": "GET"})
a >> "b"
a >> b >> 3
a.loop(back_to="b", max=3)
wf.join("c", join="some")
wf.foreach("d", over=[1], task="t")
wf.call("e", do={"type": "fork"})
b.compensate("undo")
wf.on_failure = b
Step.task("t", retry={"rules": [{"on": "timeout"}]})
app.start(3)
charge(5)
"""


def mypy(folder: Path, text: str) -> tuple[int, str]:
    (folder / "program.py").write_text(text)
    cache = ROOT / ".mypy_cache"
    cache.mkdir(exist_ok=True)
    with (cache / "one-at-a-time.lock").open("w") as lock:
        # Its cache is in SQLite: of two that write it, one may die of "database is locked".
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--no-pretty", "--no-color-output",
             "--cache-dir", str(cache), str(folder / "program.py")],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_a_program_that_uses_all_of_it_is_typed_throughout(tmp_path: Path) -> None:
    assert mypy(tmp_path, PROGRAM) == (0, "")


def test_slips_are_found_before_the_program_runs(tmp_path: Path) -> None:
    _, said = mypy(tmp_path, SLIPS)

    wrong = {int(number) for number in re.findall(r"program\.py:(\d+): error", said)}
    lines = SLIPS.splitlines()
    slips = set(lines[lines.index('wf = Workflow("w")') + 1 :])
    assert {lines[number - 1] for number in wrong} == slips

"""`tenuto run retry|replay|skip|terminate|items|iterations` and what lists and `run show` tell of children: over a
server, over a file, and every way to get it wrong.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.command import HANG_S, Tenuto, json_of, read_until
from tests.support.dev import Dev
from tests.support.looping import LOOP

OK, USAGE, NOT_FOUND, CONFLICT = 0, 2, 3, 4
APP = """
from pathlib import Path

from tenuto import Tenuto

app = Tenuto()


@app.task
def picky(n: int) -> int:
    if n == 3 and not Path("mended").exists():
        raise ValueError("three")
    return n


@app.task
def fine() -> None:
    return None
"""
LISTED = """
name: listed
nodes:
  each: {type: foreach, over: "range(12)", task: picky, params: {n: "${item}"}}
  sum: {type: set, needs: [each], values: {all: "${nodes.each.output}"}}
"""
FAMILY = """
name: family
nodes:
  sub: {type: call, do: {nodes: {w: {type: wait_for_event, event: go, key: "1"}}}}
"""


def project(folder: Path) -> Tenuto:
    tenuto = Tenuto(folder)
    tenuto.write(app_py=APP, listed_yaml=LISTED, family_yaml=FAMILY, loop_yaml=LOOP)
    return tenuto


@dataclass
class Served:
    """A folder whose file a server has open."""

    tenuto: Tenuto
    dev: Dev

    def failed(self) -> str:
        run = self.dev.start("listed")
        self.tenuto("run", "wait", run)
        return run


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tenuto = project(tmp_path_factory.mktemp("served"))
    with Dev(tenuto.folder, "--no-watch") as dev:
        yield Served(tenuto, dev)


def test_R1_a_retry_is_planned_asked_for_and_done(served: Served) -> None:
    run, tenuto = served.failed(), served.tenuto

    planned = tenuto("run", "retry", run, "--dry-run")
    assert planned.returncode == OK
    assert planned.stdout.splitlines()[0] == "done again, where their turn comes:"
    assert re.search(r"^  each  (\d+|one) of its \d+ items?$", planned.stdout, re.MULTILINE)
    asked = tenuto("run", "retry", run)
    assert asked.returncode == USAGE
    assert "--yes: is needed where nobody can be asked" in asked.stderr
    assert json_of(tenuto("run", "show", run, "-o", "json"))["state"] == "failed"

    (tenuto.folder / "mended").touch()
    try:
        done = tenuto("run", "retry", run, "--yes", "-o", "json")
        assert json_of(done)["plan"]["inside"] == ["each"]
        assert tenuto("run", "wait", run).returncode == OK
    finally:
        (tenuto.folder / "mended").unlink()
    shown = tenuto("run", "show", run).stdout
    assert "retried   once" in shown
    assert "12 of 12" in shown


def test_a_node_is_skipped_by_a_retry_and_shown_as_given_by_hand(served: Served) -> None:
    run, tenuto = served.failed(), served.tenuto

    done = tenuto("run", "retry", run, "--skip", "each", "--output", "[1]", "--yes")

    assert done.stdout.splitlines()[0] == "taken as done: each"
    assert tenuto("run", "wait", run).returncode == OK
    assert "output (given by hand):" in tenuto("run", "show", run, "--node", "each").stdout


def test_R2_a_replay_is_a_run_of_its_own(served: Served) -> None:
    run, tenuto = served.failed(), served.tenuto
    tenuto("run", "retry", run, "--skip", "each", "--output", "[1]", "--yes")
    tenuto("run", "wait", run)

    plan = json_of(tenuto("run", "replay", run, "--from", "sum", "--dry-run", "-o", "json"))
    assert (plan["run_id"], plan["plan"]["kept"]) == (None, ["each"])
    new = json_of(tenuto("run", "replay", run, "--from", "sum", "--yes", "-o", "json"))["run_id"]

    assert tenuto("run", "wait", new).returncode == OK
    assert f"replays   run {run}" in tenuto("run", "show", new).stdout


def test_children_are_shown_listed_and_terminated_with_their_parent(served: Served) -> None:
    tenuto, dev = served.tenuto, served.dev
    run = dev.start("family")
    dev.until_document(
        f"/v1/runs/{run}",  # others wait for the event, too
        lambda it: any(each["waits_for"] for each in it["children"]["newest"]),
    )

    shown = tenuto("run", "show", run).stdout
    assert "waits for event go key 1" in shown
    assert "tenuto event send go --key 1" in shown
    [child] = json_of(tenuto("run", "list", "--parent", run, "-o", "json"))
    assert child["parent"] == {"run_id": run, "node": "sub", "item": None}
    mine = json_of(tenuto("run", "list", "--all", "-o", "json"))
    assert child["run_id"] not in {each["run_id"] for each in mine}
    everybody = json_of(tenuto("run", "list", "--all", "--children", "-o", "json"))
    assert child["run_id"] in {each["run_id"] for each in everybody}
    assert f"called by  run {run}, sub" in tenuto("run", "show", child["run_id"]).stdout

    ended = tenuto("run", "terminate", run, "--reason", "enough")

    assert (ended.returncode, ended.stdout) == (OK, f"run {run} terminated\n")
    dev.until_document(f"/v1/runs/{child['run_id']}", lambda it: it["state"] == "cancelled")


def test_a_node_under_way_is_skipped(served: Served) -> None:
    run = served.dev.start("family")
    served.dev.until_document(f"/v1/runs/{run}", lambda it: it["children"]["open"])

    done = served.tenuto("run", "skip", run, "sub", "--output", '{"by": "hand"}')

    assert (done.returncode, done.stdout) == (OK, f"run {run} goes on without sub\n")
    assert served.tenuto("run", "wait", run).returncode == OK


def test_items_and_iterations_are_listed(served: Served) -> None:
    run, tenuto = served.failed(), served.tenuto

    [dead] = json_of(tenuto("run", "items", run, "each", "--state", "dead", "-o", "json"))
    assert (dead["index"], dead["error"]["message"]) == (3, "three")
    table = tenuto("run", "items", run, "each", "--state", "dead").stdout
    assert "ValueError: three" in table
    nothing = tenuto("run", "items", run, "each", "--state", "retry")
    assert nothing.stderr.endswith("each has no item that is retry\n")
    loop = served.dev.start("loop")
    tenuto("run", "wait", loop)
    passes = json_of(tenuto("run", "iterations", loop, "count", "-o", "json"))
    assert [each["output"] for each in passes] == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_a_heartbeat_says_who_heard_it(served: Served) -> None:
    done = served.tenuto("event", "heartbeat", "nothing", "--key", "k")

    assert (done.returncode, done.stdout) == (OK, "0 runs heard it\n")
    assert "nobody waits for nothing key k" in done.stderr


MISTAKES = [
    (["retry", "RUN", "--output", "1"], USAGE, "--output: is that of a node which is skipped"),
    (["retry", "RUN", "--skip", "eech", "--yes"], NOT_FOUND, "no node 'eech'"),
    (["retry", "RUN", "--skip", "", "--yes"], USAGE, "--skip: is empty; give a node's id"),
    (["retry", "RUN", "--skip", "each", "--output", "{a: 1}"], USAGE, "is no JSON"),
    (["retry", "RUN", "--skip", "sum", "--yes"], CONFLICT, "skip one of them, or retry first"),
    (["retry", "nosuchrun", "--yes"], NOT_FOUND, "no run 'nosuchrun'"),
    (["replay", "RUN"], USAGE, "--from"),
    (["replay", "RUN", "--from", "nope", "--yes"], NOT_FOUND, "no node 'nope'"),
    (["replay", "RUN", "--from", "", "--yes"], USAGE, "--from: is empty; give a node's id"),
    (["replay", "RUN", "--from", "sum", "--input", "@nofile.json"], NOT_FOUND, "nofile.json"),
    (["replay", "RUN", "--from", "sum", "--var", "x=1", "--yes"], USAGE, "vars.x"),
    (["skip", "RUN", "nope"], NOT_FOUND, "no node 'nope'"),
    (["skip", "RUN", ""], USAGE, "NODE: is empty; give a node's id"),
    (["terminate", "RUN"], CONFLICT, "is already failed"),
    (["items", "RUN", "sum"], USAGE, "sum is no foreach, so it has no items; each has"),
    (["items", "RUN", "each", "--state", "odd"], USAGE, "there is no state 'odd'"),
    (["iterations", "RUN", "each"], USAGE, "each is in no loop, so it has no iterations"),
    (["list", "--parent", "nosuchrun"], NOT_FOUND, "no run 'nosuchrun'"),
    (["resume", "RUN", "--freeze-timers"], CONFLICT, "is already failed"),
]


@pytest.mark.parametrize(
    ("words", "code", "told"), MISTAKES, ids=[" ".join(row[0]) for row in MISTAKES]
)
def test_a_mistake_is_said_with_its_cure(
    served: Served, once: dict[str, str], words: list[str], code: int, told: str
) -> None:
    run = once.setdefault("run", "") or served.failed()
    once["run"] = run

    met = served.tenuto("run", *[run if word == "RUN" else word for word in words])

    assert (met.returncode, told in " ".join(met.stderr.split())) == (code, True), met.stderr
    assert "Traceback" not in met.stderr


@pytest.fixture(scope="module")
def once() -> dict[str, str]:
    return {}


# -- a file that no engine has open ------------------------------------------------------------------------------------


def test_a_file_is_changed_where_no_engine_drives_it_and_says_how_to_go_on(tmp_path: Path) -> None:
    tenuto = project(tmp_path)
    assert tenuto("run", "listed.yaml").returncode == 1
    [run] = [each["run_id"] for each in json_of(tenuto("run", "list", "-o", "json"))]

    done = tenuto("run", "retry", run, "--yes")
    assert done.returncode == OK
    assert f"tenuto run --carry-on {run}" in done.stderr
    (tmp_path / "mended").touch()
    assert tenuto("run", "--carry-on", run).returncode == OK
    replayed = json_of(tenuto("run", "replay", run, "--from", "sum", "--yes", "-o", "json"))
    assert tenuto("run", "--carry-on", replayed["run_id"]).returncode == OK
    assert json.loads(tenuto("run", "verify", "--all", "-o", "json").stdout or "[]") is not None
    assert tenuto("run", "verify", "--all").returncode == OK


def test_who_watches_a_run_sees_what_its_child_waits_for(
    tmp_path: Path, background: list[subprocess.Popen[str]]
) -> None:
    tenuto = project(tmp_path)
    watched = tenuto.start("run", "family.yaml")
    background.append(watched)

    *_, told, command = read_until(watched, ["tenuto event send"])

    assert told.endswith("waits for event go key 1; send it with:\n")
    assert command.startswith("  tenuto event send go --key 1")
    assert tenuto("event", "send", "go", "--key", "1").returncode == OK
    assert watched.wait(HANG_S) == OK

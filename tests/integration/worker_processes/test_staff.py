"""The task processes of one supervisor: they die, are replaced, load the app anew, and are ended."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import pytest
from tests.support.gateway import MemoryGateway
from tests.support.process_tasks import heard, is_alive, until_dead
from tests.support.staff import STAFF_APP, a_staff

from tenuto.model.ids import WorkerId
from tenuto.ports.gateway import Beat, Lease, Success
from tenuto.worker.handle import Broken
from tenuto.worker.process import FENCED


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "told")
    return tmp_path / "told"


def app_of(folder: Path, text: str) -> Path:
    """An app of its own for a test; a later one is longer, so that no compiled copy of the earlier is taken for it."""
    path = folder / "app.py"
    path.write_text(
        f"import os, sys, time\nfrom tenuto import Tenuto, current\napp = Tenuto()\n{text}"
    )
    return path


async def dead(pid: int) -> bool:
    return await asyncio.to_thread(until_dead, pid, 20.0)


async def test_what_a_dead_process_worked_on_is_lost_at_once_and_nothing_else(fifo: Path) -> None:
    async with a_staff(STAFF_APP, count=2) as staff:
        gateway = staff.gateway
        slow = gateway.offer("heeds", {"fifo": str(fifo)})
        [pid] = await heard(fifo)
        died = gateway.offer("dies", {"code": 3})
        await gateway.until(lambda: died.task_id in gateway.losses)

        assert is_alive(pid)
        assert gateway.losses == [died.task_id]
        assert slow.lease_id in gateway.held
        assert await gateway.output(gateway.offer("echo", {"value": 1})) == 1
        gateway.cancelled.add(slow.lease_id)
        await staff.supervisor.runner.beat()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV])
async def test_a_killed_process_is_replaced_and_its_task_runs_again(
    fifo: Path, how: signal.Signals
) -> None:
    async with a_staff(STAFF_APP, count=1) as staff:
        gateway = staff.gateway
        lease = gateway.offer("heeds", {"fifo": str(fifo)})
        [pid] = await heard(fifo)
        os.kill(pid, how)
        await gateway.until(lambda: lease.task_id in gateway.losses)

        assert await gateway.output(gateway.offer("pid_of")) != pid


async def test_a_task_that_ends_its_process_each_time_is_lost_each_time() -> None:
    async with a_staff(STAFF_APP, count=2) as staff:
        gateway = staff.gateway
        for attempt in range(1, 6):
            lease = gateway.offer("dies", {"code": 0}, place="n", attempt=attempt)
            count = attempt
            await gateway.until(lambda: len(gateway.losses) >= count)  # noqa: B023 - waited for here
            assert lease.lease_id not in gateway.held

        assert await gateway.output(gateway.offer("echo", {"value": 1})) == 1


async def test_a_suspect_is_kept_apart_from_others(fifo: Path) -> None:
    async with a_staff(STAFF_APP, count=2) as staff:
        gateway = staff.gateway
        died = gateway.offer("dies", {"code": 3}, place="n")
        await gateway.until(lambda: died.task_id in gateway.losses)
        while len(staff.processes.pids) < 2:  # noqa: ASYNC110  nobody announces it
            await asyncio.sleep(0.02)
        suspect = gateway.offer("heeds", {"fifo": str(fifo)}, place="n", attempt=2)
        [pid] = await heard(fifo)
        others = [gateway.offer("pid_of") for _ in range(20)]

        assert {await gateway.output(each) for each in others}.isdisjoint({pid})
        gateway.cancelled.add(suspect.lease_id)
        await staff.supervisor.runner.beat()


class Again(MemoryGateway):
    """What is lost is offered again at once, as a server does up to five times."""

    async def lose(self, worker: WorkerId, beats: Sequence[Beat]) -> None:
        for beat in beats:
            lease = self.held.get(beat.lease_id)
            if lease is not None and self.losses.count(lease.task_id) < 4:
                self.offer(
                    lease.name, place=lease.place, attempt=lease.attempt + 1, input=lease.input
                )
        await super().lose(worker, beats)


async def test_what_kills_its_process_again_and_again_takes_no_other_task_with_it_so_often(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """B17: a task that lost five processes is dead, so nobody else may lose as many by it."""
    app = app_of(
        tmp_path,
        """
@app.task
def poison() -> None:
    time.sleep(0.3)
    os._exit(3)

@app.task
def slow() -> int:
    time.sleep(0.5)
    return 1
""",
    )
    gateway = Again(lease_us=60_000_000)
    async with a_staff(app, count=2, gateway=gateway):
        others = [gateway.offer("slow") for _ in range(6)]
        poison = gateway.offer("poison")
        await gateway.until(lambda: gateway.losses.count(poison.task_id) == 5)
        await gateway.until(lambda: len(gateway.results) == len(others))

        assert max(gateway.losses.count(each.task_id) for each in others) < 4
    pauses = [float(each) for each in re.findall(r"next_in='?([\d.]+)s", caplog.text)]
    assert len(pauses) >= 4
    assert max(pauses) <= 2, "who dies by its work comes back soon"


async def test_work_is_spread_over_the_processes(tmp_path: Path) -> None:
    text = """
@app.task
def waits(begun: str, go: str) -> int:
    open(begun, "x").close()
    while not os.path.exists(go):
        time.sleep(0.01)
    return os.getpid()
"""
    begun, go = [tmp_path / f"begun-{n}" for n in range(10)], tmp_path / "go"
    async with a_staff(app_of(tmp_path, text), count=2) as staff:
        leases = [staff.gateway.offer("waits", {"begun": str(b), "go": str(go)}) for b in begun]
        # None ends before the last is given away.
        while not all(each.exists() for each in begun):  # noqa: ASYNC110  nobody announces it
            await asyncio.sleep(0.02)
        go.touch()

        pids = [await staff.gateway.output(each) for each in leases]
        assert {pids.count(pid) for pid in pids} == {5}


async def test_code_that_holds_the_interpreter_delays_no_heartbeat(fifo: Path) -> None:
    """Catalogue B10."""
    async with a_staff(STAFF_APP, count=1, lease_us=3_000_000) as staff:
        gateway = staff.gateway
        lease = gateway.offer("holds_the_interpreter", {"fifo": str(fifo)})
        await heard(fifo)
        count = len(gateway.beats)
        await gateway.until(lambda: len(gateway.beats) >= count + 3)

        assert lease.lease_id in {beat.lease_id for beat in gateway.beats[-1]}
        os.kill(staff.processes.pids[0], signal.SIGKILL)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("raise ValueError('no key')", "ValueError: no key"),
        ("app = 1", "is a int, not a Tenuto"),
        ("import nowhere", "No module named 'nowhere'"),
        ("def f(:", "syntax error"),
        ("os._exit(9)", "ended itself with exit code 9 while it loaded the app"),
        ("print('so far'); os.kill(os.getpid(), 11)", "so far"),
    ],
)
async def test_an_app_that_cannot_be_loaded_is_told_at_the_start(
    tmp_path: Path, text: str, told: str
) -> None:
    with pytest.raises(Broken) as broken:
        async with a_staff(app_of(tmp_path, text)):
            pass

    assert told in str(broken.value)


async def test_a_reload_brings_new_code_and_what_was_begun_ends_with_the_old(
    tmp_path: Path, fifo: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    waits = (
        "from tests.support.process_tasks import waits\napp.task(waits)\n"
        "@app.task\ndef version():\n    return {}\n"
    )
    async with a_staff(app_of(tmp_path, waits.format(1)), count=1) as staff:
        gateway = staff.gateway
        assert await gateway.output(gateway.offer("version")) == 1
        old = gateway.offer("waits", {"fifo": str(fifo), "go": str(tmp_path / "go")})
        [pid] = await heard(fifo)
        app_of(tmp_path, waits.format(2_000) + "@app.task\ndef new():\n    return 'new'\n")
        staff.processes.reload()
        await gateway.until(lambda: "new" in staff.supervisor.runner.info.names)

        assert await gateway.output(gateway.offer("version")) == 2_000
        assert await gateway.output(gateway.offer("new")) == "new"
        await asyncio.to_thread((tmp_path / "go").write_text, "done")
        assert await gateway.output(old) == "done"
        assert await dead(pid)


async def test_what_cannot_be_loaded_anew_replaces_nothing_until_it_is_mended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tenuto")
    version = "@app.task\ndef version():\n    return {}\n"
    async with a_staff(app_of(tmp_path, version.format(1)), count=1) as staff:
        gateway = staff.gateway
        app_of(tmp_path, "raise ValueError('half-written')")
        staff.processes.reload()
        while "app_not_reloaded" not in caplog.text:  # noqa: ASYNC110  nobody announces it
            await asyncio.sleep(0.02)
        assert "half-written" in caplog.text
        assert await gateway.output(gateway.offer("version")) == 1

        app_of(tmp_path, version.format(2_000) + "# mended, and longer than before\n")
        staff.processes.reload()
        while "app_reloaded" not in caplog.text:  # noqa: ASYNC110  nobody announces it
            await asyncio.sleep(0.02)
        assert await gateway.output(gateway.offer("version")) == 2_000


async def test_while_no_process_can_be_started_no_task_is_asked_for(tmp_path: Path) -> None:
    text = (
        "@app.task\ndef dies():\n    os._exit(1)\n@app.task\ndef echo(value):\n    return value\n"
    )
    async with a_staff(app_of(tmp_path, text), count=1) as staff:
        gateway = staff.gateway
        app_of(tmp_path, "raise ValueError('broken meanwhile')")
        gateway.offer("dies")
        await gateway.until(lambda: staff.supervisor.runner.info.names == ())

        app_of(tmp_path, text + "# mended, and longer than before\n")
        await gateway.until(lambda: staff.supervisor.runner.info.names == ("dies", "echo"))
        assert await gateway.output(gateway.offer("echo", {"value": 1})) == 1


async def test_a_drain_waits_for_what_ends(fifo: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    async with a_staff(STAFF_APP, count=1) as staff:
        lease = staff.gateway.offer("waits", {"fifo": str(fifo), "go": str(tmp_path / "go")})
        await heard(fifo)
        staff.stopping.set()
        await asyncio.to_thread((tmp_path / "go").write_text, "done")
        await staff.stop()

    assert staff.gateway.results[lease.task_id] == Success(output='"done"')
    assert staff.gateway.calls[-1] == "leave"


@pytest.mark.parametrize("name", ["aheeds", "heeds", "ignores_stop"])
async def test_a_drain_gives_back_what_does_not_end_and_nothing_of_it_goes_on(
    fifo: Path, name: str
) -> None:
    called = {"ignores_stop": "spins"}.get(name, name)
    async with a_staff(STAFF_APP, count=1, grace_us=0) as staff:
        lease = staff.gateway.offer(called, {"fifo": str(fifo)})
        [pid] = await heard(fifo)
        await staff.stop()

        assert staff.gateway.released == [lease.task_id]
        assert staff.gateway.losses == []
        assert await dead(pid)


async def test_a_drain_that_is_hurried_gives_back_at_once(fifo: Path) -> None:
    async with a_staff(STAFF_APP, count=1) as staff:
        lease = staff.gateway.offer("aheeds", {"fifo": str(fifo)})
        await heard(fifo)
        staff.stopping.set()
        staff.supervisor.hurry()
        await staff.stop()

        assert staff.gateway.released == [lease.task_id]


async def lose_contact(staff_processes: object, lease: Lease) -> None:
    """From here on the process hears of no extension: as if the supervisor were frozen."""
    ends = monotonic() + 0.5
    for handle in staff_processes._handles:  # type: ignore[attr-defined]
        handle.send({"do": "until", "leases": {lease.lease_id: ends}})


async def test_a_process_stops_work_whose_lease_is_over_while_the_supervisor_is_silent(
    fifo: Path,
) -> None:
    async with a_staff(STAFF_APP, count=1) as staff:
        lease = staff.gateway.offer("aheeds", {"fifo": str(fifo)})
        await heard(fifo)
        await lose_contact(staff.processes, lease)
        proof = fifo.with_name("told.proof")
        while not proof.exists():  # noqa: ASYNC110  nobody announces it
            await asyncio.sleep(0.02)

        assert await staff.gateway.output(staff.gateway.offer("echo", {"value": 1})) == 1


async def test_a_process_ends_itself_when_such_work_does_not_stop(
    fifo: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_staff(STAFF_APP, count=1) as staff:
        lease = staff.gateway.offer("spins", {"fifo": str(fifo)})
        [pid] = await heard(fifo)
        await lose_contact(staff.processes, lease)

        assert await dead(pid)
        await staff.gateway.until(lambda: lease.task_id in staff.gateway.losses)
        await staff.gateway.output(staff.gateway.offer("echo", {"value": 1}))
    assert "while the supervisor was silent" in caplog.text
    assert FENCED > 0


async def test_nothing_is_left_when_the_launcher_is_gone() -> None:
    async with a_staff(STAFF_APP, count=2) as staff:
        pids = staff.processes.pids
        assert len(set(pids)) == 2

    assert [await dead(pid) for pid in pids] == [True, True]

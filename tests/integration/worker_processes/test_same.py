"""What a function's author may rely on, the same in an embedded engine and in the task processes of `tenuto worker`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.gateway import MemoryGateway
from tests.support.process_tasks import heard, until_dead
from tests.support.staff import STAFF_APP, a_staff, an_embedded

from tenuto.ports.gateway import Failed, Lease, NoteKind, Success
from tenuto.worker.registry import Registry

LEASE_US = 3_000_000
"""So that heartbeats come once a second, and no pause of the machine ends a lease."""


@pytest.fixture(scope="module")
def registry() -> Registry:
    from tests.support.staff_app import app

    return app.registry


@pytest.fixture(params=["embedded", "processes"])
async def gateway(
    request: pytest.FixtureRequest, registry: Registry
) -> AsyncIterator[MemoryGateway]:
    if request.param == "embedded":
        async with an_embedded(registry, lease_us=LEASE_US) as found:
            yield found
    else:
        async with a_staff(STAFF_APP, count=2, lease_us=LEASE_US) as staff:
            yield staff.gateway


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "told")
    return tmp_path / "told"


def proof_of(fifo: Path) -> Path:
    return fifo.with_name("told.proof")


async def until_written(path: Path) -> str:
    """Wait for what a stopped function leaves behind."""
    while not path.exists() or not path.read_text():  # noqa: ASYNC110, ASYNC240  nobody announces it
        await asyncio.sleep(0.01)
    return path.read_text()  # noqa: ASYNC240


def cancel(gateway: MemoryGateway, lease: Lease) -> None:
    """From the next heartbeat on nobody wants it any more."""
    gateway.cancelled.add(lease.lease_id)


@pytest.mark.parametrize("name", ["echo", "own_echo"])
async def test_a_value_comes_back_as_it_went(gateway: MemoryGateway, name: str) -> None:
    value = {"text": "ä", "list": [1, 2.5, None, True]}

    assert await gateway.output(gateway.offer(name, {"value": value})) == value


@pytest.mark.parametrize("name", ["who", "own_who"])
async def test_it_knows_which_attempt_it_is(gateway: MemoryGateway, name: str) -> None:
    lease = gateway.offer(name, place="pay", attempt=3)

    assert await gateway.output(lease) == [lease.run_id, "pay", 3, lease.task_id, "pay"]


@pytest.mark.parametrize("name", ["fails", "own_fails"])
async def test_a_task_error_is_the_failure_that_it_says(gateway: MemoryGateway, name: str) -> None:
    failed = await gateway.failure(gateway.offer(name))

    assert (failed.code, failed.message, failed.details, failed.retryable) == (
        "no_stock",
        "nothing there",
        '{"left":0}',
        False,
    )


@pytest.mark.parametrize("name", ["breaks", "own_breaks"])
async def test_an_exception_is_told_with_its_line(gateway: MemoryGateway, name: str) -> None:
    failed = await gateway.failure(gateway.offer(name))

    assert (failed.code, failed.message) == ("ValueError", "broken")
    assert failed.classes == ("ValueError", "Exception")
    assert "raise ValueError" in (failed.details or "")


@pytest.mark.parametrize("name", ["leaves", "own_leaves"])
async def test_an_exit_is_its_failure_and_nobody_elses(gateway: MemoryGateway, name: str) -> None:
    failed = await gateway.failure(gateway.offer(name, {"code": 3}))

    assert failed.code == "SystemExit"
    assert await gateway.output(gateway.offer("echo", {"value": 1})) == 1


async def test_what_no_json_can_hold_fails_for_good(gateway: MemoryGateway) -> None:
    failed = await gateway.failure(gateway.offer("unstorable"))

    assert (failed.code, failed.retryable) == ("invalid_result", False)


async def test_arguments_that_do_not_fit_are_told(gateway: MemoryGateway) -> None:
    failed = await gateway.failure(gateway.offer("echo", {"valeu": 1}))

    assert failed.code == "bad_arguments"
    assert "did you mean 'value'?" in failed.message


async def test_a_task_that_nobody_has_is_told(gateway: MemoryGateway) -> None:
    failed = await gateway.failure(gateway.offer("ecko"))

    assert failed.code == "unknown_task"
    assert "did you mean 'echo'?" in failed.message


@pytest.mark.parametrize("name", ["says", "own_says"])
async def test_what_it_says_is_kept_before_its_result(gateway: MemoryGateway, name: str) -> None:
    lease = gateway.offer(name)
    await gateway.result(lease)

    kinds = {note.kind: note.text for note in gateway.notes if note.place == lease.place}
    assert json.loads(kinds[NoteKind.PROGRESS]) == {"done": 1, "total": 4, "message": "a quarter"}
    assert kinds[NoteKind.LOG] == "said part=logger"
    assert gateway.calls.index("note") < gateway.calls.index("report")


@pytest.mark.parametrize("name", ["beats", "own_beats"])
async def test_its_own_heartbeats_are_passed_on(gateway: MemoryGateway, name: str) -> None:
    gateway.offer(name, {"times": 10_000, "pause": 0.02}, heartbeat_us=300_000)

    await gateway.until(
        lambda: [beat.alive for beats in gateway.beats for beat in beats].count(True) >= 3
    )


async def test_silence_is_not_taken_for_a_heartbeat(gateway: MemoryGateway) -> None:
    gateway.offer("anap", {"seconds": 1_000}, heartbeat_us=300_000)

    await gateway.until(lambda: sum(map(len, gateway.beats)) >= 3)
    assert {beat.alive for beats in gateway.beats for beat in beats} == {False}


@pytest.mark.parametrize("name", ["heeds", "aheeds", "own_heeds", "own_aheeds"])
async def test_a_cancelled_task_is_told_and_its_result_dropped(
    gateway: MemoryGateway, fifo: Path, name: str
) -> None:
    lease = gateway.offer(name, {"fifo": str(fifo)})
    await heard(fifo)
    cancel(gateway, lease)

    assert await until_written(proof_of(fifo)) in ("stopped", "cancelled: True")
    assert await gateway.output(gateway.offer("echo", {"value": 1})) == 1
    assert lease.task_id not in gateway.results


@pytest.mark.parametrize("name", ["aheeds", "own_ignores_terminate"])
async def test_a_timeout_is_reported_and_the_work_has_ended(
    gateway: MemoryGateway, fifo: Path, name: str
) -> None:
    # It must have begun by then, in a process that is started for it.
    lease = gateway.offer(name, {"fifo": str(fifo)}, attempt_us=10_000_000)
    [pid] = await heard(fifo)

    assert (await gateway.failure(lease)).code == "timeout"
    if name == "own_ignores_terminate":
        assert await asyncio.to_thread(until_dead, pid, 20.0)


async def test_the_next_attempt_waits_for_a_thread_that_does_not_stop(
    gateway: MemoryGateway, fifo: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    first = gateway.offer(
        "waits", {"fifo": str(fifo), "go": str(tmp_path / "go")}, place="n", attempt_us=5_000_000
    )
    await heard(fifo)
    assert (await gateway.failure(first)).code == "timeout"

    second = gateway.offer("echo", {"value": 2}, place="n", attempt=2)
    assert await gateway.output(gateway.offer("echo", {"value": 1})) == 1
    assert isinstance(gateway.results[second.task_id], Failed)  # that of the first attempt still
    await asyncio.to_thread((tmp_path / "go").write_text, "done")
    await gateway.until(lambda: isinstance(gateway.results[second.task_id], Success))


async def test_a_process_of_its_own_that_dies_is_that_attempts_failure(
    gateway: MemoryGateway,
) -> None:
    failed = await gateway.failure(gateway.offer("own_dies", {"code": 3}))

    assert (failed.code, failed.details) == ("process_died", '{"exit_code":3}')

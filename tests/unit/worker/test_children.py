"""Child processes for tasks with `process=True`: real ones, fed and killed."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.support import process_tasks as tasks
from tests.support.process_tasks import heard, is_alive, is_buried, until_dead
from tests.support.worker import Crew, a_crew, turns_until
from tests.unit.worker.expiring import LONG_US, run_out

from tenuto.ports.gateway import Lease, NoteKind, Success
from tenuto.worker import children, runner


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing waits until the last child is gone, on however slow a machine."""
    monkeypatch.setattr(children, "_CLOSE_S", 60.0)


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "told")
    return tmp_path / "told"


async def dead(pid: int) -> bool:
    return await asyncio.to_thread(until_dead, pid, 20.0)


async def free(crew: Crew, lease: Lease) -> None:
    await crew.user.until_free(lease.task_id)


async def test_a_function_runs_in_another_process_which_is_used_again() -> None:
    async with a_crew({"pid": tasks.pid_of}, process=True) as crew:
        first = await crew.gateway.output(crew.gateway.offer("pid"))
        second = await crew.gateway.output(crew.gateway.offer("pid"))

    assert first == second != os.getpid()


async def test_an_async_function_runs_there_too() -> None:
    async with a_crew({"nap": tasks.anap}, process=True) as crew:
        for _ in range(2):
            pid = await crew.gateway.output(crew.gateway.offer("nap", {"seconds": 0}))

            assert isinstance(pid, int)
            assert pid != os.getpid()


async def test_no_process_starts_before_one_is_needed_and_no_more_than_are_needed() -> None:
    before = set(threading.enumerate())  # another test's may be on its way out
    async with a_crew({"pid": tasks.pid_of}, process=True, processes=3) as crew:
        new = set(threading.enumerate()) - before
        assert not any(t.name == "tenuto-children" for t in new)

        pids = {str(await crew.gateway.output(crew.gateway.offer("pid"))) for _ in range(4)}

    assert len(pids) == 1


async def test_no_more_functions_run_at_once_than_there_are_processes() -> None:
    async with a_crew({"nap": tasks.nap}, process=True, processes=2) as crew:
        leases = [crew.gateway.offer("nap", {"seconds": 0.02}) for _ in range(20)]
        spans = [await crew.gateway.output(lease) for lease in leases]

    by_pid: dict[float, list[tuple[float, float]]] = {}
    for span in spans:
        assert isinstance(span, list)
        pid, begun, ended = span
        by_pid.setdefault(pid, []).append((begun, ended))
    assert len(by_pid) == 2
    for times in by_pid.values():
        times.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(times))


async def test_the_attempt_knows_itself() -> None:
    async with a_crew({"who": tasks.who}, process=True) as crew:
        lease = crew.gateway.offer("who", place="n.2", attempt=3)

        assert await crew.gateway.output(lease) == [
            lease.run_id,
            lease.place,
            3,
            lease.task_id,
            "n",
        ]


async def test_arguments_results_and_failures_pass_the_same_doors_as_in_a_thread() -> None:
    functions: dict[str, Callable[..., Any]] = {
        "echo": tasks.echo,
        "fails": tasks.fails,
        "breaks": tasks.breaks,
        "odd": tasks.unstorable,
        "leaves": tasks.leaves,
    }
    offers = [
        ("echo", {"value": {"a": [1, None, 2.5, "ü😀"]}}),
        ("echo", {"valve": 1}),
        ("fails", {}),
        ("odd", {}),
        ("leaves", {"code": 3}),
    ]
    results = []
    for process in (True, False):
        async with a_crew(functions, process=process) as crew:
            leases = [crew.gateway.offer(name, params) for name, params in offers]
            results.append([await crew.gateway.result(lease) for lease in leases])
            broken = await crew.gateway.failure(crew.gateway.offer("breaks"))
            assert (broken.code, broken.message) == ("ValueError", "broken")
            [place, line] = json.loads(broken.details or "")["traceback"]
            assert "process_tasks.py" in place
            assert "raise ValueError" in line

    assert [getattr(result, "code", "success") for result in results[0]] == [
        "success",
        "bad_arguments",
        "no_stock",
        "invalid_result",
        "SystemExit",
    ]
    for there, here in zip(*results, strict=True):
        if getattr(here, "code", "") != "SystemExit":  # its traceback is of another file
            assert there == here


async def test_large_inputs_and_outputs_pass() -> None:
    big = "x" * 1_000_000
    async with a_crew({"echo": tasks.echo, "length": tasks.length}, process=True) as crew:
        large = [crew.gateway.offer("echo", {"value": big + str(i)}) for i in range(4)]
        for i, lease in enumerate(large):
            assert await crew.gateway.output(lease) == big + str(i)
        assert await crew.gateway.output(crew.gateway.offer("length", {"text": big})) == len(big)


async def test_what_an_attempt_says_reaches_the_engine(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tenuto"):
        async with a_crew({"says": tasks.says}, process=True) as crew:
            lease = crew.gateway.offer("says")
            await crew.gateway.output(lease)
            await crew.stop()

    [progress] = [note for note in crew.gateway.notes if note.kind is NoteKind.PROGRESS]
    assert json.loads(progress.text) == {"done": 1, "total": 4, "message": "a quarter"}
    said = [record.tenuto for record in caplog.records if hasattr(record, "tenuto")]
    parts = {line["part"]: line for line in said if line["event"] == "said"}
    assert parts.keys() == {"logger", "root"}
    assert parts["logger"]["task_id"] == lease.task_id
    assert {record.name for record in caplog.records} == {"tenuto.task", "tenuto.mine"}


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("crashes", {}, "was killed by SIGSEGV"),
        ("killed", {"number": int(signal.SIGKILL)}, "was killed by SIGKILL: out of memory"),
        ("killed", {"number": int(signal.SIGABRT)}, "was killed by SIGABRT"),
        ("dies", {"code": 3}, "ended itself with exit code 3"),
        ("dies", {"code": 0}, "ended itself with exit code 0"),
    ],
)
async def test_a_process_that_dies_is_its_attempts_failure_and_the_next_gets_another(
    name: str, params: dict[str, int], said: str
) -> None:
    functions: dict[str, Callable[..., Any]] = {
        "crashes": tasks.crashes,
        "killed": tasks.is_killed,
        "dies": tasks.dies,
    }
    async with a_crew({**functions, "pid": tasks.pid_of}, process=True, processes=1) as crew:
        before = await crew.gateway.output(crew.gateway.offer("pid"))
        failure = await crew.gateway.failure(crew.gateway.offer(name, params))
        after = await crew.gateway.output(crew.gateway.offer("pid"))

    assert (failure.code, failure.retryable) == ("process_died", True)
    assert said in failure.message
    assert before != after


async def test_a_result_that_was_said_before_the_process_died_counts_and_an_idle_death_is_no_failure(
    fifo: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_crew({"later": tasks.dies_later, "pid": tasks.pid_of}, process=True) as crew:
        pid = await crew.gateway.output(crew.gateway.offer("later", {"fifo": str(fifo)}))
        assert await heard(fifo) == [pid]
        assert isinstance(pid, int)
        await turns_until(lambda: is_buried(pid))

        assert await crew.gateway.output(crew.gateway.offer("pid")) != pid

    assert "idle_child_died" in caplog.text


@pytest.mark.parametrize("name", ["spins", "holds", "ignores", "begets"])
async def test_whatever_a_function_does_it_ends_with_its_time_and_so_does_what_it_started(
    fifo: Path, name: str
) -> None:
    functions: dict[str, Callable[..., Any]] = {
        "spins": tasks.spins,
        "holds": tasks.holds_the_interpreter,
        "ignores": tasks.ignores_terminate,
        "begets": tasks.begets,
        "pid": tasks.pid_of,
    }
    async with a_crew(functions, process=True, processes=1) as crew:
        first = crew.gateway.offer(name, {"fifo": str(fifo)}, place="n", attempt_us=LONG_US)
        pids = await heard(fifo)
        run_out(crew, first)
        failure = await crew.gateway.failure(first)
        second = crew.gateway.offer("pid", place="n", attempt=2)
        del crew.gateway.results[first.task_id]
        other = await crew.gateway.output(second)

        assert failure.code == "timeout"
        assert other not in pids
        assert not is_alive(pids[0])  # for certain, before the next attempt was given to anybody
        for pid in pids:
            assert await dead(pid)


@pytest.mark.parametrize("function", [tasks.ignores_terminate, tasks.lingers])
async def test_the_next_attempt_waits_until_the_process_of_the_last_is_gone(
    fifo: Path, function: Callable[..., Any]
) -> None:
    async with a_crew({"f": function}, process=True) as crew:
        lease = crew.gateway.offer("f", {"fifo": str(fifo)}, place="n")
        [pid] = await heard(fifo)
        crew.gateway.cancelled.add(lease.lease_id)
        await crew.runner.beat()

        assert crew.user.busy(lease.task_id)
        await free(crew, lease)
        assert not is_alive(pid)


@pytest.mark.parametrize("name", ["plain", "later"])
async def test_a_function_may_clean_up_when_it_is_stopped(
    fifo: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(children, "KILL_AFTER_S", 60.0)  # it may be slow, as long as it obeys
    functions = {"plain": tasks.cleans_up, "later": tasks.acleans_up}
    proof = fifo.with_name("proof")
    async with a_crew(functions, process=True) as crew:
        lease = crew.gateway.offer(name, {"fifo": str(fifo), "proof": str(proof)})
        [pid] = await heard(fifo)
        crew.gateway.lost.add(lease.lease_id)
        await crew.runner.beat()
        await free(crew, lease)

    assert proof.read_text() == "cancelled: True"
    assert not is_alive(pid)


async def test_a_call_that_was_cancelled_while_it_waited_for_a_process_never_runs(
    fifo: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    async with a_crew({"waits": tasks.waits}, process=True, processes=1) as crew:
        first = crew.gateway.offer("waits", {"fifo": str(fifo), "go": str(go)})
        [pid] = await heard(fifo)
        late = crew.gateway.offer("waits", {"fifo": "/none", "go": "/none"}, attempt_us=20_000)
        assert (await crew.gateway.failure(late)).code == "timeout"
        await free(crew, late)
        assert is_alive(pid)

        await asyncio.to_thread(go.write_text, "on")
        assert await crew.gateway.output(first) == "on"


async def test_only_the_functions_own_heartbeats_are_told_to_the_gateway(fifo: Path) -> None:
    async with a_crew({"beats": tasks.beats, "stops": tasks.stops_itself}, process=True) as crew:
        endless = {"times": 100_000, "pause": 0.05}
        beating = crew.gateway.offer("beats", endless, heartbeat_us=300_000)
        silent = crew.gateway.offer("stops", {"fifo": str(fifo)}, heartbeat_us=300_000)
        [pid] = await heard(fifo)
        told = crew.gateway.beats
        await crew.gateway.until(
            lambda: any(
                beat.lease_id == silent.lease_id and not beat.alive
                for beats in told[-1:]
                for beat in beats
            )
        )
        told.clear()

        def alive() -> list[str]:
            return [beat.lease_id for beats in told for beat in beats if beat.alive]

        await crew.gateway.until(lambda: alive().count(beating.lease_id) >= 3)

        assert set(alive()) == {beating.lease_id}
        crew.gateway.cancelled |= {beating.lease_id, silent.lease_id}
        await crew.runner.beat()
        await free(crew, beating)
        await free(crew, silent)
        assert not is_alive(pid)


async def test_an_attempt_that_waits_for_its_process_is_not_silent(
    fifo: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    async with a_crew({"waits": tasks.waits, "pid": tasks.pid_of}, process=True, processes=1) as it:
        first = it.gateway.offer("waits", {"fifo": str(fifo), "go": str(go)})
        await heard(fifo)
        waiting = it.gateway.offer("pid", heartbeat_us=100_000)
        await it.gateway.until(
            lambda: (
                sum(b.lease_id == waiting.lease_id for beats in it.gateway.beats for b in beats) > 2
            )
        )
        beats = [b for beats in it.gateway.beats for b in beats if b.lease_id == waiting.lease_id]

        assert all(beat.alive for beat in beats)
        await asyncio.to_thread(go.write_text, "on")
        await it.gateway.output(first)
        await it.gateway.output(waiting)


async def test_a_drain_lets_an_attempt_end_and_leaves_no_process(
    fifo: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    async with a_crew({"waits": tasks.waits}, process=True) as crew:
        lease = crew.gateway.offer("waits", {"fifo": str(fifo), "go": str(go)})
        [pid] = await heard(fifo)
        crew.stopping.set()
        os.kill(pid, signal.SIGINT)  # a Ctrl-C, and what a service manager sends to all at once
        os.kill(pid, signal.SIGTERM)
        await asyncio.to_thread(go.write_text, "on")
        assert await crew.gateway.output(lease) == "on"
    assert is_buried(pid)


async def test_a_drain_that_is_over_gives_the_attempt_back_after_its_process_is_gone(
    fifo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for patience in ("_UNWIND_US", "_LAST_US"):  # the kill leaves a fifth of a second of them
        monkeypatch.setattr(runner, patience, LONG_US)
    async with a_crew({"ignores": tasks.ignores_terminate}, process=True, drain_us=1) as crew:
        lease = crew.gateway.offer("ignores", {"fifo": str(fifo)})
        [pid] = await heard(fifo)
        await crew.stop()

        assert crew.gateway.released == [lease.task_id]
        assert not is_alive(pid)


async def test_nothing_is_left_when_the_executor_is_closed_in_the_midst_of_work(fifo: Path) -> None:
    async with a_crew({"holds": tasks.holds_the_interpreter}, process=True) as crew:
        crew.gateway.offer("holds", {"fifo": str(fifo)})
        [pid] = await heard(fifo)
    assert is_buried(pid)
    for thread in threading.enumerate():
        if thread.name == "tenuto-children":
            thread.join(20)  # it has said its last word
            assert not thread.is_alive()


async def test_a_child_has_a_session_of_its_own_and_only_the_descriptors_it_needs() -> None:
    reading, writing = os.pipe()
    async with a_crew(
        {"env": tasks.environment, "forked": tasks.forked_holds}, process=True, held=[writing]
    ) as crew:
        found = await crew.gateway.output(crew.gateway.offer("env"))
        forked = await crew.gateway.output(crew.gateway.offer("forked", {"handle": writing}))
    os.close(writing)
    os.close(reading)

    assert isinstance(found, dict)
    assert found["session"]
    assert found["thread"]
    assert found["interrupt"] == "1"
    assert found["cwd"] == str(Path.cwd())
    extra = [fd for fd in found["fds"] if fd > 2]
    assert len(extra) == 3  # the pipe, what is held, and the listing itself
    assert writing in extra
    assert reading not in extra
    assert forked is False


async def test_a_process_that_cannot_be_started_is_an_attempts_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_crew({"pid": tasks.pid_of}, process=True) as crew:
        with monkeypatch.context() as patch:
            patch.setattr("sys.executable", "/nowhere/python")
            failure = await crew.gateway.failure(crew.gateway.offer("pid"))

        assert (failure.code, failure.retryable) == ("process_not_started", True)
        assert isinstance(await crew.gateway.result(crew.gateway.offer("pid")), Success)


@pytest.mark.parametrize("text", ["\0\0\0\x03{{{", "\0\0\0\x02[]", "\0\0\0\x02{}", "hello, world"])
async def test_a_function_that_writes_into_our_pipe_harms_itself_alone(text: str) -> None:
    async with a_crew(
        {"scribbles": tasks.scribbles, "pid": tasks.pid_of}, process=True, processes=2
    ) as crew:
        before = await crew.gateway.output(crew.gateway.offer("pid"))
        failure = await crew.gateway.failure(crew.gateway.offer("scribbles", {"text": text}))
        assert failure.code == "process_died"
        assert "the engine's own pipe" in failure.message

        assert await crew.gateway.output(crew.gateway.offer("pid")) != before


async def test_names_that_are_no_unicode_reach_a_child(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    strange = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    monkeypatch.syspath_prepend(strange)
    monkeypatch.setattr("sys.argv", ["prog", strange])
    async with a_crew({"words": tasks.words_of}, process=True) as crew:
        assert await crew.gateway.output(crew.gateway.offer("words")) == [True, True]


async def test_after_a_fault_of_ours_attempts_fail_and_do_not_come_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_crew({"pid": tasks.pid_of}, process=True) as crew:
        with monkeypatch.context() as patch:
            patch.setattr(children, "_order", lambda _: 1 // 0)
            first = await crew.gateway.failure(crew.gateway.offer("pid"))
        later = await crew.gateway.failure(crew.gateway.offer("pid"))

    assert [first.code, later.code] == ["internal", "internal"]


async def test_a_child_that_dies_before_its_first_order_costs_one_attempt_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []

    class Dying(children._Child):
        def __init__(self, held: Sequence[int]) -> None:
            super().__init__(held)
            made.append(self.pid)
            if len(made) == 1:
                os.kill(self.pid, signal.SIGKILL)
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    monkeypatch.setattr(children, "_Child", Dying)
    async with a_crew({"pid": tasks.pid_of}, process=True) as crew:
        failure = await crew.gateway.failure(crew.gateway.offer("pid"))

        assert failure.code == "process_died"
        assert await crew.gateway.output(crew.gateway.offer("pid")) == made[1]


async def test_a_death_that_somebody_else_has_waited_for_is_still_a_death(fifo: Path) -> None:
    """A program that calls `os.wait` takes the exit codes of our children, too."""
    async with a_crew({"spins": tasks.spins, "pid": tasks.pid_of}, process=True) as crew:
        lease = crew.gateway.offer("spins", {"fifo": str(fifo)})
        [pid] = await heard(fifo)
        stolen = asyncio.create_task(asyncio.to_thread(os.waitpid, pid, 0))
        await asyncio.sleep(0.05)  # it waits in the kernel, where nobody sees it come
        os.kill(pid, signal.SIGKILL)
        failure = await crew.gateway.failure(lease)
        with suppress(ChildProcessError):  # we were the first
            await stolen

        assert failure.code == "process_died"
        assert isinstance(await crew.gateway.result(crew.gateway.offer("pid")), Success)


def test_a_stopped_child_is_killed_before_the_runner_gives_up_on_unwinding_work() -> None:
    assert children.KILL_AFTER_S * 1_000_000 < runner._UNWIND_US

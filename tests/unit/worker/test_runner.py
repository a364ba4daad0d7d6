"""The runner over a gateway in memory: slots, batches, fences, verdicts, drain, trouble."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence

import pytest
from tests.support.gateway import MemoryGateway
from tests.support.worker import a_crew, turns_until
from tests.unit.worker.expiring import LONG_US, run_out

from tenuto.app.core import LEASE_US
from tenuto.model.ids import TaskId, WorkerId
from tenuto.ports.gateway import (
    Answer,
    Beat,
    Failed,
    Lease,
    Note,
    NoteKind,
    Report,
    Result,
    Success,
    WorkerInfo,
)
from tenuto.worker import noter, runner
from tenuto.worker.attempts import ProcessLost
from tenuto.worker.context import current


async def double(x: int = 1) -> int:
    return 2 * x


class Held:
    """An executor whose attempts end when the test says so."""

    def __init__(self) -> None:
        self.begun: list[Lease] = []
        self.stopped: list[Lease] = []
        self.go = asyncio.Event()
        self._changed = asyncio.Event()

    async def execute(self, lease: Lease) -> Result:
        self.begun.append(lease)
        self._changed.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.stopped.append(lease)
            self._changed.set()
            raise
        return Success(output="1")

    async def until(self, *, begun: int = 0, stopped: int = 0) -> None:
        while len(self.begun) < begun or len(self.stopped) < stopped:
            self._changed.clear()
            await self._changed.wait()


async def test_a_task_is_run_and_its_result_reported() -> None:
    async with a_crew({"double": double}) as crew:
        lease = crew.gateway.offer("double", {"x": 21})

        assert await crew.gateway.output(lease) == 42


async def test_what_has_come_begins_before_more_is_asked_for() -> None:
    seen: list[str] = []

    class Asked(MemoryGateway):
        async def lease(self, worker: WorkerId, free: int) -> Sequence[Lease]:
            seen.append("asked")
            return await super().lease(worker, free)

    class Begun:
        async def execute(self, lease: Lease) -> Result:
            seen.append("begun")
            return Success(output="1")

    async with a_crew(executors={"begun": Begun()}, gateway=Asked()) as crew:
        await crew.gateway.output(crew.gateway.offer("begun"))

    assert seen[:3] == ["asked", "begun", "asked"]


async def test_it_never_holds_more_leases_than_it_has_slots() -> None:
    held = Held()
    async with a_crew(executors={"held": held}, capacity=3) as crew:
        leases = [crew.gateway.offer("held") for _ in range(7)]
        await held.until(begun=3)

        assert len(crew.gateway.held) == 3
        held.go.set()
        for lease in leases:
            await crew.gateway.result(lease)
        assert max(crew.gateway.asked) <= 3
        assert max(crew.gateway.wants) <= 3


async def test_results_of_one_turn_go_in_one_report_that_asks_for_as_many_tasks() -> None:
    """Catalogue J13."""
    held = Held()
    async with a_crew(executors={"held": held}, capacity=5) as crew:
        for _ in range(5):
            crew.gateway.offer("held")
        await held.until(begun=5)
        held.go.set()
        await crew.gateway.until(lambda: len(crew.gateway.results) == 5)

        assert [len(reports) for reports in crew.gateway.reports] == [5]
        assert crew.gateway.wants == [5]


async def test_results_gather_while_a_report_is_under_way() -> None:
    async with a_crew({"double": double}, capacity=10) as crew:
        gateway = crew.gateway
        gateway.hold.clear()
        first = gateway.offer("double")
        await gateway.reported.wait()
        later = [gateway.offer("double", {"x": x}) for x in range(6)]
        await turns_until(lambda: len(crew.runner._finished) == 7)
        gateway.hold.set()
        for lease in [first, *later]:
            await gateway.result(lease)

        assert [len(reports) for reports in gateway.reports] == [1, 6]


async def test_a_task_that_a_report_made_ready_comes_with_its_answer() -> None:
    async with a_crew({"double": double}, capacity=1) as crew:
        first = crew.gateway.offer("double")
        second = crew.gateway.offer("double", after=first)
        await crew.gateway.result(second)

        assert crew.gateway.calls.count("lease") <= 2  # the first task, and perhaps after the last
        assert crew.gateway.wants[0] == 1


async def test_what_was_asked_for_already_is_not_asked_for_again() -> None:
    """One slot of two is asked for by the waiting request, so a report may ask for its own only."""
    async with a_crew({"double": double}, capacity=2) as crew:
        await crew.gateway.result(crew.gateway.offer("double"))

        assert crew.gateway.asked == [2, 1]
        assert crew.gateway.wants == [1]


async def test_a_result_is_kept_until_the_gateway_takes_it() -> None:
    async with a_crew({"double": double}) as crew:
        gateway = crew.gateway
        gateway.down = {"report"}
        lease = gateway.offer("double", {"x": 4})
        await gateway.until(lambda: gateway.calls.count("report") >= 3)
        gateway.down = set()

        assert await gateway.output(lease) == 8
        assert all(reports == gateway.reports[0] for reports in gateway.reports)


async def test_it_goes_on_after_the_gateway_was_unavailable_for_leases() -> None:
    gateway = MemoryGateway()
    gateway.down = {"lease", "register"}
    async with a_crew({"double": double}, gateway=gateway) as crew:
        lease = gateway.offer("double")
        await gateway.until(lambda: gateway.calls.count("register") >= 2)
        gateway.down = {"lease"}
        await gateway.until(lambda: gateway.calls.count("lease") >= 2)
        gateway.down = set()

        assert await crew.gateway.output(lease) == 2
        between = gateway.calls[gateway.calls.index("lease") :]
        assert between[:3] == ["lease", "register", "lease"]  # announced again after the doubt


async def test_a_stale_report_is_dropped_and_its_slot_is_free_again() -> None:
    async with a_crew({"double": double}, capacity=1) as crew:
        lost = crew.gateway.offer("double")
        crew.gateway.lost.add(lost.lease_id)
        kept = crew.gateway.offer("double")
        await crew.gateway.result(kept)

        assert lost.task_id not in crew.gateway.results
        assert sum(len(reports) for reports in crew.gateway.reports) == 2


@pytest.mark.rule("F7.2")
@pytest.mark.parametrize("verdict", ["cancelled", "lost"])
async def test_work_is_stopped_when_a_heartbeat_says_that_its_lease_is_gone(verdict: str) -> None:
    """Catalogue B8."""
    held = Held()
    async with a_crew(executors={"held": held}, lease_us=150_000) as crew:
        lease = crew.gateway.offer("held")
        await held.until(begun=1)
        getattr(crew.gateway, verdict).add(lease.lease_id)
        await held.until(stopped=1)
        await turns_until(lambda: not crew.runner.holds(lease.lease_id))

        assert crew.gateway.reports == []


@pytest.mark.rule("D1.2")
async def test_heartbeats_keep_leases_alive_in_one_call_for_all() -> None:
    """Catalogue B8."""
    held = Held()
    async with a_crew(executors={"held": held}) as crew:
        # Beats that are soon and leases that are long: a machine that stands still for a while loses none.
        leases = [crew.gateway.offer("held", heartbeat_us=150_000) for _ in range(3)]
        await held.until(begun=3)

        def ends() -> list[float]:
            return [crew.runner.fence_of(lease.lease_id) or 0.0 for lease in leases]

        before = ends()
        await crew.gateway.until(lambda: len(crew.gateway.beats) >= 3)
        await turns_until(lambda: all(end > was for end, was in zip(ends(), before, strict=True)))
        held.go.set()
        for lease in leases:
            assert isinstance(await crew.gateway.result(lease), Success)

        assert len(crew.gateway.beats[-1]) == 3
        assert crew.gateway.loads[-1].busy == 3
        assert held.stopped == []


@pytest.mark.rule("D1.2")
async def test_D1_a_lease_lasts_ten_seconds_and_a_heartbeat_comes_in_each_third() -> None:
    held = Held()
    assert LEASE_US == runner.LEASE_US == 10_000_000
    async with a_crew(executors={"held": held}, lease_us=LEASE_US) as crew:
        crew.gateway.offer("held")
        await held.until(begun=1)

        assert crew.runner._beat_pause() == pytest.approx(10 / 3)
        held.go.set()


@pytest.mark.rule("F7.1")
async def test_work_is_stopped_when_its_lease_runs_out_without_an_answer() -> None:
    """Catalogue B7."""
    held = Held()
    async with a_crew(executors={"held": held}, lease_us=150_000) as crew:
        lease = crew.gateway.offer("held")
        await held.until(begun=1)  # a lease that came late would be confirmed by a heartbeat first
        crew.gateway.down = {"heartbeat"}
        await held.until(stopped=1)
        crew.gateway.down = set()
        other = crew.gateway.offer("held")
        held.go.set()
        await crew.gateway.result(other)

        assert lease.task_id not in crew.gateway.results
        assert not crew.runner.holds(lease.lease_id)


async def test_a_finished_result_is_not_fenced() -> None:
    async with a_crew({"double": double}) as crew:
        crew.gateway.down = {"report", "heartbeat"}
        lease = crew.gateway.offer("double")
        await crew.gateway.until(lambda: "report" in crew.gateway.calls)
        # Not by a short lease: that could be over before there is a result.
        crew.runner._held[lease.lease_id].fence_at = 0.0
        crew.runner._fence_off()
        crew.gateway.down = set()

        assert await crew.gateway.output(lease) == 2


async def test_a_lease_that_came_after_a_long_wait_is_confirmed_before_work_begins() -> None:
    """Counted from its request it would be over already; nothing may start on a lease that is gone."""
    held = Held()
    async with a_crew(executors={"held": held}, lease_us=90_000) as crew:
        await crew.gateway.until(lambda: crew.gateway.loads)  # the request waits for three beats
        lost, good = crew.gateway.offer("held"), crew.gateway.offer("held")
        crew.gateway.lost.add(lost.lease_id)
        await held.until(begun=1)
        await turns_until(lambda: not crew.runner.holds(lost.lease_id))

        assert held.begun == [good]


async def test_an_attempt_that_outlives_its_time_fails_with_timeout() -> None:
    held = Held()
    async with a_crew(executors={"held": held}) as crew:
        lease = crew.gateway.offer("held", attempt_us=30_000)
        failure = await crew.gateway.failure(lease)

        assert (failure.code, failure.message) == ("timeout", "no result within 30ms")
        assert failure.retryable
        assert held.stopped == [lease]


async def test_time_that_a_request_waited_for_a_task_is_not_the_attempts() -> None:
    held = Held()
    async with a_crew(executors={"held": held}) as crew:
        crew.gateway.offer("held")
        await crew.gateway.until(lambda: len(crew.gateway.asked) == 2)
        ready_at = asyncio.get_running_loop().time()  # the second request is older
        second = crew.gateway.offer("held", attempt_us=LONG_US)
        await held.until(begun=2)

        over_at = crew.runner._held[second.lease_id].over_at
        assert over_at is not None
        assert over_at >= ready_at + LONG_US / 1_000_000
        held.go.set()
        await crew.gateway.output(second)


async def test_a_fault_of_an_executor_is_one_attempts_failure() -> None:
    class Broken:
        async def execute(self, lease: Lease) -> Result:
            raise ZeroDivisionError("ours")

    async with a_crew({"double": double}, executors={"broken": Broken()}) as crew:
        broken, sound = crew.gateway.offer("broken"), crew.gateway.offer("double")

        assert (await crew.gateway.failure(broken)).code == "internal"
        assert await crew.gateway.output(sound) == 2


async def test_draining_finishes_what_runs_takes_nothing_new_and_leaves() -> None:
    held = Held()
    async with a_crew(executors={"held": held}) as crew:
        lease = crew.gateway.offer("held")
        await held.until(begun=1)
        crew.stopping.set()
        await asyncio.sleep(0)
        late = crew.gateway.offer("held")
        held.go.set()
        await crew.stop()

        assert isinstance(crew.gateway.results[lease.task_id], Success)
        assert list(crew.gateway.tasks) == [late]
        assert crew.gateway.wants == [0]
        assert crew.gateway.calls[-1] == "leave"


async def test_draining_releases_what_does_not_end_in_time() -> None:
    held = Held()
    async with a_crew(executors={"held": held}, drain_us=1) as crew:
        leases = [crew.gateway.offer("held") for _ in range(2)]
        await held.until(begun=2)
        await crew.stop()

        assert sorted(crew.gateway.released) == sorted(lease.task_id for lease in leases)
        assert held.stopped == leases
        assert crew.gateway.reports == []
        assert crew.gateway.calls[-1] == "leave"


async def test_work_that_cannot_be_stopped_is_not_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Somebody else would start it while it still runs here; its lease ends by itself."""
    monkeypatch.setattr(runner, "_UNWIND_US", 20_000)
    begun, go = threading.Event(), threading.Event()

    def stubborn() -> None:
        begun.set()
        go.wait()

    async with a_crew({"stubborn": stubborn}, drain_us=1) as crew:
        crew.gateway.offer("stubborn")
        await asyncio.to_thread(begun.wait)
        await crew.stop()
        go.set()

        assert crew.gateway.released == []
        assert crew.gateway.calls[-1] == "leave"


async def test_an_answer_that_comes_during_the_drain_is_given_back() -> None:
    """Catalogue B16."""
    held = Held()
    async with a_crew({"double": double}, executors={"held": held}, capacity=2) as crew:
        gateway = crew.gateway
        gateway.hold.clear()
        first = gateway.offer("double")
        eager = gateway.offer("held", after=first)
        await gateway.reported.wait()
        crew.stopping.set()
        await asyncio.sleep(0)
        gateway.hold.set()
        await crew.stop()

        assert gateway.released == [eager.task_id]
        assert held.begun == []


async def test_a_function_that_outlives_its_timeout_keeps_its_next_attempt_waiting() -> None:
    running, most, go = 0, 0, threading.Event()
    begun = threading.Semaphore(0)

    def slow() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        begun.release()
        if current().attempt == 1:
            go.wait()
        running -= 1
        return "done"

    async with a_crew({"slow": slow}) as crew:
        first = crew.gateway.offer("slow", place="n", attempt_us=LONG_US)
        await asyncio.to_thread(begun.acquire)
        run_out(crew, first)
        assert (await crew.gateway.failure(first)).code == "timeout"
        crew.gateway.results.clear()

        second = crew.gateway.offer("slow", place="n", attempt=2)
        await crew.gateway.until(lambda: second.lease_id in crew.gateway.held)
        await asyncio.sleep(0)
        assert not begun.acquire(blocking=False)
        go.set()

        assert await crew.gateway.output(second) == "done"
        assert most == 1


async def test_an_attempt_whose_turn_does_not_come_in_its_time_is_given_back_unburned() -> None:
    begun, go = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        go.wait()

    async with a_crew({"slow": slow}) as crew:
        first = crew.gateway.offer("slow", place="n", attempt_us=LONG_US)
        await asyncio.to_thread(begun.wait)
        run_out(crew, first)
        assert (await crew.gateway.failure(first)).code == "timeout"
        second = crew.gateway.offer("slow", place="n", attempt=2, attempt_us=50_000)
        await crew.gateway.until(lambda: crew.gateway.released)
        go.set()

        assert crew.gateway.released == [second.task_id]
        assert crew.gateway.attempts == [(first.task_id, 1)]


async def test_a_coroutine_that_blocks_for_two_leases_delays_only_its_neighbours() -> None:
    """User code has no share in the engine's loop: heartbeats go on, and so do other executors. Catalogue B10."""
    blocked, go = threading.Event(), threading.Event()

    async def blocking() -> str:
        blocked.set()
        go.wait()
        return "kept its lease"

    class Elsewhere:
        async def execute(self, lease: Lease) -> Result:
            return Success(output="2")

    async with a_crew(
        {"blocking": blocking, "double": double}, executors={"http": Elsewhere()}
    ) as crew:
        gateway = crew.gateway
        # Beats that are soon and a lease that is long: a machine that stands still for a while loses none.
        lease = gateway.offer("blocking", heartbeat_us=60_000)
        await asyncio.to_thread(blocked.wait)
        neighbour, other = gateway.offer("double"), gateway.offer("http")
        ends, beats = crew.runner.fence_of(lease.lease_id), len(gateway.beats)
        assert ends is not None
        await gateway.until(lambda: len(gateway.beats) > beats + 6)  # of more than two leases

        assert (crew.runner.fence_of(lease.lease_id) or 0.0) > ends
        assert await gateway.output(other) == 2
        assert neighbour.task_id not in gateway.results
        go.set()
        assert await gateway.output(lease) == "kept its lease"
        assert await gateway.output(neighbour) == 2


async def test_a_tasks_own_heartbeat_travels_with_the_next_beat() -> None:
    go = threading.Event()

    def alive() -> None:
        current().heartbeat()
        go.wait()

    async with a_crew({"alive": alive, "double": double}) as crew:
        await crew.gateway.result(
            crew.gateway.offer("double")
        )  # the beater sleeps for a lease's third
        crew.gateway.offer("alive", heartbeat_us=60_000)  # beats come sooner than for the lease

        def told() -> list[bool]:
            return [beat.alive for beats in crew.gateway.beats for beat in beats]

        # It may begin late; until then it is held, and silent.
        await crew.gateway.until(lambda: True in told() and not told()[-1])
        go.set()

        assert told().count(True) == 1


async def test_a_task_unknown_here_fails_and_says_what_was_probably_meant() -> None:
    async with a_crew({"double": double}) as crew:
        failure = await crew.gateway.failure(crew.gateway.offer("doubel"))

        assert failure == Failed(
            code="unknown_task", message="no task 'doubel'; did you mean 'double'?"
        )


async def test_work_stops_when_the_runner_itself_is_cancelled() -> None:
    held = Held()
    async with a_crew(executors={"held": held}) as crew:
        lease = crew.gateway.offer("held")
        await held.until(begun=1)
        assert crew.running is not None
        crew.running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await crew.running

        assert held.stopped == [lease]
        assert crew.gateway.released == []


async def test_the_work_of_a_loop_that_ended_is_released_not_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The program that gave its loop is over; the step is not at fault."""
    monkeypatch.setattr(runner, "_INTERRUPTED_US", 20_000)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=_like_asyncio_run, args=(loop,))
    thread.start()
    begun = threading.Event()

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with a_crew({"endless": endless}, loop=loop) as crew:
        lease = crew.gateway.offer("endless")
        await asyncio.to_thread(begun.wait)
        loop.call_soon_threadsafe(loop.stop)
        await crew.gateway.until(lambda: crew.gateway.released)
        await asyncio.to_thread(thread.join)

        assert crew.gateway.released == [lease.task_id]
        assert crew.gateway.reports == []


def _like_asyncio_run(loop: asyncio.AbstractEventLoop) -> None:
    """Run until stopped, then cancel what is left, as `asyncio.run` does."""
    loop.run_forever()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    loop.run_until_complete(asyncio.wait(left))
    loop.close()


async def test_what_an_attempt_says_is_handed_in_before_its_result() -> None:
    def talk() -> int:
        current().progress(1, 2, "half")
        return 1

    async with a_crew({"talk": talk}) as crew:
        await crew.gateway.output(crew.gateway.offer("talk"))

        calls = crew.gateway.calls
        assert calls.index("note") < calls.index("report")
        assert [note.number for note in crew.gateway.notes] == [0]


async def test_what_an_attempt_says_is_handed_in_while_it_runs() -> None:
    go = threading.Event()

    def talk() -> int:
        current().progress(1, 2, "half")
        return int(go.wait(30))

    async with a_crew({"talk": talk}) as crew:
        lease = crew.gateway.offer("talk")
        await crew.gateway.until(lambda: crew.gateway.notes)
        assert lease.task_id not in crew.gateway.results
        go.set()
        assert await crew.gateway.output(lease) == 1


async def test_what_an_attempt_said_is_handed_in_before_it_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for patience in ("_UNWIND_US", "_LAST_US"):  # the user's loop may be slow to end it
        monkeypatch.setattr(runner, patience, LONG_US)

    async def talk() -> None:
        current().progress(1, 2, "half")
        await asyncio.Event().wait()

    async with a_crew({"talk": talk}, drain_us=1) as crew:
        lease = crew.gateway.offer("talk")
        await turns_until(lambda: crew.runner._notebook.has_notes)
        await crew.stop()

        assert crew.gateway.released == [lease.task_id]
        assert [json.loads(note.text)["message"] for note in crew.gateway.notes] == ["half"]


async def test_a_function_that_outlives_its_attempt_goes_on_saying_until_it_ends() -> None:
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()
    contexts = []

    def talk() -> None:
        contexts.append(current())
        current().logger.info("one")
        begun.set()
        go.wait(30)
        current().logger.info("two")
        ended.set()

    async with a_crew({"talk": talk}) as crew:
        lease = crew.gateway.offer("talk", attempt_us=LONG_US)
        await asyncio.to_thread(begun.wait)
        run_out(crew, lease)
        assert (await crew.gateway.failure(lease)).code == "timeout"
        go.set()
        await crew.user.until_free(lease.task_id)
        assert ended.is_set()
        contexts[0].logger.info("three")
        contexts[0].progress(1)
        await crew.gateway.until(lambda: len(crew.gateway.notes) == 2)

        assert [(note.number, note.text) for note in crew.gateway.notes] == [(1, "one"), (2, "two")]
        assert crew.runner._notebook._pages == {}


async def test_notes_that_nobody_takes_delay_no_result_and_come_again() -> None:
    def talk() -> int:
        current().progress(1, 2, "half")
        return 1

    async with a_crew({"talk": talk}) as crew:
        crew.gateway.down.add("note")
        await crew.gateway.output(crew.gateway.offer("talk"))
        assert crew.gateway.notes == []
        crew.gateway.down.clear()
        await crew.gateway.output(crew.gateway.offer("talk"))

        assert crew.gateway.notes


class Dying:
    """An executor whose process dies under each attempt."""

    async def execute(self, lease: Lease) -> Result:
        raise ProcessLost("gone")


async def test_a_lost_process_is_told_at_once_and_again_until_it_is_heard() -> None:
    async with a_crew({"double": double}, executors={"dies": Dying()}) as crew:
        crew.gateway.down.add("lose")
        lease = crew.gateway.offer("dies")
        await crew.gateway.until(lambda: crew.gateway.calls.count("lose") >= 2)
        assert lease.lease_id in crew.gateway.held
        crew.gateway.down.clear()
        await crew.gateway.until(lambda: crew.gateway.losses == [lease.task_id])

        assert await crew.gateway.output(crew.gateway.offer("double")) == 2
        assert lease.task_id not in crew.gateway.results
        await turns_until(lambda: crew.runner.held == 0)


class SlowToNote(MemoryGateway):
    """Takes no notes before `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.noting, self.go = asyncio.Event(), asyncio.Event()

    async def note(self, worker: WorkerId, notes: Sequence[Note]) -> None:
        self.noting.set()
        await self.go.wait()
        await super().note(worker, notes)


async def test_a_lost_process_is_told_before_notes_that_are_on_their_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its tasks run again within a second, whatever the gateway does with words."""

    class Dies(Held):
        async def execute(self, lease: Lease) -> Result:
            await super().execute(lease)
            raise ProcessLost("gone")

    monkeypatch.setattr(noter, "FLUSH_S", 600)
    dies, gateway = Dies(), SlowToNote()
    async with a_crew(executors={"dies": dies}, gateway=gateway) as crew:
        lease = crew.gateway.offer("dies")
        await dies.until(begun=1)
        crew.runner._notebook.add(lease, NoteKind.LOG, "my last words")
        await gateway.noting.wait()
        dies.go.set()
        async with asyncio.timeout(30):
            await crew.gateway.until(lambda: crew.gateway.losses == [lease.task_id])
        assert crew.gateway.notes == []
        gateway.go.set()
        await crew.gateway.until(lambda: crew.gateway.notes)


async def test_a_hurried_drain_waits_no_longer() -> None:
    held = Held()
    async with a_crew(executors={"held": held}) as crew:
        lease = crew.gateway.offer("held")
        await held.until(begun=1)
        crew.stopping.set()
        crew.runner.hurry()
        await crew.stop()

        assert crew.gateway.released == [lease.task_id]


async def test_it_says_what_it_holds_when_it_announces_itself_again() -> None:
    held = Held()
    async with a_crew(executors={"held": held}, capacity=5) as crew:
        kept, astray = crew.gateway.offer("held"), crew.gateway.offer("held")
        await held.until(begun=2)
        crew.runner._forget(crew.runner._held[astray.lease_id])  # as if its answer had never come
        await crew.runner._register(asyncio.Event())

        assert kept.lease_id in crew.gateway.held
        await held.until(begun=3)  # the other one was given back, and is handed out again
        assert crew.runner.fence_of(kept.lease_id) is not None
        held.go.set()


async def test_an_outage_is_told_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "tenuto")
    async with a_crew({"double": double}) as crew:
        crew.gateway.down.add("report")
        lease = crew.gateway.offer("double")
        await crew.gateway.until(lambda: crew.gateway.calls.count("report") >= 3)
        crew.gateway.down.clear()

        assert await crew.gateway.output(lease) == 2
        await turns_until(lambda: "gateway_available" in caplog.text)
    assert caplog.text.count("gateway_unavailable") == 1


class Registering(MemoryGateway):
    """Compares what is held as the engine does: after a write."""

    def __init__(self) -> None:
        super().__init__()
        self.again = asyncio.Event()
        self.go = asyncio.Event()

    async def register(self, worker: WorkerInfo, held: Sequence[Beat] | None = None) -> None:
        if "register" in self.calls:
            self.again.set()
            await self.go.wait()
        await super().register(worker, held)


async def test_no_report_brings_leases_while_it_registers_with_what_it_holds() -> None:
    """They would be none of those, and be given to somebody else."""

    class Doubtful(Registering):
        async def lease(self, worker: WorkerId, free: int) -> Sequence[Lease]:
            if len(self.asked) == 1:
                self.down.add("lease")  # of which the worker registers again
            return await super().lease(worker, free)

    quick, held, gateway = Held(), Held(), Doubtful()
    async with a_crew(executors={"quick": quick, "held": held}, capacity=2, gateway=gateway):
        first = gateway.offer("quick")
        second = gateway.offer("held", after=first)
        await gateway.again.wait()
        gateway.down.clear()
        quick.go.set()
        await gateway.result(first)
        assert gateway.wants == [0]
        gateway.go.set()
        await held.until(begun=1)

        assert second.lease_id in gateway.held
        held.go.set()


async def test_it_stops_at_once_also_while_nobody_answers_its_registering() -> None:
    gateway = Registering()
    gateway.calls.append("register")
    async with a_crew(gateway=gateway) as crew:
        await gateway.again.wait()
        await crew.stop()


class Busy(Held):
    """Work of an earlier attempt never ends here."""

    def busy(self, task_id: TaskId) -> bool:
        return True

    async def until_free(self, task_id: TaskId) -> None:
        await asyncio.Event().wait()

    def take_beat(self, task_id: TaskId) -> bool:
        return False


@pytest.mark.parametrize("held", [Held, Busy])
async def test_work_that_is_stopped_before_its_first_step_is_given_back(
    held: type[Held],
) -> None:
    executor = held()

    class Signalled(MemoryGateway):
        async def lease(self, worker: WorkerId, free: int) -> Sequence[Lease]:
            leases = await super().lease(worker, free)
            crew.runner.hurry()
            crew.stopping.set()
            return leases

    async with a_crew(executors={"held": executor}, gateway=Signalled()) as crew:
        lease = crew.gateway.offer("held")
        assert crew.running is not None
        await crew.running

        assert crew.gateway.released == [lease.task_id]
        assert executor.begun == []


async def test_a_result_waits_for_notes_that_are_on_their_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(noter, "FLUSH_S", 600)
    seen: list[str] = []

    class Slow(SlowToNote):
        async def note(self, worker: WorkerId, notes: Sequence[Note]) -> None:
            await super().note(worker, notes)
            seen.append("noted")

        async def report(self, worker: WorkerId, reports: Sequence[Report], want: int) -> Answer:
            seen.append("reported")
            return await super().report(worker, reports, want)

    held, gateway = Held(), Slow()
    async with a_crew(executors={"held": held}, gateway=gateway) as crew:
        lease = crew.gateway.offer("held")
        await held.until(begun=1)
        crew.runner._notebook.add(lease, NoteKind.LOG, "hello")
        await gateway.noting.wait()
        held.go.set()
        await turns_until(lambda: crew.runner._finished)
        for _ in range(20):  # it would be reported in the next one
            await asyncio.sleep(0)
        gateway.go.set()
        await crew.gateway.result(lease)

    assert seen == ["noted", "reported"]


async def test_a_cancel_that_is_not_the_workers_is_a_failure_of_that_attempt() -> None:
    class Cancelled:
        async def execute(self, lease: Lease) -> Result:
            raise asyncio.CancelledError  # as gRPC does of a call whose channel is closed

    async with a_crew(executors={"odd": Cancelled()}) as crew:
        failure = await crew.gateway.failure(crew.gateway.offer("odd"))

    assert (failure.code, failure.retryable) == ("internal", True)

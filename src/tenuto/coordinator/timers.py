"""What is due turned into events: timers, deadlines, expired leases, notices, and messages that meet an open wait.

It sleeps until the next moment that anything of its kind is due, as read by `pulse` or hinted by a commit or grant of
this process, and at most `POLL_US`: that is how long a message may lie that another process put into the same file.
Where other coordinators work on the store it looks once a second whether anything of theirs is left, by `pulse` alone:
an idle one asks one statement a second. A full batch loops at once. If it dies half-way nothing is lost: what was due
still is. Whatever it finds is compared again when its run is decided, and others may decide it first (`sharing`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tenuto.coordinator.coordinator import Coordinator
from tenuto.coordinator.matching import Matching
from tenuto.coordinator.notices import fact_of
from tenuto.coordinator.recovery import Recovery
from tenuto.coordinator.rounds import Rounds, woken
from tenuto.coordinator.setting import Setting
from tenuto.coordinator.waiting import Call, DrainWaiting, MatchWaiting, TimerWaiting, Waiting
from tenuto.machine.events import Rejection, TimerKind
from tenuto.machine.snapshot import Timer
from tenuto.model.ids import RunId
from tenuto.ports.store import Due, DueTask, Match, NoticeKind, NoticeRow, Store

DUE_MAX = 500
"""Of each kind at a time; as much as one cycle of a lane decides."""
POLL_US = 200_000
POLL_SHARED_US = 1_000_000
"""The same where others may leave something."""
PULSE_US = 1_000_000
"""At least so often all moments are read anew, and waiting tasks are offered: a lost hint costs time, not work."""
LOOK_AGAIN_US = 50_000
"""Much longer than a lease takes to reach its worker within this process."""
_NEVER = 1 << 62


class Timers:
    """The loop. `coordinator` is set before it runs, since each tells the other."""

    name = "timers"

    def __init__(
        self,
        store: Store,
        recovery: Recovery,
        setting: Setting,
    ) -> None:
        self.coordinator: Coordinator
        self._store = store
        self._recovery = recovery
        self._clock = setting.clock
        self._sole = setting.sole
        self._poll_us = POLL_US if setting.sole else POLL_SHARED_US
        self._rounds = Rounds(self.name, setting, failed=self._failed, every_us=self._poll_us)
        self._runs = setting.focus.runs
        self._matching = Matching()
        self._starting: Call | None = None
        self._wake = asyncio.Event()
        self._next_at = 0
        self._pulse_at = 0

    def hint(self, at: int) -> None:
        """Something becomes due at this moment; 0 for at once."""
        if at < self._next_at:
            self._next_at = at
            self._wake.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Work until told to stop."""
        async with woken(stopping, self._wake):
            while not stopping.is_set():
                if await self._rounds.go(self._pass, stopping) is False:
                    await self._sleep(stopping)

    def _failed(self, _: Exception) -> None:
        self._next_at = 0

    async def _pass(self) -> bool:
        """Submit what is due and learn when to come again. True: there may be more at once."""
        expected_at, self._next_at = self._next_at, _NEVER
        if not self._sole and expected_at > self._clock.now():
            self._next_at = expected_at
            return await self._look()
        due = await self._store.due(limit=DUE_MAX, runs=self._runs())
        moved = await self._submit(due)
        if moved and _longest(due) >= DUE_MAX:
            self._next_at = 0
            return True
        if not moved and expected_at > due.now and due.now < self._pulse_at:
            self._next_at = min(self._next_at, expected_at)
            return False
        if not moved and _longest(due):  # asked for again then, without a look before it
            self.hint(due.now + self._poll_us)
        await self._look(after=0 if moved else due.now)
        return False

    async def _look(self, *, after: int = 0) -> bool:
        """Read all moments anew. True: something is due.

        `after`: what was due by this moment cannot be decided now (it is left to others, say), and is asked for again
        at the next poll. Tasks and timers that have become due since come at once, and are not hidden behind it.
        """
        pulse = await self._store.pulse(self._runs(), after=after)
        self._pulse_at = pulse.now + PULSE_US
        if pulse.ready:
            for queue in pulse.queues:
                self.coordinator.graphs.see_queue(queue)
            self.coordinator.seats.offer()
        next_at = min(_or_never(pulse.tasks_at), _or_never(pulse.timers_at))
        if not self._sole and pulse.told_at is not None:
            again_at = pulse.told_at if pulse.told_at > after else pulse.now + self._poll_us
            next_at = min(next_at, again_at)
        self._next_at = min(self._next_at, next_at)
        return next_at <= pulse.now

    async def _submit(self, due: Due) -> bool:
        sharing = self.coordinator.sharing
        sharing.begin()
        tasks = sharing.mine(self._recovery.sift(due.tasks), _task_name)
        if self._recovery.doubts:
            self.hint(due.now + LOOK_AGAIN_US)
        timers = sharing.mine(due.timers, _timer_name)
        chosen, hopeless = self._matching.choose(due)
        matches = sharing.mine(chosen, _match_name)
        told = sharing.mine(due.notices, _notice_name)
        again_at = sharing.end()
        if again_at is not None:
            self.hint(again_at)
        self._start([notice for notice in told if notice.kind is NoticeKind.START])
        notices = [notice for notice in told if notice.kind is not NoticeKind.START]
        call = Call(len(tasks) + len(timers) + len(notices) + len(matches))
        facts: list[Waiting] = []
        for task in tasks:
            facts.append(self._recovery.fact(task, call, len(facts)))
        for run_id, timer in timers:
            waiting = DrainWaiting if timer.kind is TimerKind.DRAIN else TimerWaiting
            facts.append(waiting(run_id, timer, call, len(facts)))
        for notice in notices:
            facts.append(fact_of(notice, call, len(facts)))
        for match in matches:
            facts.append(MatchWaiting(match, call, len(facts)))
        self.coordinator.submit(facts)
        await call.done
        answers = call.answers[len(facts) - len(matches) :]
        for match, answer in zip(matches, answers, strict=True):
            if answer is Rejection.NO_MATCH:
                self._matching.refuse(match)
        if any(answer is not True and answer is not None for answer in answers):
            self.hint(
                0
            )  # the message's next wait: this one refused it, or has taken another one before it
        if hopeless:
            await self._store.unhint(hopeless, self._matching.refusals_of(hopeless))
        return any(answer is True for answer in call.answers)

    def _start(self, notices: Sequence[NoticeRow]) -> None:
        """Hand in children that are to begin, not waited for: thousands may, and what ends runs must not."""
        if not notices or not (self._starting is None or self._starting.done.done()):
            return
        call = self._starting = Call(len(notices))
        call.done.add_done_callback(lambda _: self._started(call))
        self.coordinator.submit(fact_of(each, call, slot) for slot, each in enumerate(notices))

    def _started(self, call: Call) -> None:
        failed = call.done.cancelled() or call.done.exception() is not None
        if not failed and any(answer is True for answer in call.answers):
            self.hint(0)  # there may be more

    async def _sleep(self, stopping: asyncio.Event) -> None:
        poll_at = self._clock.now() + self._poll_us
        while not stopping.is_set():
            self._wake.clear()
            left_us = min(self._next_at, poll_at) - self._clock.now()
            if left_us <= 0:
                return
            try:
                async with asyncio.timeout(left_us / 1_000_000):
                    await self._wake.wait()
            except TimeoutError:
                return


def _task_name(task: DueTask) -> tuple[RunId, object, str]:
    lease = None if task.lease is None else task.lease.lease_id
    return task.run_id, (task.run_id, task.place, task.attempt, lease, task.deadline), ""


def _timer_name(due: tuple[RunId, Timer]) -> tuple[RunId, object, str]:
    run_id, timer = due
    return run_id, (run_id, timer.place, timer.kind, timer.version), ""


def _match_name(match: Match) -> tuple[RunId, object, str]:
    name = (match.message_id, match.run_id, match.wait.place, match.wait.version)
    return match.run_id, name, match.message_id


def _notice_name(notice: NoticeRow) -> tuple[RunId, object, str]:
    # A child that has not begun is remembered by nobody: whoever wrote the notice has handed it in.
    return notice.run_id, (notice.run_id, notice.kind, notice.place, notice.sent_at), notice.run_id


def _longest(due: Due) -> int:
    return max(len(due.tasks), len(due.timers), len(due.notices), len(due.matches))


def _or_never(moment: int | None) -> int:
    return _NEVER if moment is None else moment

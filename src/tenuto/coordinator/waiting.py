"""What waits to be decided: facts that came in and are not events yet, and the calls they answer. No I/O.

A fact becomes an event only when its run is decided, against the rows as freshly loaded: `event` compares, and either
names the event or answers at once. The answer is given after the commit, so that it was true in the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tenuto.coordinator.batch import Batch
from tenuto.coordinator.seats import Seat
from tenuto.machine.events import (
    DeadlinePassed,
    Drained,
    Event,
    EventReceived,
    LeaseExpired,
    Rejection,
    TimerFired,
    TimerKind,
)
from tenuto.machine.snapshot import OpenedWait, Task, Timer
from tenuto.model.ids import Place, RunId, parts_of
from tenuto.model.payload import PayloadKey, Text
from tenuto.model.states import RunState, TaskState
from tenuto.ports.clock import Dice
from tenuto.ports.store import DueTask, LeaseRow, Loaded, LoadRequest, Match, NewRun, RunRow

Leased = Mapping[Place, tuple[Task, LeaseRow]]
"""Tasks of a run with their leases."""


class Call:
    """One request with a place for the answer to each of its facts, and one future for all of them.

    The future is resolved when the last answer is in; with the first exception among the answers, if there is one.
    """

    __slots__ = ("_open", "answers", "done", "seat")

    def __init__(self, size: int, seat: Seat | None = None) -> None:
        self.answers: list[Any] = [None] * size
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.seat = seat
        self._open = size
        if not size:
            self.done.set_result(None)

    def answer(self, slot: int, answer: object) -> None:
        """Give one answer; an exception is raised by whoever waits for the call."""
        self.answers[slot] = answer
        self._open -= 1
        if self._open or self.done.done():
            return
        for given in self.answers:
            if isinstance(given, BaseException):
                self.done.set_exception(given)
                return
        self.done.set_result(None)


class _Nobody(Call):
    """The call of facts that the coordinator found itself: their answers interest nobody."""

    __slots__ = ()

    def __init__(self) -> None:
        self.answers = []
        self.seat = None

    def answer(self, slot: int, answer: object) -> None:
        pass


NOBODY: Call = _Nobody()


class Wanted:
    """Keys to load for one cycle, each once.

    `started`: runs of which it is asked what was ever handed out; `again`: what could be retried inside.
    """

    __slots__ = (
        "again",
        "items",
        "notices",
        "payloads",
        "runs",
        "started",
        "tasks",
        "timers",
        "waits",
    )

    def __init__(self) -> None:
        self.runs: dict[RunId, None] = {}
        self.tasks: dict[tuple[RunId, Place], None] = {}
        self.timers: dict[tuple[RunId, Place, TimerKind], None] = {}
        self.waits: dict[tuple[RunId, Place], None] = {}
        self.payloads: dict[tuple[RunId, PayloadKey], None] = {}
        self.notices: dict[tuple[RunId, str, Place], None] = {}
        self.items: dict[tuple[RunId, Place], None] = {}
        self.started: dict[RunId, None] = {}
        self.again: dict[RunId, None] = {}

    def __bool__(self) -> bool:
        return bool(
            self.runs
            or self.tasks
            or self.timers
            or self.waits
            or self.payloads
            or self.notices
            or self.items
        )

    def request(self) -> LoadRequest:
        """All but `started` and `again`."""
        return LoadRequest(
            runs=tuple(self.runs),
            tasks=tuple(self.tasks),
            timers=tuple(self.timers),
            waits=tuple(self.waits),
            payloads=tuple(self.payloads),
            notices=tuple(self.notices),
            items=tuple(self.items),
        )


@dataclass(frozen=True, slots=True)
class Again:
    """What of a final run could be retried inside (R1), as `RetryRequested` says it."""

    items: tuple[tuple[str, tuple[int, ...]], ...] = ()
    children: tuple[tuple[Place, RunId], ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What came of a `Wanted`, for one run."""

    loaded: Loaded
    started: Sequence[Place] = ()
    again: Again = Again()


class Workers(Protocol):
    """Which workers this process speaks for."""

    def is_alive(self, worker: str) -> bool: ...


class _NobodyHolds:
    def is_alive(self, worker: str) -> bool:
        return False


NOBODY_HOLDS: Workers = _NobodyHolds()
"""Where others end leases too, no worker keeps one that has run out."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What turning facts into events may use: the time, chance, and whose leases outlast their end (ADR 0007)."""

    now: int
    dice: Dice
    workers: Workers


@dataclass(frozen=True, slots=True)
class Settled:
    """Not an event: the fact is answered as it is."""

    answer: object


class Waiting:
    """One fact about one run.

    `losses`: changes in a row that lost the race; `stuck`: of those, how many lost at the same event of the run, which
    is `lost_at`; `alone`: to be decided on its own; `doubts`: how often it made no sense as it was read.
    """

    __slots__ = ("alone", "call", "doubts", "losses", "lost_at", "run_id", "slot", "stuck")

    travels_alone = False
    """Whether it never shares a change with other events (orders on sets of rows)."""
    passes_quarantine = True
    """Whether it is tried although the run is quarantined."""
    begins_child = False
    """Whether it begins a run that another one has called; so many may wait that all else goes first."""
    is_stored = False
    """Whether it is stored, so that an engine which stops may leave it to the next."""

    def __init__(self, run_id: RunId, call: Call, slot: int) -> None:
        self.run_id = run_id
        self.call = call
        self.slot = slot
        self.doubts = 0
        self.losses = 0
        self.stuck = 0
        self.lost_at = -1
        self.alone = False

    def recall(self, leased: Leased, now: int) -> None:
        """Find in what is remembered of the run what need not be loaded. Called before `want`, in each cycle."""

    def want(self, wanted: Wanted) -> None:
        """Name the rows to load."""

    def fill(self, batch: Batch, loaded: Loaded) -> None:
        """Put the loaded rows under the batch."""

    def event(self, batch: Batch, loaded: Loaded, moment: Moment) -> Event | Settled | Wanted:
        """Compare with the rows as loaded. `Wanted`: what it lacks is handed to `learn`, and it is asked again."""
        raise NotImplementedError

    def learn(self, found: Found) -> None:
        """Take in what `event` wanted."""
        raise NotImplementedError

    def decided(self, batch: Batch, rejected: Rejection | None) -> None:
        """The decision stands in the batch: add what goes with it."""

    def answer_to(self, rejected: Rejection | None) -> object:
        """Answer for the decision."""
        return rejected

    def absent(self) -> object:
        """Answer where the run does not exist."""
        return None

    def poisoned(self, error: BaseException) -> object:
        """Answer where the event cannot be decided. Nobody asked for it: nobody is told."""
        return None


@dataclass(frozen=True, slots=True)
class Beginning:
    """A run as it is inserted, with the texts that it begins with."""

    new_run: NewRun
    texts: dict[PayloadKey, str]

    def row(self, run_id: RunId) -> RunRow:
        """The run as it will be read."""
        new = self.new_run
        return RunRow(
            run_id=run_id,
            namespace=new.namespace,
            workflow=new.workflow,
            version=new.version,
            definition=new.definition,
            key=new.key,
            state=RunState.PENDING,
            paused=False,
            created_at=new.created_at,
            ended_at=None,
            parent=new.parent,
            source=new.source,
        )


class Starting(Waiting):
    """The first fact of a run that does not exist yet."""

    __slots__ = ()

    def definition(self, loaded: Loaded) -> str | None:
        """Which version the run is of; None: it cannot begin."""
        raise NotImplementedError

    def beginning(self, loaded: Loaded, at: int) -> Beginning:
        """What to insert."""
        raise NotImplementedError


class AboutTask(Waiting):
    """A fact about the task at `place`."""

    __slots__ = ("place",)

    place: Place

    def want(self, wanted: Wanted) -> None:
        wanted.tasks[(self.run_id, self.place)] = None

    def fill(self, batch: Batch, loaded: Loaded) -> None:
        found = loaded.tasks.get((self.run_id, self.place))
        if found is not None:
            batch.tasks[self.place] = found[0]


LINGERS = "lingers"


class DueWaiting(AboutTask):
    """A lease or a deadline that is over. `dead`: the worker is known to be gone, so the lease is lost, whatever the
    lease and the deadlines of its attempt say (ADR 0006).

    Its answer, like those of timers and matches: whether it moved the run; or LINGERS, for the lease of a dead worker
    on a cancelled task: nothing is to be decided, and the run may wait for its end (C2).
    """

    __slots__ = ("dead", "due")

    passes_quarantine = False

    def answer_to(self, rejected: Rejection | None) -> object:
        return rejected is None

    def __init__(self, due: DueTask, call: Call, slot: int, *, dead: bool = False) -> None:
        super().__init__(due.run_id, call, slot)
        self.due = due
        self.dead = dead
        self.place = due.place

    def event(self, batch: Batch, loaded: Loaded, moment: Moment) -> Event | Settled | Wanted:
        due = self.due
        found = loaded.tasks.get((self.run_id, self.place))
        if found is None or found[0].attempt != due.attempt:
            return Settled(False)
        task, lease = found
        if (None if lease is None else lease.lease_id) != (
            None if due.lease is None else due.lease.lease_id
        ):
            return Settled(False)
        if self.dead and task.state is TaskState.CANCELLED:
            return Settled(LINGERS)
        at = max(moment.now, batch.snapshot.at)
        if due.deadline is None or (self.dead and lease is not None):
            if lease is None or (lease.lease_until > loaded.now and not self.dead):
                return Settled(False)
            return LeaseExpired(
                at=at,
                place=self.place,
                attempt=due.attempt,
                lease_id=lease.lease_id,
                worker=lease.worker,
                leased_at=lease.leased_at,
            )
        if task.state is TaskState.CANCELLED:
            return Settled(False)
        facts = {} if lease is None else {"worker": lease.worker, "leased_at": lease.leased_at}
        return DeadlinePassed(
            at=at,
            place=self.place,
            attempt=due.attempt,
            deadline=due.deadline,
            lease_id=None if lease is None else lease.lease_id,
            draw=moment.dice.draw(),
            **facts,  # type: ignore[arg-type]
        )


class TimerWaiting(AboutTask):
    """A timer that came due."""

    __slots__ = ("timer",)

    passes_quarantine = False

    def answer_to(self, rejected: Rejection | None) -> object:
        return rejected is None

    def __init__(self, run_id: RunId, timer: Timer, call: Call, slot: int) -> None:
        super().__init__(run_id, call, slot)
        self.timer = timer
        self.place = timer.place

    def want(self, wanted: Wanted) -> None:
        timer = self.timer
        wanted.timers[(self.run_id, timer.place, timer.kind)] = None
        if timer.kind in (TimerKind.BACKOFF, TimerKind.TOTAL, TimerKind.CHILD):
            wanted.tasks[(self.run_id, timer.place)] = None
        elif timer.kind in (TimerKind.EVENT, TimerKind.HEARTBEAT):
            wanted.waits[(self.run_id, timer.place)] = None

    def fill(self, batch: Batch, loaded: Loaded) -> None:
        super().fill(batch, loaded)
        timer = self.timer
        found = loaded.timers.get((self.run_id, timer.place, timer.kind))
        if found is not None:
            batch.timers[(timer.place, timer.kind)] = found
        wait = loaded.waits.get((self.run_id, timer.place))
        if wait is not None:
            batch.waits[timer.place] = wait

    def event(self, batch: Batch, loaded: Loaded, moment: Moment) -> Event | Settled | Wanted:
        timer = self.timer
        if (timer.place, timer.kind) not in batch.timers:
            return Settled(False)
        return TimerFired(
            at=max(moment.now, batch.snapshot.at, timer.due_at),
            place=timer.place,
            kind=timer.kind,
            version=timer.version,
        )


class DrainWaiting(TimerWaiting):
    """A closing run of which no task has a live lease (C2)."""

    __slots__ = ("_started",)

    travels_alone = True

    def __init__(self, run_id: RunId, timer: Timer, call: Call, slot: int) -> None:
        super().__init__(run_id, timer, call, slot)
        self._started: Sequence[Place] | None = None

    def fill(self, batch: Batch, loaded: Loaded) -> None:
        super().fill(batch, loaded)
        self._started = None

    def event(self, batch: Batch, loaded: Loaded, moment: Moment) -> Event | Settled | Wanted:
        timer = self.timer
        if (timer.place, timer.kind) not in batch.timers:
            return Settled(False)
        doubts = frozenset(done.place for done in batch.snapshot.done if not done.sure)
        if doubts and self._started is None:
            wanted = Wanted()
            wanted.started[self.run_id] = None
            return wanted
        return Drained(
            at=max(moment.now, batch.snapshot.at),
            version=timer.version,
            started=_told(self._started or (), doubts),
        )

    def learn(self, found: Found) -> None:
        self._started = found.started


def _told(started: Sequence[Place], doubts: frozenset[Place]) -> tuple[Place, ...]:
    """Of what was handed out that which the undoing asks for, one place for each work: the event stays small."""
    found: dict[Place, Place] = {}
    for place in started:
        parts = parts_of(place)
        if not parts.undo and parts.owner in doubts:
            found.setdefault(parts.owner, place)
    return tuple(found.values())


class AboutWait(Waiting):
    """A fact about an open wait, as it was when it was looked for."""

    __slots__ = ("wait",)

    passes_quarantine = False

    def __init__(self, run_id: RunId, wait: OpenedWait, call: Call, slot: int) -> None:
        super().__init__(run_id, call, slot)
        self.wait = wait

    def want(self, wanted: Wanted) -> None:
        wanted.waits[(self.run_id, self.wait.place)] = None

    def fill(self, batch: Batch, loaded: Loaded) -> None:
        found = loaded.waits.get((self.run_id, self.wait.place))
        if found is not None:
            batch.waits[self.wait.place] = found


class MatchWaiting(AboutWait):
    """A message and the open wait it was matched to. Its answer is True, False, or NO_MATCH."""

    __slots__ = ("match",)

    def __init__(self, match: Match, call: Call, slot: int) -> None:
        super().__init__(match.run_id, match.wait, call, slot)
        self.match = match

    def answer_to(self, rejected: Rejection | None) -> object:
        return rejected if rejected is Rejection.NO_MATCH else rejected is None

    def event(self, batch: Batch, loaded: Loaded, moment: Moment) -> Event | Settled | Wanted:
        wait = self.wait
        if wait.place not in batch.waits or self.alone:
            return Settled(False)  # one that lost often may be gone: the matching loop looks anew
        return EventReceived(
            at=max(moment.now, batch.snapshot.at),
            place=wait.place,
            version=wait.version,
            message_id=self.match.message_id,
            payload=text_of(self.match.payload),
        )


def text_of(text: str) -> Text:
    """A text with its size in bytes."""
    return Text(len(text) if text.isascii() else len(text.encode()), text)


def first_alone(waiting: Sequence[Waiting]) -> int:
    """How many of a run's facts, taken in order, may share a change: at least one."""
    if waiting[0].alone or waiting[0].travels_alone:
        return 1
    for index, fact in enumerate(waiting):
        if fact.travels_alone or fact.alone:
            return index
    return len(waiting)

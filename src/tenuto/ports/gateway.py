"""What stands between workers and the coordinator: lease, heartbeat, report, release.

Embedded, the coordinator's own object is passed in; on a cluster the same port is a gRPC client. A worker executes only
while it holds a lease, and counts its deadline on its own monotonic clock from *before* the request was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tenuto.model.ids import LeaseId, Place, RunId, TaskId, WorkerId

ALL_QUEUES = "*"
"""Among a worker's queues: it serves every queue there is, as the one worker of an embedded engine does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """Who a worker is and what it can do. `names`: the task functions it knows; `http` among them if it runs those."""

    id: WorkerId
    queues: tuple[str, ...]
    names: tuple[str, ...]
    capacity: int
    labels: tuple[tuple[str, str], ...] = ()
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A worker's time-bound right to one attempt.

    Attributes:
        name: the task function, or `http`.
        input: canonical JSON text.
        attempt: counted from 1.
        lease_us: how long the right lasts from the request, unless a heartbeat extends it.
        attempt_us: how long this attempt may run from now, None for no bound; the lease never reaches beyond.
        heartbeat_us: the longest silence of the task's own `context.heartbeat()`, None for no bound.
    """

    run_id: RunId
    place: Place
    lease_id: LeaseId
    name: str
    queue: str
    attempt: int
    input: str
    lease_us: int
    attempt_us: int | None
    heartbeat_us: int | None

    @property
    def task_id(self) -> TaskId:
        """`<run>/<place>`; also the idempotency key, the same over all attempts."""
        return TaskId(f"{self.run_id}/{self.place}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """The attempt's output: canonical JSON text, past the door of `runtime.results`."""

    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The attempt failed. `details` is canonical JSON text or None; `retryable` False: no attempt can help.

    `classes`: names of the exception's classes, itself first, for retry rules.
    """

    code: str
    message: str
    details: str | None = None
    retryable: bool = True
    retry_after_us: int = 0
    classes: tuple[str, ...] = ()


Result = Success | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How an attempt ended, under the lease it ran by."""

    run_id: RunId
    place: Place
    attempt: int
    lease_id: LeaseId
    result: Result


class Verdict(StrEnum):
    """The gateway's answer about one lease."""

    OK = "ok"
    CANCELLED = "cancelled"
    """Stop the work; its task was cancelled."""
    STALE = "stale"
    """The lease is somebody else's or over; drop the work, do not report again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One lease to extend. `alive`: the task itself called `context.heartbeat()` since the last beat."""

    run_id: RunId
    place: Place
    lease_id: LeaseId
    alive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How busy a worker is. `lag_us`: how late its loop wakes."""

    busy: int
    capacity: int
    lag_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """To a report batch: a verdict for each report, in order, and leases handed out in the same commit."""

    verdicts: tuple[Verdict, ...]
    leases: tuple[Lease, ...] = ()


class NoteKind(StrEnum):
    """What a note is."""

    STDOUT = "stdout"
    STDERR = "stderr"
    LOG = "log"
    PROGRESS = "progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What an attempt says while it runs: a line of its output or log, or how far it has come.

    Attributes:
        number: counted from 1 in its attempt; 0 is the attempt's progress, of which the newest stands.
        text: a line without its end; of progress `{"done", "total", "message"}` as JSON.
        age_us: how long ago it was said, by the worker's monotonic clock.
    """

    run_id: RunId
    place: Place
    attempt: int
    number: int
    kind: NoteKind
    text: str
    age_us: int


class TaskGateway(Protocol):
    """All that a worker knows of the engine. Every call may be repeated safely.

    Raises Unavailable when the store cannot be used just now; the worker tries again with back-off.
    """

    async def register(self, worker: WorkerInfo, held: Sequence[Beat] | None = None) -> None:
        """Announce a worker, again after any doubt.

        `held`: all leases that it works under or has not had an answer about. Whatever else was granted to it is given
        back: an answer was lost on its way. None: say nothing of leases, as while answers may be on their way.
        """
        ...

    async def lease(self, worker: WorkerId, free: int) -> Sequence[Lease]:
        """Wait until at least one task can be leased; return at most `free`. Cancelling the call loses nothing:
        what was granted meanwhile is released.
        """
        ...

    async def heartbeat(
        self, worker: WorkerId, beats: Sequence[Beat], load: Load
    ) -> Sequence[Verdict]:
        """Extend leases; a verdict each, in order."""
        ...

    async def report(self, worker: WorkerId, reports: Sequence[Report], want: int) -> Answer:
        """Hand in results; `want` more tasks may be leased in the same commit."""
        ...

    async def note(self, worker: WorkerId, notes: Sequence[Note]) -> None:
        """Keep what attempts said; a repeated note changes nothing."""
        ...

    async def release(self, worker: WorkerId, beats: Sequence[Beat]) -> None:
        """Give leases back unfinished (drain): handed out again at once, no attempt burned."""
        ...

    async def lose(self, worker: WorkerId, beats: Sequence[Beat]) -> None:
        """The process that worked under these leases is known to be dead: they are lost at once (`lost` counts up, no
        back-off), as if each had run out. A lease that is not the worker's, or over, is left as it is.
        """
        ...

    async def leave(self, worker: WorkerId) -> None:
        """The worker is gone for good."""
        ...

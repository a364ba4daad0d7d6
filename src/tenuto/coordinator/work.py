"""The facts of one run on their way through one cycle of a lane. Data only: the lane does all that happens to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from tenuto.coordinator.batch import Batch
from tenuto.coordinator.cache import Remembered
from tenuto.coordinator.seats import Seat
from tenuto.coordinator.waiting import Waiting
from tenuto.machine.events import Event
from tenuto.machine.snapshot import Task
from tenuto.model.expressions import Callee, Evaluator, Fault, Message
from tenuto.model.ids import LeaseId, MessageId, Place, RunId
from tenuto.model.payload import PayloadKey
from tenuto.ports.store import ItemRow, PayloadRow


class Evaluators(Protocol):
    """Makes an evaluator over what is known of a run; all of it grows while it is used, or a new one is made."""

    def __call__(
        self,
        texts: Mapping[PayloadKey, str],
        messages: Mapping[tuple[str, str, MessageId | None], Message],
        /,
        *,
        items: Mapping[Place, Sequence[ItemRow]],
        passes: Mapping[tuple[str, int], Sequence[PayloadRow]],
        callees: Mapping[tuple[str, str], Callee | Fault],
        absent: AbstractSet[PayloadKey],
    ) -> Evaluator: ...


def evaluator_of(evaluators: Evaluators, batch: Batch) -> Evaluator:
    """An evaluator over what a batch knows."""
    return evaluators(
        batch.texts,
        batch.mailbox,
        items=batch.items,
        passes=batch.passes,
        callees=batch.callees,
        absent=batch.missing,
    )


class Work:
    """One run within one cycle.

    Attributes:
        fresh: nothing was remembered of the run: all that is known was loaded in this cycle.
        position: how many facts are decided; `event` is that of the next one, once it is known.
        answers: what to tell after the commit.
        eager: tasks promised to seats: (task, its lease, the seat).
    """

    __slots__ = (
        "answers",
        "batch",
        "eager",
        "evaluator",
        "event",
        "facts",
        "fresh",
        "position",
        "remembered",
        "run_id",
    )

    def __init__(self, run_id: RunId, facts: list[Waiting], remembered: Remembered | None) -> None:
        self.run_id = run_id
        self.facts = facts
        self.remembered = remembered
        self.fresh = remembered is None
        self.position = 0
        self.event: Event | None = None
        self.answers: list[tuple[Waiting, object]] = []
        self.eager: list[tuple[Task, LeaseId, Seat]] = []
        self.batch: Batch
        self.evaluator: Evaluator

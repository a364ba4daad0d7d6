"""The facts of one run on their way through one cycle of a lane. Data only: the lane does all that happens to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from tenuto.coordinator.batch import Batch
from tenuto.coordinator.cache import Remembered
from tenuto.coordinator.notices import StartNotice
from tenuto.coordinator.seats import Seat
from tenuto.coordinator.waiting import Starting, Waiting
from tenuto.machine.events import Event
from tenuto.machine.snapshot import Task
from tenuto.model.expressions import Callee, Evaluator, Fault, Message
from tenuto.model.ids import LeaseId, MessageId, Place, RunId
from tenuto.model.payload import PayloadKey
from tenuto.ports.store import ItemRow, Loaded, PayloadRow


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

    def leave_quarantined(self) -> None:
        """Answer what a run in quarantine does not take."""
        for fact in self.facts:
            if not fact.passes_quarantine:
                fact.call.answer(fact.slot, None)
        self.facts = [fact for fact in self.facts if fact.passes_quarantine]


class Doubtful(Exception):
    """A refusal that rests on memory: load and decide again."""


def definition_of(work: Work, loaded: Loaded) -> str | None:
    """Which version a run is of; None: there is no such run, or it is remembered."""
    if work.remembered is not None:
        return None
    found = loaded.runs.get(work.run_id)
    if found is not None:
        return found[0].definition
    fact = work.facts[0]
    return fact.definition(loaded) if isinstance(fact, Starting) else None


def blamed_for(fact: Waiting) -> RunId | None:
    """The run to put into quarantine; a child that cannot begin is its parent's trouble, a start its caller's."""
    if isinstance(fact, StartNotice):
        return fact.notice.sender
    return None if isinstance(fact, Starting) else fact.run_id

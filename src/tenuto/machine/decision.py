"""What `decide` answers: a decision, or what it needs to know first."""

from __future__ import annotations

from dataclasses import dataclass

from tenuto.machine.actions import Action
from tenuto.machine.events import Rejection
from tenuto.machine.snapshot import Snapshot
from tenuto.model.expressions import Missing, Outcome
from tenuto.model.ids import Place
from tenuto.model.states import NodeLetter


@dataclass(frozen=True, slots=True)
class Decision:
    """One event, decided.

    `snapshot` is the state after it; `outcomes` lists what each expression yielded, in call order (X8). With `rejected`
    set nothing changed: `snapshot` is the old one, there are no actions, and the event gets no row. `ends`: which nodes
    ended and how, in the order of their ends.
    """

    snapshot: Snapshot
    actions: tuple[Action, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    rejected: Rejection | None = None
    ends: tuple[tuple[int, NodeLetter], ...] = ()


@dataclass(frozen=True, slots=True)
class Needs:
    """Load these and call again with the same arguments. Payloads never change, so nothing else may have.

    `missing`: what the evaluator lacks. `tasks`: places whose task rows must be known (R3).
    """

    missing: Missing = Missing()
    tasks: tuple[Place, ...] = ()

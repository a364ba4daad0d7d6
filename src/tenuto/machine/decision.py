"""What `decide` answers: a decision, or what it needs to know first."""

from __future__ import annotations

from dataclasses import dataclass

from tenuto.machine.actions import Action
from tenuto.machine.events import Rejection
from tenuto.machine.snapshot import Snapshot
from tenuto.model.expressions import Outcome
from tenuto.model.payload import PayloadKey


@dataclass(frozen=True, slots=True)
class Decision:
    """One event, decided.

    `snapshot` is the state after it; `outcomes` lists what each expression yielded, in call order (X8). With `rejected`
    set nothing changed: `snapshot` is the old one, there are no actions, and the event gets no row.
    """

    snapshot: Snapshot
    actions: tuple[Action, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    rejected: Rejection | None = None


@dataclass(frozen=True, slots=True)
class Needs:
    """Load these and call again with the same arguments. Payloads never change, so nothing else may have."""

    payloads: tuple[PayloadKey, ...] = ()
    mailbox: tuple[tuple[str, str], ...] = ()

"""Which open wait a message is tried on next: the oldest that has not refused it (SEMANTICS "Waits and events").

Each message is tried on one wait at a time, and a wait is offered its messages in their order, so the oldest wait that
wants it gets it: one that has taken a message has not refused those behind it, which are tried again. A wait whose
`match` did not hold for a message will never want it, so such pairs are remembered here; after a restart they are tried
once more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from tenuto.model.ids import MessageId, Place, RunId
from tenuto.ports.store import Due, Match

REFUSALS_MAX = 100_000

Pair = tuple[MessageId, RunId, Place, int]


class Matching:
    """Remembers pairs that do not match, least recently refused first out."""

    def __init__(self, refusals_max: int = REFUSALS_MAX) -> None:
        self._max = refusals_max
        self._refused: OrderedDict[MessageId, dict[Pair, None]] = OrderedDict()
        self._count = 0

    def choose(self, due: Due) -> tuple[list[Match], list[MessageId]]:
        """Pairs to try now, and messages that no open wait wants."""
        chosen: list[Match] = []
        hopeful: dict[MessageId, bool] = dict.fromkeys(due.unmatched, False)
        placed: set[MessageId] = set()
        for match in due.matches:
            message = match.message_id
            hopeful.setdefault(message, False)
            if message in placed or _pair(match) in self._refused.get(message, ()):
                continue
            hopeful[message] = True
            placed.add(message)
            chosen.append(match)
        return chosen, [message for message, hope in hopeful.items() if not hope]

    def refuse(self, match: Match) -> None:
        """The wait's `match` did not hold."""
        pairs = self._refused.setdefault(match.message_id, {})
        self._refused.move_to_end(match.message_id)
        if _pair(match) not in pairs:
            pairs[_pair(match)] = None
            self._count += 1
        while self._count > self._max and len(self._refused) > 1:
            _, forgotten = self._refused.popitem(last=False)
            self._count -= len(forgotten)

    def refusals_of(self, messages: Sequence[MessageId]) -> list[Pair]:
        """All remembered refusals of these messages."""
        return [pair for message in messages for pair in self._refused.get(message, ())]


def _pair(match: Match) -> Pair:
    return match.message_id, match.run_id, match.wait.place, match.wait.version

"""Hints at hand and who wants them: what to fetch, what to claim next, what to give back. No Redis, no store.

Bounded by the free slots of the workers connected here: a shelf never takes what it cannot hand out soon, but for the
few entries that a blocked reader may get at the moment when the last slot is filled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tenuto.model.ids import Place, RunId
from tenuto.ports.dispatch import Hint, Want
from tenuto.ports.gateway import ALL_QUEUES
from tenuto.ports.store import GrantRequest

AGED = 10
"""Rank of a hint that was taken for its age: before every priority, or it would wait here for ever."""
MISFITS_MAX = 200
"""Hints of a queue at hand that only busy workers know; they go back, behind the others, when they were not claimed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shelved:
    """A hint at hand. `stream`, `entry`: where it is pending for us; None of a row that only the database offers."""

    hint: Hint
    at: float
    rank: int
    stream: str | None = None
    entry: str | None = None


class Shelf:
    """Hints in the order in which they came, by queue. Queues of one rank take turns.

    Args:
        tell: says that something may be claimed.
    """

    def __init__(self, tell: Callable[[], None]) -> None:
        self.tell = tell
        self._wants: tuple[Want, ...] = ()
        self._hints: dict[str, deque[Shelved]] = {}
        self._served: dict[str, int] = {}
        self._turn = 0
        self._entries: set[tuple[str, str]] = set()
        """What is here or being claimed, so that no entry is put here twice."""
        self._keys: set[tuple[RunId, Place]] = set()
        self._coming: dict[str, int] = {}

    # -- who wants ------------------------------------------------------------------------------------------------

    def want(self, wants: Sequence[Want]) -> None:
        """What the workers here could take now. Those that are alike count as one."""
        free: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
        for want in wants:
            alike = want.queues, want.names
            free[alike] = free.get(alike, 0) + want.free
        self._wants = tuple(
            Want(queues=queues, names=names, free=count) for (queues, names), count in free.items()
        )

    @property
    def all_queues(self) -> bool:
        """Whether a worker here serves every queue."""
        return any(ALL_QUEUES in want.queues for want in self._wants)

    def queues(self) -> frozenset[str]:
        """Queues that are served here, without `*`."""
        return frozenset(q for want in self._wants for q in want.queues) - {ALL_QUEUES}

    def free(self) -> int:
        """How many tasks the workers here could take."""
        return sum(want.free for want in self._wants)

    def names(self) -> frozenset[str]:
        """Names that are known here, whatever the queue."""
        return frozenset(name for want in self._wants for name in want.names)

    def reserve(self, queue: str, rivals: int) -> int:
        """How many hints of a queue may be fetched now, when so many queues may have some: so each has its part.

        They count as here until `arrive`. What no worker with a free slot can do does not count, up to a bound: it must
        not hide what stands behind it.
        """
        line = self._hints.get(queue, ())
        if len(line) >= MISFITS_MAX + sum(w.free for w in self._wants if _serves(w, queue)):
            return 0
        free = sum(want.free for want in self._wants if _serves(want, queue))
        here = self._fitting(line) + self._coming.get(queue, 0)
        all_free = sum(want.free for want in self._wants)
        all_here = sum(map(self._fitting, self._hints.values())) + sum(self._coming.values())
        room = min(free - here, all_free - all_here)
        if room <= 0:
            return 0
        count = max(1, room // max(1, rivals))
        self._coming[queue] = self._coming.get(queue, 0) + count
        return count

    def arrive(self, queue: str, count: int) -> None:
        """A fetch of so many is over, whatever it brought."""
        self._coming[queue] -= count
        if not self._coming[queue]:
            del self._coming[queue]

    def _fitting(self, line: Iterable[Shelved]) -> int:
        able = [want for want in self._wants if want.free]
        return sum(
            any(item.hint.name in want.names and _serves(want, item.hint.queue) for want in able)
            for item in line
        )

    def is_strange(self, hint: Hint) -> bool:
        """Whether workers here serve its queue, and none knows its name."""
        known = [hint.name in want.names for want in self._wants if _serves(want, hint.queue)]
        return bool(known) and not any(known)

    # -- hints ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return sum(len(line) for line in self._hints.values())

    def put(self, items: Iterable[Shelved]) -> int:
        """Put hints behind the others; an entry or task that is here already is left out. Returns how many."""
        count = 0
        for item in items:
            if item.entry is None:
                if (item.hint.run_id, item.hint.place) in self._keys:
                    continue
            elif (item.stream or "", item.entry) in self._entries:
                continue
            else:
                self._entries.add((item.stream or "", item.entry))
            self._keys.add((item.hint.run_id, item.hint.place))
            self._hints.setdefault(item.hint.queue, deque()).append(item)
            count += 1
        return count

    def put_back(self, items: Sequence[Shelved]) -> None:
        """What was picked, and not decided, is next again."""
        for item in reversed(items):
            self._keys.add((item.hint.run_id, item.hint.place))
            self._hints.setdefault(item.hint.queue, deque()).appendleft(item)

    def drop(self, items: Iterable[Shelved]) -> None:
        """What was picked is decided, and its entry is the server's again or gone."""
        for item in items:
            if item.entry is not None:
                self._entries.discard((item.stream or "", item.entry))

    def holds(self, stream: str, entry: str) -> bool:
        """Whether an entry is here, or being claimed."""
        return (stream, entry) in self._entries

    def pick(self, request: GrantRequest, limit: int) -> list[Shelved]:
        """Take what a request may have: highest rank first, queues of one rank in turn, each in its order."""
        names = frozenset(request.names)
        lines = {
            queue: iter(self._suited(queue, names))
            for queue in request.queues
            if queue in self._hints
        }
        heads: dict[str, Shelved] = {}
        for queue in list(lines):
            _advance(queue, lines, heads)
        picked: list[Shelved] = []
        while heads and len(picked) < limit:
            queue = min(heads, key=lambda q: (-heads[q].rank, self._served.get(q, 0), q))
            picked.append(heads.pop(queue))
            self._turn += 1
            self._served[queue] = self._turn
            _advance(queue, lines, heads)
        self._remove(picked)
        return picked

    def take_if(self, test: Callable[[Shelved], bool]) -> list[Shelved]:
        """Take all for which `test` holds."""
        taken = [item for line in self._hints.values() for item in line if test(item)]
        self._remove(taken)
        return taken

    def _suited(self, queue: str, names: frozenset[str]) -> list[Shelved]:
        return [item for item in self._hints[queue] if item.hint.name in names]

    def _remove(self, items: Sequence[Shelved]) -> None:
        gone = set(map(id, items))
        for queue in {item.hint.queue for item in items}:
            left = deque(item for item in self._hints[queue] if id(item) not in gone)
            if left:
                self._hints[queue] = left
            else:
                del self._hints[queue]
        for item in items:
            self._keys.discard((item.hint.run_id, item.hint.place))
        while len(self._served) > 10_000:  # names come from definitions
            del self._served[min(self._served, key=lambda queue: self._served[queue])]


def _advance(queue: str, lines: dict[str, Iterator[Shelved]], heads: dict[str, Shelved]) -> None:
    item = next(lines[queue], None)
    if item is not None:
        heads[queue] = item


def _serves(want: Want, queue: str) -> bool:
    return queue in want.queues or ALL_QUEUES in want.queues

"""What a coordinator remembers of runs it decided: state, texts and leases, bounded. Never a base for a verdict.

A remembered state is what our own last commit wrote, a lease what it granted; the guard of the next commit finds out
when somebody else moved on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tenuto.machine.snapshot import Snapshot, Task
from tenuto.model.graph import Graph
from tenuto.model.ids import Place, RunId
from tenuto.model.payload import PayloadKey
from tenuto.ports.store import LeaseRow, RunRow

RUNS_MAX = 4_096
"""Some 2 KB each without payloads."""
TEXTS_MAX = 64 * 1_048_576
"""Characters of payload texts of all remembered runs, and of what else counts as such."""
LEASE_SIZE = 1_000
"""What a remembered task with its lease counts."""
Granted = Sequence[tuple[Task, LeaseRow]]


@dataclass(slots=True)
class Remembered:
    """One run. `row` as it was when first seen; `text_size`: characters in `texts`, at least.

    `leased`: tasks with the leases that our commits granted and that no commit of ours has touched since.
    """

    row: RunRow
    graph: Graph
    snapshot: Snapshot
    texts: dict[PayloadKey, str]
    text_size: int = 0
    leased: dict[Place, tuple[Task, LeaseRow]] = field(default_factory=dict)

    def advance(
        self, snapshot: Snapshot, grown: int, touched: Iterable[Place] | None, granted: Granted
    ) -> None:
        """A commit of ours has written it.

        Args:
            grown: by how many characters `texts` did.
            touched: tasks that may not be any more as they were; None: all.
            granted: leases that it began.
        """
        self.snapshot = snapshot
        for place in tuple(self.leased) if touched is None else touched:
            self.leased.pop(place, None)
        self.leased |= {task.place: (task, lease) for task, lease in granted}
        self.text_size += grown

    @property
    def size(self) -> int:
        """What it counts."""
        return self.text_size + LEASE_SIZE * len(self.leased)

    def forget_texts(self) -> None:
        """Drop what can take the most room."""
        self.texts.clear()
        self.text_size = 0


class RunCache:
    """Runs, least recently decided first out."""

    def __init__(self, runs_max: int = RUNS_MAX, texts_max: int = TEXTS_MAX) -> None:
        self._runs: OrderedDict[RunId, Remembered] = OrderedDict()
        self._runs_max = runs_max
        self._texts_max = texts_max
        self._size = 0

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._runs

    def take(self, run_id: RunId) -> Remembered | None:
        """Take a run out; it comes back by `keep` when its change is committed."""
        found = self._runs.pop(run_id, None)
        if found is not None:
            self._size -= found.size
        return found

    def keep(self, run_id: RunId, run: Remembered) -> None:
        """Remember a run as committed."""
        if run.size > self._texts_max // 8:
            run.forget_texts()
        self._runs[run_id] = run
        self._size += run.size
        while len(self._runs) > self._runs_max or self._size > self._texts_max:
            _, evicted = self._runs.popitem(last=False)
            self._size -= evicted.size

    def clear(self) -> None:
        """Forget all."""
        self._runs.clear()
        self._size = 0

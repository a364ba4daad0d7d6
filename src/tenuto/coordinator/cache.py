"""What a coordinator remembers of runs it decided: state and payload texts, bounded. Never a base for a verdict.

A remembered state is what our own last commit wrote; the guard of the next commit finds out when somebody else moved
on.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from tenuto.machine.snapshot import Snapshot
from tenuto.model.graph import Graph
from tenuto.model.ids import RunId
from tenuto.model.payload import PayloadKey
from tenuto.ports.store import RunRow

RUNS_MAX = 4_096
"""Some 2 KB each without payloads."""
TEXTS_MAX = 64 * 1_048_576
"""Characters of payload texts of all remembered runs."""


@dataclass(slots=True)
class Remembered:
    """One run. `row` as it was when first seen; `size`: characters in `texts`, at least."""

    row: RunRow
    graph: Graph
    snapshot: Snapshot
    texts: dict[PayloadKey, str]
    size: int = 0


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
            run.texts.clear()
            run.size = 0
        self._runs[run_id] = run
        self._size += run.size
        while len(self._runs) > self._runs_max or self._size > self._texts_max:
            _, evicted = self._runs.popitem(last=False)
            self._size -= evicted.size

    def clear(self) -> None:
        """Forget all."""
        self._runs.clear()
        self._size = 0

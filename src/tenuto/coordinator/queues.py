"""What a worker is told of its queues: those that nothing names, where it would wait for ever without a word.

Such a worker is let in all the same, since it may well be started before its definition is deployed. What this process
has seen answers first; the store is asked about what is unknown, seldom, and once for all who ask at the same time: a
thousand workers that come back after a restart are one question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from tenuto.coordinator.graphs import Graphs
from tenuto.model.errors import Unavailable
from tenuto.ports.gateway import ALL_QUEUES
from tenuto.ports.reads import Reads
from tenuto.runtime.logging import get_logger

ASK_S = 60.0
"""How long what the store said of an unknown queue is believed."""
PATIENCE_S = 2.0
"""How long a worker's welcome may wait for the store; then nothing is said, which harms nobody."""
NOTED_MAX = 10
"""Queues of one worker that are told each on a line of its own; nobody reads more."""
ASKED_MAX = 10_000
"""Unknown queues remembered; beyond, those asked about first are forgotten, and may be asked about again."""
_NAME_MAX = 100
"""Of a queue's name: what is longer is compared by its beginning, and no definition can name it."""
_COMPARED_MAX = 1_000
"""Names among which the one that was meant is looked for."""

_log = get_logger("queues")


@dataclass(frozen=True, slots=True)
class _Answer:
    """What is known of a queue that nothing here names: asked when, and whether nothing in the store names it either.

    `nobodys` False: nothing can be said, since a definition computes its queue, the store gave no answer, or nothing is
    deployed yet, which is how many begin.
    """

    at: float
    nobodys: bool = False


class Queues:
    """Which queues there are, as far as a worker must know. `time`: seconds that only go forward."""

    def __init__(self, graphs: Graphs, reads: Reads, time: Callable[[], float]) -> None:
        self._graphs = graphs
        self._reads = reads
        self._time = time
        self._named: set[str] = set()
        self._answers: dict[str, _Answer] = {}
        self._waiting: set[str] = set()
        self._asking = asyncio.Lock()

    async def notes(self, queues: Sequence[str]) -> Sequence[str]:
        """A line for each of a worker's queues that no definition names and in which no task waits. Never raises for
        a store that is away: then there is nothing to say.
        """
        if ALL_QUEUES in queues:
            return ()
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._learn(self._unknown(queues))
        except (Unavailable, TimeoutError) as error:
            _log.debug("queues_not_read", reason=str(error) or "no answer in time")
        nobodys = [queue for queue in self._unknown(queues) if self._is_nobodys(queue)]
        if not nobodys:
            return ()
        meant = tuple(sorted(self._known().difference(queues))[:_COMPARED_MAX])
        lines = [_note(queue, meant) for queue in nobodys[:NOTED_MAX]]
        more = len(nobodys) - NOTED_MAX
        return [*lines, f"the same holds for {more:,} more of its queues"] if more > 0 else lines

    def _known(self) -> set[str]:
        return self._named.union(self._graphs.queues)

    def _unknown(self, queues: Sequence[str]) -> list[str]:
        """Those of which something could be said."""
        if self._graphs.computes_queues:
            return []
        known = self._known()
        return [queue for queue in dict.fromkeys(queues) if queue not in known]

    async def _learn(self, queues: Sequence[str]) -> None:
        """Have an answer about all of these. Raises Unavailable."""
        if all(map(self._is_answered, queues)):
            return
        self._waiting.update(queues)
        async with self._asking:  # whoever has the turn asks for all who wait
            asked = [queue for queue in self._waiting if not self._is_answered(queue)]
            self._waiting.clear()
            if not asked:
                return
            nobodys: set[str] = set()
            try:
                found = await self._reads.list_queues()
                self._named |= found.queues
                if found.queues and not found.computed:
                    nobodys = {*asked} - found.queues
            finally:  # whatever came of it: a store that is away or slow is not asked again and again
                self._keep(asked, nobodys)

    def _is_nobodys(self, queue: str) -> bool:
        answer = self._answers.get(queue)
        return answer is not None and answer.nobodys

    def _is_answered(self, queue: str) -> bool:
        answer = self._answers.get(queue)
        return answer is not None and self._time() - answer.at < ASK_S

    def _keep(self, asked: Collection[str], nobodys: Collection[str]) -> None:
        at = self._time()
        for queue in asked:
            self._answers.pop(queue, None)
            self._answers[queue] = _Answer(at, nobodys=queue in nobodys)
        for queue in list(self._answers)[: max(0, len(self._answers) - ASKED_MAX)]:
            del self._answers[queue]


# Many workers have the same typo, and a comparison with all names takes its time.
@lru_cache(maxsize=1_000)
def _note(queue: str, known: tuple[str, ...]) -> str:
    close = get_close_matches(queue[:_NAME_MAX], known, n=1)
    meant = f"; did you mean `{close[0]}`?" if close else ""
    return (
        f"no definition names the queue `{queue}`, and no task waits in it{meant or '.'} Check `--queues`, or deploy a"
        " definition that names it: it is served as soon as there is one"
    )

"""Graphs of definition versions, by content hash, kept while they are used. Versions never change.

A run of an inline graph names its own by `hash#path` (`RunRow.definition`): it is found within its version's graph.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from tenuto.model.errors import NotFound
from tenuto.model.graph import Graph, inline_of
from tenuto.model.stored import decode_graph
from tenuto.model.works import works
from tenuto.ports.reads import Reads

GRAPHS_MAX = 256


class Graphs:
    """At most `GRAPHS_MAX` graphs, least recently used first out.

    Attributes:
        queues: all that the graphs seen so far have named, and those that tasks were sent to, sorted.
        computes_queues: whether one of the graphs names a queue by an expression.
    """

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self._graphs: OrderedDict[str, Graph] = OrderedDict()
        self._known: set[str] = set()
        self.queues: tuple[str, ...] = ()
        self.computes_queues = False

    def put(self, content_hash: str, graph: Graph) -> None:
        """Remember the graph of a version."""
        known = content_hash in self._graphs
        self._graphs[content_hash] = graph
        self._graphs.move_to_end(content_hash)
        if known:
            return
        for asked in works(graph.definition):
            if isinstance(asked.work.queue, str):
                self.see_queue(asked.work.queue)
            else:
                self.computes_queues = True
        while len(self._graphs) > GRAPHS_MAX:
            self._graphs.popitem(last=False)

    def see_queue(self, queue: str) -> bool:
        """A task waits on this queue. True: that is news."""
        if queue in self._known:
            return False
        self._known.add(queue)
        self.queues = tuple(sorted(self._known))
        return True

    async def fetch(self, definitions: Iterable[str]) -> Mapping[str, Graph | NotFound]:
        """All of these, however many, or why there is none. Reads what is not remembered. Raises Unavailable."""
        found: dict[str, Graph | NotFound] = {}
        for definition in definitions:
            content_hash, _, path = definition.partition("#")
            graph = self._graphs.get(content_hash)
            if graph is None:
                try:
                    row = await self.reads.get_definition(content_hash)
                except NotFound as error:
                    found[definition] = error
                    continue
                graph = decode_graph(row.graph)
            self.put(content_hash, graph)
            found[definition] = inline_of(graph, path) if path else graph
        return found

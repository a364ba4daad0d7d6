"""Graphs of definition versions, by content hash, kept while they are used. Versions never change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from tenuto.model.definition import Work
from tenuto.model.errors import NotFound
from tenuto.model.graph import Graph
from tenuto.model.stored import decode_graph
from tenuto.ports.reads import Reads

GRAPHS_MAX = 256


class Graphs:
    """At most `GRAPHS_MAX` graphs, least recently used first out.

    Attributes:
        queues: all that the graphs seen so far have named, sorted.
    """

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._graphs: OrderedDict[str, Graph] = OrderedDict()
        self.queues: tuple[str, ...] = ()

    def __getitem__(self, content_hash: str) -> Graph:
        """A graph that `fetch` or `put` brought in."""
        graph = self._graphs[content_hash]
        self._graphs.move_to_end(content_hash)
        return graph

    def put(self, content_hash: str, graph: Graph) -> None:
        """Remember a graph."""
        self._graphs[content_hash] = graph
        named = {n.detail.queue for n in graph.definition.nodes if isinstance(n.detail, Work)}
        if not named <= set(self.queues):
            self.queues = tuple(sorted(named | set(self.queues)))
        while len(self._graphs) > GRAPHS_MAX:
            self._graphs.popitem(last=False)

    async def fetch(self, hashes: Iterable[str]) -> Mapping[str, NotFound]:
        """Read the graphs that are not remembered. Returns those that do not exist. Raises Unavailable."""
        unknown = {}
        for content_hash in hashes:
            if content_hash not in self._graphs:
                try:
                    row = await self._reads.get_definition(content_hash)
                except NotFound as error:
                    unknown[content_hash] = error
                    continue
                self.put(content_hash, decode_graph(row.graph))
        return unknown

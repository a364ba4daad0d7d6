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

    def put(self, content_hash: str, graph: Graph) -> None:
        """Remember a graph."""
        self._graphs[content_hash] = graph
        self._graphs.move_to_end(content_hash)
        named = {n.detail.queue for n in graph.definition.nodes if isinstance(n.detail, Work)}
        if not named <= set(self.queues):
            self.queues = tuple(sorted(named | set(self.queues)))
        while len(self._graphs) > GRAPHS_MAX:
            self._graphs.popitem(last=False)

    async def fetch(self, hashes: Iterable[str]) -> Mapping[str, Graph | NotFound]:
        """All of these, however many, or why there is none. Reads what is not remembered. Raises Unavailable."""
        found: dict[str, Graph | NotFound] = {}
        for content_hash in hashes:
            graph = self._graphs.get(content_hash)
            if graph is None:
                try:
                    row = await self._reads.get_definition(content_hash)
                except NotFound as error:
                    found[content_hash] = error
                    continue
                graph = decode_graph(row.graph)
            self.put(content_hash, graph)
            found[content_hash] = graph
        return found

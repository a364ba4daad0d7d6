"""Graphs of versions, by content hash, as long as they are looked at: a version never changes. Reads nothing."""

from __future__ import annotations

from threading import Lock

from tenuto.model.graph import Graph

GRAPHS_MAX = 256


class Shelf:
    """At most `GRAPHS_MAX` graphs, least recently used first out. Thread-safe: requests are answered on two threads."""

    def __init__(self, graphs_max: int = GRAPHS_MAX) -> None:
        self._graphs: dict[str, Graph] = {}
        self._max = graphs_max
        self._lock = Lock()

    def find(self, content_hash: str) -> Graph | None:
        """The graph, if it is here."""
        with self._lock:
            graph = self._graphs.pop(content_hash, None)
            if graph is not None:
                self._graphs[content_hash] = graph  # the newest now
            return graph

    def put(self, content_hash: str, graph: Graph) -> None:
        """Remember a graph."""
        with self._lock:
            self._graphs.pop(content_hash, None)
            self._graphs[content_hash] = graph
            while len(self._graphs) > self._max:
                del self._graphs[next(iter(self._graphs))]

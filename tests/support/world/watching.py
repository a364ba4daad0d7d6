"""A turn whose every move of a node or an edge is compared with `oracle` on its way."""

from __future__ import annotations

from tests.support import oracle
from tests.support.oracle import FINAL, Say

from tenuto.machine.events import Event, RetryRequested, RunReplayed
from tenuto.machine.snapshot import Rows, Snapshot
from tenuto.machine.turn import Turn
from tenuto.model.expressions import Evaluator
from tenuto.model.graph import Graph
from tenuto.model.ids import Place
from tenuto.model.payload import Output
from tenuto.model.states import NodeLetter


class _Edges(bytearray):
    """Edge letters that report every change of theirs to the turn."""

    turn: WatchedTurn

    def __setitem__(self, at: object, letter: object) -> None:
        if isinstance(at, int):
            assert isinstance(letter, int)
            self.turn.edge_moves(at, chr(self[at]), chr(letter))
        super().__setitem__(at, letter)  # type: ignore[call-overload]


class WatchedTurn(Turn):
    """The machine's own turn; every move of a node and an edge is checked on its way.

    Attributes:
        began: places whose node was activated.
        decided: edges decided, with the passes of their source.
        resets: nodes and edges are being reset by a retry; nothing acts yet.
        after_reset: nodes, edges and passes when that was done.
        ended: (node, place, letter) of every end, the later of two of a node counts.
    """

    last: WatchedTurn
    event: Event | None = None

    def __init__(
        self, graph: Graph, snapshot: Snapshot, rows: Rows, at: int, evaluator: Evaluator
    ) -> None:
        self.began: list[Place] = []
        self.decided: list[tuple[int, tuple[int, ...]]] = []
        self.ended: list[tuple[int, Place, str]] = []
        self.unsatisfied: list[tuple[int, Place]] = []
        self.postponed: set[Place] = set()
        self._ranks: list[int] = []
        self.resets = False
        self.after_reset: tuple[str, str, tuple[int, ...]] = ("", "", ())
        super().__init__(graph, snapshot, rows, at, evaluator)
        self.reopens = self.resets = isinstance(WatchedTurn.event, RetryRequested | RunReplayed)
        WatchedTurn.last = self

    @property
    def edges(self) -> bytearray:
        return self._watched

    @edges.setter
    def edges(self, letters: bytearray) -> None:
        watched = _Edges(letters)
        watched.turn = self
        self._watched = watched

    def next_woken(self) -> int | None:
        if self.resets:
            self.after_reset = self.nodes.decode(), self.edges.decode(), tuple(self.passes)
        self.resets = False
        return super().next_woken()

    def mark(self, node: int, letter: NodeLetter, view: Output = None) -> None:
        was, now = chr(self.nodes[node]), letter.value
        self._check_move(node, was, now)
        if now in FINAL:
            self.ended.append((node, self.place(node), now))
        elif now == "a" and was in FINAL:
            self.ended = [end for end in self.ended if end[0] != node]
        super().mark(node, letter, view)

    def _check_move(self, node: int, was: str, now: str) -> None:
        name = f"{self.place(node)}: {was!r} -> {now!r}"
        nodes, edges = self.nodes.decode(), self.edges.decode()
        if was == "." and now in "ak":
            said = oracle.say(self.graph, nodes, edges, node)
            started = self._is_started_by_back_edge(node)
            if now == "k":
                assert said is Say.SKIP, f"{name}, but J says {said.value}"
            else:
                assert started or said in (Say.ACT, Say.UNSATISFIED), f"{name}, but J says {said}"
                if said is Say.UNSATISFIED and not started:
                    self.unsatisfied.append((node, self.place(node)))
                self.began.append(self.place(node))
                rank = self.graph.rank[node]
                if not started:
                    assert not self._ranks or self._ranks[-1] < rank, f"{name}: T7, out of order"
                    self._ranks.append(rank)
                else:
                    self._ranks.clear()
            assert self.is_open(), f"{name} after the outcome was decided"
        elif was == "a":
            assert now in "sxc", name
        elif was in "sx" and now in "xa":
            # T6: the edges made it dead; T7: its end was postponed.
            assert all(self.edges[n] == ord("-") for n in self.graph.outs[node]), name
            if now == "a":
                self.postponed.add(self.place(node))
        else:
            reset = was in FINAL and now == "." and (self.graph.loops_of[node] or self.reopens)
            assert reset or (was == "." and now == "c"), name

    def _is_started_by_back_edge(self, node: int) -> bool:
        return any(
            loop.header == node and self.passes[at] > 1 for at, loop in enumerate(self.graph.loops)
        )

    def edge_moves(self, number: int, was: str, now: str) -> None:
        if self.resets:
            return  # R1: the edges as they stand before J is applied
        if now == "-":
            assert any(loop.body for loop in self.graph.loops), number
            return
        source = self.graph.definition.edges[number].source
        assert (was, now) in {("-", "t"), ("-", "d"), ("-", "w"), ("w", "d")}, (number, was, now)
        if was == "-":
            self.decided.append((number, self.passes_of(source)))
        else:
            self._ranks.clear()  # a loop closed: what it withheld may stand earlier in the order (L4)

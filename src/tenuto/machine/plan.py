"""What a retry or a replay would do, without doing it (SEMANTICS R1, R2): shown first, and carried out by `reopen`.

    S0  the nodes to do again: dead ones that nobody handled, those that the closing cancelled, the one to replay from
    S   these, and all that follows from them; everything else keeps state, tokens and outputs

"Follows" is more than forward edges where S reaches the source of a back edge: that loop is open again, so what was
decided because it had closed is not decided any more (L4). Its dead exits are withheld again, and what they lead to
belongs to S too, or a later pass would send its token to a node that has ended without it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tenuto.machine.loops import DEAD_EDGE, UNDECIDED, WITHHELD, leaving, may_die
from tenuto.machine.snapshot import Snapshot
from tenuto.model.definition import Call, End, Foreach, NodeType
from tenuto.model.expressions import Read, Root
from tenuto.model.graph import Graph
from tenuto.model.ids import Place, parts_of, place_of
from tenuto.model.states import FINAL_RUN_STATES, EdgeLetter, NodeLetter, RunState
from tenuto.model.works import expressions_of

SUCCESS = ord(NodeLetter.SUCCESS)
DEAD = ord(NodeLetter.DEAD)
CANCELLED = ord(NodeLetter.CANCELLED)
TAKEN = ord(EdgeLetter.TAKEN)


class Refusal(StrEnum):
    """Why a run is not done again."""

    NOT_FINAL = "not_final"
    SUCCEEDED = "succeeded"
    UNDONE = "undone"
    ENDED = "ended"
    OPEN_CHILD = "open_child"
    NOTHING_FAILED = "nothing_failed"
    NOT_FAILED = "not_failed"
    NOT_FIRST = "not_first"
    NO_NODE = "no_node"

    @property
    def text(self) -> str:
        """One sentence for people."""
        return _TEXTS[self]


_TEXTS = {
    Refusal.NOT_FINAL: "the run has not ended",
    Refusal.SUCCEEDED: "the run succeeded; replay it from a node instead",
    Refusal.UNDONE: "finished work of the run has been undone, so it can't go on from there",
    Refusal.ENDED: "the run was ended on purpose, by a `fail` or `end` node",
    Refusal.OPEN_CHILD: "a child run has not ended yet",
    Refusal.NOTHING_FAILED: "no node failed or was cut short",
    Refusal.NOT_FAILED: "only a node that failed or was cut short can be skipped",
    Refusal.NOT_FIRST: "the node waits for others that are done again; skip one of them, or retry first",
    Refusal.NO_NODE: "the run has no such node",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would be done. Nodes are numbers, in topological order.

    Attributes:
        refused: why not; the rest is empty then.
        first: S0; `nodes`: S. `unbegun`: of S0, those whose turn had not come when the run ended.
        repeated: of S, those that had succeeded.
        inside: foreach and waited call nodes of S0 that can go on with their list or child, since nothing else in S
            leads to them; whether a child allows it is known to its run alone. `anew`: the others in S, which start
            whole.
        edges, passes: the run's letters and counters after the reset; `restarted`: loops that start at 1.
        changed: kept nodes that have read the input, which is another one now (R2).
        called: waits in S whose `callback_key` a kept node has read: who was told it calls the old run (R2).
    """

    refused: Refusal | None = None
    first: tuple[int, ...] = ()
    unbegun: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    repeated: tuple[int, ...] = ()
    inside: tuple[int, ...] = ()
    anew: tuple[int, ...] = ()
    edges: bytes = b""
    passes: tuple[int, ...] = ()
    restarted: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()
    called: tuple[int, ...] = ()


def plan_retry(graph: Graph, snapshot: Snapshot, *, skip: str | None = None) -> Plan:
    """R1: what `retry` would do with this run. `skip`: a node that is to be taken as done instead."""
    first = _failed(graph, snapshot)
    refused = _refuse_retry(graph, snapshot, first)
    if refused is not None:
        return Plan(refused=refused)
    plan = _plan(graph, snapshot, first, takes_up=True)
    if skip is not None:
        refused = _refuse_skip(graph, plan, skip)
        if refused is not None:
            return Plan(refused=refused)
    return plan


def plan_replay(
    graph: Graph,
    snapshot: Snapshot,
    node: str,
    *,
    changed: bool = False,
    undone: Collection[Place] = (),
) -> Plan:
    """R2: what a new run would do that starts this one anew from `node`.

    Args:
        graph: the definition of both.
        snapshot: of the run to replay.
        node: its id.
        changed: the new run gets another input.
        undone: places whose work is known to have been undone, beside those that the snapshot tells.
    """
    number = graph.numbers.get(node)
    if number is None:
        return Plan(refused=Refusal.NO_NODE)
    if snapshot.state not in FINAL_RUN_STATES:
        return Plan(refused=Refusal.NOT_FINAL)
    plan = _plan(graph, snapshot, {number, *_failed(graph, snapshot)}, takes_up=False)
    kept = set(range(len(graph.definition.nodes))).difference(plan.nodes)
    gone = {graph.numbers[parts_of(place).node] for place in undone}
    if kept & gone or any(_was_undone(graph, snapshot, number) for number in kept):
        return Plan(refused=Refusal.UNDONE)
    return _with_marks(graph, snapshot, plan, kept, changed=changed)


def wanted(
    graph: Graph, snapshot: Snapshot, node: str | None = None
) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
    """Places of the foreach and of the call nodes that a retry may take up inside: what facts it needs.

    None for a replay from `node`: there all of them start whole (R2).
    """
    if node is not None:
        return (), ()
    lists: list[Place] = []
    calls: list[Place] = []
    for number in plan_retry(graph, snapshot).inside:
        is_list = graph.definition.nodes[number].type is NodeType.FOREACH
        (lists if is_list else calls).append(place_in(graph, snapshot, number))
    return tuple(lists), tuple(calls)


def place_in(graph: Graph, snapshot: Snapshot, node: int) -> Place:
    """Where a node's current or last pass lives."""
    passes = tuple(snapshot.passes[loop] for loop in graph.loops_of[node])
    return place_of(graph.definition.nodes[node].id, passes, snapshot.ids.get(node, 1))


# -- S0 and S -----------------------------------------------------------------------------------------------------


def _failed(graph: Graph, snapshot: Snapshot) -> set[int]:
    """S0 of R1: unhandled dead nodes, and those that the closing cancelled."""
    unhandled = set(snapshot.failures)
    found: set[int] = set()
    for node, letter in enumerate(snapshot.nodes):
        if (letter == DEAD and place_in(graph, snapshot, node) in unhandled) or (
            letter == CANCELLED and _was_cut_short(graph, snapshot.edges, node)
        ):
            found.add(node)
    return found


def _was_cut_short(graph: Graph, edges: Sequence[int], node: int) -> bool:
    """A cancelled node: by the closing, not in a race. A race decides its edges, and it has some."""
    outs = graph.outs[node]
    return not outs or any(edges[number] == UNDECIDED for number in outs)


def _had_not_begun(graph: Graph, snapshot: Snapshot, node: int) -> bool:
    """A cancelled node that waited for edges before it: too few were taken, or decided."""
    if snapshot.nodes[node] != CANCELLED or not graph.ins[node]:
        return False
    letters = [snapshot.edges[number] for number in graph.ins[node]]
    wanted = graph.definition.nodes[node].join
    return letters.count(TAKEN) < max(wanted, 1) or (wanted == 0 and UNDECIDED in letters)


def _plan(graph: Graph, snapshot: Snapshot, first: set[int], *, takes_up: bool) -> Plan:
    edges = bytearray(snapshot.edges)
    nodes = _spread(graph, edges, first)
    restarted = tuple(at for at, loop in enumerate(graph.loops) if loop.header in nodes)
    passes = list(snapshot.passes)
    for loop in restarted:
        passes[loop] = 1
    whole = [n for n in _sorted(graph, nodes) if _is_whole(graph, n)]
    inside = []
    if takes_up:
        moved = {at for at, now in enumerate(passes) if now != snapshot.passes[at]}
        inside = [n for n in whole if n in first and _goes_on(graph, snapshot, nodes, moved, n)]
    return Plan(
        first=_sorted(graph, first),
        unbegun=tuple(n for n in _sorted(graph, first) if _had_not_begun(graph, snapshot, n)),
        nodes=_sorted(graph, nodes),
        repeated=tuple(n for n in _sorted(graph, nodes) if snapshot.nodes[n] == SUCCESS),
        inside=tuple(inside),
        anew=tuple(n for n in whole if n not in inside),
        edges=bytes(edges),
        passes=tuple(passes),
        restarted=restarted,
    )


def _spread(graph: Graph, edges: bytearray, first: Iterable[int]) -> set[int]:
    """S0 and all that follows from it; `edges` are reset on the way."""
    found: set[int] = set()
    coming = list(first)
    while coming:
        while coming:
            node = coming.pop()
            if node in found:
                continue
            found.add(node)
            for number in graph.outs[node]:
                edges[number] = UNDECIDED
                if graph.back_of[number] is None:
                    coming.append(graph.definition.edges[number].target)
        coming += _withhold(graph, edges)
    return found


def _withhold(graph: Graph, edges: bytearray) -> Iterator[int]:
    """Withhold the dead edges of loops that are open again (L4). Yields the nodes that forward ones lead to."""
    # Inner ones first: their exits may keep an outer one open.
    for loop in reversed(range(len(graph.loops))):
        for number in leaving(graph, loop):
            if edges[number] == DEAD_EDGE and not may_die(graph, edges, number):
                edges[number] = WITHHELD
                if graph.back_of[number] is None:
                    yield graph.definition.edges[number].target


def _is_whole(graph: Graph, node: int) -> bool:
    """A foreach, or a call that is waited for."""
    detail = graph.definition.nodes[node].detail
    return isinstance(detail, Foreach) or (isinstance(detail, Call) and detail.wait)


def _goes_on(graph: Graph, snapshot: Snapshot, nodes: set[int], moved: set[int], node: int) -> bool:
    """Whether a foreach or call of S0 finds all as it was: nothing else in S leads to it, its pass is the same."""
    if not _is_first(graph, nodes, node) or moved.intersection(graph.loops_of[node]):
        return False
    return not isinstance(graph.definition.nodes[node].detail, Foreach) or node in snapshot.items


def _is_first(graph: Graph, nodes: Collection[int], node: int) -> bool:
    """Nothing else in S leads to it by forward edges."""
    return all(graph.definition.edges[number].source not in nodes for number in graph.ins[node])


def _sorted(graph: Graph, nodes: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(nodes, key=graph.rank.__getitem__))


# -- refusals -----------------------------------------------------------------------------------------------------


def _refuse_retry(graph: Graph, snapshot: Snapshot, first: set[int]) -> Refusal | None:
    if snapshot.state not in FINAL_RUN_STATES:
        return Refusal.NOT_FINAL
    if snapshot.state is RunState.SUCCESS:
        return Refusal.SUCCEEDED
    if snapshot.children:
        return Refusal.OPEN_CHILD
    if snapshot.compensation != "none":
        return Refusal.UNDONE
    if _was_ended(graph, snapshot):
        return Refusal.ENDED
    return None if first else Refusal.NOTHING_FAILED


def _was_ended(graph: Graph, snapshot: Snapshot) -> bool:
    """By `fail`, which nobody can handle, or by `end`. In a replay an `end` may be kept from the other run."""
    nodes = graph.definition.nodes
    numbers = (graph.numbers.get(parts_of(place).node) for place in snapshot.failures)
    if any(n is not None and nodes[n].type is NodeType.FAIL for n in numbers):
        return True
    if "end" in snapshot.closed_by:
        return True
    reached = (
        it.detail
        for it, letter in zip(nodes, snapshot.nodes, strict=True)
        if letter == SUCCESS and isinstance(it.detail, End)
    )
    return snapshot.state is RunState.CANCELLED and any(end.cancelled for end in reached)


def _refuse_skip(graph: Graph, plan: Plan, skip: str) -> Refusal | None:
    node = graph.numbers.get(skip)
    if node is None:
        return Refusal.NO_NODE
    if node not in plan.first:
        return Refusal.NOT_FAILED
    return None if _is_first(graph, plan.nodes, node) else Refusal.NOT_FIRST


def _was_undone(graph: Graph, snapshot: Snapshot, node: int) -> bool:
    """Whether the last work of a kept node was undone: a due one leaves the list by nothing else (C3)."""
    handler = graph.definition.nodes[node].compensate
    if handler is None or snapshot.compensation == "none":
        return False
    letter = snapshot.nodes[node]
    due = letter == SUCCESS or (
        handler.started and letter in (DEAD, CANCELLED) and snapshot.attempts.get(node, 1) > 0
    )
    place = place_in(graph, snapshot, node)
    return due and all(done.place != place for done in snapshot.done)


# -- what kept nodes have read ------------------------------------------------------------------------------------


def _with_marks(
    graph: Graph, snapshot: Snapshot, plan: Plan, kept: set[int], *, changed: bool
) -> Plan:
    """Mark what the new run takes over although it might be otherwise there."""
    acted = [n for n in kept if snapshot.nodes[n] in (SUCCESS, DEAD)]
    readers = (n for n in acted if changed and _reads_input(graph, n))
    told = {
        graph.numbers[read.node]
        for n in acted
        for read in _reads_of(graph, n)
        if read.root is Root.NODES and read.field == "callback_key"
    }
    return replace(
        plan, changed=_sorted(graph, readers), called=_sorted(graph, told.difference(kept))
    )


def _reads_input(graph: Graph, node: int) -> bool:
    """Whether a node reads the input: for its work, to decide its edges, or in an inline graph, which sees it too."""
    if any(read.root is Root.INPUT for read in _reads_of(graph, node)):
        return True
    detail = graph.definition.nodes[node].detail
    call = detail.body if isinstance(detail, Foreach) else detail
    if not isinstance(call, Call) or call.inline is None:
        return False
    inline = graph.inlines[call.inline]
    output = inline.definition.output
    if output is not None and any(read.root is Root.INPUT for read in output.reads):
        return True
    return any(_reads_input(inline, n) for n in range(len(inline.definition.nodes)))


def _reads_of(graph: Graph, node: int) -> Iterator[Read]:
    for expression in expressions_of(graph.definition.nodes[node].detail):
        yield from expression.reads
    for number in graph.outs[node]:
        when = graph.definition.edges[number].when
        if when is not None:
            yield from when.reads

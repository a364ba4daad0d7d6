"""What an expression may see (SEMANTICS X2-X4), as keys. Legality was checked when the definition was compiled.

A node outside loops has its letter for a record. Inside loops, with C the innermost loop that holds reader and node: an
ancestor is seen if its record is of this pass; the reader itself or a descendant, if it is of the pass before (X3).
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from tenuto.machine.snapshot import Record
from tenuto.machine.turn import DEAD, FINAL_LETTERS, Turn
from tenuto.model.definition import WORKER_TYPES, NodeType, On
from tenuto.model.expressions import Expression, NodeView, Read, Root, Scope
from tenuto.model.ids import RUN_PLACE, place_of
from tenuto.model.payload import JoinView, Output, PayloadKey, PayloadKind
from tenuto.model.states import NODE_STATUS, EdgeLetter, NodeLetter

INPUT = PayloadKey(RUN_PLACE, PayloadKind.INPUT)
VARS = PayloadKey(RUN_PLACE, PayloadKind.VARS)
TAKEN = ord(EdgeLetter.TAKEN)
_NO_OUTPUT = frozenset({NodeType.SWITCH, NodeType.FORK, NodeType.WAIT, NodeType.FAIL, NodeType.END})


def of_node(turn: Turn, node: int, expression: Expression) -> Scope:
    """For a node's own inputs."""
    return _scope(turn, node, expression, own=False, error=_incoming_error(turn, node))


def of_edge(turn: Turn, source: int, expression: Expression) -> Scope:
    """For a `when`: it stands at its source and sees it as it just ended (X2); `error` is the source's (X4)."""
    error = None
    if turn.nodes[source] == DEAD:
        error = PayloadKey(turn.place(source), PayloadKind.ERROR)
    return _scope(turn, source, expression, own=True, error=error)


def of_run(turn: Turn, expression: Expression) -> Scope:
    """For the run's `output`: every node, as it last ended."""
    views = (view(turn, None, read, own=False) for read in _nodes(expression))
    return Scope(INPUT, VARS, nodes=tuple(v for v in views if v is not None), fresh=turn.fresh)


def _scope(
    turn: Turn, reader: int, expression: Expression, *, own: bool, error: PayloadKey | None
) -> Scope:
    if not expression.reads:
        return Scope(INPUT, VARS, fresh=turn.fresh)
    views = (view(turn, reader, read, own=own) for read in _nodes(expression))
    loops = turn.graph.loops_of[reader]
    return Scope(
        input=INPUT,
        vars=VARS,
        nodes=tuple(v for v in views if v is not None),
        iteration=turn.passes[loops[-1]] if loops else None,
        error=error,
        fresh=turn.fresh,
    )


def _nodes(expression: Expression) -> Iterable[Read]:
    """One read per node; one that wants the iteration stands in for the others of its node."""
    wanted: dict[str, Read] = {}
    for read in expression.reads:
        if read.root is Root.NODES and (read.node not in wanted or read.field == "iteration"):
            wanted[read.node] = read
    return wanted.values()


def view(turn: Turn, reader: int | None, read: Read, *, own: bool) -> NodeView | None:
    """What `reader` sees of a node, None if nothing. `own`: the reader sees itself in this pass."""
    node = turn.graph.numbers[read.node]
    record = record_of(turn, node)
    if (
        record is not None
        and reader is not None
        and not _agrees(turn, reader, node, record, own=own)
    ):
        record = None
    iteration = _iteration(turn, node) if read.field == "iteration" else None
    if record is None and iteration is None:
        return None
    if record is None:
        return NodeView(read.node, "pending", 0, iteration=iteration)
    succeeded = record.letter is NodeLetter.SUCCESS
    place = place_of(read.node, record.passes, turn.old.epoch)
    return NodeView(
        id=read.node,
        status=NODE_STATUS[record.letter],
        attempts=_attempts(turn, node, record),
        output=output_of(turn, node, record) if succeeded else None,
        has_output=succeeded,
        error=PayloadKey(place, PayloadKind.ERROR) if record.letter is NodeLetter.DEAD else None,
        iteration=iteration,
    )


def record_of(turn: Turn, node: int) -> Record | None:
    """How a node last ended, or None."""
    record = turn.records.get(node)
    if record is not None:
        return record
    letter = turn.nodes[node]
    return Record(NodeLetter(chr(letter)), ()) if letter in FINAL_LETTERS else None


def output_of(turn: Turn, node: int, record: Record) -> Output:
    """Where the output of a node that ended `success` is found."""
    kind = turn.node(node).type
    if kind is NodeType.JOIN:
        return record.view or join_view(turn, node)
    if kind in _NO_OUTPUT:
        return None
    place = place_of(turn.node(node).id, record.passes, turn.old.epoch)
    return PayloadKey(place, PayloadKind.OUTPUT)


def join_view(turn: Turn, node: int) -> JoinView:
    """Upstream id -> output for the in-edges taken now, by id; null for a taken source without output (J4)."""
    entries: dict[str, Output] = {}
    for number in turn.graph.ins[node]:
        if turn.edges[number] == TAKEN:
            source = turn.graph.definition.edges[number].source
            record = record_of(turn, source)
            succeeded = record is not None and record.letter is NodeLetter.SUCCESS
            entries[turn.node(source).id] = (
                output_of(turn, source, record) if record is not None and succeeded else None
            )
    return JoinView(tuple(sorted(entries.items(), key=itemgetter(0))))


def _agrees(turn: Turn, reader: int, node: int, record: Record, *, own: bool) -> bool:
    mine, theirs = turn.graph.loops_of[reader], turn.graph.loops_of[node]
    common = 0
    while common < min(len(mine), len(theirs)) and mine[common] == theirs[common]:
        common += 1
    if not common:
        return True
    now = [turn.passes[loop] for loop in mine[:common]]
    rank = turn.graph.rank
    if not (rank[node] < rank[reader] or (own and node == reader)):
        now[-1] -= 1
    return list(record.passes[:common]) == now


def _iteration(turn: Turn, header: int) -> int | None:
    for loop in reversed(turn.graph.loops_of[header]):
        if turn.graph.loops[loop].header == header:
            return turn.passes[loop]
    return None


def _attempts(turn: Turn, node: int, record: Record) -> int:
    """Attempts of the node's last work; 0 if it had none: skipped, no work of a worker, or dead of its input (X5)."""
    if record.letter is NodeLetter.SKIPPED or turn.node(node).type not in WORKER_TYPES:
        return 0
    return turn.attempts.get(node, 1)


def _incoming_error(turn: Turn, node: int) -> PayloadKey | None:
    """`error` in a node: of its first taken failure or always in-edge whose source is dead (X4)."""
    edges = turn.graph.definition.edges
    for number in turn.graph.ins[node]:
        edge = edges[number]
        if edge.on is not On.SUCCESS and turn.edges[number] == TAKEN:
            record = record_of(turn, edge.source)
            if record is not None and record.letter is NodeLetter.DEAD:
                source = turn.node(edge.source).id
                place = place_of(source, record.passes, turn.old.epoch)
                return PayloadKey(place, PayloadKind.ERROR)
    return None

"""What an expression may see (SEMANTICS X2-X4), as keys. Legality was checked when the definition was compiled.

A node outside loops has its letter for a record. Inside loops, with C the innermost loop that holds reader and node: an
ancestor is seen if its record is of this pass; the reader itself or a descendant, if it is of the pass before (X3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from operator import itemgetter

from tenuto.machine.snapshot import Record
from tenuto.machine.turn import DEAD, FINAL_LETTERS, Turn
from tenuto.model.definition import WORKER_TYPES, NodeType, On
from tenuto.model.expressions import Expression, ItemRef, Itself, NodeView, Root, Scope
from tenuto.model.ids import (
    RUN_PLACE,
    Place,
    PlaceParts,
    page_place,
    parts_of,
    place_of,
    with_epoch,
)
from tenuto.model.payload import ItemsView, JoinView, Output, PayloadKey, PayloadKind, Text
from tenuto.model.states import NODE_STATUS, EdgeLetter, NodeLetter

INPUT = PayloadKey(RUN_PLACE, PayloadKind.INPUT)
VARS = PayloadKey(RUN_PLACE, PayloadKind.VARS)
PARAMS = PayloadKey(RUN_PLACE, PayloadKind.PARAMS)
ITEM = ItemRef(PayloadKey(RUN_PLACE, PayloadKind.ITEM), at=None)
"""What the run of an inline graph works on, if a foreach stands around it."""
TAKEN = ord(EdgeLetter.TAKEN)
ATTEMPTED_TYPES = WORKER_TYPES | {NodeType.CALL}
_NO_OUTPUT = frozenset(
    {
        NodeType.SWITCH,
        NodeType.FORK,
        NodeType.WAIT,
        NodeType.EMIT,
        NodeType.FAIL,
        NodeType.END,
    }
)


def of_node(turn: Turn, node: int, expression: Expression) -> Scope:
    """For a node's own inputs."""
    return _scope(turn, node, expression, own=False, error=_incoming_error(turn, node))


def sight(turn: Turn, node: int) -> Callable[[Expression], Scope]:
    """`of_node`, for several inputs of one node."""
    return lambda expression: of_node(turn, node, expression)


def sight_of_item(
    turn: Turn, node: int, place: Place, item: ItemRef, index: int
) -> Callable[[Expression], Scope]:
    """For the inputs of a foreach's item: what the node may read, `item` and `index` (X4)."""

    def look(expression: Expression) -> Scope:
        seen = replace(of_node(turn, node, expression), item=item, index=index)
        return seen if seen.itself is None else replace(seen, itself=itself(turn, node, place))

    return look


def sight_of_page(turn: Turn, node: int, page: int) -> Callable[[Expression], Scope]:
    """For the inputs of the task that fetches a page: what the node may read, and where the page before ended."""
    cursor = None
    if page:
        before = page_place(turn.place(node), page - 1)
        cursor = PayloadKey(before, PayloadKind.OUTPUT)
    return lambda expression: replace(of_node(turn, node, expression), cursor=cursor)


def of_given(turn: Turn, place: Place) -> Scope:
    """For the input that the work of `place` was given, as it was recorded: read as `params`."""
    return Scope(INPUT, VARS, fresh=turn.fresh, params=PayloadKey(place, PayloadKind.INPUT))


def of_message(turn: Turn, node: int, expression: Expression, payload: Text) -> Scope:
    """For `match` and `fail_when`: what the node may read, and the message as `event` (X4)."""
    return replace(of_node(turn, node, expression), event=payload)


def of_failure(turn: Turn, place: Place) -> Scope:
    """For `when` of a retry rule: the attempt's `error`, as it was just put, beside input and vars."""
    return Scope(INPUT, VARS, error=PayloadKey(place, PayloadKind.ERROR), fresh=turn.fresh)


def callback_key(turn: Turn, node: int) -> str:
    """What an outside caller names the wait by: unique per run, node and iteration, the same in every epoch (R3)."""
    return f"{turn.old.run_id}/{place_of(turn.node(node).id, turn.passes_of(node))}"


def itself(turn: Turn, node: int, place: Place) -> Itself:
    """What a reader knows of itself when it begins (X6)."""
    seed = f"{turn.old.run_id}/{with_epoch(place, 1)}"
    return Itself(turn.at, callback_key(turn, node), seed)


def of_edge(turn: Turn, source: int, expression: Expression) -> Scope:
    """For a `when`: it stands at its source and sees it as it just ended (X2); `error` is the source's (X4)."""
    error = None
    if turn.nodes[source] == DEAD:
        error = PayloadKey(turn.place(source), PayloadKind.ERROR)
    return _scope(turn, source, expression, own=True, error=error)


def of_run(turn: Turn, expression: Expression) -> Scope:
    """For the run's `output`: every node, as it last ended."""
    views = (view(turn, None, id, fields, own=False) for id, fields in _nodes(expression))
    return _of_views(turn, tuple(v for v in views if v is not None))


def _scope(
    turn: Turn, reader: int, expression: Expression, *, own: bool, error: PayloadKey | None
) -> Scope:
    if not expression.reads:
        return Scope(INPUT, VARS, fresh=turn.fresh)
    views = (view(turn, reader, id, fields, own=own) for id, fields in _nodes(expression))
    loops = turn.graph.loops_of[reader]
    return replace(
        _of_views(turn, tuple(v for v in views if v is not None)),
        iteration=turn.passes[loops[-1]] if loops else None,
        error=error,
        itself=_itself_if_read(turn, reader, expression),
    )


def _of_views(turn: Turn, views: tuple[NodeView, ...]) -> Scope:
    """What every reader of a run sees, and these nodes. In the run of an inline graph also what it was given (X4)."""
    states: Mapping[Place, str] = {}
    if any(map(_lists_items, views)):
        states = {place: task.state.value for place, task in turn.touched.items()}
    lists_passes = any(each.passes is not None for each in views)
    return Scope(
        input=INPUT,
        vars=VARS,
        nodes=views,
        fresh=turn.fresh,
        states=states,
        dropped=frozenset(turn.dropped),
        forgotten=frozenset(turn.forgotten) if lists_passes else frozenset(),
        params=PARAMS if turn.graph.definition.inline else None,
        item=ITEM if turn.index is not None else None,
        index=turn.index,
    )


def _lists_items(view: NodeView) -> bool:
    return view.items is not None or _has_items(view.output)


def _has_items(output: Output) -> bool:
    if isinstance(output, JoinView):
        return any(_has_items(part) for _, part in output.entries)
    return isinstance(output, ItemsView)


def _itself_if_read(turn: Turn, reader: int, expression: Expression) -> Itself | None:
    if any(read.root is Root.NODE for read in expression.reads):
        return itself(turn, reader, turn.place(reader))
    return None


def _nodes(expression: Expression) -> Iterable[tuple[str, AbstractSet[str]]]:
    """The nodes that are read, each with the fields that are wanted of it."""
    wanted: dict[str, set[str]] = {}
    for read in expression.reads:
        if read.root is Root.NODES:
            wanted.setdefault(read.node, set()).add(read.field)
    return wanted.items()


def view(
    turn: Turn, reader: int | None, id: str, fields: AbstractSet[str], *, own: bool
) -> NodeView | None:
    """What `reader` sees of a node, None if nothing. `own`: the reader sees itself in this pass."""
    node = turn.graph.numbers[id]
    record = record_of(turn, node)
    if (
        record is not None
        and reader is not None
        and not _agrees(turn, reader, node, record, own=own)
    ):
        record = None
    iteration = _iteration(turn, node) if "iteration" in fields else None
    key = callback_key(turn, node) if "callback_key" in fields else None
    passes = _passes(turn, node) if "iterations" in fields else None
    if record is None and iteration is None and key is None and passes is None:
        return None
    if record is None:
        return NodeView(id, "pending", 0, iteration=iteration, callback_key=key, passes=passes)
    succeeded = record.letter is NodeLetter.SUCCESS
    place = place_of(id, record.passes, record.epoch)
    if record.recalled:
        return NodeView(
            id=id,
            status=NODE_STATUS[record.letter],
            attempts=1,
            output=PayloadKey(place, PayloadKind.OUTPUT),
            has_output=True,
            error=PayloadKey(place, PayloadKind.ERROR),
            iteration=iteration,
            callback_key=key,
            maybe=True,
        )
    return NodeView(
        id=id,
        status=NODE_STATUS[record.letter],
        attempts=_attempts(turn, node, record),
        output=output_of(turn, node, record) if succeeded else None,
        has_output=succeeded,
        error=PayloadKey(place, PayloadKind.ERROR) if record.letter is NodeLetter.DEAD else None,
        iteration=iteration,
        callback_key=key,
        items=items_of(turn, node, record),
        passes=passes,
    )


def _passes(turn: Turn, node: int) -> tuple[str, int, int]:
    """What `iterations` lists, outside the loop only (L5): all passes that are kept, under any epoch's name (R3)."""
    loops = turn.graph.loops_of[node]
    return f"{turn.node(node).id}.", turn.epoch, len(loops)


def record_of(turn: Turn, node: int) -> Record | None:
    """How a node last ended, or None."""
    record = turn.records.get(node)
    if record is not None:
        return record
    letter = turn.nodes[node]
    if letter not in FINAL_LETTERS:
        return None
    return Record(NodeLetter(chr(letter)), (), None, turn.ids.get(node, 1))


def output_of(turn: Turn, node: int, record: Record) -> Output:
    """Where the output of a node that ended `success` is found."""
    if isinstance(record.view, PayloadKey):
        return record.view  # it was skipped by hand
    kind = turn.node(node).type
    if kind is NodeType.JOIN:
        return record.view or join_view(turn, node)
    if kind is NodeType.FOREACH and (items := items_of(turn, node, record)) is not None:
        return items
    if kind in _NO_OUTPUT:
        return None
    place = place_of(turn.node(node).id, record.passes, record.epoch)
    return PayloadKey(place, PayloadKind.OUTPUT)


def items_of(turn: Turn, node: int, record: Record) -> ItemsView | None:
    """What a foreach lists, however it ended; None if it never had a list, or was given an output instead."""
    if isinstance(record.view, ItemsView):
        return record.view
    items = turn.items.get(node)
    if items is None or turn.graph.loops_of[node]:
        return None  # in a loop the counters may be those of another pass: the record has them
    return ItemsView(place_of(turn.node(node).id, record.passes, record.epoch), items.listed)


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
    common = _common(turn, reader, node)
    if not common:
        return True
    now = [turn.passes[loop] for loop in turn.graph.loops_of[reader][:common]]
    rank = turn.graph.rank
    if not (rank[node] < rank[reader] or (own and node == reader)):
        now[-1] -= 1
    return list(record.passes[:common]) == now


def _common(turn: Turn, reader: int, node: int) -> int:
    """How many loops hold both: outermost first, so these are the first of each."""
    mine, theirs = turn.graph.loops_of[reader], turn.graph.loops_of[node]
    common = 0
    while common < min(len(mine), len(theirs)) and mine[common] == theirs[common]:
        common += 1
    return common


def _iteration(turn: Turn, header: int) -> int | None:
    for loop in reversed(turn.graph.loops_of[header]):
        if turn.graph.loops[loop].header == header:
            return turn.passes[loop]
    return None


def _attempts(turn: Turn, node: int, record: Record) -> int:
    """Attempts of the node's last work; 0 if it had none: skipped, no work of a worker, or dead of its input (X5)."""
    if record.letter is NodeLetter.SKIPPED or turn.node(node).type not in ATTEMPTED_TYPES:
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
                place = place_of(source, record.passes, record.epoch)
                return PayloadKey(place, PayloadKind.ERROR)
    return None


# -- handlers -----------------------------------------------------------------------------------------------------


def of_handler(turn: Turn, place: Place) -> Callable[[Expression], Scope]:
    """For a handler's inputs: `error` of the run, and every node (X4); `place` is the handler's.

    A compensation sees itself and its loop-mates in the values of the pass that it undoes, and that pass's `iteration`
    (C3).
    """
    parts = parts_of(place)
    undoes = turn.graph.numbers[parts.node] if parts.undo else None
    error = turn.closing.error if turn.closing is not None else None  # a child's end comes late

    def look(expression: Expression) -> Scope:
        views = (
            view(turn, None, id, fields, own=False)
            if undoes is None
            else _view_back(turn, undoes, parts, id, fields)
            for id, fields in _nodes(expression)
        )
        knows_itself = any(read.root is Root.NODE for read in expression.reads)
        return replace(
            _of_views(turn, tuple(v for v in views if v is not None)),
            iteration=parts.passes[-1] if parts.passes else None,
            error=error,
            itself=_handler_itself(turn, place) if knows_itself else None,
        )

    return look


def _handler_itself(turn: Turn, place: Place) -> Itself:
    told = f"{turn.old.run_id}/{with_epoch(place, 1)}"
    return Itself(turn.at, told, told)


def _view_back(
    turn: Turn, reader: int, undone: PlaceParts, id: str, fields: AbstractSet[str]
) -> NodeView | None:
    """What the compensation of `reader` in the pass `undone` sees of a node.

    A node that shares no loop with it is seen as it last ended. A loop-mate is seen in that pass: by its record if it
    has that pass, else by what it left there; how it ended nobody knows any more. What an inner loop did in a pass that
    is over is absent: nobody knows how often it ran.
    """
    node = turn.graph.numbers[id]
    common = _common(turn, reader, node)
    passes = undone.passes[:common]
    record = record_of(turn, node)
    if record is not None and node == reader and record.epoch != undone.epoch:
        record = None
    seen = None
    if record is not None and record.passes[:common] == passes:
        seen = view(turn, None, id, fields, own=False)
    elif len(turn.graph.loops_of[node]) == common:
        seen = _left_behind(turn, node, place_of(id, passes, undone.epoch))
    if node == reader:
        seen = _own_work(turn, seen, undone.owner)
    if seen is not None and "iteration" in fields:
        seen = replace(seen, iteration=_iteration_back(turn, node, passes))
    return seen


def _left_behind(turn: Turn, node: int, place: Place) -> NodeView:
    """A node in a pass that is over. What was put together on reading, a join's view or a foreach's list, is gone."""
    kind = turn.node(node).type
    gone = kind in (NodeType.JOIN, NodeType.FOREACH)
    return NodeView(
        id=turn.node(node).id,
        status=NODE_STATUS[NodeLetter.SUCCESS],
        attempts=1,
        output=None if gone or kind in _NO_OUTPUT else PayloadKey(place, PayloadKind.OUTPUT),
        has_output=not gone,
        error=PayloadKey(place, PayloadKind.ERROR),
        callback_key=f"{turn.old.run_id}/{with_epoch(place, 1)}",
        maybe=True,
    )


def _own_work(turn: Turn, seen: NodeView | None, place: Place) -> NodeView | None:
    """Itself: what is undone is there if it was put, however the node ended (T6, F8)."""
    if seen is None:
        return None
    for done in turn.done:
        if done.place == place and done.items is not None:
            listed = ItemsView(place, done.items)
            return replace(seen, output=listed, has_output=done.sure, items=listed)
    if seen.has_output:
        return seen
    return replace(seen, output=PayloadKey(place, PayloadKind.OUTPUT), has_output=True, maybe=True)


def _iteration_back(turn: Turn, header: int, passes: tuple[int, ...]) -> int | None:
    for at, loop in reversed(list(enumerate(turn.graph.loops_of[header]))):
        if turn.graph.loops[loop].header == header:
            return passes[at] if at < len(passes) else turn.passes[loop]
    return None

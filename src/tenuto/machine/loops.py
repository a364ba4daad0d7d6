"""Loops: taking a back edge, withholding dead tokens, closing, what is kept (SEMANTICS L3-L5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tenuto.machine.actions import (
    CancelChild,
    CancelItems,
    CancelTask,
    ClearTimers,
    CloseWait,
    DropPayloads,
)
from tenuto.machine.turn import ACTIVE, PENDING, Turn
from tenuto.model.definition import WORKER_TYPES, NodeType
from tenuto.model.graph import Graph, Loop
from tenuto.model.ids import parts_of, place_of
from tenuto.model.states import CancelReason, EdgeLetter, NodeLetter

DEAD_EDGE = ord(EdgeLetter.DEAD)
UNDECIDED = ord(EdgeLetter.UNDECIDED)
WITHHELD = ord(EdgeLetter.WITHHELD)


def repeat(turn: Turn, loop_number: int) -> int:
    """Take a back edge: reset the body and open the next pass (L3). Returns the header, which starts at once."""
    graph = turn.graph
    loop = graph.loops[loop_number]
    for node in loop.body:
        if turn.nodes[node] == ACTIVE:
            withdraw(turn, node, CancelReason.RESET)
            turn.mark(node, NodeLetter.CANCELLED)
    for node in loop.body:
        turn.items.pop(node, None)
        if turn.nodes[node] != PENDING:
            turn.mark(node, NodeLetter.PENDING)
        for number in graph.outs[node]:
            turn.edges[number] = UNDECIDED
    for inner, other in enumerate(graph.loops):
        if inner != loop_number and other.header in loop.body and other.body < loop.body:
            turn.passes[inner] = 1
    turn.passes[loop_number] += 1
    turn.backs += 1
    _drop_old(turn, loop_number)
    return loop.header


def _drop_old(turn: Turn, loop_number: int) -> None:
    """Drop what the pass left that is one too many now (L5, `keep`), unless somebody may read it still."""
    loop = turn.graph.loops[loop_number]
    if loop.keep is None:
        return
    old = turn.passes[loop_number] - 1 - max(1, loop.keep)
    if old < 1:
        return
    around = turn.graph.loops_of[loop.header]
    outer = around[: around.index(loop_number)]
    passes = (*(turn.passes[number] for number in outer), old)
    if _is_wanted(turn, loop, passes):
        return
    ids = [turn.node(node).id for node in sorted(loop.body)]
    epochs = range(1, turn.epoch + 1)
    places = tuple(place_of(id, passes, epoch) for id in ids for epoch in epochs)
    turn.actions.append(DropPayloads(places))
    turn.forgotten.update(places)


def _is_wanted(turn: Turn, loop: Loop, passes: tuple[int, ...]) -> bool:
    """Whether a pass has work to undo, which reads its loop-mates (C3), a failure of the run, or a last record."""
    numbers = turn.graph.numbers
    for place in (*(done.place for done in turn.done), *turn.failures):
        parts = parts_of(place)
        inside = bool(parts.node) and numbers[parts.node] in loop.body
        if inside and parts.passes[: len(passes)] == passes:
            return True
    records = (turn.records.get(node) for node in loop.body)
    return any(r is not None and r.passes[: len(passes)] == passes for r in records)


def withdraw(turn: Turn, node: int, reason: CancelReason) -> None:
    """Take back what an active node has under way: its task, timers, wait, items; a child is sent a cancel."""
    place, kind = turn.place(node), turn.node(node).type
    if kind in WORKER_TYPES:
        turn.actions.append(CancelTask(place, reason))
    elif kind is NodeType.CALL:
        task = turn.task(place)
        turn.actions.append(CancelTask(place, reason))
        if task is not None and task.child is not None and not task.ending:
            turn.actions.append(CancelChild(place, task.child))
    elif kind is NodeType.FOREACH:
        withdraw_items(turn, node)
    elif kind is NodeType.WAIT_FOR_EVENT:
        turn.actions.append(CloseWait(place))
    turn.actions.append(ClearTimers(place))


def withdraw_items(turn: Turn, node: int) -> None:
    """Cancel what is open of a foreach; its late results have no effect on it (F8)."""
    items = turn.items.get(node)
    if items is not None and (items.active or items.fetching):
        turn.actions.append(CancelItems(turn.place(node)))
        turn.dropped.add(turn.place(node))
        turn.items[node] = replace(items, active=0, fetching=False)


def decide_dead(turn: Turn, number: int) -> None:
    """Make an edge dead. One that leaves loops is withheld until all of them are closed (L4).

    A back edge leaves the loops inside its own: they may run again, and then it is decided again. So a loop that closes
    may close the one around it, and so on outwards.
    """
    graph, edges = turn.graph, turn.edges
    if not may_die(graph, edges, number):
        edges[number] = WITHHELD
        return
    dying = [number]
    while dying:
        number = dying.pop()
        edges[number] = DEAD_EDGE
        loop = graph.back_of[number]
        if loop is None:
            turn.arrive(graph.definition.edges[number].target)
        elif is_closed(graph, edges, loop):
            withheld = (n for n in leaving(graph, loop) if edges[n] == WITHHELD)
            dying += [n for n in withheld if may_die(graph, edges, n)]


def is_closed(graph: Graph, edges: Sequence[int], loop: int) -> bool:
    """All its back edges are dead in the same pass (L4). `edges`: the letters, as ordinals."""
    return all(edges[number] == DEAD_EDGE for number in graph.loops[loop].back)


def may_die(graph: Graph, edges: Sequence[int], number: int) -> bool:
    """Whether all loops that an edge leaves are closed."""
    left = graph.leaves[number]
    if (own := graph.back_of[number]) is not None:
        around = graph.loops_of[graph.definition.edges[number].source]
        left = around[around.index(own) + 1 :]
    return all(is_closed(graph, edges, loop) for loop in left)


def leaving(graph: Graph, loop: int) -> Iterator[int]:
    """Edges that leave a loop: its exits, and the back edges of loops around it that start inside."""
    loops = graph.loops
    yield from loops[loop].exits
    outer = loops[loop].parent
    while outer is not None:
        for number in loops[outer].back:
            if graph.definition.edges[number].source in loops[loop].body:
                yield number
        outer = loops[outer].parent

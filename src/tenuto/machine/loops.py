"""Loops: taking a back edge, withholding dead tokens, closing (SEMANTICS L3, L4)."""

from __future__ import annotations

from collections.abc import Iterator

from tenuto.machine.actions import CancelTask, ClearTimers, CloseWait
from tenuto.machine.turn import ACTIVE, PENDING, Turn
from tenuto.model.definition import WORKER_TYPES, NodeType
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
        if turn.nodes[node] != PENDING:
            turn.mark(node, NodeLetter.PENDING)
        for number in graph.outs[node]:
            turn.edges[number] = UNDECIDED
    for inner, other in enumerate(graph.loops):
        if inner != loop_number and other.header in loop.body and other.body < loop.body:
            turn.passes[inner] = 1
    turn.passes[loop_number] += 1
    turn.backs += 1
    return loop.header


def withdraw(turn: Turn, node: int, reason: CancelReason) -> None:
    """Take back what an active node has under way: its task, timers, wait."""
    place, kind = turn.place(node), turn.node(node).type
    if kind in WORKER_TYPES:
        turn.actions.append(CancelTask(place, reason))
    elif kind is NodeType.WAIT_FOR_EVENT:
        turn.actions.append(CloseWait(place))
    turn.actions.append(ClearTimers(place))


def decide_dead(turn: Turn, number: int) -> None:
    """Make an edge dead. One that leaves loops is withheld until all of them are closed (L4).

    A back edge leaves the loops inside its own: they may run again, and then it is decided again. So a loop that closes
    may close the one around it, and so on outwards.
    """
    if not _may_die(turn, number):
        turn.edges[number] = WITHHELD
        return
    dying = [number]
    while dying:
        number = dying.pop()
        turn.edges[number] = DEAD_EDGE
        loop = turn.graph.back_of[number]
        if loop is None:
            turn.arrive(turn.graph.definition.edges[number].target)
        elif is_closed(turn, loop):
            dying += [
                n for n in _leaving(turn, loop) if turn.edges[n] == WITHHELD and _may_die(turn, n)
            ]


def is_closed(turn: Turn, loop: int) -> bool:
    """All its back edges are dead in the same pass (L4)."""
    return all(turn.edges[number] == DEAD_EDGE for number in turn.graph.loops[loop].back)


def _may_die(turn: Turn, number: int) -> bool:
    """Whether all loops that an edge leaves are closed."""
    graph = turn.graph
    left = graph.leaves[number]
    if (own := graph.back_of[number]) is not None:
        around = graph.loops_of[graph.definition.edges[number].source]
        left = around[around.index(own) + 1 :]
    return all(is_closed(turn, loop) for loop in left)


def _leaving(turn: Turn, loop: int) -> Iterator[int]:
    """Edges that leave a loop: its exits, and the back edges of loops around it that start inside."""
    loops = turn.graph.loops
    yield from loops[loop].exits
    outer = loops[loop].parent
    while outer is not None:
        for number in loops[outer].back:
            if turn.graph.definition.edges[number].source in loops[loop].body:
                yield number
        outer = loops[outer].parent

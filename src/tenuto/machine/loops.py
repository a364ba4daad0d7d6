"""Loops: taking a back edge, withholding dead tokens, closing (SEMANTICS L3, L4)."""

from __future__ import annotations

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
    """Make an edge dead. A forward edge that leaves loops is withheld until all of them are closed (L4)."""
    graph = turn.graph
    loop = graph.back_of[number]
    if loop is not None:
        turn.edges[number] = DEAD_EDGE
        if is_closed(turn, loop):
            _release(turn, loop)
        return
    if all(is_closed(turn, left) for left in graph.leaves[number]):
        turn.edges[number] = DEAD_EDGE
        turn.arrive(graph.definition.edges[number].target)
    else:
        turn.edges[number] = WITHHELD


def is_closed(turn: Turn, loop: int) -> bool:
    """All its back edges are dead in the same pass (L4)."""
    return all(turn.edges[number] == DEAD_EDGE for number in turn.graph.loops[loop].back)


def _release(turn: Turn, loop: int) -> None:
    graph = turn.graph
    for number in graph.loops[loop].exits:
        if turn.edges[number] == WITHHELD and all(
            is_closed(turn, left) for left in graph.leaves[number]
        ):
            turn.edges[number] = DEAD_EDGE
            turn.arrive(graph.definition.edges[number].target)

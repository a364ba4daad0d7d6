"""Tokens: how a node's end decides its edges, and when a node acts (SEMANTICS T4-T6, J, F1-F3, L2).

A node ends through `succeed`, `die`, `skip` or `cancel`. Its edges are decided together in at most two rounds: the
round of its end, and once more for `dead` if that round itself failed (T6, L2, T5's `no_match`).
"""

from __future__ import annotations

from enum import Enum, auto

from tenuto.machine import scope
from tenuto.machine.closing import close_for_failure
from tenuto.machine.loops import decide_dead, repeat, withdraw
from tenuto.machine.scope import TAKEN
from tenuto.machine.turn import ACTIVE, DEAD, FINAL_LETTERS, Turn
from tenuto.model.definition import Edge, NodeType, On
from tenuto.model.expressions import Fault
from tenuto.model.failures import Failure
from tenuto.model.payload import Output
from tenuto.model.states import CancelReason, EdgeLetter, NodeLetter

BACKS_MAX = 100
"""Back edges taken in one decision (T7)."""
UNDECIDED = ord(EdgeLetter.UNDECIDED)
WITHHELD = ord(EdgeLetter.WITHHELD)
DEAD_EDGE = ord(EdgeLetter.DEAD)


class Arrival(Enum):
    """What J says of a pending node."""

    WAIT = auto()
    ACT = auto()
    SKIP = auto()
    UNSATISFIED = auto()


class Postponed(Exception):
    """The 101st back edge of one decision: the node stays active and an event due at once decides its end (T7).

    Raised before any edge is decided; whoever began the node takes back what it did.
    """


# -- ends ---------------------------------------------------------------------------------------------------------


def succeed(turn: Turn, node: int, view: Output = None) -> None:
    """End a node with `success`."""
    turn.mark(node, NodeLetter.SUCCESS, view)
    chosen = _success_round(turn, node)
    if isinstance(chosen, Failure):
        _die_of_edges(turn, node, chosen)
    else:
        _apply(turn, chosen)


def die(turn: Turn, node: int, failure: Failure | None, *, own: bool = True) -> None:
    """End a node `dead`. `failure` None: its error payload is put already.

    `own`: by its own work (its input included), which alone `optional` tolerates (F3); an unsatisfied join is not.
    """
    if failure is not None:
        turn.put_error(node, failure)
    turn.mark(node, NodeLetter.DEAD)
    if own and turn.node(node).optional:
        tolerated = _success_round(turn, node)
        if isinstance(tolerated, Failure):
            _die_of_edges(turn, node, tolerated)
        else:
            _apply(turn, {n: t and not _into_race(turn, n) for n, t in tolerated.items()})
        return
    chosen = _dead_round(turn, node, back_edges=True)
    if isinstance(chosen, Failure):
        _die_of_edges(turn, node, chosen)
    else:
        _settle_failure(turn, node, chosen)


def skip(turn: Turn, node: int) -> None:
    """End a pending node `skipped`; all its edges are dead (T4)."""
    turn.mark(node, NodeLetter.SKIPPED)
    _all_dead(turn, node)


def cancel_race(turn: Turn, join: int) -> None:
    """J3: every node of the join's race that is not final becomes cancelled, pending ones too, their edges dead.

    A join that ends unsatisfied acts in this sense: nothing of its race can matter to it any more.
    """
    losers = [n for n in turn.graph.races.get(join, ()) if turn.nodes[n] not in FINAL_LETTERS]
    losers.sort(key=turn.graph.rank.__getitem__)
    for node in losers:
        if turn.nodes[node] == ACTIVE:
            withdraw(turn, node, CancelReason.RACE)
        else:
            turn.attempts[node] = 0
        turn.mark(node, NodeLetter.CANCELLED)
    for node in losers:
        _all_dead(turn, node)


# -- joins --------------------------------------------------------------------------------------------------------


def look(turn: Turn, node: int) -> Arrival:
    """J: what a pending node does with the tokens that are in."""
    needed = turn.node(node).join
    if needed:
        return _look_any(turn, node, needed)
    span = turn.graph.in_span[node]
    if span is None:
        letters = bytes(turn.edges[number] for number in turn.graph.ins[node])
    else:
        letters = bytes(turn.edges[span[0] : span[1]])
    if UNDECIDED in letters or WITHHELD in letters:
        return Arrival.WAIT
    if not letters:
        return Arrival.ACT
    if TAKEN not in letters:
        return Arrival.SKIP
    if DEAD_EDGE in letters and DEAD in turn.nodes and _cut_off(turn, node):
        return Arrival.SKIP
    return Arrival.ACT


def _look_any(turn: Turn, node: int, needed: int) -> Arrival:
    letters = [turn.edges[number] for number in turn.graph.ins[node]]
    taken = letters.count(TAKEN)
    if taken >= needed:
        return Arrival.ACT
    if UNDECIDED in letters or WITHHELD in letters:
        return Arrival.WAIT
    failed = any(turn.nodes[n] == DEAD for n in turn.graph.races.get(node, ()))
    return Arrival.SKIP if not taken and not failed else Arrival.UNSATISFIED


def _cut_off(turn: Turn, join: int) -> bool:
    """J1: a handled failure leads to the join and no in-edge that it leads to is taken.

    Walks backwards in topological order with a set of in-edges (as bits) per node; a path does not pass through an
    any/count join.
    """
    graph, edges = turn.graph, turn.graph.definition.edges
    leads: dict[int, int] = {}
    taken = 0
    for bit, number in enumerate(graph.ins[join]):
        source = edges[number].source
        leads[source] = leads.get(source, 0) | 1 << bit
        if turn.edges[number] == TAKEN:
            taken |= 1 << bit
    for rank in range(graph.rank[join] - 1, -1, -1):
        node = graph.order[rank]
        bits = leads.get(node)
        if bits is None:
            continue
        counts = turn.nodes[node] == DEAD and not (turn.node(node).optional or graph.raced[node])
        if counts and not bits & taken:
            return True
        if turn.node(node).join == 0:
            for number in graph.ins[node]:
                source = edges[number].source
                leads[source] = leads.get(source, 0) | bits
    return False


def unsatisfied(turn: Turn, node: int) -> Failure:
    """J2: every token is in and too few were taken."""
    graph = turn.graph
    taken = sum(turn.edges[number] == TAKEN for number in graph.ins[node])
    needed = turn.node(node).join
    errors = sorted(turn.node(n).id for n in graph.races.get(node, ()) if turn.nodes[n] == DEAD)
    listed = ",".join(f'"{name}"' for name in errors)
    return Failure(
        "join_unsatisfied",
        f"{taken} of {needed} needed branches succeeded",
        details=f'{{"errors":[{listed}],"needed":{needed},"taken":{taken}}}',
    )


# -- the two rounds -----------------------------------------------------------------------------------------------

Chosen = dict[int, bool]
"""Edge number -> taken, for all out-edges of a node."""


def _success_round(turn: Turn, node: int) -> Chosen | Failure:
    """T4 for `success` (and for a tolerated failure, F3), T5 for a switch."""
    outs = turn.graph.outs[node]
    chosen: Chosen = dict.fromkeys(outs, False)
    edges = turn.graph.definition.edges
    if turn.node(node).type is NodeType.SWITCH:
        picked = _pick(turn, node, [n for n in outs if edges[n].on is On.SUCCESS])
        if isinstance(picked, Failure):
            return picked
        chosen[picked] = True
    else:
        for number in outs:
            if edges[number].on is not On.FAILURE:
                holds = _holds(turn, node, edges[number])
                if isinstance(holds, Fault):
                    return Failure(holds.code, holds.message)
                chosen[number] = holds
    return _check_back_edges(turn, chosen)


def _pick(turn: Turn, node: int, numbers: list[int]) -> int | Failure:
    """T5: the first success edge of a switch that holds, else its `else` edge."""
    edges = turn.graph.definition.edges
    for number in numbers:
        if not edges[number].otherwise:
            holds = _holds(turn, node, edges[number])
            if isinstance(holds, Fault):
                return Failure(holds.code, holds.message)
            if holds:
                return number
    for number in numbers:
        if edges[number].otherwise:
            return number
    return Failure("no_match", "no condition held and there is no else edge")


def _dead_round(turn: Turn, node: int, *, back_edges: bool) -> Chosen | Failure:
    """T4 for `dead`; an error in a `when` counts as not holding (T6)."""
    outs = turn.graph.outs[node]
    chosen: Chosen = dict.fromkeys(outs, False)
    edges = turn.graph.definition.edges
    otherwise = None
    handled = False
    for number in outs:
        edge = edges[number]
        if edge.on is On.SUCCESS or (edge.loop_max is not None and not back_edges):
            continue
        if edge.otherwise:
            otherwise = number
            continue
        chosen[number] = _holds(turn, node, edge) is True
        handled = handled or (chosen[number] and edge.on is On.FAILURE)
    if otherwise is not None and not handled:
        chosen[otherwise] = True
    return _check_back_edges(turn, chosen)


def _check_back_edges(turn: Turn, chosen: Chosen) -> Chosen | Failure:
    """L2: the back edge of the last pass is `loop_exhausted`. T7: the 101st of a decision waits for the next."""
    for number, taken in chosen.items():
        loop = turn.graph.back_of[number]
        if not taken or loop is None:
            continue
        limit = turn.graph.loops[loop].max
        if turn.passes[loop] >= limit:
            header = turn.node(turn.graph.loops[loop].header).id
            return Failure("loop_exhausted", f"the loop of {header} has used its {limit} passes")
        if turn.backs >= BACKS_MAX:
            raise Postponed
    return chosen


def _die_of_edges(turn: Turn, node: int, failure: Failure) -> None:
    """The second and last round: deciding the edges itself made the node dead (T5, T6, L2). Never tolerated (F3).

    A back edge of this round whose passes are used up is simply not taken, and the first error stays.
    """
    turn.put_next_error(node, failure)
    turn.mark(node, NodeLetter.DEAD)
    chosen = _dead_round(turn, node, back_edges=failure.code != "loop_exhausted")
    if isinstance(chosen, Failure):
        chosen = _dead_round(turn, node, back_edges=False)
    assert not isinstance(chosen, Failure), "there is no third round"
    _settle_failure(turn, node, chosen)


def _settle_failure(turn: Turn, node: int, chosen: Chosen) -> None:
    """F1, F2: whether the failure is handled, delayed by an `always` edge, or ends the run now."""
    edges = turn.graph.definition.edges
    handled = turn.graph.raced[node] or any(
        taken and edges[number].on is On.FAILURE for number, taken in chosen.items()
    )
    if handled:
        _apply(turn, chosen)
    elif any(chosen.values()):
        turn.failures.append(turn.place(node))
        _apply(turn, chosen)
    else:
        close_for_failure(turn, turn.place(node))


def _holds(turn: Turn, node: int, edge: Edge) -> bool | Fault:
    if edge.when is None:
        return True
    return turn.holds(edge.when, scope.of_edge(turn, node, edge.when))


def _into_race(turn: Turn, number: int) -> bool:
    """F3: a tolerated failure cannot win an any/count join."""
    return turn.node(turn.graph.definition.edges[number].target).join > 0


def _apply(turn: Turn, chosen: Chosen) -> None:
    """Decide the edges together. A taken back edge resets the body, so its neighbours need no token."""
    graph = turn.graph
    for number, taken in chosen.items():
        loop = graph.back_of[number]
        if taken and loop is not None:
            turn.start(repeat(turn, loop))
            return
    for number, taken in chosen.items():
        if taken:
            turn.edges[number] = TAKEN
            turn.arrive(graph.definition.edges[number].target)
    for number, taken in chosen.items():
        if not taken:
            decide_dead(turn, number)


def _all_dead(turn: Turn, node: int) -> None:
    for number in turn.graph.outs[node]:
        decide_dead(turn, number)

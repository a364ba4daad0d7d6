"""The machine under random graphs and random fates. What must hold is checked by `World` after every event.

More of it: `pytest tests/property --hypothesis-profile=deep`.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st
from tests.support.fates import CALM, Trouble, drive, script_of
from tests.support.flows import Taste, random_graph
from tests.support.world import World

from tenuto.machine.snapshot import Snapshot
from tenuto.model.graph import Graph
from tenuto.model.states import RunState

SEEDS = st.integers(0, 2**32 - 1)
TROUBLE = st.builds(
    Trouble,
    failures=st.sampled_from((3, 12, 30)),
    cancels=st.sampled_from((0, 0, 2)),
    pauses=st.sampled_from((0, 6)),
)
MANY = settings(max_examples=5 * settings().max_examples)
"""A graph costs milliseconds, so there are more of them than of other things."""


def legal_graph(rng: Random, taste: Taste, *, loose: bool = False) -> Graph:
    graph = random_graph(rng, taste, loose=loose)
    assume(graph is not None)
    assert graph is not None
    note(told(graph))
    return graph


def told(graph: Graph) -> str:
    """A graph in words, for a failure's report."""
    nodes = [
        f"{n.id} {n.type} join={n.join} losers={n.cancel_losers} optional={n.optional}"
        for n in graph.definition.nodes
    ]
    edges = [
        f"{graph.definition.nodes[e.source].id} -{e.on}-> {graph.definition.nodes[e.target].id}"
        f"{' when' if e.when else ''}{' else' if e.otherwise else ''}"
        f"{f' loop {e.loop_max}' if e.loop_max else ''}"
        for e in graph.definition.edges
    ]
    return "\n".join([*nodes, *edges])


@MANY
@given(rng=st.randoms(use_true_random=False), seed=SEEDS, trouble=TROUBLE)
def test_every_run_ends_whatever_happens_to_it(rng: Random, seed: int, trouble: Trouble) -> None:
    taste = Taste()
    graph = legal_graph(rng, taste)

    world = drive(World(graph, script_of(graph, seed, taste)), rng, seed, trouble)

    event(world.state.value)
    event(f"loops {len(graph.loops)}, races {len(graph.races)}")


@MANY
@given(rng=SEEDS.map(Random), seed=SEEDS, trouble=TROUBLE)
def test_odd_graphs_of_loose_edges_end_too(rng: Random, seed: int, trouble: Trouble) -> None:
    taste = Taste()
    tried = (random_graph(rng, taste, loose=True) for _ in range(100))
    graph = next((found for found in tried if found is not None), None)
    assume(graph is not None)
    assert graph is not None
    note(told(graph))

    world = drive(World(graph, script_of(graph, seed, taste)), rng, seed, trouble)

    event(world.state.value)


@given(rng=st.randoms(use_true_random=False), seed=SEEDS, orders=st.tuples(SEEDS, SEEDS))
def test_the_order_of_completions_does_not_change_where_a_run_ends(
    rng: Random, seed: int, orders: tuple[int, int]
) -> None:
    """Without any/count joins, `end`, clocks and cancels. A run that fails closes at once, wherever the others are."""
    taste = Taste(races=False, ends=False, clocks=False)
    graph = legal_graph(rng, taste)
    quiet = replace(CALM, failures=15)

    first, second = (
        drive(World(graph, script_of(graph, seed, taste)), Random(order), seed, quiet)
        for order in orders
    )

    event(first.state.value)
    assert first.state is second.state
    if first.state is RunState.SUCCESS:
        assert _end_of(first.snapshot) == _end_of(second.snapshot)
        assert first.output() == second.output()


@given(rng=st.randoms(use_true_random=False), seed=SEEDS)
def test_disturbances_that_change_nothing_leave_no_trace(rng: Random, seed: int) -> None:
    """Late, repeated and stray events, and pauses, end the run as if they had never come. Catalogue H11."""
    taste = Taste(races=False, ends=False, clocks=False)
    graph = legal_graph(rng, taste)
    quiet = replace(CALM, failures=8)
    noisy = Trouble(failures=8, losses=0, deadlines=0, cancels=0)

    calm = drive(World(graph, script_of(graph, seed, taste)), Random(seed), seed, quiet)
    disturbed = drive(World(graph, script_of(graph, seed, taste)), Random(seed + 1), seed, noisy)

    assert calm.state is disturbed.state
    if calm.state is RunState.SUCCESS:
        assert _end_of(calm.snapshot) == _end_of(disturbed.snapshot)


def _end_of(snapshot: Snapshot) -> tuple[object, ...]:
    return (
        snapshot.nodes,
        snapshot.edges,
        snapshot.passes,
        snapshot.records,
        snapshot.attempts,
        snapshot.failures,
    )

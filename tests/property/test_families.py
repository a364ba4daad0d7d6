"""Runs that call runs, work through lists, undo what they did, and are tried again: random graphs, random fates.

What must hold is checked by `World` after every event of every run: no deadlock (each run reaches a final state), no
double activation, the counters of children and items equal their rows, no undo beside live work, undone exactly what C3
says, in reverse of the ends, each once; every open child of a final parent is told, none is open after the drain; a
retry runs S again and nothing else; each history folds to its state. More: `--hypothesis-profile=deep`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

from hypothesis import assume, event, given, note
from hypothesis import strategies as st
from tests.property.test_machine import told
from tests.support.fates import CALM, Trouble, drive, script_of
from tests.support.flows import Taste, random_graph
from tests.support.graphs import graph
from tests.support.world import World

from tenuto.model.definition import Call, Foreach, WaitForEvent, Work
from tenuto.model.graph import Graph
from tenuto.model.states import RunState

SEEDS = st.integers(0, 2**32 - 1)
SUB = graph("p -> q; p -failure-> r", types={"q": "set"})
"""The workflow that calls name."""


def family_of(rng: Random, seed: int, taste: Taste) -> World:
    """A run of a random graph, and the workflow that it may call."""
    found = random_graph(rng, taste)
    assume(found is not None)
    assert found is not None
    note(told(found))
    return World(found, script_of(found, seed, taste), workflows={"sub": SUB})


@given(rng=SEEDS.map(Random), seed=SEEDS, failures=st.sampled_from((3, 12, 30)))
def test_lists_and_calls_end_whatever_happens(rng: Random, seed: int, failures: int) -> None:
    taste = Taste(nodes=8, whole=40, inlines=2, rules=20, events=10)
    world = family_of(rng, seed, taste)

    drive(world, rng, seed, Trouble(failures=failures, pauses=4))

    event(f"{world.state.value}, {min(4, len(world.family.worlds))} runs")


@given(rng=SEEDS.map(Random), seed=SEEDS, cancels=st.sampled_from((0, 2)))
def test_what_was_done_is_undone(rng: Random, seed: int, cancels: int) -> None:
    """Catalogue I-20."""
    taste = Taste(nodes=8, undo=50, whole=10)
    world = family_of(rng, seed, taste)

    drive(world, rng, seed, Trouble(failures=15, cancels=cancels))

    event(f"{world.state.value}, {world.snapshot.compensation}")


@given(rng=SEEDS.map(Random), seed=SEEDS, skips=st.sampled_from((0, 2)))
def test_what_failed_is_tried_again(rng: Random, seed: int, skips: int) -> None:
    taste = Taste(nodes=8, whole=15, rules=10)
    trouble = Trouble(failures=20, cancels=1, terminates=1, skips=skips, retries=80, replays=30)
    world = family_of(rng, seed, taste)

    drive(world, rng, seed, trouble)

    event(f"{world.state.value}, epoch {world.snapshot.epoch}, {len(world.family.worlds)} runs")


@given(rng=SEEDS.map(Random), seed=SEEDS)
def test_everything_at_once(rng: Random, seed: int) -> None:
    taste = Taste(nodes=9, whole=25, inlines=2, undo=25, rules=15, events=15)
    trouble = Trouble(failures=12, terminates=1, skips=1, retries=70, replays=30)
    world = family_of(rng, seed, taste)

    drive(world, rng, seed, trouble)

    event(world.state.value)


@given(rng=SEEDS.map(Random), seed=SEEDS, orders=st.tuples(SEEDS, SEEDS))
def test_the_order_of_completions_does_not_change_where_a_family_ends(
    rng: Random, seed: int, orders: tuple[int, int]
) -> None:
    """As for one run: without any/count joins, `end`, clocks and cancels."""
    taste = Taste(nodes=8, races=False, ends=False, clocks=False, whole=40, inlines=2, rules=10)
    first = family_of(rng, seed, taste)
    quiet = replace(CALM, failures=8)
    second = World(first.graph, first.script, workflows={"sub": SUB})
    drive(first, Random(orders[0]), seed, quiet)
    drive(second, Random(orders[1]), seed, quiet)

    event(first.state.value)
    assert first.state is second.state
    if first.state is RunState.SUCCESS:
        assert _end_of(first) == _end_of(second)
        assert _output_of(first) == _output_of(second)


@given(rng=SEEDS.map(Random), seed=SEEDS)
def test_disturbances_that_change_nothing_leave_no_trace(rng: Random, seed: int) -> None:
    """Late, repeated and stray events, notices in any order, and pauses, as if they had never come."""
    taste = Taste(nodes=8, races=False, ends=False, clocks=False, whole=40)
    calm = family_of(rng, seed, taste)
    noisy = World(calm.graph, calm.script, workflows={"sub": SUB})
    drive(calm, Random(seed), seed, replace(CALM, failures=8))
    drive(noisy, Random(seed + 1), seed, Trouble(failures=8, losses=0, deadlines=0, cancels=0))

    assert calm.state is noisy.state
    if calm.state is RunState.SUCCESS:
        assert _end_of(calm) == _end_of(noisy)
        assert _output_of(calm) == _output_of(noisy)


def _output_of(world: World) -> str:
    """The run's output; a child's id has the moment when it began."""
    assert world.settled is not None
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "an id", world.output_text(world.settled.output))


def _end_of(world: World) -> tuple[object, ...]:
    snapshot = world.snapshot
    return (
        snapshot.nodes,
        snapshot.edges,
        snapshot.passes,
        snapshot.records,
        snapshot.attempts,
        snapshot.failures,
        {
            node: (items.listed, items.succeeded, items.failed)
            for node, items in snapshot.items.items()
            if world.letters[node] == "s"
        },
    )


def test_the_graphs_have_all_that_a_definition_may_hold() -> None:
    """The tests above would be worth less than they seem if the generator left something out."""
    seen: set[str] = set()
    for seed in range(300):
        found = random_graph(Random(seed), Taste(nodes=9, whole=30, undo=30, rules=30, events=30))
        if found is not None:
            seen |= set(_kinds(found))

    missing = {
        "foreach over Work",
        "foreach over Call",
        "foreach paged",
        "call inline",
        "call named",
        "call sent off",
        "emit",
        "undo task",
        "undo started",
        "undo call",
        "undo emit",
        "on_failure",
        "rules",
        "match",
        "keep",
    } - seen
    assert not missing


def _kinds(graph: Graph) -> list[str]:
    found: list[str] = []
    definition = graph.definition
    if definition.on_failure is not None:
        found.append("on_failure")
    found += ["keep" for edge in definition.edges if edge.loop_keep is not None]
    for node in definition.nodes:
        detail = node.detail
        found.append(node.type.value)
        if isinstance(detail, Foreach):
            found.append(f"foreach over {type(detail.body).__name__}")
            found += ["foreach paged"] if detail.source is not None else []
        if isinstance(detail, Call):
            found.append("call named" if detail.name is not None else "call inline")
            found += ["call sent off"] if not detail.wait else []
        if isinstance(detail, Work) and detail.retry.rules:
            found.append("rules")
        if isinstance(detail, WaitForEvent) and detail.match is not None:
            found.append("match")
        if node.compensate is not None:
            found.append(f"undo {node.compensate.type.value}")
            found += ["undo started"] if node.compensate.started else []
    return found

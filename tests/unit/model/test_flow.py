from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tests.support.graphs import definition
from tests.support.shapes import Successors, definitions, digraphs, dominates, forward_of, walk

from tenuto.model.definition import Definition
from tenuto.model.flow import (
    dominator_tree,
    flow_of,
    reachable,
    shortest_path,
    strong_components,
    topological_order,
)


@given(digraphs())
def test_dominators_are_the_nodes_whose_removal_cuts_off(successors: Successors) -> None:
    tree = dominator_tree(0, successors)

    for b in range(len(successors)):
        assert tree.reaches(b) == (b in walk(successors.__getitem__, [0]))
        for a in range(len(successors)):
            assert tree.dominates(a, b) == dominates(successors, [0], a, b), (a, b)


@given(digraphs())
def test_the_parent_in_the_tree_is_the_nearest_strict_dominator(successors: Successors) -> None:
    tree = dominator_tree(0, successors)

    for node in range(len(successors)):
        strict = [a for a in range(len(successors)) if a != node and tree.dominates(a, node)]
        nearest = [a for a in strict if all(tree.dominates(other, a) for other in strict)]
        assert nearest == ([] if tree.parent[node] < 0 else [tree.parent[node]])


@given(digraphs())
def test_tops_are_equal_exactly_where_a_dominator_below_the_root_is_shared(
    successors: Successors,
) -> None:
    tree = dominator_tree(0, successors)
    tops = tree.tops()
    below = [n for n in range(1, len(successors)) if tree.reaches(n)]

    for a in below:
        for b in below:
            shared = any(tree.dominates(d, a) and tree.dominates(d, b) for d in below)
            assert (tops[a] == tops[b]) == shared
    assert tops[0] == -1


@given(definitions())
def test_topological_order_takes_the_smallest_node_that_waits_for_nothing(
    any: Definition,
) -> None:
    successors = forward_of(any)
    left = set(range(len(successors)))
    expected = []
    while left:
        held = {target for node in left for target in successors[node]}
        expected.append(min(left - held))
        left.remove(expected[-1])

    assert tuple(expected) == topological_order(successors)


def test_nodes_on_and_behind_a_cycle_have_no_place_in_the_order() -> None:
    assert topological_order([[1], [2], [1, 3], []]) == (0,)


@given(digraphs())
def test_strong_components_are_the_nodes_that_lead_to_each_other(successors: Successors) -> None:
    after = [walk(successors.__getitem__, targets) for targets in successors]
    expected = {
        tuple(b for b in range(len(successors)) if b in after[a] and a in after[b])
        for a in range(len(successors))
        if a in after[a]
    }

    assert sorted(expected) == strong_components(successors)


@given(digraphs(), st.data())
def test_a_shortest_path_follows_edges_and_no_other_is_shorter(
    successors: Successors, data: st.DataObject
) -> None:
    node = st.integers(0, len(successors) - 1)
    source, target = data.draw(node), data.draw(node)
    path = shortest_path(successors, source, {target}, range(len(successors)))
    rings = [{source}]
    for _ in successors:
        rings.append({after for node in rings[-1] for after in successors[node]})
    steps = next((n for n, ring in enumerate(rings) if n and target in ring), None)

    assert (len(path) - 1 if path else None) == steps
    assert not path or (path[0], path[-1]) == (source, target)
    assert all(b in successors[a] for a, b in pairwise(path))


def test_a_path_stays_within_the_nodes_it_may_use() -> None:
    assert shortest_path([[1, 2], [3], [3], []], 0, {3}, {2, 3}) == (0, 2, 3)
    assert shortest_path([[1], [2], []], 0, {2}, {2}) == ()


@given(digraphs())
def test_reachable_holds_the_sources_and_what_they_lead_to(successors: Successors) -> None:
    assert walk(successors.__getitem__, [0]) == reachable(successors, [0])


def test_a_graph_ten_thousand_deep_needs_no_recursion() -> None:
    count = 10_000
    successors = [[n + 1] for n in range(count - 1)] + [[]]
    tree = dominator_tree(0, successors)

    assert topological_order(successors) == tuple(range(count))
    assert tree.dominates(5_000, count - 1)
    assert not tree.dominates(5_001, 5_000)
    assert strong_components(successors) == []


def test_start_leads_to_every_node_without_forward_in_edges() -> None:
    flow = flow_of(definition("a -> c; b -> c; c -> c loop 2; c -> d"))

    assert flow is not None
    assert flow.start == 4
    assert [flow.dominators.parent[n] for n in range(4)] == [4, 4, 4, 1]
    assert flow.order == (0, 2, 1, 3)


def test_a_forward_cycle_has_no_flow() -> None:
    assert flow_of(definition("a -> b; b -> a")) is None


def test_between_holds_what_leads_to_a_node_past_its_dominator() -> None:
    flow = flow_of(definition("s -> a; s -> b; b -> c; a -> j; c -> j; a -> x"))

    assert flow is not None
    ids = {node.id: n for n, node in enumerate(flow.definition.nodes)}
    s, j, c = ids["s"], ids["j"], ids["c"]
    assert {flow.name(n) for n in flow.between(s, j)} == {"a", "b", "c"}
    assert {flow.name(n) for n in flow.between(s, j, barred={c})} == {"a", "c"}

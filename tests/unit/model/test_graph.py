from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from tests.support.graphs import graph
from tests.support.shapes import definitions

from tenuto.model.definition import Definition
from tenuto.model.graph import Graph, index
from tenuto.model.structure import analyse


def of(text: str, **more: Any) -> tuple[Graph, Mapping[str, int]]:
    found = graph(text, **more)
    return found, found.numbers


@pytest.mark.rule("T1.3")
def test_in_edges_are_forward_only_and_out_edges_are_all() -> None:
    found, at = of("a -> b; b -> a when 'x' loop 2; b -> c else", types={"b": "switch"})

    assert [found.ins[at[n]] for n in "abc"] == [(), (0,), (2,)]
    assert [found.outs[at[n]] for n in "abc"] == [(0,), (1, 2), ()]
    assert found.roots == (at["a"],)


def test_a_span_is_known_where_in_edges_are_neighbours() -> None:
    found, at = of("a -> m; b -> m; a -> n; b -> n; a -> k; c -> m2; c -> k")

    assert found.in_span[at["m"]] == (0, 2)
    assert found.in_span[at["k"]] is None
    assert found.in_span[at["a"]] is None


def test_loops_around_a_node_are_listed_from_the_outermost() -> None:
    text = "o -> i; i -> i when 'x' loop 3; i -> s else; s -> o when 'y' loop 4; s -> out else"
    found, at = of(text, types={"i": "switch", "s": "switch"})

    assert [loop.max for loop in found.loops] == [4, 3]
    assert [found.loops_of[at[n]] for n in ("o", "i", "s", "out")] == [(0,), (0, 1), (0,), ()]
    assert found.back_of == (None, 1, None, 0, None)
    assert found.leaves == ((), (), (1,), (), (0,))


@pytest.mark.rule("C5.1")
def test_sinks_are_nodes_that_a_success_cannot_leave_but_no_ends() -> None:
    text = "a -failure-> x; b -> e; c -always-> f; d"
    found, at = of(text, types={"e": "end", "f": "fail"})

    assert set(found.sinks) == {at["a"], at["x"], at["d"]}


def test_nodes_of_every_race_are_marked() -> None:
    found, at = of("s -> a; s -> b; a -> j; b -> j", join={"j": 1})

    assert [found.raced[at[n]] for n in "sabj"] == [False, True, True, False]


@given(definitions())
def test_look_up_tables_agree_with_each_other(any: Definition) -> None:
    structure = analyse(any).structure
    assert structure is not None
    found = index(any, structure)

    for number, edge in enumerate(any.edges):
        assert number in found.outs[edge.source]
        assert (number in found.ins[edge.target]) == (edge.loop_max is None)
        assert (found.back_of[number] is None) == (edge.loop_max is None)
        if edge.loop_max is None:
            assert found.rank[edge.source] < found.rank[edge.target]
            source, target = (set(found.loops_of[n]) for n in (edge.source, edge.target))
            assert set(found.leaves[number]) == source - target
    for node, span in enumerate(found.in_span):
        numbers = found.ins[node]
        assert span is None or tuple(range(*span)) == numbers
        assert span is not None or not numbers or numbers[-1] - numbers[0] >= len(numbers)

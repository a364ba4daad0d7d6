"""Graphs that are remembered."""

from __future__ import annotations

from tests.support.graphs import graph as a_graph

from tenuto.views.shelf import Shelf


def test_a_graph_is_found_by_its_hash() -> None:
    shelf, kept = Shelf(), a_graph("a -> b")
    shelf.put("h", kept)

    assert shelf.find("h") is kept
    assert shelf.find("other") is None


def test_what_was_not_looked_at_longest_is_forgotten() -> None:
    shelf, kept = Shelf(2), a_graph("a -> b")
    shelf.put("a", kept)
    shelf.put("b", kept)
    shelf.find("a")
    shelf.put("c", kept)

    assert [shelf.find(each) is not None for each in "abc"] == [True, False, True]

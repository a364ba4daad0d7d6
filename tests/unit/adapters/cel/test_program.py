"""Expressions made ready to run."""

from __future__ import annotations

import pytest

from tenuto.adapters.cel.names import LENGTH
from tenuto.adapters.cel.program import Program, Trie, program_of
from tenuto.model.expressions import ParseError, Root


def program(text: str) -> Program:
    found = program_of(text)
    assert isinstance(found, Program), found
    return found


@pytest.mark.parametrize(
    ("text", "root", "wants"),
    [
        ("input + 1", Root.INPUT, None),
        ("input.a.b + input.a.c", Root.INPUT, {"a": {"b": None, "c": None}}),
        ("input.a.b + input.a", Root.INPUT, {"a": None}),
        ("input.a + input.a.b", Root.INPUT, {"a": None}),
        ("input.l[0].x + 1", Root.INPUT, {"l": {0: {"x": None}}}),
        ("input.l[0].x + input.l[iteration]", Root.INPUT, {"l": None}),
        ("size(input.l) > 1", Root.INPUT, {"l": {LENGTH: {}}}),
        ("size(input.l) > input.l[0].x", Root.INPUT, {"l": {LENGTH: {}, 0: {"x": None}}}),
        ("has(input.a.b)", Root.INPUT, {"a": {"b": {}}}),
        ("has(input.a) && input.a.b", Root.INPUT, {"a": {"b": None}}),
        ("has(input.a) && input.a", Root.INPUT, {"a": None}),
        ("input.?a.orValue(1)", Root.INPUT, {"a": None}),
        ("nodes.a.output.x + nodes.b.attempts", Root.NODES, {
            "a": {"output": {"x": None}}, "b": {"attempts": None},
        }),
    ],
)  # fmt: skip
def test_only_the_keys_that_are_read_are_wanted(text: str, root: Root, wants: Trie) -> None:
    assert program(text).wants[root] == wants


@pytest.mark.parametrize(
    ("text", "stand_ins"),
    [
        ("nodes.a.output.x == 1", set()),
        ("has(nodes.a.output)", {("nodes", "a")}),
        ("has(nodes.a)", set()),
        ("has(nodes.a.output.x)", {("nodes", "a"), ("nodes", "a", "output")}),
        ("has(nodes.a.output) && has(nodes.a.output.x)", {("nodes", "a")}),
        ("has(nodes.a.output.x) && nodes.a == nodes.b", {("nodes", "a", "output")}),
        ("nodes.?a.?output.?x.orValue(1)", set()),
        ("nodes.a.?output.?x.orValue(1)", {("nodes", "a")}),
        ("has(error.code)", {("error",)}),
        ("error != null && has(error.code)", set()),
        ("has(input.a.b)", set()),
    ],
)
def test_what_is_tested_below_an_absent_thing_stands_in(
    text: str, stand_ins: set[tuple[str, ...]]
) -> None:
    found = {keys for keys in program(text).stand_ins if keys != ("nodes",)}

    assert found == stand_ins


def test_plain_access_needs_no_engine() -> None:
    assert program("input.a.b").compiled is None
    assert program("input.?a").compiled is not None


def test_a_secret_is_recognised_by_its_name() -> None:
    assert program("secrets.TOKEN").secret == "TOKEN"
    assert program("secrets['TOKEN']").secret == "TOKEN"
    assert program("input.TOKEN").secret is None


def test_programs_and_errors_are_made_once() -> None:
    assert program_of("input.a + 41") is program_of("input.a + 41")
    assert isinstance(program_of("nope + 41"), ParseError)
    assert program_of("nope + 41") is program_of("nope + 41")

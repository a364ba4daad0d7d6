"""What one evaluation may see (SEMANTICS X2-X4)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tenuto.adapters.cel.context import (
    CONTEXT_MAX,
    Data,
    Seen,
    Sight,
    Stuck,
    follow,
    prune,
    shown,
)
from tenuto.adapters.cel.names import LENGTH
from tenuto.adapters.cel.payloads import Payloads
from tenuto.adapters.cel.program import Program, Trie, program_of
from tenuto.model.expressions import Missing, NodeView, Scope
from tenuto.model.ids import RUN_PLACE, Place
from tenuto.model.payload import JoinView, PayloadKey, PayloadKind, Text

INPUT = PayloadKey(RUN_PLACE, PayloadKind.INPUT)
VARS = PayloadKey(RUN_PLACE, PayloadKind.VARS)


def output(node: str) -> PayloadKey:
    return PayloadKey(Place(node), PayloadKind.OUTPUT)


def error(node: str) -> PayloadKey:
    return PayloadKey(Place(node), PayloadKind.ERROR)


def program(text: str) -> Program:
    found = program_of(text)
    assert isinstance(found, Program), found
    return found


def sight(texts: Mapping[PayloadKey, str], *nodes: NodeView, **scope: object) -> Sight:
    return Sight(Data(Payloads(texts)), Scope(INPUT, VARS, nodes, **scope))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wants", "left"),
    [
        (None, {"a": {"b": 1, "c": [1]}, "d": 2}),
        ({"a": {"b": None}}, {"a": {"b": 1}}),
        ({"a": {}}, {"a": None}),
        ({"gone": None}, {}),
        ({"a": {"c": {"x": None}}}, {"a": {"c": [None]}}),
        ({"a": {"c": {0: None}}}, {"a": {"c": [1]}}),
        ({"a": {"c": {7: None}}}, {"a": {"c": [None]}}),
        ({"a": {LENGTH: {}}}, {"a": {"b": None, "c": None}}),
        ({"a": {LENGTH: {}, "b": None}}, {"a": {"b": 1, "c": None}}),
        ({"d": {LENGTH: {}}}, {"d": 2}),
    ],
)
def test_pruning_keeps_what_is_read(wants: Trie, left: object) -> None:
    assert prune({"a": {"b": 1, "c": [1]}, "d": 2}, wants) == left


def test_a_node_shows_its_facts_and_loads_only_what_is_read() -> None:
    view = NodeView("a", "success", 2, output("a"), has_output=True, error=error("a"), iteration=3)
    seen = sight({}, view).seen(program("nodes.a.attempts + nodes.a.iteration"))

    assert seen.names == {"nodes": {"a": {"status": "success", "attempts": 2, "iteration": 3}}}


def test_existence_needs_no_text() -> None:
    view = NodeView("a", "success", 1, output("a"), has_output=True)
    found = sight({}, view)

    seen = found.seen(program("has(nodes.a.output)"))

    assert not found.missing
    assert seen.names == {"nodes": {"a": {"status": "success", "attempts": 1, "output": None}}}


def test_all_missing_texts_are_named_at_once_and_nothing_else() -> None:
    nodes = (
        NodeView("a", "success", 1, output("a"), has_output=True),
        NodeView("b", "dead", 1, error=error("b")),
        NodeView("c", "success", 1, output("c"), has_output=True),
    )
    found = sight({VARS: "{}"}, *nodes, error=error("b"))

    found.seen(program("nodes.a.output.x + vars.y + input.z"))
    found.seen(program("nodes.b.error.code == error.code"))

    assert found.missing.told() == Missing((output("a"), INPUT, error("b")))


def test_a_join_is_assembled_from_the_parts_that_are_read() -> None:
    inner = JoinView((("x", output("x")),))
    view = JoinView((("a", output("a")), ("b", output("b")), ("none", None), ("in", inner)))
    texts = {output("a"): '{"n":1,"m":2}', output("x"): "7"}
    node = NodeView("j", "success", 0, view, has_output=True)

    parts = sight(texts, node).seen(program("[nodes.j.output.a.n, nodes.j.output.none]"))
    deep = sight(texts, node).seen(program("nodes.j.output['in'].x"))
    whole = sight(texts, node)
    whole.seen(program("nodes.j.output"))

    assert parts.names["nodes"]["j"]["output"] == {"a": {"n": 1}, "none": None}  # type: ignore[index]
    assert deep.names["nodes"]["j"]["output"] == {"in": {"x": 7}}  # type: ignore[index]
    assert whole.missing.told() == Missing((output("b"),))


def test_error_and_iteration_stand_as_they_are_in_the_scope() -> None:
    text = program("error == null || iteration > 1")

    assert sight({}).seen(text).names == {"error": None}
    assert sight({error("b"): '{"code":"x"}'}, error=error("b"), iteration=2).seen(text).names == {
        "error": {"code": "x"},
        "iteration": 2,
    }


def test_what_this_decision_made_comes_before_what_was_loaded() -> None:
    found = sight({INPUT: "1", VARS: "3"}, fresh={INPUT: Text(1, "2")})

    assert found.seen(program("input + vars")).names == {"input": 2, "vars": 3}


def test_size_is_that_of_what_is_read_not_of_its_source() -> None:
    large = ["x" * CONTEXT_MAX]

    assert not Seen({}, bound=10 * CONTEXT_MAX, kept=[{"a": 1}]).is_too_large()
    assert Seen({}, bound=CONTEXT_MAX + 2, kept=large).is_too_large()
    assert not Seen({}, bound=CONTEXT_MAX, kept=large).is_too_large()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("input.gone.x", "no such key: gone in input"),
        ("input.o.gone", "no such key: gone in input.o"),
        ('input["a b"].x', 'input["a b"] is a string, it has no key x'),
        ("input.l[3]", "index 3 is outside the list input.l, which has 1 element"),
        ("input.l[-1]", "index -1 is outside the list input.l, which has 1 element"),
        ("input.l.x", "input.l is a list, it has no key x"),
        ("input.nil.x", "input.nil is null, it has no key x"),
        ("input.o[0]", "no such key: 0 in input.o"),
        ("error.code", "error is null, it has no key code: test `error != null` first"),
        ("iteration", "iteration is read outside a loop"),
        ("nodes.a.output", "no such key: output in nodes.a, whose status is dead"),
        ("nodes.b.output", "no such key: b in nodes"),
    ],
)
def test_a_path_that_leads_nowhere_says_where_it_ends(text: str, message: str) -> None:
    texts = {INPUT: '{"o":{"k":1},"a b":"s","l":[0],"nil":null}'}
    plain = program(text)
    names = sight(texts, NodeView("a", "dead", 1)).seen(plain).names
    assert plain.names.whole is not None

    with pytest.raises(Stuck) as caught:
        follow(names, plain.names.whole)

    assert message in caught.value.message


def test_a_path_is_shown_as_one_would_write_it() -> None:
    path = program("input.a['b-c'][0].ok").names.whole
    assert path is not None

    assert shown(path) == 'input.a["b-c"][0].ok'
    assert shown(path, 2) == 'input.a["b-c"]'

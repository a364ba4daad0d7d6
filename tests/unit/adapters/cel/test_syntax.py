"""The checked tree, decoded from what the engine serialises."""

from __future__ import annotations

from tenuto.adapters.cel.engine import Compiled, compile_text
from tenuto.adapters.cel.syntax import (
    Call,
    Comprehension,
    Constant,
    Many,
    Name,
    Select,
    Tree,
    decode,
)


def tree_of(text: str) -> Tree:
    compiled = compile_text(text)
    assert isinstance(compiled, Compiled), compiled
    return decode(compiled.tree)


def test_accesses_stand_inside_one_another() -> None:
    root = tree_of("nodes.a['b']").root

    assert isinstance(root, Call)
    assert root.function == "_[_]"
    inner, key = root.arguments
    assert isinstance(inner, Select)
    assert isinstance(inner.operand, Name)
    assert (inner.operand.name, inner.field, inner.tests) == ("nodes", "a", False)
    assert isinstance(key, Constant)
    assert key.value == "b"


def test_has_is_a_select_that_tests() -> None:
    root = tree_of("has(input.a)").root

    assert isinstance(root, Select)
    assert root.tests


def test_constants_are_texts_or_integers() -> None:
    root = tree_of("[-1, 0, 9223372036854775807, '', 'ü', 1.5, true, null, b'x', 3u]").root

    assert isinstance(root, Many)
    values = [part.value for part in root.parts if isinstance(part, Constant)]
    assert values == [-1, 0, 2**63 - 1, "", "ü", None, None, None, None, None]


def test_a_member_call_has_a_target() -> None:
    root = tree_of("'a'.replace('a', 'b')").root

    assert isinstance(root, Call)
    assert (root.function, len(root.arguments)) == ("replace", 2)
    assert isinstance(root.target, Constant)


def test_a_map_gives_its_keys_and_values() -> None:
    root = tree_of("{input.k: vars.v}").root

    assert isinstance(root, Many)
    assert [part.field for part in root.parts if isinstance(part, Select)] == ["k", "v"]


def test_a_macro_binds_its_variable() -> None:
    root = tree_of("input.l.map(x, x + 1)").root

    assert isinstance(root, Comprehension)
    assert "x" in root.bound


def test_positions_count_code_points_over_lines() -> None:
    tree = tree_of("'€😀' +\n  input.x")
    root = tree.root

    assert isinstance(root, Call)
    select = root.arguments[1]
    assert isinstance(select, Select)
    assert tree.positions[select.operand.id] == len("'€😀' +\n  ")


def test_proven_integers_are_marked() -> None:
    tree = tree_of("[1, input.x, 1.5, size('a')]")
    root = tree.root

    assert isinstance(root, Many)
    assert [part.id in tree.ints for part in root.parts] == [True, False, False, True]


def test_messages_of_the_engine_are_decoded_too() -> None:
    root = tree_of("google.protobuf.Int64Value{value: 1}").root

    assert isinstance(root, Many)
    assert [part.value for part in root.parts if isinstance(part, Constant)] == [1]


def test_optional_parts_are_marked() -> None:
    listed = tree_of("[1, ?input.?a]").root
    keyed = tree_of("{'a': 1, ?'b': input.?a}").root

    assert isinstance(listed, Many)
    assert isinstance(keyed, Many)
    assert (listed.keyed, listed.optional) == (False, frozenset({1}))
    assert (keyed.keyed, keyed.optional) == (True, frozenset({3}))


def test_what_is_an_optional_or_holds_one_is_marked() -> None:
    tree = tree_of("[[input.?a], [1]]")
    root = tree.root

    assert isinstance(root, Many)
    inner = root.parts[0]
    assert isinstance(inner, Many)
    assert tree.optionals[inner.parts[0].id] is True
    assert tree.optionals[inner.id] is False
    assert root.parts[1].id not in tree.optionals

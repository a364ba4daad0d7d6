"""Trees as YAML for people, that the loader reads back as the same trees."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.dsl import yaml
from tenuto.dsl.findings import Findings
from tenuto.sdk.builder.origins import MadeMap, MadeText, Origin
from tenuto.sdk.builder.text import write

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
ODD = st.sampled_from(
    [
        "", " ", "a\n", "a\nb", "a\n\nb\n", "\na", " a\nb", "a\n \nb", "a \nb", "a\n\n", "a\tb\nc", "1e3", "0x1f",
        "0o17", "1_000", "1:30", "2d", "1h30m", "5", "-", "- a", "a: b", "a #b", "a, b", "it's", "null", "Null", "~",
        "yes", "No", "on", "y", "true", ".inf", "<<", "=", "a -> b", "${a.b}", "{a}", "[a]", "*a", "&a", "!a", "%a",
        "@a", "`a", "|", ">", "?", "? a", "a:", "\\", '"', "'", "\x85", "\u2028", "\ufeff", "a\u2028\nb", "é", "😀",
        "2026-01-02", "-1", "+1", ".5", "a\r\nb",
    ]
)  # fmt: skip
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | ODD,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS | ODD, inner, max_size=4),
    max_leaves=25,
)


def read_back(text: str) -> Any:
    findings = Findings("t", text)
    tree = yaml.read(text, findings)
    assert findings.in_order() == ()
    assert tree is not None
    return yaml.to_json(tree)


def same(one: object, other: object) -> bool:
    """Equal, and of the same kinds all the way down."""
    return one == other and repr(one) == repr(other)


@given(st.dictionaries(TEXTS | ODD | st.sampled_from(["nodes", "edges"]), VALUES, min_size=1))
def test_any_tree_is_read_back_as_it_was(tree: dict[str, Any]) -> None:
    assert same(read_back(str(write(tree))), tree)


@pytest.mark.parametrize("text", ["a\nb", "a\nb\n", "a\n\n  b\n\nc", "a: b\n#c"])
def test_a_text_of_several_lines_stands_as_it_is(text: str) -> None:
    written = write({"nodes": {"a": {"code": text, "n": [{"x": text, "y": 1}]}}})

    assert "\\n" not in str(written)
    assert read_back(str(written)) == {"nodes": {"a": {"code": text, "n": [{"x": text, "y": 1}]}}}


def test_short_values_stand_on_one_line_and_long_ones_on_lines_of_their_own() -> None:
    short = {"type": "task", "task": "a.b", "params": {"n": 1, "on": "yes"}, "needs": ["p", "q"]}
    long = {"type": "task", "params": {"text": "word " * 30, "more": ["w" * 60, {"a": "w" * 60}]}}
    tree: dict[str, Any] = {
        "name": "order",
        "description": "Charge, reserve (twice).",
        "nodes": {"s": short, "l": long},
        "edges": ["s -> l", {"from": "s", "to": "l", "when": "input.a > 50"}],
        "output": {"a": "${nodes.s.output}"},
    }

    assert str(write(tree)) == "\n".join(
        [
            "name: order",
            "description: Charge, reserve (twice).",
            "",
            "nodes:",
            '  s: {type: task, task: a.b, params: {n: 1, on: "yes"}, needs: [p, q]}',
            "  l:",
            "    type: task",
            "    params:",
            f'      text: "{"word " * 30}"',
            "      more:",
            f"        - {'w' * 60}",
            f"        - {{a: {'w' * 60}}}",
            "",
            "edges:",
            "  - s -> l",
            "  - {from: s, to: l, when: input.a > 50}",
            "",
            'output: {a: "${nodes.s.output}"}',
            "",
        ]
    )


def test_every_line_says_where_it_was_made() -> None:
    one, two, whole = Origin("a.py", 1, 1), Origin("a.py", 2, 1), Origin("a.py", 9, 1)
    inner = MadeMap({"type": "http"}, two)
    nodes: dict[str, Any] = {
        "a": MadeMap({"type": "fork", "params": {"n": 1}}, one),
        "b": MadeMap({"do": inner, "n": 1}, one),
        "read": MadeMap({"type": "fork"}, None),
    }
    edges: list[Any] = [MadeText.of("a -> b", two), MadeMap({"from": "a", "to": "b"}, one)]
    written = write(MadeMap({"name": "x", "nodes": nodes, "edges": edges, "output": {}}, whole))

    assert list(zip(written.lines, written.origins, strict=True)) == [
        ("name: x", whole),
        ("", whole),
        ("nodes:", whole),
        ("  a: {type: fork, params: {n: 1}}", one),
        ("  b:", one),
        ("    do: {type: http}", two),
        ("    n: 1", one),
        ("  read: {type: fork}", None),
        ("", whole),
        ("edges:", whole),
        ("  - a -> b", two),
        ("  - {from: a, to: b}", one),
        ("", whole),
        ("output: {}", whole),
    ]


def test_numbers_keep_their_kind() -> None:
    tree: dict[str, Any] = {"a": 1, "b": 1.0, "c": 1e300, "d": -0.5, "e": sys.maxsize, "f": 5e-324}

    assert same(read_back(str(write(tree))), tree)

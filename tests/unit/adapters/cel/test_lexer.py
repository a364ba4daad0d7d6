"""Where expressions end inside templates (SEMANTICS X7)."""

from __future__ import annotations

import pytest

from tenuto.adapters.cel.lexer import Hole, Unclosed, end_of, split


@pytest.mark.rule("X7.4")
@pytest.mark.parametrize(
    "expression",
    [
        "input.x",
        "",
        "{'a': {'b': 1}}['a']",
        "'}'",
        '"}"',
        r"'\'}'",
        r'"\"}"',
        "'''a'}''' + 'b'",
        '"""a"}\n"""',
        r"r'\' + '}'",
        r'R"\" + "}"',
        "b'}'",
        "br'}'",
        r"r'''\''' + '''}'''",
        r"'''\'''}'''",
        "// a } b\n 1",
        "1 // it's\n",
        "`a}b`",
        "bar + 'x}'",
        "input.map(x, {x: x})",
        "'ü}€😀'",
    ],
)
def test_the_end_is_the_first_brace_that_is_no_part_of_the_expression(expression: str) -> None:
    text = f"a ${{{expression}}} }} '"

    assert end_of(text, 4) == 4 + len(expression)


@pytest.mark.parametrize("text", ["input.x", "{}", "'}", '"}\n"}', "'''}''", "// }", "{'a': 1"])
def test_without_an_end_there_is_none(text: str) -> None:
    assert end_of(text, 0) is None


@pytest.mark.rule("X7.3")
@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("plain $x {y} $", ["plain $x {y} $"]),
        ("${a}", [Hole("a")]),
        ("a${b}c${d}", ["a", Hole("b"), "c", Hole("d")]),
        ("${a}${b}", [Hole("a"), Hole("b")]),
        ("$${a}", ["${a}"]),
        ("x$${a}${b}", ["x${a}", Hole("b")]),
        ("$$${a}", ["$${a}"]),
        ("${a}$${b}", [Hole("a"), "${b}"]),
        ("$$", ["$$"]),
        ("${ {'k': '}'} }!", [Hole(" {'k': '}'} "), "!"]),
    ],
)
def test_a_template_is_taken_apart(text: str, parts: list[str | Hole]) -> None:
    assert split(text) == parts


def test_an_open_hole_is_refused_with_its_place() -> None:
    with pytest.raises(Unclosed) as caught:
        split("ab ${x + '}")

    assert caught.value.offset == 3

"""Where `${…}` stands in a value and in the file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.adapters.cel import CelParser, lexer
from tenuto.dsl.findings import Findings
from tenuto.dsl.templates import Part, Places, Unclosed, has_template, split
from tenuto.dsl.yaml import Fields, Scalar, read

PARSER = CelParser()


@pytest.mark.rule("X7.4")
@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("no template", []),
        ("${a}", ["a"]),
        ("x ${a} y ${b}", ["a", "b"]),
        ("$${a}", []),
        ("$${a} ${b}", ["b"]),
        ("${ {'a': {'b': 1}}.a }", [" {'a': {'b': 1}}.a "]),
        ("${'}'}", ["'}'"]),
        ('${"${b}"}', ['"${b}"']),
        ("${}", [""]),
        ("$ {a}", []),
    ],
)
def test_expressions_end_where_cel_says(value: str, texts: list[str]) -> None:
    parts = split(value, PARSER)

    assert isinstance(parts, list)
    assert [part.text for part in parts] == texts
    assert has_template(value) == bool(texts)
    for part in parts:
        assert value[part.start : part.start + len(part.text)] == part.text


def test_a_value_that_is_one_expression_is_whole() -> None:
    assert split("${a}", PARSER) == [Part("a", 2, whole=True)]
    assert split("${a} ", PARSER) == [Part("a", 2, whole=False)]
    assert split("${a}${b}", PARSER) == [Part("a", 2, whole=False), Part("b", 6, whole=False)]


def test_an_expression_without_its_end_is_told_where_it_begins() -> None:
    assert split("a ${b} ${c", PARSER) == Unclosed(7)
    assert split("${'}", PARSER) == Unclosed(0)


@given(st.text("${}a'\"\\ ", max_size=20))
def test_the_door_and_the_evaluator_read_templates_alike(value: str) -> None:
    parts = split(value, PARSER)
    found = [part.text for part in parts] if isinstance(parts, list) else parts.start
    expected: list[str] | int
    try:
        expected = [part.text for part in lexer.split(value) if not isinstance(part, str)]
    except lexer.Unclosed as error:
        expected = error.offset
    assert found == expected


def scalar_of(text: str) -> Scalar:
    tree = read(text, Findings("a.yaml", text))
    assert isinstance(tree, Fields)
    value = tree.get("a")
    assert isinstance(value, Scalar)
    return value


@pytest.mark.parametrize(
    "raw",
    [
        "x ${here}",
        "'x ${here}'",
        "'it''s ''q'' ${here}'",
        '"x ${here}"',
        '"\\x41\\u00e4\\U0001F600\\n\\\\\\" ${here}"',
    ],
)
@pytest.mark.parametrize(
    "shape", ["a: {}\n", '"b": [1, {{c: 😀}}]\na: {}\n', "# é 😀\na:   {}  # more\n"]
)
def test_places_in_one_line_are_exact(raw: str, shape: str) -> None:
    text = shape.format(raw)
    scalar = scalar_of(text)
    assert isinstance(scalar.value, str)

    offset = Places(scalar, text).offset(scalar.value.index("here"))

    assert text[offset : offset + 4] == "here"


def test_places_behind_the_surrogate_pairs_of_json_are_exact() -> None:
    text = '{"a": "\\ud83d\\ude00 \\uD83D\\uDE00 ${here}"}'
    scalar = scalar_of(text)
    assert scalar.value == "😀 😀 ${here}"

    offset = Places(scalar, text).offset(scalar.value.index("here"))

    assert text[offset : offset + 4] == "here"


@pytest.mark.parametrize("raw", ["|\n  x\n  ${here}\n", ">\n  ${here}\n", "'x\n  ${here}'\n"])
def test_places_in_several_lines_are_the_start(raw: str) -> None:
    text = f"a: {raw}"
    scalar = scalar_of(text)
    assert isinstance(scalar.value, str)

    assert Places(scalar, text).offset(scalar.value.index("here")) == 3

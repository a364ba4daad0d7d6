"""YAML 1.2 values with exact places, within bounds, whatever the text holds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.dsl.findings import Findings
from tenuto.dsl.yaml import Fields, Items, Json, Scalar, Tree, json_text, read, to_json


def tree_of(text: str) -> Tree:
    findings = Findings("a.yaml", text)
    tree = read(text, findings)
    assert tree is not None, findings.in_order()
    assert findings.in_order() == ()
    return tree


def value_of(text: str) -> Json:
    return to_json(tree_of(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("yes", "yes"),
        ("no", "no"),
        ("Off", "Off"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("''", ""),
        ("'true'", "true"),
        ('"7"', "7"),
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("012", 12),
        ("0o17", 15),
        ("0xFf", 255),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("12:30:45", "12:30:45"),
        ("2026-12-24", "2026-12-24"),
        ("1.", 1.0),
        (".5", 0.5),
        ("-1.5e3", -1500.0),
        ("1e3", 1000.0),
        (".", "."),
        ("'-'", "-"),
        ("1.2.3", "1.2.3"),
        ("9223372036854775807", 9223372036854775807),
        ("-9223372036854775808", -9223372036854775808),
        ("=", "="),
    ],
)
def test_plain_values_are_those_of_the_core_schema(text: str, value: Json) -> None:
    found = value_of(f"a: {text}\n")

    assert found == {"a": value}
    assert isinstance(found, dict)
    assert type(found["a"]) is type(value)


def test_on_is_a_key() -> None:
    assert value_of("{on: failure, no: 1}") == {"on": "failure", "no": 1}


def test_places_are_those_of_the_text() -> None:
    text = "é: 'x'\nb:\n  - 12\n  - {c: \"d\"}\n"
    tree = tree_of(text)

    assert isinstance(tree, Fields)
    key, value = tree.entries["é"]
    assert (text[key.start : key.end], text[value.start : value.end]) == ("é", "'x'")
    items = tree.get("b")
    assert isinstance(items, Items)
    assert text[items.items[0].start : items.items[0].end] == "12"
    inner = items.items[1]
    assert isinstance(inner, Fields)
    assert text[inner.start : inner.end] == '{c: "d"}'
    assert isinstance(inner.entries["c"][1], Scalar)


def test_json_is_yaml_with_surrogate_pairs_tabs_and_slashes() -> None:
    value: Json = {"a": '😀/\t"\\', "b": [1, -2.5, True, None, {}], "\\ud83d": "ü"}
    text = json.dumps(value, indent="\t").replace("/", "\\/")

    assert "\\ud83d\\ude00" in text
    assert value_of(text) == value


def test_what_looks_like_a_surrogate_pair_outside_of_json_stays_as_it_is() -> None:
    assert value_of("{a: '\\ud83d\\ude00'}") == {"a": "\\ud83d\\ude00"}


def test_places_behind_a_surrogate_pair_are_those_of_the_text() -> None:
    text = '{"a": "\\ud83d\\ude00", "b": "\\ud83d\\ude00", "c": 1}'
    tree = tree_of(text)

    assert isinstance(tree, Fields)
    assert [text[key.start : key.end] for key, _ in tree.entries.values()] == ['"a"', '"b"', '"c"']
    value = tree.get("b")
    assert value is not None
    assert text[value.start : value.end] == '"\\ud83d\\ude00"'


def test_line_ends_of_yaml_1_1_are_ordinary_characters() -> None:
    assert value_of('{"a": "x\u2028y\u2029z\x85"}') == {"a": "x\u2028y\u2029z\x85"}
    assert value_of("a: x\u2028y # \u2029 z\nb: 1\n") == {"a": "x\u2028y", "b": 1}


def test_an_alias_stands_for_the_whole_value() -> None:
    assert value_of("a: &x {b: [1]}\nc: *x\n") == {"a": {"b": [1]}, "c": {"b": [1]}}


def test_a_quoted_merge_key_is_a_key() -> None:
    assert value_of('{"<<": 1}') == {"<<": 1}


def test_the_text_of_a_tree_keeps_the_order_of_its_keys() -> None:
    assert (
        json_text(tree_of("b: 1\na: {d: '${x}', c: [é]}\n")) == '{"b":1,"a":{"d":"${x}","c":["é"]}}'
    )


def test_a_file_begins_after_its_byte_order_mark_and_directive() -> None:
    assert value_of("%YAML 1.2\n---\na: 1\n...\n") == {"a": 1}


def test_sixty_four_levels_are_read() -> None:
    found = value_of("[" * 64 + "]" * 64)

    depth = 0
    while found:
        assert isinstance(found, list)
        found, depth = found[0], depth + 1
    assert depth == 63


def test_the_first_of_two_equal_keys_stays() -> None:
    text = "a: 1\na: 2\n"
    findings = Findings("a.yaml", text)
    tree = read(text, findings)

    assert tree is not None
    assert to_json(tree) == {"a": 1}
    assert [f.code for f in findings.in_order()] == ["duplicate_key"]


# A key beyond 1,024 characters, escapes included, is beyond YAML.
KEYS = st.text(max_size=80)
JSON_VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_json_of_any_value_is_read_back(value: Json) -> None:
    assert value_of(json.dumps(value)) == value


@given(st.text())
def test_any_text_is_read_or_told_what_is_wrong(text: str) -> None:
    findings = Findings("a.yaml", text)
    tree = read(text, findings)

    assert tree is not None or findings.has_errors
    for finding in findings.in_order():
        assert 1 <= finding.line <= text.count("\n") + text.count("\r") + 1
        assert finding.column >= 1

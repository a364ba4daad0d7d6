"""The command line's words as values."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tenuto.cli.arguments import (
    parse_json,
    read_input,
    read_json,
    read_moment,
    read_text,
    read_timeout,
    read_vars,
)
from tenuto.model.errors import InvalidInput, NotFound

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "to": {"type": "object", "properties": {"zip": {"type": "string"}}},
        },
    }
)


def refusal(argument: str) -> str:
    with pytest.raises(InvalidInput) as raised:
        read_json(argument, what="--input")
    return str(raised.value)


def test_input_is_json_a_file_or_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "in.json"
    file.write_text('{"a": 2}')
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b'{"a": 3}')))

    read = [read_json(word, what="--input") for word in ('{"a": 1}', f"@{file}", "-")]

    assert read == [{"a": 1}, {"a": 2}, {"a": 3}]


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ('{"a": }', """--input: '{"a": }' is no JSON: Expecting value at line 1, column 7"""),
        ('{"a": 1,}', "is no JSON: a comma before the closing bracket at line 1, column"),
        ("[1, 2, ]", "; take it out"),
        ("{a: 1}", """; quote it for the shell: '{"key": 1}'"""),
        ('{"a": NaN}', "--input: NaN is no JSON"),
        ('{"a": 1, "a": 2}', "--input: the key 'a' stands twice"),
        ("[" * 100_000, "--input: is nested too deeply"),
        ("9" * 5_000, "--input: Exceeds the limit"),
    ],
)
def test_what_is_no_json_is_refused_in_words(argument: str, said: str) -> None:
    assert said in refusal(argument)


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "input.json").write_text("{}")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff")

    with pytest.raises(NotFound) as missing:
        read_json(f"@{tmp_path}/imput.json", what="--input")
    assert str(missing.value).endswith(f"did you mean {tmp_path}/input.json?")
    assert refusal(f"@{tmp_path}") == f"--input: {tmp_path} is a directory; name a file in it"
    assert "is not text: byte 0 is no UTF-8" in refusal(f"@{tmp_path}/picture.png")


def test_an_endless_file_is_refused_before_memory_is_full() -> None:
    with pytest.raises(InvalidInput, match="/dev/zero is larger than 8 MiB"):
        read_text("/dev/zero", what="--input")


def test_set_lays_values_over_the_input_by_path() -> None:
    value = read_input('{"a": {"b": 1, "c": 2}}', ["a.b=5", "d=[1]", "e.f=text"], None)

    assert value == {"a": {"b": 5, "c": 2}, "d": [1], "e": {"f": "text"}}


def test_set_gives_text_where_the_schema_asks_for_text() -> None:
    value = read_input(None, ["id=007", "to.zip=10115", "n=7", "word=x=y"], SCHEMA)

    assert value == {"id": "007", "to": {"zip": "10115"}, "n": 7, "word": "x=y"}


@pytest.mark.parametrize(
    ("argument", "sets", "said"),
    [
        (None, ["a"], "--set: 'a' is not of the form name=value"),
        (None, ["=1"], "--set: '=1' is not of the form name=value"),
        (None, ["a..b=1"], "is not of the form name=value"),
        ("[1]", ["a=1"], "--set: needs an input that is an object"),
        ('{"a": 1}', ["a.b=2"], "--set: 'a.b=2' goes into a, which is no object"),
    ],
)
def test_a_bad_set_is_refused_in_words(argument: str | None, sets: list[str], said: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        read_input(argument, sets, None)

    assert said in str(raised.value)


def test_no_input_at_all_is_left_to_the_schema() -> None:
    assert read_input(None, [], SCHEMA) is None


def test_vars_are_split_at_the_first_equals_sign() -> None:
    assert read_vars(["url=http://h/?a=b", "n=1"]) == {"url": "http://h/?a=b", "n": "1"}


def test_strict_json_keeps_what_is_right() -> None:
    assert parse_json('{"a": [1, 2.5, null, true, "é"]}', what="x") == {
        "a": [1, 2.5, None, True, "é"]
    }


def test_a_timeout_is_a_duration_in_seconds() -> None:
    assert (read_timeout(None), read_timeout("1m500ms")) == (None, 60.5)
    with pytest.raises(InvalidInput, match="--timeout: '30' is not a duration; write it like"):
        read_timeout("30")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        (None, None),
        ("2s", 8_000_000),
        ("1h", 0),
        ("1970-01-01T01:00:01+01:00", 1_000_000),
        ("1970-01-01T00:00:02Z", 2_000_000),
    ],
)
def test_a_moment_is_an_instant_or_how_long_ago_it_was(
    text: str | None, moment: int | None
) -> None:
    assert read_moment(text, "--since", 10_000_000) == moment


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-01", "2026-01-01T00:00:00", "-1h"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"--since: .* is no moment; write 2h for two hours ago"):
        read_moment(text, "--since", 0)

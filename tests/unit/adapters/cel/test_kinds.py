"""What a value must be where a name, a time, a number or a list is needed (SEMANTICS X1)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenuto.adapters.cel.kinds import event_error, key_of, list_of, name_of, number_of, page_of
from tenuto.adapters.cel.template import Unfit
from tenuto.model.definition import ITEMS_MAX
from tenuto.model.expressions import ExpressionKind, Named, Number, Page

KINDS = ExpressionKind


@pytest.mark.rule("X1.1")
@pytest.mark.parametrize(
    ("kind", "value", "number"),
    [
        (KINDS.DURATION, "1h30m", Number(5_400_000_000)),
        (KINDS.DURATION, "500ms", Number(500_000)),
        (KINDS.DURATION, timedelta(seconds=1, microseconds=7), Number(1_000_007)),
        (KINDS.INSTANT, "1970-01-01T01:00:01+01:00", Number(1_000_000)),
        (KINDS.INSTANT, datetime(1970, 1, 1, 0, 0, 2, 5, tzinfo=UTC), Number(2_000_005)),
        (KINDS.COUNT, 0, Number(0)),
        (KINDS.COUNT, 7, Number(7)),
        (KINDS.COUNT, 7.0, Number(7)),
        (KINDS.TOLERANCE, 3, Number(3)),
        (KINDS.TOLERANCE, "5%", Number(5, percent=True)),
        (KINDS.TOLERANCE, "100%", Number(100, percent=True)),
    ],
)
def test_X1_a_number_is_what_its_value_says(
    kind: ExpressionKind, value: object, number: Number
) -> None:
    assert number_of(kind, value) == number


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (KINDS.DURATION, 30, "the duration is an int: write a text like 1h30m"),
        (KINDS.DURATION, "30", "write it like 500ms"),
        (KINDS.DURATION, "0s", "must be longer than 0ms, and is 0ms"),
        (KINDS.DURATION, timedelta(seconds=-1), "must be longer than 0ms, and is -1s"),
        (KINDS.DURATION, "１s", "is not a duration"),
        (KINDS.DURATION, timedelta(days=9999), "longer than the limit"),
        (KINDS.DURATION, None, "the duration is null"),
        (KINDS.INSTANT, "2026-12-24T18:00:00", "has no offset"),
        (KINDS.INSTANT, "tomorrow", "not an RFC 3339 time"),
        (KINDS.INSTANT, 5, "the time is an int"),
        (KINDS.COUNT, -1, "the number is -1, below 0"),
        (KINDS.COUNT, 1.5, "the number is a double: a whole number is needed"),
        (KINDS.COUNT, True, "the number is a bool"),
        (KINDS.COUNT, "7", "the number is a string"),
        (KINDS.TOLERANCE, "101%", "'101%' is no tolerance"),
        (KINDS.TOLERANCE, "2.5%", "'2.5%' is no tolerance"),
        (KINDS.TOLERANCE, "٣%", "is no tolerance"),
        (KINDS.TOLERANCE, [], "the number is a list"),
    ],
)
def test_X1_what_is_no_such_number_is_said(
    kind: ExpressionKind, value: object, message: str
) -> None:
    with pytest.raises(Unfit, match=message):
        number_of(kind, value)


def test_X1_a_name_is_a_text_without_control_characters() -> None:
    assert name_of("billing@stable") == Named("billing@stable")

    for value, message in (
        ("", "is no name"),
        ("a\nb", "is no name"),
        ("x" * 301, "is no name"),
        (7, "the name is an int"),
        (None, "the name is null"),
    ):
        with pytest.raises(Unfit, match=message):
            name_of(value)


def test_X1_a_computed_name_is_one_that_could_be_written() -> None:
    for key, name in (("queue", "fast-1"), ("task", "a.b:c"), ("event", "what you like")):
        assert name_of(name, key) == Named(name)

    for value, key, message in (
        ("a b", "queue", "'a b' is no name of a queue: 1 to 100"),
        ("x" * 101, "queue", "x…' is no name of a queue"),
        ("a b", "task", "is no name of a task"),
        ("x" * 201, "event", "is no name of an event: 1 to 200"),
    ):
        with pytest.raises(Unfit, match=message):
            name_of(value, key)


def test_a_key_is_a_text_or_an_integer() -> None:
    longest = "ü" * 512
    assert (key_of("A-1"), key_of(7), key_of(""), key_of(longest)) == ("A-1", "7", "", longest)

    for value in (True, 1.5, None, ["a"], "a\0b", "x" * 513):
        with pytest.raises(Unfit, match="the key"):
            key_of(value)


def test_a_list_is_a_list_of_bounded_length() -> None:
    assert list_of([1, None]) == [1, None]

    with pytest.raises(Unfit, match="gave an object, not a list"):
        list_of({})
    with pytest.raises(Unfit, match="1,000,001 items: at most 1,000,000"):
        list_of([0] * (ITEMS_MAX + 1))


@pytest.mark.parametrize(
    ("value", "page"),
    [
        ({"items": [1, 2], "next": "c"}, Page(2, more=True)),
        ({"items": [], "next": 0}, Page(0, more=True)),
        ({"items": [1], "next": None}, Page(1, more=False)),
        ({"items": [1]}, Page(1, more=False)),
    ],
)
def test_a_page_says_how_many_and_whether_there_are_more(value: object, page: Page) -> None:
    assert page_of(value) == page


@pytest.mark.parametrize("value", [None, [1], {}, {"items": {}}, {"items": None, "next": 1}])
def test_what_is_no_page_is_said(value: object) -> None:
    with pytest.raises(Unfit, match="the page"):
        page_of(value)


@pytest.mark.parametrize(
    ("event", "code", "message", "details"),
    [
        ({"error": {"code": "E1", "message": "no", "x": 1}}, "E1", "no", {"code": "E1", "message": "no", "x": 1}),
        ({"error": {"code": 5}}, "event_failed", "", {"code": 5}),
        ({"error": "broken"}, "event_failed", "broken", None),
        ({"error": [1]}, "event_failed", "", [1]),
        ({"ok": False}, "event_failed", "", {"ok": False}),
        ("no", "event_failed", "", "no"),
    ],
)  # fmt: skip
def test_the_error_of_an_event_is_an_error_value(
    event: object, code: str, message: str, details: object
) -> None:
    assert event_error(event, "back") == {
        "code": code, "message": message, "kind": "task", "details": details, "node": "back",
    }  # fmt: skip

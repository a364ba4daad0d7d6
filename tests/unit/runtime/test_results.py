"""The one door of JSON values."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import enum
import math
import uuid
from collections import OrderedDict
from decimal import Decimal
from typing import NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.runtime import results
from tenuto.runtime.results import Refused, SecretMissing, canonical, parse, resolve_secrets


@dataclasses.dataclass
class Price:
    amount: int


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


class Name(str):
    __slots__ = ()


class Point(NamedTuple):
    x: int
    y: int


def nested(levels: int) -> object:
    value: object = []
    for _ in range(levels - 1):
        value = [value]
    return value


def refusal(value: object) -> str:
    with pytest.raises(Refused) as caught:
        canonical(value)
    assert caught.value.code == "invalid_result"
    return caught.value.message


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
        ({"ü": "€\n"}, '{"ü":"€\\n"}'),
        ((1, (2,)), "[1,[2]]"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (-(2**63), "-9223372036854775808"),
        (2**64 - 1, "18446744073709551615"),
        ("\\u0000 spelled out", '"\\\\u0000 spelled out"'),
        ({"w": Word.YES, "l": Level.LOW, "t": (1,)}, '{"l":1,"t":[1],"w":"yes"}'),
        (Level.LOW, "1"),
        ({"$secrets": []}, '{"$secrets":[]}'),
    ],
)
def test_what_json_can_hold_passes_as_canonical_text(value: object, text: str) -> None:
    assert canonical(value) == text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "result is NaN, which JSON cannot hold: return None or a string"),
        ({"a": [0, -math.inf]}, "result.a[1] is an infinity"),
        ({"items": [0, 1, 2, {"price": 10**30}]}, "result.items[3].price is an integer beyond 64"),
        (-(2**63) - 1, "result is an integer beyond 64 bits: return it as a string"),
        ({"a": {1: 2}}, "result.a has the key 1 (int), but keys of JSON are strings: use str(key)"),
        ({"a": {None: 2}}, "result.a has the key None (NoneType)"),
        ({"n": "\ud800"}, "result.n holds a lone surrogate (broken Unicode)"),
        ({"\udfff": 1}, "result holds a lone surrogate in a key"),
        ({"a b": "x\0y"}, 'result["a b"] holds a NUL character'),
        ({"\0": 1}, "result holds a NUL character in a key"),
        ([Decimal(1)], "result[0] is a Decimal, which JSON cannot hold: return str(value)"),
        (
            {"d": dt.date(2020, 1, 1)},
            "result.d is a date, which JSON cannot hold: return value",
        ),
        ({"d": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)}, "value.isoformat()"),
        ({1, 2}, "result is a set, which JSON cannot hold: return sorted(value)"),
        ({"b": b"x"}, "result.b is a bytes, which JSON cannot hold: return base64"),
        ({"p": Price(1)}, "result.p is a Price, which JSON cannot hold: return dataclasses.asdict"),
        ({"u": uuid.UUID(int=1)}, "result.u is a UUID, which JSON cannot hold: return str(value)"),
        (Colour.RED, "result is a Colour, which JSON cannot hold: return value.value"),
        (OrderedDict(a=1), "return dict(value)"),
        (Point(1, 2), "result is a Point, which JSON cannot hold: return tuple(value)"),
        (Name("x"), "result is a Name, which JSON cannot hold: return the plain value"),
        ({Name("x"): 1}, "(Name), but keys of JSON are strings"),
        (object(), "result is an object, which JSON cannot hold: return dicts, lists"),
        ((n for n in [1]), "result is a generator, which JSON cannot hold: return list(value)"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_place_and_the_cure(
    value: object, message: str
) -> None:
    """Catalogue B18."""
    assert message in refusal(value)


def test_a_cycle_is_refused_by_name() -> None:
    ring: dict[str, object] = {}
    ring["a"] = {"b": [ring]}

    assert refusal(ring) == "result.a.b[0] contains itself: only trees are JSON"


def test_the_same_value_twice_is_no_cycle() -> None:
    once = [1]

    assert canonical([once, (once,)]) == "[[1],[[1]]]"


@pytest.mark.parametrize("levels", [65, 255, 10_000])
def test_deep_nesting_is_refused_and_crashes_nothing(levels: int) -> None:
    assert "nested deeper than 64 levels" in refusal(nested(levels))


def test_sixty_four_levels_pass_both_ways() -> None:
    assert parse(canonical(nested(64))) == nested(64)


def test_many_shallow_containers_are_not_deep() -> None:
    assert canonical([[[]] for _ in range(200)]).count("[") == 401


def test_larger_than_the_limit_is_its_own_code() -> None:
    """Catalogue J2."""
    with pytest.raises(Refused) as caught:
        canonical("x" * 100, limit=101)

    assert caught.value.code == "payload_too_large"
    assert "102 bytes" in caught.value.message
    assert canonical("x" * 99, limit=101) == f'"{"x" * 99}"'


def test_the_limit_counts_bytes_not_characters() -> None:
    with pytest.raises(Refused, match="9 bytes"):
        canonical("€€" + "x", limit=8)


def test_the_value_is_not_changed() -> None:
    value = {"b": (1, {"z": 1, "a": 2}), "a": [1]}
    before = copy.deepcopy(value)

    canonical(value)

    assert value == before
    assert list(value) == ["b", "a"]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=3), inner),
    max_leaves=20,
)


@given(JSON)
def test_any_json_value_comes_back_equal_and_is_written_the_same_again(value: object) -> None:
    text = canonical(value)

    assert parse(text) == value
    assert canonical(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the text is no JSON"),
        ("NaN", "the text is no JSON"),
        ("[Infinity]", "the text is no JSON"),
        ("1e400", "the text is no JSON"),
        ("{'a':1}", "the text is no JSON"),
        ('"\\ud800"', "the text is no JSON"),
        ("\ud800", "the text holds a lone surrogate"),
        (b'"\xff"', "the text is no JSON"),
        ("[" * 65 + "]" * 65, "the text is nested deeper than 64 levels"),
        ("[" * 10_000 + "]" * 10_000, "the text"),
        ("18446744073709551616", "the text has the integer 18446744073709551616, beyond 64 bits"),
        ('{"a":[-9223372036854775809]}', "the text has the integer -9223372036854775809"),
        ("9" * 300, "beyond 64 bits"),
        ("9" * 5000, "the text is no JSON"),
    ],
)
def test_a_bad_text_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(Refused) as caught:
        parse(text)

    assert caught.value.code == "invalid_json"
    assert caught.value.message.startswith(message) or message in caught.value.message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":1,"a":2}', {"a": 2}),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0.12345678901234567890123", 0.12345678901234567890123),
        ('"99999999999999999999999"', "99999999999999999999999"),
        ("1e300", 1e300),
        (b"[1]", [1]),
    ],
)
def test_a_good_text_is_read(text: str | bytes, value: object) -> None:
    assert parse(text) == value


SECRETS = {"TOKEN": "t0k", "KEY": "k3y"}


def test_references_are_resolved_where_they_are_listed() -> None:
    value = {
        "$secrets": [["h", "auth"], ["list", 1], ["list", 2, "k"]],
        "h": {"auth": {"$concat": ["Bearer ", {"$secret": "TOKEN"}, "/", {"$secret": "KEY"}]}},
        "list": [0, {"$secret": "KEY"}, {"k": {"$secret": "TOKEN"}}],
    }
    before = copy.deepcopy(value)

    assert resolve_secrets(value, SECRETS.get) == {
        "h": {"auth": "Bearer t0k/k3y"},
        "list": [0, "k3y", {"k": "t0k"}],
    }
    assert value == before


def test_data_that_looks_like_a_reference_stays_data() -> None:
    lure = {"$secret": "TOKEN"}
    value = {
        "$secrets": [["mine"]],
        "mine": {"$secret": "KEY"},
        "theirs": lure,
        "in": {"$secrets": [[]]},
    }

    assert resolve_secrets(value, SECRETS.get) == {
        "mine": "k3y",
        "theirs": {"$secret": "TOKEN"},
        "in": {"$secrets": [[]]},
    }
    assert resolve_secrets(lure, SECRETS.get) == {"$secret": "TOKEN"}
    assert resolve_secrets([lure], SECRETS.get) == [{"$secret": "TOKEN"}]


def test_a_missing_secret_is_a_typed_error_that_names_the_variable() -> None:
    with pytest.raises(SecretMissing, match="TENUTO_SECRET_GONE") as caught:
        resolve_secrets({"$secrets": [["a"]], "a": results.secret("GONE")}, SECRETS.get)

    assert caught.value.name == "GONE"
    assert caught.value.code == "secret_missing"


def test_canonical_agrees_with_the_writer_on_key_order() -> None:
    value = {"é": 1, "z": 2, "Z": 3, "😀": 4, "￿": 5}

    assert canonical(value) == orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()

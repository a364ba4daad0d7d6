"""Values of keys become the words of the definition."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from tenuto import InvalidDefinition
from tenuto.sdk.builder.keys import condition, rendered
from tenuto.sdk.builder.references import Ref


@pytest.mark.parametrize(
    ("key", "value", "becomes"),
    [
        ("timeout", dt.timedelta(hours=1, milliseconds=5), "1h5ms"),
        ("timeout", Ref("input.t"), "${input.t}"),
        ("timeout", "soon", "soon"),
        ("keep", dt.timedelta(days=1), "1d"),
        ("keep", 3, 3),
        ("until", dt.datetime(2026, 1, 2, tzinfo=dt.UTC), "2026-01-02T00:00:00+00:00"),
        ("match", Ref("event.ok"), "event.ok"),
        ("over", "range(3)", "range(3)"),
        ("values", {"when": Ref("input.a")}, {"when": "${input.a}"}),
        ("concurrency", Ref("vars.many"), "${vars.many}"),
        (
            "retry",
            {
                "max_attempts": 3,
                "initial": dt.timedelta(seconds=1),
                "jitter": None,
                "give_up_on": [KeyError, "http.4xx"],
                "rules": [
                    {"on": ConnectionError, "max_attempts": 5, "max": dt.timedelta(minutes=1)},
                    {"when": Ref("error.details.again"), "max_attempts": 2},
                ],
            },
            {
                "max_attempts": 3,
                "initial": "1s",
                "give_up_on": ["KeyError", "http.4xx"],
                "rules": [
                    {"on": "ConnectionError", "max_attempts": 5, "max": "1m"},
                    {"when": "error.details.again", "max_attempts": 2},
                ],
            },
        ),
        (
            "defaults",
            {"queue": Ref("vars.q"), "retry": {"max": dt.timedelta(0)}},
            {"queue": "${vars.q}", "retry": {"max": "0s"}},
        ),
    ],
)
def test_a_value_is_as_yaml_has_it(key: str, value: object, becomes: Any) -> None:
    assert rendered(key, value, key) == becomes


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("timeout", dt.timedelta(microseconds=1), "whole milliseconds"),
        ("until", dt.datetime(2026, 1, 1), "has no offset"),  # noqa: DTZ001
        ("over", [1, 2], '`a.over` is no expression — name the list: `over=wf.input.files`'),
        ("match", True, '`a.match` is no condition — write it as text in CEL, for example `match="event.ok"`'),
        ("retry", {"rules": [{"max_attempts": 2, "when": ""}]}, "`a.retry.rules[0].when` is no condition"),
        ("retry", {"rules": [object()]}, "`a.retry.rules[0]` is of type object"),
        ("retry", {"give_up_on": object()}, "`a.retry.give_up_on` is of type object"),
    ],
)  # fmt: skip
def test_what_no_definition_can_hold_is_refused(key: str, value: object, said: str) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        rendered(key, value, f"a.{key}")

    [found] = caught.value.findings
    assert said in f"{found.message} — {found.hint}"  # type: ignore[attr-defined]


def test_a_condition_is_text_or_a_reference() -> None:
    assert condition(Ref("input.ok"), "when") == "input.ok"
    assert condition("input.n > 1", "when") == "input.n > 1"

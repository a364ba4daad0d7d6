"""Values that are none, or not of the shape: the first problem, with its place."""

from __future__ import annotations

import pytest

from tenuto.api.bodies import check, read_json
from tenuto.api.messages import EventBody
from tenuto.api.models import StartBody
from tenuto.api.problems import Problem


def test_json_is_read_as_it_stands() -> None:
    assert read_json(b'{"a": [1, 2.5, null, true, "\xc3\xa4"]}') == {"a": [1, 2.5, None, True, "ä"]}


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{\n\n  ]", "the body is no JSON: line 3 column 3: "),
        (b"NaN", "the body is no JSON: line 1 column 1: "),
        (b'"\\ud800"', "the body is no JSON: line 1 column "),
        (b"[18446744073709551616]", "the body has the integer 18446744073709551616, beyond 64 bits"),
        (b"[" * 200 + b"]" * 200, "the body is nested deeper than 64 levels"),
    ],
)  # fmt: skip
def test_what_is_no_json_of_ours_is_refused(data: bytes, told: str) -> None:
    with pytest.raises(Problem) as caught:
        read_json(data)

    assert caught.value.kind.code == "bad_request"
    assert caught.value.detail.startswith(told)


def test_a_misspelt_field_is_told_before_the_one_that_is_then_missing() -> None:
    with pytest.raises(Problem) as caught:
        check(StartBody, {"workflo": "x"})

    assert caught.value.detail == "workflo: there is no such field; did you mean 'workflow'?"
    assert caught.value.more == {"path": "workflo", "hint": "did you mean 'workflow'?"}


def test_a_field_that_nobody_means_names_those_there_are() -> None:
    with pytest.raises(Problem, match="there are event, key, payload, event_id"):
        check(EventBody, {"zzz": 1})


@pytest.mark.parametrize(
    "body",
    [
        {"x" * 3_000_000: 1},
        {"workflow": "w" * 3_000_000},
        {"workflow": "w", "vars": {"v" * 3_000_000: 1}},
    ],
    ids=["field", "workflow", "var"],
)
def test_a_name_of_megabytes_is_neither_compared_nor_repeated(body: dict[str, object]) -> None:
    with pytest.raises(Problem) as caught:
        check(StartBody, body)

    assert len(str(caught.value.document())) < 1_000


def test_values_are_not_converted() -> None:
    with pytest.raises(Problem, match="version: must be a whole number"):
        check(StartBody, {"workflow": "x", "version": "1"})

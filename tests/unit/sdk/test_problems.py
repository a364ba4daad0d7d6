"""Problems as errors."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.api.problems import problem_of as as_problem
from tenuto.model.errors import (
    Conflict,
    InvalidDefinition,
    InvalidInput,
    NotFound,
    TenutoError,
    Unavailable,
)
from tenuto.ports.database import AWAY
from tenuto.sdk.problems import error_of, problem_of, read_findings

URL = "http://h"
JSON = {"content-type": "application/problem+json"}
FINDING = {
    "code": "unknown_type",
    "severity": "error",
    "file": "a.yaml",
    "line": 2,
    "column": 3,
    "text": "tusk",
    "message": "there is no type",
    "hint": "did you mean `task`?",
}


@pytest.mark.parametrize(
    ("problem", "error", "said", "code"),
    [
        ({"code": "not_found", "detail": "no run 'x'; look"}, NotFound, "no run 'x'; look", 3),
        ({"code": "not_found", "detail": "gone"}, NotFound, "gone", 3),
        ({"code": "conflict", "detail": "it is final"}, Conflict, "it is final", 4),
        ({"code": "unavailable", "detail": "disk full"}, Unavailable, "disk full", 6),
        ({"code": "invalid_input", "detail": "input.a: bad", "path": "input.a"}, InvalidInput,
         "input.a: bad", 2),
        ({"code": "invalid_input", "detail": "bad", "path": "input.a"}, InvalidInput,
         "input.a: bad", 2),
        ({"code": "bad_request", "detail": "no JSON", "hint": "send some"}, InvalidInput,
         "no JSON; send some", 2),
        ({"code": "payload_too_large", "detail": "5 MiB"}, InvalidInput, "5 MiB", 2),
        ({"code": "internal", "detail": "id 7"}, Unavailable,
         "http://h failed inside, its log says why: id 7", 6),
        ({"code": "forbidden_host", "detail": "not mine"}, Unavailable,
         "http://h refuses this client: not mine", 6),
        ({"code": "of_later", "detail": "?", "status": 418}, Unavailable,
         "http://h answered 418 of_later: ?", 6),
        ({"code": "conflict"}, Conflict, "conflict", 4),
    ],
)  # fmt: skip
def test_the_code_decides_and_the_words_are_the_servers(
    problem: dict[str, Any], error: type[TenutoError], said: str, code: int
) -> None:
    made = error_of(problem, URL)

    assert type(made) is error
    assert (str(made), made.exit_code) == (said, code)


def test_all_that_is_wrong_with_an_input_comes_over_as_it_was_told() -> None:
    told = InvalidInput("bad", path="input.a", more=["input.b: worse"])
    problem = as_problem(told)

    assert problem is not None
    assert problem.document()["problems"] == ["input.a: bad", "input.b: worse"]
    made = error_of(problem.document(), URL)
    assert isinstance(made, InvalidInput)
    assert (str(made), made.path, made.problems) == (str(told), "input.a", told.problems)


def test_findings_are_findings_again() -> None:
    made = error_of({"code": "invalid_definition", "detail": "2:3: …", "findings": [FINDING]}, URL)

    assert isinstance(made, InvalidDefinition)
    assert str(made) == (
        "a.yaml:2:3: error unknown_type: there is no type\n    hint: did you mean `task`?"
    )
    assert [each.as_dict() for each in read_findings([FINDING, "no finding"])] == [FINDING]


def test_what_was_not_found_is_known_by_kind_and_name() -> None:
    made = error_of({"code": "not_found", "detail": "no workflow 'a'; did you mean 'b'?"}, URL)

    assert isinstance(made, NotFound)
    assert (made.kind, made.name) == ("workflow", "a")


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (200, JSON, b'{"code": "x"}'),
        (404, {"content-type": "text/html"}, b'{"code": "x"}'),
        (404, JSON, b"{"),
        (404, JSON, b"[]"),
        (404, JSON, b'{"detail": "Not Found"}'),
    ],
)
def test_answers_of_others_are_no_problems(
    status: int, headers: dict[str, str], body: bytes
) -> None:
    assert problem_of(status, headers, body) is None


def test_a_server_without_its_database_is_told_in_one_line() -> None:
    detail = f"{AWAY}postgresql://h/x does not answer\ntimers: no success for 40 s"
    problem = {"code": "unavailable", "status": 503, "detail": detail, "problems": [detail]}
    assert str(error_of(problem, "http://s:8080")) == (
        "http://s:8080 has lost its database: postgresql://h/x does not answer; it goes on by itself when that is back"
    )

"""The engine's errors as problems."""

from __future__ import annotations

import json

import pytest

from tenuto.api.problems import KINDS, Problem, meant, problem_of
from tenuto.app.definitions import load_definition
from tenuto.model.errors import (
    Conflict,
    InvalidDefinition,
    InvalidInput,
    InvariantViolated,
    NotFound,
    TenutoError,
    Unavailable,
)
from tenuto.runtime.results import Refused


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (InvalidInput("is wrong", path="input.n"), "invalid_input", 422),
        (Refused("invalid_result", "payload is NaN"), "invalid_input", 422),
        (NotFound("run", "x"), "not_found", 404),
        (Conflict("already"), "conflict", 409),
        (Unavailable("disk full"), "unavailable", 503),
        (Problem("bad_request", "x"), "bad_request", 400),
    ],
)
def test_each_error_has_its_code_and_status(error: TenutoError, code: str, status: int) -> None:
    problem = problem_of(error)

    assert problem is not None
    document = problem.document()
    assert (document["code"], document["status"]) == (code, status)
    assert document["detail"] == str(error)


def test_a_bug_of_ours_is_no_problem_of_the_users() -> None:
    assert problem_of(InvariantViolated("impossible")) is None
    assert problem_of(TenutoError("unknown")) is None


def test_what_is_unavailable_says_when_to_come_again() -> None:
    problem = problem_of(Unavailable("disk full"))

    assert problem is not None
    assert problem.response().headers["retry-after"] == "1"


def test_members_that_say_nothing_are_left_out() -> None:
    assert "path" not in Problem("invalid_input", "x", path="").document()
    one = problem_of(InvalidInput("is wrong", path="input.n"))
    assert one is not None
    assert "problems" not in one.document()


def test_a_definition_tells_its_first_error_and_has_all() -> None:
    loaded = load_definition("name: x\nnodes:\n  a: {type: wiat}\n  b: {type: wit}\n", file="x")
    problem = problem_of(InvalidDefinition(loaded.findings))

    assert problem is not None
    document = json.loads(bytes(problem.response().body))
    assert document["detail"].startswith("3:")
    assert document["detail"].endswith("(and 1 more)")
    assert [each["line"] for each in document["findings"]] == [3, 4]


def test_codes_are_named_once_and_have_an_error_status() -> None:
    assert all(name == kind.code and 400 <= kind.status < 600 for name, kind in KINDS.items())


def test_a_hint_names_what_is_near_or_what_there_is() -> None:
    assert meant("limt", ["limit", "cursor"]) == "did you mean 'limit'?"
    assert meant("zzz", ["limit", "cursor"]) == "there are limit, cursor"
    assert meant("zzz", []) == "there are none"

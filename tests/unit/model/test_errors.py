from __future__ import annotations

from tenuto.model.errors import (
    Conflict,
    InvalidDefinition,
    InvalidInput,
    InvariantViolated,
    NotFound,
    TenutoError,
    Unavailable,
)


def test_every_error_ends_a_command_with_its_own_code() -> None:
    kinds: dict[type[TenutoError], int] = {
        InvalidDefinition: 2,
        InvalidInput: 2,
        NotFound: 3,
        Conflict: 4,
        Unavailable: 6,
        InvariantViolated: 70,
    }

    assert {kind: kind.exit_code for kind in kinds} == kinds
    assert all(issubclass(kind, TenutoError) for kind in kinds)


def test_an_invalid_definition_says_all_its_findings() -> None:
    error = InvalidDefinition(["first", "second"])

    assert error.findings == ("first", "second")
    assert str(error) == "first\nsecond"


def test_invalid_input_names_the_path_if_there_is_one() -> None:
    assert (
        str(InvalidInput("must be a number", path="input.amount"))
        == "input.amount: must be a number"
    )
    assert str(InvalidInput("is no JSON")) == "is no JSON"


def test_not_found_names_the_thing_and_may_hint() -> None:
    assert str(NotFound("run", "x")) == "no run 'x'"
    assert str(NotFound("run", "x", "see `tenuto run list`")) == "no run 'x'; see `tenuto run list`"

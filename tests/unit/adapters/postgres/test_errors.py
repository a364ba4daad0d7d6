import ssl

import asyncpg
import pytest

from tenuto.adapters.postgres.errors import (
    Fate,
    fate_of,
    is_bounced,
    is_undone,
    refusal,
    translate,
)
from tenuto.model.errors import InvalidInput, InvariantViolated, NotFound, TenutoError, Unavailable

WHERE = "postgresql://db/work"
FUNCTION = "tenuto_at_once_" + "0a1b" * 6


def of_state(state: str, text: str = "told by the server") -> asyncpg.PostgresError:
    made = asyncpg.PostgresError.new({"C": state, "M": text, "S": "ERROR"})
    assert isinstance(made, asyncpg.PostgresError)
    return made


@pytest.mark.parametrize(
    ("state", "fate"),
    [
        ("40001", Fate.AGAIN),
        ("40P01", Fate.AGAIN),
        ("55P03", Fate.AGAIN),
        ("23505", Fate.AGAIN),
        ("0A000", Fate.ELSEWHERE),
        ("26000", Fate.ELSEWHERE),
        ("25006", Fate.ALL_GONE),
        ("57P01", Fate.ALL_GONE),
        ("57P02", Fate.ALL_GONE),
        ("57P03", Fate.ALL_GONE),
        ("08006", Fate.GONE),
        ("57014", Fate.GONE),
        ("25P03", Fate.GONE),
        ("53100", Fate.FAILED),
        ("23514", Fate.FAILED),
        ("42601", Fate.FAILED),
    ],
)
def test_a_state_says_what_becomes_of_job_and_connection(state: str, fate: Fate) -> None:
    assert fate_of(of_state(state)) is fate


@pytest.mark.parametrize(
    ("state", "said", "fate"),
    [
        ("42883", f"function {FUNCTION}(jsonb) does not exist", Fate.UNMADE),
        ("42883", f"function public.{FUNCTION}(jsonb) does not exist", Fate.UNMADE),
        ("42883", "Funktion tenuto_" + "0" * 24 + "(text) existiert nicht", Fate.UNMADE),
        ("42501", f"permission denied for function {FUNCTION}", Fate.UNMADE),
        ("XX000", "cache lookup failed for function 16384", Fate.UNMADE),
        ("42883", "function lower(jsonb) does not exist", Fate.FAILED),
        ("42501", "permission denied for schema tenuto_at_once_", Fate.FAILED),
        ("XX000", "could not read block 7", Fate.GONE),
    ],
)
def test_a_function_of_ours_that_cannot_be_called_is_done_without(
    state: str, said: str, fate: Fate
) -> None:
    assert fate_of(of_state(state, said)) is fate


@pytest.mark.parametrize(
    "error", [ConnectionResetError(), TimeoutError(), asyncpg.InterfaceError("x"), OSError()]
)
def test_trouble_without_a_state_costs_the_connection(error: BaseException) -> None:
    assert fate_of(error) is Fate.GONE


@pytest.mark.parametrize(
    ("error", "undone"),
    [
        (of_state("25006"), True),
        (
            RuntimeError("unable to perform operation on <TCPTransport>; the handler is closed"),
            True,
        ),
        (asyncpg.InternalClientError("cannot switch to state 12; another operation"), True),
        (asyncpg.InternalClientError("unexpected"), False),
        (of_state("57P01"), False),
        (of_state("57014"), False),
        (of_state("08006"), False),
        (ConnectionResetError(), False),
        (TimeoutError(), False),
    ],
    ids=repr,
)
def test_what_was_refused_or_never_sent_wrote_nothing(error: BaseException, undone: bool) -> None:
    """Of anything else that costs the connection it is unknown, where it was a COMMIT."""
    assert is_undone(error) is undone


def test_our_own_errors_cost_nothing() -> None:
    assert fate_of(NotFound("run", "x")) is Fate.FAILED


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (of_state("28P01"), Unavailable, "refuses the password; give the right one"),
        (of_state("3D000"), Unavailable, "does not exist; make it with `createdb`"),
        (of_state("53100"), Unavailable, "cannot grow: its disk is full; free some space"),
        (of_state("53300"), Unavailable, "has no connection left"),
        (of_state("57P03"), Unavailable, "is starting up"),
        (of_state("42P01"), Unavailable, "run `tenuto db upgrade`"),
        (of_state("58030"), Unavailable, "told by the server"),
        (ConnectionRefusedError(), Unavailable, "nobody listens there"),
        (TimeoutError(), Unavailable, "does not answer"),
        (ConnectionResetError(), Unavailable, "has closed the connection"),
        (
            RuntimeError("unable to perform operation on <TCPTransport>; the handler is closed"),
            Unavailable,
            "has closed the connection",
        ),
        (
            asyncpg.InternalClientError(
                "cannot switch to state 12; another operation (2) is in progress"
            ),
            Unavailable,
            "has closed the connection",
        ),
        (OSError(113, "No route to host"), Unavailable, "cannot be reached (No route to host)"),
        (ssl.SSLError(1, "bad certificate"), Unavailable, "over TLS"),
        (of_state("42601", "syntax error"), InvariantViolated, "syntax error"),
        (of_state("23505"), InvariantViolated, "again and again"),
        (
            of_state("23514", 'no partition of relation "runs" found for row'),
            Unavailable,
            "has no partition for a run of this moment",
        ),
        (of_state("23514", "violates a check"), InvariantViolated, "violates a check"),
        (
            of_state("42883", f"function {FUNCTION}(jsonb) does not exist"),
            Unavailable,
            "lacks functions that this process made",
        ),
        (of_state("42883", "function lower(jsonb) does not exist"), InvariantViolated, "lower"),
        (ValueError("ours"), InvariantViolated, "ours"),
    ],
)
def test_errors_are_told_with_the_place_and_the_cure(
    error: BaseException, kind: type[TenutoError], said: str
) -> None:
    """Catalogue D15."""
    told = translate(error, WHERE)
    assert type(told) is kind
    assert said in str(told)
    assert WHERE in str(told)


def test_what_follows_the_first_line_is_for_programmers() -> None:
    told = translate(of_state("42601", "wrong\nDETAIL: Key (secret)=(7)"), WHERE)
    assert "secret" not in str(told)


def test_our_own_errors_pass() -> None:
    error = NotFound("run", "x")
    assert translate(error, WHERE) is error


def test_a_pooler_refuses_settings_of_the_connection() -> None:
    assert is_bounced(of_state("08P01", "unsupported startup parameter: enable_seqscan"))
    assert not is_bounced(of_state("28P01"))


@pytest.mark.parametrize("state", ["22021", "22P05"])
def test_a_nul_in_a_text_is_its_senders_mistake(state: str) -> None:
    told = translate(of_state(state, "invalid byte sequence for encoding"), WHERE)

    assert isinstance(told, InvalidInput)
    assert "NUL" in str(told)


@pytest.mark.parametrize(
    ("error", "user", "given", "said"),
    [
        (of_state("28P01"), "ann", True, "refuses the password given for the user 'ann'; give"),
        (of_state("28P01"), "ann", False, "wants a password of the user 'ann', and none was given"),
        (of_state("28P01", 'failed for user "os"'), "", False, "wants a password of the user 'os'"),
        (
            of_state("28000", 'role "eve" does not exist'),
            "eve",
            True,
            "refuses the user 'eve'; see",
        ),
        (of_state("28P01"), "", True, "refuses the password; give the right one"),
        (of_state("3D000"), "ann", True, "does not exist"),
    ],
)
def test_who_is_not_let_in_is_named(
    error: BaseException, user: str, given: bool, said: str
) -> None:
    told = refusal(error, WHERE, user=user, given=given)
    assert type(told) is Unavailable
    assert str(told).startswith(f"{WHERE} {said}")

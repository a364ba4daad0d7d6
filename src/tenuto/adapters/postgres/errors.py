"""PostgreSQL's and asyncpg's errors as ours, and what to do about them. Nothing driver-typed leaves this package.

What a message says has a cause and a cure, and never a password. States are SQLSTATEs.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from enum import Enum, auto

import asyncpg

from tenuto.model.errors import InvalidInput, InvariantViolated, TenutoError, Unavailable


class Fate(Enum):
    """What an error means for the job and for its connection."""

    AGAIN = auto()
    """Nothing was written and the connection is well: run the whole job again."""
    ELSEWHERE = auto()
    """Nothing was written; run it again on another connection, this one goes."""
    GONE = auto()
    """The connection is lost, or may be: it goes, and whoever waits is told."""
    ALL_GONE = auto()
    """The server is not what it was (a restart, a standby): no connection of the pool is any good."""
    UNMADE = auto()
    """Nothing was written and the connection is well, but a function that was called is not there: run the whole job
    again without.
    """
    FAILED = auto()
    """The job's own fault; the connection is well."""


_AGAIN = frozenset(
    {
        "40001",  # serialization failure; a row moved
        "40P01",  # deadlock
        "55P03",  # lock timeout
        "23505",  # somebody else inserted the same row first: read again, and see it
    }
)
_ELSEWHERE = frozenset(
    {
        "0A000",  # cached plan must not change result type
        "26000",  # a prepared statement is not there
        "42P05",  # or is there already
        "25P02",  # a transaction that had failed before
    }
)
_ALL_GONE = frozenset(
    {
        "25006",  # read-only: an old primary, or a disk about to be full
        "57P01",  # the administrator ended it
        "57P02",  # another process of the server crashed
        "57P03",  # starting up, shutting down
    }
)

_FUNCTION = re.compile(r"\btenuto_(at_once_)?[0-9a-f]{24}\b")
_QUOTED = re.compile(r'"([^"]+)"')
_TEXT = {"22021", "22P05"}
"""A NUL in a text parameter, and in a JSON one: checked at every door; this is the last."""
_CAUSES = {
    "08000": "has closed the connection",
    "08003": "has closed the connection",
    "08006": "has closed the connection",
    "25006": "is read-only: a standby, or a primary that was replaced; name the primary",
    "28000": "refuses this user; see pg_hba.conf of the server, and the user in the URL",
    "28P01": "refuses the password; give the right one in the URL, or in PGPASSWORD",
    "3D000": "does not exist; make it with `createdb`, or name another one",
    "3F000": "has no such schema; make it with `tenuto db upgrade`",
    "42501": "does not let this user do that; grant it CREATE on the database and its schema",
    "42P01": "lacks a table of Tenuto's; run `tenuto db upgrade`",
    "42703": "lacks a column of Tenuto's; run `tenuto db upgrade`",
    "53100": "cannot grow: its disk is full; free some space",
    "53200": "is out of memory",
    "53300": "has no connection left; make the pool smaller, or max_connections of the server larger",
    "53400": "has reached a limit of its configuration",
    "55P03": "waited too long for a lock that somebody holds",
    "57014": "took too long for a statement; is the server overloaded?",
    "57P01": "is being shut down, or somebody ended this connection",
    "57P02": "is restarting after a crash",
    "57P03": "is starting up or shutting down",
    "57P05": "closed a connection that had been idle",
    "25P03": "closed a transaction that had been idle; was this process stopped meanwhile?",
    "58P01": "misses a file of its own; see its log",
    "XX001": "is damaged; restore a backup",
    "XX002": "has a damaged index; REINDEX it, or restore a backup",
}
_UNAVAILABLE = (
    "08",
    "28",
    "3D",
    "3F",
    "42501",
    "42P01",
    "42703",
    "53",
    "55",
    "57",
    "58",
    "25",
    "40",
)


LOST = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
    RuntimeError,
)
"""What the driver raises when the server cannot be used. RuntimeError: uvloop's, for a write to a closed connection.
InternalClientError: asyncpg's, for a write after the server has said that it ends, and before it has closed.
"""


def state_of(error: BaseException) -> str:
    """The SQLSTATE of an error, empty if it has none."""
    return getattr(error, "sqlstate", None) or ""


def fate_of(error: BaseException) -> Fate:
    """What to do about an error of the driver's."""
    state = state_of(error)
    if is_unmade(error):
        return Fate.UNMADE
    if state in _AGAIN:
        return Fate.AGAIN
    if state in _ALL_GONE or state.startswith("57P0"):
        return Fate.ALL_GONE
    if state in _ELSEWHERE or isinstance(error, asyncpg.InvalidCachedStatementError):
        return Fate.ELSEWHERE
    if state and not state.startswith(("08", "25P03", "57014", "58", "XX")):
        return Fate.FAILED
    if isinstance(error, TenutoError):
        return Fate.FAILED
    return Fate.GONE


def is_unmade(error: BaseException) -> bool:
    """Whether a function of ours is not there to be called: dropped, or not this user's to call.

    Nothing ran of a call that was not let in. One that is dropped between its plan and its first step is not found by
    its number: the server's own words for that are not translated.
    """
    match state_of(error):
        case "42883" | "42501":
            return _FUNCTION.search(str(error)) is not None
        case "XX000":
            return str(error).startswith("cache lookup failed for function")
        case _:
            return False


def is_undone(error: BaseException) -> bool:
    """Whether nothing was written for certain, though the connection is no good: the server refuses to write, or the
    driver had nothing to send it by.

    57014 is not among these: the server disarms its timeout before it commits, but a cancel that somebody sends may
    arrive while it does, and nothing that is documented says that it is not told afterwards.
    """
    return state_of(error) == "25006" or _is_unsent(error)


def _is_unsent(error: BaseException) -> bool:
    match error:
        case RuntimeError():  # uvloop's, for a write to a closed connection
            return "handler is closed" in str(error)
        case asyncpg.InternalClientError():  # asyncpg's, for a write to one that the server has said it ends
            return "cannot switch to state" in str(error)
        case _:
            return False


def is_bounced(error: BaseException) -> bool:
    """Whether a connection pooler stands before the server and refused settings of the connection."""
    return "startup parameter" in str(error)


def translate(error: BaseException, where: str) -> TenutoError:
    """Say an error of the driver's in our words. `where` names the database, without a password.

    Trouble of the world is Unavailable; text that the database cannot hold, InvalidInput; anything else, also a unique
    row that was there again and again, is a bug of ours.
    """
    if isinstance(error, TenutoError):
        return error
    state = state_of(error)
    if state == "23505":
        return InvariantViolated(
            f"{where}: somebody else wrote the same row again and again ({_first_line(error)})"
        )
    if state in _TEXT:
        return InvalidInput("text that is to be stored or looked for holds a NUL character")
    if state == "23514" and "no partition of relation" in str(error):
        return Unavailable(
            f"{where} has no partition for a run of this moment; a server makes them ahead: start one, or run "
            "`tenuto db upgrade`"
        )
    if is_unmade(error):
        # Dropped, or of a backup of before this release: what is sent is right, and no run is to blame.
        return Unavailable(
            f"{where} lacks functions that this process made, again and again; does somebody drop them?"
        )
    cause = _CAUSES.get(state)
    if cause is None and (not state or state.startswith(_UNAVAILABLE)):
        cause = _said(error)
    if cause is None:
        return InvariantViolated(f"{where}: {type(error).__name__}: {_first_line(error)}")
    return Unavailable(f"{where} {cause}")


def refusal(error: BaseException, where: str, *, user: str, given: bool) -> TenutoError:
    """As `translate`, for a connection that was not let in: says who asked, and whether with a password.

    Args:
        user: whom the URL names; empty: the server's answer says it.
        given: there was a password in the URL or in PGPASSWORD.
    """
    state = state_of(error)
    named = _QUOTED.search(str(error))
    who = user or (named[1] if named else "")
    if not state.startswith("28") or not who:
        return translate(error, where)
    if state != "28P01":
        return Unavailable(
            f"{where} refuses the user {who!r}; see pg_hba.conf of the server, and the user in the URL"
        )
    if given:
        cure = "give the right user and password in the URL, or PGPASSWORD"
        return Unavailable(f"{where} refuses the password given for the user {who!r}; {cure}")
    cure = "give one in the URL, or in PGPASSWORD"
    return Unavailable(f"{where} wants a password of the user {who!r}, and none was given; {cure}")


def _said(error: BaseException) -> str | None:
    """Trouble of the network, of time, of the handshake."""
    match error:
        case _ if _is_unsent(error):
            return "has closed the connection"
        case TimeoutError() | asyncio.CancelledError():
            return "does not answer"
        case ssl.SSLError():
            return f"cannot be reached over TLS ({error.args[-1]}); see sslmode in the URL"
        case ConnectionRefusedError():
            return "cannot be reached: nobody listens there; is the server running, and the port right?"
        case asyncpg.TargetServerAttributeNotMatched():
            return "is no primary: every server of the URL is read-only; name the primary too"
        case ConnectionError() | asyncpg.ConnectionDoesNotExistError() | EOFError():
            return "has closed the connection"
        case OSError():
            return f"cannot be reached ({error.strerror or error})"
        case asyncpg.ClientConfigurationError():
            return f"cannot be reached with this URL: {_first_line(error)}"
        case asyncpg.InternalClientError() | asyncpg.InterfaceError():
            return f"cannot be used: {_first_line(error)}"
        case asyncpg.PostgresError():
            return f"cannot be used: {_first_line(error)}"
        case _:
            return None


def _first_line(error: BaseException) -> str:
    """Without the hints below, which are for programmers, and the details, which may hold data."""
    return str(error).partition("\n")[0]

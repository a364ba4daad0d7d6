"""SQLite's errors as ours. Nothing driver-typed leaves this package; every message says what helps."""

from __future__ import annotations

import sqlite3

from tenuto.model.errors import Conflict, InvariantViolated, TenutoError, Unavailable

BUSY_MS = 5_000
"""How long a statement waits for another process's lock."""

_CAUSES = {
    sqlite3.SQLITE_BUSY: f"is locked by another program for more than {BUSY_MS // 1000} s",
    sqlite3.SQLITE_LOCKED: "is locked by another connection",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full; free some space",
    sqlite3.SQLITE_READONLY: "is read-only; make the file and its directory writable",
    sqlite3.SQLITE_PERM: "may not be used; check the permissions of the file and its directory",
    sqlite3.SQLITE_IOERR: "cannot be read or written: the disk reports an error",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check that its directory exists and is accessible",
    sqlite3.SQLITE_NOMEM: "cannot be used: out of memory",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore a backup, or move it away to start anew",
    sqlite3.SQLITE_NOTADB: "is not a database; name another file, this one is left as it is",
    sqlite3.SQLITE_PROTOCOL: "is locked by another program",
    sqlite3.SQLITE_INTERRUPT: "was interrupted",
}


def translate(error: Exception, where: str) -> TenutoError:
    """Say an error of the driver in our words. `where` names the database.

    Trouble of the world is Unavailable, a file of another kind is Conflict, anything else is a bug of ours.
    """
    if isinstance(error, TenutoError):
        return error
    # Primary code: the extended one names a variant of the same cause in its upper bits.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    cause = _CAUSES.get(code)
    if code == sqlite3.SQLITE_ERROR and str(error).startswith(("no such table", "no such column")):
        cause = f"is damaged ({error}); restore a backup, or move it away to start anew"
    if cause is None:
        return InvariantViolated(f"{where}: {type(error).__name__}: {error}")
    kind = Conflict if code == sqlite3.SQLITE_NOTADB else Unavailable
    return kind(f"{where} {cause}")

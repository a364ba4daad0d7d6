"""Opening a database file: connections with the right settings, migrations, and refusals in plain words.

Never overwrites a file that is not ours, and never turns a broken one into a new one.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from tenuto.adapters.sql.migrate import (
    APPLIED,
    CREATE_TABLE,
    REGISTER,
    Migration,
    due_migrations,
    read_migrations,
)
from tenuto.adapters.sqlite.errors import BUSY_MS, translate
from tenuto.adapters.sqlite.lock import holder
from tenuto.model.errors import Conflict, NotFound, TenutoError, Unavailable

MEMORY = ":memory:"
VERSION_MIN = (3, 38, 0)
MIGRATING_S = 2.0
"""How long those who do not migrate wait for an engine that does, for each step of it."""
_LOOK_S = 0.02
_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph"})
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"


def connect(path: str, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a connection for one thread at a time. Raises TenutoErrors only.

    Cached statements: as many as the store has texts, so that none is compiled twice.
    """
    if sqlite3.sqlite_version_info < VERSION_MIN:
        raise Unavailable(
            f"SQLite {sqlite3.sqlite_version} is too old: Tenuto needs 3.38; use a newer Python"
        )
    try:
        connection = _open(path, read_only=read_only)
    except sqlite3.Error as error:
        raise translate(error, path) from error
    try:
        if not read_only:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            connection.execute("PRAGMA synchronous = FULL")
        # Only the engine's writer thread checkpoints: a checkpoint that races a commit on another connection
        # can lose pages in SQLite before 3.51.3.
        connection.execute("PRAGMA wal_autocheckpoint = 0").fetchone()
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA cache_size = -16384")  # 16 MiB: the hot rows of some 10,000 runs
    except sqlite3.Error as error:
        connection.close()
        raise translate(error, path) from error
    return connection


def _open(path: str, *, read_only: bool) -> sqlite3.Connection:
    """A connection that has read the header, so a file that is no database is refused before anything is written."""
    if path == MEMORY:
        return _opened("file::memory:")
    target = f"{Path(path).absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
    try:
        return _opened(target)
    except sqlite3.OperationalError as error:
        # On a read-only disk no shared memory can be made beside the file. Without a log nobody writes it either.
        refused = error.sqlite_errorcode & 0xFF in (
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_READONLY,
        )
        if not (read_only and refused) or has_log(path):
            raise
        return _opened(f"{target}&immutable=1")


def _opened(target: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        target,
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=512,
        timeout=BUSY_MS / 1_000,
    )
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def has_log(path: str) -> bool:
    """Whether a write-ahead log with content lies beside the file."""
    try:
        return Path(f"{path}-wal").stat().st_size > 0
    except OSError:
        return False


def migrate(connection: sqlite3.Connection, path: str, *, at: int) -> None:
    """Bring the schema up to date, each migration in a transaction of its own. Raises Conflict, Unavailable."""
    known = read_migrations("tenuto.adapters.sqlite.migrations")
    try:
        _refuse_foreign(connection, path)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(CREATE_TABLE)
        connection.execute("COMMIT")
        for migration in due_migrations(known, _applied(connection, path), where=path):
            connection.execute("BEGIN IMMEDIATE")
            for statement in _statements(migration):
                connection.execute(statement)
            row = (migration.version, migration.name, migration.checksum, at)
            connection.execute(REGISTER, row)
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise translate(error, path) from error


def check_schema(connection: sqlite3.Connection, path: str) -> None:
    """For openings that do not migrate: the schema must be exactly this one. Raises Conflict, NotFound.

    An engine that has the file may be bringing it up just now: that is waited for.
    """
    steps, trouble = _trouble(connection, path)
    until = time.monotonic() + MIGRATING_S
    while trouble is not None:
        pid = _driven_by(path)
        done, trouble = _trouble(
            connection, path
        )  # once more: the engine may have ended as it was done
        if trouble is None:
            return
        if pid is None:
            raise trouble
        if done > steps:
            steps, until = done, time.monotonic() + MIGRATING_S
        elif time.monotonic() > until:
            raise _stays(trouble, path, pid)
        time.sleep(_LOOK_S)


def _stays(trouble: TenutoError, path: str, pid: str) -> TenutoError:
    """What to say of a schema that the engine which has the file does not bring up."""
    if isinstance(trouble, NotFound):
        return trouble
    return Conflict(
        f"{path} is driven by an engine of an older release (pid {pid}): stop that one, and start"
        " an engine of this release once"
    )


def _trouble(connection: sqlite3.Connection, path: str) -> tuple[int, TenutoError | None]:
    """How many migrations are applied, and what an engine would mend. Raises Conflict: what none would."""
    known = read_migrations("tenuto.adapters.sqlite.migrations")
    try:
        _refuse_foreign(connection, path)
        tables = {name for (name,) in connection.execute(_TABLES).fetchall()}
        applied = _applied(connection, path) if tables else []
    except sqlite3.Error as error:
        raise translate(error, path) from error
    if not applied:
        return 0, NotFound("database", path, "start an engine once: `tenuto run FILE` makes it")
    old = Conflict(f"{path} has an older schema; start an engine on it once to bring it up")
    return len(applied), old if due_migrations(known, applied, where=path) else None


def _driven_by(path: str) -> str | None:
    """The process id of the engine that has a file; None: none has."""
    try:
        found = None if path == MEMORY else holder(Path(path))
    except Unavailable:
        return None
    return None if found is None else found.pid


def require_file(path: str) -> None:
    """Raise NotFound unless there is a file: opening for reading must not make one."""
    if path != MEMORY and not Path(path).is_file():
        raise NotFound("database", path, "start an engine once: `tenuto run FILE` makes it")


def prepare_directory(path: str) -> None:
    """Make the parent directory. Raises Unavailable."""
    if path == MEMORY:
        return
    try:
        Path(path).absolute().parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        place = Path(error.filename or path)
        while not place.exists() and place != place.parent:
            place = place.parent
        shown = place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place
        raise Unavailable(
            f"{path} cannot be made: {shown} is no directory; name another file with --database"
        ) from error
    except OSError as error:
        raise Unavailable(f"{path} cannot be made: {error.strerror}") from error


def network_filesystem(path: str, mounts: str) -> str | None:
    """Type of the network filesystem that holds a file, by the text of /proc/self/mounts, or None.

    Locks and shared memory are not reliable there.
    """
    best, found = "", ""
    target = str(Path(path).absolute())
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ")
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, found = point, fields[2]
    return found if found in _NETWORK else None


def warnings_about(path: str) -> tuple[str, ...]:
    """What a person should know about where the file lies."""
    try:
        mounts = Path("/proc/self/mounts").read_text(errors="replace")
    except OSError:
        return ()
    kind = network_filesystem(path, mounts) if path != MEMORY else None
    if kind is None:
        return ()
    return (f"{path} is on a network filesystem ({kind}), where locks may fail; use a local disk",)


def _refuse_foreign(connection: sqlite3.Connection, path: str) -> None:
    tables = {name for (name,) in connection.execute(_TABLES).fetchall()}
    if tables and "schema_migrations" not in tables:
        raise Conflict(
            f"{path} is a database of another program (it has {min(tables)!r}); name another file"
        )


def _applied(connection: sqlite3.Connection, path: str) -> list[tuple[int, str]]:
    try:
        return connection.execute(APPLIED).fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise Conflict(
            f"{path} is a database of another program (its schema_migrations is not ours: {error}); "
            "name another file"
        ) from error


def _statements(migration: Migration) -> Iterator[str]:
    """Cut a file at the semicolons that end statements."""
    waiting = ""
    for line in migration.text.splitlines(keepends=True):
        waiting += line
        if sqlite3.complete_statement(waiting):
            yield waiting
            waiting = ""

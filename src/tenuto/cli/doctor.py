"""`tenuto doctor`: looks at everything the engine stands on, and says what to do about trouble.
Changes nothing.

Each check is a function that finds one thing out; a check that cannot run says so instead of
raising.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter
from urllib.parse import quote

from tenuto.cli.checks import Check, Grade, of_cluster, print_checks
from tenuto.cli.console import say
from tenuto.model.errors import TenutoError
from tenuto.settings import Database, Settings, load, parse_database
from tenuto.settings.tree import Languages

SQLITE_MIN = (3, 38, 0)
"""RETURNING, STRICT tables and the JSON operators."""
FREE_MIN = 256 * 1_048_576
"""Bytes. Less than this, and a busy file's write-ahead log may fill the disk."""
FSYNC_SLOW_S = 0.02
FSYNCS = 15
NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs"}
"""File systems on which SQLite's locks and write-ahead log cannot be relied on."""

_DEFINITION = 'name: probe\nnodes:\n  a: {type: set, values: {two: "${1 + 1}"}}\n'


def examine(url: str | None, *, as_json: bool) -> int:
    """Run all checks and print them. Exit code 1 when one is an error."""
    settings, database = load(), parse_database(url)
    checks = [
        check_settings(settings),
        *check_all(database),
        *of_cluster(database, settings),
    ]
    if as_json:
        say(json.dumps([asdict(check) for check in checks], ensure_ascii=False))
    else:
        print_checks(checks)
    return 1 if any(check.grade is Grade.ERROR for check in checks) else 0


def check_all(database: Database) -> Iterator[Check]:
    """All checks, those of the file only where there is one."""
    yield check_python()
    yield check_sqlite()
    yield check_expressions()
    yield from check_languages(load().languages)
    if database.path is None:
        return
    folder = nearest_folder(database.path)
    yield check_folder(folder)
    yield check_file_system(folder)
    yield check_space(folder)
    yield from _guarded("fsync", lambda: check_fsync(folder))
    if not database.path.exists():
        yield Check("database", Grade.OK, f"{database} does not exist yet; the first run makes it")
        return
    path = database.path
    yield check_file(path)
    yield from _guarded("lock", lambda: check_lock(path))
    yield from _guarded("schema", lambda: check_schema(path))
    yield from _guarded("content", lambda: check_content(path))
    yield from _guarded("orphans", lambda: check_orphans(path))


def _guarded(name: str, check: Callable[[], Check]) -> Iterator[Check]:
    try:
        yield check()
    except TenutoError as error:
        yield Check(name, Grade.ERROR, str(error))
    except (OSError, sqlite3.Error) as error:
        yield Check(name, Grade.ERROR, f"cannot be looked at: {error}")


# -- what everything stands on ---------------------------------------------------------------------


def check_settings(settings: Settings) -> Check:
    """Which file they are from; wrong ones have ended the command before."""
    return Check("settings", Grade.OK, str(settings.file or "no tenuto.toml, nor [tool.tenuto]"))


def check_python() -> Check:
    """The interpreter."""
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("python", Grade.OK, f"{version} at {sys.executable}")


def check_sqlite(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> Check:
    """The library that Python is linked with."""
    text = ".".join(map(str, version))
    if version < SQLITE_MIN:
        wanted = ".".join(map(str, SQLITE_MIN))
        return Check(
            "sqlite",
            Grade.ERROR,
            f"{text}, older than {wanted}",
            "use a Python that brings a newer SQLite",
        )
    return Check("sqlite", Grade.OK, text)


def check_expressions() -> Check:
    """The loader and the expression language."""
    try:
        from tenuto.app.definitions import load_definition

        loaded = load_definition(_DEFINITION, file="probe.yaml")
    except (ImportError, OSError) as error:
        return Check(
            "expressions",
            Grade.ERROR,
            f"the expression language cannot be loaded: {error}",
            "install tenuto again for this Python and machine",
        )
    if loaded.graph is None:
        return Check("expressions", Grade.ERROR, str(loaded.findings[0]), "this is a bug")
    return Check("expressions", Grade.OK, "CEL evaluates")


def check_languages(setting: Languages) -> Iterator[Check]:
    """What runs the code of `code` nodes."""
    if setting.server:
        yield Check("languages", Grade.OK, f"run by the language server at {setting.server}")
        return
    for name, module in (("code: python", "pydantic_monty"), ("code: javascript", "_quickjs")):
        try:
            import_module(module)
        except ImportError as error:
            cure = "install tenuto again for this Python and machine"
            yield Check(name, Grade.ERROR, f"cannot be loaded: {error}", cure)
        else:
            yield Check(name, Grade.OK, "an interpreter without access to the host")
    if setting.cpython == "off":
        yield Check("code: cpython", Grade.OK, "off")
    else:
        found = f"{setting.cpython}: limited, but reads files and uses the network"
        yield Check("code: cpython", Grade.OK, found)


# -- where the file lives --------------------------------------------------------------------------


def nearest_folder(path: Path) -> Path:
    """The folder of a file, or the nearest one above that exists."""
    folder = path.absolute().parent
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder


def check_folder(folder: Path) -> Check:
    """SQLite writes files beside the database, so the folder itself must be writable."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return Check("folder", Grade.OK, f"{folder} is writable")
    except OSError as error:
        why = error.strerror
    return Check(
        "folder",
        Grade.ERROR,
        f"{folder} is not writable: {why}",
        f"chmod u+wx {folder}, or name another file with --database",
    )


def check_file_system(folder: Path, mounts: Path = Path("/proc/mounts")) -> Check:
    """A network file system loses locks."""
    kind = _file_system(folder, mounts)
    if kind in NETWORK:
        return Check(
            "file system",
            Grade.ERROR,
            f"{folder} is on {kind}, where SQLite's locks cannot be relied on",
            "put the file on a local disk with --database",
        )
    return Check("file system", Grade.OK, kind or "unknown")


def _file_system(folder: Path, mounts: Path) -> str:
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ")
        if folder.is_relative_to(point) and len(point) > len(best):
            best, kind = point, fields[2]
    return kind


def check_space(folder: Path) -> Check:
    """Free bytes."""
    free = shutil.disk_usage(folder).free
    found = f"{free / 2**30:.1f} GiB free"
    if free < FREE_MIN:
        return Check("disk", Grade.WARNING, found, "make room: a full disk stops every run")
    return Check("disk", Grade.OK, found)


def check_fsync(folder: Path) -> Check:
    """How long the disk takes to keep something: every commit waits for it."""
    took = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(FSYNCS):
            file.write(b"\0" * 4096)
            file.flush()
            began = perf_counter()
            os.fsync(file.fileno())
            took.append(perf_counter() - began)
    middle = median(took)
    found = f"{middle * 1000:.2f} ms (median of {FSYNCS})"
    if middle > FSYNC_SLOW_S:
        return Check(
            "fsync",
            Grade.WARNING,
            found,
            "a slow disk: each commit waits so long; use a faster one",
        )
    return Check("fsync", Grade.OK, found)


# -- the file --------------------------------------------------------------------------------------


def check_file(path: Path) -> Check:
    """Permissions and size."""
    size = path.stat().st_size
    found = f"{path}, {size / 2**20:.1f} MiB"
    if not os.access(path, os.R_OK | os.W_OK):
        return Check(
            "database", Grade.ERROR, f"{found}, not writable by this user", f"chmod u+rw {path}"
        )
    return Check("database", Grade.OK, found)


def check_lock(path: Path) -> Check:
    """Which engine has the file."""
    lock = path.with_name(path.name + ".lock")
    if not lock.exists():
        return Check("lock", Grade.OK, "free")
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = file.readline(200).decode(errors="replace").strip()
            return Check("lock", Grade.OK, f"an engine has it open (pid {holder or 'unknown'})")
    return Check("lock", Grade.OK, "free")


def check_schema(path: Path) -> Check:
    """Whether this version of tenuto can read the file. Raises Conflict for a newer one."""
    from tenuto.cli.look import open_runs, read
    from tenuto.sdk.tenuto import NAMESPACE

    counts = read(Database(path), lambda reads: reads.count_runs(NAMESPACE))
    return Check("schema", Grade.OK, f"{sum(counts.values())} runs, {open_runs(counts)} unfinished")


def check_content(path: Path) -> Check:
    """SQLite's own check of the file's structure."""
    with _reading(path) as connection:
        problems = [row[0] for row in connection.execute("PRAGMA quick_check(5)")]
    if problems != ["ok"]:
        return Check(
            "content",
            Grade.ERROR,
            "damaged: " + "; ".join(map(str, problems)),
            f"copy the file away, then: sqlite3 {path} .recover | sqlite3 mended.db",
        )
    return Check("content", Grade.OK, "structure is sound")


def check_orphans(path: Path) -> Check:
    """Work rows whose run is gone or over: nothing would ever take them."""
    found = []
    with _reading(path) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
        for table in ("run_states", "tasks", "ready", "timers", "waits", "payloads", "events"):
            if not {table, "runs"} <= tables:
                continue
            # The names are those above, never a user's.
            [count] = connection.execute(
                f"SELECT count(*) FROM {table} AS t"  # noqa: S608
                " WHERE NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.run_id = t.run_id)"
            ).fetchone()
            if count:
                found.append(f"{count} in {table}")
    if found:
        return Check(
            "orphans",
            Grade.ERROR,
            "rows without their run: " + ", ".join(found),
            "this is a bug; please report it with the file's history",
        )
    return Check("orphans", Grade.OK, "none")


def _reading(path: Path) -> closing[sqlite3.Connection]:
    """A connection that cannot write."""
    url = f"file:{quote(str(path.absolute()))}?mode=ro"
    return closing(sqlite3.connect(url, uri=True))

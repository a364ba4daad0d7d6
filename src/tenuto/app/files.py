"""A database file without an engine: reading it, putting messages into its mailbox, who drives it. Light to import.

Both work beside a running engine, of this process or another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tenuto.adapters.local.clock import SystemClock
from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sql.store import SqlStore
from tenuto.adapters.sqlite import lock
from tenuto.adapters.sqlite.engine import open_reader, open_sender
from tenuto.coordinator.mailbox import Message, new_message
from tenuto.ports.reads import Reads


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """A file opened for reading, beside an engine or without one."""

    reads: Reads


@dataclass(frozen=True, slots=True)
class Driver:
    """The engine that has a file open: its process id (or `unknown`), and where it answers REST (or empty)."""

    pid: str
    url: str


class Kept:
    """A database file as an engine has opened it. It goes on with its handle, whoever takes the name away."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._identity = _identity(self._path)

    def trouble(self) -> str | None:
        """Why what is written now is lost, in words; None: the file is where it was."""
        try:
            now = _identity(self._path)
        except OSError:
            return None  # it may be there
        if now is None:
            what = "was deleted"
        elif now != self._identity:
            what = "was replaced by another file"
        else:
            return None
        return (
            f"{self._path} {what} while an engine has it open, so what that one writes is lost;"
            " stop it, put the file back or leave it gone, and start again"
        )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def driver_of(path: Path | str) -> Driver | None:
    """Who has the file open; None: nobody. Raises Unavailable."""
    found = lock.holder(Path(path))
    return None if found is None else Driver(found.pid, found.url)


def is_returning(path: Path | str) -> bool:
    """Whether the engine that had the file starts anew, and will serve again at once."""
    return lock.is_returning(Path(path))


def engine_of(path: Path | str) -> str | None:
    """Process id of the engine that has the file open; None: none has. Raises Unavailable."""
    found = driver_of(path)
    return None if found is None else found.pid


def announce(path: Path | str, url: str) -> None:
    """Let commands find the REST of this process, whose engine has the file open. `url`: empty when it ends."""
    lock.announce(Path(path), url)


@contextmanager
def read_only(path: Path | str) -> Iterator[ReadOnly]:
    """Open a file for reading; writes nothing. Raises NotFound, Conflict (another version), Unavailable."""
    sqlite = open_reader(str(path), SystemClock())
    try:
        yield ReadOnly(SqlReads(sqlite))
    finally:
        sqlite.shut()


def post_message(path: Path | str, message: Message) -> bool:
    """Put a message into the file's mailbox, engine running or not. False: its event id was there already.

    Raises InvalidInput, NotFound, Conflict, Unavailable.
    """
    new = new_message(Uuid7Ids(), message)
    sqlite = open_sender(str(path), SystemClock())
    try:
        [stored] = asyncio.run(SqlStore(sqlite).post((new,)))
    finally:
        sqlite.shut()
    return stored

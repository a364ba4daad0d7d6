"""A database file without an engine: reading it, and putting messages into its mailbox. Light to import.

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
from tenuto.adapters.sqlite.engine import open_reader, open_sender
from tenuto.adapters.sqlite.lock import holder
from tenuto.coordinator.mailbox import new_message
from tenuto.ports.reads import Reads
from tenuto.ports.store import DEFAULT_NAMESPACE


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """A file opened for reading, beside an engine or without one."""

    reads: Reads


def engine_of(path: Path | str) -> str | None:
    """Process id of the engine that has the file open; None: none has. Raises Unavailable."""
    return holder(Path(path))


@contextmanager
def read_only(path: Path | str) -> Iterator[ReadOnly]:
    """Open a file for reading; writes nothing. Raises NotFound, Conflict (another version), Unavailable."""
    sqlite = open_reader(str(path), SystemClock())
    try:
        yield ReadOnly(SqlReads(sqlite))
    finally:
        sqlite.shut()


def post_message(
    path: Path | str,
    *,
    event: str,
    key: str,
    payload: str,
    event_id: str | None = None,
    namespace: str = DEFAULT_NAMESPACE,
) -> bool:
    """Put a message into the file's mailbox, engine running or not. False: this event id was there already.

    `payload` is canonical JSON. Raises InvalidInput, NotFound, Conflict, Unavailable.
    """
    message = new_message(Uuid7Ids(), event, key, payload, event_id=event_id, namespace=namespace)
    sqlite = open_sender(str(path), SystemClock())
    try:
        return asyncio.run(SqlStore(sqlite).post(message))
    finally:
        sqlite.shut()

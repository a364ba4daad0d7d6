"""SQLite as an SqlEngine: one writer thread, one reader thread. No SQL but transactions and checkpoints.

Theory of operation. All writes wait in one queue. The writer takes everything that waits and runs it in one BEGIN
IMMEDIATE … COMMIT; the jobs of a transaction share its fsync. Each asyncio loop is told of all its finished jobs by one
call. If a job fails, the transaction is rolled back and run again with every job in a savepoint of its own, so only the
guilty one fails; a savepoint each from the start would cost two more steps a job. If the COMMIT fails, all fail with
Unavailable, nothing was written, and the thread goes on.

Statements are few and answers come packed in one row on purpose: at each step sqlite3 gives up the interpreter lock,
and beside a busy thread may get it back only after the switch interval (5 ms by default). `executemany` of 50 rows took
62 ms there, one INSERT from `json_each` 10; on an idle machine the two differ by less than 1 µs a row.

A second process may write between two transactions (an event sent from the command line); `foreign_changes` says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tenuto.adapters.sql.dialect import SQLITE, Dialect
from tenuto.adapters.sql.engine import Job, Param, Row, Step, Steps
from tenuto.adapters.sqlite import opening
from tenuto.adapters.sqlite.errors import BUSY_MS, translate
from tenuto.adapters.sqlite.lock import FileLock
from tenuto.model.errors import Unavailable
from tenuto.ports.clock import Clock

T = TypeVar("T")

JOBS_MAX = 256
"""Jobs in one transaction: a bound on how long a single one may last."""
CHECKPOINT_BYTES = 4 * 1_048_576
"""Size of the log at which the writer moves it into the database file."""
LOOK_S = 1.0
"""How often, at most, the writer makes sure that its file is still there."""
IDLE_S = 2.0
"""Quiet time after which the log is emptied."""


@dataclass(slots=True)
class _Ticket:
    """A job on its way, and where its end is told."""

    job: Job[Any]
    durable: bool
    bare: bool
    """Without a transaction around it."""
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None


class SqliteEngine:
    """One open database. Make it with `open_engine`, `open_sender` or `open_reader`."""

    dialect: Dialect = SQLITE

    def __init__(
        self,
        path: str,
        clock: Clock,
        *,
        writer: sqlite3.Connection | None,
        reader: sqlite3.Connection | None,
        lock: FileLock | None = None,
        checkpoints: bool = False,
        before_commit: Callable[[], None] | None = None,
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self.warnings = warnings
        self._lock = lock
        self.jobs = 0
        """How many were handed in so far."""
        self.open_jobs: set[asyncio.Future[Any]] = set()
        """Of these, what is not answered yet."""
        self._gate = threading.Lock()
        self._closed = False
        self._writer = self._reader = None
        if writer is not None:
            self._writer = _Writer(
                writer, path, clock, checkpoints=checkpoints, before_commit=before_commit
            )
        if reader is not None:
            self._reader = _Reader(reader, path, clock)
        self._threads = [thread for thread in (self._writer, self._reader) if thread is not None]
        for thread in self._threads:
            thread.start()

    async def write(self, job: Job[T], *, durable: bool = True) -> T:
        if self._writer is None:
            raise Unavailable(f"{self.path} is open for reading only")
        return await self._submit(self._writer, job, durable=durable)

    async def read(self, job: Job[T]) -> T:
        thread = self._reader or self._writer
        assert thread is not None
        return await self._submit(thread, job)

    def heard(self, now: int) -> None:
        """Nothing new: the time in the answer is this process's own."""

    def held(self) -> tuple[int, ...]:
        """Descriptors that keep others from the file for as long as some process has them open."""
        return () if self._lock is None else (self._lock.fd,)

    async def foreign_changes(self) -> bool:
        """Whether another process has written since the last call. Costs a look at shared memory."""
        if self._writer is None:
            raise Unavailable(f"{self.path} is open for reading only")
        return await self._submit(self._writer, self._writer.foreign_changes, bare=True)

    def shut(self) -> None:
        """Finish what waits, empty the log, stop the threads, give the lock up. Blocks; repeatable."""
        with self._gate:
            if not self._closed:
                self._closed = True
                for thread in reversed(self._threads):
                    thread.inbox.put(None)
        # The reader first: the writer's last checkpoint wants nobody to read.
        for thread in reversed(self._threads):
            thread.join()
        if self._lock is not None:
            self._lock.release()

    async def close(self) -> None:
        await asyncio.to_thread(self.shut)

    async def _submit(
        self, thread: _Worker, job: Job[T], *, durable: bool = False, bare: bool = False
    ) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._gate:
            if self._closed:
                raise Unavailable(f"{self.path} is closed")
            thread.inbox.put(_Ticket(job, durable, bare, loop, future))
            self.jobs += 1
            self.open_jobs.add(future)
        try:
            return await future
        finally:
            self.open_jobs.discard(future)


class _Worker(threading.Thread):
    """Owns one connection and runs what waits in its inbox, batch by batch. None in the inbox ends it."""

    def __init__(self, name: str, connection: sqlite3.Connection, path: str, clock: Clock) -> None:
        super().__init__(name=name, daemon=True)
        self.inbox: queue.SimpleQueue[_Ticket | None] = queue.SimpleQueue()
        self._db = connection
        self._path = path
        self._clock = clock

    def run(self) -> None:
        ending = False
        while not ending:
            tickets: list[_Ticket] = []
            try:
                ticket = self.inbox.get(timeout=self._patience())
                while ticket is not None and len(tickets) < JOBS_MAX - 1:
                    tickets.append(ticket)
                    ticket = self.inbox.get_nowait()
                if ticket is None:
                    ending = True
                else:
                    tickets.append(ticket)
            except queue.Empty:
                pass
            if tickets:
                self._carry_out(tickets)
                _tell(tickets)
            self._tidy()
        self._finish()
        self._db.close()

    def _patience(self) -> float | None:
        """Seconds after which to tidy though nothing came; None for never."""
        return None

    def _carry_out(self, tickets: Sequence[_Ticket]) -> None:
        raise NotImplementedError

    def _tidy(self) -> None:
        """What may be done between batches, once everybody has been told."""

    def _finish(self) -> None:
        """Last words before the connection closes."""

    def _drive(self, job: Job[Any], now: int) -> Any:
        """Run one job's steps."""
        steps = job()
        try:
            group = next(steps)
            while True:
                group = steps.send(self._execute(group, now))
        except StopIteration as end:
            return end.value
        finally:
            steps.close()

    def _execute(self, group: Sequence[Step], now: int) -> Row | None:
        row: Row | None = None
        for text, params in group:
            cursor = self._db.execute(text, _binding(params, now))
            # A row left unread would keep its statement, and with it the transaction, open.
            row = cursor.fetchone() if cursor.description is not None else None
            cursor.close()
        return row


class _Reader(_Worker):
    """Short readings: a long one would keep the log from being emptied.

    Every reading of the store is one statement, so it is consistent and needs no transaction around it.
    """

    def __init__(self, connection: sqlite3.Connection, path: str, clock: Clock) -> None:
        super().__init__("tenuto-sqlite-reader", connection, path, clock)

    def _carry_out(self, tickets: Sequence[_Ticket]) -> None:
        for ticket in tickets:
            try:
                ticket.result = self._drive(ticket.job, self._clock.now())
            except Exception as error:  # noqa: BLE001 - an error belongs to its job
                ticket.error = translate(error, self._path)


class _Writer(_Worker):
    """The one that writes, and the only one that checkpoints."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: str,
        clock: Clock,
        *,
        checkpoints: bool,
        before_commit: Callable[[], None] | None,
    ) -> None:
        super().__init__("tenuto-sqlite-writer", connection, path, clock)
        self._checkpoints = checkpoints
        self._before_commit = before_commit
        self._log = Path(path + "-wal")
        self._commits = 0  # since the log was emptied
        self._committed_at = 0.0
        self._full = True
        self._version = self._data_version()
        self._file = Path(path) if checkpoints else None
        self._inode = _inode(self._file)
        self._seen_at = time.monotonic()

    def foreign_changes(self) -> Steps[bool]:
        """The job of `SqliteEngine.foreign_changes`: this connection's own commits do not count."""
        row = yield (("PRAGMA data_version", ()),)
        assert row is not None
        before, self._version = self._version, row[0]
        return self._version != before

    def _data_version(self) -> int:
        version: int = self._db.execute("PRAGMA data_version").fetchone()[0]
        return version

    def _carry_out(self, tickets: Sequence[_Ticket]) -> None:
        now = self._clock.now()
        for ticket in tickets:
            if ticket.bare:
                self._carry_out_bare(ticket, now)
        tickets = [ticket for ticket in tickets if not ticket.bare]
        if not tickets:
            return
        try:
            self._look_for_file()
            self._begin(durable=any(ticket.durable for ticket in tickets))
            try:
                for ticket in tickets:
                    ticket.result = self._drive(ticket.job, now)
            except Exception:
                self._roll_back()
                if len(tickets) == 1:
                    raise
                self._begin(durable=True)
                self._carry_out_apart(tickets, now)
            self._commit()
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread lives on
            self._roll_back()
            failure = translate(error, self._path)
            for ticket in tickets:
                ticket.error = ticket.error or failure

    def _carry_out_bare(self, ticket: _Ticket, now: int) -> None:
        try:
            ticket.result = self._drive(ticket.job, now)
        except Exception as error:  # noqa: BLE001 - an error belongs to its job
            ticket.error = translate(error, self._path)

    def _carry_out_apart(self, tickets: Sequence[_Ticket], now: int) -> None:
        """Every job in a savepoint: an error undoes its own job only."""
        for ticket in tickets:
            self._db.execute("SAVEPOINT job")
            try:
                ticket.result = self._drive(ticket.job, now)
            except Exception as error:
                ticket.error = translate(error, self._path)
                if not self._db.in_transaction:
                    raise  # a full disk rolls everything back
                self._db.execute("ROLLBACK TO job")
            self._db.execute("RELEASE job")

    def _begin(self, *, durable: bool) -> None:
        if durable != self._full:
            # May be changed between transactions only.
            self._db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._full = durable
        self._db.execute("BEGIN IMMEDIATE")

    def _commit(self) -> None:
        if self._before_commit is not None:
            self._before_commit()
        self._db.execute("COMMIT")
        self._commits += 1
        self._committed_at = time.monotonic()

    def _look_for_file(self) -> None:
        """What is written into a file that was removed is lost without an error, so look now and then. Costs a step."""
        now = time.monotonic()
        if now - self._seen_at < LOOK_S:
            return
        if _inode(self._file) != self._inode:
            raise Unavailable(
                f"{self._path} was removed or replaced while it was in use; what was written lately is lost: "
                "stop this program, put the file back, and start again"
            )
        self._seen_at = now

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")

    def _log_size(self) -> int:
        try:
            return self._log.stat().st_size
        except OSError:
            return 0

    def _patience(self) -> float | None:
        return IDLE_S if self._commits and self._checkpoints else None

    def _tidy(self) -> None:
        """Keep the log small: moved into the file when it has grown, emptied when nothing has been written lately."""
        if not (self._commits and self._checkpoints):
            return
        if time.monotonic() - self._committed_at >= IDLE_S:
            self._empty_log(wait_ms=0)
        # Looking at the size gives up the interpreter lock too, so not after each commit.
        elif self._commits % 16 == 0 and self._log_size() >= CHECKPOINT_BYTES:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def _finish(self) -> None:
        if self._checkpoints:
            self._empty_log(wait_ms=200)

    def _empty_log(self, *, wait_ms: int) -> None:
        """Move the log into the file and cut it, unless somebody reads for longer than that."""
        self._commits = 0
        with contextlib.suppress(sqlite3.Error):
            self._db.execute(f"PRAGMA busy_timeout = {wait_ms}").fetchone()
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._db.execute(f"PRAGMA busy_timeout = {BUSY_MS}").fetchone()


def open_engine(
    path: str | os.PathLike[str],
    clock: Clock,
    *,
    before_commit: Callable[[], None] | None = None,
) -> SqliteEngine:
    """Open for driving runs: lock, migrate. `:memory:` is a database of this engine alone.

    Args:
        before_commit: called in the writer thread between the last statement and COMMIT (kill tests).

    Raises:
        Conflict: in use by another engine; another program's or a newer Tenuto's database; no database.
        Unavailable: cannot be made, read or written; says why.
    """
    name = os.fspath(path)
    opening.prepare_directory(name)
    memory = name == opening.MEMORY
    lock = None if memory else FileLock(Path(name))
    connections: list[sqlite3.Connection] = []
    try:
        connections.append(opening.connect(name))
        opening.migrate(connections[0], name, at=clock.now())
        if not memory:
            connections.append(opening.connect(name, read_only=True))
    except BaseException:
        for connection in connections:
            connection.close()
        if lock is not None:
            lock.release()
        raise
    return SqliteEngine(
        name,
        clock,
        writer=connections[0],
        reader=None if memory else connections[1],
        lock=lock,
        checkpoints=not memory,
        before_commit=before_commit,
        warnings=opening.warnings_about(name),
    )


def open_sender(path: str | os.PathLike[str], clock: Clock) -> SqliteEngine:
    """Open for short writes beside a running engine (an event from the command line): no lock, no checkpoints.

    Raises NotFound, Conflict, Unavailable. The file must exist with this release's schema.
    """
    name = os.fspath(path)
    opening.require_file(name)
    writer = opening.connect(name)
    try:
        opening.check_schema(writer, name)
    except BaseException:
        writer.close()
        raise
    return SqliteEngine(name, clock, writer=writer, reader=None)


def open_reader(path: str | os.PathLike[str], clock: Clock) -> SqliteEngine:
    """Open for reading only, engine running or not. Raises NotFound, Conflict, Unavailable."""
    name = os.fspath(path)
    opening.require_file(name)
    reader = opening.connect(name, read_only=True)
    try:
        opening.check_schema(reader, name)
    except BaseException:
        reader.close()
        raise
    return SqliteEngine(name, clock, writer=None, reader=reader)


def _binding(params: Sequence[Param], now: int) -> dict[str, Param]:
    """Names for `$1`, `$2`, … and `$now`; names that a text lacks are ignored."""
    binding: dict[str, Param] = {str(n): param for n, param in enumerate(params, 1)}
    binding["now"] = now
    return binding


def _tell(tickets: Sequence[_Ticket]) -> None:
    """One call to each loop, however many jobs of it ended."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Ticket]] = {}
    for ticket in tickets:
        by_loop.setdefault(ticket.loop, []).append(ticket)
    for loop, ended in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve, ended)


def _resolve(tickets: Sequence[_Ticket]) -> None:
    for ticket in tickets:
        if ticket.future.done():  # cancelled; its outcome is unknown to the caller
            continue
        if ticket.error is not None:
            ticket.future.set_exception(ticket.error)
        else:
            ticket.future.set_result(ticket.result)


def _inode(file: Path | None) -> int | None:
    try:
        return None if file is None else file.stat().st_ino
    except OSError:
        return None

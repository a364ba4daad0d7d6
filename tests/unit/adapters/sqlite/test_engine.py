"""The writer and reader threads."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.support.store import (
    LEASE_US,
    TurnedClock,
    a_change,
    a_message,
    a_start,
    a_task,
    an_input,
    commit,
    new_run_id,
    seq_of,
)

from tenuto.adapters.sql.engine import Job, Steps
from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sql.store import SqlStore
from tenuto.adapters.sqlite import engine as module
from tenuto.adapters.sqlite.engine import SqliteEngine, open_engine, open_reader, open_sender
from tenuto.model.errors import Conflict, InvariantViolated, Unavailable
from tenuto.model.ids import RunId


def put(worker: str) -> Job[None]:
    """Insert a row that may be there once only."""

    def job() -> Steps[None]:
        yield (
            (
                "INSERT INTO workers VALUES ($1, '', '', '', 0, '', '', 0, 0, $now, 0)",
                (worker,),
            ),
        )

    return job


def log_size(path: Path) -> int:
    log = path.with_name(path.name + "-wal")
    return log.stat().st_size if log.exists() else 0


def killed(program: str, path: Path) -> str:
    """Run a program that kills itself; what it printed until then."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(part for part in sys.path if part)},
        cwd=Path(__file__).resolve().parents[4],
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout


def workers() -> Steps[int]:
    row = yield (("SELECT count(*) FROM workers", ()),)
    assert row is not None
    return int(row[0])


async def test_waiting_jobs_share_a_transaction(tmp_path: Path) -> None:
    commits = []
    open_gate = threading.Event()

    def before_commit() -> None:
        open_gate.wait()
        commits.append(1)

    engine = open_engine(tmp_path / "t.db", TurnedClock(), before_commit=before_commit)
    jobs = [asyncio.ensure_future(engine.write(put(f"w{n}"))) for n in range(100)]
    await asyncio.sleep(0)
    open_gate.set()
    await asyncio.gather(*jobs)

    assert len(commits) <= 3
    assert await engine.read(workers) == 100
    await engine.close()


async def test_a_failing_job_fails_alone(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "t.db", TurnedClock())
    await engine.write(put("w3"))

    def stumble() -> Steps[None]:
        yield put("x")().send(None)
        raise ZeroDivisionError

    ends = await asyncio.gather(
        *(engine.write(put(f"w{n}")) for n in range(6)),
        engine.write(stumble),
        engine.write(put("last")),
        return_exceptions=True,
    )

    assert [n for n, end in enumerate(ends) if end is not None] == [3, 6]
    assert all(isinstance(ends[n], InvariantViolated) for n in (3, 6))
    assert await engine.read(workers) == 7
    await engine.close()


async def test_a_failing_commit_fails_all_and_the_writer_lives_on(tmp_path: Path) -> None:
    broken = True

    def before_commit() -> None:
        if broken:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error

    engine = open_engine(tmp_path / "t.db", TurnedClock(), before_commit=before_commit)

    ends = await asyncio.gather(
        *(engine.write(put(f"w{n}")) for n in range(5)), return_exceptions=True
    )
    assert all(isinstance(end, Unavailable) for end in ends)
    assert await engine.read(workers) == 0

    broken = False
    await engine.write(put("w0"))
    assert await engine.read(workers) == 1
    await engine.close()


async def test_a_reading_sees_what_was_committed_before(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "t.db", TurnedClock())

    for n in range(50):
        await engine.write(put(f"w{n}"), durable=n % 2 == 0)
        assert await engine.read(workers) == n + 1
    await engine.close()


async def test_a_reading_job_may_not_write(tmp_path: Path) -> None:
    """Catalogue K2."""
    engine = open_engine(tmp_path / "t.db", TurnedClock())

    with pytest.raises(Unavailable, match="read-only"):
        await engine.read(put("w"))
    await engine.close()


async def test_a_cancelled_caller_does_not_stop_the_writer(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "t.db", TurnedClock())
    task = asyncio.ensure_future(engine.write(put("w0")))
    await asyncio.sleep(0)
    task.cancel()

    await engine.write(put("w1"))

    assert task.cancelled()
    assert await engine.read(workers) == 2
    await engine.close()


async def test_loops_of_other_threads_may_use_it_too(tmp_path: Path) -> None:
    """Catalogue K1."""
    engine = open_engine(tmp_path / "t.db", TurnedClock())

    async def use(number: int) -> None:
        await asyncio.gather(*(engine.write(put(f"{number}-{n}")) for n in range(25)))

    await asyncio.gather(*(asyncio.to_thread(asyncio.run, use(n)) for n in range(8)))

    assert await engine.read(workers) == 200
    await engine.close()


async def test_closing_finishes_what_waits_then_refuses(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "t.db", TurnedClock())
    jobs = [asyncio.ensure_future(engine.write(put(f"w{n}"))) for n in range(300)]
    await asyncio.sleep(0)

    await engine.close()
    await asyncio.gather(*jobs)

    with pytest.raises(Unavailable, match="closed"):
        await engine.write(put("late"))
    await engine.close()
    assert not log_size(tmp_path / "t.db")
    with closing(sqlite3.connect(tmp_path / "t.db")) as connection:
        assert connection.execute("SELECT count(*) FROM workers").fetchone() == (300,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_the_log_does_not_grow_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catalogue K3, K8."""
    monkeypatch.setattr(module, "CHECKPOINT_BYTES", 100_000)
    engine = open_engine(tmp_path / "t.db", TurnedClock())
    store = SqlStore(engine)

    for _ in range(200):
        run_id = new_run_id()
        text = '"' + "x" * 20_000 + '"'
        await commit(store, a_start(run_id, a_task(), payloads=(an_input("a", text=text),)))

    assert log_size(tmp_path / "t.db") < 2_000_000
    await engine.close()


async def test_the_log_is_emptied_when_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_S", 0.01)
    emptied = threading.Event()
    real = module._Writer._empty_log

    def empty(writer: module._Writer, *, wait_ms: int) -> None:
        real(writer, wait_ms=wait_ms)
        emptied.set()

    monkeypatch.setattr(module._Writer, "_empty_log", empty)
    engine = open_engine(tmp_path / "t.db", TurnedClock())
    await engine.write(put("w"))

    assert await asyncio.to_thread(emptied.wait, 60)
    assert log_size(tmp_path / "t.db") == 0
    await engine.close()


async def test_a_second_engine_is_refused_while_others_may_send_and_read(tmp_path: Path) -> None:
    """Catalogue K4."""
    path, clock = tmp_path / "t.db", TurnedClock()
    engine = open_engine(path, clock)
    store, run_id = SqlStore(engine), new_run_id()
    await commit(store, a_start(run_id, a_task()))

    with pytest.raises(Conflict, match="in use by another engine of this process"):
        open_engine(path, clock)
    sender = open_sender(path, clock)
    assert await SqlStore(sender).post([a_message("m1", event_id="e")]) == [True]
    await sender.close()
    reader = open_reader(path, clock)
    assert (await SqlReads(reader).get_run(run_id)).run.state == "running"
    with pytest.raises(Unavailable, match="reading only"):
        await SqlStore(reader).post([a_message("m2")])
    await reader.close()

    assert await store.post([a_message("m3", event_id="e")]) == [False]
    await engine.close()


async def test_only_writes_of_others_are_foreign_changes(tmp_path: Path) -> None:
    path, clock = tmp_path / "t.db", TurnedClock()
    engine, sender = open_engine(path, clock), open_sender(path, clock)
    await engine.write(put("own"))
    assert not await engine.foreign_changes()

    await SqlStore(sender).post([a_message()])

    assert await engine.foreign_changes()
    assert not await engine.foreign_changes()
    await sender.close()
    await engine.close()


async def test_a_database_locked_by_another_program_is_unavailable_then_usable(
    tmp_path: Path,
) -> None:
    """Catalogue K1."""
    path = tmp_path / "t.db"
    engine = open_engine(path, TurnedClock())
    await engine.write(_busy_timeout_of_one_millisecond)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="locked by another program"):
            await engine.write(put("w"))
        assert not await engine.foreign_changes(), "a look needs no lock"
        other.execute("ROLLBACK")

    await engine.write(put("w"))
    await engine.close()


async def test_a_full_disk_refuses_new_work_and_keeps_what_is_there(tmp_path: Path) -> None:
    """Catalogue D15, K7."""
    engine = open_engine(tmp_path / "t.db", TurnedClock())
    store, run_id = SqlStore(engine), new_run_id()
    await commit(store, a_start(run_id, a_task()))
    pages = await engine.write(_limit_pages(slack=4))
    big = an_input("a", text='"' + "x" * 500_000 + '"')

    ends = await asyncio.gather(
        *(store.commit([a_start(new_run_id(), payloads=(big,))], lease_us=LEASE_US) for _ in "123"),
        return_exceptions=True,
    )
    assert all(isinstance(end, Unavailable) and "disk is full" in str(end) for end in ends)
    assert await seq_of(store, run_id) == 1

    await engine.write(_limit_pages(slack=pages * 1_000))
    await commit(store, a_change(run_id, 1))
    await engine.close()


@pytest.mark.parametrize("gone", ["removed", "replaced"])
async def test_a_file_that_goes_away_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.0)
    path = tmp_path / "t.db"
    engine = open_engine(path, TurnedClock())
    store, run_id = SqlStore(engine), new_run_id()
    await commit(store, a_start(run_id))
    path.unlink()
    if gone == "replaced":
        path.write_bytes(b"another")

    with pytest.raises(Unavailable, match="was removed or replaced while it was in use"):
        await commit(store, a_change(run_id, 1))

    await engine.close()


async def test_a_kill_between_the_last_statement_and_commit_leaves_nothing(tmp_path: Path) -> None:
    """Catalogue A2."""
    path = tmp_path / "t.db"
    program = """
import asyncio, os, sys
from tenuto.adapters.sql.store import SqlStore
from tenuto.adapters.sqlite.engine import open_engine
from tests.support.store import *

async def main():
    armed = []
    engine = open_engine(
        sys.argv[1], TurnedClock(), before_commit=lambda: armed and os.kill(os.getpid(), 9)
    )
    store = SqlStore(engine)
    first, second = new_run_id(), new_run_id()
    await commit(store, a_start(first, a_task()))
    print(first, second, flush=True)
    armed.append(1)
    await commit(store, a_change(first, 1), a_start(second, a_task()))
    print("committed")

asyncio.run(main())
"""
    printed = await asyncio.to_thread(killed, program, path)
    first, second = map(RunId, printed.split())

    engine = open_engine(path, TurnedClock())
    store = SqlStore(engine)
    assert (await seq_of(store, first), await seq_of(store, second)) == (1, 0)
    await commit(store, a_change(first, 1))
    await engine.close()


async def test_a_memory_database_is_its_engines_own() -> None:
    first, second = open_engine(":memory:", TurnedClock()), open_engine(":memory:", TurnedClock())
    await first.write(put("w"))

    assert (await first.read(workers), await second.read(workers)) == (1, 0)
    assert not await first.foreign_changes()
    await first.close()
    await second.close()


def _busy_timeout_of_one_millisecond() -> Steps[None]:
    yield (("PRAGMA busy_timeout = 1", ()),)


def _limit_pages(*, slack: int) -> Job[int]:
    """As a disk with room for this many pages more."""

    def job() -> Steps[int]:
        row = yield (("PRAGMA page_count", ()),)
        assert row is not None
        yield ((f"PRAGMA max_page_count = {row[0] + slack}", ()),)
        return int(row[0])

    return job


def test_engines_are_made_by_their_openers() -> None:
    """The class itself opens nothing, so it can be given any connections."""
    engine: Any = SqliteEngine(":memory:", TurnedClock(), writer=None, reader=None)

    engine.shut()

"""One engine a file."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tenuto.adapters.sqlite import lock as module
from tenuto.adapters.sqlite.lock import FileLock, Holder, announce, holder, is_returning
from tenuto.model.errors import Conflict, Unavailable


def test_a_second_holder_is_told_who_has_it(tmp_path: Path) -> None:
    database = tmp_path / "tenuto.db"
    lock = FileLock(database)

    with pytest.raises(Conflict, match=r"tenuto.db is in use .* of this process; close that one"):
        FileLock(database)
    database.with_name("tenuto.db.lock").write_text("7\nhttp://127.0.0.1:1\n")
    with pytest.raises(Conflict) as served:
        FileLock(database)
    database.with_name("tenuto.db.lock").write_text("7\n\n")
    with pytest.raises(Conflict, match=r"tenuto.db is in use .* \(pid 7\); stop"):
        FileLock(database)
    assert str(served.value) == (
        f"{database} is in use by another engine (pid 7), which answers at http://127.0.0.1:1;"
        " start it there: `tenuto run start WORKFLOW`, or Tenuto('http://127.0.0.1:1') in Python;"
        " or stop that one, or name another file with --database"
    )

    lock.release()
    FileLock(database).release()


def test_the_holder_is_told_without_taking_the_lock(tmp_path: Path) -> None:
    database = tmp_path / "tenuto.db"
    before = holder(database)
    lock = FileLock(database)
    during = holder(database)
    lock.release()

    assert (before, during, holder(database)) == (None, Holder(str(os.getpid())), None)
    FileLock(database).release()


def test_where_the_holder_answers_is_noted_beside_its_process_id(tmp_path: Path) -> None:
    database, pid = tmp_path / "tenuto.db", str(os.getpid())
    lock = FileLock(database)
    announce(database, "http://127.0.0.1:54321")
    long = holder(database)
    announce(database, "http://127.0.0.1:80")
    short = holder(database)
    announce(database, "")

    assert long == Holder(pid, "http://127.0.0.1:54321")
    assert short == Holder(pid, "http://127.0.0.1:80")
    assert holder(database) == Holder(pid)
    lock.release()


@pytest.mark.parametrize(
    ("noted", "returning"),
    [
        (f"{os.getppid()}\nhttp://127.0.0.1:80\n", True),
        ("1\nhttp://127.0.0.1:80\n", True),
        (f"{os.getppid()}\n\n", False),  # it has stopped
        (f"{os.getpid()}\nhttp://127.0.0.1:80\n", False),  # this very process
        (f"{2**40}\nhttp://127.0.0.1:80\n", False),
        ("?\nhttp://127.0.0.1:80\n", False),
        ("", False),
    ],
    ids=["parent", "first process", "stopped", "itself", "no process", "no number", "nothing"],
)
def test_an_engine_that_left_its_address_and_lives_is_about_to_return(
    tmp_path: Path, noted: str, returning: bool
) -> None:
    database = tmp_path / "tenuto.db"
    assert not is_returning(database)
    database.with_name("tenuto.db.lock").write_text(noted)

    assert is_returning(database) is returning

    lock = FileLock(database)
    announce(database, "http://127.0.0.1:80")
    assert not is_returning(database), "it is there"
    lock.release()


@pytest.mark.parametrize(
    ("noted", "told"),
    [
        (b"", Holder("unknown")),
        (b"7", Holder("7")),
        (b"7\n", Holder("7")),
        (b"7\nhttp://h:1", Holder("7", "http://h:1")),
        (b"7\nhttp://h:1\nof a later version\n", Holder("7", "http://h:1")),
        (b"7\nno address\n", Holder("7")),
        (b"\xff\n\xff\n", Holder("\ufffd")),
        (b"7\nhttp://" + b"x" * 10_000, Holder("7", "http://" + "x" * 2_039)),
    ],
)
def test_whatever_stands_in_the_lock_file_tells_what_it_can(
    tmp_path: Path, noted: bytes, told: Holder
) -> None:
    database = tmp_path / "tenuto.db"
    lock = FileLock(database)
    database.with_name("tenuto.db.lock").write_bytes(noted)

    assert holder(database) == told
    lock.release()


def test_where_there_is_no_lock_file_nothing_is_announced(tmp_path: Path) -> None:
    announce(tmp_path / "tenuto.db", "http://127.0.0.1:1")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("tries", [1, 50])
def test_somebody_who_only_asks_for_the_holder_keeps_no_engine_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tries: int
) -> None:
    """An asker's lock is there for a moment, or longer on a machine that stops it there: the engine waits."""
    database = tmp_path / "tenuto.db"
    asker = os.open(database.with_name("tenuto.db.lock"), os.O_RDONLY | os.O_CREAT, 0o644)
    fcntl.flock(asker, fcntl.LOCK_SH)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == tries:
            os.close(asker)

    turned = SimpleNamespace(sleep=pause, monotonic=lambda: sum(pauses))  # it waits for 5 s of them
    monkeypatch.setattr(module, "time", turned)

    FileLock(database).release()
    assert len(pauses) == tries


def test_an_engine_that_has_the_file_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = FileLock(tmp_path / "tenuto.db")
    still = SimpleNamespace(sleep=lambda _: pytest.fail("it waits"), monotonic=time.monotonic)
    monkeypatch.setattr(module, "time", still)

    with pytest.raises(Conflict):
        FileLock(tmp_path / "tenuto.db")
    lock.release()


def test_a_child_keeps_the_lock_that_it_inherited(tmp_path: Path) -> None:
    database = tmp_path / "tenuto.db"
    lock = FileLock(database)
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        pass_fds=[lock.fd],
    )
    lock.release()
    try:
        with pytest.raises(Conflict):
            FileLock(database)
    finally:
        child.communicate()

    FileLock(database).release()


def test_a_process_that_is_being_started_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its fork to its exec it has all that we have open, also what we close meanwhile."""
    database = tmp_path / "tenuto.db"
    lock = FileLock(database)
    child = os.dup(lock.fd)
    lock.release()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            os.close(child)

    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=pause, monotonic=lambda: sum(pauses)))

    FileLock(database).release()
    assert len(pauses) == 3


def test_the_lock_of_a_dead_process_is_free(tmp_path: Path) -> None:
    database = tmp_path / "tenuto.db"
    program = (
        "import os, pathlib, sys; from tenuto.adapters.sqlite.lock import FileLock;"
        "FileLock(pathlib.Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, str(database)], check=False)

    FileLock(database).release()


def test_a_place_where_no_lock_can_be_made_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be locked"):
        FileLock(tmp_path / "missing" / "tenuto.db")


def test_releasing_twice_is_harmless(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "tenuto.db")

    lock.release()
    lock.release()

"""kill -9 while code runs that never ends: two seconds later nothing of it is alive, in each language."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.support.process_tasks import until_dead

from tenuto.adapters.sqlite.lock import holder

ALL = ("python", "javascript", "cpython")
LIMIT_S = 2.0

pytestmark = pytest.mark.alone("2 s are promised")


@contextmanager
def engine(database: Path, language: str) -> Iterator[subprocess.Popen[str]]:
    """An engine in whose code the interpreter spins."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.support.killed_code", str(database), language],
        stdout=subprocess.PIPE,
        text=True,
    )
    family: dict[int, str] = {}
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "on\n"
        family = below(child.pid)
        yield child
    finally:
        child.kill()
        child.communicate()
        for pid in living(family):
            with suppress(ProcessLookupError):  # most of them are about to end by themselves
                os.kill(pid, signal.SIGKILL)
            until_dead(pid)


def below(pid: int) -> dict[int, str]:
    """All processes that descend from one: process id -> when it began, which tells it from a later one."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, todo = {}, [pid]
    while todo:
        for child in parents.get(todo.pop(), []):
            begun = began(child)
            if begun is not None:
                found[child] = begun
            todo.append(child)
    return found


def began(pid: int) -> str | None:
    """When a process began; None: it is gone, or only its exit code is left."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def living(family: dict[int, str]) -> list[int]:
    return [pid for pid, begun in family.items() if began(pid) == begun]


def gone(family: dict[int, str]) -> bool:
    """Whether all are gone within the limit."""
    return within_limit(lambda: not living(family))


def within_limit(holds: Callable[[], bool]) -> bool:
    """Whether it comes to hold."""
    pause = threading.Event()
    for _ in range(int(LIMIT_S / 0.02)):
        if holds():
            return True
        pause.wait(0.02)
    return False


def files(pid: int) -> set[str]:
    """What a process has open."""
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since it was listed
            found.add(str(link.readlink()))
    return found


@pytest.mark.parametrize("language", ALL)
def test_nothing_outlives_an_engine_that_is_killed(tmp_path: Path, language: str) -> None:
    database = tmp_path / "t.db"
    with engine(database, language) as child:
        family = below(child.pid)
        assert len(family) >= 2, "the server and an interpreter"
        child.kill()
        child.wait()

        assert gone(family), [Path(f"/proc/{pid}/cmdline").read_text() for pid in living(family)]
        # A process is a zombie as soon as its first thread has ended; the others may take a moment to let go of files.
        assert within_limit(lambda: holder(database) is None)


@pytest.mark.parametrize("language", ALL)
def test_no_interpreter_outlives_a_server_that_is_killed(tmp_path: Path, language: str) -> None:
    with engine(tmp_path / "t.db", language) as child:
        [server] = [pid for pid in below(child.pid) if "tenuto.languages.server" in command(pid)]
        family = below(server)
        assert family
        os.kill(server, signal.SIGKILL)

        assert gone(family), [command(pid) for pid in living(family)]


@pytest.mark.parametrize("language", ALL)
def test_nothing_is_left_when_engine_and_server_are_killed_together(
    tmp_path: Path, language: str
) -> None:
    with engine(tmp_path / "t.db", language) as child:
        family = below(child.pid)
        [server] = [pid for pid in family if "tenuto.languages.server" in command(pid)]
        os.kill(server, signal.SIGKILL)
        child.kill()
        child.wait()

        assert gone(family), [command(pid) for pid in living(family)]


def test_folders_of_killed_servers_are_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with engine(tmp_path / "a.db", "javascript") as child:
        [server] = [pid for pid in below(child.pid) if "tenuto.languages.server" in command(pid)]
        [left] = tmp_path.glob("tenuto-code-*")
        os.kill(server, signal.SIGKILL)
        child.kill()
    assert left.exists()

    with engine(tmp_path / "b.db", "javascript"):
        assert left not in set(tmp_path.glob("tenuto-code-*"))
        assert len(list(tmp_path.glob("tenuto-code-*"))) == 1


@pytest.mark.parametrize("language", ALL)
def test_no_interpreter_holds_a_lock(tmp_path: Path, language: str) -> None:
    with engine(tmp_path / "t.db", language) as child:
        [server] = [pid for pid in below(child.pid) if "tenuto.languages.server" in command(pid)]
        locks = {name for name in files(server) if name.endswith("lock")}
        assert len(locks) == 2, "the database's and the folder's"

        for pid in below(server):
            assert not locks & files(pid), command(pid)


@pytest.mark.parametrize("language", ALL)
def test_the_lock_is_held_until_the_last_interpreter_is_gone(tmp_path: Path, language: str) -> None:
    database = tmp_path / "t.db"
    with engine(database, language) as child:
        [server] = [pid for pid in below(child.pid) if "tenuto.languages.server" in command(pid)]
        family = below(child.pid)
        os.kill(server, signal.SIGSTOP)  # it cannot react yet
        child.kill()
        child.wait()

        assert holder(database) is not None

        os.kill(server, signal.SIGCONT)
        assert gone(family)
        assert within_limit(lambda: holder(database) is None)


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")

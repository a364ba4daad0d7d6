"""Who drives a database file: an flock on `<file>.lock`. Readers and senders of events need none.

The lock belongs to the open file, not to a process: every child that inherits it keeps it, so a new engine gets the
file only when the last child of a dead one is gone. The file stays when the lock goes: removing it would let two
processes lock two files of one name.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tenuto.model.errors import Conflict, Unavailable

_PAUSE_S = 0.02
_ASKERS_S = 5.0
"""How long those are waited for who only ask for the holder: they share the lock for some microseconds, unless the
machine stops them in between. An engine shares it with nobody, and is not waited for.
"""
_FORKS_S = 1.0
"""How long a child of this very process is waited for that has the lock file from its fork to its exec."""

_HELD: set[tuple[int, int]] = set()
"""Lock files that this process has. Not told by the noted pid: two containers may both be process 1."""
_NOTE_MAX = 2_048
"""Bytes read of what the holder has noted."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who drives a file: its process id, `unknown` where none could be noted, and where it answers REST, if it does."""

    pid: str
    url: str = ""


class FileLock:
    """Held from creation until `release`, or until the last process that has it is gone.

    Raises:
        Conflict: somebody holds it; says who.
        Unavailable: the lock file cannot be made.
    """

    def __init__(self, database: Path) -> None:
        path = _beside(database)
        try:
            self.fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise Unavailable(
                f"{database} cannot be locked: {path.name}: {error.strerror};"
                " make the directory writable"
            ) from error
        try:
            _take(self.fd)
        except BlockingIOError:
            noted = _noted(self.fd)
            pid = noted.pid
            ours = pid == str(os.getpid()) and _identity(self.fd) in _HELD
            left = _left_by(pid, self.fd)
            os.close(self.fd)
            if left is not None:
                raise Conflict(
                    f"{database} is still in use by a process (pid {left}) that an engine (pid {pid})"
                    " left behind when it died; stop that one, or name another file with --database"
                ) from None
            if ours:
                raise Conflict(
                    f"{database} is in use by another engine of this process;"
                    " close that one, or name another file with --database"
                ) from None
            if noted.url:
                raise Conflict(
                    f"{database} is in use by another engine (pid {pid}), which answers at {noted.url};"
                    f" start it there: `tenuto run start WORKFLOW`, or Tenuto({noted.url!r}) in Python;"
                    " or stop that one, or name another file with --database"
                ) from None
            raise Conflict(
                f"{database} is in use by another engine (pid {pid});"
                " stop that one, or name another file with --database"
            ) from None
        except OSError as error:
            os.close(self.fd)
            raise Unavailable(f"{database} cannot be locked: {error.strerror}") from error
        self._identity = _identity(self.fd)
        _HELD.add(self._identity)
        os.set_inheritable(self.fd, True)
        try:
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, f"{os.getpid()}\n".encode(), 0)
        except OSError:
            # A full disk takes the courtesy of naming the holder, not the lock.
            pass

    def release(self) -> None:
        """Give the lock up in this process; a second time does nothing."""
        if self.fd >= 0:
            _HELD.discard(self._identity)
            os.close(self.fd)
            self.fd = -1


def announce(database: Path, url: str) -> None:
    """Note where the engine of this process answers REST, for commands that look for it. Only for who holds the lock.

    A full disk takes the courtesy away, nothing else.
    """
    try:
        fd = os.open(_beside(database), os.O_WRONLY)
    except OSError:
        return
    text = f"{os.getpid()}\n{url}\n".encode()
    try:
        os.pwrite(fd, text, 0)
        os.ftruncate(fd, len(text))
    except OSError:
        pass
    finally:
        os.close(fd)


def holder(database: Path) -> Holder | None:
    """The engine that has a file open, None where none has.

    Raises:
        Unavailable: the lock file cannot be read.
    """
    try:
        fd = os.open(_beside(database), os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"{database}: its lock cannot be read: {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _noted(fd)
    finally:
        os.close(fd)
    return None


def is_returning(database: Path) -> bool:
    """Whether nobody has the file, but the engine that had it has left its address and lives: it starts anew."""
    try:
        fd = os.open(_beside(database), os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        noted = _noted(fd)
    except OSError:
        return False
    finally:
        os.close(fd)
    if not noted.url or not noted.pid.isdecimal() or noted.pid == str(os.getpid()):
        return False
    try:
        os.kill(int(noted.pid), 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _take(fd: int) -> None:
    """Raises BlockingIOError: an engine has it, or a process that one left behind."""
    began = time.monotonic()
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() - began >= _patience_s(fd):
                raise
        time.sleep(_PAUSE_S)


def _patience_s(fd: int) -> float:
    """How long whoever has it is waited for."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # refused as long as an engine has it
    except BlockingIOError:
        given_up = _noted(fd).pid == str(os.getpid()) and _identity(fd) not in _HELD
        return _FORKS_S if given_up else 0.0
    fcntl.flock(fd, fcntl.LOCK_UN)
    return _ASKERS_S


def _noted(fd: int) -> Holder:
    """One line each; whatever else stands there is for later versions to read."""
    lines = os.pread(fd, _NOTE_MAX, 0).decode("ascii", "replace").splitlines()
    pid = lines[0].strip() if lines else ""
    url = lines[1].strip() if len(lines) > 1 else ""
    return Holder(pid or "unknown", url if url.startswith(("http://", "https://")) else "")


def _left_by(pid: str, fd: int) -> int | None:
    """A process that has the lock file open while the engine that noted itself is dead; None where that cannot be told.
    An engine is dead, too, whose process has become another program, if that asks: with one handle only, `fd`.
    """
    proc = Path("/proc")
    wanted = os.fstat(fd)
    try:
        state = (proc / pid / "stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        state = "X"  # dead, or a system that does not tell
    except OSError:
        return None
    ours = pid == str(os.getpid())
    if ours and len(list(_holders(proc / pid, wanted))) != 1:
        return None
    if not ours and state not in ("X", "Z"):
        return None
    for process in proc.glob("[0-9]*"):
        for other in _holders(process, wanted):
            if other != os.getpid():
                return other
    return None


def _holders(process: Path, wanted: os.stat_result) -> Iterator[int]:
    """The number of a process, once for each handle of this file."""
    try:
        handles = list((process / "fd").iterdir())
    except OSError:
        return  # it has ended, or is somebody else's
    for handle in handles:
        try:
            if os.path.samestat(handle.stat(), wanted):
                yield int(process.name)
        except OSError:
            continue  # closed meanwhile


def _beside(database: Path) -> Path:
    return database.with_name(database.name + ".lock")

"""Who drives a database file: an flock on `<file>.lock`. Readers and senders of events need none.

The lock belongs to the open file, not to a process: every child that inherits it keeps it, so a new engine gets the
file only when the last child of a dead one is gone. The file stays when the lock goes: removing it would let two
processes lock two files of one name.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from tenuto.model.errors import Conflict, Unavailable

_TRIES = 3
_PAUSE_S = 0.02
"""Who only asks for the holder has the lock for some microseconds; that is no engine."""


class FileLock:
    """Held from creation until `release`, or until the last process that has it is gone.

    Raises:
        Conflict: somebody holds it; says who.
        Unavailable: the lock file cannot be made.
    """

    def __init__(self, database: Path) -> None:
        path = database.with_name(database.name + ".lock")
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
            holder = _named(self.fd)
            os.close(self.fd)
            raise Conflict(
                f"{database} is in use by another engine (pid {holder});"
                " stop that one, or name another file with --database"
            ) from None
        except OSError as error:
            os.close(self.fd)
            raise Unavailable(f"{database} cannot be locked: {error.strerror}") from error
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
            os.close(self.fd)
            self.fd = -1


def holder(database: Path) -> str | None:
    """The process id of the engine that has a file open, `unknown` where it could not be noted, None where none has.

    Raises:
        Unavailable: the lock file cannot be read.
    """
    try:
        fd = os.open(database.with_name(database.name + ".lock"), os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"{database}: its lock cannot be read: {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _named(fd)
    finally:
        os.close(fd)
    return None


def _take(fd: int) -> None:
    for _ in range(_TRIES - 1):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        else:
            return
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _named(fd: int) -> str:
    return os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"

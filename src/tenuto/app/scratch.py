"""Private folders of language servers, and the end of those that killed servers have left. Nothing else is kept there.

A folder is somebody's as long as its file `lock` is locked. The lock goes to the server as well as to who made the
folder, so it is free only when both are gone. Interpreters do not have it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "tenuto-code-"
_LOCK = "lock"
_NEW = "lock.new"
_FRESH_S = 60.0
"""Without a lock, a folder of this age has none to come."""


class Scratch:
    """A folder of ours; making it removes those that are nobody's.

    Attributes:
        lock: a descriptor, for the server to inherit.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        # Locked before it has its name, or somebody else who cleans up just now would find it free.
        self.lock = os.open(self.folder / _NEW, os.O_RDONLY | os.O_CREAT, 0o600)
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        (self.folder / _NEW).rename(self.folder / _LOCK)
        now = self.folder.stat().st_mtime
        for other in self.folder.parent.glob(f"{PREFIX}*"):
            if other != self.folder and _is_nobodys(other, now):
                shutil.rmtree(other, ignore_errors=True)

    def remove(self) -> None:
        """Remove the folder; a second time does nothing."""
        if self.lock >= 0:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self.lock)
            self.lock = -1


def _is_nobodys(folder: Path, now: float) -> bool:
    try:
        lock = os.open(folder / _LOCK, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        with suppress(OSError):
            return now - folder.stat().st_mtime > _FRESH_S
        return False
    except OSError:
        return False  # another user's
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True

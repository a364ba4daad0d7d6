"""What binds a child process to whoever started it, so that it never outlives that process. For the child's own use."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import types

_PR_SET_PDEATHSIG = 1


def die_with(parent: int, number: int = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when the thread that started it ends; `parent` is its process."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel knew
        os._exit(1)


def let_go(*handles: int) -> None:
    """In a process that the user's code forked: what is between the engine and its child is not for it."""
    for handle in handles:
        with contextlib.suppress(OSError):
            os.close(handle)


def heed_nothing(*numbers: int) -> None:
    """Ignore signals here, but not in what this process starts: those ignored for good would be inherited."""
    for number in numbers:
        signal.signal(number, _nothing)


def _nothing(_number: int, _frame: types.FrameType | None) -> None:
    return

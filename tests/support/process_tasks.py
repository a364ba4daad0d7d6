"""Functions for child processes: at the top level of a module, where another process finds them.

Those that take a `fifo` tell their process id by it when they have begun; it is a named pipe, so a test waits for it
without looking again and again.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import os
import select
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tenuto.runtime.logging import get_logger
from tenuto.worker.context import current
from tenuto.worker.registry import TaskError

PR_SET_PDEATHSIG = 1


def tell(fifo: str, *numbers: int) -> None:
    """Write process ids for `heard`."""
    Path(fifo).write_text(" ".join(str(number) for number in (os.getpid(), *numbers)))


async def heard(fifo: Path) -> list[int]:
    """Wait for what a function tells."""
    return [int(number) for number in (await asyncio.to_thread(fifo.read_text)).split()]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be buried does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in ("Z", "X")


def scribbles(text: str) -> None:
    """Write where only the engine's own code may, and stay."""
    for number in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                os.write(number, text.encode())
        except OSError:
            continue
    time.sleep(3_600)


def words_of() -> list[bool]:
    """Whether a word of the program and a place of its imports are as they were given."""
    return [os.fsencode(words[-1]).endswith(b"caf\xe9") for words in (sys.argv, sys.path[:1])]


def is_buried(pid: int) -> bool:
    """Whether a process runs no more and somebody has waited for it."""
    return not Path(f"/proc/{pid}").exists()


def until_dead(pid: int, within_s: float | None = None) -> bool:
    """Wait for the end of any process. False: it lives on."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], within_s)[0])
    finally:
        os.close(handle)


def pid_of() -> int:
    return os.getpid()


def echo(value: Any) -> Any:
    return value


def length(text: str) -> int:
    return len(text)


def nap(seconds: float) -> list[float]:
    begun = time.monotonic()
    time.sleep(seconds)
    return [os.getpid(), begun, time.monotonic()]


async def anap(seconds: float) -> int:
    await asyncio.sleep(seconds)
    return os.getpid()


def who() -> list[Any]:
    it = current()
    return [it.run_id, it.place, it.attempt, it.idempotency_key, it.node]


def fails() -> None:
    raise TaskError("no_stock", "nothing there", details={"left": 0}, retryable=False)


def breaks() -> None:
    raise ValueError("broken")


def leaves(code: int) -> None:
    sys.exit(code)


def dies(code: int) -> None:
    os._exit(code)


def crashes() -> None:
    ctypes.string_at(0)


def is_killed(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(60)


def dies_later(fifo: str) -> int:
    """Returns, and its process dies as soon as the test reads."""

    def die() -> None:
        tell(fifo)
        os._exit(5)

    threading.Thread(target=die, daemon=True).start()
    return os.getpid()


def unstorable() -> object:
    return {1, 2}


def spins(fifo: str) -> None:
    tell(fifo)
    while True:
        pass


def holds_the_interpreter(fifo: str) -> None:
    """Blocks every thread of the process: `sleep` is called without giving up the interpreter lock."""
    tell(fifo)
    ctypes.PyDLL(None).sleep(60)


def outlives_the_kernels_signal(fifo: str) -> None:
    """Takes back that it dies with its parent, as on a system that knows no such thing."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)
    tell(fifo)
    while True:
        pass


def outlives_everything(fifo: str) -> str:
    """Also blocks the thread that watches the pipe."""
    if current().attempt > 1:
        return "again"
    libc, told = ctypes.PyDLL(None), str(os.getpid()).encode()
    libc.prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)
    sys.setswitchinterval(3_600)
    handle = os.open(fifo, os.O_WRONLY)
    # From here on no other thread gets the interpreter: the engine may be killed as soon as the test has heard.
    libc.write(handle, told, len(told))
    libc.close(handle)
    libc.sleep(60)
    return "late"


def ignores_terminate(fifo: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tell(fifo)
    while True:
        try:
            time.sleep(60)
        except BaseException:
            continue


def begets(fifo: str) -> None:
    """A grandchild that does not heed SIGTERM."""
    grandchild = subprocess.Popen(
        [sys.executable, "-c", "import signal, time; signal.signal(15, 1); time.sleep(60)"]
    )
    tell(fifo, grandchild.pid)
    time.sleep(60)


def lingers(fifo: str) -> str:
    """Obeys, says a result, and leaves a thread that keeps the process."""
    threading.Thread(target=time.sleep, args=(60,)).start()
    try:
        tell(fifo)
        time.sleep(60)
    except SystemExit:
        return "obeyed"
    return "slept"


def cleans_up(fifo: str, proof: str) -> None:
    try:
        tell(fifo)
        time.sleep(60)
    finally:
        Path(proof).write_text(f"cancelled: {current().cancelled}")


async def acleans_up(fifo: str, proof: str) -> None:
    try:
        tell(fifo)
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        await asyncio.to_thread(Path(proof).write_text, f"cancelled: {current().cancelled}")
        raise


def waits(fifo: str, go: str) -> str:
    """Ends when the test opens `go`."""
    tell(fifo)
    return Path(go).read_text()


def beats(times: int, pause: float) -> int:
    for _ in range(times):
        if current().cancelled:
            break
        current().heartbeat()
        time.sleep(pause)
    return times


def stops_itself(fifo: str) -> None:
    tell(fifo)
    os.kill(os.getpid(), signal.SIGSTOP)


def says() -> None:
    current().progress(1, 4, "a quarter")
    current().logger.warning("said", part="logger")
    get_logger("mine").warning("said", part="root")


def environment() -> dict[str, Any]:
    """What a child has of its parent."""
    return {
        "session": os.getsid(0) == os.getpid(),
        "interrupt": str(signal.getsignal(signal.SIGINT)),
        "fds": sorted(int(entry.name) for entry in Path("/proc/self/fd").iterdir()),
        "thread": threading.current_thread() is threading.main_thread(),
        "cwd": str(Path.cwd()),
    }


def forked_holds(handle: int) -> bool:
    """Whether a process that the function forks has a descriptor of its parent."""
    pid = os.fork()
    if pid == 0:
        try:
            os.fstat(handle)
        except OSError:
            os._exit(0)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


def wrapped(function: Any) -> Any:
    """A decorator that keeps the name but not the function."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def _hidden() -> int:
    return 1


replaced = _hidden
_hidden = wrapped(_hidden)


class Math:
    @staticmethod
    def double(x: int) -> int:
        return 2 * x

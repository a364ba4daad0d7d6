"""Starts services for the tests and ends them for certain: also when the tests are killed.

One keeper runs beside each test process, in a session of its own, and is the parent of all that is started here. It
reads requests from a pipe. When the pipe ends, whatever ended the tests, it kills every service with all its
descendants and removes their folders. Should the keeper itself be killed, the kernel ends its children.

This file is both halves: the client below, and, run as a script, the keeper.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
NOBODY = "nobody"


# --- what is asked of it ---------------------------------------------------------------------------


class Kept:
    """One process of the keeper's."""

    def __init__(self, keeper: Keeper, pid: int) -> None:
        self._keeper = keeper
        self.pid = pid
        self._code: int | None = None

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing to do when the process has ended."""
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, within_s: float) -> int | None:
        """The exit code (negative: the signal); None when it still runs after `within_s`."""
        if self._code is None and ended(self.pid, within_s):
            self._code = self._keeper.ask(do="reap", pid=self.pid)["code"]
        return self._code

    @property
    def alive(self) -> bool:
        return self.wait(0) is None

    def kill(self) -> None:
        """End it at once, with every descendant."""
        if self._code is None:
            kill_all([self.pid, *descendants(self.pid)])
            self.wait(10)


class Keeper:
    """The client of one keeper process. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C, and a build that ends the tests' group, leave it its last work
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """One request and its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise OSError(answer["error"])
        return answer

    def start(
        self,
        command: Sequence[str | Path],
        *,
        folder: Path,
        log: Path,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Kept:
        """Start a service in `folder`; what it says is appended to `log`.

        Raises:
            OSError: it could not be started.
        """
        words = [str(word) for word in command]
        where = {"folder": str(folder), "log": str(log)}
        answer = self.ask(do="start", command=words, user=user, env=env and dict(env), **where)
        return Kept(self, answer["pid"])

    def folder(self, name: str, user: str | None = None) -> Path:
        """A new folder that `user` may enter and write; removed with all services, or by `remove`."""
        home = tempfile.mkdtemp(prefix=f"tenuto-{name}-", dir=place_for(user))
        self.ask(do="watch", folder=home)
        if user is not None:
            shutil.chown(home, user)
        return Path(home)

    def remove(self, folder: Path) -> None:
        """Remove a folder now."""
        shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """End everything that was started."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


_kept: dict[int, Keeper] = {}


def keeper() -> Keeper:
    """This process's keeper; made on first use."""
    mine = _kept.get(os.getpid())
    if mine is None:
        mine = _kept[os.getpid()] = Keeper()
        atexit.register(mine.close)
    return mine


def unprivileged() -> str | None:
    """Whom servers run as that refuse to run as root; None: as ourselves."""
    return NOBODY if os.geteuid() == 0 else None


def is_open_to(path: Path, user: str | None) -> bool:
    """Whether `user` may enter every folder down to `path`, and read it."""
    if user is None:
        return os.access(path, os.R_OK | os.X_OK)
    where = path.resolve()
    enter = all(folder.stat().st_mode & 0o001 for folder in where.parents)
    return enter and where.stat().st_mode & 0o005 == 0o005


def place_for(user: str | None) -> str:
    """A folder for temporary files that `user` may enter: a session's own one may be private."""
    places = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    return str(next((place for place in places if is_open_to(place, user)), places[0]))


# --- processes -------------------------------------------------------------------------------------


def ended(pid: int, within_s: float) -> bool:
    """Wait until a process has ended (buried or not)."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(within_s * 1_000))
    finally:
        os.close(handle)


def descendants(root: int) -> list[int]:
    """The processes below one, whatever group or session they made for themselves."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = list(children.get(root, []))
    for pid in found:  # grows while it is walked
        found += children.get(pid, [])
    return found


def kill_all(pids: Iterable[int]) -> None:
    """SIGKILL to each that is still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


# --- the keeper itself -------------------------------------------------------------------------------


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _start(request: dict[str, Any]) -> subprocess.Popen[bytes]:
    user = request["user"]
    words: list[str] = request["command"]
    with Path(request["log"]).open("ab") as log:
        return subprocess.Popen(
            words,
            cwd=request["folder"],
            env=request["env"],
            user=user,
            group=None if user is None else pwd.getpwnam(user).pw_gid,
            extra_groups=None if user is None else [],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - there is one thread here
        )


def keep() -> None:
    """Serve requests until the pipe ends, then end everything."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # not SIG_IGN: a service would inherit that
    running: dict[int, subprocess.Popen[bytes]] = {}
    folders: list[str] = []
    with contextlib.suppress(BrokenPipeError):
        for line in sys.stdin.buffer:
            request = json.loads(line)
            answer: dict[str, Any] = {}
            if request["do"] == "start":
                try:
                    process = _start(request)
                except (OSError, subprocess.SubprocessError, KeyError) as error:
                    answer = {"error": f"{request['command'][0]}: {error}"}
                else:
                    running[process.pid] = process
                    answer = {"pid": process.pid}
            elif request["do"] == "reap":
                answer = {"code": running.pop(request["pid"]).wait()}
            elif request["do"] == "watch":
                folders.append(request["folder"])
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    for pid in running:
        kill_all([pid, *descendants(pid)])
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    keep()

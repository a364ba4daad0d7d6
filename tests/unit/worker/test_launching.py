"""The launcher: what it starts, how it tells of the end, and what becomes of it all at its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence

import pytest
from tests.support.process_tasks import until_dead

from tenuto.worker import launching
from tenuto.worker.handle import Broken, Handle, Plan
from tenuto.worker.launching import Launched, Launcher, python, spawn_piped
from tenuto.worker.relay import Relay


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing waits until the launcher is gone: one that is left is a warning in another test."""
    monkeypatch.setattr(launching, "_CLOSE_S", 60.0)


@pytest.fixture
async def launcher() -> AsyncIterator[Launcher]:
    found = Launcher()
    found.attend()
    yield found
    await found.close()


def started(
    launcher: Launcher, code: str, *, handles: Sequence[int] = (), **options: object
) -> Launched:
    nothing = [os.open(os.devnull, os.O_RDWR) for _ in range(3 - len(handles[:3]))]
    return launcher.spawn(
        [sys.executable, "-c", code],
        [*nothing, *handles],
        **options,  # type: ignore[arg-type]
    )


async def dead(pid: int) -> bool:
    return await asyncio.to_thread(until_dead, pid, 20.0)


async def test_an_exit_code_comes_back(launcher: Launcher) -> None:
    assert await started(launcher, "raise SystemExit(7)").wait() == 7


async def test_a_signal_comes_back_as_a_negative_number(launcher: Launcher) -> None:
    launched = started(launcher, "import os; os.kill(os.getpid(), 11)")

    assert await launched.wait() == -signal.SIGSEGV


async def test_what_is_killed_is_gone_with_its_group(launcher: Launcher) -> None:
    ours, theirs = os.pipe()
    code = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "os.write(2, b'%d' % child.pid)\n"
        "time.sleep(60)\n"
    )
    launched = started(launcher, code, handles=[theirs])
    child = int(await asyncio.to_thread(os.read, ours, 100))
    os.close(ours)
    launched.kill()

    assert await launched.wait() == -signal.SIGKILL
    assert await dead(child)


async def test_what_cannot_be_started_is_refused_with_the_reason(launcher: Launcher) -> None:
    nothing = [os.open(os.devnull, os.O_RDWR) for _ in range(3)]
    launched = launcher.spawn([f"{sys.executable}-not"], nothing)

    assert await launched.wait() == -1
    assert launched.refused == "No such file or directory"


async def test_many_start_at_once_and_each_end_is_told(launcher: Launcher) -> None:
    launched = [started(launcher, f"raise SystemExit({code})") for code in range(20)]

    assert [await each.wait() for each in launched] == list(range(20))


async def test_a_variable_may_be_kept_from_it(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import os; raise SystemExit('PATH' in os.environ)"

    assert await started(launcher, code).wait() == 1
    assert await started(launcher, code, unset=["PATH"]).wait() == 0


async def test_it_is_a_session_of_its_own_with_nothing_of_ours(launcher: Launcher) -> None:
    code = (
        "import os; raise SystemExit(10 * (os.getsid(0) != os.getpid())"
        " + len(os.listdir('/proc/self/fd')) - 4)"
    )

    assert await started(launcher, code).wait() == 0


async def test_pipes_go_to_and_from_it(launcher: Launcher) -> None:
    lock = os.open(os.devnull, os.O_RDONLY)
    code = "import sys; print('ready', flush=True); sys.stdin.read(); sys.exit(5)"
    piped = await spawn_piped(launcher, [sys.executable, "-c", code], [lock], [])
    os.close(lock)

    assert await piped.stdout.readline() == b"ready\n"
    while not piped.pid:  # noqa: ASYNC110  the launcher tells it, and may be slower than the process
        await asyncio.sleep(0.01)
    piped.stdin.close()
    assert await piped.wait() == piped.returncode == 5


async def test_all_that_it_started_ends_with_it() -> None:
    launcher = Launcher()
    launcher.attend()
    launched = [started(launcher, "import time; time.sleep(60)") for _ in range(3)]
    while not all(each.pid for each in launched):  # noqa: ASYNC110  nobody announces it
        await asyncio.sleep(0.01)
    await launcher.close()

    assert all([await dead(each.pid) for each in launched])


async def test_its_own_death_is_told() -> None:
    launcher, lost = Launcher(), asyncio.Event()
    launcher.on_lost = lost.set
    launcher.attend()
    os.kill(launcher.pid, signal.SIGKILL)
    await lost.wait()
    launched = started(launcher, "pass")  # harmless: nothing comes of it
    launched.kill()

    await launcher.close()
    assert (launched.pid, launched.returncode) == (0, -signal.SIGKILL)


async def test_who_waits_for_an_end_is_told_when_the_launcher_dies(launcher: Launcher) -> None:
    """Or a worker that has lost it waits for ever for the end of its language server."""
    launched = started(launcher, "import time; time.sleep(60)")
    while not launched.pid:  # noqa: ASYNC110  nobody announces it
        await asyncio.sleep(0.01)
    os.kill(launcher.pid, signal.SIGKILL)

    assert await launched.wait() == -signal.SIGKILL
    os.kill(launched.pid, signal.SIGKILL)  # it asked the kernel for nothing


async def test_a_task_process_begun_after_the_launchers_death_is_broken_and_not_waited_for(
    launcher: Launcher,
) -> None:
    class Listener:
        def __init__(self) -> None:
            self.buried = asyncio.Event()

        def hear(self, *_: object) -> None: ...

        def bury(self, _: Handle) -> None:
            self.buried.set()

    lost, listener = asyncio.Event(), Listener()
    launcher.on_lost = lost.set
    os.kill(launcher.pid, signal.SIGKILL)
    await lost.wait()
    handle = Handle(launcher, Relay(), Plan(argv=python("pass"), order={}), listener)

    async with asyncio.timeout(60):
        with pytest.raises(Broken):
            await handle.ready
        await listener.buried.wait()


async def test_a_start_that_is_cancelled_leaves_no_process_behind(launcher: Launcher) -> None:
    starting = asyncio.create_task(
        # Not one that reads: it would end by itself where its input does, if it were quicker than the kill.
        spawn_piped(launcher, [sys.executable, "-c", "import time; time.sleep(60)"], (), ())
    )
    await asyncio.sleep(0)  # its pipes are being connected
    [launched] = launcher._launched.values()
    starting.cancel()

    assert await launched.wait() == -signal.SIGKILL


def test_a_command_line_finds_our_package_alone() -> None:
    words = python("pass")

    assert words[0] == sys.executable
    assert "-P" in words
    assert words[-1].endswith("; pass")

"""One engine is opened when it is needed, reached from any thread, and closed once."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tenuto.model.errors import Unavailable
from tenuto.sdk.link import Link
from tenuto.settings import Database
from tenuto.worker.registry import Registry

if TYPE_CHECKING:
    from tenuto.app.embedded import Engine


@pytest.fixture
def link() -> Iterator[Link]:
    """A link to memory."""
    made = Link(Database(None), Registry(), slots=2, threads=1)
    yield made
    made.close()


async def engine_of(link: Link) -> Engine:
    """The engine that answers."""

    async def same(engine: Engine) -> Engine:
        return engine

    return await link.ask(same)


def test_the_engine_is_opened_by_the_first_call_and_kept(link: Link) -> None:
    before = link.is_open

    first, second = (link.wait(engine_of(link), "verb") for _ in range(2))

    assert (before, link.is_open) == (False, True)
    assert first is second


def test_threads_that_come_first_together_get_the_same_engine(link: Link) -> None:
    with ThreadPoolExecutor(8) as pool:
        engines = list(pool.map(lambda _: link.wait(engine_of(link), "verb"), range(32)))

    assert len({id(engine) for engine in engines}) == 1


def test_coroutines_that_come_first_together_get_the_same_engine(link: Link) -> None:
    async def program() -> int:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(engine_of(link)) for _ in range(8)]
        return len({id(task.result()) for task in asked})

    assert asyncio.run(program()) == 1


def test_after_closing_the_next_call_opens_another(link: Link) -> None:
    first = link.wait(engine_of(link), "verb")
    link.close()
    link.close()

    closed = link.is_open
    second = link.wait(engine_of(link), "verb")

    assert closed is False
    assert second is not first


def test_an_error_of_the_engine_reaches_the_caller_as_it_is(link: Link) -> None:
    async def fail(engine: Engine) -> None:
        raise Unavailable("no room")

    with pytest.raises(Unavailable, match="no room"):
        link.wait(link.ask(fail), "verb")
    with pytest.raises(Unavailable, match="no room"):
        asyncio.run(link.ask(fail))


def test_an_engine_that_cannot_open_leaves_the_link_closed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    link = Link(Database(tmp_path / "file" / "runs.db"), Registry(), slots=1, threads=1)

    with pytest.raises(Unavailable):
        link.wait(engine_of(link), "verb")

    assert link.is_open is False


def test_a_verb_that_would_block_the_loop_is_named_with_its_cure(link: Link) -> None:
    async def program() -> None:
        link.wait(engine_of(link), "start")

    with pytest.raises(RuntimeError, match=r"start\(\) would block .*`await …astart\(…\)`"):
        asyncio.run(program())
    assert link.is_open is False


def test_a_call_to_an_engine_that_has_ended_leaves_no_coroutine_behind(
    link: Link, recwarn: pytest.WarningsRecorder
) -> None:
    link.wait(engine_of(link), "verb").stop()
    gc.collect()
    recwarn.clear()  # what earlier tests left behind says nothing here

    with pytest.raises(Unavailable):
        link.wait(engine_of(link), "verb")

    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


def test_the_child_of_a_fork_is_told_that_its_parent_has_the_file(tmp_path: Path) -> None:
    program = f"""
import os, sys
from tenuto import Tenuto
from tenuto.model.errors import Conflict

app = Tenuto({str(tmp_path / "runs.db")!r})

@app.task
def one() -> int:
    return 1

assert app.enqueue(one).result() == 1
child = os.fork()
if child == 0:
    try:
        app.enqueue(one)
    except Conflict as error:
        os._exit(7 if f"pid {{os.getppid()}}" in str(error) else 8)
    os._exit(9)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert app.enqueue(one).result() == 1
"""

    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")

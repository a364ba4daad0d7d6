"""An engine's start and stop, from any thread. What it does in between: tests/integration/test_engine."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenuto.adapters.sqlite import engine as engines
from tenuto.adapters.sqlite.engine import open_engine
from tenuto.adapters.sqlite.lock import holder
from tenuto.app.embedded import Engine
from tenuto.model.errors import Conflict, Unavailable
from tenuto.worker.registry import Registry


def test_stopping_twice_or_before_the_start_does_nothing() -> None:
    engine = Engine(":memory:")
    engine.stop()
    engine.start()
    assert engine.call(asyncio.sleep(0, "up")).result() == "up"

    engine.stop()
    engine.stop()


def test_two_engines_of_one_process_do_not_share_a_file(tmp_path: Path) -> None:
    first, second = Engine(tmp_path / "t.db"), Engine(tmp_path / "t.db")
    first.start()
    with pytest.raises(Conflict, match="in use"):
        second.start()
    with pytest.raises(Unavailable, match="does not run"):
        second.call(asyncio.sleep(0))

    assert first.call(asyncio.sleep(0, "up")).result() == "up"
    first.stop()


class Opening:
    """`open_engine`, held up by the test."""

    def __init__(self, during: Callable[[], None]) -> None:
        self.real, self.during = open_engine, during

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.during()
        return self.real(*args, **options)


def test_an_engine_that_is_told_to_stop_while_it_starts_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, told = threading.Event(), threading.Event()

    def during() -> None:
        opening.set()
        told.wait()

    monkeypatch.setattr(engines, "open_engine", Opening(during))
    engine = Engine(tmp_path / "t.db", registry=Registry())
    starting = threading.Thread(target=engine.start)
    starting.start()
    opening.wait()
    stopping = threading.Thread(target=engine.stop)
    stopping.start()
    while not engine._told:
        time.sleep(0.001)
    told.set()
    stopping.join()
    starting.join()

    with pytest.raises(Unavailable, match="it was stopped"):
        engine.call(asyncio.sleep(0))
    Engine(tmp_path / "u.db")  # the file is free again:
    monkeypatch.undo()
    again = Engine(tmp_path / "t.db")
    again.start()
    again.stop()


def test_an_interrupt_while_an_engine_starts_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, seen, told = threading.get_ident(), threading.Event(), threading.Event()

    def interrupt(*_: object) -> None:
        # The first one alone: another may have been on its way, and would interrupt the stopping.
        if not seen.is_set():
            seen.set()
            raise KeyboardInterrupt

    def during() -> None:
        # One that comes just before the main thread begins to wait is not seen until another wakes it.
        while not seen.wait(0.05):
            signal.pthread_kill(main, signal.SIGINT)
        told.wait()

    monkeypatch.setattr(engines, "open_engine", Opening(during))
    engine = Engine(tmp_path / "t.db", registry=Registry())
    stop = engine.stop

    def stopped(**options: Any) -> None:
        told.set()
        stop(**options)

    monkeypatch.setattr(engine, "stop", stopped)
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            engine.start()
    finally:
        signal.signal(signal.SIGINT, before)

    monkeypatch.undo()
    again = Engine(tmp_path / "t.db")
    again.start()
    again.stop()


def test_an_interrupt_before_it_is_waited_for_ends_an_engine_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "tenuto-engine":
            while holder(tmp_path / "t.db") is None:  # or the next one might have it first
                time.sleep(0.001)
            raise KeyboardInterrupt

    engine = Engine(tmp_path / "t.db")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(threading.Thread, "start", interrupted)
        engine.start()

    again = Engine(tmp_path / "t.db")  # the file is free
    again.start()
    again.stop()


def test_what_is_asked_as_the_loop_closes_is_told_that_the_engine_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its callback is in the loop, which runs no more: whoever waits would wait for ever."""
    engine = Engine(":memory:")
    engine.start()
    asking, closing, asked = threading.Event(), threading.Event(), threading.Event()
    hand_in, loop, answers = asyncio.run_coroutine_threadsafe, engine._loop, []
    assert loop is not None
    close = loop.close

    def late(*args: Any) -> Any:
        asking.set()
        closing.wait()
        return hand_in(*args)

    def closed() -> None:
        closing.set()
        asked.wait()
        close()

    def ask() -> None:
        coroutine = asyncio.sleep(0)
        answers.append(engine.call(coroutine))
        asked.set()

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", late)
    monkeypatch.setattr(loop, "close", closed)
    asker = threading.Thread(target=ask)
    asker.start()
    asking.wait()
    engine.stop()
    asker.join()

    with pytest.raises(Unavailable, match="the engine has ended: it was stopped"):
        answers[0].result()

"""From a program to its embedded engine: opens it when it is first needed, crosses to its loop,
closes it.

Three kinds of caller meet here: coroutines on the user's loop (`ask`), plain code in any thread
(`wait`), and a verb that `wait` runs on the engine's loop, which asks again from there.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tenuto.app.embedded import Engine
    from tenuto.settings import Database
    from tenuto.worker.registry import Registry

_T = TypeVar("_T")
_inside: ContextVar[Engine | None] = ContextVar("tenuto_inside", default=None)
"""The engine on whose loop this asyncio task runs, on behalf of `wait`."""
_OPEN: weakref.WeakSet[Link] = weakref.WeakSet()


class Link:
    """At most one running engine. Thread-safe."""

    def __init__(self, database: Database, registry: Registry, *, slots: int, threads: int) -> None:
        self._database, self._registry = database, registry
        self._slots, self._threads = slots, threads
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._user_loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_open(self) -> bool:
        """Whether an engine runs."""
        return self._engine is not None

    async def ask(self, make: Callable[[Engine], Coroutine[Any, Any, _T]]) -> _T:
        """Run a coroutine of the engine's on its loop; called on any loop.

        The first call opens the engine, with the calling loop as the user's.
        """
        inside = _inside.get()
        if inside is not None:
            return await make(inside)
        loop = asyncio.get_running_loop()
        engine = self._usable()
        if engine is None:
            engine = await asyncio.to_thread(self._open, loop)
        return await asyncio.wrap_future(engine.call(make(engine)))

    def wait(self, coroutine: Coroutine[Any, Any, _T], verb: str) -> _T:
        """Run a coroutine that uses `ask` on the engine's loop, and wait for it in this thread.

        Raises:
            RuntimeError: an event loop runs in this thread; waiting would block it.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            coroutine.close()
            raise RuntimeError(
                f"{verb}() would block the event loop that runs here; use `await …a{verb}(…)`"
            )
        try:
            engine = self._usable() or self._open(None)
        except BaseException:
            coroutine.close()
            raise

        async def inside() -> _T:
            _inside.set(engine)
            return await coroutine

        future = engine.call(inside())
        try:
            return future.result()
        except BaseException:  # Ctrl-C while waiting: nobody wants the answer any more
            future.cancel()
            raise

    def close(self) -> None:
        """Drain and stop the engine, if one runs. The next call opens another."""
        with self._lock:
            engine, self._engine, self._user_loop = self._engine, None, None
            if engine is not None:
                engine.stop()

    def _usable(self) -> Engine | None:
        """The engine, unless there is none or the user's loop that it was given is gone."""
        if self._user_loop is not None and self._user_loop.is_closed():
            return None
        return self._engine

    def _open(self, loop: asyncio.AbstractEventLoop | None) -> Engine:
        from tenuto.app.embedded import Engine

        with self._lock:
            engine = self._usable()
            if engine is not None:
                return engine
            if self._engine is not None:
                old, self._engine = self._engine, None
                old.stop()
            engine = Engine(
                self._database.place,
                registry=self._registry,
                user_loop=loop,
                slots=self._slots,
                threads=self._threads,
            )
            engine.start()
            self._engine, self._user_loop = engine, loop
            _OPEN.add(self)
            return engine


@atexit.register
def _close_all() -> None:
    """Drain what the program left open."""
    for link in list(_OPEN):
        link.close()

"""From a program to its embedded engine: opens it when it is first needed, crosses to its loop,
closes it.

Three kinds of caller meet here: coroutines on the user's loop (`ask`), plain code in any thread
(`wait`), and a verb that `wait` runs on the engine's loop, which asks again from there.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401 - before our hook: what is registered last runs first
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from tenuto.model.errors import Conflict, InvariantViolated, TenutoError, Unavailable

if TYPE_CHECKING:
    from tenuto.app.embedded import Engine
    from tenuto.settings import Database
    from tenuto.settings.tree import Languages
    from tenuto.worker.registry import Registry

_T = TypeVar("_T")
_inside: ContextVar[Engine | None] = ContextVar("tenuto_inside", default=None)
"""The engine on whose loop this asyncio task runs, on behalf of `wait`."""
LINKS: weakref.WeakSet[Any] = weakref.WeakSet()
"""Links of any kind, closed at the program's end and forgotten in its forked children."""
_CLI_CURE = "name another file with --database"
_PYTHON_CURE = 'open another file: Tenuto("other.db")'


class Link:
    """At most one running engine. Thread-safe."""

    def __init__(
        self,
        database: Database,
        registry: Registry,
        *,
        slots: int,
        threads: int,
        processes: int = 2,
        drain_us: int = 10_000_000,
        languages: Languages | None = None,
    ) -> None:
        self._database, self._registry = database, registry
        self._slots, self._threads, self._processes = slots, threads, processes
        self._drain_s, self._languages = drain_us / 1_000_000, languages
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._user_loop: asyncio.AbstractEventLoop | None = None
        self._lent = False
        LINKS.add(self)

    @property
    def is_open(self) -> bool:
        """Whether an engine runs."""
        return self._engine is not None

    @property
    def is_lent(self) -> bool:
        """Whether the engine is somebody else's: a test's."""
        return self._lent

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
        try:
            return await asyncio.wrap_future(engine.call(make(engine)))
        except TenutoError as error:
            raise told(error) from None

    def wait(self, coroutine: Coroutine[Any, Any, _T], verb: str) -> _T:
        """Run a coroutine that uses `ask` on the engine's loop, and wait for it in this thread.

        Raises:
            RuntimeError: an event loop runs in this thread; waiting would block it.
        """
        refuse_in_loop(coroutine, verb)
        try:
            engine = self._usable() or self._open(None)
        except BaseException:
            coroutine.close()
            raise

        async def inside() -> _T:
            _inside.set(engine)
            return await coroutine

        try:
            future = engine.call(inside())
        except BaseException:
            coroutine.close()
            raise
        try:
            return future.result()
        except TenutoError as error:
            raise told(error) from None
        except BaseException:  # Ctrl-C while waiting: nobody wants the answer any more
            future.cancel()
            raise

    def close(self) -> None:
        """Drain and stop the engine, if one runs. The next call opens another."""
        with self._lock:
            if self._lent:
                return
            engine, self._engine, self._user_loop = self._engine, None, None
            if engine is not None:
                engine.stop(grace_s=self._drain_s)

    @contextmanager
    def lend(self, engine: Engine, loop: asyncio.AbstractEventLoop | None) -> Iterator[None]:
        """Use this engine for a while; somebody else opened it and will close it, `close` does not.

        Raises:
            Conflict: another engine is in use.
        """
        with self._lock:
            if self._engine is not None:
                raise Conflict("this app is open already; close it first: app.close()")
            self._engine, self._user_loop, self._lent = engine, loop, True
        try:
            yield
        finally:
            with self._lock:
                self._engine, self._user_loop, self._lent = None, None, False

    def forget(self) -> None:
        """In a forked child: the engine's threads stayed with the parent, and so does the file."""
        self._lock = threading.Lock()
        self._engine, self._user_loop, self._lent = None, None, False

    def _usable(self) -> Engine | None:
        """The engine, unless there is none or the user's loop that it was given is gone."""
        if self._user_loop is not None and self._user_loop.is_closed() and not self._lent:
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
                old.stop(grace_s=self._drain_s)
            engine = Engine(
                self._database,
                registry=self._registry,
                user_loop=loop,
                slots=self._slots,
                threads=self._threads,
                processes=self._processes,
                languages=self._languages,
            )
            try:
                engine.start()
            except TenutoError as error:
                raise told(error) from None
            self._engine, self._user_loop = engine, loop
            return engine


def refuse_in_loop(coroutine: Coroutine[Any, Any, Any], verb: str) -> None:
    """Close the coroutine and raise RuntimeError where an event loop runs in this thread: waiting would block it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    coroutine.close()
    raise RuntimeError(
        f"{verb}() would block the event loop that runs here; use `await …a{verb}(…)`"
    )


def told(error: TenutoError) -> TenutoError:
    """The error for the caller: his own lines as its traceback, not the engine's, and a cure that he has in Python."""
    if isinstance(error, InvariantViolated):
        return error  # a bug of ours: the lines are what helps
    if isinstance(error, Conflict | Unavailable) and _CLI_CURE in str(error):
        error = type(error)(str(error).replace(_CLI_CURE, _PYTHON_CURE))
    error.__cause__ = None
    return error.with_traceback(None)


def _close_all() -> None:
    """Drain what the program left open."""
    for link in list(LINKS):
        link.close()


def _forget_all() -> None:
    for link in list(LINKS):
        link.forget()


# `atexit` is too late to drain: by then executors refuse work, so a task under way that uses one (`asyncio.to_thread`,
# looking up a host) would fail where it could have finished. The hook of `threading`, on which `concurrent.futures`
# stands, comes before that. It is no public name: where a Python has it no more, `atexit` still closes.
try:
    threading._register_atexit(_close_all)  # type: ignore[attr-defined]  # noqa: SLF001
except (AttributeError, RuntimeError):
    atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)

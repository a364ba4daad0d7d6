"""Messages on their way into a stream: in order, one at a time, and begun where they are said. No gRPC, no protocol.

gRPC's core takes a small message to the socket while it is asked to, and only its word that it may have another comes
later. So a message before which nothing waits is begun in the turn of the loop in which it was put: whoever waits for
it at the other end need not wait for the other tasks of this loop, too.

Bounded by those who put: a worker by its open calls, a server by reading no more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Generic, TypeVar

M = TypeVar("M")


class Outbox(Generic[M]):
    """Belongs to one loop, on which one task calls `write`, again and again."""

    def __init__(self, write: Callable[[M], Coroutine[Any, Any, None]]) -> None:
        """`write`: takes a message to where it goes. Its first step may be taken in any task, so asks for none."""
        self._write = write
        self._waiting: deque[M] = deque()
        self._begun: Begun | None = None
        self._news = asyncio.Event()
        self._broken = False
        """Nothing more is begun: of what is put from here on it is certain that nobody has read it."""

    def __len__(self) -> int:
        """Messages of which nothing is written yet."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether all that was put is written."""
        return self._begun is None and not self._waiting

    def put(self, message: M) -> None:
        """Write it after all that was put before. Never raises: `write` does."""
        self._waiting.append(message)
        if self._begun is None and not self._broken:
            self._begin()
        self._news.set()

    def wake(self) -> None:
        """Have `until_news` return."""
        self._news.set()

    async def until_news(self) -> None:
        """Wait for a message, or to be woken."""
        self._news.clear()
        if self.idle:
            await self._news.wait()

    async def write(self) -> None:
        """Bring the next message to its end. Raises what writing it raises; where that was cut, nobody knows.

        After that it is not called again: the stream is broken.
        """
        assert not self._broken
        if self._begun is None:
            self._begin()
        assert self._begun is not None
        try:
            await self._begun
        except BaseException:
            self._broken = True
            raise
        finally:
            self._begun = None

    def close(self) -> Sequence[M]:
        """Write no more. Returns what nobody can have read."""
        self._broken = True
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.close()
        unsaid = list(self._waiting)
        self._waiting.clear()
        return unsaid

    def _begin(self) -> None:
        self._begun = Begun(self._write(self._waiting.popleft()))


class Begun:
    """A coroutine whose first step has been taken; awaiting this takes the others. It is awaited once, or closed."""

    def __init__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._coroutine = coroutine
        self._waits_for: Any = None
        self._over = False
        self._error: BaseException | None = None
        try:
            self._step(coroutine.send, None)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - it is whose who awaits this
            self._error = error

    def __await__(self) -> Generator[Any, None, None]:
        if self._error is not None:
            raise self._error
        while not self._over:
            try:
                yield self._waits_for
            except BaseException as error:  # noqa: BLE001 - a cancel, most likely: the coroutine decides
                self._step(self._coroutine.throw, error)
            else:
                self._step(self._coroutine.send, None)

    def close(self) -> None:
        """Let go of it wherever it is."""
        self._coroutine.close()

    def _step(self, step: Callable[[Any], Any], word: BaseException | None) -> None:
        try:
            self._waits_for = step(word)
        except StopIteration:
            self._over = True

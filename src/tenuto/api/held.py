"""Requests that stay: streams and waits. Counts them, and ends them when the client or the server goes.

A held request costs a task and a socket, no thread. What it waits for is its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager

from starlette.types import Receive

from tenuto.api.problems import RETRY_AFTER_S, Problem


class Held:
    """The held requests of one server."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._scopes: set[asyncio.Timeout] = set()
        self.stopping = False

    def __len__(self) -> int:
        return len(self._scopes)

    @property
    def has_room(self) -> bool:
        """Whether another one may begin."""
        return not self.stopping and len(self._scopes) < self._limit

    def check(self) -> None:
        """Raises Problem (unavailable): there are too many already, or the server stops."""
        if self.stopping:
            raise _unavailable("the server stops")
        if len(self._scopes) >= self._limit:
            raise _unavailable(f"{self._limit:,} streams and waits are open; close some")

    @asynccontextmanager
    async def hold(self, receive: Receive, within_s: float | None = None) -> AsyncIterator[None]:
        """Leave the block early, in silence, after `within_s`, when the client has gone, or when the server stops.

        `receive` must have no part of a body left.
        """
        self.check()
        scope = asyncio.timeout(within_s)
        try:
            async with scope:
                self._scopes.add(scope)
                async with beside(_end_when_gone(receive, scope), "rest-client"):
                    yield
        except TimeoutError:
            if not scope.expired():
                raise
        finally:
            self._scopes.discard(scope)

    def stop(self) -> None:
        """End all, and let none begin."""
        self.stopping = True
        for scope in list(self._scopes):
            _end(scope)


@asynccontextmanager
async def beside(other: Coroutine[object, object, None], name: str) -> AsyncIterator[None]:
    """Run a coroutine as long as the block; an error of the block comes out as it is, not as a group."""
    failed: Exception | None = None
    async with asyncio.TaskGroup() as group:
        task = group.create_task(other, name=name)
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised below, out of the group
            failed = error
        task.cancel()
    if failed is not None:
        raise failed


async def _end_when_gone(receive: Receive, scope: asyncio.Timeout) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    _end(scope)


def _end(scope: asyncio.Timeout) -> None:
    if not scope.expired():
        scope.reschedule(asyncio.get_running_loop().time())


def _unavailable(detail: str) -> Problem:
    return Problem("unavailable", detail, headers={"Retry-After": str(RETRY_AFTER_S)})

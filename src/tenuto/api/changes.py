"""Which runs change, for all who follow all runs: read once, encoded once, handed to everybody. Sends nothing itself.

What is worked out does not grow with the number of those who listen, and takes a bounded share of the time: under load
more changes are told together. Who does not take what is there is let go, so nothing grows with slow ones either.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, cast

import orjson

from tenuto.api.backend import Backend
from tenuto.model.errors import TenutoError, Unavailable
from tenuto.model.ids import RunId
from tenuto.runtime.logging import get_logger
from tenuto.views.answers import Answers

MERGE_S = 0.1
"""Changes that come within it are told together."""
SHARE = 4
"""Telling takes no more than one part in so many of the time."""
PAUSE_MAX_S = 2.0
READ_MAX = 500
"""Runs read at a time."""
EAR_MAX = 4 * 2**20
"""Bytes that wait for one listener."""

_log = get_logger("rest")


def encode(event: str, document: object, id: object = None) -> bytes:
    """One server-sent event as it stands on the wire. JSON has no line breaks of its own."""
    head = b"" if id is None else b"id: %d\n" % cast("int", id)
    return b"%sevent: %s\ndata: %s\n\n" % (head, event.encode(), orjson.dumps(document))


class Ear:
    """One listener."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._wake = asyncio.Event()
        self._over = False
        self._error: TenutoError | None = None

    async def take(self) -> bytes | None:
        """All that is there, once something is. None: there will be no more.

        Raises:
            Unavailable: the listener was too slow, or the runs could not be read.
        """
        await self._wake.wait()
        if self._error is not None:
            raise self._error
        if not self._waiting:
            return None
        data = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        if not self._over:
            self._wake.clear()
        return data

    def put(self, data: bytes) -> None:
        """Have it told."""
        self._size += len(data)
        if self._size > EAR_MAX:
            self.end(Unavailable("too slow; come back"))
            return
        self._waiting.append(data)
        self._wake.set()

    def end(self, error: TenutoError | None = None) -> None:
        """Nothing more will come."""
        self._over = True
        if error is not None:
            self._error = error
            self._waiting.clear()
        self._wake.set()


class Changes:
    """The one reader of changed runs of a server."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._ears: list[Ear] = []
        self._over = False

    @contextmanager
    def heard(self) -> Iterator[Ear]:
        """Listen as long as the block."""
        ear = Ear()
        self._ears.append(ear)
        if self._over:
            ear.end()
        try:
            yield ear
        finally:
            self._ears.remove(ear)

    async def run(self) -> None:
        """Tell all listeners, until the engine ends."""
        changes: AsyncIterator[Sequence[RunId]] = self._backend.commands.changes(
            lambda: bool(self._ears)
        )
        now = asyncio.get_running_loop().time
        async with aclosing(cast("Any", changes)) as batches:
            async for batch in batches:
                began = now()
                if self._ears:
                    await self._tell(batch)
                await asyncio.sleep(min(max(MERGE_S, (SHARE - 1) * (now() - began)), PAUSE_MAX_S))
        self._over = True
        for ear in self._ears:
            ear.end()

    async def _tell(self, changed: Sequence[RunId]) -> None:
        for start in range(0, len(changed), READ_MAX):
            run_ids = changed[start : start + READ_MAX]

            async def read(answers: Answers, run_ids: Sequence[RunId] = run_ids) -> bytes:
                rows = await answers.get_run_rows(run_ids)
                # As in lists: who looks at a run hears of its children by its own stream.
                return b"".join(encode("run", row) for row in rows if row.get("parent") is None)

            try:
                data = await self._backend.read(read)
            except TenutoError as error:
                self._fail(error)
                return
            except Exception as error:  # noqa: BLE001 - streams are not worth an engine
                _log.error("changes_not_told", exc_info=error)
                self._fail(Unavailable("the changed runs cannot be read"))
                return
            for ear in self._ears if data else ():
                ear.put(data)

    def _fail(self, error: TenutoError) -> None:
        """Nobody may take a gap for silence."""
        for ear in self._ears:
            ear.end(error)

"""Hands in what attempts say: a quarter of a second after it has gathered, or before a result goes. One call at a time.

What the gateway does not take stays in the notebook; if the worker dies, it is lost with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from tenuto.model.errors import Unavailable
from tenuto.ports.gateway import Note
from tenuto.worker.notes import Notebook

GATHER_S = 0.25
"""How long notes gather before they are handed in."""
FLUSH_S = 1.0
"""How long a result waits for its attempt's notes."""


class Noter:
    """Between a notebook and the gateway, on the worker's loop.

    Args:
        send: the gateway's verb; raises Unavailable.
        failed: told why notes were not taken.
    """

    def __init__(
        self,
        notebook: Notebook,
        send: Callable[[Sequence[Note]], Awaitable[None]],
        failed: Callable[[Unavailable], None],
    ) -> None:
        self._notebook = notebook
        self._send = send
        self._failed = failed
        self._there = asyncio.Event()
        self._sending = asyncio.Lock()

    def listen(self) -> None:
        """Hear of notes from now on. Called on the loop; notes come from any thread."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody hands in any more
                loop.call_soon_threadsafe(self._there.set)

        self._notebook.on_first = wake

    async def run(self) -> None:
        """Hand in notes as long as there are some. Runs until cancelled."""
        while True:
            await self._there.wait()
            await asyncio.sleep(GATHER_S)
            self._there.clear()
            await self._hand_in()

    async def flush(self) -> None:
        """Hand in what has gathered, and wait for what is on its way; not for ever."""
        if self._notebook.has_notes or self._sending.locked():
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_S):
                    await self._hand_in()

    async def _hand_in(self) -> None:
        async with self._sending:
            while notes := self._notebook.take():
                try:
                    await self._send(notes)
                except BaseException as error:
                    self._notebook.put_back(notes)
                    self._there.set()
                    if not isinstance(error, Unavailable):
                        raise
                    self._failed(error)
                    return

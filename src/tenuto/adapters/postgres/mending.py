"""Functions of the server that have vanished under a running process: set aside, made anew once, then called again.

An administrator drops them; a backup is restored, or another server takes over, whose copy lacks them. Until they are
back statements are sent one by one, which needs nothing but the tables. They are made on a connection of its own, so no
commit waits for that. A user who may not make them stays with statements one by one, until another server takes over.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from tenuto.adapters.postgres.address import Address
from tenuto.adapters.postgres.connecting import Link, connect
from tenuto.adapters.postgres.errors import LOST, translate
from tenuto.adapters.postgres.routines import Routines, make, refused
from tenuto.model.errors import TenutoError
from tenuto.runtime.backoff import Backoff
from tenuto.runtime.logging import get_logger

MEND_S = 30.0
"""For one try."""
CALM_S = 60.0
"""Functions that vanish again within this are made later and later: somebody drops them on purpose, perhaps."""

_log = get_logger("postgres")


class Mending:
    """Belongs to one engine, on its loop."""

    def __init__(
        self,
        address: Address,
        *,
        name: str,
        draw: Callable[[], float],
        put: Callable[[Routines], None],
    ) -> None:
        """`put`: is told what may be called from now on."""
        self._address = address
        self._name = name
        self._put = put
        self._backoff = Backoff(draw, max_us=60_000_000)
        self._lost: Routines | None = None
        self._doubted = False
        self._mended_at: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._link: Link | None = None
        self._closing = asyncio.Event()

    def vanished(self, called: Routines) -> None:
        """One of these is not there."""
        if not called.all:
            return
        _log.warning(
            "functions_gone",
            reason=f"{self._address.shown} lacks functions that this process made, or lets it call them no longer; "
            "they are made again, and commits take longer meanwhile",
        )
        self.doubt(called)

    def doubt(self, called: Routines) -> None:
        """These may not be there: call none of them before that is known. Repeatable."""
        if called.all:
            self._lost = called
            self._put(Routines(()))
        if self._lost is None:  # none were to be had at the start
            return
        # Also of what is being made just now: that may be on the server of before.
        self._doubted = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(
                self._mend(), name="postgres-functions"
            )

    async def close(self) -> None:
        """Make no more. Repeatable."""
        self._closing.set()
        if self._link is not None:
            self._link.end()
        if self._task is not None:
            # Not cancelled: the driver lets go of no connection that is half open.
            await asyncio.wait([self._task])

    async def _mend(self) -> None:
        loop = asyncio.get_running_loop()
        if self._mended_at is not None and loop.time() - self._mended_at < CALM_S:
            await self._pause()
        else:
            self._backoff.reset()
        assert self._lost is not None
        while self._doubted and not self._closing.is_set():
            self._doubted = False
            try:
                made = await self._make(self._lost)
            except TenutoError as error:
                _log.info("functions_not_made", reason=str(error))
                self._doubted = True
                await self._pause()
                continue
            if self._doubted or self._closing.is_set():
                continue
            self._mended_at = loop.time()
            if made:
                self._put(self._lost)
                _log.info("functions_back", database=self._address.shown)
            else:
                _log.warning("functions_refused", reason=refused(self._address))

    async def _pause(self) -> None:
        """Until the next try, or until it is closed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._backoff.next_us() / 1_000_000):
                await self._closing.wait()

    async def _make(self, lost: Routines) -> bool:
        """Raises TenutoErrors only."""
        link = self._link = await connect(self._address, name=self._name)
        try:
            if self._closing.is_set():
                return False
            async with asyncio.timeout(MEND_S):
                return await make(link, lost.all)
        except LOST as error:
            raise translate(error, self._address.shown) from error
        finally:
            self._link = None
            link.end()

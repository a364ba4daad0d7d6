"""News over LISTEN and NOTIFY, on a connection of its own: never inside a commit, never often, never missed for long.

NOTIFY takes a lock on the whole server when its transaction commits, so it is sent here, alone, the first at once and
then ten times a second at most. The connection is asked for a sign of life, for one that died unseen would be silent
for ever; whatever was missed meanwhile is said after it is back, as everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tenuto.adapters.postgres.address import Address
from tenuto.adapters.postgres.connecting import Link, connect
from tenuto.adapters.postgres.errors import LOST, translate
from tenuto.model.errors import TenutoError, Unavailable
from tenuto.ports.news import EVERYTHING, Topic
from tenuto.runtime.backoff import Backoff
from tenuto.runtime.logging import get_logger

GAP_US = 100_000
"""Between two messages of this process."""
PING_S = 5.0
_LETTERS = {topic.value: topic for topic in Topic}

_log = get_logger("news")


class PostgresNews:
    """`ports.news.News`. A service.

    Args:
        address: past any connection pooler.
        name: of this process, for pg_stat_activity.
        draw: chance for the moments of new tries.
        channel: of the database whose news these are; None: of `address`.
    """

    name = "news"

    def __init__(
        self,
        address: Address,
        *,
        name: str,
        draw: Callable[[], float],
        channel: str | None = None,
    ) -> None:
        self._address = address
        self._name = name
        self._channel = channel or address.channel
        self._backoff = Backoff(draw, initial_us=100_000)
        self._heard: list[Callable[[frozenset[Topic]], None]] = []
        self._untold: set[Topic] = set()
        self._awake = asyncio.Event()
        self._complained = False
        self.listening = False
        """Whether news of others arrive just now."""
        self.sent = 0

    def tell(self, topic: Topic) -> None:
        self._untold.add(topic)
        self._awake.set()

    def listen(self, heard: Callable[[frozenset[Topic]], None]) -> None:
        self._heard.append(heard)

    async def run(self, stopping: asyncio.Event) -> None:
        """Connect, carry, reconnect, until told to stop."""
        async with asyncio.TaskGroup() as group:
            carrier = group.create_task(self._carry_on(), name="news-connection")
            await stopping.wait()
            carrier.cancel()

    async def _carry_on(self) -> None:
        while True:
            try:
                await self._connected()
                return
            except Exception as error:  # noqa: BLE001 - news are hints: nothing that befalls them ends a server
                if not isinstance(error, TenutoError):
                    _log.error("news_failed", reason=str(error), exc_info=error)
                elif not self._complained:
                    _log.warning("news_lost", reason=str(error))
                self._complained = True
                await asyncio.sleep(self._backoff.next_us() / 1_000_000)

    async def _connected(self) -> None:
        """One connection's life. Returns if it is of no use for ever; raises Unavailable when it is lost."""
        link = await connect(self._address, name=f"{self._name} news")
        try:
            if link.bounced:
                _log.warning(
                    "news_lost",
                    reason=f"{self._address.shown} is reached through a connection pooler, which does not pass on "
                    "LISTEN; give postgres.listen_url, a URL of the server itself",
                )
                return
            lost = asyncio.Event()

            def on_loss(_: object) -> None:
                lost.set()
                self._awake.set()

            link.raw.add_termination_listener(on_loss)
            async with asyncio.timeout(PING_S):
                await link.raw.add_listener(self._channel, self._on_news)
            self.listening = True
            self._complained = False
            self._backoff.reset()
            self._say(EVERYTHING)
            await self._carry(link, lost)
        except LOST as error:
            raise translate(error, self._address.shown) from error
        finally:
            self.listening = False
            link.end()

    async def _carry(self, link: Link, lost: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        own = link.raw
        while True:
            try:
                async with asyncio.timeout(PING_S):
                    await self._awake.wait()
            except TimeoutError:
                async with asyncio.timeout(PING_S):
                    await own.fetchval("SELECT 1")
                continue
            self._awake.clear()
            if lost.is_set():
                raise Unavailable(f"{self._address.shown} has closed the connection for news")
            if not self._untold:
                continue
            letters = "".join(sorted(self._untold))
            self._untold.clear()
            sent_at = loop.time()
            async with asyncio.timeout(PING_S):
                await own.fetchval("SELECT pg_notify($1, $2)", self._channel, letters)
            self.sent += 1
            await asyncio.sleep(max(0.0, sent_at + GAP_US / 1_000_000 - loop.time()))

    def _on_news(self, connection: object, pid: int, channel: str, payload: object) -> None:
        """Called by the driver. A process is not told its own."""
        own = connection.get_server_pid()  # type: ignore[attr-defined]
        topics = frozenset(_LETTERS[letter] for letter in str(payload) if letter in _LETTERS)
        if pid != own and topics:
            self._say(topics)

    def _say(self, topics: frozenset[Topic]) -> None:
        for heard in self._heard:
            heard(topics)

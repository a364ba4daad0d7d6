"""News between processes on one database: soon, seldom, and never missed for good."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from tests.support.backing.pgbouncer import PgBouncer, start_pgbouncer
from tests.support.backing.proxy import Proxy
from tests.support.shared_store import ShelvedDatabase

from tenuto.adapters.postgres import news as module
from tenuto.adapters.postgres import opening
from tenuto.adapters.postgres.address import read_address
from tenuto.adapters.postgres.news import PostgresNews
from tenuto.ports.news import EVERYTHING, Topic

_END_LISTENERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tests news'"
)


class Ear:
    """What one process heard, in order."""

    def __init__(self) -> None:
        self.heard: list[frozenset[Topic]] = []
        self._new = asyncio.Event()

    def __call__(self, topics: frozenset[Topic]) -> None:
        self.heard.append(topics)
        self._new.set()

    async def wait(self, topics: frozenset[Topic], seconds: float = 60.0) -> None:
        """Until this is among what was heard; what was heard up to it is forgotten. `seconds`: a limit on hangs."""
        async with asyncio.timeout(seconds):
            while topics not in self.heard:
                self._new.clear()
                await self._new.wait()
        del self.heard[: self.heard.index(topics) + 1]


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what has no event of its own."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - it is seen from outside only
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(
    url: str, channel: str | None = None, *, name: str = "tests"
) -> AsyncIterator[tuple[PostgresNews, Ear]]:
    news = PostgresNews(read_address(url), name=name, draw=lambda: 0.5, channel=channel)
    ear, stopping = Ear(), asyncio.Event()
    news.listen(ear)
    async with asyncio.TaskGroup() as group:
        group.create_task(news.run(stopping))
        try:
            yield news, ear
        finally:
            stopping.set()


async def test_what_one_tells_the_others_hear_and_not_itself(shelved: ShelvedDatabase) -> None:
    async with running(shelved.url) as (one, own), running(shelved.url) as (_, other):
        await own.wait(EVERYTHING)
        await other.wait(EVERYTHING)
        one.tell(Topic.READY)
        await other.wait(frozenset({Topic.READY}))
        assert own.heard == []


@pytest.mark.alone("counts messages of a moment")
async def test_E1_a_thousand_words_are_a_few_messages(shelved: ShelvedDatabase) -> None:
    """Catalogue E4."""
    async with running(shelved.url) as (one, own), running(shelved.url) as (_, other):
        await own.wait(EVERYTHING)
        await other.wait(EVERYTHING)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for n in range(1_000):
            one.tell(Topic.READY if n % 2 else Topic.DUE)
            if n % 100 == 0:
                await asyncio.sleep(0.01)
        await other.wait(frozenset({Topic.READY, Topic.DUE}))
        await asyncio.sleep(2 * module.GAP_US / 1_000_000)
        # One at once and then one a gap: however long the machine took for the thousand, 10 without the gaps.
        assert one.sent <= 1 + (loop.time() - began) * 1_000_000 / module.GAP_US


async def test_E2_after_a_lost_connection_everything_is_said(
    shelved: ShelvedDatabase, proxy: Callable[[str], Proxy]
) -> None:
    through = proxy(shelved.url)
    async with (
        running(through.url(shelved.url)) as (cut_off, ear),
        running(shelved.url) as (one, _),
    ):
        await ear.wait(EVERYTHING)
        through.cut()
        await ear.wait(EVERYTHING)
        one.tell(Topic.ENDED)
        await ear.wait(frozenset({Topic.ENDED}))
        assert cut_off.listening


async def test_E2_a_word_between_the_servers_farewell_and_its_end_costs_the_connection_alone(
    shelved: ShelvedDatabase, proxy: Callable[[str], Proxy]
) -> None:
    """What is told just then ended a whole server once, when PostgreSQL was restarted."""
    through = proxy(shelved.url)
    async with running(through.url(shelved.url)) as (news, ear):
        await ear.wait(EVERYTHING)
        news.tell(Topic.READY)
        await until(
            lambda: news.sent == 1
        )  # else its answer is the farewell, and it hangs up by itself
        held = through.hold_ends()
        await asyncio.to_thread(shelved.server.execute, _END_LISTENERS)
        assert await asyncio.to_thread(held.wait, 60)
        # Until the farewell is read and the next word may go.
        await asyncio.sleep(2 * module.GAP_US / 1_000_000)
        news.tell(Topic.DUE)
        await ear.wait(EVERYTHING)
        assert news.listening


async def test_E2_a_bug_of_whoever_hears_ends_no_server(
    shelved: ShelvedDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    """News are hints: a process without them works on, and tries again."""
    bugs = iter([True, True])

    def hear(_: object) -> None:
        if next(bugs, False):
            raise ZeroDivisionError

    async with running(shelved.url) as (news, ear):
        news.listen(hear)
        await ear.wait(EVERYTHING)
        await ear.wait(EVERYTHING)
        await ear.wait(EVERYTHING)
    assert caplog.text.count("news_failed") == 2


async def test_E3_a_connection_that_died_unseen_is_noticed(
    shelved: ShelvedDatabase, proxy: Callable[[str], Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    through = proxy(shelved.url)
    async with running(through.url(shelved.url)) as (news, ear):
        await ear.wait(EVERYTHING)
        through.black_hole()
        with monkeypatch.context() as patch:  # while nothing answers: to listen may take longer
            patch.setattr(module, "PING_S", 0.2)
            news._awake.set()  # it waits so long from here on
            await until(lambda: not news.listening)
        through.heal()
        await ear.wait(EVERYTHING)


async def test_E5_the_listener_is_in_no_transaction(shelved: ShelvedDatabase) -> None:
    # A name of its own: connections of other tests may be there for a moment longer than their tests.
    async with running(shelved.url, name="tests E5") as (one, ear):
        await ear.wait(EVERYTHING)
        one.tell(Topic.DUE)
        await until(lambda: one.sent == 1)
        async with opening.linked(shelved.address, name="tests") as link:
            states = await link.raw.fetch(
                "SELECT state, xact_start FROM pg_stat_activity WHERE application_name = 'tests E5 news'"
            )
    assert [tuple(each) for each in states] == [("idle", None)]


async def test_two_schemas_are_strangers(shelved: ShelvedDatabase) -> None:
    async with (
        running(shelved.url) as (one, own),
        running(shelved.url, "tenuto_else") as (_, other),
    ):
        await own.wait(EVERYTHING)
        await other.wait(EVERYTHING)
        one.tell(Topic.READY)
        await asyncio.sleep(0.2)
        assert other.heard == []


async def test_D14_through_a_pooler_it_says_that_it_hears_nothing(
    shelved: ShelvedDatabase, bouncer: PgBouncer
) -> None:
    async with running(bouncer.dsn_of(shelved.url)) as (news, ear):
        await asyncio.sleep(0.3)
        assert not news.listening
        assert ear.heard == []


@pytest.fixture
def bouncer(shelved: ShelvedDatabase) -> Iterator[PgBouncer]:
    made = start_pgbouncer(shelved.server)
    yield made
    made.close()

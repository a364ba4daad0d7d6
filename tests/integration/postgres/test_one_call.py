"""A commit as one call of one function: one journey, whole or nothing, and the long way where it was not as hoped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from tests.support.backing.pgbouncer import PgBouncer, start_pgbouncer
from tests.support.backing.postgres import Postgres
from tests.support.backing.proxy import Proxy
from tests.support.shared_store import YEARS_US, ShelvedDatabase, prepare
from tests.support.store import (
    LEASE_US,
    START,
    WORKER,
    A,
    TurnedClock,
    a_change,
    a_message,
    a_start,
    a_task,
    commit,
    new_run_id,
    seq_of,
)

from tenuto.adapters.postgres import engine as module
from tenuto.adapters.postgres import opening
from tenuto.adapters.postgres.address import read_address
from tenuto.adapters.postgres.connecting import Link
from tenuto.adapters.postgres.engine import PostgresEngine
from tenuto.adapters.postgres.routines import AT_ONCE, Routines
from tenuto.adapters.postgres.shared import open_shared
from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sql.store import REFUSING_US, SqlStore
from tenuto.model.errors import InvariantViolated, Unavailable
from tenuto.model.ids import LeaseId, RunId
from tenuto.ports.store import Change, Claims, EagerGrant, LoadRequest

CALL = f"SELECT * FROM {AT_ONCE}"


@dataclass
class Journeys:
    """What the driver sent, by the beginning of each text."""

    texts: list[str] = field(default_factory=list)

    def taken(self) -> list[str]:
        """Those since the last time."""
        found, self.texts = self.texts, []
        return [self._short(text) for text in found]

    @staticmethod
    def _short(text: str) -> str:
        word = text.partition(";")[0].split()[0]
        if word in ("BEGIN", "COMMIT", "SET"):
            return word
        return "call" if text.startswith(CALL) else "other"


LONG_WAY = ["BEGIN", "other", "other", "COMMIT"]


@pytest.fixture
def journeys(monkeypatch: pytest.MonkeyPatch) -> Journeys:
    made = Journeys()
    # However long the machine stands still, no connection counts as quiet: it would go the long way.
    monkeypatch.setattr(module, "QUIET_S", 1_000.0)
    for name in ("execute", "fetchrow", "fetch", "fetchval"):
        plain = getattr(asyncpg.Connection, name)

        async def counted(
            self: object, text: str, *params: object, _plain: object = plain, **more: object
        ) -> object:
            made.texts.append(text)
            return await _plain(self, text, *params, **more)  # type: ignore[operator]

        monkeypatch.setattr(asyncpg.Connection, name, counted)
    return made


@pytest.fixture
async def engine(shelved: ShelvedDatabase) -> AsyncIterator[PostgresEngine]:
    made = await shelved.open(pool=3)
    yield made
    await made.close()


@pytest.fixture
def store(engine: PostgresEngine) -> SqlStore:
    return SqlStore(engine)


def eager(lease: str = "l") -> tuple[EagerGrant, ...]:
    return (EagerGrant(place=A, worker=WORKER, lease_id=LeaseId(lease)),)


async def test_a_commit_is_one_journey(
    store: SqlStore, engine: PostgresEngine, journeys: Journeys
) -> None:
    run, other = new_run_id(), new_run_id()
    await commit(store, a_start(other, a_task()))  # the connection knows the call
    before = engine.commits
    journeys.taken()

    await commit(store, a_start(run, a_task(), key="k", eager=eager()))
    assert journeys.taken() == ["call"]
    await commit(store, a_change(run, 1, updated=((a_task(), True),)), a_change(other, 1))
    assert journeys.taken() == ["call"]
    await commit(store, a_change(run, 2, close=True))
    assert journeys.taken() == ["call"]

    assert engine.commits == before + 3
    assert (await seq_of(store, run), await seq_of(store, other)) == (3, 2)


async def test_many_messages_are_one_journey(
    store: SqlStore, engine: PostgresEngine, journeys: Journeys
) -> None:
    await store.post([a_message("m0", event_id="e0")])
    before = engine.commits
    journeys.taken()

    sent = [a_message(f"m{n}", key=f"k{n}", event_id=f"e{n % 400}") for n in range(1, 501)]
    answers = await store.post(sent)

    assert journeys.taken() == ["call"]
    assert engine.commits == before + 1
    assert answers == [n < 400 for n in range(1, 501)]


async def test_where_one_loses_the_others_are_written(store: SqlStore, journeys: Journeys) -> None:
    late, well, new = new_run_id(), new_run_id(), new_run_id()
    await commit(store, a_start(late), a_start(well))
    await commit(store, a_change(late, 1))
    journeys.taken()

    changes = [a_change(late, 1), a_change(well, 1), a_start(new, a_task(), eager=eager())]
    done = await store.commit(changes, lease_us=LEASE_US)

    assert journeys.taken() == ["call", *LONG_WAY]
    assert done.losers == {late}
    assert done.granted == {(new, A)}
    assert [await seq_of(store, run) for run in (late, well, new)] == [2, 2, 1]


async def test_a_claim_that_no_longer_stands_is_noticed(
    store: SqlStore, journeys: Journeys
) -> None:
    """Each kind of check is in the call."""
    run = new_run_id()
    await commit(store, a_start(run, a_task()))
    for claims in (
        Claims(leases=((A, 1, LeaseId("gone")),)),
        Claims(unleased=((A, 1),)),
        Claims(timers=((A, "event", 1),)),  # type: ignore[arg-type]
        Claims(waits=((A, 1),)),
        Claims(messages=("gone",)),  # type: ignore[arg-type]
        Claims(notices=(("cancel", A, new_run_id(), 1),)),  # type: ignore[arg-type]
    ):
        journeys.taken()
        done = await store.commit([a_change(run, 1, claims=claims)], lease_us=LEASE_US)
        assert done.losers == {run}
        assert journeys.taken()[:2] == ["call", "BEGIN"]
    assert await seq_of(store, run) == 1


async def test_a_key_that_is_taken_is_told_with_its_owner(
    store: SqlStore, journeys: Journeys
) -> None:
    first, second = new_run_id(), new_run_id()
    await commit(store, a_start(first, key="same"))
    journeys.taken()

    done = await store.commit([a_start(second, key="same")], lease_us=LEASE_US)

    assert journeys.taken() == ["call", "BEGIN", "other", "COMMIT"]
    assert done.taken == {second: first}
    assert done.losers == {second}


async def test_a_refused_grant_is_offered_and_the_next_does_not_hope_for_a_while(
    shelved: ShelvedDatabase, journeys: Journeys
) -> None:
    clock = TurnedClock()
    engine = await shelved.open(clock, pool=1)
    store, reads = SqlStore(engine), SqlReads(engine)
    await commit(store, a_start(new_run_id(), a_task()))
    clock.turn(2 * REFUSING_US)

    async def start() -> tuple[list[str], bool]:
        run = new_run_id()
        journeys.taken()
        done = await store.commit([a_start(run, a_task(), eager=eager(run))], lease_us=LEASE_US)
        went = [each for each in journeys.taken() if each != "SET"]
        offered = (await reads.get_run(run)).ready == (A,)
        assert offered != ((run, A) in done.granted)
        return went, offered

    assert await start() == (["call", *LONG_WAY], True)
    assert await start() == (LONG_WAY, True)
    journeys.taken()
    await commit(store, a_start(new_run_id()))  # asks for no lease
    assert journeys.taken() == ["call"]
    clock.turn(REFUSING_US)
    assert await start() == (LONG_WAY, True)  # no commit has said yet how late it is
    clock.turn(REFUSING_US)
    await commit(store, a_start(new_run_id()))
    assert await start() == (["call", *LONG_WAY], True)
    await engine.close()


@pytest.mark.parametrize("what", ["key", "message"])
async def test_rivals_within_one_commit_go_the_long_way_at_once(
    store: SqlStore, journeys: Journeys, what: str
) -> None:
    runs = [new_run_id(), new_run_id()]
    changes: list[Change] = [a_start(run, key="rival") for run in runs]
    if what == "message":
        await commit(store, *(a_start(run) for run in runs))
        claims = Claims(messages=("m",))  # type: ignore[arg-type]
        changes = [a_change(run, 1, claims=claims) for run in runs]
    journeys.taken()

    done = await store.commit(changes, lease_us=LEASE_US)

    assert "call" not in journeys.taken()
    assert runs[1] in done.losers


async def test_a_row_that_another_is_about_to_write_is_waited_for(
    store: SqlStore, engine: PostgresEngine, shelved: ShelvedDatabase, journeys: Journeys
) -> None:
    """The unique key ends the call; the next one sees it (D16)."""
    run = new_run_id()
    [link] = engine._links
    await link.raw.execute("SET lock_timeout = 0")  # else a pause of the machine is one try more
    async with opening.linked(shelved.address, name="other") as other:
        text = (
            "INSERT INTO run_keys (namespace, workflow, key, run_id)"
            " VALUES ('default', 'order', 'crossed', 'other')"
        )
        await other.raw.execute("SET idle_in_transaction_session_timeout = 0")
        await other.raw.execute(f"BEGIN; {text}")
        committing = asyncio.create_task(
            store.commit([a_start(run, key="crossed")], lease_us=LEASE_US)
        )
        await until_waited_for(other)
        assert not committing.done()
        journeys.taken()
        await other.raw.execute("COMMIT")
        done = await committing
    assert done.taken == {run: "other"}
    assert journeys.taken() == ["COMMIT", "call", "BEGIN", "other", "COMMIT"]


async def until_waited_for(link: Link) -> None:
    """Until somebody waits for what this transaction has written."""
    blocked = "SELECT count(*) FROM pg_locks WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"
    async with asyncio.timeout(60):
        while not await link.raw.fetchval(blocked):  # noqa: ASYNC110 - seen from outside only
            await asyncio.sleep(0.01)


# -- accidents ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def opened(
    url: str, *, pool: int = 1, before_commit: Callable[[], None] | None = None
) -> AsyncIterator[PostgresEngine]:
    made = PostgresEngine(
        read_address(url), name="tests", draw=lambda: 0.5, pool=pool, before_commit=before_commit
    )
    made.routines = Routines(made.sequences())
    made.start()
    try:
        yield made
    finally:
        await made.close()


async def eventually(store: SqlStore, run: RunId) -> int:
    """Its seq once it can be read; 0 without the run."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await seq_of(store, run)
            except Unavailable:
                await asyncio.sleep(0.02)


@pytest.mark.parametrize(("after", "seq"), [(False, 1), (True, 2)])
async def test_A4_a_connection_lost_in_the_call_is_unknown_and_not_run_again(
    engine: PostgresEngine,
    shelved: ShelvedDatabase,
    proxy: Callable[[str], Proxy],
    journeys: Journeys,
    after: bool,
    seq: int,
) -> None:
    through, run = proxy(shelved.url), new_run_id()
    async with opened(through.url(shelved.url)) as shaky:
        store = SqlStore(shaky)
        await commit(store, a_start(run))
        sprung = through.cut_at_commit(after=after)
        journeys.taken()
        with pytest.raises(Unavailable, match="is unknown"):
            await store.commit([a_change(run, 1)], lease_us=LEASE_US)
        assert sprung.is_set()
        assert journeys.taken() == ["call"]
        assert await eventually(SqlStore(engine), run) == seq


async def test_a_server_that_refuses_to_write_has_written_nothing_and_another_is_asked(
    shelved: ShelvedDatabase, engine: PostgresEngine, journeys: Journeys
) -> None:
    """Catalogue D5."""
    async with opened(shelved.url) as shaky:
        store, run = SqlStore(shaky), new_run_id()
        await commit(store, a_start(run))
        [link] = shaky._links
        await link.raw.execute("SET default_transaction_read_only = on")
        journeys.taken()

        await commit(store, a_change(run, 1))

        assert [each for each in journeys.taken() if each == "call"] == ["call", "call"]
    assert await seq_of(SqlStore(engine), run) == 2


async def test_a_connection_that_was_quiet_is_tried_by_a_begin(
    store: SqlStore, journeys: Journeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have died unseen; the call would be unknown, a BEGIN is tried again."""
    run = new_run_id()
    await commit(store, a_start(run))
    monkeypatch.setattr(module, "QUIET_S", 0.0)
    journeys.taken()
    await commit(store, a_change(run, 1))
    assert journeys.taken() == LONG_WAY


async def test_who_dies_before_the_call_has_written_nothing(
    shelved: ShelvedDatabase, engine: PostgresEngine
) -> None:
    called: list[int] = []

    def die() -> None:
        called.append(1)
        raise RuntimeError("killed")

    run = new_run_id()
    async with opened(shelved.url, before_commit=die) as dying:
        with pytest.raises(InvariantViolated, match="killed"):
            await SqlStore(dying).commit([a_start(run)], lease_us=LEASE_US)
    assert called
    assert (await SqlStore(engine).load(LoadRequest(runs=(run,)))).runs == {}


# -- who may not, and who cannot ----------------------------------------------------------------------------------


async def test_a_user_who_may_make_no_functions_commits_all_the_same(
    server: Postgres, journeys: Journeys
) -> None:
    url = server.create_database()
    parts = urlsplit(url)
    await prepare(read_address(url), [START], YEARS_US)
    for text in (
        "CREATE ROLE modest LOGIN PASSWORD 'modest'",
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO modest",
    ):
        await asyncio.to_thread(server.execute, text, parts.path.strip("/"))
    modest = urlunsplit(parts._replace(netloc=f"modest:modest@{parts.hostname}:{parts.port}"))

    shared = await open_shared(
        read_address(modest), name="modest", draw=lambda: 0.5, upgrade_first=False
    )
    store, run = SqlStore(shared.engine), new_run_id()
    journeys.taken()
    await commit(store, a_start(run, a_task(), eager=eager()))
    await commit(store, a_change(run, 1))
    went = journeys.taken()
    await shared.engine.close()

    assert any("no functions" in warning for warning in shared.warnings)
    assert "call" not in went
    assert went.count("COMMIT") == 2


@pytest.fixture(scope="module")
def bouncer(shelved: ShelvedDatabase) -> Iterator[PgBouncer]:
    made = start_pgbouncer(shelved.server)
    yield made
    made.close()


async def test_through_a_pooler_the_call_is_made_in_a_transaction_with_its_settings(
    shelved: ShelvedDatabase, engine: PostgresEngine, bouncer: PgBouncer, journeys: Journeys
) -> None:
    async with opened(bouncer.dsn_of(shelved.url)) as pooled:
        store, run, late = SqlStore(pooled), new_run_id(), new_run_id()
        await commit(store, a_start(run), a_start(late))
        assert "SET LOCAL lock_timeout" in next(
            text for text in journeys.texts if text.startswith("BEGIN")
        )
        journeys.taken()
        await commit(store, a_change(run, 1))
        assert journeys.taken() == ["BEGIN", "call", "COMMIT"]

        done = await store.commit([a_change(run, 1), a_change(late, 1)], lease_us=LEASE_US)
        assert journeys.taken() == ["BEGIN", "call", "other", "other", "COMMIT"]
    assert done.losers == {run}
    assert await seq_of(SqlStore(engine), late) == 2

"""Several coordinators over one store: they race for everything, some die, news is lost and answers go missing.

Whatever happens, every run ends, no task runs twice at a time, every history folds to what is stored.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from tests.support.backing.fixtures import postgres, postgres_url  # noqa: F401 - fixtures
from tests.support.crowd import LEASE_US, Crowd, Gossip
from tests.support.crowded import (
    CHAIN,
    FAMILY,
    MEETING,
    SLEEPING,
    Shared,
    a_seed,
    failing,
    opening,
    until,
)

from tenuto.coordinator.mailbox import Message
from tenuto.model.errors import Conflict, InvalidInput, NotFound, Unavailable
from tenuto.model.ids import Place, RunId
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.ports.reads import RunFilter
from tenuto.ports.store import EventRow, RunRow
from tenuto.rpc.outbox import Begun

ASKED = (
    "cancel",
    "pause",
    "resume",
    "resume",
    "retry",
    "retry",
    "skip",
    "terminate",
    "send",
    "send",
)


@pytest.fixture(params=["sqlite", "postgres"])
async def shared(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shared]:
    async with opening(request, tmp_path) as opener:
        yield opener


async def ask(crowd: Crowd, run_id: RunId, verb: str | None = None) -> bool:
    """One thing that a user may ask, of any coordinator. False: it was refused."""
    dice = crowd.dice
    verb = verb or dice.choice(ASKED)
    if verb in ("cancel", "terminate") and dice.random() < 0.7:
        return False
    commands = crowd.any().commands
    try:
        async with asyncio.timeout(5):
            match verb:
                case "send":
                    await commands.send_event("go", "k", "1")
                case "skip":
                    await commands.skip(run_id, dice.choice("epsz"), '"given"')
                case _:
                    await getattr(commands, verb)(run_id)
    except (Conflict, Unavailable, TimeoutError):
        return False
    return True


@pytest.mark.parametrize("number", range(2))
async def test_families_end_whatever_is_asked_of_which_coordinator(
    number: int, shared: Shared
) -> None:
    """Catalogue C9."""
    dice = random.Random(a_seed(number))
    journal = failing(dice, 0.2)
    async with Crowd(shared, dice=dice) as crowd:
        for _ in range(3):
            await crowd.join()
        for _ in range(3):
            crowd.hire(journal, ["work"])
        runs = [await crowd.begin(FAMILY) for _ in range(8)]
        done = 0
        for _ in range(100):
            done += await ask(crowd, dice.choice(runs))
            await asyncio.sleep(dice.uniform(0, 0.02))
        for run_id in runs:
            await ask(crowd, run_id, "resume")
        await crowd.settle()

        assert await crowd.check() > 50
        assert not journal.overlaps
        assert done > 5, "nothing was asked that could be done: the test proved nothing"


@pytest.mark.parametrize("number", range(2))
async def test_families_end_though_coordinators_and_workers_die_and_answers_are_lost(
    number: int, shared: Shared
) -> None:
    """Catalogue A7."""
    dice = random.Random(a_seed(number))
    journal = failing(dice, 0.1)

    def fate() -> str:
        return "" if dice.random() < 0.97 else dice.choice(("before", "after"))

    gossip = Gossip(lambda: dice.random() < 0.5)
    async with Crowd(shared, dice=dice, fate=fate, gossip=gossip) as crowd:
        for _ in range(3):
            await crowd.join()
        workers = [crowd.hire(journal, ["work"]) for _ in range(3)]
        runs = []
        for key in range(8):
            while True:  # a start without an answer may be asked again under its key
                try:
                    async with asyncio.timeout(5):
                        runs.append(await crowd.begin(FAMILY, key=str(key)))
                    break
                except (Unavailable, TimeoutError):
                    continue
        for turn in range(60):
            if turn % 15 == 7:
                await crowd.kill(dice.choice(crowd.members))
                await crowd.join()
            if turn % 15 == 14:
                dead = workers.pop(dice.randrange(len(workers)))
                await crowd.fire(dead)
                workers.append(crowd.hire(journal, ["work"]))
            await ask(crowd, dice.choice(runs))
            await asyncio.sleep(dice.uniform(0, 0.05))
        crowd.calm()
        for run_id in runs:
            await ask(crowd, run_id, "resume")
        await crowd.settle()

        assert await crowd.check() > 30
        assert not journal.overlaps


# -- one race at a time ------------------------------------------------------------------------------------------------


async def test_the_same_key_asked_of_two_coordinators_starts_one_run(shared: Shared) -> None:
    """Catalogue G14."""
    async with Crowd(shared, dice=random.Random(1)) as crowd:
        cores = [(await crowd.join()).core for _ in range(2)]
        for number in range(20):
            async with asyncio.TaskGroup() as group:
                asked = [
                    group.create_task(crowd.begin(CHAIN, key=f"k{number}", core=core))
                    for core in cores * 3
                ]
            assert len({each.result() for each in asked}) == 1

        assert len(await crowd.open_runs()) == 20


async def test_a_message_and_its_wait_never_miss_each_other(shared: Shared) -> None:
    """Sent here in the moment in which the wait opens there; nothing but the match would end the run. Catalogue H5."""
    journal = failing(random.Random(1), 0)
    async with Crowd(shared, dice=random.Random(2)) as crowd:
        opens, sends = [(await crowd.join()).core for _ in range(2)]
        crowd.hire(journal, ["work"], capacity=50)
        for number in range(60):
            given = {"key": f"k{number}"}
            async with asyncio.TaskGroup() as group:
                group.create_task(crowd.begin(MEETING, input=given, core=opens))
                await asyncio.sleep(crowd.dice.uniform(0, 0.02))
                group.create_task(sends.commands.send_event("go", f"k{number}", "1"))
        await crowd.settle()

        assert await crowd.check() == 60


async def test_a_message_goes_to_one_wait_whoever_matches_it(shared: Shared) -> None:
    """Catalogue H7."""
    journal = failing(random.Random(1), 0)
    async with Crowd(shared, dice=random.Random(3)) as crowd:
        cores = [(await crowd.join()).core for _ in range(3)]
        crowd.hire(journal, ["work"], capacity=50)
        runs = [await crowd.begin(MEETING, input={"key": "same"}) for _ in range(30)]
        async with asyncio.TaskGroup() as group:
            for number in range(30):
                group.create_task(cores[number % 3].commands.send_event("go", "same", str(number)))
        await crowd.settle()
        reads = crowd.any().reads
        got = PayloadKey(Place("m"), PayloadKind.OUTPUT)
        taken = [(await reads.payloads(run_id, [got]))[got] for run_id in runs]
        assert sorted(map(int, taken)) == list(range(30))


async def test_C6_children_hear_the_last_word_whoever_tells_and_whoever_decides(
    shared: Shared,
) -> None:
    """A resume right behind the pause: whoever decides the pause must not use the newer notice up. Catalogue C4."""
    async with Crowd(shared, dice=random.Random(8)) as crowd:
        cores = [(await crowd.join()).core for _ in range(3)]
        parents = [await crowd.begin(SLEEPING) for _ in range(4)]
        reads = crowd.any().reads

        async def children(parent: RunId) -> Sequence[RunRow]:
            return await reads.list_runs(RunFilter(parent=parent, states=("running",)))

        async def toggle(parent: RunId) -> None:
            store, dice = cores[0].store, crowd.dice
            while len(await children(parent)) < 6:  # noqa: ASYNC110 - others begin them
                await asyncio.sleep(0.01)
            ids = tuple(row.run_id for row in await children(parent))
            for _ in range(15):
                await dice.choice(cores).commands.pause(parent)
                await asyncio.sleep(dice.uniform(0, 0.02))
                await dice.choice(cores).commands.resume(parent)
                while (await store.due(limit=10, runs=ids)).notices:  # noqa: ASYNC110 - the same
                    await asyncio.sleep(0.01)
                assert [row.paused for row in await children(parent)] == [False] * 6

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for parent in parents:
                group.create_task(toggle(parent))
        await crowd.check_folds(parents)


async def test_who_waits_at_one_coordinator_learns_what_another_has_decided(shared: Shared) -> None:
    """Its end, each event once and in order, and that something in the list has changed; also without news."""
    journal = failing(random.Random(1), 0)
    async with Crowd(shared, dice=random.Random(4), gossip=Gossip(lambda: True)) as crowd:
        here, there = [(await crowd.join()).core for _ in range(2)]
        run_id = await crowd.begin(MEETING, input={"key": "k"}, core=there)
        seen: list[int] = []
        changed: set[RunId] = set()

        async def follow() -> None:
            async for row in here.commands.follow(run_id):
                assert isinstance(row, EventRow)
                seen.append(row.seq)

        async def listen() -> None:
            async for runs in here.commands.changes():
                changed.update(runs)

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            following = group.create_task(follow())
            listening = group.create_task(listen())
            watchers = here.coordinator.watchers
            await until(lambda: watchers.listeners and run_id in watchers.followed)
            crowd.hire(journal, ["work"])
            await there.commands.send_event("go", "k", "1")
            assert (await here.commands.wait(run_id)).state == "success"
            await following
            await until(lambda: run_id in changed)
            listening.cancel()

        last = len(await here.reads.history(run_id))
        assert seen == list(range(seen[0], last + 1))


async def test_who_waits_for_a_run_that_he_has_just_started_asks_the_store_nothing(
    shared: Shared,
) -> None:
    """And is told of its end all the same, where another coordinator has decided that."""
    journal = failing(random.Random(1), 0)
    async with Crowd(shared, dice=random.Random(4)) as crowd:
        here, there = await crowd.join(), await crowd.join()
        run_id = await crowd.begin(MEETING, input={"key": "k"}, core=here.core)
        told: list[RunRow] = []

        async def wait() -> None:
            told.append(await here.core.commands.wait(run_id, fresh=True))

        reads = here.engine.reads
        # Not a turn of the loop, in which the coordinator's own looks would be counted, too.
        waiting = Begun(wait())
        assert here.engine.reads == reads
        crowd.hire(journal, ["work"])
        await there.core.commands.send_event("go", "k", "1")

        async with asyncio.timeout(60):
            await waiting
        assert told[0].state == "success"
        assert (await here.core.commands.wait(run_id, fresh=True)).state == "success"
        with pytest.raises(NotFound):
            await here.core.commands.wait(RunId("no-run"), fresh=True)


async def test_many_events_are_stored_each_id_once_or_none(shared: Shared) -> None:
    async with Crowd(shared, dice=random.Random(4)) as crowd:
        commands = (await crowd.join()).core.commands
        sent = [Message("go", f"k{n}", str(n), event_id=f"e{n % 3}") for n in range(4)]

        assert await commands.send_events(sent) == [True, True, True, False]
        assert await commands.send_events([]) == []
        for wrong in (Message("", "k", "1"), Message("go", "k" * 1_000, "1")):
            with pytest.raises(InvalidInput):
                await commands.send_events([Message("go", "new", "1", event_id="new"), wrong])
        assert await commands.send_events([Message("go", "new", "1", event_id="new")]) == [True]


async def test_idle_coordinators_ask_little(shared: Shared) -> None:
    """One statement a second each, and a worker's sign of life. Catalogue H10."""
    journal = failing(random.Random(1), 0)
    async with Crowd(shared, dice=random.Random(5)) as crowd:
        member = await crowd.join()
        crowd.hire(journal, ["work"])
        run_id = await crowd.begin(MEETING, input={"key": "never"})
        while not (await member.core.reads.get_run(run_id)).waits:  # noqa: ASYNC110 - nobody announces it
            await asyncio.sleep(0.01)
        await asyncio.sleep(1.5)
        engine = member.engine
        reads, writes, began = engine.reads, engine.writes, time.monotonic()
        await asyncio.sleep(4)
        passed = time.monotonic() - began

        # `Roving` asks for leases twice a second anew, which costs nothing while nothing is ready.
        assert engine.reads - reads <= passed + 1
        assert engine.writes - writes <= passed * 1_000_000 // LEASE_US + 1


async def test_work_of_a_coordinator_that_was_killed_goes_on_at_another(shared: Shared) -> None:
    """Its worker's report comes in elsewhere, timers and children too; the first never had another chance."""
    journal = failing(random.Random(1), 0)
    async with Crowd(shared, dice=random.Random(6), gossip=Gossip(lambda: True)) as crowd:
        first, _ = await crowd.join(), await crowd.join()
        runs = [await crowd.begin(FAMILY, core=first.core) for _ in range(5)]
        crowd.hire(journal, ["work"])
        await until(lambda: journal.begun)
        await crowd.kill(first)
        await crowd.settle()

        assert await crowd.check() > len(runs)
        assert not journal.overlaps


async def test_a_coordinator_says_what_is_wrong_with_it_and_when_it_is_over(shared: Shared) -> None:
    """Catalogue L11."""
    async with Crowd(shared, dice=random.Random(7)) as crowd:
        member = await crowd.join()
        health = member.core.health
        await asyncio.sleep(0.1)
        assert health.troubles() == {}
        member.engine.fate = lambda: "before"
        member.core.timers.hint(0)
        async with asyncio.timeout(60):
            await until(lambda: "timers" in health.troubles())
            assert health.troubles()["timers"] == "the connection broke"
            member.engine.fate = lambda: ""
            await until(lambda: not health.troubles())


async def test_E9_what_its_loops_cannot_read_ends_no_coordinator(
    shared: Shared, caplog: pytest.LogCaptureFixture
) -> None:
    """Every other one would meet the same row: they are not ready, and go on when it is mended."""
    journal = failing(random.Random(1), 0)
    async with Crowd(shared, dice=random.Random(8)) as crowd:
        member = await crowd.join()
        health = member.core.health
        crowd.hire(journal, ["work"])
        await until(lambda: any(member.core.coordinator.seats.parked()))
        member.engine.fate = lambda: "bug"
        member.core.timers.hint(0)
        member.core.seats.offer()
        async with asyncio.timeout(60):
            await until(lambda: {"timers", "gateway"} <= set(health.troubles()))
            assert health.troubles()["timers"] == "a row that makes no sense"
            member.engine.fate = lambda: ""
            await until(lambda: not health.troubles())
        assert "loop_failed" in caplog.text
        await crowd.begin(FAMILY)
        await crowd.settle()
        assert await crowd.check()

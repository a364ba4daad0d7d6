"""External events: kept until used, each for one wait."""

from __future__ import annotations

import pytest
from tests.support.store import (
    LEASE_US,
    SECOND,
    START,
    TurnedClock,
    a_change,
    a_message,
    a_start,
    commit,
    new_run_id,
)

from tenuto.machine.snapshot import OpenedWait
from tenuto.model.errors import InvalidInput
from tenuto.model.expressions import Message
from tenuto.model.ids import MessageId, Place, RunId
from tenuto.model.payload import Text
from tenuto.ports.store import Claims, LoadRequest, Match, Store

ADDRESS = ("default", "approved", "k")


async def test_the_oldest_unused_message_is_loaded(store: Store, clock: TurnedClock) -> None:
    assert await store.post(a_message("m2", payload='"first"'))
    clock.turn(1)
    assert await store.post(a_message("m1", payload='"später"'))

    loaded = await store.load(LoadRequest(mailbox=(ADDRESS,)))

    assert loaded.mailbox == {ADDRESS: Message(MessageId("m2"), Text(7, '"first"'))}


async def test_a_duplicate_event_id_is_dropped_even_when_the_first_was_used(store: Store) -> None:
    run_id = new_run_id()
    await commit(store, a_start(run_id))
    assert await store.post(a_message("m1", event_id="once"))
    assert not await store.post(a_message("m2", event_id="once"))
    assert await store.post(a_message("m3", event_id="once", namespace="other"))

    await commit(store, a_change(run_id, 1, claims=Claims(messages=(MessageId("m1"),))))

    assert not await store.post(a_message("m4", event_id="once"))
    assert (await store.load(LoadRequest(mailbox=(ADDRESS,)))).mailbox == {}


async def test_an_old_message_is_forgotten(store: Store, clock: TurnedClock) -> None:
    run_id = new_run_id()
    await store.post(a_message("m1", event_id="once", keep_us=SECOND))
    await _open(store, run_id, "w")
    clock.turn(SECOND)

    assert (await store.load(LoadRequest(mailbox=(ADDRESS,)))).mailbox == {}
    assert await _matches(store) == []
    claimed = a_change(run_id, 1, claims=Claims(messages=(MessageId("m1"),)))
    assert (await store.commit([claimed], lease_us=LEASE_US)).losers == {run_id}
    assert await store.post(a_message("m2", event_id="once")), "its id may be used again"


async def test_a_message_that_finds_a_wait_is_matched(store: Store) -> None:
    run_id = new_run_id()
    wait = await _open(store, run_id, "w")

    await store.post(a_message())

    assert (await store.due(limit=10, runs=None)).matches == (
        Match(run_id=run_id, wait=wait, message_id=MessageId("m1"), payload='{"ok":true}'),
    )


async def test_a_message_that_was_there_before_the_wait_is_matched(store: Store) -> None:
    run_id = new_run_id()
    await store.post(a_message())
    assert await _matches(store) == []

    await _open(store, run_id, "w")

    assert await _matches(store) == [("m1", run_id, "w")]


@pytest.mark.parametrize(
    "other", [{"key": "x"}, {"event": "declined"}, {"namespace": "other"}], ids=str
)
async def test_another_address_is_no_match(store: Store, other: dict[str, str]) -> None:
    await _open(store, new_run_id(), "w")

    await store.post(a_message(**other))

    assert await _matches(store) == []


async def test_a_wait_and_a_message_are_each_matched_once(store: Store, clock: TurnedClock) -> None:
    first, second = new_run_id(), new_run_id()
    await _open(store, second, "late", opened_at=START + 1)
    await _open(store, first, "b")
    await _open(store, second, "c", seq=1)
    for name in ("m1", "m2"):
        await store.post(a_message(name))
        clock.turn(1)

    assert await _matches(store) == [("m1", first, "b"), ("m2", second, "c")]

    for name in ("m3", "m4"):
        await store.post(a_message(name))
        clock.turn(1)
    assert await _matches(store) == [
        ("m1", first, "b"),
        ("m2", second, "c"),
        ("m3", second, "late"),
    ]


async def test_a_message_left_over_waits_for_the_next_wait(store: Store) -> None:
    run_id = new_run_id()
    await _open(store, run_id, "w")
    await store.post(a_message("m1"))
    await store.post(a_message("m2"))
    await commit(
        store,
        a_change(
            run_id,
            1,
            claims=Claims(messages=(MessageId("m1"),), waits=((Place("w"), 1),)),
            closed_waits=(Place("w"),),
        ),
    )
    assert await _matches(store) == []

    await _open(store, run_id, "again", seq=2)

    assert await _matches(store) == [("m2", run_id, "again")]


async def test_matches_can_be_asked_for_some_runs_only(store: Store) -> None:
    first, second = new_run_id(), new_run_id()
    await _open(store, first, "w")
    await _open(store, second, "w")
    await store.post(a_message())

    assert await _matches(store, runs=(second,)) == [("m1", second, "w")]


async def test_a_quarantined_run_takes_no_message(store: Store) -> None:
    first, second = new_run_id(), new_run_id()
    await _open(store, first, "w")
    await _open(store, second, "w")
    await store.quarantine(first, "cannot be decided")

    await store.post(a_message())

    assert await _matches(store) == [("m1", second, "w")]


async def test_the_oldest_wait_is_found_however_few_are_asked_for(store: Store) -> None:
    """The older wait belongs to the younger run."""
    first, second = new_run_id(), new_run_id()
    await _open(store, first, "w", opened_at=START + 1)
    await _open(store, second, "w")
    await store.post(a_message())

    assert await _matches(store, limit=1) == [("m1", second, "w")]


async def test_matches_are_limited(store: Store) -> None:
    for n in range(5):
        await _open(store, new_run_id(), "w", key=f"k{n}")
        await store.post(a_message(f"m{n}", key=f"k{n}"))

    assert [name for name, _, _ in await _matches(store, limit=2)] == ["m0", "m1"]


@pytest.mark.parametrize("text", ["a\0b", "half \ud800"])
async def test_an_address_that_cannot_be_stored_is_refused(store: Store, text: str) -> None:
    with pytest.raises(InvalidInput, match="key"):
        await store.post(a_message(key=text))
    with pytest.raises(InvalidInput, match="event"):
        await store.post(a_message(event=text))


async def _open(
    store: Store, run_id: RunId, place: str, *, seq: int = 0, key: str = "k", opened_at: int = START
) -> OpenedWait:
    wait = OpenedWait(Place(place), "approved", key, seq + 1, opened_at)
    if seq:
        await commit(store, a_change(run_id, seq, waits=(wait,)))
    else:
        await commit(store, a_start(run_id, waits=(wait,)))
    return wait


async def _matches(
    store: Store, *, runs: tuple[RunId, ...] | None = None, limit: int = 10
) -> list[tuple[str, RunId, str]]:
    due = await store.due(limit=limit, runs=runs)
    return [(match.message_id, match.run_id, match.wait.place) for match in due.matches]

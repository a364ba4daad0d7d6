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
from tenuto.model.errors import InvalidInput, InvariantViolated
from tenuto.model.expressions import Message
from tenuto.model.ids import MessageId, Place, RunId
from tenuto.model.payload import Text
from tenuto.ports.store import Claims, LoadRequest, Match, Store

ADDRESS = ("default", "approved", "k", None)


async def test_the_oldest_unused_message_is_loaded(store: Store, clock: TurnedClock) -> None:
    assert await store.post([a_message("m2", payload='"first"')]) == [True]
    clock.turn(1)
    assert await store.post([a_message("m1", payload='"später"')]) == [True]

    loaded = await store.load(LoadRequest(mailbox=(ADDRESS,)))

    assert loaded.mailbox == {ADDRESS: Message(MessageId("m2"), Text(7, '"first"'))}


async def test_a_duplicate_event_id_is_dropped_even_when_the_first_was_used(store: Store) -> None:
    """Catalogue H7."""
    run_id = new_run_id()
    await commit(store, a_start(run_id))
    assert await store.post([a_message("m1", event_id="once")]) == [True]
    assert await store.post([a_message("m2", event_id="once")]) == [False]
    assert await store.post([a_message("m3", event_id="once", namespace="other")]) == [True]

    await commit(store, a_change(run_id, 1, claims=Claims(messages=(MessageId("m1"),))))

    assert await store.post([a_message("m4", event_id="once")]) == [False]
    assert (await store.load(LoadRequest(mailbox=(ADDRESS,)))).mailbox == {}


async def test_an_old_message_is_forgotten(store: Store, clock: TurnedClock) -> None:
    """Catalogue H15."""
    run_id = new_run_id()
    await store.post([a_message("m1", event_id="once", keep_us=SECOND)])
    await _open(store, run_id, "w")
    clock.turn(SECOND)

    assert (await store.load(LoadRequest(mailbox=(ADDRESS,)))).mailbox == {}
    assert await _matches(store) == []
    claimed = a_change(run_id, 1, claims=Claims(messages=(MessageId("m1"),)))
    assert (await store.commit([claimed], lease_us=LEASE_US)).losers == {run_id}
    assert await store.post([a_message("m2", event_id="once")]) == [True], (
        "its id may be used again"
    )


async def test_a_message_that_finds_a_wait_is_matched(store: Store) -> None:
    run_id = new_run_id()
    wait = await _open(store, run_id, "w")

    await store.post([a_message()])

    assert (await store.due(limit=10, runs=None)).matches == (
        Match(run_id=run_id, wait=wait, message_id=MessageId("m1"), payload='{"ok":true}'),
    )


async def test_a_message_that_was_there_before_the_wait_is_matched(store: Store) -> None:
    run_id = new_run_id()
    await store.post([a_message()])
    assert await _matches(store) == []

    await _open(store, run_id, "w")

    assert await _matches(store) == [("m1", run_id, "w")]


@pytest.mark.parametrize(
    "other", [{"key": "x"}, {"event": "declined"}, {"namespace": "other"}], ids=str
)
async def test_another_address_is_no_match(store: Store, other: dict[str, str]) -> None:
    await _open(store, new_run_id(), "w")

    await store.post([a_message(**other)])

    assert await _matches(store) == []


@pytest.mark.rule("W6.1")
async def test_each_message_meets_every_wait_for_its_address_oldest_first(
    store: Store, clock: TurnedClock
) -> None:
    """The wait that takes it may be any of them (`match`); who decides keeps the order. Catalogue H8."""
    first, second = new_run_id(), new_run_id()
    await _open(store, second, "late", opened_at=START + 1)
    await _open(store, first, "b")
    await _open(store, second, "d", seq=1)
    await _open(store, second, "c", seq=2)
    for name in ("m1", "m2"):
        await store.post([a_message(name)])
        clock.turn(1)

    waits = [(first, "b"), (second, "c"), (second, "d"), (second, "late")]
    assert await _matches(store) == [(name, *wait) for name in ("m1", "m2") for wait in waits]


async def test_no_message_is_cut_short_of_a_wait(store: Store, clock: TurnedClock) -> None:
    run_id = new_run_id()
    waits = tuple(OpenedWait(Place(f"w{n:02}"), "approved", "k", 1, START) for n in range(15))
    await commit(store, a_start(run_id, waits=waits))
    for name in ("m1", "m2"):
        await store.post([a_message(name)])
        clock.turn(1)

    assert [name for name, _, _ in await _matches(store, limit=1)] == ["m1"] * 15
    assert [name for name, _, _ in await _matches(store, limit=2)] == ["m1"] * 15 + ["m2"] * 15


async def test_a_message_left_over_waits_for_the_next_wait(store: Store) -> None:
    run_id = new_run_id()
    await _open(store, run_id, "w")
    await store.post([a_message("m1")])
    await store.post([a_message("m2")])
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
    await store.post([a_message()])

    assert await _matches(store, runs=(second,)) == [("m1", second, "w")]


async def test_a_quarantined_run_takes_no_message(store: Store) -> None:
    first, second = new_run_id(), new_run_id()
    await _open(store, first, "w")
    await _open(store, second, "w")
    await store.quarantine(first, "cannot be decided")

    await store.post([a_message()])

    assert await _matches(store) == [("m1", second, "w")]


async def test_the_oldest_wait_is_found_however_few_are_asked_for(store: Store) -> None:
    """The older wait belongs to the younger run."""
    first, second = new_run_id(), new_run_id()
    await _open(store, first, "w", opened_at=START + 1)
    await _open(store, second, "w")
    await store.post([a_message()])

    assert await _matches(store, limit=1) == [("m1", second, "w"), ("m1", first, "w")]


async def test_matches_are_limited(store: Store) -> None:
    for n in range(5):
        await _open(store, new_run_id(), "w", key=f"k{n}")
        await store.post([a_message(f"m{n}", key=f"k{n}")])

    assert [name for name, _, _ in await _matches(store, limit=2)] == ["m0", "m1"]


@pytest.mark.parametrize("text", ["a\0b", "half \ud800"])
async def test_an_address_that_cannot_be_stored_is_refused(store: Store, text: str) -> None:
    with pytest.raises(InvalidInput, match="key"):
        await store.post([a_message(key=text)])
    with pytest.raises(InvalidInput, match="event"):
        await store.post([a_message(event=text)])


# -- many at once -------------------------------------------------------------------------------------------------


async def test_of_many_messages_each_event_id_is_kept_once_the_first(store: Store) -> None:
    """The same answers as one after the other."""
    await store.post([a_message("m0", event_id="known")])
    sent = [
        a_message("m1", event_id="z"),
        a_message("m2", event_id="known"),
        a_message("m3"),
        a_message("m4", event_id="z", key="elsewhere"),
        a_message("m5", event_id="known", namespace="other"),
        a_message("m6"),
        a_message("m7", event_id="a"),
    ]

    assert await store.post(sent) == [True, False, True, False, True, True, True]
    assert await _unused(store) == ["m0", "m1", "m3", "m6", "m7"]
    assert await store.post([]) == ()


async def test_of_many_messages_those_wake_somebody_for_which_a_wait_is_open(store: Store) -> None:
    first, second = new_run_id(), new_run_id()
    await _open(store, first, "w", key="a")
    await _open(store, second, "w", key="b")

    await store.post([a_message(f"m{n}", key=key) for n, key in enumerate("bcab")])

    assert await _matches(store) == [("m0", second, "w"), ("m2", first, "w"), ("m3", second, "w")]
    await _open(store, second, "late", seq=1, key="c")
    assert ("m1", second, "late") in await _matches(store)


@pytest.mark.parametrize("wrong", [{"key": "a\0b"}, {"event_id": "half \ud800"}], ids=ascii)
async def test_where_one_cannot_be_stored_none_is(store: Store, wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        await store.post([a_message("m1", event_id="new"), a_message("m2", **wrong)])

    assert await _unused(store) == []
    assert await store.post([a_message("m3", event_id="new")]) == [True]


async def test_many_messages_push_out_at_least_as_many_old_ones(
    store: Store, clock: TurnedClock
) -> None:
    """Or a mailbox that is filled by the hundred would never be emptied. Catalogue H15."""
    old = [a_message(f"old-{n}", event_id=f"e{n}", keep_us=SECOND) for n in range(300)]
    assert all(await store.post(old))
    clock.turn(SECOND)

    await store.post([a_message(f"new-{n}") for n in range(300)])

    again = [a_message(f"again-{n}", event_id=f"e{n}") for n in range(300)]
    assert all(await store.post(again)), "their ids may be used again"


# -- posted by runs -----------------------------------------------------------------------------------------------


async def test_a_run_posts_in_the_commit_of_its_decision(store: Store) -> None:
    run_id, waiting = new_run_id(), new_run_id()
    await _open(store, waiting, "w")

    await commit(store, a_start(run_id, posts=(a_message(),)))

    assert await _matches(store) == [("m1", waiting, "w")]


async def test_a_loser_posts_nothing(store: Store) -> None:
    run_id = new_run_id()

    done = await store.commit([a_change(run_id, 3, posts=(a_message(),))], lease_us=LEASE_US)

    assert done.losers == {run_id}
    assert (await store.load(LoadRequest(mailbox=(ADDRESS,)))).mailbox == {}


async def test_a_message_that_a_run_posts_twice_is_kept_once(
    store: Store, clock: TurnedClock
) -> None:
    """Its event id says so, however it came."""
    run_id = new_run_id()
    await store.post([a_message("m1", event_id="once")])
    twice = (a_message("m2", event_id="once"), a_message("m3", event_id="other"))
    await commit(store, a_start(run_id, posts=twice))
    await commit(store, a_change(run_id, 1, posts=(a_message("m4", event_id="other"),)))

    assert await _unused(store) == ["m1", "m3"]

    clock.turn(61 * SECOND)
    await commit(store, a_change(run_id, 2, posts=(a_message("m5", event_id="once"),)))
    assert await _unused(store) == ["m5"], "its id may be used again"


async def test_a_run_may_post_to_its_own_new_wait_or_before_it(store: Store) -> None:
    run_id = new_run_id()
    wait = OpenedWait(Place("w"), "approved", "k", 1, START)

    await commit(store, a_start(run_id, posts=(a_message(),), waits=(wait,)))

    assert await _matches(store) == [("m1", run_id, "w")]


async def test_an_address_with_nul_is_a_bug_of_the_poster(store: Store) -> None:
    with pytest.raises(InvariantViolated, match="NUL"):
        await store.commit(
            [a_start(new_run_id(), posts=(a_message(key="a\0b"),))], lease_us=LEASE_US
        )


# -- looked at one after another ----------------------------------------------------------------------------------


async def test_messages_are_found_one_after_another(store: Store, clock: TurnedClock) -> None:
    for name in ("m2", "m1", "m3"):
        await store.post([a_message(name)])
        await store.post([a_message(f"other-{name}", key="other")])
        clock.turn(1)
    await store.post([a_message("m0")])
    clock.turn(-1)
    await store.post([a_message("m4")])  # as old as m3

    assert await _unused(store) == ["m2", "m1", "m3", "m4", "m0"]

    gone = (*ADDRESS[:3], MessageId("forgotten"))
    assert (await store.load(LoadRequest(mailbox=(gone,)))).mailbox == {}


async def test_a_used_message_still_says_which_comes_next(store: Store, clock: TurnedClock) -> None:
    run_id = new_run_id()
    await commit(store, a_start(run_id))
    for name in ("m1", "m2"):
        await store.post([a_message(name)])
        clock.turn(1)
    await commit(store, a_change(run_id, 1, claims=Claims(messages=(MessageId("m1"),))))

    after = (*ADDRESS[:3], MessageId("m1"))
    loaded = await store.load(LoadRequest(mailbox=(after, ADDRESS)))
    assert {key[3]: message.id for key, message in loaded.mailbox.items()} == {
        "m1": "m2",
        None: "m2",
    }


async def test_the_waits_of_an_address_are_loaded_oldest_first(store: Store) -> None:
    first, second = new_run_id(), new_run_id()
    late = await _open(store, first, "late", opened_at=START + 1)
    b, c = await _open(store, second, "b"), await _open(store, first, "c", seq=1)
    await _open(store, new_run_id(), "w", key="other")

    loaded = await store.load(LoadRequest(addresses=(ADDRESS[:3], ("default", "approved", "?"))))

    assert loaded.addresses == {ADDRESS[:3]: ((first, c), (second, b), (first, late))}


# -- refused ------------------------------------------------------------------------------------------------------


async def test_a_message_that_every_wait_refused_is_left_alone_until_another_opens(
    store: Store,
) -> None:
    runs = [new_run_id(), new_run_id()]
    waits = [await _open(store, run, "w") for run in runs]
    await store.post([a_message()])
    refusals = [
        (MessageId("m1"), run, wait.place, wait.version)
        for run, wait in zip(runs, waits, strict=True)
    ]

    await store.unhint([MessageId("m1")], refusals[:1])
    assert len(await _matches(store)) == 2, "the other wait has not seen it"

    await store.unhint([MessageId("m1")], refusals)
    assert await _matches(store) == []

    await _open(store, runs[0], "again", seq=1)
    assert [place for _, _, place in await _matches(store)] == ["again", "w", "w"]


@pytest.mark.parametrize("other", ["message", "version"])
async def test_a_refusal_counts_for_its_message_and_that_opening_of_the_wait(
    store: Store, other: str
) -> None:
    run_id = new_run_id()
    wait = await _open(store, run_id, "w")
    await store.post([a_message()])
    refusal = {
        "message": (MessageId("m2"), run_id, wait.place, wait.version),
        "version": (MessageId("m1"), run_id, wait.place, wait.version + 1),
    }[other]

    await store.unhint([MessageId("m1")], [refusal])

    assert len(await _matches(store)) == 1


async def test_a_hinted_message_without_a_wait_is_unmatched_until_it_is_unhinted(
    store: Store,
) -> None:
    run_id = new_run_id()
    await _open(store, run_id, "w")
    await store.post([a_message("m1")])
    await store.post([a_message("m2", key="other")])
    assert (await store.due(limit=9, runs=None)).unmatched == ()
    await commit(store, a_change(run_id, 1, closed_waits=(Place("w"),)))

    assert (await store.due(limit=9, runs=None)).unmatched == ("m1",)
    await store.unhint([MessageId("m1")], [])
    assert (await store.due(limit=9, runs=None)).unmatched == ()

    await _open(store, run_id, "again", seq=2)
    assert await _matches(store) == [("m1", run_id, "again")]


async def test_unhinting_nothing_is_nothing(store: Store) -> None:
    await store.unhint([], [])
    await store.unhint([MessageId("unknown")], [])


async def _unused(store: Store) -> list[str]:
    """Unused messages of the address, found one after another."""
    found: list[str] = []
    after: MessageId | None = None
    while True:
        loaded = await store.load(LoadRequest(mailbox=((*ADDRESS[:3], after),)))
        if not loaded.mailbox:
            return found
        (message,) = loaded.mailbox.values()
        assert message.id is not None
        after = message.id
        found.append(after)


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

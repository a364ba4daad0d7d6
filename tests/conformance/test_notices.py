"""Notices: what runs say to each other, written by who makes it true, used up by who decides it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.store import (
    LEASE_US,
    START,
    TurnedClock,
    a_change,
    a_start,
    a_task,
    commit,
    new_run_id,
    seq_of,
)

from tenuto.model.ids import Place, RunId
from tenuto.ports.store import Claims, LoadRequest, NoticeKind, NoticeRow, Store

CALL = Place("call")


def a_notice(to: RunId, kind: NoticeKind, sender: RunId, **columns: Any) -> NoticeRow:
    values: dict[str, Any] = {"run_id": to, "kind": kind, "place": CALL, "sender": sender}
    return NoticeRow(**(values | columns))


def heard(kind: NoticeKind, sender: RunId, place: Place = CALL, *, sent_at: int = START) -> Claims:
    return Claims(notices=((kind, place, sender, sent_at),))


async def test_C6_a_notice_is_due_until_its_run_has_decided_it(store: Store) -> None:
    parent, child = await _a_family(store)
    notice = a_notice(parent, NoticeKind.SETTLED, child)

    done = await store.commit([a_change(child, 1, notices=(notice,))], lease_us=LEASE_US)

    assert done.told == (parent,)
    assert (await store.due(limit=10, runs=None)).notices == (notice,)
    key = (parent, NoticeKind.SETTLED, CALL)
    assert (await store.load(LoadRequest(notices=(key,)))).notices == {key: notice}

    await commit(store, a_change(parent, 1, claims=heard(NoticeKind.SETTLED, child)))

    assert (await store.due(limit=10, runs=None)).notices == ()
    assert (await store.load(LoadRequest(notices=(key,)))).notices == {}


async def test_a_notice_is_decided_once(store: Store) -> None:
    parent, child = await _a_family(store)
    notice = a_notice(parent, NoticeKind.SETTLED, child)
    await commit(store, a_change(child, 1, notices=(notice,)))
    claims = heard(NoticeKind.SETTLED, child)
    await commit(store, a_change(parent, 1, claims=claims))

    done = await store.commit([a_change(parent, 2, claims=claims)], lease_us=LEASE_US)

    assert done.losers == {parent}
    assert await seq_of(store, parent) == 2


@pytest.mark.parametrize("other", ["kind", "place", "sender", "moment"])
async def test_another_notice_does_not_stand_for_the_one_claimed(store: Store, other: str) -> None:
    parent, child = await _a_family(store)
    await commit(store, a_change(child, 1, notices=(a_notice(parent, NoticeKind.PAUSE, child),)))
    claims = {
        "kind": heard(NoticeKind.SETTLED, child),
        "place": heard(NoticeKind.PAUSE, child, Place("other")),
        "sender": heard(NoticeKind.PAUSE, new_run_id()),
        "moment": heard(NoticeKind.PAUSE, child, sent_at=START + 1),
    }[other]

    done = await store.commit([a_change(parent, 1, claims=claims)], lease_us=LEASE_US)

    assert done.losers == {parent}
    assert len((await store.due(limit=10, runs=None)).notices) == 1


async def test_a_newer_notice_takes_the_place_of_the_one_that_says_the_same(store: Store) -> None:
    parent, child = await _a_family(store)
    first = a_notice(child, NoticeKind.PAUSE, parent)
    newer = a_notice(child, NoticeKind.PAUSE, parent, data='{"freeze":true}')
    other = a_notice(child, NoticeKind.CANCEL, parent)
    await commit(store, a_change(parent, 1, notices=(first, other)))

    await commit(store, a_change(parent, 2, notices=(newer,)))

    due = (await store.due(limit=10, runs=None)).notices
    assert set(due) == {newer, other}


async def test_C6_a_newer_notice_is_not_used_up_by_who_has_read_the_older_one(store: Store) -> None:
    """A resume that comes while the pause is decided must not be lost, not even within one microsecond."""
    parent, child = await _a_family(store)
    first = a_notice(child, NoticeKind.PAUSE, parent)
    await commit(store, a_change(parent, 1, notices=(first,)))
    key = (child, NoticeKind.PAUSE, CALL)
    read = (await store.load(LoadRequest(notices=(key,)))).notices[key]
    await commit(store, a_change(parent, 2, notices=(first,)))

    claims = heard(NoticeKind.PAUSE, parent, sent_at=read.sent_at)
    done = await store.commit([a_change(child, 1, claims=claims)], lease_us=LEASE_US)

    assert done.losers == {child}
    [newer] = (await store.due(limit=10, runs=None)).notices
    assert newer.sent_at > read.sent_at


async def test_a_notice_that_comes_while_one_is_used_up_stays(store: Store) -> None:
    """The one is claimed, the other written, in a single commit."""
    parent, child = await _a_family(store)
    first = a_notice(child, NoticeKind.PAUSE, parent)
    newer = a_notice(child, NoticeKind.PAUSE, parent, data='{"freeze":true}')
    await commit(store, a_change(parent, 1, notices=(first,)))

    await commit(
        store,
        a_change(child, 1, claims=heard(NoticeKind.PAUSE, parent)),
        a_change(parent, 2, notices=(newer,)),
    )

    assert (await store.due(limit=10, runs=None)).notices == (newer,)


async def test_F6_a_start_is_used_up_by_the_commit_that_makes_the_child(store: Store) -> None:
    parent, child = new_run_id(), new_run_id()
    notice = a_notice(child, NoticeKind.START, parent, data='{"depth":1}')
    await commit(store, a_start(parent, a_task(), notices=(notice,)))
    begin = a_start(child, a_task(), claims=heard(NoticeKind.START, parent))

    ends = await asyncio.gather(*(store.commit([begin], lease_us=LEASE_US) for _ in range(5)))

    assert sorted(len(end.losers) for end in ends) == [0, 1, 1, 1, 1]
    assert (await store.due(limit=10, runs=None)).notices == ()


async def test_a_start_of_a_child_that_is_there_can_be_used_up_without_an_event(
    store: Store,
) -> None:
    parent, child = await _a_family(store)
    notice = a_notice(child, NoticeKind.START, parent)
    await commit(store, a_change(parent, 1, notices=(notice,)))
    loaded = await store.load(LoadRequest(runs=(child,)))

    await commit(
        store,
        a_change(
            child,
            1,
            snapshot=loaded.runs[child][1],
            events=(),
            claims=heard(NoticeKind.START, parent),
        ),
    )

    assert (await store.due(limit=10, runs=None)).notices == ()
    assert await seq_of(store, child) == 1


async def test_losers_tell_nobody(store: Store) -> None:
    parent, child = await _a_family(store)
    notice = a_notice(parent, NoticeKind.SETTLED, child)

    done = await store.commit([a_change(child, 9, notices=(notice,))], lease_us=LEASE_US)

    assert done.losers == {child}
    assert done.told == ()
    assert (await store.due(limit=10, runs=None)).notices == ()


async def test_notices_come_oldest_first_and_a_start_before_what_follows_it(
    store: Store, clock: TurnedClock
) -> None:
    parent, child = await _a_family(store)
    unborn = new_run_id()
    cancel = a_notice(unborn, NoticeKind.CANCEL, parent)
    start = a_notice(unborn, NoticeKind.START, parent)
    settled = a_notice(parent, NoticeKind.SETTLED, child)
    await commit(store, a_change(parent, 1, notices=(cancel, start)))
    clock.turn(1)
    await commit(store, a_change(child, 1, notices=(settled,)))

    assert (await store.due(limit=10, runs=None)).notices == (start, cancel, settled)
    assert (await store.due(limit=1, runs=None)).notices == (start, cancel)  # so many of each


async def test_notices_can_be_asked_for_some_runs_only(store: Store) -> None:
    """A child that does not exist yet belongs to who starts it."""
    parent, child = await _a_family(store)
    start = a_notice(new_run_id(), NoticeKind.START, parent)
    settled = a_notice(parent, NoticeKind.SETTLED, child)
    await commit(store, a_change(parent, 1, notices=(start,)))
    await commit(store, a_change(child, 1, notices=(settled,)))

    assert set((await store.due(limit=10, runs=(parent,))).notices) == {start, settled}
    assert (await store.due(limit=10, runs=(child,))).notices == ()


async def test_a_quarantined_run_hears_nothing(store: Store) -> None:
    parent, child = await _a_family(store)
    notice = a_notice(parent, NoticeKind.SETTLED, child)
    await commit(store, a_change(child, 1, notices=(notice,)))

    await store.quarantine(parent, "cannot be decided")
    assert (await store.due(limit=10, runs=None)).notices == ()

    await store.quarantine(parent, None)
    assert (await store.due(limit=10, runs=None)).notices == (notice,)


async def test_a_child_of_a_quarantined_run_does_not_start(store: Store) -> None:
    parent, child = await _a_family(store)
    start = a_notice(new_run_id(), NoticeKind.START, parent)
    settled = a_notice(child, NoticeKind.PAUSE, parent)
    await commit(store, a_change(parent, 1, notices=(start, settled)))

    await store.quarantine(parent, "its child cannot begin")
    assert (await store.due(limit=10, runs=None)).notices == (settled,)

    await store.quarantine(parent, None)
    assert set((await store.due(limit=10, runs=None)).notices) == {start, settled}


async def _a_family(store: Store) -> tuple[RunId, RunId]:
    parent, child = new_run_id(), new_run_id()
    await commit(store, a_start(parent, a_task()), a_start(child, a_task()))
    return parent, child

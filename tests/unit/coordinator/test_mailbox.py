"""What a message may be before it is stored, and who is told of it then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import pytest

from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.coordinator.mailbox import KEEP_US, MANY, Mailbox, Message, new_message
from tenuto.model.errors import InvalidInput
from tenuto.model.names import ADDRESS_MAX
from tenuto.model.payload import PAYLOAD_MAX
from tenuto.ports.store import NewMessage

IDS = Uuid7Ids()


class Shelf:
    """Of a store only this: takes all but what has the event id `known`, and keeps each call."""

    def __init__(self) -> None:
        self.calls: list[Sequence[NewMessage]] = []
        self.open = asyncio.Event()
        self.open.set()

    async def post(self, messages: Sequence[NewMessage]) -> Sequence[bool]:
        self.calls.append(messages)
        await self.open.wait()
        return [message.event_id != "known" for message in messages]


def a_mailbox(shelf: Shelf) -> tuple[Mailbox, list[object]]:
    """And what it tells, in order."""
    told: list[object] = []

    def expect(ids: Iterable[str]) -> None:
        told.append(list(ids))

    return Mailbox(shelf, ids=IDS, on_post=told.append, expect=expect), told  # type: ignore[arg-type]


async def test_many_messages_are_one_call_and_one_hint() -> None:
    shelf = Shelf()
    mailbox, told = a_mailbox(shelf)
    sent = [Message("e", "k", "1"), Message("e", "k", "2", event_id="known"), Message("e", "", "3")]

    assert await mailbox.post(sent, namespace="other") == [True, False, True]

    [call] = shelf.calls
    assert [message.payload for message in call] == ["1", "2", "3"]
    assert {message.namespace for message in call} == {"other"}
    assert [message.id for message in call] == sorted(message.id for message in call)
    assert told == [[call[0].id, call[2].id], 0]


async def test_what_was_known_already_is_told_to_nobody() -> None:
    mailbox, told = a_mailbox(Shelf())

    assert await mailbox.post([Message("e", "k", "1", "known")], namespace="default") == [False]
    assert told == []


async def test_nothing_is_stored_where_one_is_wrong() -> None:
    shelf = Shelf()
    mailbox, _ = a_mailbox(shelf)

    with pytest.raises(InvalidInput):
        await mailbox.post([Message("e", "k", "1"), Message("", "k", "1")], namespace="default")

    assert shelf.calls == []


async def test_posts_of_many_take_turns_and_hold_up_no_others() -> None:
    """Each of their addresses is a lock of the database meanwhile."""
    shelf = Shelf()
    mailbox, _ = a_mailbox(shelf)
    shelf.open.clear()
    async with asyncio.TaskGroup() as group:
        for count in (MANY + 1, MANY + 2, MANY, 1):
            sent = [Message("e", f"k{n}", "1") for n in range(count)]
            group.create_task(mailbox.post(sent, namespace="default"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [len(call) for call in shelf.calls] == [MANY + 1, MANY, 1]
        shelf.open.set()
    assert len(shelf.calls[-1]) == MANY + 2


def test_a_message_within_its_bounds_is_kept_for_seven_days() -> None:
    longest = "x" * ADDRESS_MAX
    message = new_message(IDS, Message(longest, longest, "x" * PAYLOAD_MAX, event_id=longest))

    assert message.keep_us == KEEP_US == 7 * 86_400 * 1_000_000
    assert message.id != new_message(IDS, Message("e", "", "1")).id


@pytest.mark.parametrize(
    ("event", "key", "event_id", "payload", "path"),
    [
        ("", "k", None, "1", "event"),
        ("x" * (ADDRESS_MAX + 1), "k", None, "1", "event"),
        ("e", "x" * (ADDRESS_MAX + 1), None, "1", "key"),
        ("e", "k", "x" * (ADDRESS_MAX + 1), "1", "event_id"),
        ("e", "k", None, "é" * (PAYLOAD_MAX // 2 + 1), "payload"),
    ],
)
def test_a_message_beyond_its_bounds_is_refused_by_name(
    event: str, key: str, event_id: str | None, payload: str, path: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        new_message(IDS, Message(event, key, payload, event_id=event_id))

    assert refused.value.path == path


def test_a_message_may_be_kept_shorter_but_not_for_no_time() -> None:
    assert new_message(IDS, Message("e", "", "1", keep_us=5)).keep_us == 5
    with pytest.raises(InvalidInput) as refused:
        new_message(IDS, Message("e", "", "1", keep_us=0))

    assert refused.value.path == "keep"

"""Reads one slot of a queue: new entries, those that were pending here before, those that the dead left.

Theory of operation. A pass asks for as many hints as free slots want, without waiting, highest priority first, and
every eighth by age alone; only when nothing is there it blocks for the next one, on a connection of its own. Entries
stay pending until the verdict on their task, which comes in milliseconds: so whatever is pending for 30 s belonged to
somebody who is gone, and never covers work under way. Source: reliability.md 2F.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tenuto.adapters.redis.link import BLOCK_MS, FAULTS, Client, Link, is_no_group
from tenuto.adapters.redis.shelf import AGED, Shelf, Shelved
from tenuto.adapters.redis.streams import (
    GROUP,
    PRIORITIES,
    SWEEP,
    TAKE,
    Slot,
    read_entry,
)
from tenuto.runtime.backoff import Backoff
from tenuto.runtime.service import pause

AGED_EVERY = 8
"""Of so many hints one is the longest waiting, whatever its priority: no priority starves another."""
IDLE_MS = 30_000
"""Entries pending for so long are claimed from whoever had them."""
RECLAIM_S = 10.0
CLAIM_COUNT = 50
SWEEP_S = 60.0
CONSUMER_IDLE_MS = 600_000


@dataclass(slots=True)
class Crowd:
    """How many readers of this process may find something now."""

    active: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ears:
    """Whom a reader tells.

    Attributes:
        found: hints of a slot are on the shelf.
        nobody: hints whose names no worker here knows.
        junk: (stream, entry) that cannot be read.
        missing: streams of a slot were not there.
        fault: Redis failed.
        spare: less was found than there was room for: others may look.
    """

    found: Callable[[Slot], None]
    nobody: Callable[[Sequence[Shelved]], None]
    junk: Callable[[str, str], None]
    missing: Callable[[Slot], None]
    fault: Callable[[BaseException], None]
    spare: Callable[[], None]


class Reader:
    """One slot's reader; runs until cancelled.

    Args:
        me: the consumer's name.
        draw: chance for back-off.
    """

    def __init__(
        self,
        slot: Slot,
        link: Link,
        shelf: Shelf,
        crowd: Crowd,
        ears: Ears,
        *,
        me: str,
        draw: Callable[[], float],
    ) -> None:
        self.slot = slot
        self.hungry = asyncio.Event()
        self.over = False
        """Set before it is cancelled: redis-py swallows a cancellation now and then."""
        self._link = link
        self._shelf = shelf
        self._crowd = crowd
        self._ears = ears
        self._me = me
        self._streams = slot.streams
        self._numbers = dict(zip(self._streams, PRIORITIES, strict=True))
        self._backoff = Backoff(draw, max_us=1_000_000)
        self._credit = 0
        self._reclaim_at = 0.0
        self._sweep_at = asyncio.get_running_loop().time() + SWEEP_S

    async def run(self) -> None:
        """Read until cancelled; a connection that failed is closed, and made anew."""
        never = asyncio.Event()
        client: Client = None
        self._crowd.active += 1
        try:
            while not self.over:
                try:
                    if client is None:
                        client = await self._link.reader(self._streams[0])
                        await self._read_own(client)
                    await self._pass(client)
                    self._backoff.reset()
                except FAULTS as error:
                    if is_no_group(error):
                        self._ears.missing(self.slot)  # the next pass makes it
                    else:
                        await _close(client)
                        client = None
                        self._ears.fault(error)
                        await self._resolve()
                    await pause(never, self._backoff.next_us())
        finally:
            self._crowd.active -= 1
            await _close(client)

    async def _resolve(self) -> None:
        try:
            await self._link.resolve()
        except FAULTS as error:
            self._ears.fault(error)

    async def _pass(self, client: Client) -> None:
        now = asyncio.get_running_loop().time()
        count = self._shelf.reserve(self.slot.queue, self._crowd.active)
        if not count:
            self._crowd.active -= 1
            try:
                await self.hungry.wait()
            finally:
                self._crowd.active += 1
            self.hungry.clear()
            return
        try:
            found = await self._take(client, count)
            if not found and now >= self._reclaim_at:
                self._reclaim_at = now + RECLAIM_S
                found = await self._reclaim(client)
        finally:
            self._shelf.arrive(self.slot.queue, count)
        if found < count:
            self._ears.spare()
        if found:
            return
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_S
            for stream in self._streams:
                await client.eval(SWEEP, 1, stream, GROUP, self._me, CONSUMER_IDLE_MS)
        await self._block(client)

    async def _take(self, client: Client, count: int) -> int:
        self._credit += count
        aged, self._credit = divmod(self._credit, AGED_EVERY)
        made, entries = await client.eval(
            TAKE, len(self._streams), *self._streams, GROUP, self._me, count, aged
        )
        if made:
            self._ears.missing(self.slot)
        self._credit += AGED_EVERY * aged if not entries else 0
        self._credit = min(self._credit, AGED_EVERY)
        return self._put(
            (self._streams[number - 1], bool(for_age), entry, fields)
            for number, for_age, entry, fields in entries
        )

    async def _block(self, client: Client) -> None:
        self._crowd.active -= 1
        try:
            reply = await client.execute_command(
                "XREADGROUP", "GROUP", GROUP, self._me, "COUNT", 1, "BLOCK", BLOCK_MS,
                "STREAMS", *self._streams, *(">" for _ in self._streams),
            )  # fmt: skip
        finally:
            self._crowd.active += 1
        self._put((stream, False, *entry) for stream, entry in entries_of(reply))

    async def _read_own(self, client: Client) -> None:
        """What was read on a connection whose answer was lost is pending for us."""
        made, _ = await client.eval(TAKE, len(self._streams), *self._streams, GROUP, self._me, 0, 0)
        if made:
            self._ears.missing(self.slot)
        for stream in self._streams:
            reply = await client.execute_command(
                "XREADGROUP", "GROUP", GROUP, self._me, "COUNT", CLAIM_COUNT, "STREAMS", stream, "0"
            )
            self._put((stream, False, *entry) for _, entry in entries_of(reply))

    async def _reclaim(self, client: Client) -> int:
        found = 0
        for stream in self._streams:
            cursor = "0-0"
            while True:
                cursor, entries, *_ = await client.execute_command(
                    "XAUTOCLAIM", stream, GROUP, self._me, IDLE_MS, cursor, "COUNT", CLAIM_COUNT
                )  # fmt: skip
                found += self._put((stream, False, entry, fields) for entry, fields in entries)
                if cursor == "0-0":  # an empty page may have a cursor still
                    break
        return found

    def _put(self, entries: Any) -> int:
        """Shelve entries (stream, taken for its age, id, fields). Returns how many there were."""
        now = asyncio.get_running_loop().time()
        strangers: list[Shelved] = []
        items: list[Shelved] = []
        count = 0
        for stream, for_age, entry, fields in entries:
            count += 1
            if self._shelf.holds(stream, entry):
                continue
            priority = self._numbers[stream]
            hint = read_entry(self.slot.queue, priority, flat(fields))
            if hint is None:
                self._ears.junk(stream, entry)
                continue
            item = Shelved(
                hint=hint, at=now, rank=AGED if for_age else priority, stream=stream, entry=entry
            )
            (strangers if self._shelf.is_strange(hint) else items).append(item)
        if strangers:
            self._ears.nobody(strangers)
        if self._shelf.put(items):
            self._ears.found(self.slot)
        return count


def entries_of(reply: Any) -> list[tuple[str, tuple[str, Any]]]:
    """(stream, (id, fields)) of what XREADGROUP answers, by whichever protocol."""
    pairs = reply.items() if isinstance(reply, dict) else reply or ()
    found: list[tuple[str, tuple[str, Any]]] = []
    for stream, entries in pairs:
        for entry in entries:
            # redis-py wraps the entries of a stream once more by some protocols
            inner = entry if entry and isinstance(entry[0], list | tuple) else [entry]
            found += [(stream, (each[0], each[1])) for each in inner]
    return found


def flat(fields: Any) -> Sequence[Any]:
    """Fields and values in turn; nothing of an entry that is deleted."""
    if isinstance(fields, dict):
        return [part for pair in fields.items() for part in pair]
    return fields or ()


async def _close(client: Client) -> None:
    if client is None:
        return
    try:
        try:
            await client.aclose()
        finally:
            await client.connection_pool.disconnect()
    except FAULTS:
        pass  # it was broken already

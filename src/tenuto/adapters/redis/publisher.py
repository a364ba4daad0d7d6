"""Brings hints to the streams and keeps them there: what commits left, what others left behind, what Redis lost.

Theory of operation. A row's hint is added to its stream first and noted in the row afterwards, so a death between the
two makes two hints, never none. Most tasks are granted, and their rows gone, within milliseconds: so the note is
written only for what still waits a quarter of a second later. A stream holds so many entries at most; what is beyond
waits in the database. A queue that no living worker serves is not published at all.

What Redis loses is found in three ways. Emptied as a whole: its epoch is another one, and rows of other epochs are
nobody's again. A stream that is missing, or a new connection: the queue's published rows are compared with what is in
its streams. A single hint: the same for rows that were published a minute ago, ever more rarely for the same row.
Nothing here decides anything: a grant is a compare-and-set.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from tenuto.adapters.redis.link import FAULTS, Link, ended, is_of_key
from tenuto.adapters.redis.shelf import Shelf, Shelved
from tenuto.adapters.redis.streams import (
    EPOCH,
    GIVE_BACK,
    GROUP,
    PRESENT,
    SWEEP,
    Slot,
    fields_of,
    stream_of,
)
from tenuto.model.errors import Unavailable
from tenuto.model.ids import Place, RunId
from tenuto.ports.dispatch import Hint
from tenuto.ports.gateway import ALL_QUEUES
from tenuto.ports.ready import ASIDE, ReadyRows, Survey
from tenuto.runtime.backoff import Backoff
from tenuto.runtime.logging import get_logger
from tenuto.runtime.service import pause

WINDOW = 10_000
"""Entries of one stream: some hundred bytes each, so a queue that nobody empties costs a few megabytes."""
OFFERS_MAX = 50_000
"""Hints of our own commits that wait here; beyond them the poll finds the rows."""
BATCH = 500
POLL_S = 1.0
QUIET_S = 5.0
"""Between two looks at the rows while nothing happens here; the poll of `timers` says when rows wait (`look`)."""
AGAIN_S = 0.1
"""Between two full batches of a backlog: 5,000 a second, so a flood leaves room for what is new."""
MARK_S = 0.25
HOLD_S = 0.5
"""A hint that nobody here claimed for so long goes back to the others."""
OLDER_US = 1_000_000
"""Rows that whoever wrote them has had the time to publish."""
STALE_S = 0.6
"""With the delay of the note less than `OLDER_US`."""
TAKEN_US = 2_000_000
CHECK_S = 20.0
LAPSED_US = 60_000_000
MISSING_S = 2.0
CHECK_MAX = 1_000
QUEUES_MAX = 20
"""Queues whose backlog one poll looks at; the others are next."""
WARN_S = 10.0

_log = get_logger("dispatch")


class Publisher:
    """All that writes to Redis, but for the readers' own.

    Args:
        me: name of this process among the consumers; epochs that it makes are called after it.
        shards: of each queue; the same for every coordinator.
        prefix: of every key; that of the installation.
    """

    def __init__(
        self,
        store: ReadyRows,
        link: Link,
        shelf: Shelf,
        *,
        me: str,
        draw: Callable[[], float],
        shards: int = 1,
        prefix: str = "",
        window: int = WINDOW,
    ) -> None:
        self.wake = asyncio.Event()
        self._store = store
        self._link = link
        self._shelf = shelf
        self._me = me
        self._shards = shards
        self._prefix = prefix
        self._window = window
        self._draw = draw
        self._look_soon = asyncio.Event()
        self._over = False
        self._fault: BaseException | None = None
        self._backoff = Backoff(draw, max_us=1_000_000)
        self._epoch = ""
        self._epochs = 0
        self._survey = Survey()
        self._queues: set[str] = set()
        """Every queue that a hint was seen of: what a worker of all queues is served from."""
        self._offers: deque[tuple[float, Hint]] = deque()
        self._acks: deque[tuple[str, str]] = deque()
        self._asides: list[Shelved] = []
        self._marks: deque[tuple[float, str, list[Hint]]] = deque()
        """When they were offered, to which epoch they went."""
        self._lengths: dict[str, int] = {}
        self._later: dict[str, float] = {}
        """Queues whose backlog is not looked at, and behind which no hint goes, before then: their streams are full."""
        self._missing: dict[str, float] = {}
        self._turn = 0
        self._surveyed_at = 0.0
        self._stirred = True
        """Something has happened since the last survey."""
        self._poll_at = 0.0
        self._check_at = 0.0
        self._warn_at = 0.0

    # -- told by others -------------------------------------------------------------------------------------------

    def offered(self, hints: Sequence[Hint]) -> None:
        """A commit left these rows."""
        now = _now()
        room = OFFERS_MAX - len(self._offers)
        self._offers.extend((now, hint) for hint in hints[:room])
        self._queues.update(hint.queue for hint in hints)
        self._stirred = True
        self.wake.set()

    def ack(self, items: Iterable[Shelved]) -> None:
        """The tasks of these are decided: their entries go."""
        self._acks.extend((i.stream, i.entry) for i in items if i.stream and i.entry)
        self.wake.set()

    def drop(self, stream: str, entry: str) -> None:
        """An entry that means nothing."""
        self._acks.append((stream, entry))
        self.wake.set()

    def set_aside(self, items: Sequence[Shelved]) -> None:
        """Nobody here can do these: whoever can claims them from the database."""
        self._asides += items
        self.wake.set()

    def look(self) -> None:
        """There may be rows that nobody offered."""
        if not self._stirred and _now() >= self._surveyed_at + POLL_S:
            self._stirred = True
            self.probe()

    def missing(self, queue: str) -> None:
        """A stream of this queue was not there: what was in it is lost."""
        self._stirred = True
        if queue not in self._missing:
            self._missing[queue] = _now() + MISSING_S

    def probe(self) -> None:
        """Something is wrong with Redis: look now."""
        self._poll_at = 0.0
        self._look_soon.set()

    def serves(self, queue: str) -> bool:
        """Whether a living worker anywhere serves a queue."""
        served = self._survey.served
        return (
            queue in served
            or ALL_QUEUES in served
            or self._shelf.all_queues
            or queue in self._shelf.queues()
        )

    def slots(self) -> frozenset[Slot]:
        """What the workers here are served from."""
        queues = set(self._shelf.queues())
        if self._shelf.all_queues:
            queues |= self._queues
        return frozenset(
            Slot(queue, n, self._prefix) for queue in queues for n in range(self._shards)
        )

    # -- the loop -------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """On a new connection: learn the epoch, and look at all that was published. Raises what Redis raises."""
        self._lengths.clear()
        self._later.clear()
        self._poll_at = 0.0
        self._stirred = True
        await self._learn_epoch()
        for queue in self._known_queues():
            self.missing(queue)

    async def work(
        self, stopping: asyncio.Event, group: asyncio.TaskGroup, tend: Callable[[], None]
    ) -> None:
        """Carry until told to stop; `tend` is called after each pass. Raises what Redis raises.

        Hints and answers go by themselves: whatever takes longer is done beside them, in a task of `group`.
        """
        self._fault = None
        upkeep = group.create_task(self._upkeep(), name="dispatch upkeep")
        try:
            while not stopping.is_set():
                self.wake.clear()
                if self._fault is not None:
                    raise self._fault
                try:
                    await self._carry()
                    await self._put_aside()
                    self._backoff.reset()
                except Unavailable:  # the store: its own services say so
                    await pause(stopping, self._backoff.next_us())
                tend()
                if not (self._offers or self._acks or self._asides):
                    await self.wake.wait()
        finally:
            self._over = True
            await ended({upkeep})
            self._over = False

    async def _upkeep(self) -> None:
        backoff = Backoff(self._draw, max_us=1_000_000)
        never = asyncio.Event()
        while not self._over:
            self._look_soon.clear()
            try:
                await self._look_after()
                backoff.reset()
            except Unavailable:
                await pause(never, backoff.next_us())
            except FAULTS as error:
                self._fault = error
                self.wake.set()
                return
            await self._sleep()

    async def leave(self) -> None:
        """Nothing of ours stays behind. Raises what Redis raises."""
        try:
            await self._carry()
            await self._mark(everything=True)
        except Unavailable:
            pass  # published twice, then
        await self._give_back(self._shelf.take_if(lambda _: True))
        for slot in self.slots():
            for stream in slot.streams:
                await self._link.commands.eval(SWEEP, 1, stream, GROUP, self._me, 0)

    async def _sleep(self) -> None:
        """Until something of the upkeep is due; notes and hints at hand are looked at so often anyway."""
        until = min([self._poll_at, *self._missing.values(), _now() + MARK_S])
        try:
            async with asyncio.timeout_at(max(until, _now() + 0.001)):
                await self._look_soon.wait()
        except TimeoutError:
            return

    async def _look_after(self) -> None:
        await self._mark()
        await self._return_overdue()
        now = _now()
        if now >= self._poll_at:
            self._poll_at = now + POLL_S
            await self._mark(everything=True)  # or they look as if nobody had them
            await self._learn_epoch()
            if not self._is_quiet() and await self._poll():
                self._poll_at = _now() + AGAIN_S
        for queue, at in list(self._missing.items()):
            if now >= at and not await self._check(queue, at_once=True):
                self._missing.pop(queue, None)
        if now >= self._check_at:
            self._check_at = now + CHECK_S
            for queue in self._known_queues():
                await self._check(queue, at_once=False)

    def _is_quiet(self) -> bool:
        """Whether the rows need no look: the last one found nothing to do, and nothing has happened since."""
        survey = self._survey
        return (
            not (survey.unpublished or survey.aside or survey.stale or self._stirred)
            and _now() < self._surveyed_at + QUIET_S
        )

    async def _learn_epoch(self) -> None:
        """Ask for the epoch and make it where there is none; a write, so it also says whether writing is possible."""
        made = f"redis:{self._me}:{self._epochs}"
        found = await self._link.commands.set(self._prefix + EPOCH, made, nx=True, get=True)
        epoch = found or made
        if found is None:
            self._epochs += 1
        if self._epoch and epoch != self._epoch:
            self._warn("redis_emptied", note="what was queued there is offered again")
            self._stirred = True
            self._lengths.clear()
            self._later.clear()
        self._epoch = epoch

    # -- carrying -------------------------------------------------------------------------------------------------

    async def _carry(self) -> None:
        """Add hints of our commits, drop decided entries: one round trip. Raises what Redis raises."""
        if _now() >= self._surveyed_at + AGAIN_S and not all(
            self.serves(hint.queue) for _, hint in islice(self._offers, BATCH)
        ):
            await self._look()  # a worker may just have come, elsewhere
        hints: list[tuple[float, Hint]] = []
        while self._offers and len(hints) < BATCH:
            offer = self._offers.popleft()
            if offer[0] <= _now() - STALE_S:
                continue  # anybody's poll may have it by now, and would publish it twice
            if self.serves(offer[1].queue) and offer[1].queue not in self._later:
                hints.append(offer)
        acks = [self._acks.popleft() for _ in range(min(len(self._acks), BATCH))]
        if hints or acks:
            try:
                sent = await self._send([hint for _, hint in hints], acks)
            except FAULTS:
                self._acks.extendleft(reversed(acks))
                raise
            if sent:
                self._marks.append((hints[-1][0], self._epoch, sent))

    async def _send(self, hints: Sequence[Hint], acks: Sequence[tuple[str, str]]) -> list[Hint]:
        """Returns the hints that are in a stream now; those beyond its window are not."""
        pipe = self._link.pipeline()
        plan: list[tuple[str, Any]] = []
        for hint in hints:
            stream = stream_of(hint, self._shards, self._prefix)
            length = self._lengths.get(stream, 0)
            if length >= self._window:
                self._later[hint.queue] = _now() + TAKEN_US / 1_000_000
                continue
            self._lengths[stream] = length + 1
            pipe.execute_command("XADD", stream, "*", *fields_of(hint))
            plan.append(("add", hint))
        for stream in dict.fromkeys(stream_of(hint, self._shards, self._prefix) for hint in hints):
            pipe.execute_command("XLEN", stream)
            plan.append(("length", stream))
        by_stream: dict[str, list[str]] = {}
        for stream, entry in acks:
            by_stream.setdefault(stream, []).append(entry)
        for stream, entries in by_stream.items():
            pipe.execute_command("XACK", stream, GROUP, *entries)
            pipe.execute_command("XDEL", stream, *entries)
            plan += [("ack", stream), ("ack", stream)]
        replies = await pipe.execute(raise_on_error=False)
        return await self._read_replies(plan, replies)

    async def _read_replies(
        self, plan: Sequence[tuple[str, Any]], replies: Sequence[Any]
    ) -> list[Hint]:
        sent: list[Hint] = []
        refused: list[Hint] = []
        fault: BaseException | None = None
        for (what, about), reply in zip(plan, replies, strict=True):
            if isinstance(reply, BaseException):
                if not is_of_key(reply):
                    fault = fault or reply
                elif what == "add":
                    refused.append(about)
            elif what == "add":
                sent.append(about)
            elif what == "length":
                self._lengths[about] = int(reply)
        if refused:
            stream = stream_of(refused[0], self._shards, self._prefix)
            self._warn("stream_refused", stream=stream, note="its key holds something else")
            await self._store.mark_published(refused, ASIDE, age_us=0)
        if fault is not None:
            if sent:
                self._marks.append((_now(), self._epoch, sent))
            raise fault
        return sent

    async def _mark(self, *, everything: bool = False) -> None:
        now = _now()
        while self._marks and (everything or self._marks[0][0] <= now - MARK_S):
            at, epoch, hints = self._marks[0]
            age_us = int((now - at) * 1_000_000)
            await self._store.mark_published(hints, epoch, age_us=age_us)
            self._marks.popleft()

    async def _put_aside(self) -> None:
        items, self._asides = self._asides, []
        if not items:
            return
        try:
            await self._store.mark_published([i.hint for i in items], ASIDE, age_us=0)
        except Unavailable:
            self._asides = items + self._asides
            raise
        self._shelf.drop(items)
        self.ack(items)

    async def _return_overdue(self) -> None:
        before = _now() - HOLD_S
        overdue = self._shelf.take_if(lambda item: item.at <= before)
        strange = [item for item in overdue if self._shelf.is_strange(item.hint)]
        if strange:
            self.set_aside(strange)
        await self._give_back([item for item in overdue if item not in strange])

    async def _give_back(self, items: Sequence[Shelved]) -> None:
        by_stream: dict[str, list[Shelved]] = {}
        for item in items:
            if item.stream is not None:
                by_stream.setdefault(item.stream, []).append(item)
        try:
            for stream, some in by_stream.items():
                words = [
                    word
                    for i in some
                    for word in (i.entry, i.hint.run_id, i.hint.place, i.hint.name)
                ]
                await self._link.commands.eval(GIVE_BACK, 1, stream, GROUP, *words)
        finally:
            self._shelf.drop(items)  # if it failed, they are pending here, and read again

    # -- the backlog ----------------------------------------------------------------------------------------------

    def _known_queues(self) -> list[str]:
        served = self._survey.served | self._shelf.queues()
        if ALL_QUEUES in served or self._shelf.all_queues:
            served |= self._queues
        return sorted(served - {ALL_QUEUES})

    async def _look(self) -> Survey:
        self._stirred = False
        survey = self._survey = await self._store.survey(self._epoch)
        self._surveyed_at = _now()
        if self._shelf.all_queues and not self._queues.issuperset(survey.unpublished):
            self.wake.set()  # further readers
        self._queues.update(survey.unpublished)
        return survey

    async def _poll(self) -> bool:
        """Publish what nobody has. True: there is more."""
        survey = await self._look()
        more = False
        if survey.stale:
            more = bool(await self._store.unpublish_stale(self._epoch, BATCH))
        if survey.aside:
            await self._shelve_aside()
        await self._look_at_full()
        waiting = [q for q in survey.unpublished if self.serves(q) and q not in self._later]
        if not waiting:
            return more
        self._turn = (self._turn + QUEUES_MAX) % len(waiting)
        some = (waiting[self._turn :] + waiting[: self._turn])[:QUEUES_MAX]
        limit = max(BATCH // len(some), 25)
        hints = await self._store.take_unpublished(
            dict.fromkeys(some, limit), older_us=OLDER_US, again_us=TAKEN_US
        )
        if not hints:
            return more
        if self._offers:  # ours among them would be published twice
            taken = {(hint.run_id, hint.place) for hint in hints}
            self._offers = deque(
                each for each in self._offers if (each[1].run_id, each[1].place) not in taken
            )
        sent = await self._send(hints, ())
        await self._store.mark_published(sent, self._epoch, age_us=0)
        return more or len(waiting) > len(some) or len(hints) >= limit

    async def _look_at_full(self) -> None:
        """Full streams that have room again take hints at once."""
        now = _now()
        full = [stream for stream, length in self._lengths.items() if length >= self._window]
        if full:
            pipe = self._link.pipeline()
            for stream in full:
                pipe.execute_command("XLEN", stream)
            for stream, reply in zip(full, await pipe.execute(raise_on_error=False), strict=True):
                if isinstance(reply, BaseException):
                    raise reply
                self._lengths[stream] = int(reply)
        for queue, at in list(self._later.items()):
            if now >= at or not any(
                self._lengths.get(stream, 0) >= self._window
                for n in range(self._shards)
                for stream in Slot(queue, n, self._prefix).streams
            ):
                del self._later[queue]

    async def _shelve_aside(self) -> None:
        queues = self._shelf.queues() | (self._queues if self._shelf.all_queues else set())
        names = self._shelf.names()
        free = self._shelf.free()
        if not (queues and names and free):
            return
        hints = await self._store.aside(sorted(queues), sorted(names), free)
        now = _now()
        items = (Shelved(hint=hint, at=now, rank=hint.priority) for hint in hints)
        if self._shelf.put(items):
            self._shelf.tell()

    # -- what Redis lost ------------------------------------------------------------------------------------------

    async def _check(self, queue: str, *, at_once: bool) -> bool:
        """Compare published rows of a queue with its streams. True: there are more to compare."""
        hints = await self._lapsed(queue, at_once=at_once)
        if not hints:
            return False
        present: set[tuple[RunId, Place]] = set()
        for stream in dict.fromkeys(stream_of(hint, self._shards, self._prefix) for hint in hints):
            present |= await self._present(stream)
        here = [hint for hint in hints if (hint.run_id, hint.place) in present]
        lost = [hint for hint in hints if (hint.run_id, hint.place) not in present]
        await self._store.mark_published(here, self._epoch, age_us=0)
        if lost:
            # What was granted since the rows were read has left the stream by right, and its row is gone too.
            ready = {(h.run_id, h.place) for h in await self._lapsed(queue, at_once=at_once)}
            lost = [hint for hint in lost if (hint.run_id, hint.place) in ready]
        if lost:
            self._warn("hints_lost", queue=queue, count=len(lost), note="they are offered again")
            await self._store.unpublish(lost, self._epoch)
            self._stirred = True
            self._poll_at = 0.0
        return len(hints) >= CHECK_MAX

    async def _lapsed(self, queue: str, *, at_once: bool) -> Sequence[Hint]:
        return await self._store.lapsed(
            self._epoch,
            queue,
            older_us=OLDER_US if at_once else LAPSED_US,
            limit=CHECK_MAX,
            spaced=not at_once,
        )

    async def _present(self, stream: str) -> set[tuple[RunId, Place]]:
        found: set[tuple[RunId, Place]] = set()
        begin = "-"
        while begin:
            begin, some = await self._link.commands.eval(
                PRESENT, 1, stream, GROUP, begin, CHECK_MAX
            )
            found |= {(RunId(run), Place(place)) for run, place in some}
        return found

    def _warn(self, event: str, **fields: Any) -> None:
        """A line, but not one for each of a thousand."""
        if _now() >= self._warn_at:
            self._warn_at = _now() + WARN_S
            _log.warning(event, redis=str(self._link.address), **fields)


def _now() -> float:
    return asyncio.get_running_loop().time()

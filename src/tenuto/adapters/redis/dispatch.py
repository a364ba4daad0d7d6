"""`ports.dispatch.Dispatch` through Redis Streams, and through the database whenever Redis cannot be used.

Theory of operation. One session lasts as long as a connection: a publisher in front, a reader for each slot of each
queue that workers here serve. Any fault ends it, a bug of ours too; from then on claims go to the database, which has
every ready row, and a new session is tried at least once a second. Hints at hand outlive a session: they are granted by
compare-and-set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from tenuto.adapters.redis.link import FAULTS, Link, complaint, ended
from tenuto.adapters.redis.publisher import WINDOW, Publisher
from tenuto.adapters.redis.reader import Crowd, Ears, Reader
from tenuto.adapters.redis.shelf import Shelf, Shelved
from tenuto.adapters.redis.streams import Slot
from tenuto.model.errors import InvalidInput, Unavailable
from tenuto.ports.dispatch import Hint, Want
from tenuto.ports.ready import HintVerdict, ReadyRows
from tenuto.ports.store import Granted, GrantRequest
from tenuto.runtime.backoff import Backoff
from tenuto.runtime.logging import get_logger
from tenuto.runtime.service import pause

ROUNDS_MAX = 4
"""Grants of one claim: after so many whose hints were stale, the next offer goes on."""

_log = get_logger("dispatch")


class RedisDispatch:
    """Dispatch over one Redis.

    Args:
        incarnation: names this process among the consumers.
        on_offer: told when something may be claimed.
        draw: chance for back-off.
        shards, window: of each queue, and entries of each stream (`publisher`).
        prefix: of every key; that of the installation.
    """

    name = "redis"

    def __init__(
        self,
        store: ReadyRows,
        link: Link,
        *,
        incarnation: str,
        on_offer: Callable[[], None],
        draw: Callable[[], float],
        shards: int = 1,
        prefix: str = "",
        window: int = WINDOW,
    ) -> None:
        self._store = store
        self._link = link
        self._me = incarnation
        self._on_offer = on_offer
        self._draw = draw
        self._shelf = Shelf(on_offer)
        self._crowd = Crowd()
        self._publisher = Publisher(
            store,
            link,
            self._shelf,
            me=incarnation,
            draw=draw,
            shards=shards,
            prefix=prefix,
            window=window,
        )
        self._readers: dict[Slot, tuple[Reader, asyncio.Task[None]]] = {}
        self._backoff = Backoff(draw, max_us=1_000_000)
        self._trouble: str | None = "not connected yet"
        self._said: str | None = None
        self._warned: str | None = None

    @property
    def trouble(self) -> str | None:
        """Why claims go to the database just now; None while Redis is in use."""
        return self._trouble

    # -- the port -------------------------------------------------------------------------------------------------

    async def claim(self, request: GrantRequest) -> Sequence[Granted]:
        if request.runs is not None:  # of these runs only: no stream is sorted by that
            return await self._store.grant(request)
        granted = await self._claim_hinted(request)
        if not granted:
            self._publisher.look()
        left = request.lease_ids[len(granted) :]
        if left and self._trouble is not None:
            try:
                granted += await self._store.grant(replace(request, lease_ids=left))
            except Unavailable:
                if not granted:
                    raise
        self._stir()
        return granted

    async def _claim_hinted(self, request: GrantRequest) -> list[Granted]:
        granted: list[Granted] = []
        for _ in range(ROUNDS_MAX):
            left = request.lease_ids[len(granted) :]
            picked = self._shelf.pick(request, len(left))
            if not picked:
                break
            try:
                grants = await self._store.grant_hinted(
                    replace(request, lease_ids=left), [item.hint for item in picked]
                )
            except BaseException as error:
                self._shelf.put_back(picked)
                if granted and isinstance(error, Unavailable):
                    break
                raise
            granted += grants.granted
            decided: list[Shelved] = []
            undecided: list[Shelved] = []
            for item in picked:
                match grants.verdicts.get((item.hint.run_id, item.hint.place)):
                    case HintVerdict.GRANTED | HintVerdict.TAKEN | HintVerdict.GONE:
                        decided.append(item)
                    case HintVerdict.HELD:
                        self._publisher.set_aside([item])
                    case HintVerdict.BUSY | None:
                        undecided.append(item)
            self._shelf.drop(decided)
            self._publisher.ack(decided)
            if undecided:
                self._shelf.put_back(undecided)
                break
        return granted

    def offered(self, hints: Sequence[Hint]) -> None:
        if hints:
            self._publisher.offered(hints)
            if self._trouble is not None:
                self._on_offer()

    def want(self, wants: Sequence[Want]) -> None:
        self._shelf.want(wants)
        self._stir()
        if self._publisher.slots() != self._readers.keys():
            self._publisher.wake.set()

    # -- the service ----------------------------------------------------------------------------------------------

    async def run(self, stopping: asyncio.Event) -> None:
        """Keep a session with Redis until told to stop."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._wake_at(stopping))
                while not stopping.is_set():
                    try:
                        error = await self._session(stopping)
                    except Exception as bug:  # noqa: BLE001 - the database does without hints
                        _log.exception("dispatch_failed")
                        error = bug
                    if error is None:
                        return
                    self._fall_back(error)
                    await pause(stopping, self._backoff.next_us())
                    self._on_offer()  # rows of others come without a word
        finally:
            await self._link.close()

    async def _wake_at(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        self._publisher.wake.set()

    async def _session(self, stopping: asyncio.Event) -> BaseException | None:
        """One connection's life. Returns what ended it; None: it was told to stop."""
        try:
            await self._link.open()
            await self._publisher.begin()
        except (InvalidInput, *FAULTS) as error:
            return error
        self._take_up()
        async with asyncio.TaskGroup() as group:
            try:
                await self._publisher.work(stopping, group, lambda: self._tend(group))
                await self._end_readers()  # or they would take what is given back
                await self._publisher.leave()
            except FAULTS as error:
                return error
            finally:
                await self._end_readers()
        return None

    def _tend(self, group: asyncio.TaskGroup) -> None:
        """A reader for each slot that workers here are served from, and no other."""
        wanted = self._publisher.slots()
        for slot in self._readers.keys() - wanted:
            self._end(slot)
        for slot in sorted(wanted - self._readers.keys(), key=lambda s: (s.queue, s.shard)):
            ears = Ears(
                found=self._found,
                nobody=self._publisher.set_aside,
                junk=self._publisher.drop,
                missing=lambda slot: self._publisher.missing(slot.queue),
                fault=lambda _: self._publisher.probe(),
                spare=self._stir,
            )
            reader = Reader(
                slot, self._link, self._shelf, self._crowd, ears, me=self._me, draw=self._draw
            )
            task = group.create_task(reader.run(), name=f"dispatch {slot.queue}.{slot.shard}")
            self._readers[slot] = reader, task

    async def _end_readers(self) -> None:
        tasks = {task for _, task in self._readers.values()}
        for slot in list(self._readers):
            self._end(slot)
        await ended(tasks)

    def _end(self, slot: Slot) -> None:
        reader, task = self._readers.pop(slot)
        reader.over = True
        reader.hungry.set()  # nobody stirs it any more, if its cancellation is swallowed
        task.cancel()

    def _found(self, slot: Slot) -> None:
        entry = self._readers.pop(slot, None)
        if entry is not None:
            self._readers[slot] = entry  # whoever found something is asked last the next time
        self._on_offer()

    def _stir(self) -> None:
        """Somebody may have room: readers that wait look again, in the order of their turns."""
        for reader, _ in self._readers.values():
            reader.hungry.set()

    def _take_up(self) -> None:
        self._backoff.reset()
        self._trouble = None
        if self._link.warning not in {None, self._warned}:
            self._warned = self._link.warning
            _log.warning("redis_may_lose_streams", note=self._warned)
        _log.info("redis_in_use", redis=str(self._link.address))
        self._said = None

    def _fall_back(self, error: BaseException) -> None:
        self._trouble = complaint(error, self._link.address)
        if self._said != self._trouble:
            self._said = self._trouble
            _log.warning(
                "redis_not_used",
                reason=self._trouble,
                note="tasks are handed out from the database until it can be used",
            )
        self._on_offer()

"""PostgreSQL as an SqlEngine: several transactions at a time, each on a connection of its own. No SQL but transactions.

Theory of operation. A job waits for a *lane*: a task of the engine's that owns at most one connection. So a caller that
is cancelled leaves its job alone: a COMMIT is never cut off, a connection never left in the middle of something. A lane
that had trouble with its connection closes it and opens another; what had not been committed is run again, whole, a few
times. What was lost in COMMIT is unknown, so it is told as Unavailable and run by nobody but the caller, who looks
first. One lane is kept for what must not wait behind commits: heartbeats and grants.

A job that is done at once if all is as hoped (`AtOnce`) is one call of one function, and that call is the whole
transaction: one journey instead of four (BEGIN, checks, writes, COMMIT). It counts as a COMMIT: if its connection is
lost, it is unknown what became of it. So a connection that nobody has used for a while goes the long way, where BEGIN
finds out whether it still lives. If the function says that something was not as hoped, it has written nothing, and the
job goes the long way, too. Through a pooler the call is made inside a transaction, which says the settings.

Functions that have vanished from the server are done without until they are made anew (`mending`): what called them is
run again, one statement after the other.

While the server is away everybody is told at once, and one lane tries again, later and later.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import orjson

from tenuto.adapters.postgres.address import Address
from tenuto.adapters.postgres.connecting import Link, connect
from tenuto.adapters.postgres.errors import Fate, fate_of, is_undone, translate
from tenuto.adapters.postgres.mending import Mending
from tenuto.adapters.postgres.routines import Routine, Routines, routine
from tenuto.adapters.sql.dialect import POSTGRES, Dialect, turned
from tenuto.adapters.sql.engine import AtOnce, Job, Param, Row, Step
from tenuto.adapters.sql.sequences import sequences, whole_commit, whole_post
from tenuto.model.errors import InvariantViolated, TenutoError, Unavailable
from tenuto.ports.clock import Clock
from tenuto.runtime.backoff import Backoff
from tenuto.runtime.logging import get_logger

T = TypeVar("T")

_BOUNDED = re.compile(r"CAST\(\$(\d+) AS jsonb\)->-1->>0")

POOL = 8
ACQUIRE_S = 5.0
"""How long a job waits for a lane."""
WAITING_MAX = 2_000
"""Jobs that wait for one; beyond, callers had better do less."""
FORKED_S = 3_600.0
"""How long it is said that another server took over; it stands in the log, too."""
TRIES = 8
"""Of a job whose transaction lost against others. Each waits longer than the last: some 0.5 s together."""
AGAIN_S = 5.0
"""After this no new try begins: whoever holds the lock that it wants holds it for long."""
STATEMENT_S = 15.0
"""When a statement is given up; longer than the server's own limit, so only a silent network gets there."""
QUIET_S = 10.0
"""After this an unused connection may have died unseen: no commit is the first to find out, it would be unknown."""

_log = get_logger("postgres")


@dataclass(slots=True, eq=False)
class _Ticket:
    """A job on its way, and where its end is told."""

    job: Job[Any]
    writes: bool
    urgent: bool
    future: asyncio.Future[Any] = field(repr=False)
    expiry: asyncio.TimerHandle | None = None
    until: float = 0.0
    """When it has waited long enough, by the loop's clock."""
    committing: bool = False

    def fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def succeed(self, result: object) -> None:
        if not self.future.done():  # cancelled; its outcome is unknown to the caller
            self.future.set_result(result)


class _Hope(NamedTuple):
    """A call that may be all of a job, and how its row is read."""

    call: Step
    read: Callable[[Row], Any]


class PostgresEngine:
    """One open database. Make it with `open_engine`, use it on that loop, close it there.

    Args:
        address: where.
        name: of this process, for pg_stat_activity.
        pool: most connections.
        draw: chance for the moments of new tries.
        heard: is told the database's time, and when it was asked for, by the loop's clock.
        turned_clock: the database's time in tests.
        before_commit: called between the last statement and each COMMIT, and before a call that commits (fault
            injection).
    """

    def __init__(
        self,
        address: Address,
        *,
        name: str,
        draw: Callable[[], float],
        pool: int = POOL,
        heard: Callable[[int], None] | None = None,
        turned_clock: Clock | None = None,
        before_commit: Callable[[], None] | None = None,
    ) -> None:
        assert pool >= 1
        self.address = address
        self.dialect: Dialect = POSTGRES if turned_clock is None else turned(POSTGRES)
        self.commits = 0
        self.routines = Routines(())
        """What is called together; set once the server has their functions, and while it has them."""
        self._name = name
        self._pool = pool
        self._draw = draw
        self._heard = heard
        self._lineage: str | None = None
        self._forked: tuple[float, str] | None = None
        self._on_fork: list[Callable[[], None]] = []
        self._turned = turned_clock
        self._before_commit = before_commit
        self._generation = 0
        self._links: list[Link] = []
        self._opening = 0
        self._closed = False
        self._away: Unavailable | None = None
        self._away_until = 0.0
        self._backoff = Backoff(draw, initial_us=100_000)
        self._waiting: deque[_Ticket] = deque()
        self._urgent: deque[_Ticket] = deque()
        # The last to fall idle is the first to be used: few connections are open while there is little to do.
        self._idle: list[asyncio.Future[_Ticket | None]] = []
        self._reserve: list[asyncio.Future[_Ticket | None]] = []
        self._lanes: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._mending = Mending(address, name=name, draw=draw, put=self._call)

    async def write(self, job: Job[T], *, durable: bool = True) -> T:
        """As the port says. All is durable here: whoever holds a lease may outlive the server's power cut.

        What may be lost is also what must not wait, so it may use the last lane.
        """
        return await self._submit(job, writes=True, urgent=not durable)

    async def read(self, job: Job[T]) -> T:
        return await self._submit(job, writes=False, urgent=False)

    def launch(self, job: Job[None]) -> None:
        """Read without anybody waiting for it; what becomes of it is not told. Callable from any thread."""
        if self._loop is not None and not self._closed:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._enqueue, job)

    def _enqueue(self, job: Job[None]) -> None:
        if self._closed or len(self._waiting) >= WAITING_MAX:
            return
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        ticket = _Ticket(job, writes=False, urgent=False, future=future)
        if not self._hand_over(ticket):
            self._waiting.append(ticket)

    def heard(self, now: int) -> None:
        """The database's time, as an answer said it."""
        if self._heard is not None:
            self._heard(now)

    def sequences(self) -> list[Routine]:
        """What could be called together."""
        together = [routine(texts) for texts in sequences(self.dialect)]
        wholes = (whole_commit(self.dialect), whole_post(self.dialect))
        return [*together, *map(routine, wholes)]

    def _call(self, routines: Routines) -> None:
        self.routines = routines

    @property
    def is_away(self) -> Unavailable | None:
        """Why nothing can be done just now."""
        return self._away

    @property
    def forked(self) -> str | None:
        """What is to be said of another server that took over lately: it may not have all that was committed."""
        if self._forked is None or asyncio.get_running_loop().time() > self._forked[0]:
            return None
        return self._forked[1]

    def on_fork(self, told: Callable[[], None]) -> None:
        """Call this before anything is read from a server that took over."""
        self._on_fork.append(told)

    def start(self) -> None:
        """Open for jobs."""
        self._loop = asyncio.get_running_loop()
        self._lanes = self._loop.create_task(self._serve(), name="postgres")

    async def close(self) -> None:
        """Finish what waits, then close all connections. Repeatable."""
        self._closed = True
        for idle in (*self._idle, *self._reserve):
            if not idle.done():
                idle.set_result(None)
        if self._lanes is not None:
            await asyncio.wait([self._lanes])
        await self._mending.close()

    # -- lanes

    async def _submit(self, job: Job[T], *, writes: bool, urgent: bool) -> T:
        loop = asyncio.get_running_loop()
        # REST works its documents out on a loop of its own.
        if self._loop is not None and loop is not self._loop:
            over = self._submit(job, writes=writes, urgent=urgent)
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(over, self._loop))
        if self._closed:
            raise Unavailable(f"{self.address.shown} is closed")
        if self._away is not None and loop.time() < self._away_until:
            raise Unavailable(str(self._away))
        if len(self._waiting) + len(self._urgent) >= WAITING_MAX:
            raise Unavailable(f"{self.address.shown} has too much to do: {WAITING_MAX:,} jobs wait")
        future: asyncio.Future[T] = loop.create_future()
        ticket = _Ticket(job, writes, urgent, future, until=loop.time() + ACQUIRE_S)
        if not self._hand_over(ticket):
            (self._urgent if urgent else self._waiting).append(ticket)
            ticket.expiry = loop.call_later(ACQUIRE_S, self._expire, ticket)
        return await future

    def _hand_over(self, ticket: _Ticket) -> bool:
        for idle in (self._idle, self._reserve) if ticket.urgent else (self._idle,):
            while idle:
                waiter = idle.pop()
                if not waiter.done():
                    waiter.set_result(ticket)
                    return True
        return False

    def _expire(self, ticket: _Ticket) -> None:
        ticket.fail(
            Unavailable(
                f"{self.address.shown}: all {self._pool} connections were busy for {ACQUIRE_S:.0f} s;"
                " make the pool larger, or do less at a time"
            )
        )

    async def _next(self, *, reserved: bool) -> _Ticket | None:
        while True:
            for queue in (self._urgent,) if reserved else (self._urgent, self._waiting):
                while queue:
                    ticket = queue.popleft()
                    if ticket.expiry is not None:
                        ticket.expiry.cancel()
                    if not ticket.future.done():
                        return ticket
            if self._closed:
                return None
            waiter: asyncio.Future[_Ticket | None] = asyncio.get_running_loop().create_future()
            (self._reserve if reserved else self._idle).append(waiter)
            ticket_or_none = await waiter
            if ticket_or_none is not None or self._closed:
                return ticket_or_none

    async def _serve(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for n in range(self._pool):
                    reserved = n == 0 and self._pool > 1
                    group.create_task(self._lane(reserved=reserved), name=f"postgres-{n}")
        finally:
            self._closed = True
            for ticket in (*self._urgent, *self._waiting):
                ticket.fail(Unavailable(f"{self.address.shown} is closed"))

    async def _lane(self, *, reserved: bool) -> None:
        link: Link | None = None
        try:
            while (ticket := await self._next(reserved=reserved)) is not None:
                try:
                    link = await self._carry_out(ticket, link)
                except Exception as error:  # noqa: BLE001 - a bug is its job's error, and must not end the lane unseen
                    _log.exception("job_failed")
                    ticket.fail(translate(error, self.address.shown))
                    if link is not None:
                        self._end(link)
                    link = None
                except BaseException as error:
                    ticket.fail(translate(error, self.address.shown))
                    raise
        finally:
            if link is not None:
                self._end(link)

    # -- one job

    async def _carry_out(self, ticket: _Ticket, link: Link | None) -> Link | None:
        """Run a job until it is done, lost or given up. Returns the connection, if it is still good."""
        retries = Backoff(self._draw, initial_us=5_000, max_us=200_000)
        lost = 0
        loop = asyncio.get_running_loop()
        until = loop.time() + AGAIN_S
        for tries in range(1, TRIES + 1):
            try:
                link = await self._open(link)
            except TenutoError as error:
                if self._has_others():
                    await self._hand_back(ticket)
                else:
                    ticket.fail(error)
                return None
            ticket.committing = False
            called = self.routines
            try:
                ticket.succeed(await self._drive(ticket, link))
                return link
            except Exception as error:  # noqa: BLE001 - an error belongs to its job
                fate = fate_of(error)
                if fate is Fate.UNMADE and called is self.routines:  # else it is being seen to
                    self._mending.vanished(called)
                if not await self._tidy(link, fate):
                    link = None
                unknown = (
                    ticket.committing
                    and fate in (Fate.GONE, Fate.ALL_GONE)
                    and not is_undone(error)
                )
                lost += fate in (Fate.GONE, Fate.ALL_GONE)
                # What the network lost is tried once more: an old connection may have died unseen.
                over = tries == TRIES or loop.time() > until
                if unknown or fate is Fate.FAILED or lost > 1 or over:
                    ticket.fail(self._told(error, unknown=unknown))
                    return link
                if fate is Fate.AGAIN:
                    await asyncio.sleep(retries.next_us() / 1_000_000)
        return link

    def _has_others(self) -> bool:
        """Whether some lane has a connection, or is about to have one."""
        return self._opening > 0 or any(not link.raw.is_closed() for link in self._links)

    async def _hand_back(self, ticket: _Ticket) -> None:
        """No further connection is to be had (the server has no more, perhaps): let the others do it, and rest."""
        loop = asyncio.get_running_loop()
        if not self._hand_over(ticket):
            (self._urgent if ticket.urgent else self._waiting).appendleft(ticket)
            ticket.expiry = loop.call_at(ticket.until, self._expire, ticket)
        await asyncio.sleep(self._backoff.next_us() / 1_000_000)

    def _end(self, link: Link) -> None:
        self._links = [other for other in self._links if other is not link]
        link.end()

    def _told(self, error: BaseException, *, unknown: bool) -> TenutoError:
        told = translate(error, self.address.shown)
        if unknown:
            return Unavailable(f"{told}; whether its last transaction was committed is unknown")
        return told

    async def _tidy(self, link: Link, fate: Fate) -> bool:
        """After an error: whether the connection is good, with no transaction open."""
        if fate is Fate.ALL_GONE:
            self._generation += 1
        if fate in (Fate.AGAIN, Fate.UNMADE, Fate.FAILED) and not link.raw.is_closed():
            try:
                async with asyncio.timeout(STATEMENT_S):
                    if link.raw.is_in_transaction():
                        await link.raw.execute("ROLLBACK")
                    return True
            except Exception:  # noqa: BLE001 - then it goes
                self._end(link)
                return False
        self._end(link)
        return False

    async def _open(self, link: Link | None) -> Link:
        """A connection that is good as far as is known. Raises Unavailable; says so once."""
        if link is not None:
            if link.born == self._generation and not link.raw.is_closed():
                return link
            self._end(link)
        loop = asyncio.get_running_loop()
        if self._away is not None and loop.time() < self._away_until:
            raise Unavailable(str(self._away))
        try:
            # Others wait for the outcome of this try.
            self._away_until = loop.time() + STATEMENT_S if self._away is not None else 0.0
            generation = self._generation
            self._opening += 1
            try:
                link = await connect(self.address, name=self._name)
            finally:
                self._opening -= 1
        except TenutoError as error:
            if self._has_others():
                raise
            if self._away is None:
                _log.warning("database_away", reason=str(error))
            self._away = Unavailable(str(error))
            self._away_until = loop.time() + self._backoff.next_us() / 1_000_000
            raise
        self._compare(link.lineage)
        link.born = generation
        link.used = loop.time()
        self._links.append(link)
        if self._away is not None:
            _log.info("database_back", database=self.address.shown)
            self._away = None
        self._backoff.reset()
        return link

    def _compare(self, lineage: str | None) -> None:
        """Whether this is still the server that took the commits so far (D4)."""
        before = self._lineage
        self._lineage = lineage or before
        if lineage is None or before in (None, lineage):
            return
        said = (
            f"{self.address.shown} is another server now ({lineage}; before: {before}): unless it was a synchronous "
            "standby, what was confirmed in the last moments may be lost"
        )
        _log.error("database_replaced", reason=said)
        self._forked = asyncio.get_running_loop().time() + FORKED_S, said
        for told in self._on_fork:
            told()
        self._mending.doubt(self.routines)  # its copy may be of before they were made

    async def _drive(self, ticket: _Ticket, link: Link) -> Any:
        """Run one job's steps, a write in a transaction. Every statement has its own deadline."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(None) as scope:

            async def ask(text: str, params: Sequence[Param]) -> Row | None:
                scope.reschedule(loop.time() + STATEMENT_S)
                found = await link.raw.fetchrow(text, *params)
                return None if found is None else tuple(found)

            scope.reschedule(loop.time() + STATEMENT_S)
            if self._turned is not None:
                await self._turn(link, self._turned.now())
            hope = self._hope(ticket.job, link)
            if hope is not None and not link.bounced:
                self._begin_commit(ticket)
                row = await ask(*hope.call)
                if row is not None:
                    self.commits += 1
                    link.used = loop.time()
                    return hope.read(row)
                hope, ticket.committing = None, False  # nothing was written
            if transaction := ticket.writes or link.bounced:
                await link.raw.execute(link.begin)
            row = None if hope is None else await ask(*hope.call)
            if hope is not None and row is not None:
                result = hope.read(row)
            else:
                result = await self._walk(ticket.job, ask)
            if transaction:
                if ticket.writes:
                    self._begin_commit(ticket)
                scope.reschedule(loop.time() + STATEMENT_S)
                await link.raw.execute("COMMIT")
                self.commits += 1
            link.used = loop.time()
        return result

    async def _walk(
        self, job: Job[T], ask: Callable[[str, Sequence[Param]], Awaitable[Row | None]]
    ) -> T:
        """The long way: one group after the other, as the job makes them up."""
        steps = job()
        try:
            group = next(steps)
            while True:
                row: Row | None = None
                self._refuse_unsorted(group)
                for text, params in self.routines.folded(group):
                    row = await ask(text, params)
                group = steps.send(row)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            steps.close()

    def _hope(self, job: Job[Any], link: Link) -> _Hope | None:
        """The one call that may be all of a job, if there is one and this connection is sure to carry it."""
        if not isinstance(job, AtOnce):
            return None
        self._refuse_unsorted(job.group)
        call = self.routines.at_once(job.group)
        quiet = asyncio.get_running_loop().time() - link.used >= QUIET_S
        return None if call is None or (quiet and not link.bounced) else _Hope(call, job.read)

    def _refuse_unsorted(self, group: Sequence[Step]) -> None:
        if self._turned is not None:
            for text, params in group:
                refuse_unsorted(text, params)

    def _begin_commit(self, ticket: _Ticket) -> None:
        """From here on nobody but the server knows what becomes of it."""
        if self._before_commit is not None:
            self._before_commit()
        ticket.committing = True

    async def _turn(self, link: Link, now: int) -> None:
        """Let the server take this for the time (tests)."""
        if link.told != now:
            await link.raw.execute(f"SET tenuto.now = '{now}'")
            link.told = now


def refuse_unsorted(text: str, params: Sequence[Param]) -> None:
    """Raise InvariantViolated where a set's rows are not sorted by run: its bounds would leave some out (tests)."""
    for number in {int(n) for n in _BOUNDED.findall(text)}:
        param = params[number - 1]
        runs = [str(row[0]) for row in orjson.loads(str(param))] if param is not None else []
        if runs != sorted(runs):
            raise InvariantViolated(
                f"rows are not sorted by run, as the bounds of ${number} want them: {text}"
            )

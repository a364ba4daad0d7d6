"""Letting everything happen that can without time going on, and turning the clock from due moment to due moment.

Theory of operation. All of it runs on the engine's loop. The engine has come to rest when, over some turns of the loop,
no job of the database is open or begun, no work is under way, every lease of the worker hangs by a mock, and the store
says that nothing which can be decided is due. Work that takes real time is waited for, within a bound.

Turning the clock goes from moment to moment, so that no back-off, wait or deadline fires later than its own instant,
and what it makes possible has happened before the next one.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import traceback
from collections.abc import AsyncIterator, Iterable
from types import CodeType

from tenuto.machine.events import Deadline
from tenuto.model.errors import TenutoError
from tenuto.model.ids import Place, RunId
from tenuto.ports.gateway import Lease
from tenuto.ports.reads import Reads, TaskFilter
from tenuto.ports.store import Due, DueTask
from tenuto.testing.stage import HandStage
from tenuto.views.timeline import node_of
from tenuto.worker.registry import Registry

DUE_MAX = 100
TURNS = 12
"""Turns of the loop without news after which nothing is on its way in memory: the longest chain between two jobs of the
database (a report's answer to the next attempt's beginning) takes six."""
PAGE = 500


class StillRunning(TenutoError):
    """The engine has not come to rest within the time that it was given. `nodes`: where work is under way."""

    exit_code = 1

    def __init__(self, patience_s: float, lines: Iterable[str], nodes: tuple[str, ...]) -> None:
        self.nodes = nodes
        listed = "".join(f"\n  {line}" for line in lines)
        super().__init__(
            f"something still runs after {patience_s:g} s of real time, and the clock waits for it:"
            f"{listed}\nA task that waits for real time cannot be hurried: mock it, or give more with"
            " patience=…"
        )


class Settling:
    """The hand on the clock of one engine. `patience_s`: how long, in real time, it waits for work."""

    def __init__(
        self, stage: HandStage, reads: Reads, registry: Registry, patience_s: float
    ) -> None:
        self._stage = stage
        self._parts = stage.parts
        self._reads = reads
        self._registry = registry
        self._patience_s = patience_s

    async def drain(self, patience_s: float | None = None, *, works: bool = True) -> None:
        """Let everything happen that can happen now. Raises StillRunning.

        Args:
            works: wait for work that takes real time, too.
        """
        patience_s = self._patience_s if patience_s is None else patience_s
        database, timers = self._parts.database, self._parts.timers
        try:
            async with asyncio.timeout(patience_s):
                while True:
                    await self._quiet(works=works)
                    await self._parts.runner.beat()
                    await self._quiet(works=works)
                    jobs, steps = database.jobs, self._stage.steps
                    due = await self._parts.store.due(limit=DUE_MAX, runs=None)
                    if self._can_move(due):
                        timers.hint(0)
                    elif (await self._turns()) and (database.jobs, self._stage.steps) == (
                        jobs + 1,
                        steps,
                    ):
                        return
        except TimeoutError:
            leases = tuple(self._stage.working.values())
            raise StillRunning(
                patience_s,
                [self._where(lease) for lease in leases] or ["the engine itself"],
                tuple(node_of(lease.place) for lease in leases),
            ) from None

    async def turn_to(self, until: int) -> None:
        """Turn the clock to this moment, stopping at every due one on the way. Raises StillRunning."""
        await self.drain()
        while (moment := await self.next_moment()) is not None and moment <= until:
            await self.turn(moment)
        await self.turn(until)

    async def turn(self, moment: int) -> None:
        """Set the clock to this moment, which must not lie behind a due one, and let everything happen."""
        self._stage.clock.turn(moment)
        self._stage.alarms.ring()
        await self._quiet(works=True)
        self._parts.timers.hint(0)
        await self.drain()

    async def next_moment(self) -> int | None:
        """The next moment after now at which something is due. None: never."""
        now = self._stage.clock.now()
        pulse = await self._parts.store.pulse(None, after=now)
        moments = [pulse.timers_at, self._stage.alarms.next()]
        if self._stage.hanging:
            moments += [moment async for moment in self._task_moments()]
        else:
            moments.append(pulse.tasks_at)
        coming = [moment for moment in moments if moment is not None and moment > now]
        return min(coming, default=None)

    # -- coming to rest ----------------------------------------------------------------------------------------------

    async def _quiet(self, *, works: bool) -> None:
        """Wait until nothing moves in memory, in the database or, with `works`, at work."""
        stage, database = self._stage, self._parts.database
        while True:
            if database.open_jobs:
                await asyncio.wait(tuple(database.open_jobs), return_when=asyncio.FIRST_COMPLETED)
            elif works and stage.working:
                stage.changed.clear()
                await stage.changed.wait()
            elif await self._turns():
                left = self._parts.runner.held - len(stage.hanging)
                if not left or (not works and left <= len(stage.working)):
                    return
                await asyncio.sleep(0.001)  # an attempt that waits for an earlier one's function

    async def _turns(self) -> bool:
        """Whether nothing new begins for some turns of the loop."""
        stage, database = self._stage, self._parts.database
        before = database.jobs, stage.steps
        for _ in range(TURNS):
            await asyncio.sleep(0)
            if (database.jobs, stage.steps) != before or database.open_jobs:
                return False
        return True

    def _can_move(self, due: Due) -> bool:
        told = due.timers or due.matches or due.notices or due.unmatched
        return bool(told) or any(map(self._is_over, due.tasks))

    def _is_over(self, task: DueTask) -> bool:
        """Whether recovery would end it: what the worker holds ends at the worker (ADR 0007)."""
        if task.lease is None or task.deadline not in (None, Deadline.ATTEMPT):
            return True
        return not self._parts.runner.holds(task.lease.lease_id)

    async def _task_moments(self) -> AsyncIterator[int | None]:
        """Deadlines of open tasks. Ends of leases are left out where the worker holds them: it renews them."""
        before: tuple[RunId, Place] | None = None
        while True:
            wanted = TaskFilter(states=("pending", "running"), before=before, limit=PAGE)
            rows = await self._reads.list_tasks(wanted)
            for row in rows:
                lease = row.lease
                if lease is None:
                    yield row.task.queue_until
                    continue
                yield lease.attempt_until
                yield lease.heartbeat_until
                if not self._parts.runner.holds(lease.lease_id):
                    yield lease.lease_until
            if len(rows) < PAGE:
                return
            before = (rows[-1].run_id, rows[-1].task.place)

    # -- saying why not ----------------------------------------------------------------------------------------------

    def _where(self, lease: Lease) -> str:
        node = node_of(lease.place)
        task = self._registry.find(lease.name)
        what = "" if lease.name == node else f" ({lease.name})"
        line = f"{node}{what}, attempt {lease.attempt}"
        if task is None:
            return line
        return line + _line_of(task.function)


def _line_of(function: object) -> str:
    """Where a function is at this moment, if a thread runs it; else where it is written."""
    code = getattr(inspect.unwrap(function), "__code__", None)  # type: ignore[arg-type]
    if not isinstance(code, CodeType):
        return ""
    for frame in sys._current_frames().values():  # noqa: SLF001 - documented, for exactly this
        found = [each for each, _ in traceback.walk_stack(frame) if each.f_code is code]
        if found:
            return f": {code.co_filename}:{found[0].f_lineno} in {code.co_name}"
    return f": {code.co_filename}:{code.co_firstlineno} {code.co_name}"

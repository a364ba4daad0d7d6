"""What other coordinators have decided, for those who wait here: ends, events, notes and changed runs, read anew.

Asks nothing while nobody waits. Else at news, when a follower lacks something, and at least once a second: one
statement tells how far all awaited runs are, and only of those that moved on is more read. Where nobody else works on
the store it only fills gaps, which an answer of the store that was lost may leave.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from tenuto.coordinator.rounds import Rounds, woken
from tenuto.coordinator.setting import Setting
from tenuto.coordinator.watch import Watchers
from tenuto.model.ids import RunId
from tenuto.ports.reads import Reads, RunFilter
from tenuto.ports.store import Progress, RunRow, Store

WATCH_US = 1_000_000
RUNS_MAX = 1_000
"""Awaited runs asked about in one statement."""
EVENTS_MAX = 500
NOTES_MAX = 200
"""The newest notes of a followed run that are looked at."""
NOTED_MAX = 20
"""Followed runs whose notes are looked at in one round, in turn: each costs a statement."""
LATELY_US = 2 * WATCH_US
LISTED_MAX = 200
"""Newest runs compared for those who listen to all: as many as a page shows."""


class Watching:
    """The loop behind `Watchers`."""

    name = "watching"

    def __init__(self, store: Store, reads: Reads, watchers: Watchers, setting: Setting) -> None:
        self._store = store
        self._reads = reads
        self._watchers = watchers
        self._sole = setting.sole
        self._clock = setting.clock
        self._rounds = Rounds(self.name, setting, failed=self._failed)
        self._listed: Mapping[RunId, RunRow] = {}
        self._noted = 0

    def hear(self) -> None:
        """Others have ended runs."""
        if not self._sole:
            self._watchers.gap.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Work until told to stop."""
        async with woken(stopping, self._watchers.gap, self._watchers.awaited):
            while not stopping.is_set():
                await self._rest()
                if not stopping.is_set():
                    await self._rounds.go(self._look, stopping)

    def _failed(self, _: Exception) -> None:
        self._watchers.gap.set()

    async def _rest(self) -> None:
        """Until there may be something to read."""
        watchers = self._watchers
        if self._sole:
            await watchers.gap.wait()
        else:
            while not self._is_awaited() and not watchers.gap.is_set():
                watchers.awaited.clear()
                await _wait(watchers.awaited)  # a listener may find somebody to tell meanwhile
            await _wait(watchers.gap)
        watchers.gap.clear()

    def _is_awaited(self) -> bool:
        watchers = self._watchers
        return bool(watchers.runs) or any(listener.wanted() for listener in watchers.listeners)

    async def _look(self) -> None:
        runs = self._watchers.runs
        for start in range(0, len(runs), RUNS_MAX):
            for each in await self._store.progress(runs[start : start + RUNS_MAX]):
                await self._catch_up(each)
        if not self._sole:
            await self._read_notes()
            await self._compare_list()

    async def _catch_up(self, progress: Progress) -> None:
        """Tell what somebody lacks of a run, then its end."""
        run_id, watchers = progress.run_id, self._watchers
        after = watchers.behind(run_id, progress.seq)
        while after is not None:
            events = await self._reads.history(run_id, after=after, limit=EVENTS_MAX)
            if not events:
                break
            watchers.tell(run_id, events, None)
            after = events[-1].seq if events[-1].seq < progress.seq else None
        if progress.final is not None and run_id in watchers:
            watchers.tell(run_id, (), progress.final)

    async def _read_notes(self) -> None:
        followed = self._watchers.followed
        if not followed:
            return
        first = self._noted % len(followed)
        self._noted += NOTED_MAX
        for run_id in (followed[first:] + followed[:first])[:NOTED_MAX]:
            notes = await self._reads.notes(run_id, limit=NOTES_MAX)
            self._watchers.tell_notes(notes, read=True)

    async def _compare_list(self) -> None:
        """For listeners: which of the newest runs look different from a moment ago."""
        if not any(listener.wanted() for listener in self._watchers.listeners):
            self._listed = {}
            return
        rows = await self._reads.list_runs(RunFilter(top=True, limit=LISTED_MAX))
        before, self._listed = self._listed, {row.run_id: row for row in rows}
        here = self._watchers.take_ends()
        lately = self._clock.now() - LATELY_US
        for row in rows:
            if row.run_id in here and row.ended_at is not None:
                continue  # decided here, and told
            if before.get(row.run_id) == row or (
                not before and row.ended_at is not None and row.ended_at < lately
            ):
                continue  # at first all that may have changed since whoever listens has read them
            self._watchers.tell_changed(row.run_id)


async def _wait(event: asyncio.Event) -> None:
    """For the event, but no longer than until the next look is due."""
    with suppress(TimeoutError):
        async with asyncio.timeout(WATCH_US / 1_000_000):
            await event.wait()

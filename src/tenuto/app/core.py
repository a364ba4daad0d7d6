"""What every process that decides runs has around its store: wired here, for the embedded engine and the server alike.

Knows no worker and no REST. A process is its core, and what it puts beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tenuto.adapters.cel import CelEvaluator
from tenuto.adapters.local.dice import SystemDice
from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sql.store import SqlStore
from tenuto.app.database import Opened
from tenuto.coordinator.commands import Commands
from tenuto.coordinator.coordinator import Coordinator
from tenuto.coordinator.dispatching import DatabaseDispatch
from tenuto.coordinator.gateway import Gateway
from tenuto.coordinator.graphs import Graphs
from tenuto.coordinator.health import Health
from tenuto.coordinator.mailbox import Mailbox
from tenuto.coordinator.recovery import Recovery
from tenuto.coordinator.seats import Seats
from tenuto.coordinator.setting import Focus, Setting
from tenuto.coordinator.timers import Timers
from tenuto.coordinator.watching import Watching
from tenuto.coordinator.work import Evaluators
from tenuto.model.ids import Place, RunId
from tenuto.model.states import FINAL_RUN_STATES, RunState, TaskState
from tenuto.ports.clock import Dice, Ids
from tenuto.ports.dispatch import Dispatch
from tenuto.ports.news import Topic
from tenuto.ports.reads import Reads, RunFilter, TaskFilter
from tenuto.runtime.service import Service

LEASE_US = 10_000_000
LANES = 3
"""Commits under way at a time where the database takes them side by side. SQLite writes one after another."""
_PAGE = 1_000
_UNFINISHED = tuple(state.value for state in RunState if state not in FINAL_RUN_STATES)

MakeDispatch = Callable[[SqlStore, Callable[[], None]], Dispatch]
"""A dispatch over the store, and what it calls when something may be claimed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """All parts, not running yet. `services`: in the order in which they start; `begin` once they run.

    `health`: how the loops fare (`Health.troubles` is empty while all are well).
    """

    setting: Setting
    store: SqlStore
    reads: Reads
    seats: Seats
    coordinator: Coordinator
    recovery: Recovery
    timers: Timers
    watching: Watching
    dispatch: Dispatch
    gateway: Gateway
    commands: Commands
    health: Health
    services: tuple[Service, ...]

    async def begin(self) -> None:
        """Take over what a dead process left, where it was the only one. Raises Unavailable."""
        await _follow_children(self.reads, self.setting.focus)
        if self.setting.sole:
            await self.recovery.sweep()
            await _learn_queues(self.reads, self.coordinator.graphs)


def assemble(
    opened: Opened,
    *,
    lease_us: int = LEASE_US,
    focus: Focus | None = None,
    ids: Ids | None = None,
    dice: Dice | None = None,
    dispatch: MakeDispatch = DatabaseDispatch,
    lanes: int | None = None,
    evaluators: Evaluators = CelEvaluator,
) -> Core:
    """Wire a core over an open database; on the loop that it will run on.

    Args:
        lease_us: how long a lease lasts without a heartbeat.
        focus: which runs are driven; None for all.
        lanes: commits at a time; None: as many as the database is good for.
    """
    ids = ids or Uuid7Ids()
    setting = Setting(
        clock=opened.clock,
        ids=ids,
        dice=dice or SystemDice(),
        incarnation=ids.worker_id("engine"),
        lease_us=lease_us,
        focus=focus or Focus(),
        sole=opened.sole,
        news=opened.news,
    )
    store, reads = SqlStore(opened.engine), SqlReads(opened.engine)
    seats = Seats()
    recovery = Recovery(store, seats, setting)
    timers = Timers(store, recovery, setting)
    dispatching = dispatch(store, seats.offer)
    coordinator = Coordinator(
        store,
        Graphs(reads),
        evaluators,
        setting,
        seats=seats,
        on_due=timers.hint,
        lanes=lanes or (1 if opened.sole else LANES),
        dispatch=dispatching,
    )
    recovery.coordinator = timers.coordinator = coordinator
    watching = Watching(store, reads, coordinator.watchers, setting)
    gateway = Gateway(coordinator, store, seats, setting, on_due=timers.hint)

    def heard(topics: frozenset[Topic]) -> None:
        if Topic.READY in topics:
            seats.offer()
        if Topic.DUE in topics:
            timers.hint(0)
        if Topic.ENDED in topics:
            watching.hear()

    def posted(at: int) -> None:
        timers.hint(at)
        if setting.focus.runs() is not None:
            setting.news.tell(Topic.DUE)  # it may be for a run that somebody else drives

    opened.news.listen(heard)
    opened.on_fork(coordinator.forget_all)
    mailbox = Mailbox(store, ids=ids, on_post=posted, expect=coordinator.sharing.expect)
    return Core(
        setting=setting,
        store=store,
        reads=reads,
        seats=seats,
        coordinator=coordinator,
        recovery=recovery,
        timers=timers,
        watching=watching,
        dispatch=dispatching,
        gateway=gateway,
        commands=Commands(coordinator, mailbox),
        health=setting.health,
        services=(*opened.services, coordinator, timers, watching, dispatching, gateway),
    )


async def _learn_queues(reads: Reads, graphs: Graphs) -> None:
    """Bring in the graphs of unfinished runs, so that the worker knows the queues on which their tasks wait."""
    before: RunId | None = None
    seen: set[str] = set()
    while True:
        page = await reads.list_runs(RunFilter(states=_UNFINISHED, before=before, limit=_PAGE))
        seen |= {row.definition for row in page}
        if len(page) < _PAGE:
            break
        before = page[-1].run_id
    await graphs.fetch(sorted(seen))
    if graphs.computes_queues:
        await _see_queues(reads, graphs)


async def _see_queues(reads: Reads, graphs: Graphs) -> None:
    """Queues that no graph names: those of waiting tasks."""
    before: tuple[RunId, Place] | None = None
    while True:
        wanted = TaskFilter(states=(TaskState.PENDING.value,), before=before, limit=_PAGE)
        page = await reads.list_tasks(wanted)
        for row in page:
            graphs.see_queue(row.task.queue)
        if len(page) < _PAGE:
            return
        before = page[-1].run_id, page[-1].task.place


async def _follow_children(reads: Reads, focus: Focus) -> None:
    """Whoever drives a run drives the runs that it has called, and theirs."""
    parents = list(focus.runs() or ())
    while parents:
        parent = parents.pop()
        before: RunId | None = None
        while True:
            wanted = RunFilter(parent=parent, states=_UNFINISHED, before=before, limit=_PAGE)
            page = await reads.list_runs(wanted)
            for row in page:
                focus.add(row.run_id)
                parents.append(row.run_id)
            if len(page) < _PAGE:
                break
            before = page[-1].run_id

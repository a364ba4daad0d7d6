"""What follows a commit: whoever waits here is told, and what other coordinators may look at. Decides nothing.

Everything told is a hint: a process that dies before it has told leaves rows, and rows are found.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace

from tenuto.coordinator.graphs import Graphs
from tenuto.coordinator.seats import Seats
from tenuto.coordinator.watch import Watchers
from tenuto.coordinator.work import Work
from tenuto.machine.codec import encode_output
from tenuto.model.ids import RunId
from tenuto.ports.dispatch import Dispatch, Hint
from tenuto.ports.news import News, Topic
from tenuto.ports.store import Committed, RunRow

EARLY_MAX = 1_000
"""Runs of which something was heard before they began, so that it is looked for again once they have."""


class Aftermath:
    """Tells seats, dispatch, watchers, timers and other coordinators.

    Args:
        on_due: told the moment (microseconds) at which something new becomes due; 0 for at once.
    """

    def __init__(
        self,
        graphs: Graphs,
        seats: Seats,
        watchers: Watchers,
        on_due: Callable[[int], None],
        dispatch: Dispatch,
        news: News,
    ) -> None:
        self._graphs = graphs
        self._seats = seats
        self._watchers = watchers
        self._on_due = on_due
        self._dispatch = dispatch
        self._news = news
        self._early: OrderedDict[RunId, None] = OrderedDict()

    def came_early(self, run_id: RunId) -> None:
        """Something is known about a run that has not begun: it is looked for again when it has."""
        self._early[run_id] = None
        while len(self._early) > EARLY_MAX:
            self._early.popitem(last=False)

    def changed(self, work: Work) -> None:
        """This change is written: tell who follows its run."""
        run_id, batch, watchers = work.run_id, work.batch, self._watchers
        if run_id in watchers:
            final = None if batch.settle is None else final_row(work)
            watchers.tell(run_id, batch.events, final)
        if watchers.listeners:
            watchers.tell_changed(run_id, ended=batch.settle is not None)

    def settled(self, works: Sequence[Work], committed: Committed) -> None:
        """All these changes are written, and the leases of their eager grants delivered."""
        hints: list[Hint] = []
        released = ended = False
        due_at: int | None = None
        for work in works:
            batch = work.batch
            for task in batch.ready.values():
                if (work.run_id, task.place) not in committed.granted:
                    hints.append(
                        Hint(
                            run_id=work.run_id,
                            place=task.place,
                            queue=task.queue,
                            name=task.name,
                            priority=task.priority,
                        )
                    )
                    self._graphs.see_queue(task.queue)
            released = released or batch.releases
            ended = ended or batch.settle is not None
            moment = 0 if batch.is_urgent else batch.next_due()
            if work.run_id in self._early and batch.new_run is not None:
                del self._early[work.run_id]
                moment = 0
            if moment is not None and (due_at is None or moment < due_at):
                due_at = moment
        self._offer(hints, released=released)
        if ended:
            self._news.tell(Topic.ENDED)
        if due_at is not None:
            self._on_due(due_at)

    def _offer(self, hints: Sequence[Hint], *, released: bool) -> None:
        if released:
            self._seats.offer()
        # Before the rows are offered here: what the parked requests have room for is not worth a word to others.
        if released or not self._seats.could_take(hints):
            self._news.tell(Topic.READY)
        if hints:
            self._dispatch.offered(hints)


def final_row(work: Work) -> RunRow:
    """The run as its end leaves it."""
    run, settle = work.remembered, work.batch.settle
    assert run is not None
    assert settle is not None
    return replace(
        run.row,
        state=settle.state,
        paused=work.batch.snapshot.paused,
        ended_at=settle.at,
        compensation=settle.compensation,
        output=encode_output(settle.output),
        error=None if settle.error is None else encode_output(settle.error),
    )

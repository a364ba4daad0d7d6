"""What decisions lack, loaded for all runs of a cycle at once. Nothing is decided or written here."""

from __future__ import annotations

from collections.abc import Sequence

from tenuto.coordinator.again import find_again
from tenuto.coordinator.callees import find_versions
from tenuto.coordinator.graphs import Graphs
from tenuto.coordinator.waiting import Again, Found, Wanted
from tenuto.coordinator.work import Work
from tenuto.machine.decision import Needs
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Message
from tenuto.model.ids import Place, RunId
from tenuto.ports.store import Loaded, LoadRequest, Store

Lacking = Needs | Wanted


class Supply:
    """Loads what stands in the way of decisions."""

    def __init__(self, store: Store, graphs: Graphs) -> None:
        self._store = store
        self._graphs = graphs

    async def bring(
        self, blocked: Sequence[tuple[Work, Lacking]]
    ) -> tuple[list[Work], list[tuple[Work, Exception]]]:
        """Hand each work what it lacks. Returns those that may go on, and those for which there is no such thing.

        Raises Unavailable.
        """
        loaded = await self._load(blocked)
        await self._find_callees(blocked)
        going: list[Work] = []
        failed: list[tuple[Work, Exception]] = []
        for work, lacking in blocked:
            try:
                if isinstance(lacking, Needs):
                    _hand_over(work, lacking, loaded)
                else:
                    await self._answer(work, lacking, loaded)
            except InvariantViolated as error:
                failed.append((work, error))
            else:
                going.append(work)
        return going, failed

    async def _load(self, blocked: Sequence[tuple[Work, Lacking]]) -> Loaded:
        """All of it in one reading."""
        wanted = Wanted()
        mailbox, passes = [], []
        for work, lacking in blocked:
            run_id = work.run_id
            if isinstance(lacking, Wanted):
                wanted.payloads |= lacking.payloads
                wanted.items |= lacking.items
                continue
            missing, home = lacking.missing, _home(work)
            for key in (*missing.payloads, *missing.maybe):
                wanted.payloads[home, key] = None
            for place in lacking.tasks:
                wanted.tasks[run_id, place] = None
            for place in missing.items:
                wanted.items[home, place] = None
            mailbox += [(work.batch.row.namespace, *address) for address in missing.mailbox]
            passes += [(home, prefix, epoch) for prefix, epoch in missing.passes]
        if not wanted and not mailbox and not passes:
            return Loaded(now=0)
        return await self._store.load(
            LoadRequest(
                payloads=tuple(wanted.payloads),
                tasks=tuple(wanted.tasks),
                items=tuple(wanted.items),
                mailbox=tuple(mailbox),
                passes=tuple(passes),
            )
        )

    async def _find_callees(self, blocked: Sequence[tuple[Work, Lacking]]) -> None:
        asked = {
            (work.batch.row.namespace, name): None
            for work, lacking in blocked
            if isinstance(lacking, Needs)
            for name, _ in lacking.missing.callees
        }
        if not asked:
            return
        versions = await find_versions(self._graphs.reads, self._graphs, asked)
        for work, lacking in blocked:
            if isinstance(lacking, Needs):
                for name, _ in lacking.missing.callees:
                    work.batch.callees.learn(name, versions[work.batch.row.namespace, name])

    async def _answer(self, work: Work, wanted: Wanted, loaded: Loaded) -> None:
        started: Sequence[Place] = ()
        again = Again()
        run_id: RunId = work.run_id
        if wanted.started:
            started = await self._store.started(run_id)
        if wanted.again:
            batch = work.batch
            again = await find_again(self._store, self._graphs, run_id, batch.graph, batch.snapshot)
        work.facts[work.position].learn(Found(loaded, started, again))


def _home(work: Work) -> RunId:
    """Where the values of a run are. What a replay has kept is its source's until the commit that copies it."""
    new = work.batch.new_run
    return work.run_id if new is None or new.source is None else new.source


def _hand_over(work: Work, needs: Needs, loaded: Loaded) -> None:
    run_id, batch, missing, home = work.run_id, work.batch, needs.missing, _home(work)
    for address in missing.mailbox:
        full = (batch.row.namespace, *address)
        batch.mailbox[address] = loaded.mailbox.get(full, Message(None))
    for key in missing.payloads:
        text = loaded.payloads.get((home, key))
        if text is None:
            raise InvariantViolated(f"{key} of run {run_id} is read, not stored")
        batch.learn(key, text)
    for key in missing.maybe:
        text = loaded.payloads.get((home, key))
        if text is None:
            batch.missing.add(key)
        else:
            batch.learn(key, text)
    for place in needs.tasks:
        found = loaded.tasks.get((run_id, place))
        batch.learn_task(place, None if found is None else found[0])
    for place in missing.items:
        batch.learn_items(place, loaded.items.get((home, place), ()))
    for prefix, epoch in missing.passes:
        batch.learn_passes(prefix, epoch, loaded.passes.get((home, prefix, epoch), ()))

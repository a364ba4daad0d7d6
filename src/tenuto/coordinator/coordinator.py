"""The coordinator: load, decide, commit; the only caller of `decide`. Knows no worker, no timer, no SQL.

Theory of operation. Facts wait in the inbox of a lane (runs are spread over lanes by their id, so one run is always
decided by one lane). A cycle takes all that wait, up to a bound, and

1. loads what the facts name, unless our own last commit wrote what is remembered: runs, and leases that it granted;
2. decides, run by run, each run's facts one after another in memory (`batch`); what an expression lacks is loaded for
   all runs at once, and those runs go on;
3. commits all changes in one call of the store, and only then answers, hands out leases, wakes and tells.

Meanwhile the next facts gather: the slower the disk, the larger the batches. Never is anything decided inside a
transaction, and no lane waits for another.

What goes wrong:
- A *loser* (its run or a claim moved on) was written nowhere: its facts are put back, loaded anew and decided again;
  after three losses in a row each goes alone.
- What `decide` raises on, or the store refuses, is halved until it is one event of one run; that run is quarantined
  with the reason, its neighbours never notice. Not if the run moved on meanwhile: then it was read in pieces.
- An unknown result (`Unavailable`) drops what is remembered and is the answer; every request may be repeated.

Runs speak to each other by notices (`notices`): those that a commit has written are put into the inboxes of their runs
at once, and found again by `timers` if this process dies before they are decided.

Source: DESIGN section 5.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from tenuto.coordinator.aftermath import Aftermath
from tenuto.coordinator.batch import Batch
from tenuto.coordinator.cache import Granted, Remembered, RunCache
from tenuto.coordinator.dispatching import DatabaseDispatch
from tenuto.coordinator.graphs import Graphs
from tenuto.coordinator.handout import HandOut
from tenuto.coordinator.notices import StartNotice, fact_of
from tenuto.coordinator.seats import Seats
from tenuto.coordinator.setting import Setting
from tenuto.coordinator.sharing import Sharing
from tenuto.coordinator.supply import Lacking, Supply
from tenuto.coordinator.waiting import (
    NOBODY,
    NOBODY_HOLDS,
    Moment,
    Settled,
    Starting,
    Waiting,
    Wanted,
    Workers,
    first_alone,
)
from tenuto.coordinator.watch import Watchers
from tenuto.coordinator.work import (
    Doubtful,
    Evaluators,
    Work,
    blamed_for,
    definition_of,
    evaluator_of,
)
from tenuto.machine.decide import decide, initial
from tenuto.machine.decision import Needs
from tenuto.machine.snapshot import Snapshot
from tenuto.model.errors import InvariantViolated, NotFound, TenutoError, Unavailable
from tenuto.model.graph import Graph
from tenuto.model.ids import RunId
from tenuto.model.payload import PayloadKey
from tenuto.model.states import FINAL_RUN_STATES
from tenuto.ports.dispatch import Dispatch
from tenuto.ports.news import Topic
from tenuto.ports.store import Committed, Loaded, NoticeKind, RunRow, Store
from tenuto.runtime.logging import get_logger

EVENTS_MAX = 500
"""Facts decided in one cycle: a commit of so many takes some 50 ms, which bounds everybody's latency."""
EVENTS_PER_RUN_MAX = 100
BEGINNINGS_MIN = 100
"""Children that begin in a cycle, however much else there is to do."""
LOSSES_ALONE = 3
"""Changes of a run lost in a row, after which its events go one by one."""
DOUBTS_MAX = 2
"""How often a fact that cannot be decided is read anew where others decide too, before it is taken for a bug."""
LOSSES_MAX = 50
"""After so many the caller is told to come again; a claim that can never hold must not spin."""

_log = get_logger("coordinator")
_NOTHING = Loaded(now=0)


class Coordinator:
    """Lanes over one store.

    Args:
        evaluators: makes the evaluator of a run's expressions.
        seats: who may take tasks in the commit that makes them ready.
        on_due: told the moment (microseconds) at which something new becomes due; 0 for at once.
        lanes: how many work side by side; a run is always in the same one.
        dispatch: how ready tasks are handed on; None: by the database alone.
    """

    name = "coordinator"

    def __init__(
        self,
        store: Store,
        graphs: Graphs,
        evaluators: Evaluators,
        setting: Setting,
        *,
        seats: Seats,
        on_due: Callable[[int], None],
        lanes: int = 1,
        dispatch: Dispatch | None = None,
    ) -> None:
        self.store = store
        self.graphs = graphs
        self.evaluators = evaluators
        self.setting = setting
        self.seats = seats
        self.on_due = on_due
        self.handout = HandOut(seats, setting, on_due)
        self.watchers = Watchers()
        self.supply = Supply(store, graphs)
        self.holders: Workers = seats if setting.sole else NOBODY_HOLDS
        self.sharing = Sharing(setting, self.remembers)
        self.dispatch = DatabaseDispatch(store, seats.offer) if dispatch is None else dispatch
        self.aftermath = Aftermath(
            graphs, seats, self.watchers, on_due, self.dispatch, setting.news
        )
        self._lanes = tuple(_Lane(self, number) for number in range(lanes))

    async def run(self, stopping: asyncio.Event) -> None:
        """Decide until told to stop and nothing waits."""
        async with asyncio.TaskGroup() as group:
            for lane in self._lanes:
                group.create_task(lane.run(stopping), name=f"lane-{lane.number}")
            await stopping.wait()
            for lane in self._lanes:
                lane.wake.set()

    def submit(self, facts: Iterable[Waiting]) -> None:
        """Put facts into the inboxes of their runs' lanes; their calls are answered after the commit."""
        lanes = self._lanes
        for fact in facts:
            lane = lanes[hash(fact.run_id) % len(lanes)]
            (lane.beginnings if fact.begins_child else lane.inbox).append(fact)
            lane.wake.set()

    def remembers(self, run_id: RunId) -> bool:
        """Whether the run is known to be unfinished."""
        return any(run_id in lane.cache for lane in self._lanes)

    def forget_all(self) -> None:
        """Drop all that is remembered: the store may have gone back behind it."""
        for lane in self._lanes:
            lane.cache.clear()

    def forget(self, run_id: RunId) -> None:
        """Drop what is remembered of a run."""
        for lane in self._lanes:
            lane.cache.take(run_id)


class _Lane:
    """One loop of load, decide, commit."""

    def __init__(self, whole: Coordinator, number: int) -> None:
        self.number = number
        self.inbox: deque[Waiting] = deque()
        self.beginnings: deque[Waiting] = deque()
        self.wake = asyncio.Event()
        self.cache = RunCache()
        self._account = whole.setting.health.loop(f"lane-{number}")
        self._whole = whole
        self._store = whole.store

    async def run(self, stopping: asyncio.Event) -> None:
        while True:
            if stopping.is_set():
                self._leave_stored()
            if not self.inbox and not self.beginnings:
                if stopping.is_set():
                    return
                self.wake.clear()
                await self.wake.wait()
                continue
            self._account.begin()
            await self._cycle(self._take())
            self._account.end()

    def _leave_stored(self) -> None:
        """What is stored goes on in the next engine: runs that start runs would keep this one for ever."""
        for queue in (self.inbox, self.beginnings):
            for fact in [fact for fact in queue if fact.is_stored]:
                fact.call.answer(fact.slot, fact.absent())
                self._whole.setting.news.tell(Topic.DUE)
            left = [fact for fact in queue if not fact.is_stored]
            queue.clear()
            queue.extend(left)

    def _take(self) -> list[Work]:
        """All that waits, by run, up to the bounds. Children begin last: what ends runs must not wait for thousands."""
        groups: dict[RunId, list[Waiting]] = {}
        count = 0
        left: list[Waiting] = []
        inbox = self.inbox
        shared = EVENTS_MAX - min(len(self.beginnings), BEGINNINGS_MIN)
        for queue, most in ((inbox, shared), (self.beginnings, EVENTS_MAX)):
            while queue and count < most and len(left) < EVENTS_MAX:
                fact = queue.popleft()
                group = groups.get(fact.run_id)
                if group is None:
                    groups[fact.run_id] = [fact]
                elif len(group) < EVENTS_PER_RUN_MAX:
                    group.append(fact)
                else:
                    left.append(fact)
                    continue
                count += 1
        works = []
        for run_id, facts in groups.items():
            if len(facts) > 1 or facts[0].alone:
                if isinstance(facts[-1], Starting) or any(isinstance(f, Starting) for f in facts):
                    # The start first, else what is told to the run finds none.
                    facts.sort(key=lambda fact: not isinstance(fact, Starting))
                together = first_alone(facts)
                left[:0] = facts[together:]
                del facts[together:]
            works.append(Work(run_id, facts, self.cache.take(run_id)))
        inbox.extendleft(reversed(left))
        return works

    # -- load -----------------------------------------------------------------------------------------------------

    async def _cycle(self, works: list[Work]) -> None:
        try:
            try:
                loaded = await self._load(works)
                graphs = await self._fetch(works, loaded)
            except Unavailable:
                raise
            except Exception as error:  # noqa: BLE001 - halved until the one run whose rows cannot be read stands alone
                await self._divide(works, error)
                return
            works = await self._prepare(works, loaded, graphs)
            await self._decide(works, loaded)
        except Unavailable as error:
            self._account.fail(error)
            for work in works:
                self._fail(work, error)
            return
        await self._finish(works)

    async def _load(self, works: Sequence[Work]) -> Loaded:
        wanted = Wanted()
        now = self._whole.setting.clock.now()
        for work in works:
            run = work.remembered
            if run is None and not isinstance(work.facts[0], Starting):
                wanted.runs[work.run_id] = None
            for fact in work.facts:
                fact.recall({} if run is None else run.leased, now)
                fact.want(wanted)
        return await self._store.load(wanted.request()) if wanted else _NOTHING

    async def _divide(self, works: list[Work], error: Exception) -> None:
        if len(works) == 1:
            facts = works[0].facts
            await self._quarantine(works[0].run_id, facts, type(facts[0]).__name__, error)
            return
        half = len(works) // 2
        await self._cycle(works[:half])
        await self._cycle(works[half:])

    async def _fetch(self, works: Sequence[Work], loaded: Loaded) -> Mapping[str, Graph | NotFound]:
        definitions = (definition_of(work, loaded) for work in works)
        named = dict.fromkeys(definition for definition in definitions if definition is not None)
        return await self._whole.graphs.fetch(named)

    async def _prepare(
        self, works: Sequence[Work], loaded: Loaded, graphs: Mapping[str, Graph | NotFound]
    ) -> list[Work]:
        """Give each work its batch; what concerns no run, or makes no sense, is answered and left out."""
        known = []
        for work in works:
            try:
                if await self._fit_out(work, loaded, graphs):
                    known.append(work)
            except Exception as error:  # noqa: BLE001 - a bug of ours must not stop other runs
                if hasattr(work, "batch"):
                    await self._poison(work, error)
                else:
                    event = type(work.facts[0]).__name__
                    await self._quarantine(work.run_id, work.facts, event, error)
        return known

    async def _fit_out(
        self, work: Work, loaded: Loaded, graphs: Mapping[str, Graph | NotFound]
    ) -> bool:
        """Give a work its batch. False: it is answered."""
        run = work.remembered
        if run is None:
            definition = definition_of(work, loaded)
            if definition is None:
                self._whole.aftermath.came_early(work.run_id)
                for absent in work.facts:
                    absent.call.answer(absent.slot, absent.absent())
                return False
            graph = graphs[definition]
            if isinstance(graph, NotFound):
                await self._lack(work, graph)
                return False
            found = loaded.runs.get(work.run_id)
            if found is not None:
                run = self._recall(found, graph)
            else:
                try:
                    run = self._begin(work, graph, loaded)
                except InvariantViolated as error:
                    await self._lack(work, error)
                    return False
            work.remembered = run
        if run.snapshot.seq or not isinstance(work.facts[0], Starting):
            ids = self._whole.setting.ids
            work.batch = Batch(
                run.graph, run.row, run.snapshot, run.texts, message_id=ids.message_id
            )
        work.evaluator = evaluator_of(self._whole.evaluators, work.batch)
        if run.row.quarantine is not None:
            work.leave_quarantined()
        for each in work.facts:
            each.fill(work.batch, loaded)
        return True

    async def _lack(self, work: Work, error: TenutoError) -> None:
        """What a run is made of is not there. A child that cannot begin would leave its parent waiting."""
        facts = work.facts
        if isinstance(facts[0], StartNotice):
            await self._quarantine(work.run_id, facts, type(facts[0]).__name__, error)
            return
        for fact in facts:
            fact.call.answer(fact.slot, fact.poisoned(error))

    def _begin(self, work: Work, graph: Graph, loaded: Loaded) -> Remembered:
        fact = work.facts[0]
        assert isinstance(fact, Starting)
        setting = self._whole.setting
        beginning = fact.beginning(loaded, setting.clock.now())
        snapshot = initial(work.run_id, graph)
        row = beginning.row(work.run_id)
        texts: dict[PayloadKey, str] = {}
        work.batch = Batch(
            graph, row, snapshot, texts, beginning.new_run, message_id=setting.ids.message_id
        )
        for key, text in beginning.texts.items():
            work.batch.put(key, text, 1)
        return Remembered(row, graph, snapshot, texts)

    def _recall(self, found: tuple[RunRow, Snapshot], graph: Graph) -> Remembered:
        """A run as loaded. Whoever still waits for one that is over was not told: an answer of the store was lost."""
        row, snapshot = found
        if row.state in FINAL_RUN_STATES and row.run_id in self._whole.watchers:
            self._whole.watchers.gap.set()
        return Remembered(row, graph, snapshot, {})

    # -- decide ---------------------------------------------------------------------------------------------------

    async def _decide(self, works: Sequence[Work], loaded: Loaded) -> None:
        now = max(loaded.now, self._whole.setting.clock.now())
        moment = Moment(now, self._whole.setting.dice, self._whole.holders)
        going: Sequence[Work] = works
        while going:
            blocked: list[tuple[Work, Lacking]] = []
            for work in going:
                try:
                    lacking = self._advance(work, loaded, moment)
                except Exception as error:  # noqa: BLE001 - a bug of ours must not stop other runs
                    await self._poison(work, error)
                    continue
                if lacking is not None:
                    blocked.append((work, lacking))
            if not blocked:
                return
            going, failed = await self._whole.supply.bring(blocked)
            for work, failure in failed:
                await self._poison(work, failure)

    def _advance(self, work: Work, loaded: Loaded, moment: Moment) -> Lacking | None:
        """Decide a run's facts in turn; stops where a text is lacking."""
        batch, facts = work.batch, work.facts
        while work.position < len(facts):
            fact = facts[work.position]
            event = work.event
            if event is None:
                found = fact.event(batch, loaded, moment)
                if isinstance(found, Wanted):
                    return found
                if isinstance(found, Settled):
                    work.answers.append((fact, found.answer))
                    work.position += 1
                    continue
                event = work.event = found
            if batch.replaced:
                # An evaluator keeps what it has parsed by key, and a key has a new text.
                batch.replaced = False
                work.evaluator = evaluator_of(self._whole.evaluators, batch)
            decision = decide(batch.graph, batch.snapshot, batch.rows, event, work.evaluator)
            if isinstance(decision, Needs):
                if decision.missing.mailbox and batch.uses_message:
                    # The next message of an address is known to the store only, and only after this commit.
                    self.inbox.extendleft(reversed(facts[work.position :]))
                    del facts[work.position :]
                    work.event = None
                    return None
                return decision
            if decision.rejected is None:
                batch.apply(event, decision)
            elif not work.fresh and not batch.events and not fact.losses:
                # Judged by memory alone: a refusal must be true in the database.
                raise Doubtful
            fact.decided(batch, decision.rejected)
            work.answers.append((fact, fact.answer_to(decision.rejected)))
            work.event = None
            work.position += 1
        return None

    # -- commit ---------------------------------------------------------------------------------------------------

    async def _finish(self, works: Sequence[Work]) -> None:
        """Commit what changed, answer what did not."""
        changed = []
        for work in works:
            if not work.facts:
                continue  # put back, or answered already
            if not work.batch.is_empty:
                changed.append(work)
                continue
            self._keep(work)
            for fact, answer in work.answers:
                fact.call.answer(fact.slot, answer)
        if changed:
            self._whole.handout.assign(changed)
            await self._commit(changed)

    async def _commit(self, works: Sequence[Work]) -> None:
        try:
            changes = [work.batch.build(HandOut.promised(work)) for work in works]
            committed = await self._store.commit(changes, lease_us=self._whole.setting.lease_us)
        except Unavailable as error:
            self._account.fail(error)
            for work in works:
                self._whole.handout.give_up(work)
                self._fail(work, error)
            return
        except Exception as error:  # noqa: BLE001 - halved until the one event that the store refuses stands alone
            if len(works) == 1:
                self._whole.handout.withdraw(works[0])
                await self._poison(works[0], error)
                return
            half = len(works) // 2
            await self._commit(works[:half])
            await self._commit(works[half:])
            return
        self._committed(works, committed)

    def _committed(self, works: Sequence[Work], committed: Committed) -> None:
        whole = self._whole
        won = []
        for work in works:
            run_id = work.run_id
            if run_id in committed.losers or run_id in committed.taken:
                whole.handout.withdraw(work)
                self._lose(work, committed.taken.get(run_id))
                continue
            won.append(work)
            whole.sharing.expect(work.batch.posted)
            granted = whole.handout.deliver(work, committed)
            whole.aftermath.changed(work)
            self._keep(work, granted)
            for fact, answer in work.answers:
                fact.call.answer(fact.slot, answer)
        if committed.told:
            self._tell(won, committed)
        for seat in dict.fromkeys(seat for work in works for _, _, seat in work.eager):
            whole.seats.deliver(seat)
        whole.aftermath.settled(won, committed)

    def _tell(self, works: Sequence[Work], committed: Committed) -> None:
        """Hand in the notices of these changes; those that only the store knows are due."""
        whole, focus = self._whole, self._whole.setting.focus
        facts = []
        if any(work.batch.tells_many for work in works):
            whole.sharing.expect(committed.told)
            whole.on_due(0)
        for work in works:
            for notice in work.batch.notices.values():
                if notice.kind is NoticeKind.START and work.run_id in focus:
                    focus.add(notice.run_id)
                if notice.run_id in focus:
                    facts.append(fact_of(notice, NOBODY, 0))
                else:
                    whole.setting.news.tell(Topic.DUE)  # of a run that somebody else drives
        whole.submit(facts)

    def _lose(self, work: Work, taken_by: RunId | None) -> None:
        if taken_by is not None:
            fact = work.facts[0]
            fact.call.answer(fact.slot, taken_by)
            return
        seq = work.batch.expected_seq
        for fact in work.facts:
            fact.losses += 1
            # A run that moved on says nothing of this change; one that did not lost for a claim that may never hold.
            fact.stuck = fact.stuck + 1 if fact.lost_at == seq else 1
            fact.lost_at = seq
            fact.alone = fact.alone or fact.stuck >= LOSSES_ALONE
        if work.facts[0].losses > LOSSES_MAX:
            self._fail(
                work, Unavailable(f"run {work.run_id} changes faster than it can be decided")
            )
            return
        self.inbox.extendleft(reversed(work.facts))

    def _keep(self, work: Work, granted: Granted = ()) -> None:
        run = work.remembered
        assert run is not None
        if work.batch.snapshot.state in FINAL_RUN_STATES or not work.batch.snapshot.seq:
            return
        if run.row.quarantine is not None:
            return  # whoever lifts it may be another process: only the store knows
        batch = work.batch
        run.advance(batch.snapshot, batch.grown, batch.touched(), granted)
        self.cache.keep(work.run_id, run)

    @staticmethod
    def _fail(work: Work, error: Unavailable) -> None:
        for fact in work.facts:
            fact.call.answer(fact.slot, error)

    async def _poison(self, work: Work, error: Exception) -> None:
        """Narrow down what cannot be decided or written; the one event that is left puts its run in quarantine."""
        facts = work.facts
        event = work.batch.events[-1].kind if work.batch.events else type(work.event).__name__
        work.batch.events.clear()
        work.answers.clear()
        work.facts = []
        if not work.fresh and not facts[0].losses:
            for fact in facts:
                fact.losses = 1  # once more, with everything loaded
            self.inbox.extendleft(reversed(facts))
            return
        if len(facts) > 1:
            for fact in facts:
                fact.alone = True
            self.inbox.extendleft(reversed(facts))
            return
        try:
            if await self._moved_on(work, facts[0]):
                work.facts = facts
                self._lose(work, None)
                return
        except Unavailable as failed:
            facts[0].call.answer(facts[0].slot, failed)
            return
        await self._quarantine(work.run_id, facts, event, error)

    async def _moved_on(self, work: Work, fact: Waiting) -> bool:
        """Whether what made no sense was read in pieces, between which another coordinator decided something.

        Of this run its number tells. Of the runs that the fact looks at nothing does: it is tried again a few times.
        """
        if self._whole.setting.sole:
            return False
        fact.doubts += 1
        found = await self._store.progress((work.run_id,))
        seq = found[0].seq if found else 0
        return seq != work.batch.expected_seq or fact.doubts <= DOUBTS_MAX

    async def _quarantine(
        self, run_id: RunId, facts: Sequence[Waiting], event: str, error: Exception
    ) -> None:
        reason = f"{event}: {type(error).__name__}: {error}"
        _log.error("run_quarantined", run_id=run_id, reason=reason, exc_info=error)
        unavailable: Unavailable | None = None
        blamed = blamed_for(facts[0])
        if blamed is not None:
            try:
                await self._store.quarantine(blamed, reason)
            except (
                TenutoError
            ) as failed:  # which is not Unavailable if no store could hold such a name
                unavailable = failed if isinstance(failed, Unavailable) else None
            self._whole.forget(blamed)
            self._whole.watchers.tell(blamed, (), None)  # whoever watches looks again
            self._whole.watchers.tell_changed(blamed)
        for fact in facts:
            fact.call.answer(fact.slot, unavailable or fact.poisoned(error))

"""Random interleavings of grants, releases, heartbeats and commits: at most one live lease a task (invariant I2)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.backing.postgres import start_postgres
from tests.support.shared_store import ShelvedDatabase
from tests.support.store import (
    IDLE,
    LEASE_US,
    SECOND,
    TurnedClock,
    a_beat,
    a_change,
    a_request,
    a_start,
    a_task,
    new_run_id,
)

from tenuto.adapters.sql.engine import SqlEngine
from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sql.store import SqlStore
from tenuto.adapters.sqlite.engine import open_engine
from tenuto.model.ids import LeaseId, Place, RunId, WorkerId
from tenuto.model.states import TaskState
from tenuto.ports.gateway import Verdict
from tenuto.ports.store import Claims, LeaseRow

T = TypeVar("T")
WORKERS = st.sampled_from([WorkerId("w-1"), WorkerId("w-2")])
PLACES = [Place("a"), Place("b"), Place("c")]


class Leases(RuleBasedStateMachine):
    """One run of three tasks; `held` is what the workers believe to hold, and until when at least."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = TurnedClock()
        self.engine: SqlEngine = self.do(self.opened())
        self.store, self.reads = SqlStore(self.engine), SqlReads(self.engine)
        self.run: RunId = new_run_id()
        self.seq = 1
        self.drawn = 0
        self.ended: set[Place] = set()
        self.believed: dict[Place, list[LeaseRow]] = {place: [] for place in PLACES}

    async def opened(self) -> SqlEngine:
        return open_engine(":memory:", self.clock)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @initialize()
    def start(self) -> None:
        tasks = [a_task(place, node=n) for n, place in enumerate(PLACES)]
        self.do(self.store.commit([a_start(self.run, *tasks)], lease_us=LEASE_US))

    @rule(us=st.sampled_from([1, SECOND, LEASE_US // 2, LEASE_US]))
    def time_passes(self, us: int) -> None:
        self.clock.turn(us)

    @rule(worker=WORKERS, many=st.integers(1, 3))
    def grant(self, worker: WorkerId, many: int) -> None:
        ids = [f"lease-{self.drawn + n}" for n in range(many)]
        self.drawn += many
        for granted in self.do(self.store.grant(a_request(*ids, worker=worker))):
            place = granted.task.place
            assert place not in self.ended
            alive = [row for row in self.believed[place] if row.lease_until > self.clock.now()]
            assert alive == [], "somebody still works on it"
            self.believed[place].append(granted.lease)

    @rule(place=st.sampled_from(PLACES), worker=WORKERS)
    def beat(self, place: Place, worker: WorkerId) -> None:
        for n, row in enumerate(self.believed[place]):
            beat = a_beat(self.run, row.lease_id, place)
            (verdict,) = self.do(self.store.heartbeat(worker, [beat], IDLE, lease_us=LEASE_US))
            if verdict is Verdict.OK:
                assert row.worker == worker
                assert row.lease_until > self.clock.now()
                until = self.clock.now() + LEASE_US
                self.believed[place][n] = replace(row, lease_until=until)

    @rule(place=st.sampled_from(PLACES), worker=WORKERS)
    def release(self, place: Place, worker: WorkerId) -> None:
        for row in list(self.believed[place]):
            if self.do(self.store.release(worker, [a_beat(self.run, row.lease_id, place)])):
                assert row.worker == worker
                self.believed[place].remove(row)

    @rule(place=st.sampled_from(PLACES))
    def report(self, place: Place) -> None:
        """Every believed lease reports success; the store decides whose counts."""
        for row in list(self.believed[place]):
            task = a_task(place, node=PLACES.index(place), attempt=self._attempt(place))
            done = replace(task, state=TaskState.SUCCESS, ended_lease=row.lease_id)
            if self._commit(place, task.attempt, row.lease_id, done, offer=False):
                assert place not in self.ended, "a task ended twice"
                self.ended.add(place)
            self.believed[place].remove(row)

    @rule()
    def recover(self) -> None:
        for due in self.do(self.store.due(limit=10, runs=None)).tasks:
            assert due.lease is not None
            assert due.lease.lease_until <= self.clock.now()
            again = a_task(due.place, node=PLACES.index(due.place), attempt=due.attempt + 1)
            assert self._commit(due.place, due.attempt, due.lease.lease_id, again, offer=True)

    @invariant()
    def every_open_task_is_leased_or_offered(self) -> None:
        detail = self.do(self.reads.get_run(self.run)) if self.engine and self.seq else None
        assert detail is not None
        for task, lease in detail.tasks:
            if task.state is TaskState.PENDING:
                assert (lease is not None) != (task.place in detail.ready)
            else:
                assert lease is None
                assert task.place not in detail.ready

    def teardown(self) -> None:
        self.do(self.store.close())
        self.do(self.loop.shutdown_default_executor())
        self.loop.close()

    def _attempt(self, place: Place) -> int:
        detail = self.do(self.reads.get_run(self.run))
        return next(task.attempt for task, _ in detail.tasks if task.place == place)

    def _commit(
        self, place: Place, attempt: int, lease_id: LeaseId, task: Any, *, offer: bool
    ) -> bool:
        change = a_change(
            self.run,
            self.seq,
            claims=Claims(leases=((place, attempt, lease_id),)),
            updated=((task, True),),
            ready=(task,) if offer else (),
        )
        done = self.do(self.store.commit([change], lease_us=LEASE_US))
        self.seq += not done.losers
        return not done.losers


class LeasesOnPostgres(Leases):
    """The same where rows have locks."""

    shelved: ShelvedDatabase

    async def opened(self) -> SqlEngine:
        return await self.shelved.open(self.clock, pool=1)


TestLeases = Leases.TestCase
TestLeases.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
TestLeasesOnPostgres = LeasesOnPostgres.TestCase
TestLeasesOnPostgres.settings = settings(max_examples=8, stateful_step_count=30, deadline=None)


@pytest.fixture(autouse=True, scope="module")
def _shelved(shelf: dict[int, ShelvedDatabase]) -> None:
    if 18 not in shelf:
        shelf[18] = ShelvedDatabase(start_postgres(18))
    LeasesOnPostgres.shelved = shelf[18]

"""The worker's loop: lease, execute, heartbeat, report, drain. Knows the gateway port and executors, nothing of runs.

Theory of operation. A worker holds leases; each is an `Attempt` from the answer that brought it until its result is
acknowledged, or it is forgotten or released. Five things go on side by side:

* the poller asks for as many leases as slots are free; reports ask for more in the same breath (eager hand-out), and
  what either has asked for is reserved, so that answers never exceed the slots;
* one asyncio task per attempt awaits its executor; whose process dies under it is told to the gateway as lost;
* the reporter hands in all results that are there, in one call; while it is under way further results gather. A result
  is kept until the gateway has answered, however long that takes;
* the beater extends all held leases in one call, three times in a lease's length;
* the noter (`noter`) hands in what attempts say while they run, four times a second; a result waits until its
  attempt's notes are handed in, but not for long: they are worth less than it is.

A lease ends on the monotonic clock of the loop, counted from before the request that granted or extended it was sent:
so it ends here before it can end there, whatever the network did (fencing). Then the work is stopped and forgotten, and
recovery hands it out again. A finished result is not fenced: reporting a lease that is over is harmless (`stale`).
Executors are the caller's to close, after `run` has returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from tenuto.model.errors import Unavailable
from tenuto.model.ids import LeaseId, TaskId, WorkerId
from tenuto.model.instants import SECOND_US, format_duration
from tenuto.ports.clock import Alarm, Alarms, Dice
from tenuto.ports.executor import Executor
from tenuto.ports.gateway import (
    Beat,
    Failed,
    Lease,
    Load,
    Result,
    TaskGateway,
    Verdict,
    WorkerInfo,
)
from tenuto.runtime.backoff import Backoff
from tenuto.runtime.logging import get_logger
from tenuto.runtime.service import is_ending, pause, unless
from tenuto.worker.attempts import Attempt, Gate, ProcessLost, Stop
from tenuto.worker.calls import text_of
from tenuto.worker.noter import Noter
from tenuto.worker.notes import Notebook
from tenuto.worker.user import Interrupted

LEASE_US = 10 * SECOND_US
"""SEMANTICS D."""
DRAIN_US = 10 * SECOND_US
REPORT_MAX = 500
"""Reports in one call: more would only make the first ones wait."""
_LAST_US = 5 * SECOND_US
"""After draining: how long the last reports and releases may take. What is left then is recovery's."""
_UNWIND_US = SECOND_US
"""How long stopped work may clean up before its lease is left to expire instead of being released."""
_INTERRUPTED_US = SECOND_US
"""How long work that lost its loop is kept before it is given back."""
_GATE_SHARE = 0.8
"""Share of an attempt's time that it may wait for an earlier one's function to return; then it is given back."""
_IDLE_BEATS = 3
"""A worker that holds nothing says so each third beat."""

log = get_logger("worker")


class Runner:
    """A worker, as a service. One `run` in its life.

    Attributes:
        info: as it announces itself; whoever replaces it announces it too.
        drain_us: how long running attempts may take to end once stopping is set; read at that moment.
        says_outages: whether to log that the gateway cannot be used; False: it does so itself.
        on_extended: called when leases have been extended: see `fence_of`.
    """

    name = "worker"

    def __init__(
        self,
        gateway: TaskGateway,
        info: WorkerInfo,
        executors: Mapping[str, Executor],
        *,
        dice: Dice,
        lease_us: int | Callable[[], int] = LEASE_US,
        drain_us: int = DRAIN_US,
        notebook: Notebook | None = None,
        alarms: Alarms | None = None,
    ) -> None:
        """`executors`: by task name; the one named `""` takes all others. `lease_us`: as the gateway grants just now.
        `notebook`: where executors write what attempts say. `alarms`: what times are counted on; None: the loop.
        """
        self._gateway = gateway
        self.info = info
        self._executors = executors
        # Once, since asking a protocol costs microseconds.
        self._gates = {name: e if isinstance(e, Gate) else None for name, e in executors.items()}
        self._dice = dice
        self._notebook = notebook if notebook is not None else Notebook()
        self._noter = Noter(
            self._notebook,
            lambda notes: self._gateway.note(self.info.id, notes),
            partial(self._unavailable, "note"),
        )
        self._lease_us = lease_us
        self.drain_us = drain_us
        self._given_alarms = alarms
        self._held: dict[LeaseId, Attempt] = {}
        self._finished: list[Attempt] = []
        self._returning: list[Attempt] = []
        self._lost: list[Attempt] = []
        self._gated: set[TaskId] = set()
        self._asked = 0
        self._wanted = 0
        self._registering = False
        self._draining = False
        self._rushed = False
        self._down = False
        self.says_outages = True
        self.on_extended: Callable[[], None] | None = None
        self._fence: Alarm | None = None
        self._report_now = asyncio.Event()
        self._beat_now = asyncio.Event()
        self._changed = asyncio.Event()
        self._lag_us = 0

    @property
    def _lease_s(self) -> float:
        lease_us = self._lease_us if isinstance(self._lease_us, int) else self._lease_us()
        return lease_us / 1_000_000

    def holds(self, lease_id: LeaseId) -> bool:
        """Whether this lease is still being worked on, or its result not yet acknowledged.

        For recovery in the same process: a live lease of this worker that it does not hold is nobody's.
        """
        return lease_id in self._held

    @property
    def held(self) -> int:
        """How many leases."""
        return len(self._held)

    def fence_of(self, lease_id: LeaseId) -> float | None:
        """When a lease ends, in seconds of the loop's clock; None: it is not held."""
        attempt = self._held.get(lease_id)
        return None if attempt is None else attempt.fence_at

    def hurry(self) -> None:
        """While it drains: give back at once what has not ended."""
        self._rushed = True
        self._changed.set()

    def beats(self) -> list[Beat]:
        """All leases that it works under or has not had an answer about."""
        return [attempt.beat() for attempt in self._held.values()]

    async def beat(self) -> None:
        """Extend all leases now and stop what is no longer wanted, instead of within a third of a lease."""
        if self._held:
            await self._extend(list(self._held.values()))

    async def run(self, stopping: asyncio.Event) -> None:
        """Work until `stopping` is set, then drain: finish what ends within `drain_us`, release the rest, leave."""
        if not await self._register(stopping):
            return
        self._loop = asyncio.get_running_loop()
        self._alarms: Alarms = self._given_alarms or self._loop
        self._noter.listen()
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                poller = group.create_task(self._poll(), name="worker-poll")
                others = [
                    group.create_task(self._report(), name="worker-report"),
                    group.create_task(self._beat(), name="worker-beat"),
                    group.create_task(self._noter.run(), name="worker-note"),
                ]
                await stopping.wait()
                self._draining = True
                poller.cancel()
                await self._drain()
                for other in others:
                    other.cancel()
        finally:
            if self._fence is not None:
                self._fence.cancel()
        try:
            await self._gateway.leave(self.info.id)
        except Unavailable:
            log.warning("worker_left_unnoticed", worker=self.info.id)

    # -- taking ----------------------------------------------------------------------------------------------------

    async def _register(self, stopping: asyncio.Event) -> bool:
        """Announce this worker, for as long as it takes. False: told to stop before it worked."""
        backoff = self._backoff()
        while not stopping.is_set():
            try:
                # While a report wants leases, an answer with some may be on its way; and none may want any meanwhile.
                held = None if self._wanted else self.beats()
                self._registering = True
                if not await unless(stopping, self._gateway.register(self.info, held)):
                    return False
            except Unavailable as error:
                self._unavailable("register", error)
                await pause(stopping, backoff.next_us())
            else:
                self._available()
                return True
            finally:
                self._registering = False
        return False

    def _unavailable(self, verb: str, error: Exception) -> None:
        """Say so once, however often it is tried."""
        if not self._down and self.says_outages:
            log.warning("gateway_unavailable", verb=verb, reason=str(error))
        self._down = True

    def _available(self) -> None:
        if self._down and self.says_outages:
            log.info("gateway_available")
        self._down = False

    def _free(self) -> int:
        """Slots that nothing holds and nothing under way has asked for."""
        return self.info.capacity - len(self._held) - self._asked - self._wanted

    async def _poll(self) -> None:
        """Ask for leases whenever slots are free."""
        backoff = self._backoff()
        never = asyncio.Event()
        while True:
            while (free := self._free()) <= 0:
                self._changed.clear()
                await self._changed.wait()
            self._asked = free
            sent = self._alarms.time()
            try:
                leases = await self._gateway.lease(self.info.id, free)
            except Unavailable as error:
                self._unavailable("lease", error)
                self._asked = 0
                await asyncio.sleep(backoff.next_us() / 1_000_000)
                await self._register(never)
                continue
            finally:
                self._asked = 0
            backoff.reset()
            self._available()
            self._start(leases, sent)
            # What has come begins before more is asked for. The port waits for a task; one that does not must not make
            # us spin.
            await asyncio.sleep(0 if leases else 0.01)

    def _start(self, leases: Sequence[Lease], sent: float) -> None:
        """Begin to work on leases whose request was sent at `sent`."""
        now = self._alarms.time()
        late: list[Attempt] = []
        for lease in leases:
            if lease.lease_id in self._held:
                continue  # the same grant, told twice
            over_at = None if lease.attempt_us is None else now + lease.attempt_us / 1_000_000
            attempt = Attempt(lease, sent + lease.lease_us / 1_000_000, over_at)
            self._held[lease.lease_id] = attempt
            if self._draining:
                self._give_back(attempt)  # answered to a request from before the drain
            elif now - sent < lease.lease_us / 3_000_000:
                self._begin(attempt)
            else:
                late.append(attempt)
            if lease.heartbeat_us is not None and lease.heartbeat_us / 1_000_000 < self._lease_s:
                self._beat_now.set()
        if late:
            # The call waited so long for a task that, counted from its sending, little or nothing of the lease is left.
            # A heartbeat tells how it stands; only then does work begin.
            self._group.create_task(self._confirm(late), name="worker-confirm")

    async def _confirm(self, attempts: Sequence[Attempt]) -> None:
        """Begin work on leases that the gateway says are alive."""
        backoff = self._backoff()
        while attempts := [a for a in attempts if a.lease.lease_id in self._held]:
            if await self._extend(attempts):
                break
            await asyncio.sleep(backoff.next_us() / 1_000_000)
        for attempt in attempts:
            if attempt.lease.lease_id in self._held and attempt.job is None:
                if self._draining:
                    self._give_back(attempt)
                else:
                    self._begin(attempt)

    def _begin(self, attempt: Attempt) -> None:
        lease = attempt.lease
        if attempt.over_at is not None:
            until = attempt.over_at
            gate = self._gate(lease.name)
            if gate is not None and gate.busy(lease.task_id):
                attempt.gated = True
                until -= (1 - _GATE_SHARE) * (until - self._alarms.time())
            attempt.timer = self._alarms.call_at(until, self._expire, attempt)
        self._guard(attempt.fence_at)
        attempt.job = self._group.create_task(self._work(attempt), name=lease.name)

    # -- working ---------------------------------------------------------------------------------------------------

    async def _work(self, attempt: Attempt) -> None:
        """Run one attempt to a result, or to being forgotten or released."""
        lease = attempt.lease
        result: Result | None = None
        try:
            await self._pass_gate(attempt)
            result = await self._execute(lease)
        except asyncio.CancelledError:
            if attempt.stop is None:
                raise  # the runner itself is being ended
            if attempt.stop is Stop.TIMEOUT:
                assert lease.attempt_us is not None
                result = Failed(
                    code="timeout",
                    message=f"no result within {format_duration(lease.attempt_us)}",
                )
        except ProcessLost:
            if attempt.stop is None:
                attempt.stop = Stop.LOSE
        except Interrupted:
            attempt.stop = Stop.RELEASE
            if not self._draining:
                # Or this worker would get the task again at once, and so on.
                await asyncio.sleep(_INTERRUPTED_US / 1_000_000)
        except Exception as error:  # a fault of ours is one attempt's failure
            log.exception("executor_failed", task_id=lease.task_id)
            result = Failed(code="internal", message=text_of(f"{type(error).__name__}: {error}"))
        if attempt.timer is not None:
            attempt.timer.cancel()
        if result is not None:
            attempt.result = result
            self._finished.append(attempt)
            self._report_now.set()
        elif attempt.stop is Stop.LOSE:
            self._lost.append(attempt)
            self._report_now.set()
        elif attempt.stop is Stop.RELEASE and (attempt.gated or await self._unwound(lease)):
            self._give_back(attempt)
        else:
            self._forget(attempt)

    async def _pass_gate(self, attempt: Attempt) -> None:
        """Wait until no earlier attempt's work runs here any more."""
        attempt.begun = True
        if attempt.stop is not None:
            attempt.gated = True  # nothing of it has begun
            raise asyncio.CancelledError  # it was stopped before that, and not cancelled
        lease = attempt.lease
        gate = self._gate(lease.name)
        if gate is not None and gate.busy(lease.task_id):
            attempt.gated = True
            if lease.task_id not in self._gated:  # it may come again and again
                self._gated.add(lease.task_id)
                log.info("attempt_waits_for_earlier_one", task_id=lease.task_id)
            await gate.until_free(lease.task_id)
        attempt.gated = False
        self._gated.discard(lease.task_id)

    async def _execute(self, lease: Lease) -> Result:
        """Raises what the executor does. A library's CancelledError, taken for our own, would leave an attempt that is
        held for ever and never reported.
        """
        try:
            return await self._executor(lease.name).execute(lease)
        except asyncio.CancelledError:
            if is_ending():
                raise
            raise RuntimeError("it was cancelled, and not by this worker") from None

    def _executor(self, name: str) -> Executor:
        return self._executors[name if name in self._executors else ""]

    def _gate(self, name: str) -> Gate | None:
        return self._gates[name if name in self._gates else ""]

    async def _unwound(self, lease: Lease) -> bool:
        """Whether stopped work has really ended. Work that goes on keeps its lease until that expires."""
        gate = self._gate(lease.name)
        if gate is None or not gate.busy(lease.task_id):
            return True
        try:
            async with asyncio.timeout(_UNWIND_US / 1_000_000):
                await gate.until_free(lease.task_id)
        except TimeoutError:
            log.warning("work_could_not_be_stopped", task_id=lease.task_id)
            return False
        return True

    def _expire(self, attempt: Attempt) -> None:
        """The attempt's time is over; or, if it never began, its time to wait for that."""
        assert attempt.over_at is not None
        if attempt.gated:
            self._stop(attempt, Stop.RELEASE)
        elif self._alarms.time() < attempt.over_at - 0.001:
            attempt.timer = self._alarms.call_at(attempt.over_at, self._expire, attempt)
        else:
            self._stop(attempt, Stop.TIMEOUT)

    def _stop(self, attempt: Attempt, why: Stop) -> None:
        """Stop work that has no result yet."""
        if attempt.result is not None or attempt.stop is not None:
            return
        attempt.stop = why
        if attempt.job is not None:
            if attempt.begun:  # else it sees that itself
                attempt.job.cancel()
        elif why is Stop.RELEASE:
            self._give_back(attempt)
        else:
            self._forget(attempt)

    def _forget(self, attempt: Attempt) -> None:
        self._held.pop(attempt.lease.lease_id, None)
        gate = self._gate(attempt.lease.name)
        if gate is None or not gate.busy(attempt.lease.task_id):  # else the executor closes it
            self._notebook.close(attempt.lease.lease_id)
        self._changed.set()

    def _give_back(self, attempt: Attempt) -> None:
        self._returning.append(attempt)
        self._report_now.set()

    # -- fencing ---------------------------------------------------------------------------------------------------

    def _guard(self, fence_at: float) -> None:
        """Have leases looked at by `fence_at`, if nothing earlier is set."""
        if self._fence is not None:
            if self._fence.when() <= fence_at:
                return
            self._fence.cancel()
        self._fence = self._alarms.call_at(fence_at, self._fence_off)

    def _fence_off(self) -> None:
        """Stop work whose lease is over; look again when the next one could be."""
        self._fence = None
        now = self._alarms.time()
        next_at: float | None = None
        for attempt in list(self._held.values()):
            if attempt.result is not None or attempt.job is None:
                continue
            if attempt.fence_at > now:
                next_at = attempt.fence_at if next_at is None else min(next_at, attempt.fence_at)
                continue
            lease = attempt.lease
            if lease.attempt_us is not None and lease.attempt_us <= lease.lease_us:
                self._stop(attempt, Stop.RELEASE if attempt.gated else Stop.TIMEOUT)
            else:
                log.warning("lease_ran_out", task_id=lease.task_id, attempt=lease.attempt)
                self._stop(attempt, Stop.FORGET)
        if next_at is not None:
            self._guard(next_at)

    # -- heartbeats ------------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        """Extend all leases, often enough for the shortest bound among them."""
        idle = 0
        while True:
            pause = self._beat_pause()
            planned = self._loop.time() + pause
            self._beat_now.clear()
            try:
                async with asyncio.timeout(pause):
                    await self._beat_now.wait()
                continue  # a lease with a shorter bound has come
            except TimeoutError:
                self._lag_us = int(max(0.0, self._loop.time() - planned) * 1_000_000)
            idle = 0 if self._held else idle + 1
            if self._held or idle % _IDLE_BEATS == 0:
                await self._extend(list(self._held.values()))

    def _beat_pause(self) -> float:
        bounds = [
            a.lease.heartbeat_us / 1_000_000
            for a in self._held.values()
            if a.lease.heartbeat_us is not None
        ]
        return max(0.01, min([self._lease_s, *bounds]) / 3)

    async def _extend(self, attempts: Sequence[Attempt]) -> bool:
        """One heartbeat for these leases; stops the work of those that it lost. False: no answer."""
        beats = [attempt.beat(alive=self._take_beat(attempt.lease)) for attempt in attempts]
        load = Load(busy=len(self._held), capacity=self.info.capacity, lag_us=self._lag_us)
        sent = self._alarms.time()
        try:
            async with asyncio.timeout(self._lease_s / 3):
                verdicts = await self._gateway.heartbeat(self.info.id, beats, load)
        except (Unavailable, TimeoutError) as error:
            self._unavailable("heartbeat", error)
            return False
        for attempt, verdict in zip(attempts, verdicts, strict=True):
            if verdict is Verdict.OK:
                attempt.fence_at = max(attempt.fence_at, sent + self._lease_s)
            else:
                # A finished result is kept: its report gets a verdict of its own (SEMANTICS F8).
                self._stop(attempt, Stop.FORGET)
        if self.on_extended is not None:
            self.on_extended()
        return True

    def _take_beat(self, lease: Lease) -> bool:
        gate = self._gate(lease.name)
        return gate is not None and gate.take_beat(lease.task_id)

    # -- reporting -------------------------------------------------------------------------------------------------

    async def _report(self) -> None:
        """Hand in results and give leases back, each until the gateway has answered."""
        backoff = self._backoff()
        while True:
            await self._report_now.wait()
            self._report_now.clear()
            while self._finished or self._returning or self._lost:
                try:
                    if self._lost:  # at once: what it said last waits for nobody's next attempt
                        await self._give_back_batch(self._lost, self._gateway.lose)
                    if self._finished or self._returning:
                        await self._noter.flush()
                    if self._finished:
                        await self._report_batch()
                    if self._returning:
                        await self._give_back_batch(self._returning, self._gateway.release)
                except Unavailable as error:
                    self._unavailable("report", error)
                    await asyncio.sleep(backoff.next_us() / 1_000_000)
                else:
                    backoff.reset()
                    self._available()

    async def _report_batch(self) -> None:
        batch = self._finished[:REPORT_MAX]
        reports = [attempt.report() for attempt in batch]
        want = 0 if self._draining or self._registering else max(0, self._free() + len(batch))
        self._wanted = want
        sent = self._alarms.time()
        try:
            answer = await self._gateway.report(self.info.id, reports, want)
        finally:
            self._wanted = 0
            self._changed.set()
        del self._finished[: len(batch)]
        for attempt in batch:
            self._forget(attempt)
        self._start(answer.leases, sent)

    async def _give_back_batch(
        self,
        waiting: list[Attempt],
        tell: Callable[[WorkerId, Sequence[Beat]], Awaitable[None]],
    ) -> None:
        batch = list(waiting)
        await tell(self.info.id, [attempt.beat() for attempt in batch])
        del waiting[: len(batch)]
        for attempt in batch:
            self._forget(attempt)

    # -- stopping --------------------------------------------------------------------------------------------------

    async def _drain(self) -> None:
        """Let work end within `drain_us`, release what has not, and see the last answers."""
        for attempt in list(self._held.values()):
            if attempt.gated or attempt.job is None:
                self._stop(attempt, Stop.RELEASE)
        if not await self._emptied(self.drain_us):
            for attempt in list(self._held.values()):
                self._stop(attempt, Stop.RELEASE)
            if not await self._emptied(_LAST_US, last=True):
                log.warning("leases_left_to_recovery", count=len(self._held))
        for attempt in self._held.values():
            if attempt.job is not None:
                attempt.job.cancel()

    async def _emptied(self, within_us: int, *, last: bool = False) -> bool:
        """Wait until no lease is held; if this is not the last wait, until told to hurry."""
        try:
            async with asyncio.timeout(within_us / 1_000_000):
                while self._held and (last or not self._rushed):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return not self._held

    def _backoff(self) -> Backoff:
        return Backoff(self._dice.draw)

"""The task processes of a worker: an executor over them, with restarts and reloads. No user code, no gateway.

Theory of operation. A generation is so many processes of the same app, loaded at the same time. Each process has a
keeper, which waits for its death and replaces it, at once or after a while that grows as long as new ones die young. A
reload begins a new generation beside the old one and retires that when all of the new are ready; what cannot be loaded
retires nothing. A retired process ends what it has begun, and then itself.

A call goes to the process with the fewest of its kind. It ends with its result, with the word that its stopped code has
ended, or with the death of its process, which is told at once: `ProcessLost`. A call that was under way when a process
died is suspected: the next time it goes where no other suspect is, if there is such a process, and others are kept away
from it. One that was there twice waits for such a process. So what kills its process takes few others along, and none
so often that it counts as dead itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any

from tenuto.model.ids import LeaseId, TaskId
from tenuto.ports.gateway import Lease, Note, NoteKind, Result
from tenuto.runtime.backoff import Backoff
from tenuto.runtime.logging import get_logger
from tenuto.worker.attempts import ProcessLost
from tenuto.worker.children import how_of, relay_log
from tenuto.worker.frames import result_of_document
from tenuto.worker.handle import Broken, Handle, Known, Plan, names_of
from tenuto.worker.launching import Launcher
from tenuto.worker.live import Live, answer_of
from tenuto.worker.notes import Notebook
from tenuto.worker.process import FENCED
from tenuto.worker.relay import Relay
from tenuto.worker.user import Interrupted

KILL_AFTER_S = 0.8
"""From asking a process to end, or its last work to stop, to killing it."""
_YOUNG_S = 10.0
"""A process that lived longer is replaced at once, and so is the first that did not."""
_INITIAL_US = 100_000
_LONGEST_US = 30_000_000
_LONGEST_READY_US = 2_000_000
"""The same for processes that had loaded the app: what kills them is a task, which is dead after a few of them, and
all others wait meanwhile.
"""
_LOADING_US = 1_000_000
"""The least time between two tries to load what could not be loaded."""
_SUSPECTS_MAX = 1_000
_ALONE = 2
"""Processes that a task has seen die, from which on it shares none with another such task."""
_WORDS_S = 2.0
"""How long after a death its last lines are waited for, where their pipe does not end: a child of it has it, too."""
_GONE_S = 5.0
_FOREVER_S = 1e9

log = get_logger("worker")


class _Call:
    """An attempt on its way to a process and back."""

    __slots__ = ("answer", "beaten", "begun", "handle", "lease", "stopped")

    def __init__(self, lease: Lease, answer: asyncio.Future[Result]) -> None:
        self.lease = lease
        self.answer = answer
        self.handle: Handle | None = None
        self.stopped = False
        self.beaten = False
        self.begun = False


class _Desk:
    """What a process has to do."""

    __slots__ = ("calls", "kinds")

    def __init__(self) -> None:
        self.calls: dict[LeaseId, _Call] = {}
        self.kinds: Counter[tuple[bool, bool]] = Counter()


class Processes:
    """An executor of the functions of an app, in processes. Its methods belong to the supervisor's loop.

    Attributes:
        fence_of: when a lease ends, in seconds of the monotonic clock.
        on_change: called when `names` may have changed.
    """

    def __init__(
        self,
        launcher: Launcher,
        plan: Plan,
        notebook: Notebook,
        *,
        count: int,
        draw: Callable[[], float],
    ) -> None:
        """`draw`: chance for the back-off, in [0, 1). Starts nothing yet."""
        assert count > 0
        self._launcher = launcher
        self._plan = plan
        self._notebook = notebook
        self._count = count
        self._draw = draw
        self._relay = Relay()
        self._handles: list[Handle] = []
        self._desks: dict[Handle, _Desk] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._group: asyncio.TaskGroup
        self._live: Live[_Call] = Live()
        self._by_lease: dict[LeaseId, _Call] = {}
        self._waiting: deque[_Call] = deque()
        self._suspects: OrderedDict[TaskId, int] = OrderedDict()
        self._draining = False
        self._closing = False
        self._usable = True
        self._reload = asyncio.Event()
        self.fence_of: Callable[[LeaseId], float | None] = lambda _: None
        self.on_change: Callable[[], None] = lambda: None

    # -- as an executor ------------------------------------------------------------------------------------------------

    async def execute(self, lease: Lease) -> Result:
        """Run one attempt. Cancelling asks the function to stop and returns at once; then see `busy`.

        Raises:
            ProcessLost: its process died under it.
            Interrupted: no process can take it, and none will soon.
        """
        call = _Call(lease, asyncio.get_running_loop().create_future())
        self._live.begin(lease.task_id, call)
        self._by_lease[lease.lease_id] = call
        self._waiting.append(call)
        self._hand_out()
        return await answer_of(call.answer, partial(self._stop, call))

    def busy(self, task_id: TaskId) -> bool:
        """Whether a function of that task is still running, its result wanted or not."""
        return self._live.busy(task_id)

    async def until_free(self, task_id: TaskId) -> None:
        """Wait until `busy` is False."""
        await self._live.until_free(task_id)

    def take_beat(self, task_id: TaskId) -> bool:
        """Whether the task called `context.heartbeat()` since this was last asked, or could not yet."""
        call = self._live.find(task_id)
        if call is None:
            return False
        beaten, call.beaten = call.beaten, False
        if call.handle is None:
            return True
        known = call.handle.tasks.get(call.lease.name)
        waits = known is not None and known.process and (call.stopped or not call.begun)
        return beaten or waits

    def extend(self) -> None:
        """Leases have been extended: tell the processes."""
        for handle in self._desks:
            leases = {
                call.lease.lease_id: until
                for call in self._calls_of(handle)
                if (until := self.fence_of(call.lease.lease_id)) is not None
            }
            if leases:
                handle.send({"do": "until", "leases": leases})

    # -- their life ----------------------------------------------------------------------------------------------------

    @property
    def known(self) -> Sequence[Known]:
        """The functions that can be run just now, by name; none while no process can be started."""
        if not self._usable:
            return ()
        ready = [handle for handle in self._handles if handle.tasks]
        found = {name: each for handle in ready for name, each in handle.tasks.items()}
        return [found[name] for name in names_of(ready)]

    @property
    def pids(self) -> list[int]:
        """Of those that work."""
        return [handle.pid for handle in self._handles if handle.usable]

    async def start(self) -> None:
        """Start the first generation; returns when all of it is ready. On the loop that `run` is on.

        Raises:
            Broken: the app cannot be loaded; all that was started has ended.
        """
        self._launcher.attend()
        self._handles = await self._generation()

    async def run(self, stopping: asyncio.Event) -> None:
        """Keep processes alive until `stopping` is set, then end them."""
        async with asyncio.TaskGroup() as self._group:
            self._keep_all()
            reloader = self._group.create_task(self._reloads(), name="worker-reload")
            await stopping.wait()
            self._closing = True
            for task in (reloader, *self._keepers):
                task.cancel()
        await self._end(list(self._desks))
        self._relay.close(1.0)

    def reload(self) -> None:
        """Load the app anew, in new processes; those that there are end what they have begun."""
        self._reload.set()

    def drain(self) -> None:
        """From now on a process all of whose work has been stopped is killed if it does not obey."""
        self._draining = True

    async def _generation(self) -> list[Handle]:
        """New processes, when all of them are ready. Raises Broken."""
        handles = [self._new() for _ in range(self._count)]
        try:
            for handle in handles:
                await handle.ready
        except BaseException as error:
            failed = next((handle for handle in handles if handle.is_broken), None)
            await self._end(handles, at_once=True)
            if isinstance(error, Broken) and not str(error) and failed is not None:
                raise Broken(await _died_loading(failed)) from None
            raise
        return handles

    def _new(self) -> Handle:
        handle = Handle(self._launcher, self._relay, self._plan, self)
        self._desks[handle] = _Desk()
        return handle

    def _keep_all(self) -> None:
        self._keepers = [
            self._group.create_task(self._keep(number), name=f"worker-process-{number}")
            for number in range(self._count)
        ]

    async def _keep(self, number: int) -> None:
        """Replace a process when it has died, for as long as this generation works."""
        backoff, before = self._backoff(), False
        while True:
            handle = self._handles[number]
            status = await handle.launched.wait()
            young = monotonic() - handle.begun_at < _YOUNG_S
            if not young:
                backoff.reset()
            pause_us = backoff.next_us() if young and before else 0
            if handle.tasks:
                pause_us = min(pause_us, _LONGEST_READY_US)
            before = young
            self._group.create_task(self._tell_death(handle, status, pause_us), name="worker-told")
            await asyncio.sleep(pause_us / 1_000_000)
            await self._replace(number, backoff)

    async def _tell_death(self, handle: Handle, status: int, pause_us: int) -> None:
        await handle.tail.until_over(_WORDS_S, hurried=lambda: self._closing)
        log.warning(
            "task_process_died",
            pid=handle.pid,
            how=_how(status),
            next_in=f"{pause_us / 1_000_000:.1f}s",
            last_lines=handle.tail.lines(),
        )

    async def _replace(self, number: int, backoff: Backoff) -> None:
        """Put a new process in the place of a dead one, however long that takes."""
        while True:
            handle = self._new()
            try:
                await handle.ready
            except Broken as error:
                await self._end([handle], at_once=True)
                pause_us = max(_LOADING_US, backoff.next_us())
                log.error(  # noqa: TRY400 - a user's mistake, and all of it
                    "app_not_loaded",
                    reason=str(error) or await _died_loading(handle),
                    next_in=f"{pause_us / 1_000_000:.1f}s",
                )
                self._set_usable(usable=any(other.usable for other in self._handles))
                await asyncio.sleep(pause_us / 1_000_000)
            except asyncio.CancelledError:
                handle.leaving = True
                handle.kill()  # a reload or the end has come first
                raise
            else:
                self._handles[number] = handle
                self._set_usable(usable=True)
                self._hand_out()
                return

    async def _reloads(self) -> None:
        """Begin a new generation when told to, again and again until the app can be loaded."""
        backoff = self._backoff()
        while True:
            await self._reload.wait()
            self._reload.clear()
            try:
                handles = await self._generation()
            except Broken as error:
                pause_us = max(_LOADING_US, backoff.next_us())
                log.error(  # noqa: TRY400 - the same
                    "app_not_reloaded", reason=str(error), next_in=f"{pause_us / 1_000_000:.1f}s"
                )
                try:
                    async with asyncio.timeout(pause_us / 1_000_000):
                        await self._reload.wait()
                except TimeoutError:
                    self._reload.set()
                continue
            backoff.reset()
            for keeper in self._keepers:
                keeper.cancel()
            old, self._handles = self._handles, handles
            self._keep_all()
            self._set_usable(usable=True)
            log.info("app_reloaded", tasks=len(self.known), draining=len(self._by_lease))
            for handle in old:
                handle.leaving = True
                self._end_if_idle(handle)
            self._hand_out()

    def _set_usable(self, *, usable: bool) -> None:
        self._usable = usable
        if not usable:
            while self._waiting:
                call = self._waiting.popleft()
                self._settle(call, Interrupted("no task process can be started"))
        self.on_change()

    def _end_if_idle(self, handle: Handle) -> None:
        """A retired process whose work has ended is asked to go."""
        if handle.leaving and not self._closing and not self._calls_of(handle):
            self._group.create_task(self._end([handle]), name="worker-retire")

    async def _end(self, handles: Sequence[Handle], *, at_once: bool = False) -> None:
        """Ask processes to end, then kill them; returns when they are gone."""
        for handle in handles:
            handle.kill() if at_once else handle.leave()
        waits = [handle.launched for handle in handles if handle.returncode is None]
        try:
            async with asyncio.timeout(_GONE_S if at_once else KILL_AFTER_S):
                for launched in waits:
                    await launched.wait()
        except TimeoutError:
            if at_once:
                log.warning("children_left_behind", count=len(waits))
            else:
                await self._end(handles, at_once=True)

    def _backoff(self) -> Backoff:
        return Backoff(self._draw, initial_us=_INITIAL_US, max_us=_LONGEST_US)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _calls_of(self, handle: Handle) -> list[_Call]:
        return list(self._desks[handle].calls.values()) if handle in self._desks else []

    def _hand_out(self) -> None:
        """Give waiting calls to processes."""
        usable = [handle for handle in self._handles if handle.usable]
        if not usable:
            return
        waiting, self._waiting = self._waiting, deque()
        for call in waiting:
            handle = min(usable, key=partial(self._weight, call=call))
            if self._must_wait(call, handle):
                self._waiting.append(call)
            else:
                self._hand_to(handle, call)

    def _hand_to(self, handle: Handle, call: _Call) -> None:
        call.handle = handle
        desk = self._desks[handle]
        desk.calls[call.lease.lease_id] = call
        desk.kinds[_kind(handle, call)] += 1
        until = self.fence_of(call.lease.lease_id)
        handle.send(
            {
                "do": "run",
                "lease": call.lease,
                "until": monotonic() + _FOREVER_S if until is None else until,
            }
        )

    def _deaths(self, call: _Call) -> int:
        """How many processes have died under its task here, since it last had a result."""
        return self._suspects.get(call.lease.task_id, 0)

    def _must_wait(self, call: _Call, handle: Handle) -> bool:
        return self._deaths(call) >= _ALONE and any(
            self._deaths(other) >= _ALONE for other in self._desks[handle].calls.values()
        )

    def _weight(self, handle: Handle, call: _Call) -> tuple[int, int, int, int]:
        """How little a call wants to go to a process."""
        desk, worst, suspects = self._desks[handle], 0, 0
        if self._suspects:
            deaths = [self._deaths(each) for each in desk.calls.values()]
            worst = sum(each >= _ALONE for each in deaths)
            suspects = sum(each > 0 for each in deaths)
            if not self._deaths(call):
                worst, suspects = min(worst, 1), min(suspects, 1)
        return (worst, suspects, desk.kinds[_kind(handle, call)], len(desk.calls))

    def _stop(self, call: _Call) -> None:
        call.stopped = True
        if call.handle is None:
            if call in self._waiting:
                self._waiting.remove(call)
            self._close(call)
            return
        call.handle.send({"do": "stop", "lease": call.lease.lease_id})
        if self._draining:
            asyncio.get_running_loop().call_later(KILL_AFTER_S, self._kill_stuck, call)

    def _kill_stuck(self, call: _Call) -> None:
        """At the end there is nobody left whom a process that does not obey could harm by its death."""
        handle = call.handle
        still = handle is not None and self._by_lease.get(call.lease.lease_id) is call
        if still and handle is not None and all(each.stopped for each in self._calls_of(handle)):
            handle.kill()

    def _settle(self, call: _Call, outcome: Result | Exception) -> None:
        """A call has ended."""
        if not call.answer.done():
            if isinstance(outcome, Exception):
                call.answer.set_exception(outcome)
            else:
                call.answer.set_result(outcome)
        self._close(call)

    def _close(self, call: _Call) -> None:
        self._live.end(call.lease.task_id)
        self._by_lease.pop(call.lease.lease_id, None)
        self._notebook.close(call.lease.lease_id)
        if call.handle in self._desks:
            desk = self._desks[call.handle]
            del desk.calls[call.lease.lease_id]
            desk.kinds[_kind(call.handle, call)] -= 1
            self._end_if_idle(call.handle)
        if self._waiting and call.handle is not None:
            self._hand_out()  # one that waits for company to leave

    # -- what processes say --------------------------------------------------------------------------------------------

    def hear(self, handle: Handle, message: dict[str, Any]) -> None:
        """Take a message. Raises ValueError, LookupError or TypeError: it makes no sense."""
        match message["say"]:
            case "log":
                relay_log(message)
            case "notes":
                self._notebook.accept(
                    [Note(**{**each, "kind": NoteKind(each["kind"])}) for each in message["notes"]]
                )
            case word:
                call = self._by_lease.get(message["lease"])
                if call is None or call.handle is not handle:
                    return
                match word:
                    case "beat":
                        call.beaten = call.begun = True
                    case "result":
                        self._suspects.pop(call.lease.task_id, None)
                        self._settle(call, result_of_document(message["result"]))
                    case _:
                        self._settle(call, Interrupted("the user's loop has ended"))

    def bury(self, handle: Handle) -> None:
        """A process is gone: what it worked on is lost, unless nobody wanted it any more."""
        calls = self._desks.pop(handle).calls.values()
        for call in calls:
            if not call.stopped:
                self._suspects[call.lease.task_id] = self._deaths(call) + 1
                if len(self._suspects) > _SUSPECTS_MAX:
                    self._suspects.popitem(last=False)
        for call in calls:
            self._settle(call, ProcessLost(_how(handle.returncode or 0)))


def _kind(handle: Handle, call: _Call) -> tuple[bool, bool]:
    """Where it runs in its process: kinds share no threads."""
    known = handle.tasks.get(call.lease.name)
    return (False, False) if known is None else (known.is_async, known.process)


def _how(status: int) -> str:
    if status == FENCED:
        return "ended itself: its work went on after its leases, while the supervisor was silent"
    return how_of(status)


async def _died_loading(handle: Handle) -> str:
    """What to say of a process that died while it imported the app."""
    if handle.launched.refused:
        return f"a task process cannot be started: {handle.launched.refused}"
    await handle.tail.until_over(_WORDS_S)
    last = "".join(f"\n  {line}" for line in handle.tail.lines())
    return f"a task process {_how(handle.returncode or 0)} while it loaded the app" + (
        f"; its last lines:{last}" if last else ""
    )

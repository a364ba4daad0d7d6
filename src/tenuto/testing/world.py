"""`engine`: the real engine with an app of the user's, in memory, whose clock stands still until a test turns it.

Coordinator, store, worker and the user's functions are those of production. While it is open the app's own verbs
(`app.start` in a handler, say) use it too. Verbs that wait have coroutines of the same name with an `a` before it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeGuard, TypeVar

from tenuto.model.errors import Conflict, InvalidInput, TenutoError
from tenuto.model.ids import RunId
from tenuto.model.instants import format_duration, format_instant
from tenuto.model.stored import decode_graph
from tenuto.sdk.run import Run as SdkRun
from tenuto.sdk.tenuto import NAMESPACE, Tenuto
from tenuto.sdk.workflows import find_source
from tenuto.testing import faults
from tenuto.testing.clock import WITHIN, HandClock, datetime_of, duration_of, instant_of
from tenuto.testing.faults import UNSET, Call, Mock
from tenuto.testing.reading import Reading
from tenuto.testing.runs import Run, RunCheck, check_path
from tenuto.testing.settling import Settling
from tenuto.testing.shown import hides, is_the_tests
from tenuto.testing.stage import HandStage
from tenuto.testing.sync import EngineVerbs

if TYPE_CHECKING:
    from tenuto.app.embedded import Engine as Embedded
    from tenuto.sdk.builder.workflow import Workflow
    from tenuto.sdk.workflows import Deployed

START = "2026-01-01T00:00:00Z"
PATIENCE_S = 10.0
__tracebackhide__ = hides

_T = TypeVar("_T")


class NothingDue(TenutoError):
    """The clock cannot be turned to what a test waits for: nothing more is due, or not within the bound."""

    exit_code = 1


class UnusedMocks(AssertionError):
    """Mocks of a strict engine that no attempt met."""


def engine(
    app: Tenuto | None = None,
    *,
    start_at: str | datetime = START,
    seed: int = 0,
    allow_http: bool = False,
    strict: bool = False,
    verify: bool = True,
    patience: float = PATIENCE_S,
) -> Engine:
    """An engine for tests; use it as a context manager, sync or async.

    Args:
        app: whose tasks it runs; None: none but mocked ones.
        start_at: what its clock shows at first, RFC 3339 with an offset or an aware datetime.
        seed: of the jitter of back-offs.
        allow_http: whether `http` nodes without a mock send their requests.
        strict: a mock that was never used fails the test.
        verify: at the end each run's history is folded and compared with what is stored.
        patience: seconds of real time that work may take before the clock gives up waiting for it.

    Raises:
        InvalidInput: an argument is wrong.
    """
    return Engine(
        app,
        start_at=start_at,
        seed=seed,
        allow_http=allow_http,
        strict=strict,
        verify=verify,
        patience=patience,
    )


class Engine(EngineVerbs):
    """What `engine` makes. Attribute `app`: the app under test, or one without tasks."""

    def __init__(
        self,
        app: Tenuto | None,
        *,
        start_at: str | datetime,
        seed: int,
        allow_http: bool,
        strict: bool,
        verify: bool,
        patience: float,
    ) -> None:
        if app is not None and not isinstance(app, Tenuto):
            raise InvalidInput(f"{app!r} is no Tenuto app; give the object that has @app.task")
        if app is not None and app.far is not None:
            raise InvalidInput("this app speaks to a server; give one that has the engine inside")
        self.app = Tenuto(":memory:") if app is None else app
        self._clock = HandClock(instant_of(start_at))
        self._stage = HandStage(self._clock, seed=seed, allow_http=allow_http)
        self._strict, self._verify, self._patience = strict, verify, patience
        self._embedded: Embedded | None = None
        self._settling: Settling
        self._reading: Reading

    # -- opening and closing -----------------------------------------------------------------------------------------

    def open(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Start it; `with` does. `loop`: where `async def` tasks run, a loop of the engine's own by default.

        Raises:
            Conflict: the app, or this engine, is open already.
        """
        from tenuto.app.embedded import Engine as Embedded

        if self._embedded is not None or self.app.near.is_open:
            raise Conflict("this app is open already; close it first: app.close()")
        self.app.close()  # forgets what was deployed elsewhere
        embedded = Embedded(
            ":memory:", registry=self.app.registry, user_loop=loop, stage=self._stage
        )
        embedded.start()
        self._lending = self.app.near.lend(embedded, loop)
        self._lending.__enter__()
        self._embedded = embedded
        reads = embedded.reads
        self._settling = Settling(self._stage, reads, self.app.registry, self._patience)
        self._reading = Reading(reads, self._clock.now)
        try:
            self.wait(self.settle(), "open")  # until the worker has announced itself
        except BaseException:
            self._shut(embedded)
            raise

    def close(self, *, check: bool = True) -> None:
        """Check what is to be checked, and stop; does nothing where nothing is open.

        Raises:
            InvariantViolated: a history does not fold to what is stored.
            UnusedMocks: of a strict engine.
        """
        embedded = self._embedded
        if embedded is None:
            return
        try:
            if check:
                self.wait(self._ask(self._check), "close")
        finally:
            self._shut(embedded)

    async def aclose(self, *, check: bool = True) -> None:
        """As `close`."""
        embedded = self._embedded
        if embedded is None:
            return
        try:
            if check:
                await self._ask(self._check)
        finally:
            await asyncio.to_thread(self._shut, embedded)

    def _shut(self, embedded: Embedded) -> None:
        self._embedded = None
        self._lending.__exit__(None, None, None)
        self.app.close()
        embedded.stop(grace_s=0)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        if _wants_note(error) and self._embedded is not None:
            try:
                error.add_note(self.describe())
            except Exception as wrong:  # noqa: BLE001 - the test's own error is what counts, and all must be shut
                error.add_note(f"the runs cannot be shown: {wrong}")
        self.close(check=error is None)

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.open, asyncio.get_running_loop())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        if _wants_note(error) and self._embedded is not None:
            try:
                error.add_note(await self.adescribe())
            except Exception as wrong:  # noqa: BLE001 - the test's own error is what counts, and all must be shut
                error.add_note(f"the runs cannot be shown: {wrong}")
        await self.aclose(check=error is None)

    async def _check(self) -> None:
        if self._verify:
            await self._reading.verify()
        if self._strict and (unused := self._unused()):
            raise UnusedMocks(f"no attempt met the mocks of {', '.join(map(str, unused))}")

    # -- what an app does ----------------------------------------------------------------------------------------------

    async def adeploy(self, workflow: str | Path | Workflow) -> Deployed:
        """Store a definition: a path, the text, or a built `Workflow`. Raises InvalidDefinition, NotFound."""
        deployed = await self.app.adeploy(workflow)
        await self._learn(deployed.name)
        return deployed

    async def astart(
        self,
        workflow: str | Path | Workflow,
        input: object = None,
        *,
        key: str | None = None,
        vars: Mapping[str, object] | None = None,
        priority: int = 0,
    ) -> Run:
        """Start a run, as `Tenuto.start` does; it is stored when this returns, and its tasks are on their way.

        Raises:
            NotFound, InvalidInput: as `Tenuto.start`; and mocks of nodes and tasks that no known workflow has.
            InvalidDefinition: with all findings.
        """
        if isinstance(workflow, str) and find_source(workflow) is None:
            await self._learn(workflow)
        else:
            await self.adeploy(workflow)
        run = Run(
            await self.app.astart(workflow, input, key=key, vars=vars, priority=priority), self
        )
        await self.settle()
        return run

    async def aenqueue(self, task: Callable[..., Any] | str, /, **params: object) -> Run:
        """Call one task durably, as `Tenuto.enqueue` does."""
        run = Run(await self.app.aenqueue(task, **params), self)
        await self.settle()
        return run

    async def asend_event(
        self,
        event: str,
        key: str,
        payload: object = None,
        *,
        event_id: str | None = None,
        keep: str | timedelta | None = None,
    ) -> bool:
        """Put an external event into the mailbox, as `Tenuto.send_event` does."""
        kept = await self.app.asend_event(event, key, payload, event_id=event_id, keep=keep)
        await self.settle()
        return kept

    async def aheartbeat(self, event: str, key: str) -> int:
        """Show a sign of life to those who wait for an event, as `Tenuto.heartbeat` does."""
        waits = await self.app.aheartbeat(event, key)
        await self.settle()
        return waits

    async def aget_run(self, run_id: str) -> Run:
        """The run with this id, whoever started it. Raises NotFound."""
        return Run(await self.app.aget_run(run_id), self)

    async def aruns(self) -> list[Run]:
        """All runs, oldest first, whoever started them; without those that a run has called (`Run.children`)."""
        await self.adrain()

        async def ids(reading: Reading) -> list[RunId]:
            return [run_id async for run_id in reading.run_ids(top=True)]

        return [Run(SdkRun(id, self.app), self) for id in reversed(await self.read(ids))]

    # -- the clock -----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """What the clock shows, in UTC."""
        return datetime_of(self._clock.now())

    async def adrain(self, patience: float | None = None) -> None:
        """Let everything happen that can happen without the clock going on. Raises StillRunning."""
        await self._ask(lambda: self._settling.drain(patience))

    async def aadvance(self, by: str | timedelta) -> None:
        """Turn the clock by this much, stopping at every due moment on the way, and let everything happen.

        Raises:
            InvalidInput: `by` is no duration.
            StillRunning: work takes longer than the engine's patience.
        """
        length = duration_of(by)
        await self._ask(lambda: self._settling.turn_to(self._clock.now() + length))

    async def aadvance_to(self, moment: str | datetime) -> None:
        """Turn the clock to this moment. Raises as `advance`; InvalidInput for one that has passed, too."""
        at = instant_of(moment)
        if at < self._clock.now():
            raise InvalidInput(
                f"the clock only goes forward: it shows {format_instant(self._clock.now())} already"
            )
        await self._ask(lambda: self._settling.turn_to(at))

    async def aadvance_until(
        self,
        condition: Run | Callable[[], bool | Awaitable[bool]],
        *,
        within: str | timedelta = WITHIN,
    ) -> timedelta:
        """Turn the clock from due moment to due moment until a condition holds; says by how much.

        Args:
            condition: a function, or a run for its end.
            within: how far to turn at most.

        Raises:
            NothingDue: nothing more is due, or not within the bound.
            StillRunning: work takes longer than the engine's patience.
        """
        began = self._clock.now()
        bound = began + duration_of(within)
        await self.adrain()
        while not await _holds(condition):
            await self._ask(lambda: self._next(began, bound))
        return datetime_of(self._clock.now()) - datetime_of(began)

    async def arun_to_end(self, run: Run, *, within: str | timedelta = WITHIN) -> timedelta:
        """Turn the clock until this run has ended; says by how much. Raises as `advance_until`."""
        return await self.aadvance_until(run, within=within)

    # -- mocks ---------------------------------------------------------------------------------------------------------

    def mock(  # noqa: PLR0913 - one thing to do of several, by keyword
        self,
        node: str | None = None,
        /,
        *,
        task: str | None = None,
        workflow: str | None = None,
        returns: object = UNSET,
        raises: object = UNSET,
        calls: Callable[[Any], object] | object = UNSET,
        hangs: bool = False,
        lost: bool = False,
        attempts: Sequence[faults.Behaviour] | object = UNSET,
    ) -> Mock:
        """Say what a node does instead of its work; a later mock goes before an earlier one.

        Args:
            node: its id; of whatever workflow or `do:`, and of type task, http or code, or a foreach of such work
                (`each[3]` is one item of it). `charge!undo` is the handler that undoes it, `!on_failure` the run's.
            task: in place of it, every node that runs this task.
            workflow: in place of it, every run of this workflow that is called: it need not be deployed. `calls` gets
                the run's input; each run is a new one of `attempts`.
            returns: it succeeds with this JSON value (of an `http` node: `response(body)`).
            raises: it fails: a code like `"http.503"`, an exception, a `Failure`, or `raises(code, message)`.
            calls: it succeeds with what this function makes of its params, or fails as it raises.
            hangs: it does not end before a clock ends it, it is cancelled, or `Mock.let_go` is called.
            lost: the worker dies with it.
            attempts: one of `returns(…)`, `raises(…)`, `response(…)`, `hangs()`, `lost()`, `real()` for each attempt;
                the last stands for all later ones.

        Raises:
            NotFound: no known workflow has such a node or task. Checked at the next `start` where none is known yet.
            InvalidInput: not exactly one thing to do, or a node that no worker runs.
        """
        if [node, task, workflow].count(None) != 2:
            raise InvalidInput(
                "mock one node, mock('charge', …), one task, mock(task='…', …), or one workflow, mock(workflow='…', …)"
            )
        given = {"returns": returns, "raises": raises, "calls": calls, "hangs": hangs, "lost": lost}
        doing = faults.one_of({**given, "attempts": UNSET})
        if (doing is None) == (attempts is UNSET):
            raise InvalidInput(
                "a mock does one thing: returns=, raises=, calls=, hangs=True, lost=True or attempts=[…]"
            )
        behaviours = faults.each_of(attempts) if doing is None else (doing,)
        if workflow is not None:
            self._stub(workflow)
            task = f"{faults.STUB}{workflow.partition('@')[0]}"
        mock = Mock(node, task, behaviours, workflow)
        self._stage.mocks.add(mock, self.app.registry.names())
        return mock

    def _stub(self, workflow: str) -> None:
        """Deploy a workflow of one task, which mocks stand for. Raises InvalidInput, Conflict (not open)."""
        from tenuto.app.definitions import load_definition

        name, at, alias = workflow.partition("@")
        if at and not alias[:1].isalpha():
            raise InvalidInput(
                f"{workflow!r} is a single version; mock the whole workflow: workflow={name!r}"
            )
        if self._embedded is None:
            raise _closed()
        work = {"type": "task", "task": f"{faults.STUB}{name}", "params": {"input": "${input}"}}
        tree = {"name": name, "nodes": {"mock": work}, "output": "${nodes.mock.output}"}
        loaded = load_definition(json.dumps(tree), file="<mock>")
        if loaded.graph is None:
            raise InvalidInput(f"{name!r} is no name of a workflow", path="workflow")
        commands = self._embedded.commands
        self._embedded.call(commands.deploy(loaded.graph, aliases=[alias] if at else ())).result()

    async def acalls(self, node: str | None = None, *, task: str | None = None) -> list[Call]:
        """Attempts that were begun, in order: of a node, of a task, or all."""
        await self.adrain()
        return [
            call
            for call in self._stage.calls
            if node in (None, call.node) and task in (None, call.task)
        ]

    async def aunused_mocks(self) -> list[Mock]:
        """Mocks that no attempt met so far, oldest first."""
        await self.adrain()
        return self._unused()

    # -- checking ------------------------------------------------------------------------------------------------------

    async def aassert_path(self, run: Run, path: Sequence[str | Iterable[str]]) -> None:
        """These nodes, and no others, have ended as success or dead, in this order. Raises RunCheck.

        A set in the path stands for nodes that end in any order: `["charge", {"reserve", "score"}, "ship"]`.
        """
        found = await run.apath()
        wrong = check_path(found, path)
        if wrong is not None:
            raise RunCheck(f"{wrong}; the path is {found}\n{await run.adescribe()}")

    async def adescribe(self) -> str:
        """All runs as lines for people, the newest first; at most five."""
        return await self.read(Reading.describe)

    def advance_until(
        self, condition: Run | Callable[[], bool], *, within: str | timedelta = WITHIN
    ) -> timedelta:
        """As `aadvance_until`; the condition is asked in this thread."""
        if isinstance(condition, Run):
            return self.run_to_end(condition, within=within)
        began = self._clock.now()
        bound = began + duration_of(within)
        self.drain()
        while not condition():
            self.wait(self._ask(lambda: self._next(began, bound)), "advance_until")
        return datetime_of(self._clock.now()) - datetime_of(began)

    # -- for `Run` -----------------------------------------------------------------------------------------------------

    def wait(self, coroutine: Coroutine[Any, Any, _T], verb: str) -> _T:
        """Wait in this thread for a coroutine of this engine's."""
        if self._embedded is None:
            coroutine.close()
            raise _closed()
        try:
            return self.app.near.wait(coroutine, verb)
        except (RunCheck, UnusedMocks, TenutoError) as error:
            if not is_the_tests(error):
                raise
            raise error.with_traceback(None) from None  # the lines of the test are what helps

    async def settle(self) -> None:
        """Let everything happen that takes no time, real time neither."""
        await self._ask(lambda: self._settling.drain(works=False))

    async def read(self, make: Callable[[Reading], Coroutine[Any, Any, _T]]) -> _T:
        """Read of the runs as they stand."""
        return await self._ask(lambda: make(self._reading))

    # -- parts ---------------------------------------------------------------------------------------------------------

    async def _ask(self, make: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        if self._embedded is None:
            raise _closed()
        return await self.app.near.ask(lambda _: make())

    async def _learn(self, name: str) -> None:
        """Let the mocks know a deployed workflow."""

        async def read() -> None:
            row = await self._reading.reads.find_definition(NAMESPACE, name)
            if row is not None:
                self._stage.mocks.learn(
                    decode_graph(row.graph).definition, self.app.registry.names()
                )
                self._stage.parts.learn()

        await self._ask(read)

    async def _next(self, began: int, bound: int) -> None:
        """Turn the clock to the next due moment."""
        moment = await self._settling.next_moment()
        if moment is not None and moment <= bound:
            await self._settling.turn(moment)
            return
        turned = format_duration(self._clock.now() - began)
        if moment is None:
            cause = f"nothing more is due after {turned}"
        else:
            cause = (
                f"not within {format_duration(bound - began)}:"
                f" the next is due at {format_instant(moment)}"
            )
        raise NothingDue("\n  ".join([cause, *await self._reading.waiting()]))

    def _unused(self) -> list[Mock]:
        return [mock for mock in reversed(self._stage.mocks.all) if not mock.used]


async def _holds(condition: Run | Callable[[], bool | Awaitable[bool]]) -> bool:
    if isinstance(condition, Run):
        return await condition.ais_final()
    found = condition()
    return found if isinstance(found, bool) else bool(await found)


def _wants_note(error: BaseException | None) -> TypeGuard[Exception]:
    """Whether an error is a test's failure that does not show the timeline yet."""
    return isinstance(error, Exception) and not isinstance(error, RunCheck)


def _closed() -> Conflict:
    return Conflict(
        "this engine is not open; use it inside `with tenuto.testing.engine(app) as env:`"
    )

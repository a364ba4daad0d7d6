"""`Tenuto`: the engine inside a Python program, and `Run`: one run of it.

Every verb that waits is written once, as a coroutine whose name begins with `a`; the verbs without
it are generated from these (`sdk/sync.py`). Nothing is opened before the first verb needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from tenuto.model.errors import InvalidInput, NotFound
from tenuto.model.graph import Graph
from tenuto.model.ids import RunId
from tenuto.model.states import RunState
from tenuto.sdk import workflows
from tenuto.sdk.builder.functions import registries
from tenuto.sdk.builder.workflow import Workflow
from tenuto.sdk.link import Link
from tenuto.sdk.outcomes import outcome, outcomes
from tenuto.sdk.sync import RunVerbs, TenutoVerbs
from tenuto.sdk.typed import checked_params, read_annotations
from tenuto.sdk.waiting import waits_of, warn_of_missing
from tenuto.sdk.workflows import Deployed
from tenuto.settings import Database, Settings, load, read_database
from tenuto.worker.registry import Registry

if TYPE_CHECKING:
    from tenuto.app.embedded import Engine
    from tenuto.sdk.far import Far, FarLink

NAMESPACE = "default"

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Source = TypeVar("_Source")


class Tenuto(TenutoVerbs):
    """Workflows in this process, kept in a SQLite file.

    Use it as a context manager, sync or async, or call `close`; at the program's end it closes
    itself. Closing drains: tasks under way finish within ten seconds or are given back, and go on
    when the file is opened again.

    `Tenuto("http://host:port")` has the same verbs over a server: its workers have the tasks and
    execute them, `task` registers for `enqueue` alone, and the runs go on when this program ends.

    `async def` tasks run on the loop of the coroutine that first used this object, as long as that
    loop is alive, else on a loop of the engine's own; `def` tasks run in threads, those with
    `process=True` in processes of their own. All methods may be called from any thread.
    """

    def __init__(
        self,
        url: str | Path | None = None,
        *,
        slots: int | None = None,
        threads: int | None = None,
        processes: int | None = None,
    ) -> None:
        """Remember where the runs are kept; nothing is opened yet.

        Without a `url` the settings (`TENUTO_…`, tenuto.toml) say what is not given here: `database`, `worker` and
        `languages`. With one no settings are read: the program says all itself.

        Args:
            url: a path, `sqlite:///path` or `:memory:`; or `http://host:port`: a server, whose workers
            then execute the tasks. slots: tasks at the same time, 50 by default.
            threads: of these, `def` tasks at the same time, 16.
            processes: of these, tasks with `process=True` at the same time, 2.

        Raises:
            NotYet: a `postgresql:` URL.
            InvalidInput: any other URL, a bound below 1, or settings that are wrong.
        """
        bounds = (slots, threads, processes)
        if not all(bound is None or (isinstance(bound, int) and bound >= 1) for bound in bounds):
            raise InvalidInput("slots, threads and processes must be whole numbers of at least 1")
        if not isinstance(url, str | Path | None):
            raise InvalidInput(f"{url!r:.60} is no place for runs; give a path, or a URL, as text")
        self.far = _far(url)
        self.has_default_database = url is None or self.far is not None
        settings = load() if url is None else Settings()
        place = settings.database if self.has_default_database else str(url)
        self.database: Database = read_database(place)
        self.registry = Registry()
        registries.add(self.registry)
        self._names: dict[Callable[..., Any], str] = {}
        worker = settings.worker
        self.near = Link(
            self.database,
            self.registry,
            slots=worker.slots if slots is None else slots,
            threads=worker.threads if threads is None else threads,
            processes=worker.processes if processes is None else processes,
            drain_us=worker.drain_us,
            languages=settings.languages,
        )
        self.link: Link | FarLink = self.near if self.far is None else self.far.link
        self._deployed: dict[object, Deployed] = {}
        self._warned: set[tuple[str, str]] = set()

    # -- tasks -----------------------------------------------------------------------------------------------------

    @overload
    def task(self, function: _Function, /) -> _Function: ...

    @overload
    def task(
        self, /, *, name: str | None = None, process: bool = False
    ) -> Callable[[_Function], _Function]: ...

    def task(
        self,
        function: _Function | None = None,
        /,
        *,
        name: str | None = None,
        process: bool = False,
    ) -> _Function | Callable[[_Function], _Function]:
        """Register a function that `task` nodes name. It stays callable as it is.

        Register tasks before the first run starts: a worker that runs already does not see later
        ones.

        Args:
            name: what definitions say under `task:`; the function's own name by default.
            process: run it in a process of its own, for work that keeps a core busy or must be
            stopped for sure: a timeout or a cancel ends the process.

        Raises:
            InvalidTask: the name is taken, the function's parameters cannot be given by keyword, or
            an annotation is unknown or of a type that JSON cannot become;
            with `process`, no other process can import it.
        """

        def register(wanted: _Function) -> _Function:
            typing = read_annotations(wanted, str(name or getattr(wanted, "__name__", "?")))
            self.registry.add(wanted, name=name, typing=typing, process=process)
            self._names[wanted] = name if name is not None else wanted.__name__
            return wanted

        return register if function is None else register(function)

    # -- verbs -----------------------------------------------------------------------------------------------------

    async def aopen(self) -> None:
        """Open the file and carry on every unfinished run in it; starts none. Any other verb does so, too.

        Raises:
            Conflict: another engine has the file, or it is of a newer version.
            Unavailable: it cannot be read or written.
        """

        async def nothing(engine: Engine) -> None:
            del engine

        await (self.near.ask(nothing) if self.far is None else self.far.open())

    async def adeploy(self, workflow: str | Path | Workflow) -> Deployed:
        """Store a definition; the newest version of its name if nothing changed.

        Args:
            workflow: the path of a YAML or JSON file, the text itself, or a built `Workflow`.

        Raises:
            InvalidDefinition: with all findings.
            NotFound: there is no such file.
        """
        source = workflows.find_source(workflow)
        if source is None:
            raise InvalidInput(
                f"{str(workflow)!r} is neither a .yaml, .yml or .json file nor a text"
            )
        if self.far is not None:
            return await self.far.deploy(source)
        return await self._deploy(source, workflows.compile_source)

    async def astart(
        self,
        workflow: str | Path | Workflow,
        input: object = None,
        *,
        key: str | None = None,
        vars: Mapping[str, object] | None = None,
    ) -> Run:
        """Start a run; it is stored, and will be carried on, when this returns.

        Args:
            workflow: the path of a YAML or JSON file (deployed if it is new), the name of a
            deployed one, the text, or a built `Workflow`. input: any JSON value, checked against the definition's
            `input`; None is `{}`. key: idempotency key: a second start of this workflow with the
            same key gives the first one's run. vars: override the definition's `vars`.

        Raises:
            InvalidInput: `input` fails the schema, a var is unknown, or the key cannot be stored.
            InvalidDefinition: with all findings.
            NotFound: no such file or deployed workflow.
        """
        [run] = await self._start(workflow, [(input, key)], {} if vars is None else vars)
        return run

    async def astart_many(
        self,
        workflow: str | Path | Workflow,
        inputs: Sequence[object],
        *,
        vars: Mapping[str, object] | None = None,
    ) -> list[Run]:
        """Start a run for each input, in order, in few commits. Arguments and errors as `start`;
        on an error none is started.
        """
        if isinstance(inputs, str | bytes | Mapping) or not isinstance(inputs, Iterable):
            raise InvalidInput(f"{inputs!r:.60} is no list; give a list of inputs", path="inputs")
        pairs = [(input, None) for input in inputs]
        return await self._start(workflow, pairs, {} if vars is None else vars)

    async def aenqueue(self, task: Callable[..., Any] | str, /, **params: object) -> Run:
        """Call one task durably: a run of a single node, whose output is what the function returns.

        Args:
            task: a function registered with `task`, or its name.
            params: its keyword arguments: JSON values, or what becomes JSON as a task's result does
            (models, dataclasses, dates, …).

        Raises:
            NotFound: this function or name is not registered; a server's workers may know more names.
            InvalidInput: the params do not fit the function; each is named, with what is wrong.
        """
        if isinstance(task, str):
            name = task
        elif not callable(task):
            raise InvalidInput(
                f"{task!r:.60} is no task; give the function itself, not called, or its name"
            )
        else:
            found = self._names.get(task)
            if found is None:
                shown = getattr(task, "__qualname__", repr(task))
                cure = "register it with @app.task"
                if self.far is not None:
                    known_as = getattr(task, "__name__", "name")
                    cure += f", or name one that the server has: enqueue({known_as!r}, …)"
                raise NotFound("task", shown, cure)
            name = found
        known = self.far is None or name in self.registry.names()
        values = checked_params(self.registry.get(name), params) if known else params
        if self.far is not None:
            return Run(await self.far.enqueue(name, values), self)
        stored = await self._deploy(name, workflows.single_task)
        [run] = await self._start_stored(stored, [(values, None)], {})
        return run

    async def asend_event(
        self, event: str, key: str, payload: object = None, *, event_id: str | None = None
    ) -> bool:
        """Put an external event into the mailbox: the oldest wait for (event, key) takes it, now
        or when it opens.

        Args:
            event: the name that a `wait_for_event` node waits for.
            key: what its `key:` yields.
            payload: any JSON value; the output of the wait.
            event_id: a second event with the same id is dropped.

        Returns:
            False if it was dropped.
        """
        from tenuto.dsl.storable import check_word

        for word, what in ((event, "event"), (key, "key"), (event_id or "", "event_id")):
            check_word(word, what)
        text = workflows.given_text(payload, "payload")
        if self.far is not None:
            return await self.far.send_event(event, key, payload, event_id)
        return await self.near.ask(
            lambda engine: engine.commands.send_event(event, key, text, event_id=event_id)
        )

    async def aget_run(self, run_id: str) -> Run:
        """The run with this id, the whole of it. Raises NotFound."""
        from tenuto.dsl.storable import check_word

        check_word(run_id, "run_id")
        if self.far is not None:
            return Run(await self.far.find_run(run_id), self)
        detail = await self.near.ask(lambda engine: engine.reads.get_run(RunId(run_id)))
        return Run(detail.run.run_id, self)

    async def aresults(self, runs: Sequence[Run], timeout: float | None = None) -> list[Any]:
        """Wait for the ends of many runs; their outputs, in order.

        Args:
            timeout: seconds for all together, None for ever; the runs themselves go on.

        Raises:
            RunFailed: of the first, in this order, that did not end as `success`.
            TimeoutError: not all have ended in time; says what the first of these waits for.
        """
        workflows.check_timeout(timeout)
        if isinstance(runs, Run) or not isinstance(runs, Iterable):
            raise InvalidInput(f"{runs!r:.60} is no list; give a list of runs", path="runs")
        ids = [_id_of(run) for run in runs]
        try:
            async with asyncio.timeout(timeout):
                if self.far is not None:
                    return await self.far.outcomes(ids)
                return await self.near.ask(lambda engine: outcomes(engine, ids))
        except TimeoutError:
            why = await waits_of(self.near, self.far, ids)
            raise TimeoutError(f"not all runs have ended within {timeout:g} s{why}") from None

    async def aclose(self) -> None:
        """Drain and close; does nothing where nothing is open. The next verb opens anew."""
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Drain and close; does nothing where nothing is open. The next verb opens anew."""
        self._deployed.clear()
        self.link.close() if self.far is None else self.far.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        await self.aclose()

    # -- starting --------------------------------------------------------------------------------------------------

    async def _start(
        self,
        workflow: str | Path | Workflow,
        inputs: Sequence[tuple[object, str | None]],
        given: Mapping[str, object],
    ) -> list[Run]:
        source = workflows.find_source(workflow)
        if self.far is not None:
            wanted = str(workflow) if source is None else source
            return [Run(id, self) for id in await self.far.start(wanted, inputs, given)]
        stored = (
            await self._find(str(workflow))
            if source is None
            else await self._deploy(source, workflows.compile_source)
        )
        return await self._start_stored(stored, inputs, given)

    async def _start_stored(
        self,
        stored: Deployed,
        inputs: Sequence[tuple[object, str | None]],
        given: Mapping[str, object],
    ) -> list[Run]:
        from tenuto.coordinator.commands import StartRequest
        from tenuto.dsl.given import default_input
        from tenuto.dsl.inputs import check_input
        from tenuto.dsl.storable import check_word

        merged = workflows.vars_text(stored, given)
        for _, key in inputs:
            if key is not None:
                check_word(key, "key")
        requests = [
            StartRequest(
                graph_hash=stored.hash,
                workflow=stored.name,
                version=stored.version,
                input=check_input(stored.input_schema, default_input(stored.input_schema, value)),
                vars=merged,
                key=key,
            )
            for value, key in inputs
        ]
        if not requests:
            return []
        started = await self.near.ask(lambda engine: engine.commands.start(requests))
        if not self.near.is_lent:
            warn_of_missing(stored.name, stored.tasks, self.registry, self._warned)
        return [Run(each.run_id, self) for each in started]

    async def _deploy(self, source: _Source, compile: Callable[[_Source], Graph]) -> Deployed:
        known = self._deployed.get((compile, source))
        if known is not None and self.near.is_open:
            return known
        graph = await asyncio.to_thread(compile, source)
        row = await self.near.ask(lambda engine: engine.commands.deploy(graph))
        stored = workflows.workflow_of(graph, version=row.version, content_hash=row.hash)
        self._deployed[compile, source] = stored
        return stored

    async def _find(self, name: str) -> Deployed:
        from tenuto.model.stored import decode_graph

        row = await self.near.ask(lambda engine: engine.reads.find_definition(NAMESPACE, name))
        if row is None:
            raise NotFound("workflow", name, "deploy it first, or give the path of its file")
        known = self._deployed.get(row.hash)
        if known is None:
            known = workflows.workflow_of(
                decode_graph(row.graph), version=row.version, content_hash=row.hash
            )
            self._deployed[row.hash] = known
        return known


class Run(RunVerbs):
    """One run. Made by `start` and `enqueue`, or by `get_run` from an id."""

    def __init__(self, id: str, app: Tenuto) -> None:
        self.id = RunId(id)
        self.link, self._near, self._far = app.link, app.near, app.far

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    async def aresult(self, timeout: float | None = None) -> Any:
        """Wait for the end; the run's output as a JSON value.

        Args:
            timeout: seconds, None for ever; the run itself goes on.

        Raises:
            RunFailed: it ended as failed, cancelled or timed_out.
            TimeoutError: it has not ended in time; says what it waits for.
        """
        workflows.check_timeout(timeout)
        try:
            async with asyncio.timeout(timeout):
                if self._far is not None:
                    return (await self._far.outcomes([self.id]))[0]
                return await self._near.ask(lambda engine: outcome(engine, self.id))
        except TimeoutError:
            why = await waits_of(self._near, self._far, [self.id])
            raise TimeoutError(f"run {self.id} has not ended within {timeout:g} s{why}") from None

    async def astatus(self) -> str:
        """Its state: pending, running, paused, closing, success, failed, cancelled or timed_out."""
        if self._far is not None:
            return await self._far.status(self.id)
        detail = await self._near.ask(lambda engine: engine.reads.get_run(self.id))
        open_ = detail.run.state in (RunState.PENDING, RunState.RUNNING)
        return "paused" if detail.run.paused and open_ else detail.run.state

    async def acancel(self, reason: str = "") -> None:
        """Ask it to end as cancelled. Raises Conflict when it has ended already."""
        from tenuto.dsl.limits import REASON_MAX
        from tenuto.dsl.storable import check_word

        check_word(reason, "reason", REASON_MAX)
        if self._far is not None:
            await self._far.cancel(self.id, reason)
            return
        await self._near.ask(lambda engine: engine.commands.cancel(self.id, reason))

    async def apause(self) -> None:
        """Hand out no more of its tasks until it is resumed. Raises Conflict when it has ended or
        is paused.
        """
        if self._far is not None:
            await self._far.pause(self.id)
            return
        await self._near.ask(lambda engine: engine.commands.pause(self.id))

    async def aresume(self) -> None:
        """Go on after a pause. Raises Conflict when it is not paused."""
        if self._far is not None:
            await self._far.resume(self.id)
            return
        await self._near.ask(lambda engine: engine.commands.resume(self.id))


def _id_of(run: object) -> RunId:
    if not isinstance(run, Run):
        raise InvalidInput(f"{run!r:.60} is no Run; get it with get_run(id)", path="runs")
    return run.id


def _far(url: str | Path | None) -> Far | None:
    """The client of a server, where `url` is the address of one."""
    if not isinstance(url, str) or not url.lower().startswith(("http:", "https:")):
        return None
    from tenuto.sdk.far import Far

    return Far(url)

"""`Tenuto`: the engine inside a Python program, or the client of a server.

Every verb that waits is written once, as a coroutine whose name begins with `a`; the verbs without
it are generated from these (`sdk/sync.py`). Nothing is opened before the first verb needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from tenuto.model.errors import InvalidInput, NotFound
from tenuto.model.graph import Graph
from tenuto.model.ids import RunId
from tenuto.sdk import workflows
from tenuto.sdk.builder.functions import registries
from tenuto.sdk.builder.workflow import Workflow
from tenuto.sdk.doors import answers_of, far_of, far_outcome, id_of, version_row
from tenuto.sdk.link import Link
from tenuto.sdk.nested import PAGE, Plan, all_pages
from tenuto.sdk.outcomes import outcomes
from tenuto.sdk.run import Run
from tenuto.sdk.sync import TenutoVerbs
from tenuto.sdk.typed import checked_params, read_annotations
from tenuto.sdk.waiting import waits_of, warn_of_missing
from tenuto.sdk.workflows import Deployed, Version
from tenuto.settings import Database, Settings, database_of, load, read_database
from tenuto.worker.registry import Registry

if TYPE_CHECKING:
    from tenuto.app.embedded import Engine
    from tenuto.sdk.far import FarLink
    from tenuto.sdk.remote import Remote
    from tenuto.views.answers import Answers

NAMESPACE = "default"

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Source = TypeVar("_Source")
_Found = TypeVar("_Found")
_UNKNOWN = "deploy it first, or give the path of its file"


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
        `languages`. With one no settings are read but the token for a server: the program says all itself.

        Args:
            url: a path, `sqlite:///path`, `:memory:` or `postgresql://user@host/name`; or `http://host:port`: a
            server, whose workers then execute the tasks. slots: tasks at the same time, 50 by default.
            threads, processes: of these, `def` tasks at the same time, 16; tasks with `process=True`, 2.

        Raises:
            InvalidInput: any other URL, a bound below 1, or settings that are wrong.
        """
        bounds = (slots, threads, processes)
        if not all(bound is None or (isinstance(bound, int) and bound >= 1) for bound in bounds):
            raise InvalidInput("slots, threads and processes must be whole numbers of at least 1")
        if not isinstance(url, str | Path | None):
            raise InvalidInput(f"{url!r:.60} is no place for runs; give a path, or a URL, as text")
        self.far = far_of(url)
        self.has_default_database = own = url is None or self.far is not None
        settings = load() if url is None else Settings()
        self.database: Database = database_of(settings) if own else read_database(str(url))
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

        Register tasks before the first run starts: a worker that runs already does not see later ones.

        Args:
            name: what definitions say under `task:`; the function's own name by default.
            process: in a process of its own, for work that keeps a core busy or must be stopped for sure.

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

    async def adeploy(
        self, workflow: str | Path | Workflow, *, aliases: Sequence[str] = ()
    ) -> Deployed:
        """Store a definition; the newest version of its name if nothing changed (`created` says so).

        Args:
            workflow: the path of a YAML or JSON file, the text itself, or a built `Workflow`.
            aliases: names that mean this version from now on, such as `stable`.

        Raises:
            InvalidDefinition: with all findings.
            InvalidInput: an alias of another form.
            NotFound: there is no such file.
        """
        from tenuto.dsl.storable import check_alias

        if isinstance(aliases, str):
            raise InvalidInput(f"{aliases!r:.60} is no list; give a list of texts", path="aliases")
        names = [check_alias(alias) for alias in aliases]
        source = workflows.find_source(workflow)
        if source is None:
            raise InvalidInput(
                f"{str(workflow)!r} is neither a .yaml, .yml or .json file nor a text"
            )
        if self.far is not None:
            return await self.far.deploy(source, names, anew=True)
        return await self._deploy(source, workflows.compile_source, names, anew=True)

    async def aversions(self, name: str) -> list[Version]:
        """All versions of a workflow, newest first. Raises NotFound."""

        async def read(source: Answers | Remote) -> list[Version]:
            found = await all_pages(
                lambda cursor: source.list_versions(name, limit=PAGE, cursor=cursor)
            )
            return [workflows.version_of(each) for each in found]

        return await self._read(read)

    async def aaliases(self, name: str) -> dict[str, int]:
        """The aliases of a workflow: name -> version. Raises NotFound for an unknown workflow."""

        async def read(source: Answers | Remote) -> dict[str, int]:
            page: Mapping[str, Any] = await source.list_aliases(name)
            return {each["alias"]: each["version"] for each in page["items"]}

        return await self._read(read)

    async def aset_alias(self, name: str, alias: str, version: int) -> int | None:
        """Let `name@alias` mean this version from now on, at once for everybody.

        Returns:
            The version that it meant before; None if it is new.

        Raises:
            InvalidInput: an alias of another form.
            NotFound: no such workflow or version.
        """
        from tenuto.dsl.storable import check_alias

        check_alias(alias)
        number = workflows.check_version(version)
        if self.far is not None:
            return await self.far.set_alias(name, alias, number)

        async def ask(engine: Engine) -> int | None:
            row = await version_row(engine, name, str(number))
            return await engine.commands.set_alias(row.name, alias, number)

        return await self.near.ask(ask)

    async def adrop_alias(self, name: str, alias: str) -> int:
        """Let `name@alias` mean nothing; the version that it meant. Raises NotFound."""
        if self.far is not None:
            return await self.far.drop_alias(name, alias)

        async def ask(engine: Engine) -> int:
            found: Mapping[str, Any] = await answers_of(engine).get_alias(name, alias)
            await engine.commands.drop_alias(found["name"], alias)
            return int(found["version"])

        return await self.near.ask(ask)

    async def adelete_version(self, name: str, version: int) -> None:
        """Delete a version: no run is started by it any more. Runs that have ended can still be looked at.

        Raises:
            NotFound: no such workflow or version.
            Conflict: a run of it is not over, or an alias means it.
        """
        number = workflows.check_version(version)
        self._deployed.clear()
        if self.far is not None:
            await self.far.delete_version(name, number)
            return

        async def ask(engine: Engine) -> None:
            row = await version_row(engine, name, str(number))
            await engine.commands.delete_version(row.name, number)

        await self.near.ask(ask)

    async def astart(
        self,
        workflow: str | Path | Workflow,
        input: object = None,
        *,
        key: str | None = None,
        vars: Mapping[str, object] | None = None,
        priority: int = 0,
    ) -> Run:
        """Start a run; it is stored, and will be carried on, when this returns.

        Args:
            workflow: the path of a YAML or JSON file (deployed if it is new), the name of a
            deployed one (`order` is the newest version, `order@3` and `order@stable` are those named), the text, or a
            built `Workflow`. input: any JSON value, checked against the definition's
            `input`; None is `{}`. key: idempotency key: a second start of this workflow with the
            same key gives the first one's run. vars: override the definition's `vars`.
            priority: 0 to 9, of its tasks whose nodes set none; higher goes first.

        Raises:
            InvalidInput: `input` fails the schema, a var is unknown, the key cannot be stored, or no such priority.
            InvalidDefinition: with all findings.
            NotFound: no such file or deployed workflow.
        """
        [run] = await self._start(workflow, [(input, key)], vars or {}, priority)
        return run

    async def arun(
        self,
        workflow: str | Path | Workflow,
        input: object = None,
        *,
        key: str | None = None,
        vars: Mapping[str, object] | None = None,
        priority: int = 0,
        timeout: float | None = None,
    ) -> Any:
        """Start a run and wait for its end; its output. Over a server that is one request where the run is short.

        Args:
            workflow, input, key, vars, priority: as of `start`.
            timeout: seconds, None for ever; the run itself goes on.

        Raises:
            RunFailed, TimeoutError: as `Run.result`; all others as `start`.
        """
        workflows.check_timeout(timeout)
        if self.far is not None:
            return await far_outcome(self.far, workflow, input, key, vars or {}, priority, timeout)
        run = await self.astart(workflow, input, key=key, vars=vars, priority=priority)
        return await run.aresult(timeout)

    async def astart_many(
        self,
        workflow: str | Path | Workflow,
        inputs: Sequence[object],
        *,
        vars: Mapping[str, object] | None = None,
        priority: int = 0,
    ) -> list[Run]:
        """Start a run for each input, in order, in few commits. Arguments and errors as `start`;
        on an error none is started.
        """
        if isinstance(inputs, str | bytes | Mapping) or not isinstance(inputs, Iterable):
            raise InvalidInput(f"{inputs!r:.60} is no list; give a list of inputs", path="inputs")
        pairs = [(input, None) for input in inputs]
        return await self._start(workflow, pairs, vars or {}, priority)

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
        self,
        event: str,
        key: str,
        payload: object = None,
        *,
        event_id: str | None = None,
        keep: str | timedelta | None = None,
    ) -> bool:
        """Put an external event into the mailbox: the oldest wait for (event, key) takes it, now
        or when it opens.

        Args:
            event: the name that a `wait_for_event` node waits for.
            key: what its `key:` yields.
            payload: any JSON value; the output of the wait.
            event_id: a second event with the same id is dropped.
            keep: how long it waits for a wait, `1h` or a timedelta; seven days by default.

        Returns:
            False if it was dropped.
        """
        from tenuto.dsl.given import read_keep
        from tenuto.dsl.storable import check_word

        keep_us = read_keep(keep)
        for word, what in ((event, "event"), (key, "key"), (event_id or "", "event_id")):
            check_word(word, what)
        text = workflows.given_text(payload, "payload")
        if self.far is not None:
            kept = None if keep_us is None else f"{-(-keep_us // 1_000)}ms"
            return await self.far.send_event(event, key, payload, event_id, kept)
        return await self.near.ask(
            lambda engine: engine.commands.send_event(
                event, key, text, event_id=event_id, keep_us=keep_us
            )
        )

    async def aheartbeat(self, event: str, key: str) -> int:
        """Show a sign of life to those who wait for an event and have a `heartbeat_timeout`: it counts anew.

        Returns:
            How many wait for it; 0 has no effect.
        """
        from tenuto.dsl.storable import check_word

        check_word(event, "event")
        check_word(key, "key")
        if self.far is not None:
            return await self.far.heartbeat(event, key)
        return await self.near.ask(lambda engine: engine.commands.heartbeat(event, key))

    async def aretry(self, run_id: str, *, skip: str | None = None, output: object = None) -> Plan:
        """Go on with a run that did not succeed, as `Run.retry` does."""
        return await (await self.aget_run(run_id)).aretry(skip=skip, output=output)

    async def areplay(
        self,
        run_id: str,
        node: str,
        input: object = None,
        *,
        vars: Mapping[str, object] | None = None,
    ) -> Run:
        """Start a run that keeps what another one did before `node`, as `Run.replay` does."""
        return await (await self.aget_run(run_id)).areplay(node, input, vars=vars)

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
        ids = [id_of(run) for run in runs]
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
        priority: int,
    ) -> list[Run]:
        from tenuto.dsl.storable import check_priority

        check_priority(priority)
        source = workflows.find_source(workflow)
        if self.far is not None:
            wanted = str(workflow) if source is None else source
            return [Run(id, self) for id in await self.far.start(wanted, inputs, given, priority)]
        stored = (
            await self._find(str(workflow))
            if source is None
            else await self._deploy(source, workflows.compile_source)
        )
        return await self._start_stored(stored, inputs, given, priority)

    async def _start_stored(
        self,
        stored: Deployed,
        inputs: Sequence[tuple[object, str | None]],
        given: Mapping[str, object],
        priority: int = 0,
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
                priority=priority,
            )
            for value, key in inputs
        ]
        if not requests:
            return []
        started = await self.near.ask(lambda engine: engine.commands.start(requests))
        if not self.near.is_lent:
            warn_of_missing(stored.name, stored.tasks, self.registry, self._warned)
        return [Run(each.run_id, self) for each in started]

    async def _deploy(
        self,
        source: _Source,
        compile: Callable[[_Source], Graph],
        aliases: Sequence[str] = (),
        *,
        anew: bool = False,
    ) -> Deployed:
        """`anew`: whatever was stored before; else what this object has stored is not stored again."""
        known = self._deployed.get((compile, source))
        if known is not None and self.near.is_open and not anew:
            return known
        graph = await asyncio.to_thread(compile, source)
        row = await self.near.ask(lambda engine: engine.commands.deploy(graph, aliases=aliases))
        stored = workflows.workflow_of(
            graph, version=row.version, content_hash=row.hash, created=row.created
        )
        self._deployed[compile, source] = stored
        return stored

    async def _find(self, name: str) -> Deployed:
        from tenuto.model.stored import decode_graph

        row = await self.near.ask(lambda engine: version_row(engine, name))
        known = self._deployed.get((row.name, row.version))
        if known is None:
            known = workflows.workflow_of(
                decode_graph(row.graph), version=row.version, content_hash=row.hash
            )
            self._deployed[row.name, row.version] = known
        return known

    async def _read(
        self, verb: Callable[[Answers | Remote], Coroutine[Any, Any, _Found]]
    ) -> _Found:
        """Run a reading verb that an engine and a server have alike."""
        if self.far is not None:
            return await self.far.link.ask(verb)
        return await self.near.ask(lambda engine: verb(answers_of(engine)))

"""`Tenuto("http://…")`: the SDK's verbs over a server, and the thread with a loop on which its connections live.

What an engine of this process would check before it writes (inputs, vars, words) is checked here, too, so that the same
mistake is the same error. Runs nothing: tasks are executed by the server's workers.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from tenuto.model.errors import InvalidInput, NotFound, TenutoError, Unavailable
from tenuto.model.states import FINAL_RUN_STATES, RunState
from tenuto.runtime.results import canonical
from tenuto.runtime.service import is_ending
from tenuto.sdk import workflows
from tenuto.sdk.failures import RunFailed
from tenuto.sdk.link import LINKS, refuse_in_loop, told
from tenuto.sdk.nested import all_pages
from tenuto.sdk.remote import Remote
from tenuto.sdk.waiting import named
from tenuto.sdk.wire import check_address
from tenuto.sdk.workflows import Deployed, Source
from tenuto.settings import load

if TYPE_CHECKING:
    from collections.abc import Iterable

_T = TypeVar("_T")
TOGETHER = 8
"""Requests that start runs and are under way at the same time."""
_STARTS_MAX = 100
"""Runs that one of them starts; a server takes 500."""
_LETTERS_MAX = 1_000_000
"""And letters of their inputs; a server takes 4 MiB."""
_SLUG_MAX = 60
_CLOSED = "the client was closed while it waited"


class FarLink:
    """A loop in a thread, and the server's connections on it. Thread-safe; opened when it is first needed."""

    def __init__(self, url: str) -> None:
        self.url = check_address(url)
        self._lock = threading.Lock()
        self._line: _Line | None = None
        LINKS.add(self)

    @property
    def is_open(self) -> bool:
        """Whether there may be connections."""
        return self._line is not None

    async def ask(self, make: Callable[[Remote], Coroutine[Any, Any, _T]]) -> _T:
        """Run a coroutine over the server on the thread's loop; called on any loop."""
        if self._line_here() is not None:
            return await self._made(make)
        asked = self._hand_in(self._made(make))
        try:
            return await asyncio.wrap_future(asked)
        except TenutoError as error:
            raise told(error) from None
        except asyncio.CancelledError:
            if asked.cancelled() and not is_ending():
                raise Unavailable(_CLOSED) from None
            raise

    def wait(self, coroutine: Coroutine[Any, Any, _T], verb: str) -> _T:
        """Run a coroutine that uses `ask` on the thread's loop, and wait for it in this thread.

        Raises:
            RuntimeError: an event loop runs in this thread; waiting would block it.
        """
        refuse_in_loop(coroutine, verb)
        future = self._hand_in(coroutine)
        try:
            return future.result()
        except TenutoError as error:
            raise told(error) from None
        except CancelledError:
            raise Unavailable(_CLOSED) from None
        except BaseException:  # Ctrl-C while waiting: nobody wants the answer any more
            future.cancel()
            raise

    def close(self) -> None:
        """Close the connections and end the thread. The next call opens anew."""
        with self._lock:
            line, self._line = self._line, None
        if line is None:
            return
        asyncio.run_coroutine_threadsafe(_end(line), line.loop).result()
        line.loop.call_soon_threadsafe(line.loop.stop)
        line.join()
        line.loop.close()

    def forget(self) -> None:
        """In a forked child: the thread stayed with the parent."""
        self._lock = threading.Lock()
        self._line = None

    async def _made(self, make: Callable[[Remote], Coroutine[Any, Any, _T]]) -> _T:
        line = self._line_here()
        assert line is not None, "called on the thread's loop only"
        if line.remote is None:
            from tenuto.app.access import token_of

            line.remote = Remote(self.url, token=token_of(load().auth))
        return await make(line.remote)

    def _line_here(self) -> _Line | None:
        """The one of ours whose thread this is; it may be closing, and another one open already."""
        here = threading.current_thread()
        return here if isinstance(here, _Line) and here.link is self else None

    def _hand_in(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Have it run on the thread's loop. Under the lock: a loop that is being closed takes nothing more."""
        with self._lock:
            if self._line is None:
                self._line = _Line(self)
                self._line.start()
            self._line.handed.add(coroutine)
            return asyncio.run_coroutine_threadsafe(coroutine, self._line.loop)


class _Line(threading.Thread):
    """From one opening to its closing: the thread, its loop, and the connections on it."""

    def __init__(self, link: FarLink) -> None:
        super().__init__(name="tenuto-client", daemon=True)
        self.link = link
        self.loop = asyncio.new_event_loop()
        self.remote: Remote | None = None
        self.handed: WeakSet[Coroutine[Any, Any, Any]] = WeakSet()

    def run(self) -> None:
        self.loop.run_forever()


class Far:
    """The verbs of `Tenuto` and `Run` over a server."""

    def __init__(self, url: str) -> None:
        self.link = FarLink(url)
        self._deployed: dict[object, Deployed] = {}

    async def open(self) -> None:
        """Raises Unavailable unless a server answers."""

        async def health(remote: Remote) -> None:
            await remote.health()

        await self.link.ask(health)

    async def deploy(
        self, source: Source, aliases: Sequence[str] = (), *, anew: bool = False
    ) -> Deployed:
        """Store a definition's text; `anew`: whatever was stored before."""
        known = self._deployed.get(source)
        if known is None or anew:
            text = _text(source)
            found = await self.link.ask(
                lambda remote: remote.deploy(text, source.file, aliases=aliases)
            )
            known = self._deployed[source] = _stored(found)
        return known

    async def set_alias(self, name: str, alias: str, version: int) -> int | None:
        """Let `name@alias` mean this version; what it meant before."""
        found = await self.link.ask(lambda remote: remote.set_alias(name, alias, version))
        return None if found["was"] is None else int(found["was"])

    async def drop_alias(self, name: str, alias: str) -> int:
        """Let `name@alias` mean nothing; what it meant."""
        return int((await self.link.ask(lambda remote: remote.drop_alias(name, alias)))["version"])

    async def delete_version(self, name: str, version: int) -> None:
        """Delete a version."""
        self._deployed.clear()
        await self.link.ask(lambda remote: remote.delete_version(name, version))

    async def start(
        self,
        workflow: Source | str,
        inputs: Sequence[tuple[object, str | None]],
        given: Mapping[str, object],
        priority: int = 0,
    ) -> list[str]:
        """Start a run for each (input, key); their ids, in order. Nothing is started where one input is wrong."""
        if isinstance(workflow, Source):
            stored = await self.deploy(workflow)
        else:
            name = workflow
            stored = _stored(await self.link.ask(lambda remote: remote.get_workflow(name)))
        return await self._start_stored(stored, inputs, given, priority)

    async def run(
        self,
        workflow: Source | str,
        input: object,
        key: str | None,
        given: Mapping[str, object],
        priority: int,
        timeout: float | None,
    ) -> dict[str, Any]:
        """Start a run and wait: its report at its end, or after `timeout`. The server checks the input."""
        name, version = workflow if isinstance(workflow, str) else "", None
        if isinstance(workflow, Source):
            stored = await self.deploy(workflow)
            name, version = stored.name, stored.version
        clock = asyncio.get_running_loop().time
        until = None if timeout is None else clock() + timeout
        report = await self.link.ask(
            lambda remote: remote.run(
                name,
                input,
                version=version,
                key=key,
                vars=given,
                priority=priority,
                timeout_s=timeout,
            )
        )
        if report["state"] in FINAL_RUN_STATES or (until is not None and clock() >= until):
            return report
        try:  # a quarantined run goes on once it is resumed
            async with asyncio.timeout_at(until):
                return await self.link.ask(partial(_ended, run_id=report["run_id"]))
        except TimeoutError:
            return await self.link.ask(partial(Remote.get_run, text=report["run_id"]))

    async def _start_stored(
        self,
        stored: Deployed,
        inputs: Sequence[tuple[object, str | None]],
        given: Mapping[str, object],
        priority: int = 0,
    ) -> list[str]:
        from tenuto.dsl.given import default_input
        from tenuto.dsl.inputs import apply_vars, check_input

        apply_vars(stored.vars, workflows.given_vars(given), {})
        for value, _ in inputs:
            check_input(stored.input_schema, default_input(stored.input_schema, value))

        async def one(remote: Remote) -> list[str]:
            [(value, key)] = inputs
            run = await remote.start_run(
                stored.name,
                value,
                version=stored.version,
                key=key,
                vars=given,
                priority=priority,
            )
            return [str(run["run_id"])]

        async def many(remote: Remote) -> list[str]:
            slots = asyncio.Semaphore(TOGETHER)

            async def some(runs: Sequence[tuple[object, str | None]]) -> list[str]:
                async with slots:
                    found = await remote.start_runs(
                        stored.name,
                        runs,
                        version=stored.version,
                        vars=given,
                        priority=priority,
                    )
                return [str(run["run_id"]) for run in found["items"]]

            parts = await _together(some(runs) for runs in _requests(inputs))
            return [run_id for part in parts for run_id in part]

        return await self.link.ask(one if len(inputs) == 1 else many)

    async def enqueue(self, task: str, params: Mapping[str, object]) -> str:
        """Call one task: a run of a workflow with that single node, made for these params' names."""
        stored = await self.deploy(_single_task(task, sorted(params)))
        [run_id] = await self._start_stored(stored, [(dict(params), None)], {})
        return run_id

    async def send_event(
        self, event: str, key: str, payload: object, event_id: str | None, keep: str | None = None
    ) -> bool:
        """Put an event into the mailbox. False: dropped."""
        return await self.link.ask(
            lambda remote: remote.send_event(event, key, payload, event_id=event_id, keep=keep)
        )

    async def heartbeat(self, event: str, key: str) -> int:
        """Show a sign of life to those who wait for an event; how many they are."""
        return await self.link.ask(lambda remote: remote.heartbeat(event, key))

    async def find_run(self, run_id: str) -> str:
        """The id, once the server knows it. The whole of it: a part names a run of today, and another tomorrow."""
        found = await self.link.ask(lambda remote: remote.get_run(run_id))
        if found["run_id"] != run_id:
            raise NotFound("run", run_id, f"did you mean {found['run_id']}?")
        return run_id

    async def status(self, run_id: str) -> str:
        """Its state, as people see it."""
        return str((await self.link.ask(lambda remote: remote.get_run(run_id)))["state"])

    async def outcomes(self, run_ids: Sequence[str]) -> list[Any]:
        """Wait for the runs; their outputs in order. Raises RunFailed of the first that did not succeed."""
        found = []
        for run_id in run_ids:
            report = await self.link.ask(partial(_ended, run_id=run_id))
            if report["state"] != RunState.SUCCESS:
                raise RunFailed(run_id, report["state"], report["error"])
            found.append(report["output"])
        return found

    async def waits_of(self, run_ids: Sequence[str]) -> str:
        """What the first of these runs that has not ended waits for; empty if all have."""
        for run_id in run_ids:
            report = await self.link.ask(partial(Remote.get_run, text=run_id))
            if told := named(report, among=run_ids):
                return told
        return ""

    async def cancel(self, run_id: str, reason: str) -> None:
        """Ask it to end as cancelled."""
        await self.link.ask(lambda remote: remote.cancel_run(run_id, reason))

    async def pause(self, run_id: str) -> None:
        """Hand out no more of its tasks."""
        await self.link.ask(lambda remote: remote.pause_run(run_id))

    async def resume(self, run_id: str, *, freeze_timers: bool = False) -> None:
        """Go on after a pause."""
        await self.link.ask(lambda remote: remote.resume_run(run_id, freeze_timers=freeze_timers))

    async def terminate(self, run_id: str, reason: str) -> None:
        """End it at once."""
        await self.link.ask(lambda remote: remote.terminate_run(run_id, reason))

    async def skip(self, run_id: str, node: str, output: object) -> None:
        """Take a node as done."""
        await self.link.ask(lambda remote: remote.skip_node(run_id, node, output))

    async def retry(
        self, run_id: str, *, skip: str | None, output: object, dry_run: bool
    ) -> Mapping[str, Any]:
        """Go on with it, or only say how; the plan."""
        found = await self.link.ask(
            lambda remote: remote.retry_run(run_id, skip=skip, output=output, dry_run=dry_run)
        )
        plan: Mapping[str, Any] = found["plan"]
        return plan

    async def replay(
        self,
        run_id: str,
        node: str,
        *,
        input: object,
        vars: Mapping[str, object] | None,
        dry_run: bool,
    ) -> tuple[str | None, Mapping[str, Any]]:
        """Start a run that keeps what it did before a node, or only say how: its id and the plan."""
        found = await self.link.ask(
            lambda remote: remote.replay_run(run_id, node, input=input, vars=vars, dry_run=dry_run)
        )
        return found["run_id"], found["plan"]

    async def pages(
        self, page: Callable[[Remote, str | None], Coroutine[Any, Any, Mapping[str, Any]]]
    ) -> list[Mapping[str, Any]]:
        """All entries of a list. `page`: asks for the one that begins at a cursor."""
        return await self.link.ask(lambda remote: all_pages(partial(page, remote)))

    def close(self) -> None:
        """Close all connections."""
        self._deployed.clear()
        self.link.close()


async def _ended(remote: Remote, run_id: str) -> dict[str, Any]:
    """A quarantined run goes on once it is resumed, so who waits for its result waits on."""
    while True:
        report = await remote.wait_run(run_id)
        if not report["quarantine"] or report["state"] == RunState.SUCCESS:
            return report
        await asyncio.sleep(1)


def _requests(
    inputs: Sequence[tuple[object, str | None]],
) -> Iterator[Sequence[tuple[object, str | None]]]:
    """The same in order, as many together as one request takes."""
    part: list[tuple[object, str | None]] = []
    letters = 0
    for value, key in inputs:
        size = len(canonical(value, name="input"))
        if part and (len(part) == _STARTS_MAX or letters + size > _LETTERS_MAX):
            yield part
            part, letters = [], 0
        part.append((value, key))
        letters += size
    if part:
        yield part


async def _together(made: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """All of them; the first error, plainly, when one fails."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in made]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


async def _end(line: _Line) -> None:
    """Whoever still waits learns that the client was closed: before the loop stops, which would leave him waiting."""
    # Not what these have started in their turn, which ends with them: a library may not bear to have it cancelled.
    waiting = [task for task in asyncio.all_tasks() if task.get_coro() in line.handed]
    for task in waiting:
        task.cancel()
    if waiting:
        await asyncio.wait(waiting)
    if line.remote is not None:
        await line.remote.close()


def _text(source: Source) -> str:
    if isinstance(source.text, str):
        return source.text
    try:
        return source.text.decode("utf-8-sig")
    except UnicodeDecodeError:
        workflows.compile_source(source)  # says where
        raise InvalidInput(f"{source.file} is not UTF-8 text") from None


def _stored(version: Mapping[str, Any]) -> Deployed:
    schema = version["input_schema"]
    return Deployed(
        name=version["name"],
        version=version["version"],
        hash=version["hash"],
        input_schema=None if schema is None else json.dumps(schema),
        vars=json.dumps(version["vars"]),
        created=version.get("created", False),
    )


def _single_task(task: str, params: Sequence[str]) -> Source:
    """The text of a workflow that calls one task with params of these names.

    Its name tells both, so that calls with other params are other workflows, not ever new versions of one.
    """
    slug = re.sub(r"[^A-Za-z0-9_]", "_", task)[:_SLUG_MAX]
    shape = hashlib.sha256(json.dumps([task, *params]).encode()).hexdigest()[:8]
    tree = {
        "name": f"enqueue.{slug}.{shape}",
        "description": f"One call of the task {task}, made by enqueue.",
        "nodes": {
            "call": {
                "type": "task",
                "task": task,
                "params": {name: f"${{input[{json.dumps(name)}]}}" for name in params},
            }
        },
        "output": "${nodes.call.output}",
    }
    return Source(json.dumps(tree), f"<enqueue {task}>")

"""What users may ask for, as verbs: deploy, start, cancel, pause, resume, send an event, wait, follow.

Not an interface: no text is parsed here, inputs are checked against their schema before (`dsl.inputs`). All verbs
raise Unavailable when the store cannot be used; every verb may be repeated.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from tenuto.coordinator.coordinator import Coordinator
from tenuto.coordinator.mailbox import Mailbox
from tenuto.coordinator.waiting import Call, CommandWaiting, NewStart, StartWaiting
from tenuto.machine.events import CancelRequested, PauseRequested, Rejection, ResumeRequested
from tenuto.model.errors import Conflict, InvalidInput, NotFound
from tenuto.model.graph import Graph
from tenuto.model.ids import RunId
from tenuto.model.payload import PAYLOAD_MAX
from tenuto.model.states import FINAL_RUN_STATES
from tenuto.model.stored import content_hash, encode_graph
from tenuto.ports.store import (
    DEFAULT_NAMESPACE,
    DefinitionRow,
    EventRow,
    LoadRequest,
    NoteRow,
    RunRow,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """A run to start.

    `input` and `vars` are canonical JSON, the input with its defaults filled in, the vars merged. `key`: idempotency
    key, unique per namespace and workflow.
    """

    graph_hash: str
    workflow: str
    version: int
    input: str
    vars: str
    key: str | None = None
    namespace: str = DEFAULT_NAMESPACE


@dataclass(frozen=True, slots=True)
class Started:
    """`created` False: the key existed, and this is the run that has it."""

    run_id: RunId
    created: bool


class Commands:
    """The verbs, over one coordinator."""

    def __init__(self, coordinator: Coordinator, mailbox: Mailbox) -> None:
        self._coordinator = coordinator
        self._mailbox = mailbox

    async def deploy(self, graph: Graph, *, namespace: str = DEFAULT_NAMESPACE) -> DefinitionRow:
        """Store a version; nothing happens where the newest is the same. Returns the row that stands."""
        whole, definition = self._coordinator, graph.definition
        row = await whole.store.put_definition(
            DefinitionRow(
                namespace=namespace,
                name=definition.name,
                version=0,
                hash=content_hash(definition),
                source=definition.source,
                graph=encode_graph(graph),
                created_at=whole.setting.clock.now(),
            )
        )
        whole.graphs.put(row.hash, graph)
        return row

    async def start(self, requests: Sequence[StartRequest]) -> Sequence[Started]:
        """Start runs, many in one commit. Raises InvalidInput (size), NotFound (version)."""
        whole = self._coordinator
        for request in requests:
            _check_size("input", request.input)
            _check_size("vars", request.vars)
        call = Call(len(requests))
        facts = []
        for slot, request in enumerate(requests):
            run_id = whole.setting.ids.run_id(whole.setting.clock.now())
            whole.setting.focus.add(run_id)
            start = NewStart(
                graph_hash=request.graph_hash,
                workflow=request.workflow,
                version=request.version,
                input=request.input,
                vars=request.vars,
                key=request.key,
                namespace=request.namespace,
            )
            facts.append(StartWaiting(run_id, start, call, slot))
        whole.submit(facts)
        await call.done
        return [
            Started(run_id=answer, created=answer == fact.run_id)
            for fact, answer in zip(facts, call.answers, strict=True)
        ]

    async def cancel(self, run_id: RunId, reason: str = "") -> None:
        """Cancel a run. Raises NotFound, Conflict (final already)."""
        await self._command(run_id, CancelRequested, reason)

    async def pause(self, run_id: RunId) -> None:
        """Stop handing out work of a run (C6). Raises NotFound, Conflict (final, or paused already)."""
        await self._command(run_id, PauseRequested)

    async def resume(self, run_id: RunId) -> None:
        """Hand out work again, and lift a quarantine. Raises NotFound, Conflict (final, or neither)."""
        row = await self._find(run_id)
        if row.quarantine is None:
            await self._command(run_id, ResumeRequested)
            return
        whole = self._coordinator
        await whole.store.quarantine(run_id, None)
        whole.forget(run_id)
        if row.paused:
            await self._command(run_id, ResumeRequested)
        whole.seats.offer()
        whole.on_due(0)

    async def send_event(
        self,
        event: str,
        key: str,
        payload: str,
        *,
        event_id: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> bool:
        """Put a message into the mailbox; canonical JSON. False: this event id was here already."""
        return await self._mailbox.post(event, key, payload, event_id=event_id, namespace=namespace)

    async def wait(self, run_id: RunId) -> RunRow:
        """Return the run once it is final. Raises NotFound."""
        [row] = await self.wait_all((run_id,))
        return row

    async def wait_all(self, run_ids: Sequence[RunId]) -> list[RunRow]:
        """Return the runs once all are final, in order; what is final already is read together. Raises NotFound."""
        watchers, remembers = self._coordinator.watchers, self._coordinator.remembers
        ends = [(run_id, watchers.expect_end(run_id)) for run_id in run_ids]
        try:
            unsure = tuple(run_id for run_id in run_ids if not remembers(run_id))
            stored = (await self._coordinator.store.load(LoadRequest(runs=unsure))).runs
            for run_id in unsure:
                if run_id not in stored:
                    raise NotFound("run", run_id)
            rows = []
            for run_id, end in ends:
                row = stored[run_id][0] if run_id in stored else None
                rows.append(row if row is not None and row.state in FINAL_RUN_STATES else await end)
            return rows
        finally:
            for run_id, end in ends:
                watchers.forget(run_id, end)

    async def changes(self) -> AsyncIterator[Sequence[RunId]]:
        """Yield runs that have changed, as commits come; ends with the engine. Several commits may make one answer."""
        watchers = self._coordinator.watchers
        listener = watchers.listen()
        try:
            while not listener.closed:
                await listener.wake.wait()
                listener.wake.clear()
                changed, listener.changed = tuple(listener.changed), {}
                if changed:
                    yield changed
        finally:
            watchers.unlisten(listener)

    async def follow(self, run_id: RunId) -> AsyncIterator[EventRow | NoteRow]:
        """Yield the run's events as they commit, and its notes as they are kept, from now on; ends with the run.

        Raises NotFound.
        """
        watchers = self._coordinator.watchers
        follower = watchers.follow(run_id)
        try:
            if (await self._find(run_id)).state in FINAL_RUN_STATES:
                follower.closed = True
            while True:
                while follower.events:
                    yield follower.events.popleft()
                if follower.closed:
                    return
                follower.wake.clear()
                await follower.wake.wait()
        finally:
            watchers.unfollow(run_id, follower)

    async def _command(
        self,
        run_id: RunId,
        kind: type[CancelRequested | PauseRequested | ResumeRequested],
        reason: str = "",
    ) -> None:
        call = Call(1)
        missing = NotFound("run", run_id)
        self._coordinator.submit(
            [CommandWaiting(run_id, kind, call, missing=missing, reason=reason)]
        )
        await call.done
        match call.answers[0]:
            case Rejection.RUN_FINAL:
                raise Conflict(f"run {run_id} is already {(await self._find(run_id)).state}")
            case Rejection.ALREADY_PAUSED:
                raise Conflict(f"run {run_id} is already paused")
            case Rejection.NOT_PAUSED:
                raise Conflict(f"run {run_id} is not paused")
            case Rejection() as rejected:
                raise Conflict(f"run {run_id}: {rejected.value}")
            case _:
                return

    async def _find(self, run_id: RunId) -> RunRow:
        loaded = await self._coordinator.store.load(LoadRequest(runs=(run_id,)))
        if run_id not in loaded.runs:
            raise NotFound("run", run_id)
        return loaded.runs[run_id][0]


def _check_size(name: str, text: str) -> None:
    size = len(text) if text.isascii() else len(text.encode())
    if size > PAYLOAD_MAX:
        raise InvalidInput(f"{size:,} bytes; the limit is {PAYLOAD_MAX:,}", path=name)

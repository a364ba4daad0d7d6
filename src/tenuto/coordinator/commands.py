"""What users may ask for, as verbs: deploy, start, cancel, pause, retry, replay, send an event, wait, follow.

Not an interface: no text is parsed here, inputs of starts are checked against their schema before (`dsl.inputs`). All
verbs raise Unavailable when the store cannot be used; every verb may be repeated.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import orjson

from tenuto.coordinator.again import find_again
from tenuto.coordinator.asking import (
    CommandWaiting,
    HeartbeatWaiting,
    NewReplay,
    NewStart,
    ReplayWaiting,
    RetryWaiting,
    StartWaiting,
)
from tenuto.coordinator.batch import Batch
from tenuto.coordinator.coordinator import Coordinator
from tenuto.coordinator.mailbox import Mailbox, Message
from tenuto.coordinator.outlook import Outlook, outlook_of
from tenuto.coordinator.telling import VARS
from tenuto.coordinator.waiting import Again, Beginning, Call, Waiting, text_of
from tenuto.dsl.inputs import apply_vars, check_input
from tenuto.dsl.storable import check_alias
from tenuto.machine.events import (
    CancelRequested,
    Event,
    PauseRequested,
    Rejection,
    ResumeRequested,
    SkipRequested,
    TerminateRequested,
)
from tenuto.machine.plan import Plan, Refusal, place_in, plan_replay, plan_retry
from tenuto.machine.snapshot import Snapshot
from tenuto.model.errors import Conflict, InvalidInput, NotFound
from tenuto.model.graph import Graph
from tenuto.model.ids import Place, RunId, item_place, parts_of, with_epoch
from tenuto.model.names import node_meant
from tenuto.model.payload import PAYLOAD_MAX
from tenuto.model.states import FINAL_RUN_STATES, RunState, TaskState
from tenuto.model.stored import content_hash, encode_graph
from tenuto.ports.store import (
    DEFAULT_NAMESPACE,
    DefinitionRow,
    EventRow,
    Loaded,
    LoadRequest,
    NoteRow,
    RunRow,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """A run to start.

    `input` and `vars` are canonical JSON, the input with its defaults filled in, the vars merged. `key`: idempotency
    key, unique per namespace and workflow. `priority`: 0 to 9, of its tasks whose nodes set none; the higher first.
    """

    graph_hash: str
    workflow: str
    version: int
    input: str
    vars: str
    key: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Started:
    """`created` False: the key existed, and this is the run that has it.

    `row`: the run as the commit of its start left it; None where only the store can tell.
    """

    run_id: RunId
    created: bool
    row: RunRow | None = None


class _StartTold(StartWaiting):
    """Remembers what its commit writes of the run."""

    __slots__ = ("_batch", "_row")

    def beginning(self, loaded: Loaded, at: int) -> Beginning:
        begun = super().beginning(loaded, at)
        self._row = begun.row(self.run_id)
        return begun

    def decided(self, batch: Batch, rejected: Rejection | None) -> None:
        self._batch = batch

    def started(self, answer: RunId) -> Started:
        """`answer`: what the commit has answered."""
        if answer != self.run_id:
            return Started(answer, created=False)
        state = self._batch.snapshot.state
        # What ends has more to its row than the start knows of.
        is_plain = state in (RunState.PENDING, RunState.RUNNING)
        return Started(answer, True, replace(self._row, state=state) if is_plain else None)


class Commands:
    """The verbs, over one coordinator."""

    def __init__(self, coordinator: Coordinator, mailbox: Mailbox) -> None:
        self._coordinator = coordinator
        self._mailbox = mailbox

    # -- definitions ----------------------------------------------------------------------------------------------

    async def deploy(
        self,
        graph: Graph,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        aliases: Sequence[str] = (),
    ) -> DefinitionRow:
        """Store a version; nothing happens where the newest is the same. Returns the row that stands.

        `aliases` name it from now on. Raises InvalidInput (an alias).
        """
        for alias in aliases:
            check_alias(alias)
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
        for alias in aliases:
            await whole.store.put_alias(namespace, row.name, alias, row.version)
        return row

    async def set_alias(
        self, name: str, alias: str, version: int, *, namespace: str = DEFAULT_NAMESPACE
    ) -> int | None:
        """Let `name@alias` mean this version from now on; what it meant before. Raises NotFound, InvalidInput."""
        check_alias(alias)
        return await self._coordinator.store.put_alias(namespace, name, alias, version)

    async def drop_alias(
        self, name: str, alias: str, *, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        """Let `name@alias` mean nothing. Raises NotFound."""
        if not await self._coordinator.store.drop_alias(namespace, name, alias):
            raise NotFound("alias", f"{name}@{alias}")

    async def delete_version(
        self, name: str, version: int, *, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        """Delete a version. Raises NotFound, Conflict (an unfinished run or an alias has it)."""
        await self._coordinator.store.drop_version(namespace, name, version)

    # -- runs -----------------------------------------------------------------------------------------------------

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
                priority=request.priority,
            )
            facts.append(_StartTold(run_id, start, call, slot))
        whole.submit(facts)
        await call.done
        return [fact.started(answer) for fact, answer in zip(facts, call.answers, strict=True)]

    async def cancel(self, run_id: RunId, reason: str = "") -> None:
        """Cancel a run. Raises NotFound, Conflict (final already, or closing)."""
        await self._command(run_id, lambda at: CancelRequested(at=at, reason=reason))

    async def terminate(self, run_id: RunId, reason: str = "") -> None:
        """End a run at once, without handlers (C4). Raises NotFound, Conflict (final already)."""
        await self._command(run_id, lambda at: TerminateRequested(at=at, reason=reason))

    async def pause(self, run_id: RunId) -> None:
        """Stop handing out work of a run (C6). Raises NotFound, Conflict (final, or paused already)."""
        await self._command(run_id, lambda at: PauseRequested(at=at))

    async def resume(self, run_id: RunId, *, freeze_timers: bool = False) -> None:
        """Hand out work again, and lift a quarantine. Raises NotFound, Conflict (final, or neither).

        `freeze_timers`: deadlines move by the time that the run was paused (C6).
        """
        row = await self._find(run_id)
        if row.quarantine is None:
            await self._command(run_id, lambda at: ResumeRequested(at=at, freeze=freeze_timers))
            return
        whole = self._coordinator
        await whole.store.quarantine(run_id, None)
        whole.forget(run_id)
        if row.paused:
            await self._command(run_id, lambda at: ResumeRequested(at=at, freeze=freeze_timers))
        whole.seats.offer()
        whole.on_due(0)

    async def skip(self, run_id: RunId, node: str, output: str) -> None:
        """Take a node as done, with this output (canonical JSON): one that is under way, or one that failed the run.

        Raises NotFound, InvalidInput (size), Conflict (neither).
        """
        _check_size("output", output)
        row, _, graph = await self._look(run_id)
        if node not in graph.numbers:
            raise NotFound("node", node, node_meant(node, graph.numbers))
        if row.state in FINAL_RUN_STATES:
            await self.retry(run_id, skip=node, output=output)
            return
        text = text_of(output)
        await self._command(run_id, lambda at: SkipRequested(at=at, node=node, output=text), node)

    async def retry(
        self,
        run_id: RunId,
        *,
        skip: str | None = None,
        output: str | None = None,
        dry_run: bool = False,
    ) -> Outlook:
        """Go on with a run that failed, was cancelled or timed out (R1). Returns what is done again.

        `skip`: this node is taken as done, with `output` (canonical JSON), instead of being run again. `dry_run`: it is
        only said. Raises NotFound, Conflict with the reason, InvalidInput (size).
        """
        output = "null" if output is None and skip is not None else output
        if output is not None:
            _check_size("output", output)
        _, snapshot, graph = await self._look(run_id)
        plan = plan_retry(graph, snapshot, skip=skip)
        _refuse(run_id, graph, plan, skip, await self._open_child(run_id, snapshot, graph, plan))
        whole = self._coordinator
        again = await find_again(whole.store, whole.graphs, run_id, graph, snapshot)
        if not dry_run:
            call = Call(1)
            fact = RetryWaiting(
                run_id,
                call,
                missing=NotFound("run", run_id),
                skip=skip,
                output=None if output is None else text_of(output),
            )
            whole.setting.focus.add(run_id)
            for _, child in again.children:
                whole.setting.focus.add(child)
            await self._submit(run_id, fact, call)
        return outlook_of(graph, plan, again, skip=skip, lists=snapshot.items)

    async def replay(
        self,
        run_id: RunId,
        node: str,
        *,
        input: str | None = None,
        vars: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> tuple[RunId | None, Outlook]:
        """Start a new run of the same version that keeps what this one did before `node` (R2).

        `input` (JSON) takes the place of the old one, `vars` override single constants (`dsl.inputs.apply_vars`).
        Returns the new run (None with `dry_run`) and what it does. Raises NotFound, Conflict with the reason,
        InvalidInput.
        """
        row, snapshot, graph = await self._look(run_id)
        if input is not None:
            input = check_input(graph.definition.input_schema, orjson.loads(input))
            _check_size("input", input)
        constants = await self._constants(run_id, vars) if vars else None
        undone = await self._undone(row)
        plan = plan_replay(graph, snapshot, node, changed=input is not None, undone=undone)
        _refuse(run_id, graph, plan, node)
        outlook = outlook_of(graph, plan, Again())
        if dry_run:
            return None, outlook
        whole = self._coordinator
        new = whole.setting.ids.run_id(whole.setting.clock.now())
        whole.setting.focus.add(new)
        call = Call(1)
        request = NewReplay(source=run_id, node=node, input=input, vars=constants)
        fact = ReplayWaiting(new, request, call, missing=NotFound("run", run_id))
        await self._submit(run_id, fact, call)
        return new, outlook

    # -- events ---------------------------------------------------------------------------------------------------

    async def heartbeat(self, event: str, key: str, *, namespace: str = DEFAULT_NAMESPACE) -> int:
        """Show a sign of life to those who wait for an event, and say how many; an early one has no effect."""
        whole = self._coordinator
        address = (namespace, event, key)
        loaded = await whole.store.load(LoadRequest(addresses=(address,)))
        waits = loaded.addresses.get(address, ())
        call = Call(len(waits))
        whole.submit(
            HeartbeatWaiting(run_id, wait, call, slot) for slot, (run_id, wait) in enumerate(waits)
        )
        await call.done
        return sum(answer is True for answer in call.answers)

    async def send_event(
        self,
        event: str,
        key: str,
        payload: str,
        *,
        event_id: str | None = None,
        keep_us: int | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> bool:
        """Put a message into the mailbox; canonical JSON. False: this event id was here already.

        `keep_us`: how long it waits for somebody to want it. Raises InvalidInput.
        """
        message = Message(event, key, payload, event_id, keep_us)
        [stored] = await self._mailbox.post((message,), namespace=namespace)
        return stored

    async def send_events(
        self, messages: Sequence[Message], *, namespace: str = DEFAULT_NAMESPACE
    ) -> Sequence[bool]:
        """Put messages into the mailbox, all or none, in this order; which of them are new.

        Raises InvalidInput; Unavailable, and then all may be stored: repeat it.
        """
        return await self._mailbox.post(messages, namespace=namespace)

    async def wait(self, run_id: RunId, *, fresh: bool = False) -> RunRow:
        """Return the run once it is final. Raises NotFound.

        `fresh`: it was started here just now, so nothing is read for it. If it ended elsewhere meanwhile, that is told
        within a second.
        """
        [row] = await self.wait_all((run_id,), fresh=fresh)
        return row

    async def wait_all(self, run_ids: Sequence[RunId], *, fresh: bool = False) -> list[RunRow]:
        """Return the runs once all are final, in order; what is final already is read together. Raises NotFound."""
        watchers, whole = self._coordinator.watchers, self._coordinator
        ends = [(run_id, watchers.expect_end(run_id)) for run_id in run_ids]
        try:
            # What is remembered may have ended elsewhere.
            sure, remembers = whole.setting.sole or fresh, whole.remembers
            unsure = tuple(run_id for run_id in run_ids if not (sure and remembers(run_id)))
            stored = (await whole.store.load(LoadRequest(runs=unsure))).runs if unsure else {}
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

    async def changes(
        self, wanted: Callable[[], bool] = lambda: True
    ) -> AsyncIterator[Sequence[RunId]]:
        """Yield runs that have changed, as commits come; ends with the engine. Several commits may make one answer.

        Where other coordinators work on the store, what they changed comes up to a second later, and only of the newest
        runs. `wanted`: whether somebody is there to be told of that.
        """
        watchers = self._coordinator.watchers
        listener = watchers.listen(wanted)
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
            loaded = await self._coordinator.store.load(LoadRequest(runs=(run_id,)))
            if run_id not in loaded.runs:
                raise NotFound("run", run_id)
            row, snapshot = loaded.runs[run_id]
            if not follower.begin_after(snapshot.seq, loaded.now):
                watchers.gap.set()
            elif row.state in FINAL_RUN_STATES:
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
        self, run_id: RunId, make: Callable[[int], Event], node: str | None = None
    ) -> None:
        call = Call(1)
        fact = CommandWaiting(run_id, make, call, missing=NotFound("run", run_id))
        await self._submit(run_id, fact, call, node)

    async def _submit(
        self, run_id: RunId, fact: Waiting, call: Call, node: str | None = None
    ) -> None:
        """Wait for the decision of one fact; a refusal is a Conflict with its reason."""
        self._coordinator.submit([fact])
        await call.done
        match call.answers[0]:
            case Rejection.RUN_FINAL:
                raise Conflict(f"run {run_id} is already {(await self._find(run_id)).state}")
            case Rejection.NOT_ACTIVE:
                raise Conflict(f"node {node} of run {run_id} has nothing under way")
            case Rejection.NOT_RETRYABLE:  # it was retryable when the plan was made
                _, snapshot, graph = await self._look(run_id)
                _refuse(run_id, graph, plan_retry(graph, snapshot), node)
                raise Conflict(f"run {run_id} has changed meanwhile: look at it, and ask again")
            case Rejection.PARENT_PAUSED:
                row = await self._find(run_id)
                parent = None if row.parent is None else row.parent[0]
                raise Conflict(
                    f"run {run_id} was called by a run that is paused: resume that one, with "
                    f"`tenuto run resume {parent}`"
                )
            case Rejection() as rejected:
                reason = _REASONS.get(rejected, f": {rejected.value}")
                raise Conflict(f"run {run_id}{reason}")
            case _:
                return

    async def _open_child(
        self, run_id: RunId, snapshot: Snapshot, graph: Graph, plan: Plan
    ) -> RunId | None:
        """A child that keeps a run from being retried, if it is found by the place of its call."""
        if plan.refused is not Refusal.OPEN_CHILD:
            return None
        places: list[Place] = []
        for number in range(len(graph.definition.nodes)):
            place, items = place_in(graph, snapshot, number), snapshot.items.get(number)
            indexes = range(0 if items is None else min(items.next, _CHILDREN_LOOKED_AT))
            places += [place, *(item_place(place, index) for index in indexes)]
        asked = LoadRequest(children=tuple((run_id, place) for place in places))
        children = (await self._coordinator.store.load(asked)).children
        asked = LoadRequest(runs=tuple(children.values()))
        runs = (await self._coordinator.store.load(asked)).runs
        return next(
            (id for id, (row, _) in runs.items() if row.state not in FINAL_RUN_STATES), None
        )

    async def _look(self, run_id: RunId) -> tuple[RunRow, Snapshot, Graph]:
        whole = self._coordinator
        loaded = await whole.store.load(LoadRequest(runs=(run_id,)))
        if run_id not in loaded.runs:
            raise NotFound("run", run_id)
        row, snapshot = loaded.runs[run_id]
        graph = (await whole.graphs.fetch((row.definition,)))[row.definition]
        if isinstance(graph, NotFound):
            raise graph
        return row, snapshot, graph

    async def _constants(self, run_id: RunId, overrides: Mapping[str, str]) -> str:
        """The constants of a run with some of them overridden."""
        loaded = await self._coordinator.store.load(LoadRequest(payloads=((run_id, VARS),)))
        return apply_vars(loaded.payloads[run_id, VARS], overrides, {})

    async def _undone(self, row: RunRow) -> set[Place]:
        """Places of the work of a run that was undone."""
        detail = await self._coordinator.graphs.reads.get_run(row.run_id, items=False)
        return {
            with_epoch(parts.owner, parts.epoch)
            for task, _ in detail.tasks
            if (parts := parts_of(task.place)).undo and task.state is TaskState.SUCCESS
        }

    async def _find(self, run_id: RunId) -> RunRow:
        loaded = await self._coordinator.store.load(LoadRequest(runs=(run_id,)))
        if run_id not in loaded.runs:
            raise NotFound("run", run_id)
        return loaded.runs[run_id][0]


_CHILDREN_LOOKED_AT = 1_000
"""Items of a foreach among whose runs an open one is looked for."""


def _check_size(name: str, text: str) -> None:
    size = len(text) if text.isascii() else len(text.encode())
    if size > PAYLOAD_MAX:
        raise InvalidInput(f"{size:,} bytes; the limit is {PAYLOAD_MAX:,}", path=name)


_REASONS = {
    Rejection.ALREADY_PAUSED: " is already paused",
    Rejection.NOT_PAUSED: " is not paused",
    Rejection.CLOSING: " is closing already: its outcome is decided",
    Rejection.DUPLICATE: " exists already",
}


def _refuse(
    run_id: RunId, graph: Graph, plan: Plan, node: str | None, child: RunId | None = None
) -> None:
    if plan.refused is Refusal.NO_NODE:
        raise NotFound("node", node or "", node_meant(node or "", graph.numbers))
    if plan.refused is Refusal.OPEN_CHILD and child is not None:
        raise Conflict(
            f"run {run_id}: {plan.refused.text}: {child}; wait for it with `tenuto run wait {child}`, "
            "and where no engine drives it, start one with `tenuto dev`"
        )
    if plan.refused is not None:
        raise Conflict(f"run {run_id}: {plan.refused.text}")

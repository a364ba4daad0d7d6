"""What users ask for, as facts that wait to be decided: starts, commands, signs of life. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tenuto.coordinator.batch import Batch
from tenuto.coordinator.telling import INPUT, ITEM, PARAMS, VARS
from tenuto.coordinator.waiting import (
    AboutWait,
    Again,
    Beginning,
    Call,
    Found,
    Moment,
    Settled,
    Starting,
    Waiting,
    Wanted,
)
from tenuto.machine.columns import encode_snapshot
from tenuto.machine.events import (
    Event,
    HeartbeatReceived,
    Rejection,
    RetryRequested,
    RunReplayed,
    RunStarted,
)
from tenuto.model.ids import RunId
from tenuto.model.payload import Text
from tenuto.ports.store import Loaded, NewRun


class HeartbeatWaiting(AboutWait):
    """A sign of life for an open wait. Its answer: whether it had an effect."""

    __slots__ = ()

    def answer_to(self, rejected: Rejection | None) -> object:
        return rejected is None

    def absent(self) -> object:
        return False

    def event(self, batch: Batch, loaded: Loaded, moment: Moment) -> Event | Settled | Wanted:
        wait = self.wait
        if wait.place not in batch.waits:
            return Settled(False)
        at = max(moment.now, batch.snapshot.at)
        return HeartbeatReceived(at=at, place=wait.place, version=wait.version)

    def poisoned(self, error: BaseException) -> object:
        return error


class CommandWaiting(Waiting):
    """What somebody asked for. Its answer is None, a Rejection, or `missing` where the run does not exist.

    `make`: the event of this moment.
    """

    __slots__ = ("make", "missing")

    travels_alone = True

    def __init__(
        self, run_id: RunId, make: Callable[[int], Event], call: Call, *, missing: BaseException
    ) -> None:
        super().__init__(run_id, call, 0)
        self.make = make
        self.missing = missing

    def event(self, batch: Batch, loaded: Loaded, moment: Moment) -> Event | Settled | Wanted:
        return self.make(max(moment.now, batch.snapshot.at))

    def absent(self) -> object:
        return self.missing

    def poisoned(self, error: BaseException) -> object:
        return error


@dataclass(frozen=True, slots=True, kw_only=True)
class NewStart:
    """A run to begin; texts are canonical JSON."""

    graph_hash: str
    workflow: str
    version: int
    input: str
    vars: str
    key: str | None
    namespace: str
    priority: int = 0


class StartWaiting(Starting):
    """A run to begin under a fresh id. Its answer is the id of the run that has it: this one, or its key's."""

    __slots__ = ("request",)

    def __init__(self, run_id: RunId, request: NewStart, call: Call, slot: int) -> None:
        super().__init__(run_id, call, slot)
        self.request = request

    def definition(self, loaded: Loaded) -> str | None:
        return self.request.graph_hash

    def beginning(self, loaded: Loaded, at: int) -> Beginning:
        request = self.request
        new_run = NewRun(
            namespace=request.namespace,
            workflow=request.workflow,
            version=request.version,
            definition=request.graph_hash,
            key=request.key,
            created_at=at,
        )
        return Beginning(new_run, {INPUT: request.input, VARS: request.vars})

    def event(self, batch: Batch, loaded: Loaded, moment: Moment) -> Event | Settled | Wanted:
        return RunStarted(at=moment.now, priority=self.request.priority)

    def answer_to(self, rejected: Rejection | None) -> object:
        return self.run_id

    def poisoned(self, error: BaseException) -> object:
        return error


class RetryWaiting(CommandWaiting):
    """Go on with a final run (R1). `skip`, `output`: a node that is taken as done instead of being run again."""

    __slots__ = ("_again", "_output", "_skip")

    def __init__(
        self,
        run_id: RunId,
        call: Call,
        *,
        missing: BaseException,
        skip: str | None = None,
        output: Text | None = None,
    ) -> None:
        super().__init__(run_id, lambda at: RetryRequested(at=at), call, missing=missing)
        self._skip = skip
        self._output = output
        self._again: Again | None = None

    def want(self, wanted: Wanted) -> None:
        wanted.runs[self.run_id] = None

    def fill(self, batch: Batch, loaded: Loaded) -> None:
        self._again = None

    def event(self, batch: Batch, loaded: Loaded, moment: Moment) -> Event | Settled | Wanted:
        if self._again is None:
            wanted = Wanted()
            wanted.again[self.run_id] = None
            return wanted
        return RetryRequested(
            at=max(moment.now, batch.snapshot.at),
            again=self._again.items,
            children=self._again.children,
            skip=self._skip,
            output=self._output,
        )

    def learn(self, found: Found) -> None:
        self._again = found.again


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReplay:
    """A run to begin from what another one did (R2). Texts are canonical JSON; None: the source's."""

    source: RunId
    node: str
    input: str | None
    vars: str | None


class ReplayWaiting(Starting):
    """A replay to begin under a fresh id. Its answer: None, a Rejection, or `missing`."""

    __slots__ = ("missing", "request")

    def __init__(
        self, run_id: RunId, request: NewReplay, call: Call, *, missing: BaseException
    ) -> None:
        super().__init__(run_id, call, 0)
        self.request = request
        self.missing = missing

    def want(self, wanted: Wanted) -> None:
        source = self.request.source
        wanted.runs[source] = None
        for key in (INPUT, VARS, PARAMS, ITEM):
            wanted.payloads[source, key] = None

    def definition(self, loaded: Loaded) -> str | None:
        found = loaded.runs.get(self.request.source)
        return None if found is None else found[0].definition

    def beginning(self, loaded: Loaded, at: int) -> Beginning:
        request = self.request
        source = loaded.runs[request.source][0]
        texts = {
            key: loaded.payloads[source.run_id, key]
            for key in (INPUT, VARS, PARAMS, ITEM)
            if (source.run_id, key) in loaded.payloads
        }
        if request.input is not None:
            texts[INPUT] = request.input
        if request.vars is not None:
            texts[VARS] = request.vars
        new_run = NewRun(
            namespace=source.namespace,
            workflow=source.workflow,
            version=source.version,
            definition=source.definition,
            key=None,
            created_at=at,
            source=source.run_id,
        )
        return Beginning(new_run, texts)

    def event(self, batch: Batch, loaded: Loaded, moment: Moment) -> Event | Settled | Wanted:
        request = self.request
        nodes, edges, rest = encode_snapshot(loaded.runs[request.source][1])
        return RunReplayed(
            at=moment.now,
            source=request.source,
            node=request.node,
            nodes=nodes,
            edges=edges,
            rest=rest,
        )

    def absent(self) -> object:
        return self.missing

    def poisoned(self, error: BaseException) -> object:
        return error

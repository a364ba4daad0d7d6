"""Documents and bodies of REST as types, for OpenAPI and for checking bodies. Written by hand: the API is a decision.

Answers are not passed through these models: `views.documents` shapes them, and a test holds both in step.
"""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from tenuto.api.nested import (
    Children,
    Closing,
    CompensationName,
    ItemCounts,
    Parent,
    StartedOne,
    StartOf,
    UndoName,
)
from tenuto.api.shapes import (
    Body,
    Document,
    Instant,
    Json,
    RunStateName,
    TaskStateName,
    VarName,
)
from tenuto.model.definition import PRIORITY_MAX

NoteKindName = Literal["stdout", "stderr", "log", "progress"]

STARTS_MAX = 500
"""Runs that one request may start: as many as the engine decides in one go."""
_RUN = "01980000-0000-7000-8000-000000000001"


class Run(Document):
    """A run in a list."""

    run_id: str = Field(examples=[_RUN])
    workflow: str
    version: int
    state: RunStateName
    key: str | None = Field(description="the idempotency key of its start")
    created_at: Instant
    ended_at: Instant | None
    quarantine: str | None = Field(description="why it is held; `resume` tries again")
    parent: Parent | None = Field(description="the run that called it")
    source: str | None = Field(description="the run that it replays")
    compensation: CompensationName = Field(description="what became of undoing finished work")


class StartedRun(Run):
    """A run, and whether it was there already."""

    deduplicated: bool = Field(description="the key had its run already, and this is it")


class RunOutcome(StartedRun):
    """A run whose end was waited for, with what it came to."""

    output: Json
    error: Json


class StartedRuns(Document):
    """The runs, in the order in which they were asked for."""

    items: list[StartedOne]


class AwaitedEvent(Document):
    """The event that a node waits for. `payload` shows what is read of it; empty for nothing."""

    event: str
    key: str
    payload: str


class NodeState(Document):
    """A node of a run."""

    id: str
    type: str
    state: str
    attempts: int
    iteration: int | None
    waits_for: str | None
    command: str | None = Field(description="the command that ends its wait")
    awaits: AwaitedEvent | None
    took: list[str] | None = Field(description="where its conditions led")
    error: Json
    items: ItemCounts | None = Field(description="of a foreach")
    child: str | None = Field(description="the run that a call has called last")
    given: bool = Field(description="it was skipped: its output was given by hand")
    undo: UndoName | None = Field(description="what became of undoing its work")
    undo_error: Json


class Step(Document):
    """A step of a timeline. `start_us` counts from the run's start."""

    place: str
    node: str | None
    what: Literal["attempt", "child", "wait", "event", "items", "run"]
    attempt: int | None
    result: str | None
    code: str | None
    message: str | None
    worker: str | None
    child: str | None = Field(description="the run that made the attempt")
    start_us: int | None
    duration_us: int | None


class RunReport(Run):
    """Everything about a run."""

    semantics: int = Field(description="the version of the rules by which it goes, for ever")
    lasted_us: int | None
    input: Json = Field(description="with which it was started")
    vars: dict[str, Json] = Field(description="the definition's, with what was given over them")
    output: Json
    error: Json
    epoch: int = Field(description="1, and one more with each retry")
    priority: int = Field(description="of its tasks whose nodes set none; higher goes first")
    closing: Closing | None
    children: Children
    params: Json = Field(description="what the run of a `do:` was given")
    item: Json = Field(description="the item that it works on")
    go_on: str | None = Field(description="the command that carries it on, where nobody drives it")
    held_by: str | None = Field(
        description="of a paused run the one to resume: itself, or the one that called it"
    )
    nodes: list[NodeState]
    timeline: list[Step]


class Event(Document):
    """One event of a history."""

    seq: int
    at: Instant
    kind: str
    place: str
    node: str | None
    data: Json


class Note(Document):
    """What an attempt said: a line, or its progress (`number` 0) as JSON text."""

    place: str
    node: str
    attempt: int
    number: int
    at: Instant
    kind: NoteKindName
    text: str


class RunNode(Document):
    """A node with its values, attempts and notes."""

    node: str
    place: str
    type: str
    state: str
    input: Json
    output: Json = Field(description="null for a foreach of more than 1,000 items: list them")
    given: bool = Field(description="the output was given by hand, in place of the node's work")
    error: Json
    waits_for: str | None
    command: str | None
    items: ItemCounts | None
    child: str | None
    undo: UndoName | None
    undo_error: Json
    attempts: list[Step]
    notes: list[Note]


class Payload(Document):
    """One stored value."""

    place: str
    kind: str
    seq: int
    value: Json


class NodeType(Document):
    """A node of a definition."""

    id: str
    type: str


class Edge(Document):
    """An edge of a definition."""

    model_config = ConfigDict(extra="forbid", serialize_by_alias=True)

    source: str = Field(alias="from")
    to: str
    on: Literal["success", "failure", "always"]
    when: str | None
    otherwise: bool = Field(alias="else")
    loop: int | None


class Workflow(Document):
    """A name with its newest version."""

    name: str
    version: int
    hash: str
    created_at: Instant
    versions: int


class VersionRow(Document):
    """A version in a list."""

    name: str
    version: int
    hash: str
    created_at: Instant
    aliases: list[str] = Field(description="that mean it now")


class Version(VersionRow):
    """A version with all that it says."""

    semantics: int = Field(description="the version of the rules by which its runs go, for ever")
    description: str
    source: str
    input_schema: Json
    vars: dict[str, Json]
    nodes: list[NodeType]
    edges: list[Edge]


class Finding(Document):
    """One thing that is wrong with a definition."""

    code: str
    severity: Literal["error", "warning"]
    file: str
    line: int
    column: int
    text: str
    message: str
    hint: str


class Alias(Document):
    """An alias of a name, with the version that it means now."""

    name: str
    alias: str
    version: int


class MovedAlias(Alias):
    """An alias that was set."""

    was: int | None = Field(description="the version that it meant before; null: it is new")


class Deployed(Version):
    """A stored version. `findings` are warnings."""

    created: bool = Field(description="false: the newest version says the same already")
    moved: list[MovedAlias] = Field(description="the aliases that were asked for")
    findings: list[Finding]


class DeletedVersion(Document):
    """A version that is no more."""

    name: str
    version: int


class Validated(Document):
    """What came of a check."""

    valid: bool
    name: str | None
    findings: list[Finding]


class Export(Document):
    """All that is kept of a run."""

    tenuto: str
    run: RunReport
    definition: Version
    history: list[Event]
    payloads: list[Payload]
    notes: list[Note]


class Verified(Document):
    """What came of folding a run's history anew."""

    run_id: str
    events: int
    ok: bool
    differences: list[str]


class Task(Document):
    """A task in a list."""

    run_id: str
    workflow: str
    node: str
    place: str
    name: str
    queue: str
    priority: int
    state: TaskStateName
    attempt: int
    lost: int
    worker: str | None
    leased_at: Instant | None
    child: str | None = Field(description="the open run that does it")
    error: Json


class Worker(Document):
    """A worker as last heard of."""

    id: str
    queues: list[str]
    names: list[str]
    labels: dict[str, str]
    capacity: int
    busy: int
    lag_us: int
    version: str
    seen_at: Instant
    lost: bool = Field(
        description="silent for as long as a lease lasts; its tasks run again elsewhere"
    )


class Awaited(Document):
    """An address that open waits wait for."""

    event: str
    key: str
    waits: int


class Health(Document):
    """How the server is."""

    status: Literal["ok"]
    version: str
    database: str = Field(
        description="the file's absolute path, `:memory:`, or the URL of PostgreSQL without its password "
        "(only `postgresql` where no token is asked for)"
    )
    pid: int
    url: str
    started_at: Instant
    degraded: list[str] = Field(description="what does not work as it should, and is made up for")


class RunPage(Document):
    """A page of runs, newest first. `next` is the cursor of the next page, null at the end."""

    items: list[Run]
    next: str | None


class RunCounts(Document):
    """How many runs there are of each state."""

    pending: int
    running: int
    paused: int
    closing: int
    success: int
    failed: int
    cancelled: int
    timed_out: int


class WorkflowPage(Document):
    """A page of workflows, by name."""

    items: list[Workflow]
    next: str | None


class VersionPage(Document):
    """A page of versions, newest first."""

    items: list[VersionRow]
    next: str | None


class AliasPage(Document):
    """All aliases of a name, in order."""

    items: list[Alias]
    next: str | None


class EventPage(Document):
    """A page of a history, in order. `next` is what `after` takes."""

    items: list[Event]
    next: str | None


class NotePage(Document):
    """What attempts said, oldest first."""

    items: list[Note]
    next: str | None


class TaskPage(Document):
    """A page of tasks, those of the newest runs first."""

    items: list[Task]
    next: str | None


class WorkerPage(Document):
    """All workers."""

    items: list[Worker]
    next: str | None


class AwaitedPage(Document):
    """Addresses that are waited for."""

    items: list[Awaited]
    next: str | None


class Problem(Document):
    """RFC 9457: what went wrong. `code` is stable; `detail` names the place and the cure."""

    type: str
    title: str
    status: int
    detail: str
    code: Literal[
        "bad_request",
        "unauthenticated",
        "forbidden",
        "forbidden_host",
        "forbidden_origin",
        "not_found",
        "method_not_allowed",
        "conflict",
        "payload_too_large",
        "unsupported_media_type",
        "invalid_input",
        "invalid_definition",
        "rate_limited",
        "internal",
        "unavailable",
    ]
    path: str | None = Field(default=None, description="the place in the request")
    problems: list[str] | None = Field(
        default=None, description="a line for each, where several things are wrong"
    )
    hint: str | None = None
    findings: list[Finding] | None = None


# -- bodies -----------------------------------------------------------------------------------------------------------


class DefinitionBody(Body):
    """A definition."""

    source: str = Field(
        description="YAML or JSON, at most 1 MiB",
        examples=["name: hello\nnodes:\n  pause: {type: wait, for: 1s}\n"],
    )
    file: str = Field(
        default="<request>",
        max_length=512,
        description="what findings call it",
        examples=["a.yaml"],
    )


class DeployBody(DefinitionBody):
    """A definition to store."""

    aliases: list[str] = Field(
        default=[],
        max_length=20,
        description="mean this version from now on, also where it was there already",
        examples=[["stable"]],
    )


class AliasBody(Body):
    """What an alias is to mean."""

    version: int = Field(ge=1, le=2**31 - 1, description="a version that there is", examples=[1])


class StartBody(Body):
    """A run to start."""

    workflow: str = Field(
        max_length=300,
        description="a deployed name; `hello@3` and `hello@stable` name a version of it",
        examples=["hello"],
    )
    version: int | None = Field(
        default=None, ge=1, description="the newest by default, or what the name says"
    )
    input: Json = Field(default=None, description="checked against the definition's `input`")
    vars: dict[VarName, Json] | None = Field(
        default=None, description="over the definition's `vars`"
    )
    key: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        description="idempotency key: one key, one run; as the header Idempotency-Key",
    )
    priority: int = Field(
        default=0,
        strict=True,
        ge=0,
        le=PRIORITY_MAX,
        description="of its tasks whose nodes set none; higher goes first",
    )


class StartManyBody(Body):
    """Runs of one version to start."""

    version: int | None = Field(
        default=None, ge=1, description="the newest by default, or what the name says"
    )
    vars: dict[VarName, Json] | None = Field(
        default=None, description="over the definition's `vars`, for all of them"
    )
    priority: int = Field(
        default=0,
        strict=True,
        ge=0,
        le=PRIORITY_MAX,
        description="of their tasks whose nodes set none; higher goes first",
    )
    runs: list[StartOf] = Field(min_length=1, max_length=STARTS_MAX)


class CancelBody(Body):
    """Why a run is cancelled."""

    reason: str = Field(default="", max_length=2_000)


class NothingBody(Body):
    """An empty object, or no body."""

"""Documents and bodies of REST for what is nested in a run, and for doing it again: children, items, passes, plans."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tenuto.api.shapes import Body, Document, Instant, Json, RunStateName, TaskStateName, VarName

CompensationName = Literal["none", "complete", "partial"]
UndoName = Literal["due", "undoing", "undone", "failed", "cancelled"]


class Parent(Document):
    """Who called a run."""

    run_id: str
    node: str
    item: int | None = Field(description="of a foreach, counted from 0")


class ItemCounts(Document):
    """How far a foreach is. Items in no count have not begun."""

    total: int
    succeeded: int
    failed: int
    active: int
    cancelled: int
    complete: bool = Field(description="false: a source may have more pages")


class Closing(Document):
    """A run whose outcome is decided and that is not final yet."""

    outcome: RunStateName
    drained: bool = Field(description="nothing is under way any more, so handlers may run")
    left: int = Field(description="work that is still to be undone")
    undone: int
    failed: int = Field(description="work that could not be undone")
    current: str | None = Field(description="the place of the handler at work")


class Child(Document):
    """A run that another one called."""

    run_id: str
    node: str
    item: int | None
    place: str
    workflow: str
    version: int
    state: RunStateName
    created_at: Instant
    ended_at: Instant | None
    waits_for: str | None
    command: str | None = Field(description="the command that ends its wait")


class Children(Document):
    """The newest runs that a run has called, newest first."""

    open: int = Field(description="children whose end the run waits for")
    newest: list[Child]
    more: bool = Field(description="there are others; `/children` lists all")


class Item(Document):
    """An item of a foreach."""

    index: int
    place: str
    state: TaskStateName
    attempt: int
    worker: str | None
    child: str | None = Field(description="the run that does it, or did it last")
    input: Json
    output: Json
    error: Json


class ItemPage(Document):
    """A page of items that have begun, in order."""

    items: list[Item]
    next: str | None


class Iteration(Document):
    """A pass of a node in loops."""

    iteration: int = Field(description="of the innermost loop")
    iterations: list[int] = Field(description="of each loop around it, outermost first")
    place: str
    state: TaskStateName | None = Field(description="of its task; null where no worker does it")
    attempt: int | None
    output: Json
    error: Json


class IterationPage(Document):
    """A page of passes, oldest first."""

    items: list[Iteration]
    next: str | None


class Plan(Document):
    """What a retry or a replay does, by node ids in topological order."""

    first: list[str] = Field(description="what failed or was cut short, or where a replay begins")
    unbegun: list[str] = Field(
        description="of `first`, those whose turn had not come when the run ended"
    )
    nodes: list[str] = Field(description="what is in `first`, and all that follows from it")
    repeated: list[str] = Field(description="of them those that had succeeded: they run again")
    inside: list[str] = Field(description="foreach and call nodes that go on where they stood")
    items: dict[str, int] = Field(
        description="how many items of each such foreach run, those that had not begun included"
    )
    listed: dict[str, int] = Field(description="of how many items")
    anew: list[str] = Field(description="foreach and call nodes that start whole")
    kept: list[str] = Field(description="nodes that keep what they did")
    changed: list[str] = Field(description="of them those that have read another input")
    called: list[str] = Field(
        description="waits whose `callback_key` somebody was told by the run as it was"
    )
    skipped: str | None = Field(description="the node that is taken as done")


class Planned(Document):
    """What was done, or would be."""

    run_id: str | None = Field(
        description="the run that goes on, or the new one; null with `dry_run` of a replay"
    )
    dry_run: bool
    plan: Plan


class Heard(Document):
    """Who heard a sign of life."""

    waits: int


# -- bodies ------------------------------------------------------------------------------------------------------------


class TerminateBody(Body):
    """Why a run is ended at once."""

    reason: str = Field(default="", max_length=2_000)


class ResumeBody(Body):
    """How a run goes on."""

    freeze_timers: bool = Field(
        default=False,
        description="deadlines that have not passed yet move by the time that the run was paused",
    )


class SkippedNode(Body):
    """A node that is taken as done."""

    node: str = Field(min_length=1, max_length=512, examples=["charge"])
    output: Json = Field(default=None, description="its output")


class RetryBody(Body):
    """How a run is done again."""

    skip: SkippedNode | None = Field(
        default=None, description="this node is taken as done instead of being run again"
    )


class ReplayBody(Body):
    """A new run that keeps what another one did."""

    start: str = Field(
        alias="from", min_length=1, max_length=512, description="a node", examples=["charge"]
    )
    input: Json = Field(default=None, description="in place of the old one; null: the old one")
    vars: dict[VarName, Json] | None = Field(default=None, description="over those of the old one")


class SkipBody(Body):
    """What a node that is skipped yields."""

    output: Json = Field(default=None, description="its output")


class HeartbeatBody(Body):
    """A sign of life for whoever waits for an event."""

    event: str = Field(min_length=1, max_length=512, examples=["job.done"])
    key: str = Field(max_length=512, examples=["A-1"])


class StartedOne(Document):
    """One of many runs that were started."""

    run_id: str = Field(examples=["01980000-0000-7000-8000-000000000001"])
    deduplicated: bool = Field(description="the key had its run already, and this is it")


class StartOf(Body):
    """One of many runs to start."""

    input: Json = Field(default=None, description="checked against the definition's `input`")
    key: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        description="idempotency key: one key, one run",
    )

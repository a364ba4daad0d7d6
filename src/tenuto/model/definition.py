"""A workflow definition as loaded: nodes and edges with meaning, no indexes (those are `graph`) and no positions.

Node numbers are positions in `Definition.nodes` (document order); edge numbers are positions in `Definition.edges`,
those of `edges:` first, then those of `needs` in node order (SEMANTICS T2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from tenuto.model.expressions import Expression
from tenuto.model.instants import DAY_US
from tenuto.model.retry import RetryPolicy

SEMANTICS_VERSION = 1
DEFINITION_MAX = 1_048_576
NODES_MAX = 10_000
NESTING_MAX = 64
CONCURRENCY_MAX = 10_000
PRIORITY_MAX = 9
ITEMS_MAX = 1_000_000
"""Items of one foreach."""
CALL_DEPTH_MAX = 32
"""Levels of child runs below a run that nobody called (F6)."""


class NodeType(StrEnum):
    """Kinds of node."""

    HTTP = "http"
    CODE = "code"
    TASK = "task"
    SWITCH = "switch"
    FORK = "fork"
    JOIN = "join"
    WAIT = "wait"
    WAIT_FOR_EVENT = "wait_for_event"
    FOREACH = "foreach"
    CALL = "call"
    SET = "set"
    EMIT = "emit"
    FAIL = "fail"
    END = "end"


WORKER_TYPES = frozenset({NodeType.HTTP, NodeType.CODE, NodeType.TASK})
"""Types that a worker runs."""
INSTANT_TYPES = frozenset(
    {
        NodeType.SWITCH,
        NodeType.FORK,
        NodeType.JOIN,
        NodeType.SET,
        NodeType.EMIT,
        NodeType.FAIL,
        NodeType.END,
    }
)
"""Types that end inside the decision that activates them (SEMANTICS T7)."""


class On(StrEnum):
    """Which end of its source an edge follows (SEMANTICS T4)."""

    SUCCESS = "success"
    FAILURE = "failure"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class Edge:
    """`source` and `target` are node numbers. `loop_max` is set on a back edge only (L1, L2).

    `loop_keep`: passes whose outputs are kept (L5); None for all.
    """

    source: int
    target: int
    on: On = On.SUCCESS
    when: Expression | None = None
    otherwise: bool = False
    loop_max: int | None = None
    loop_keep: int | None = None


Name = str | Expression
"""A name: fixed, or computed when the node is activated (X1; kind NAME)."""
Amount = int | Expression
"""A number: fixed, or computed when the node is activated (X1; kind DURATION, INSTANT or COUNT). Times in
microseconds.
"""


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker does. `name`: the function a worker registered, `http` or `code`. `input` yields its input (X5).

    `priority` None: the run's (X1.3).
    """

    name: Name
    input: Expression
    queue: Name = "default"
    priority: Amount | None = None
    retry: RetryPolicy = RetryPolicy()
    timeout_us: Amount | None = None
    total_timeout_us: Amount | None = None
    queue_timeout_us: Amount | None = None
    heartbeat_timeout_us: Amount | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A child run: of the workflow `name`, or of the inline graph number `inline`. Exactly one of the two is set.

    Attributes:
        name: `workflow`, `workflow@alias` or `workflow@3`.
        input: yields the child's input; for an inline graph its `params`.
        output: yields the node's output; reads the child's as `output`. None: the child's own.
        wait: False: the node ends with `{"run_id": …}` at once, and the child has no parent for C (F6).
        timeout_us: of one child, `total_timeout_us` of all its tries together.
    """

    name: Name | None
    inline: int | None
    input: Expression
    output: Expression | None = None
    wait: bool = True
    retry: RetryPolicy = RetryPolicy()
    timeout_us: Amount | None = None
    total_timeout_us: Amount | None = None


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How many items may fail: `count` of them, or `count` percent of the whole list."""

    count: int = 0
    percent: bool = False


@dataclass(frozen=True, slots=True)
class Foreach:
    """Work for each item of a list. Exactly one of `over` and `source` is set.

    Attributes:
        body: what is done for an item: a worker's task, or a child run.
        over: yields the list (kind ITEMS).
        source: a task that hands out the list in pages: it gets `params` and `cursor` (null first) and returns
            `{"items": [...], "next": cursor or null}`.
        concurrency: items under way at a time, back-off included; 1 to `CONCURRENCY_MAX`.
        tolerate: fixed, or computed (kind TOLERANCE).
        batch: items handed to one piece of work as a list; 0: one item, as it is.
        total_timeout_us: of the whole; `body` has the clocks of one item.
    """

    body: Work | Call
    over: Expression | None = None
    source: Work | None = None
    concurrency: Amount = 100
    tolerate: Tolerance | Expression = Tolerance()
    batch: Amount = 0
    total_timeout_us: Amount | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Exactly one of the two is set."""

    for_us: Amount | None = None
    until_at: Amount | None = None


@dataclass(frozen=True, slots=True)
class WaitForEvent:
    """Waits for a message stored under (event, key); `key` None: the wait's own `callback_key`.

    Attributes:
        match: condition over `event`: which message is meant. One that does not hold, or errs, leaves the message.
        fail_when: condition over `event`: the message that came means failure.
        heartbeat_timeout_us: longest silence; a heartbeat for the address starts it anew.
    """

    event: Name
    key: Expression | None
    timeout_us: Amount | None = None
    match: Expression | None = None
    fail_when: Expression | None = None
    heartbeat_timeout_us: Amount | None = None


@dataclass(frozen=True, slots=True)
class Emit:
    """Puts a message into the mailbox. `keep_us`: how long it waits for somebody to want it; None: as any message."""

    event: Name
    key: Expression
    payload: Expression
    keep_us: Amount | None = None


@dataclass(frozen=True, slots=True)
class SetValue:
    """`value` is the node's output."""

    value: Expression


@dataclass(frozen=True, slots=True)
class Fail:
    """`message` (KEY) and `details` (VALUE) are evaluated when it is reached; `code` is fixed (F4)."""

    code: str
    message: Expression | None = None
    details: Expression | None = None


@dataclass(frozen=True, slots=True)
class End:
    """Decides the outcome, `success` or `cancelled`; `output` of its own, or the run's (F4)."""

    cancelled: bool = False
    output: Expression | None = None


Detail = Work | Call | Foreach | Wait | WaitForEvent | SetValue | Emit | Fail | End | None
"""What a node does by its type; None for switch, fork and join."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A leaf that undoes a node's work (C3), or that runs after a failed run (C4).

    `started`: of a compensation: also for work that was handed out and did not succeed (`when: started`).
    """

    type: NodeType
    detail: Work | Call | Emit
    started: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """`join`: tokens that must be taken to act; 0 = all in-edges decided (J1), k >= 1 = at the k-th taken (J2)."""

    id: str
    type: NodeType
    detail: Detail = None
    join: int = 0
    cancel_losers: bool = False
    optional: bool = False
    compensate: Handler | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """One workflow, or an inline graph of one.

    `vars` and `input_schema` are JSON texts; `output` None means SEMANTICS C5's default. `inlines`: the graphs of its
    own `do:` blocks, by number (`Call.inline`); theirs are theirs. An inline graph (`inline`) has its workflow's `name`
    and `closing_timeout_us`, and none of its input, constants and clocks.
    """

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    description: str = ""
    vars: str = "{}"
    input_schema: str | None = None
    timeout_us: int | None = None
    output: Expression | None = None
    on_failure: Handler | None = None
    closing_timeout_us: int = DAY_US
    inlines: tuple[Definition, ...] = ()
    inline: bool = False
    semantics: int = SEMANTICS_VERSION
    """The version of the rules (`docs/rules.md`) by which it runs, for ever; of an inline graph its workflow's."""
    source: str = field(default="", compare=False)
    """The text it was read from."""

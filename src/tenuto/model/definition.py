"""A workflow definition as loaded: nodes and edges with meaning, no indexes (those are `graph`) and no positions.

Node numbers are positions in `Definition.nodes` (document order); edge numbers are positions in `Definition.edges`,
those of `edges:` first, then those of `needs` in node order (SEMANTICS T2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from tenuto.model.expressions import Expression
from tenuto.model.retry import RetryPolicy

SEMANTICS_VERSION = 1
DEFINITION_MAX = 1_048_576
NODES_MAX = 10_000
NESTING_MAX = 64


class NodeType(StrEnum):
    """Kinds of node this release executes; a later one is the finding `not_yet`."""

    HTTP = "http"
    CODE = "code"
    TASK = "task"
    SWITCH = "switch"
    FORK = "fork"
    JOIN = "join"
    WAIT = "wait"
    WAIT_FOR_EVENT = "wait_for_event"
    SET = "set"
    FAIL = "fail"
    END = "end"


WORKER_TYPES = frozenset({NodeType.HTTP, NodeType.CODE, NodeType.TASK})
"""Types that a worker runs."""
INSTANT_TYPES = frozenset(
    {NodeType.SWITCH, NodeType.FORK, NodeType.JOIN, NodeType.SET, NodeType.FAIL, NodeType.END}
)
"""Types that end inside the decision that activates them (SEMANTICS T7)."""


class On(StrEnum):
    """Which end of its source an edge follows (SEMANTICS T4)."""

    SUCCESS = "success"
    FAILURE = "failure"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class Edge:
    """`source` and `target` are node numbers. `loop_max` is set on a back edge only (L1, L2)."""

    source: int
    target: int
    on: On = On.SUCCESS
    when: Expression | None = None
    otherwise: bool = False
    loop_max: int | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker does. `name`: the function a worker registered, `http` or `code`. `input` yields its input (X5)."""

    name: str
    input: Expression
    queue: str = "default"
    priority: int = 0
    retry: RetryPolicy = RetryPolicy()
    timeout_us: int | None = None
    total_timeout_us: int | None = None
    queue_timeout_us: int | None = None
    heartbeat_timeout_us: int | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Exactly one of the two is set."""

    for_us: int | None = None
    until_at: int | None = None


@dataclass(frozen=True, slots=True)
class WaitForEvent:
    """Waits for the message stored under (event, key)."""

    event: str
    key: Expression
    timeout_us: int | None = None


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


Detail = Work | Wait | WaitForEvent | SetValue | Fail | End | None
"""What a node does by its type; None for switch, fork and join."""


@dataclass(frozen=True, slots=True)
class Node:
    """`join`: tokens that must be taken to act; 0 = all in-edges decided (J1), k >= 1 = at the k-th taken (J2)."""

    id: str
    type: NodeType
    detail: Detail = None
    join: int = 0
    cancel_losers: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """One workflow. `vars` and `input_schema` are JSON texts; `output` None means SEMANTICS C5's default."""

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    description: str = ""
    vars: str = "{}"
    input_schema: str | None = None
    timeout_us: int | None = None
    output: Expression | None = None
    source: str = field(default="", compare=False)
    """The text it was read from."""

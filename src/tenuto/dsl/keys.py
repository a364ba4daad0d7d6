"""Which keys stand where: one table for the reader, for its hints and for whoever describes the format.

Nothing is read here; what a key's value must be is the reader's business.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenuto.model.definition import NodeType

TOP = (
    *("name", "description", "vars", "input", "timeout", "defaults", "nodes", "edges", "output"),
    *("on_failure", "closing_timeout"),
)
GRAPH = ("nodes", "edges", "output")
"""Of a `do:` that holds several nodes; one that holds a single node has that node's keys."""
EDGE = ("from", "to", "on", "when", "else", "loop")
LOOP = ("max", "keep")

CLOCKS = ("timeout", "total_timeout", "queue_timeout", "heartbeat_timeout")
WORK_KEYS = ("queue", "priority", "retry", *CLOCKS)
ITEM_KEYS = ("retry", "timeout", "queue", "priority", "queue_timeout", "heartbeat_timeout")
"""Of a foreach whose items a worker does: they are an item's."""
CHILD_KEYS = ("retry", "timeout")
"""Of a foreach whose items are runs of their own: they are an item's."""
REQUEST_KEYS = ("method", "url", "headers", "query", "json", "body", "form", "auth")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
BACKOFF = ("initial", "factor", "max", "jitter")
RETRY = ("max_attempts", *BACKOFF, "rules", "give_up_on")
RULE = ("on", "when", "max_attempts", *BACKOFF)

EDGE_KEYS_OF_NODES = ("needs", "join", "cancel_losers")
COMMON = ("type", *EDGE_KEYS_OF_NODES)
"""Of every node."""
_ENDS = ("optional", "compensate")
OWN: Mapping[NodeType, tuple[str, ...]] = {
    NodeType.HTTP: ("request", *_ENDS, *WORK_KEYS),
    NodeType.CODE: ("language", "code", "params", *_ENDS, *WORK_KEYS),
    NodeType.TASK: ("task", "params", *_ENDS, *WORK_KEYS),
    NodeType.SWITCH: (),
    NodeType.FORK: (),
    NodeType.JOIN: (),
    NodeType.WAIT: ("for", "until"),
    NodeType.WAIT_FOR_EVENT: (
        *("event", "key", "match", "fail_when", "timeout", "heartbeat_timeout", "optional"),
    ),
    NodeType.FOREACH: (
        *("over", "source", "do", "task", "params", "call", "input", "output"),
        *("concurrency", "tolerate", "batch", *_ENDS, *WORK_KEYS),
    ),
    NodeType.CALL: (
        *("call", "do", "params", "input", "output", "wait", *_ENDS),
        *("retry", "timeout", "total_timeout"),
    ),
    NodeType.SET: ("values",),
    NodeType.EMIT: ("event", "key", "payload", "keep"),
    NodeType.FAIL: ("code", "message", "details"),
    NodeType.END: ("as", "output"),
}
LEAF_TYPES = (NodeType.HTTP, NodeType.CODE, NodeType.TASK, NodeType.CALL, NodeType.EMIT)
"""What `compensate` and `on_failure` may be (C3, C4)."""
NOT_ON_LEAVES = (*EDGE_KEYS_OF_NODES, *_ENDS)


def _elsewhere() -> Mapping[str, str]:
    """Key -> where it does stand."""
    types: dict[str, list[str]] = {}
    for type, keys in OWN.items():
        for key in keys:
            types.setdefault(key, []).append(type)
    found = {key: f"it stands on {', '.join(names)}" for key, names in types.items()}
    found["keep"] = "it stands in `loop: {max: …}` of an edge, and on emit"
    found["callback_key"] = "it is not written but read: `${nodes.<id>.callback_key}`"
    for key in ("rules", "give_up_on"):
        found[key] = "it stands in `retry`"
    for key in ("nodes", "edges"):
        found.setdefault(key, "it stands in `do`, on foreach and call, or beside all nodes")
    for key in ("catch", "on_error", "except"):
        found[key] = "a failure is an edge's: `{from: <this node>, to: <node>, on: failure}`"
    found["on_failure"] = (
        "it stands beside `nodes`, and is the whole workflow's; what follows the failure of one node is an edge with "
        "`on: failure`"
    )
    for key in ("closing_timeout", "vars", "defaults"):
        found.setdefault(key, "it stands beside `nodes`, and is the whole workflow's")
    return found


ELSEWHERE = _elsewhere()
"""Key of some node -> where it does stand."""

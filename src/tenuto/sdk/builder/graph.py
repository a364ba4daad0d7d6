"""`Graph`: nodes and edges under construction, by methods and `>>`. A workflow is one; so is what stands in a `do`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, TypedDict, Unpack

from tenuto.sdk.builder.keys import (
    ChildKeys,
    Condition,
    Defaults,
    Duration,
    Language,
    Name,
    Params,
    Request,
)
from tenuto.sdk.builder.names import Names
from tenuto.sdk.builder.nodes import Group, Node, Sketch
from tenuto.sdk.builder.origins import MadeMap, Origin, here, mistake
from tenuto.sdk.builder.references import Json, Ref, render
from tenuto.sdk.builder.steps import (
    EachKeys,
    Keys,
    Part,
    TaskName,
    call_keys,
    code_keys,
    each_keys,
    task_keys,
    tree_of,
)

Needs: TypeAlias = Node | Group | str | Sequence[Node | str]


class NodeKeys(TypedDict, total=False):
    """Keys that every node may have."""

    needs: Needs
    join: Literal["all", "any"] | int
    cancel_losers: bool


class WorkKeys(NodeKeys, Defaults, total=False):
    """Keys that nodes of work may have."""

    optional: bool


class CallKeys(NodeKeys, ChildKeys, total=False):
    """Keys that a `call` may have."""

    optional: bool


class NodeEachKeys(EachKeys, WorkKeys, total=False):
    """Keys of a foreach that is a node."""


class Graph(Names, Part):
    """Nodes and edges for `do` of a foreach or a call: a run of its own, which reads `params`, `input` and `vars`.

    Nodes come from its methods, edges from `>>` between them. It is finished before it is given to `do`.
    """

    def __init__(self, *, output: object = None) -> None:
        """Begin a graph.

        Args:
            output: what it gives; may be set later (`graph.output = …`), when the nodes are there.
        """
        self.name = ""
        self.origin: Origin | None = here()
        self._sketch = Sketch()
        self._tail: dict[str, Json] = {}
        if output is not None:
            self.output = output

    def __repr__(self) -> str:
        return f"<graph: {len(self._sketch.nodes)} nodes>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        if error is None:
            self._refuse_loose_ends()

    def __getitem__(self, id: str) -> Node:
        """The node of that id. Raises InvalidDefinition, which says what was probably meant."""
        node = self._sketch.nodes.get(id)
        if node is None:
            from difflib import get_close_matches

            near = get_close_matches(str(id), self._sketch.nodes, n=1)
            cure = f"did you mean `{near[0]}`?" if near else "make it first"
            raise mistake("unknown_node", f"there is no node `{id}`", cure, text=str(id))
        return node

    @property
    def output(self) -> Any:
        """What it gives, as the definition has it; None: the outputs of the last nodes."""
        return self._tail.get("output")

    @output.setter
    def output(self, value: object) -> None:
        self._sketch.change()
        self._tail["output"] = render(value, "output")

    # -- nodes -------------------------------------------------------------------------------------------

    def http(self, id: str, *, request: Request, **keys: Unpack[WorkKeys]) -> Node:
        """Call an API. Its output is `{status, headers, body}`."""
        return self._add(id, "http", {"request": request}, keys)

    def task(
        self,
        id: str,
        task: TaskName,
        *,
        params: Params | None = None,
        **keys: Unpack[WorkKeys],
    ) -> Node:
        """Call a function that a worker registered: the function itself, its registered name, or what computes that.

        Args:
            id: of the node.
            task: of a function, the params must have the names of its parameters.
            params: its keyword arguments.
            keys: see the page on definitions.
        """
        return self._add(id, "task", task_keys(task, params), keys)

    def code(
        self,
        id: str,
        code: str | Callable[..., Any],
        *,
        language: Language = "python",
        params: Params | None = None,
        memory: str | None = None,
        **keys: Unpack[WorkKeys],
    ) -> Node:
        """Run code that the definition itself holds: text with a `main(params)`, or a Python function of one parameter
        that uses nothing from outside.
        """
        return self._add(id, "code", code_keys(code, language, params, memory), keys)

    def foreach(self, id: str, **keys: Unpack[NodeEachKeys]) -> Node:
        """Do something for each item of a list: a `task`, a `call`, or what stands in `do`. Its output is the list of
        what these gave, null where one failed.

        Args:
            id: of the node.
            keys: `over` or `source`; `do`, or `task` and `params`, or `call`, `input` and `output`; `concurrency`,
                `tolerate`, `batch`. `retry` and `timeout` are an item's, `total_timeout` is the whole's.
        """
        return self._add(id, "foreach", each_keys(keys), {})

    def call(
        self,
        id: str,
        workflow: Name | Part | None = None,
        *,
        do: Part | None = None,
        params: Params | None = None,
        input: object = None,
        output: object = None,
        wait: bool = True,
        **keys: Unpack[CallKeys],
    ) -> Node:
        """Start a workflow, or the graph `do`, as a run of its own, and wait for it. Its output is that run's.

        Args:
            id: of the node.
            workflow: its name, to which `@` and an alias or a version may be added; or a built workflow, that is
                deployed when this is called.
            do: a graph or a step, instead of a workflow.
            params: what the graph reads as `params`.
            input: the workflow's.
            output: what of the run's output (`wf.child_output`) is the node's.
            wait: False: it ends at once with `{run_id}`, and the run goes its own way.
            keys: see the page on definitions.
        """
        own = call_keys(workflow, do, params, input, output, wait=wait)
        return self._add(id, "call", own, keys)

    def switch(self, id: str, **keys: Unpack[NodeKeys]) -> Node:
        """Take one edge: the first whose `when` is true, else `otherwise`."""
        return self._add(id, "switch", {}, keys)

    def fork(self, id: str, **keys: Unpack[NodeKeys]) -> Node:
        """Take all edges."""
        return self._add(id, "fork", {}, keys)

    def join(self, id: str, **keys: Unpack[NodeKeys]) -> Node:
        """Wait for `join="all"` that leads here, `"any"`, or a number of it. Its output maps ids to outputs."""
        return self._add(id, "join", {}, keys)

    def wait(
        self,
        id: str,
        *,
        for_: Duration | None = None,
        until: str | dt.datetime | Ref | None = None,
        **keys: Unpack[NodeKeys],
    ) -> Node:
        """Wait for a while, or until a moment with an offset."""
        return self._add(id, "wait", {"for": for_, "until": until}, keys)

    def wait_for_event(
        self,
        id: str,
        event: Name,
        *,
        key: object = None,
        match: Condition | None = None,
        fail_when: Condition | None = None,
        timeout: Duration | None = None,
        heartbeat_timeout: Duration | None = None,
        optional: bool = False,
        **keys: Unpack[NodeKeys],
    ) -> Node:
        """Wait for the event of that name and key. Its output is the event's payload.

        Args:
            id: of the node.
            event: its name.
            key: None: its own `callback_key`, which an earlier step hands out.
            match: which events are meant, by `event`.
            fail_when: which of these mean failure.
            timeout: how long to wait.
            heartbeat_timeout: how long without a sign of life.
            optional: the run goes on if it fails.
            keys: see the page on definitions.
        """
        own = {"event": event, "key": key, "match": match, "fail_when": fail_when}
        clocks = {"timeout": timeout, "heartbeat_timeout": heartbeat_timeout}
        return self._add(
            id, "wait_for_event", {**own, **clocks, "optional": optional or None}, keys
        )

    def emit(
        self,
        id: str,
        event: Name,
        *,
        key: object,
        payload: object = None,
        keep: Duration | None = None,
        **keys: Unpack[NodeKeys],
    ) -> Node:
        """Send an event to the run that waits for that name and key, now or later."""
        own = {"event": event, "key": key, "payload": payload, "keep": keep}
        return self._add(id, "emit", own, keys)

    def set(self, id: str, values: Params, **keys: Unpack[NodeKeys]) -> Node:
        """Compute values. They are its output."""
        return self._add(id, "set", {"values": values}, keys)

    def fail(
        self,
        id: str,
        code: str,
        *,
        message: object = None,
        details: object = None,
        **keys: Unpack[NodeKeys],
    ) -> Node:
        """End the run as failed."""
        return self._add(id, "fail", {"code": code, "message": message, "details": details}, keys)

    def end(
        self,
        id: str,
        *,
        as_: Literal["success", "cancelled"] | None = None,
        output: object = None,
        **keys: Unpack[NodeKeys],
    ) -> Node:
        """End the run."""
        return self._add(id, "end", {"as": as_, "output": output}, keys)

    def _add(self, id: str, type: str, own: Keys, keys: Mapping[str, object]) -> Node:
        """Add a node. What is None is not given."""
        self._sketch.change()
        known = self._sketch.nodes
        if id in known:
            first = known[id].origin
            where = f"; the first is at {first.file}:{first.line}" if first else ""
            cure = "give one of the two another id"
            raise mistake("duplicate_key", f"there are two nodes `{id}`{where}", cure, text=id)
        if not isinstance(id, str):
            cure = 'write `wf.task("ship", …)`'
            raise mistake("wrong_type", f"a node's id is text, not {id!r:.60}", cure)
        given = {**own, **keys}
        if given.get("needs") is not None:
            given["needs"] = self._needed(given["needs"])
        node = Node(id, tree_of(type, id, given), self._sketch, here())
        known[id] = node
        return node

    def _needed(self, needs: object) -> list[str]:
        """The ids that `needs` names."""
        items = needs.items if isinstance(needs, Group) else needs
        ids = []
        for item in items if isinstance(items, list | tuple) else (items,):
            if isinstance(item, Node) and item.sketch is not self._sketch:
                cure = "an edge joins two nodes of one graph"
                problem = f"`{item.id}` is a node of another workflow"
                raise mistake("unknown_node", problem, cure, text=item.id)
            if not isinstance(item, Node | str):
                cure = "write `needs=[a, b]`"
                raise mistake("wrong_type", f"`needs` names nodes, and {item!r:.60} is none", cure)
            ids.append(item if isinstance(item, str) else item.id)
        return ids

    # -- what it becomes ---------------------------------------------------------------------------------

    def part(self, use: str) -> MadeMap:
        """What stands under `do`; from now on it changes no more."""
        if use != "do":
            cure = f"write `{use}` with a step, such as `Step.call(do=graph)`"
            raise mistake("wrong_type", f"`{use}` is one node, not a graph", cure)
        self._refuse_loose_ends()
        self._sketch.used = self._sketch.used or here()
        return MadeMap(self._tree(), self.origin)

    def _tree(self) -> dict[str, Any]:
        nodes = {id: MadeMap(node.tree, node.origin) for id, node in self._sketch.nodes.items()}
        tree: dict[str, Any] = {"nodes": nodes}
        if self._sketch.edges:
            tree["edges"] = list(self._sketch.edges)
        return tree | self._tail

    def _refuse_loose_ends(self) -> None:
        for port in self._sketch.open:
            shown = ", ".join(f"{key}: {value}" for key, value in port.conditions.items())
            raise mistake(
                "edge_form",
                f"an end of `{port.node.id}` ({shown}) leads nowhere",
                "lead it on with `>> node`",
                text=port.node.id,
                at=port.origin,
            )

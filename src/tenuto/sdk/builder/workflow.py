"""`Workflow`: a definition built in Python, the same tree that YAML gives. It runs nothing itself."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Required, Self, TypeAlias, TypedDict, Unpack, cast

from tenuto.model.errors import InvalidDefinition
from tenuto.sdk.builder.functions import registered, source_of
from tenuto.sdk.builder.nodes import Group, Node, Sketch
from tenuto.sdk.builder.origins import Origin, Places, here, mistake
from tenuto.sdk.builder.references import Json, Ref, render
from tenuto.sdk.builder.text import Text, write

if TYPE_CHECKING:
    from tenuto.dsl.findings import Finding

Duration: TypeAlias = str | dt.timedelta
"""`"1h30m"`, or a timedelta of whole milliseconds."""
Needs: TypeAlias = Node | Group | str | Sequence[Node | str]
Language: TypeAlias = Literal["python", "javascript", "cpython"]

_CLOCKS = frozenset(
    {"timeout", "total_timeout", "queue_timeout", "heartbeat_timeout", "initial", "max", "for"}
)
_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
"""In milliseconds, the largest first."""


class Retry(TypedDict, total=False):
    """Keys of `retry`."""

    max_attempts: int
    initial: Duration
    factor: float
    max: Duration
    jitter: Literal["none", "full", "equal"]


class NodeKeys(TypedDict, total=False):
    """Keys that every node may have."""

    needs: Needs
    join: Literal["all", "any"] | int
    cancel_losers: bool


class Defaults(TypedDict, total=False):
    """Keys of `defaults`, and of every node that a worker runs."""

    queue: str
    priority: int
    retry: Retry
    timeout: Duration
    total_timeout: Duration
    queue_timeout: Duration
    heartbeat_timeout: Duration


class WorkKeys(NodeKeys, Defaults, total=False):
    """Keys that nodes of work may have."""

    optional: bool


class Request(TypedDict, total=False):
    """An http request; any value may hold references."""

    method: str
    url: Required[object]
    headers: Mapping[str, object]
    query: Mapping[str, object]
    json: object
    body: object
    form: Mapping[str, object]
    auth: Mapping[str, object]


class Workflow:
    """A workflow under construction: nodes come from its methods, edges from `>>` between them.

    Everything that a definition in YAML can say can be said; values may hold references (`charge.output.id`), models,
    dates and the like. A mistake is an InvalidDefinition at the line that makes it, or, where only the whole graph
    shows it, a finding at the line that made the node or edge.
    """

    def __init__(
        self,
        name: str,
        *,
        description: str = "",
        input: Mapping[str, object] | type[Any] | None = None,
        vars: Mapping[str, object] | None = None,
        timeout: Duration | None = None,
        defaults: Defaults | None = None,
        output: object = None,
    ) -> None:
        """Begin a workflow.

        Args:
            name: letters, digits, `_`, `.` and `-`.
            description: text for people.
            input: JSON Schema of the input, or a model or dataclass whose schema it is.
            vars: constants, that a start may override.
            timeout: of the whole run.
            defaults: keys for all nodes that a worker runs.
            output: of the run; may be set later (`wf.output = …`), when the nodes are there.
        """
        self.name = name
        self._origin: Origin | None = here()
        self._sketch = Sketch()
        self._head: dict[str, Json] = {"name": render(name, "name")}
        if description:
            self._head["description"] = render(description, "description")
        for key, value in (
            ("vars", vars),
            ("input", _schema(input) if isinstance(input, type) else input),
            ("timeout", timeout),
            ("defaults", defaults),
        ):
            if value is not None:
                self._head[key] = _rendered(key, value, key)
        self._tail: dict[str, Json] = {}
        if output is not None:
            self.output = output

    @classmethod
    def from_yaml(cls, text: str, *, file: str = "<text>") -> Workflow:
        """Read a definition, to go on building from it.

        Raises:
            InvalidDefinition: with all findings.
        """
        from tenuto.app.definitions import load_definition
        from tenuto.dsl import yaml
        from tenuto.dsl.findings import Findings

        loaded = load_definition(text, file=file)
        if loaded.graph is None:
            raise InvalidDefinition(loaded.findings)
        text = text.removeprefix("\ufeff")
        read = yaml.read(text, Findings(file, text))
        assert read is not None
        tree = cast("dict[str, Any]", yaml.to_json(read))
        workflow = cls(tree["name"])
        workflow._origin = None
        workflow._head = {
            key: part for key, part in tree.items() if key not in ("nodes", "edges", "output")
        }
        for id, keys in tree["nodes"].items():
            workflow._sketch.nodes[id] = Node(id, keys, workflow._sketch, None)
        workflow._sketch.read(tree.get("edges") or [])
        if "output" in tree:
            workflow._tail["output"] = tree["output"]
        return workflow

    def __repr__(self) -> str:
        return f"<workflow {self.name}: {len(self._sketch.nodes)} nodes>"

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

    # -- names of the run --------------------------------------------------------------------------------

    @property
    def input(self) -> Ref:
        """The run's input."""
        return Ref("input")

    @property
    def vars(self) -> Ref:
        """The run's constants."""
        return Ref("vars")

    @property
    def secrets(self) -> Ref:
        """The worker's secrets, for `headers`, `auth`, `json`, `body` and `form` of a request."""
        return Ref("secrets")

    @property
    def error(self) -> Ref:
        """The failure that led to the node that reads it."""
        return Ref("error")

    @property
    def iteration(self) -> Ref:
        """The number of the pass of the innermost loop, from 1."""
        return Ref("iteration")

    @property
    def output(self) -> Any:
        """What the run gives, as the definition has it; None: the outputs of the last nodes."""
        return self._tail.get("output")

    @output.setter
    def output(self, value: object) -> None:
        self._tail["output"] = render(value, "output")

    # -- nodes -------------------------------------------------------------------------------------------

    def http(self, id: str, *, request: Request, **keys: Unpack[WorkKeys]) -> Node:
        """Call an API. Its output is `{status, headers, body}`."""
        return self._add(id, "http", {"request": request}, keys)

    def task(
        self,
        id: str,
        task: str | Callable[..., Any],
        *,
        params: Mapping[str, object] | None = None,
        **keys: Unpack[WorkKeys],
    ) -> Node:
        """Call a function that a worker registered: the function itself, or its registered name.

        Args:
            id: of the node.
            task: of a function, the params must have the names of its parameters.
            params: its keyword arguments.
            keys: see the page on definitions.
        """
        name = task
        if not isinstance(task, str):
            known = registered(task)
            name = known.name
            misfit = known.misfit_of_names(params or {})
            if misfit is not None:
                raise mistake("bad_value", misfit, "give it the params that it takes", text=name)
        return self._add(id, "task", {"task": name, "params": params}, keys)

    def code(
        self,
        id: str,
        code: str | Callable[..., Any],
        *,
        language: Language = "python",
        params: Mapping[str, object] | None = None,
        memory: str | None = None,
        **keys: Unpack[WorkKeys],
    ) -> Node:
        """Run code that the definition itself holds: text with a `main(params)`, or a Python function of one parameter
        that uses nothing from outside.
        """
        if not isinstance(code, str):
            if language == "javascript":
                raise mistake("bad_value", "a Python function is no javascript", "give it as text")
            code = source_of(code)
        own = {"language": language, "code": code, "params": params, "memory": memory}
        return self._add(id, "code", own, keys)

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
        until: str | dt.datetime | None = None,
        **keys: Unpack[NodeKeys],
    ) -> Node:
        """Wait for a while, or until a moment with an offset."""
        return self._add(id, "wait", {"for": for_, "until": until}, keys)

    def wait_for_event(
        self,
        id: str,
        event: str,
        *,
        key: object,
        timeout: Duration | None = None,
        optional: bool = False,
        **keys: Unpack[NodeKeys],
    ) -> Node:
        """Wait for the event of that name and key. Its output is the event's payload."""
        own = {"event": event, "key": key, "timeout": timeout, "optional": optional or None}
        return self._add(id, "wait_for_event", own, keys)

    def set(self, id: str, values: Mapping[str, object], **keys: Unpack[NodeKeys]) -> Node:
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

    def _add(
        self, id: str, type: str, own: Mapping[str, object], keys: Mapping[str, object]
    ) -> Node:
        """Add a node. What is None is not given."""
        known = self._sketch.nodes
        if id in known:
            first = known[id].origin
            where = f"; the first is at {first.file}:{first.line}" if first else ""
            cure = "give one of the two another id"
            raise mistake("duplicate_key", f"there are two nodes `{id}`{where}", cure, text=id)
        if not isinstance(id, str):
            cure = 'write `wf.task("ship", …)`'
            raise mistake("wrong_type", f"a node's id is text, not {id!r:.60}", cure)
        tree: dict[str, Json] = {"type": type}
        for key, value in {**own, **keys}.items():
            if value is not None:
                given = self._needed(value) if key == "needs" else value
                tree[key] = _rendered(key, given, f"{id}.{key}")
        node = Node(id, tree, self._sketch, here())
        known[id] = node
        return node

    def _needed(self, needs: object) -> list[str]:
        """The ids that `needs` names."""
        items = needs.items if isinstance(needs, Group) else needs
        ids = []
        for item in items if isinstance(items, list | tuple) else (items,):
            if isinstance(item, Node) and item.sketch is not self._sketch:
                cure = "an edge joins two nodes of one workflow"
                problem = f"`{item.id}` is a node of another workflow"
                raise mistake("unknown_node", problem, cure, text=item.id)
            if not isinstance(item, Node | str):
                cure = "write `needs=[a, b]`"
                raise mistake("wrong_type", f"`needs` names nodes, and {item!r:.60} is none", cure)
            ids.append(item if isinstance(item, str) else item.id)
        return ids

    # -- what it becomes ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The definition as the tree of JSON values that its YAML is."""
        self._refuse_loose_ends()
        tree = {**self._head, "nodes": {id: node.tree for id, node in self._sketch.nodes.items()}}
        if self._sketch.edges:
            tree["edges"] = [edge.tree for edge in self._sketch.edges]
        return cast("dict[str, Any]", render(tree | self._tail, "the workflow"))

    def to_yaml(self) -> str:
        """The definition as a file for people."""
        return str(write(self.to_dict()))

    def validate(self) -> tuple[Finding, ...]:
        """All that is wrong with the definition, warnings too, at the lines of the Python that made it."""
        from tenuto.app.definitions import load_definition

        try:
            text, places = self.text()
        except InvalidDefinition as mistakes:
            return cast("tuple[Finding, ...]", mistakes.findings)
        return places.moved(load_definition(text, file=f"<workflow {self.name}>").findings)

    def text(self) -> tuple[str, Places]:
        """The YAML, and where each of its lines comes from."""
        written = write(self.to_dict())
        return str(written), Places(tuple(self._origins(written)))

    def _origins(self, written: Text) -> list[Origin | None]:
        found: list[Origin | None] = []
        for key, part in written.owners:
            if key == "nodes" and part != "":
                found.append(self._sketch.nodes[str(part)].origin)
            elif key == "edges" and part != "":
                found.append(self._sketch.edges[int(part)].origin)
            else:
                found.append(self._origin)
        return found

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


def _rendered(key: str, value: object, what: str) -> Json:
    """A key's value; durations and moments in the words of the definition."""
    if isinstance(value, dt.timedelta) and key in _CLOCKS:
        return _duration(value, what)
    if isinstance(value, dt.datetime) and key == "until":
        if value.tzinfo is None:
            cure = "give it a time zone: `datetime(…, tzinfo=UTC)`"
            raise mistake("bad_instant", f"`{what}` has no offset", cure, text=str(value))
        return value.isoformat()
    if key in ("defaults", "retry") and isinstance(value, Mapping):
        return {
            str(name): _rendered(str(name), part, f"{what}.{name}")
            for name, part in value.items()
            if part is not None
        }
    return render(value, what)


def _duration(value: dt.timedelta, what: str) -> str:
    left, rest = divmod(value, dt.timedelta(milliseconds=1))
    if left < 0 or rest:
        cure = "give whole milliseconds, not below 0"
        raise mistake("bad_duration", f"`{what}` cannot be {value}", cure, text=str(value))
    parts = []
    for unit, size in _UNITS.items():
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"


def _schema(model: type[Any]) -> Mapping[str, object]:
    """The JSON Schema of a model or dataclass."""
    if not (hasattr(model, "model_json_schema") or dataclasses.is_dataclass(model)):
        cure = "give a JSON Schema, a pydantic model or a dataclass"
        raise mistake("wrong_type", f"`input` cannot be the class {model.__name__}", cure)
    from pydantic import TypeAdapter

    return TypeAdapter(model).json_schema()

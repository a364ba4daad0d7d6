"""Nodes of a graph under construction, and the edges that `>>` draws between them. Knows no types of node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, overload

from tenuto.sdk.builder.keys import condition
from tenuto.sdk.builder.origins import MadeMap, MadeText, Origin, here, mistake
from tenuto.sdk.builder.references import Json, Ref
from tenuto.sdk.builder.steps import Step, part_of


@dataclass(slots=True, eq=False)
class Sketch:
    """What stands in the graph so far.

    Attributes:
        open: ends that were named, and lead nowhere yet.
        used: where it was put into a node, which has it as it was then.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    edges: list[Json] = field(default_factory=list)
    open: list[Port] = field(default_factory=list)
    used: Origin | None = None

    def change(self) -> None:
        """Something is about to be added. Raises InvalidDefinition if nobody would see it."""
        if self.used is not None:
            raise mistake(
                "bad_value",
                f"this graph is in use since {self.used.file}:{self.used.line}, and changes no more",
                "finish it before you give it to `do`",
            )

    def close(self, port: Port) -> None:
        """The end is led on."""
        if port in self.open:
            self.open.remove(port)

    def connect(self, sources: Sequence[Port], target: object) -> None:
        """Draw an edge from each source to each node of the target."""
        at = here()
        targets = _nodes_of(target, at)
        for source in sources:
            self.close(source)
            for node in targets:
                self.draw(source, node, at)

    def read(self, edges: Sequence[Json]) -> None:
        """Take over edges that a definition has."""
        self.edges += [_placed(edge, None) for edge in edges]

    def draw(
        self, source: Port, target: Node, at: Origin, loop: dict[str, Json] | None = None
    ) -> None:
        """Draw one edge."""
        self.change()
        for node in (source.node, target):
            if node.sketch is not self:
                raise mistake(
                    "unknown_node",
                    f"`{node.id}` is a node of another workflow",
                    "an edge joins two nodes of one graph; another workflow is called by `wf.call(…)`",
                    text=node.id,
                    at=at,
                )
        tree: dict[str, Json] = {"from": source.node.id, "to": target.id}
        tree |= source.conditions
        if loop is not None:
            tree["loop"] = loop
        arrow = f"{source.node.id} -> {target.id}"
        self.edges.append(_placed(arrow if len(tree) == 2 else tree, at))


def _placed(edge: Json, origin: Origin | None) -> Json:
    """An edge as the definition has it, with where it was drawn."""
    if isinstance(edge, str):
        return MadeText.of(edge, origin)
    return MadeMap(edge, origin) if isinstance(edge, dict) else edge


class Port:
    """An end of a node that an edge may follow: `charge.on_failure`, `triage.when("…")`, `triage.otherwise`."""

    __slots__ = ("conditions", "node", "origin")

    def __init__(self, node: Node, conditions: dict[str, Json] | None = None) -> None:
        self.node = node
        self.conditions = conditions or {}
        self.origin = here()
        if self.conditions:
            node.sketch.open.append(self)

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}: {value}" for key, value in self.conditions.items())
        return f"<{self.node.id} {shown}>"

    def when(self, condition: str | Ref) -> Port:
        """The same end, followed only if a CEL expression is true."""
        return self._with("when", _holds(condition))

    @property
    def otherwise(self) -> Port:
        """The same end, followed if no other edge of its kind is (`else: true`)."""
        return self._with("else", value=True)

    def loop(self, *, back_to: Node, max: int, keep: int | None = None) -> None:
        """Go back to a node, for at most `max` passes, the first included; outputs of the last `keep` are kept."""
        at = here()
        [target] = _nodes_of(back_to, at)
        self.node.sketch.close(self)
        loop: dict[str, Json] = {"max": max} if keep is None else {"max": max, "keep": keep}
        self.node.sketch.draw(self, target, at, loop)

    def _with(self, key: str, value: Json) -> Port:
        if "when" in self.conditions or "else" in self.conditions:
            raise mistake(
                "else_with_when",
                f"this edge of `{self.node.id}` has a condition already",
                "put the two into one text, joined by `&&`",
                text=self.node.id,
            )
        self.node.sketch.close(self)
        return Port(self.node, {**self.conditions, key: value})

    @overload
    def __rshift__(self, target: Node) -> Node: ...
    @overload
    def __rshift__(self, target: Port) -> Port: ...
    @overload
    def __rshift__(self, target: Sequence[Node | Port] | Group) -> Group: ...
    def __rshift__(
        self, target: Node | Port | Group | Sequence[Node | Port]
    ) -> Node | Port | Group:
        self.node.sketch.connect((self,), target)
        return _following(target)


class Node:
    """A node: read what it leaves (`charge.output.id`), and lead edges from and to it (`charge >> ship`).

    Attributes:
        id: its name in the workflow.
        tree: its keys, as the definition has them.
        origin: where it was made, None if it was read from a text.
    """

    __slots__ = ("id", "origin", "sketch", "tree")

    def __init__(
        self, id: str, tree: dict[str, Json], sketch: Sketch, origin: Origin | None
    ) -> None:
        self.id, self.tree, self.sketch, self.origin = id, tree, sketch, origin

    def __repr__(self) -> str:
        return f"<node {self.id}>"

    @property
    def output(self) -> Ref:
        """What it gives when it succeeds."""
        return Ref(f"nodes.{self.id}.output")

    @property
    def error(self) -> Ref:
        """Its failure, `{code, message, details, node}`."""
        return Ref(f"nodes.{self.id}.error")

    @property
    def status(self) -> Ref:
        """How it ended."""
        return Ref(f"nodes.{self.id}.status")

    @property
    def attempts(self) -> Ref:
        """How many attempts it took."""
        return Ref(f"nodes.{self.id}.attempts")

    @property
    def iteration(self) -> Ref:
        """The number of the pass of the loop that begins here."""
        return Ref(f"nodes.{self.id}.iteration")

    @property
    def iterations(self) -> Ref:
        """A list of its passes, to be read from outside of the loop: `{iteration, output, error}`."""
        return Ref(f"nodes.{self.id}.iterations")

    @property
    def failures(self) -> Ref:
        """Of a foreach: a list of the items that failed, `{index, error}`."""
        return Ref(f"nodes.{self.id}.failures")

    @property
    def items(self) -> Ref:
        """Of a foreach: a list of all its items, `{index, status}`."""
        return Ref(f"nodes.{self.id}.items")

    @property
    def callback_key(self) -> Ref:
        """Of a wait for an event: the key that is only its own, which an earlier step may hand out."""
        return Ref(f"nodes.{self.id}.callback_key")

    @property
    def on_success(self) -> Port:
        """Its success, which a plain `>>` follows, too."""
        return Port(self)

    @property
    def on_failure(self) -> Port:
        """Its end as dead, with no attempt left."""
        return Port(self, {"on": "failure"})

    @property
    def always(self) -> Port:
        """Its success or failure; not taken when it never ran."""
        return Port(self, {"on": "always"})

    def when(self, condition: str | Ref) -> Port:
        """Its success, followed only if a CEL expression is true."""
        return Port(self, {"when": _holds(condition)})

    @property
    def otherwise(self) -> Port:
        """Of a switch: followed if no other edge is (`else: true`)."""
        return Port(self, {"else": True})

    def loop(
        self, *, back_to: Node, max: int, when: str | Ref | None = None, keep: int | None = None
    ) -> None:
        """Go back to a node after a success, for at most `max` passes, the first included.

        Args:
            back_to: where the loop begins.
            max: of passes.
            when: followed only if a CEL expression is true.
            keep: so many of the last passes keep their outputs; all do, if it is not given.
        """
        port = self.on_success if when is None else self.when(when)
        port.loop(back_to=back_to, max=max, keep=keep)

    def compensate(self, step: Step, *, when: Literal["started"] | None = None) -> None:
        """Undo it by this step when the run does not succeed, if it succeeded; `when="started"`: if it began.

        Said after the node is there, since the step reads what it left (`charge.output.id`).
        """
        self.sketch.change()
        tree = part_of(step, "compensate")
        if when is not None:
            tree["when"] = when
        self.tree["compensate"] = tree

    @overload
    def __rshift__(self, target: Node) -> Node: ...
    @overload
    def __rshift__(self, target: Port) -> Port: ...
    @overload
    def __rshift__(self, target: Sequence[Node | Port] | Group) -> Group: ...
    def __rshift__(
        self, target: Node | Port | Group | Sequence[Node | Port]
    ) -> Node | Port | Group:
        self.sketch.connect((Port(self),), target)
        return _following(target)

    def __rrshift__(self, sources: Sequence[Node | Port]) -> Node:
        Group(sources) >> self
        return self


class Group:
    """Nodes side by side: what `a >> [b, c]` gives, so that it can be led on."""

    __slots__ = ("items",)

    def __init__(self, items: object) -> None:
        self.items = _items(items, here())

    def __repr__(self) -> str:
        return f"<{', '.join(map(repr, self.items))}>"

    @overload
    def __rshift__(self, target: Node) -> Node: ...
    @overload
    def __rshift__(self, target: Port) -> Port: ...
    @overload
    def __rshift__(self, target: Sequence[Node | Port] | Group) -> Group: ...
    def __rshift__(
        self, target: Node | Port | Group | Sequence[Node | Port]
    ) -> Node | Port | Group:
        ports = [Port(item) if isinstance(item, Node) else item for item in self.items]
        ports[0].node.sketch.connect(ports, target)
        return _following(target)


def _following(target: Node | Port | Group | Sequence[Node | Port]) -> Node | Port | Group:
    """What the next `>>` leads on from."""
    return target if isinstance(target, Node | Port | Group) else Group(target)


def _nodes_of(target: object, at: Origin) -> list[Node]:
    """The nodes that `>>` leads to."""
    return [item if isinstance(item, Node) else item.node for item in _items(target, at)]


def _items(given: object, at: Origin) -> tuple[Node | Port, ...]:
    """Nodes and ends of nodes, one or several. Raises what is wrong with anything else."""
    if isinstance(given, Node | Port):
        return (given,)
    if isinstance(given, Group):
        return given.items
    if not isinstance(given, list | tuple):
        shown = f"{given!r:.60}"
        cure = (
            "lead edges between the objects that `wf.task(…)`, `wf.http(…)` and the others return"
        )
        if isinstance(given, str):
            cure += f", or write `wf[{given!r:.60}]`"
        raise mistake(
            "edge_form", f"`>>` joins nodes, and {shown} is none", cure, text=shown, at=at
        )
    if not given:
        raise mistake("edge_form", "`>>` leads to an empty list", "name a node in it", at=at)
    return tuple(item for part in given for item in _one(part, at))


def _one(part: object, at: Origin) -> tuple[Node | Port, ...]:
    if isinstance(part, list | tuple):
        cure = "write all nodes into one list"
        raise mistake("edge_form", "a list in a list joins no nodes", cure, at=at)
    return _items(part, at)


def _holds(given: object) -> str:
    return condition(given, "when")

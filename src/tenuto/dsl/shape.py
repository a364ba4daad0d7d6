"""A tree -> a `Definition` and where its nodes and edges stand. All findings of keys and values at once.

A definition that has findings is still shaped as far as it goes, so that the graph can be checked too; whether node
names and edges are all known says `Shaped.is_whole`. What the graph means is `compile`'s business.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tenuto.dsl.bodies import BodyReader, Inline, named, type_of
from tenuto.dsl.expressions import Asked, Expressions, Owner, Site, Use
from tenuto.dsl.findings import TEXT_MAX, Findings, did_you_mean
from tenuto.dsl.inputs import check_schema
from tenuto.dsl.keys import EDGE, ELSEWHERE, GRAPH, LOOP, TOP
from tenuto.dsl.limits import ID, PASSES_MAX, RESERVED
from tenuto.dsl.nodes import NodeReader
from tenuto.dsl.section import Section
from tenuto.dsl.templates import Places, has_template
from tenuto.dsl.values import Values
from tenuto.dsl.work import DEFAULTS, Defaults, read_defaults
from tenuto.dsl.yaml import Fields, Items, Scalar, Tree, json_text, kind_of, to_json
from tenuto.model.definition import NODES_MAX, Definition, Edge, Handler, Node, NodeType, On
from tenuto.model.expressions import Expression, ExpressionKind, Read, Root
from tenuto.model.instants import DAY_US
from tenuto.model.names import NAME

_ARROW = re.compile(r"\s*(\S+)\s*->\s*(\S+)\s*")
_CHAIN = re.compile(r"\s*\S+(\s*->\s*[^\s>]+){2,19}\s*")
_ITEM = frozenset({Root.ITEM, Root.INDEX})


@dataclass(frozen=True, slots=True)
class Stands:
    """Where something stands: an offset into the file, and what is written there."""

    at: int
    text: str


@dataclass(slots=True)
class Shaped:
    """What the keys of one graph gave. `nodes_at` and `edges_at` go by node and edge number.

    Attributes:
        where: the graph in words of a path, `nodes.each.do`; empty for the workflow itself.
        sees: names that have a value in all of it, beside those that always have.
        uses: all names that its expressions read.
        sites, asked: its expressions, and what they must yield.
        is_whole: every node has a type and every edge its two ends.
        inlines: the graphs inside it, by number.
    """

    definition: Definition
    where: str
    sees: frozenset[Root]
    uses: list[Use]
    sites: list[Site]
    asked: list[Asked]
    nodes_at: list[Stands] = field(default_factory=list)
    edges_at: list[Stands] = field(default_factory=list)
    is_whole: bool = True
    inlines: list[Shaped] = field(default_factory=list)


def shape(tree: Tree, findings: Findings, expressions: Expressions) -> Shaped | None:
    """Shape a whole file. None: it is no mapping, or it has no nodes."""
    if not isinstance(tree, Fields):
        findings.add(
            "wrong_type",
            tree.start,
            findings.text[tree.start : tree.end],
            key="the workflow",
            actual=kind_of(tree),
            expected="a mapping",
            cure="start with `name:` and `nodes:`",
        )
        return None
    return _Workflow(tree, findings, expressions).shape()


@dataclass(slots=True)
class _File:
    """What all graphs of a file share. `nodes` counts those of all graphs."""

    findings: Findings
    name: str
    defaults: Defaults
    closing_timeout_us: int
    nodes: int = 0


class _Workflow:
    """The keys that only the whole workflow has."""

    def __init__(self, tree: Fields, findings: Findings, expressions: Expressions) -> None:
        first = next(iter(tree.entries), "")
        self._top = Section(tree, findings, "the workflow", at=tree.start, name=first)
        self._findings = findings
        self._expressions = expressions

    def shape(self) -> Shaped | None:
        top = self._top
        top.check_keys(TOP, elsewhere={k: cure for k, cure in ELSEWHERE.items() if k in _INNER})
        top.require("name", "add `name: order`")
        name = top.text(
            "name", "a short name", pattern=NAME, cure="use letters, digits, `_`, `.` and `-`"
        )
        description = top.tree.get("description")
        if description is not None and not (
            isinstance(description, Scalar) and isinstance(description.value, str)
        ):
            top.wrong_type("description", description, "text", "quote it")
        defaults = top.section("defaults", "`defaults`", "write `defaults: {retry: {…}}`")
        top.require("nodes", "add `nodes:` with one node at least")
        closing_us = top.duration("closing_timeout")
        file = _File(
            findings=self._findings,
            name=name or "",
            defaults=self._defaults(defaults) if defaults else Defaults(),
            closing_timeout_us=DAY_US if closing_us is None else closing_us,
        )
        graph = _Graph(file, self._expressions, "", frozenset())
        if not graph.read(top):
            return None
        on_failure = graph.on_failure(top)
        return graph.shaped(
            description=str(description.value) if isinstance(description, Scalar) else "",
            vars=self._vars(),
            input_schema=self._input(),
            timeout_us=top.duration("timeout"),
            on_failure=on_failure,
            source=self._findings.text,
        )

    def _defaults(self, section: Section) -> Defaults:
        return read_defaults(Values(section, self._expressions, "defaults", DEFAULTS))

    def _vars(self) -> str:
        section = self._top.section("vars", "`vars`", "write `vars: {name: value}`")
        if section is None:
            return "{}"
        for key, (name, value) in section.tree.entries.items():
            check_id(self._findings, key, name, "a var's name")
            self._refuse_templates(value, "vars")
        return json_text(section.tree)

    def _refuse_templates(self, tree: Tree, key: str) -> None:
        if isinstance(tree, Items):
            for item in tree.items:
                self._refuse_templates(item, key)
        elif isinstance(tree, Fields):
            for _, value in tree.entries.values():
                self._refuse_templates(value, key)
        elif isinstance(tree.value, str) and has_template(tree.value):
            raw = self._top.raw(tree)
            cure = "write a constant; a `set` node holds what is computed"
            self._findings.add("template_not_allowed", tree.start, raw, key=key, cure=cure)

    def _input(self) -> str | None:
        tree = self._top.tree.get("input")
        if tree is None:
            return None
        if not isinstance(tree, Fields):
            self._top.wrong_type("input", tree, "a JSON Schema", "write `input: {type: object}`")
            return None
        schema = to_json(tree)
        assert isinstance(schema, dict)
        for problem in check_schema(schema):
            at, text = _place(tree, problem.path, self._top.start_of("input"))
            self._findings.add("input_schema", at, text, problem=problem.message, cure=problem.cure)
        return json_text(tree)


_INNER = frozenset({"keep", "compensate", "optional", "retry", "queue", "priority"})
"""Keys that are looked for at the top, and stand further in."""


class _Graph:
    """Nodes, edges and output of one graph: the workflow's own, or that of a `do:`."""

    def __init__(
        self, file: _File, expressions: Expressions, where: str, sees: frozenset[Root]
    ) -> None:
        self._file = file
        self._findings = file.findings
        self._expressions = expressions
        self._where = where
        self._sees = sees
        self._bodies = BodyReader(file.findings, file.defaults, self._inline)
        self._reader = NodeReader(file.findings, expressions, file.defaults, self._bodies, where)
        self._nodes: list[Node] = []
        self._edges: list[Edge] = []
        self._nodes_at: list[Stands] = []
        self._edges_at: list[Stands] = []
        self._numbers: dict[str, int] = {}
        self._inlines: list[Shaped] = []
        self._output: Expression | None = None
        self._is_whole = True

    def read(self, section: Section) -> bool:
        """Read `nodes`, `edges` and `output` of a mapping. False: there are no nodes to speak of."""
        example = "write `nodes: {first: {type: task, task: …}}`"
        nodes = section.section("nodes", "`nodes`", example)
        if nodes is None:
            return False
        at = section.start_of("nodes")
        if not nodes.tree.entries:
            self._findings.add("no_nodes", at, "nodes", what=section.what)
            return False
        self._file.nodes += len(nodes.tree.entries)
        if self._file.nodes > NODES_MAX:
            count, limit = f"{self._file.nodes:,}", f"{NODES_MAX:,}"
            self._findings.add("too_many_nodes", at, "nodes", count=count, limit=limit)
            return False
        self._read_nodes(nodes)
        self._read_edges(section)
        self._read_needs(nodes)
        output = section.tree.get("output")
        if output is not None:
            self._output = self._expressions.value(output, self._path("output"), Owner())
        return True

    def read_alone(self, section: Section, id: str) -> None:
        """Read a mapping that is the only node."""
        self._file.nodes += 1
        self._numbers[id] = 0
        at = section.tree.entries["type"][0].start
        self._nodes_at.append(Stands(at, id))
        type = type_of(section)
        if type is None:
            self._is_whole = False
            self._nodes.append(Node(id, NodeType.FORK))
            return
        section.what = named(type)
        self._nodes.append(self._reader.read_alone(section, id, type, self._where))
        read = Read(Root.NODES, id, "output")
        text = f'"${{nodes.{id}.?output}}"'
        self._output = Expression(ExpressionKind.VALUE, text, self._path("output"), (read,))

    def on_failure(self, section: Section) -> Handler | None:
        """Read `on_failure` of the workflow."""
        owner = Owner(handler=True)
        values = Values(section, self._expressions, self._where, owner)
        return self._bodies.handler(values, "on_failure", owner, "on_failure")

    def shaped(
        self,
        *,
        description: str = "",
        vars: str = "{}",
        input_schema: str | None = None,
        timeout_us: int | None = None,
        on_failure: Handler | None = None,
        source: str = "",
    ) -> Shaped:
        """What was read, with what the whole workflow has beside it."""
        definition = Definition(
            name=self._file.name,
            nodes=tuple(self._nodes),
            edges=tuple(self._edges),
            description=description,
            vars=vars,
            input_schema=input_schema,
            timeout_us=timeout_us,
            output=self._output,
            on_failure=on_failure,
            closing_timeout_us=self._file.closing_timeout_us,
            inlines=tuple(inner.definition for inner in self._inlines),
            inline=bool(self._where),
            source=source,
        )
        return Shaped(
            definition,
            self._where,
            self._sees,
            self._expressions.uses,
            self._expressions.sites,
            self._expressions.asked,
            self._nodes_at,
            self._edges_at,
            self._is_whole,
            self._inlines,
        )

    def _inline(self, inline: Inline) -> int:
        """Shape a graph inside this one; its number."""
        sees = self._sees | {Root.PARAMS} | (_ITEM if inline.per_item else frozenset())
        inner = _Graph(self._file, self._expressions.of_inline(), inline.where, sees)
        if inline.id is not None:
            inner.read_alone(inline.section, inline.id)
        else:
            inline.section.check_keys(GRAPH, elsewhere=_BESIDE_DO)
            if not inner.read(inline.section):
                inner._is_whole = False
        self._inlines.append(inner.shaped())
        return len(self._inlines) - 1

    def _path(self, text: str) -> str:
        return f"{self._where}.{text}" if self._where else text

    def _read_nodes(self, section: Section) -> None:
        # All names first: a node may be needed by one that stands above it.
        for number, (id, (key, _)) in enumerate(section.tree.entries.items()):
            self._numbers[id] = number
            self._nodes_at.append(Stands(key.start, id))
            check_id(self._findings, id, key, "a node's id")
        for number, (id, (key, tree)) in enumerate(section.tree.entries.items()):
            type = None
            if isinstance(tree, Fields):
                node = Section(tree, self._findings, f"node `{id}`", at=key.start, name=id)
                type = type_of(node)
                if type is not None:
                    node.what = named(type)
                    self._nodes.append(self._reader.read(node, id, type, number))
            else:
                section.wrong_type(id, tree, "a mapping", f"write `{id}: {{type: task, task: …}}`")
            if type is None:
                self._is_whole = False
                self._nodes.append(Node(id, NodeType.FORK))

    def _read_edges(self, section: Section) -> None:
        edges = section.items("edges", "write one edge a line, like `- a -> b`")
        for tree in edges.items if edges else ():
            if isinstance(tree, Fields):
                self._read_edge(tree)
                continue
            arrow = None
            if isinstance(tree, Scalar) and isinstance(tree.value, str):
                arrow = _ARROW.fullmatch(tree.value)
            if arrow is None or not isinstance(tree, Scalar):
                raw = section.raw(tree)
                self._findings.add("edge_form", tree.start, raw, cure=_edge_cure(tree))
                self._is_whole = False
                continue
            places = Places(tree, self._findings.text)
            source = self._number(arrow[1], places.offset(arrow.start(1)))
            target = self._number(arrow[2], places.offset(arrow.start(2)))
            self._add(source, target, Stands(tree.start, arrow[0]))

    def _read_edge(self, tree: Fields) -> None:
        section = Section(tree, self._findings, "an edge", at=tree.start, name="edge")
        section.check_keys(EDGE)
        ends = []
        for key in ("from", "to"):
            section.require(key, f"add `{key}: <node>`")
            name = section.text(key, "a node", cure="write one node's id")
            value = section.tree.get(key)
            ends.append(None if name is None or value is None else self._number(name, value.start))
        on = On(section.choice("on", tuple(On)) or On.SUCCESS)
        otherwise = section.flag("else") or False
        source, target = ends
        when = self._when(section, source, target)
        if otherwise and when is not None:
            self._findings.add("else_with_when", section.start_of("else"), "else")
        loop_max, loop_keep = self._loop(section)
        self._add(
            source,
            target,
            Stands(tree.start, f"{_name(section, 'from')} -> {_name(section, 'to')}"),
            Edge(0, 0, on, when, otherwise, loop_max, loop_keep),
        )

    def _when(self, section: Section, source: int | None, target: int | None) -> Expression | None:
        tree = section.tree.get("when")
        if tree is None:
            return None
        arrow = f"{_name(section, 'from')} -> {_name(section, 'to')}"
        where = self._path(f"edges[{arrow}].when")
        known = source is not None and target is not None
        # An edge that is not kept has no number: its expression is checked alone.
        owner = Owner(edge=len(self._edges)) if known else Owner(edge=-1)
        return self._expressions.condition(tree, where, owner)

    def _loop(self, section: Section) -> tuple[int | None, int | None]:
        """`max` and `keep`."""
        loop = section.section("loop", "`loop`", "write `loop: {max: 10}`")
        if loop is None:
            if section.has("loop"):
                self._is_whole = False
            return None, None
        loop.check_keys(LOOP)
        loop.require("max", "add `max: 10`: how many passes there may be, the first included")
        passes = loop.integer("max", 1, PASSES_MAX)
        if passes is None:
            self._is_whole = False  # without it the edge would look like a cycle
        return passes, loop.integer("keep", 1, PASSES_MAX)

    def _read_needs(self, section: Section) -> None:
        for number, (_, tree) in enumerate(section.tree.entries.values()):
            needs = tree.get("needs") if isinstance(tree, Fields) else None
            if needs is None:
                continue
            for part in needs.items if isinstance(needs, Items) else (needs,):
                if not isinstance(part, Scalar) or not isinstance(part.value, str):
                    assert isinstance(tree, Fields)
                    self._findings.add(
                        "wrong_type",
                        part.start if part.end > part.start else tree.entries["needs"][0].start,
                        section.raw(part) or "needs",
                        key="needs",
                        actual=kind_of(part),
                        expected="a node's id or a list of them",
                        cure="write `needs: [a, b]`",
                    )
                    self._is_whole = False
                    continue
                at = Places(part, self._findings.text).offset(0)
                self._add(self._number(part.value, at), number, Stands(at, part.value))

    def _add(
        self, source: int | None, target: int | None, stands: Stands, edge: Edge | None = None
    ) -> None:
        if source is None or target is None:
            self._is_whole = False
            return
        self._edges.append(replace(edge or Edge(0, 0), source=source, target=target))
        self._edges_at.append(stands)

    def _number(self, id: str, at: int) -> int | None:
        number = self._numbers.get(id)
        if number is None:
            meant = self._findings.suggest(id, self._numbers)
            cure = did_you_mean(meant, f"add `{_legal(id)}` under `nodes:`")
            self._findings.add("unknown_node", at, id, cure=cure)
        return number


_BESIDE_DO = {
    **ELSEWHERE,
    **dict.fromkeys(
        ("params", "retry", "timeout", "total_timeout", "optional", "compensate"),
        "it stands beside `do`, not in it",
    ),
    "type": "keep one of `type`, for one node, and `nodes`",
}


def _edge_cure(tree: Tree) -> str:
    """How to write what is no edge; a chain is an edge for each of its arrows."""
    text = tree.value if isinstance(tree, Scalar) and isinstance(tree.value, str) else ""
    if len(text) <= TEXT_MAX and _CHAIN.fullmatch(text):
        ids = [id.strip() for id in text.split("->")]
        pairs = pairwise(ids)
        return "an edge has one arrow; write " + " and ".join(f"`{a} -> {b}`" for a, b in pairs)
    return "write `a -> b`, or `{from: a, to: b}` with `on`, `when`, `else` or `loop`"


def check_id(findings: Findings, id: str, key: Scalar, what: str) -> None:
    """Refuse a name that an expression could not read (X7)."""
    if id in RESERVED:
        problem = "it is a word of the expression language"
    elif not ID.fullmatch(id):
        problem = "it must be up to 63 letters, digits and `_`, and begin with no digit"
    else:
        return
    findings.add("bad_id", key.start, id, what=what, problem=problem, cure=_legal(id))


def _name(section: Section, key: str) -> str:
    tree = section.tree.get(key)
    return str(tree.value) if isinstance(tree, Scalar) else "?"


def _legal(id: str) -> str:
    """A legal spelling near to an illegal id."""
    word = re.sub(r"[^A-Za-z0-9_]+", "_", id).strip("_")[:62]
    if not word or word[0].isdigit():
        word = f"n{word}" if word else "node"
    return f"{word}_" if word in RESERVED else word


def _place(tree: Fields, path: tuple[str | int, ...], otherwise: int) -> tuple[int, str]:
    """Where the value at a path of a mapping stands: its key, if it has one."""
    at, text = otherwise, "input"
    here: Tree | None = tree
    for step in path:
        if isinstance(here, Fields) and isinstance(step, str) and step in here.entries:
            key, here = here.entries[step]
            at, text = key.start, step
        elif isinstance(here, Items) and isinstance(step, int) and step < len(here.items):
            here = here.items[step]
            at = here.start
        else:
            break
    return at, text

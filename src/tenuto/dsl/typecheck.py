"""What types tell of expressions and of tasks' params, as far as they can be proven; all else may be anything.

Shapes flow along the graph: from the `input` schema, constants, http answers, `set` values, registered functions and
inline graphs, node by node in topological order. What an earlier pass of a loop left is not known. Then every
expression is checked against what it reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tenuto.dsl.expressions import Asked, Owner, Site, check_result
from tenuto.dsl.findings import Findings, did_you_mean
from tenuto.dsl.shape import Shaped
from tenuto.dsl.templates import Unclosed, has_template, split
from tenuto.dsl.yaml import Fields, Json, Tree
from tenuto.model.definition import (
    Call,
    Definition,
    End,
    Foreach,
    Node,
    NodeType,
    On,
    SetValue,
    Tolerance,
    Work,
)
from tenuto.model.expressions import Expression, ExpressionKind, Parser, Root
from tenuto.model.graph import Graph
from tenuto.model.shapes import (
    ANY,
    BOOL,
    DOUBLE,
    INT,
    OBJECT,
    STRING,
    Checked,
    Flaw,
    FlawKind,
    Given,
    Shape,
    ShapeKind,
    TaskShapes,
    listed,
    record,
    shape_of,
)

_COMPUTED_MAX = 200
"""Expressions of `set` nodes and the like that are looked into while shapes flow, at 1 ms each; others may be anything.
"""

_RESULTS = {
    "bool": BOOL, "int": INT, "uint": INT, "double": DOUBLE, "string": STRING, "list": listed(), "map": OBJECT,
}  # fmt: skip
_PATH = re.compile(r"\s*[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\s*")
_HTTP = record(status=INT, headers=OBJECT, body=ANY)
_ERROR = Shape(
    ShapeKind.OBJECT,
    {
        "code": STRING,
        "message": STRING,
        **dict.fromkeys(("kind", "details", "node", "cause", "closed_by"), ANY),
    },
)
_VIEW: Mapping[str, Shape] = {
    "status": STRING,
    "attempts": INT,
    "iteration": INT,
    "callback_key": STRING,
    "error": _ERROR,
    "failures": listed(record(index=INT, error=_ERROR)),
    "items": listed(record(index=INT, status=STRING)),
    "iterations": listed(),
}
_PROBLEMS = {
    FlawKind.UNKNOWN_KEY: "unknown_field",
    FlawKind.UNDECLARED_KEY: "undeclared_field",
    FlawKind.TYPE_MISMATCH: "type_mismatch",
    FlawKind.NEVER_EQUAL: "never_equal",
}


def check_types(
    shaped: Shaped,
    graph: Graph,
    tree: Tree,
    parser: Parser,
    findings: Findings,
    tasks: TaskShapes | None = None,
) -> None:
    """Add what types tell of a workflow and the graphs inside it. `tree`: the whole file."""
    definition = shaped.definition
    schema = definition.input_schema
    roots = {
        Root.INPUT: ANY if schema is None else shape_of(json.loads(schema)),
        Root.VARS: _constants(json.loads(definition.vars)),
        Root.ERROR: _ERROR,
    }
    whole = _Graph(_File(tree, parser, findings, tasks), shaped, graph, roots)
    whole.infer()
    whole.check()


def _constants(values: dict[str, Json]) -> Shape:
    """`vars`: each may be overridden by a value of another type, unless it is text (`inputs.apply_vars`)."""
    return record(
        **{key: STRING if isinstance(value, str) else ANY for key, value in values.items()}
    )


@dataclass(slots=True)
class _File:
    """What the graphs of a file share. `computed`: how many expressions have been looked into."""

    tree: Tree
    parser: Parser
    findings: Findings
    tasks: TaskShapes | None
    computed: int = 0


@dataclass(slots=True)
class _Around:
    """What only one node's expressions see: the item of a foreach, the output of a child."""

    item: Shape = ANY
    output: Shape = ANY


@dataclass(slots=True)
class _Graph:
    """One graph. `roots`: shapes by name, those of `nodes` aside."""

    file: _File
    shaped: Shaped
    graph: Graph
    roots: Mapping[Root, Shape]
    nodes: dict[str, Shape] = field(default_factory=dict)
    around: dict[int, _Around] = field(default_factory=dict)
    inner: list[_Graph] = field(default_factory=list)

    @property
    def definition(self) -> Definition:
        return self.graph.definition

    # --- shapes flow -------------------------------------------------------------------------------

    def infer(self) -> Shape:
        """Find the shapes of all nodes; that of the graph's output."""
        for number in self.graph.order:
            node = self.definition.nodes[number]
            output = self._output(number, node)
            self.nodes[node.id] = Shape(ShapeKind.OBJECT, {**_VIEW, "output": output}, closed=True)
        if any(
            isinstance(node.detail, End) and node.detail.output is not None
            for node in self.definition.nodes
        ):
            return ANY
        if self.definition.output is not None:
            return self._value(self.definition.output, Owner())
        ids = (self.definition.nodes[number].id for number in self.graph.sinks)
        return record(**{id: self._output_of(id) for id in ids})

    def _output_of(self, id: str) -> Shape:
        return self.nodes[id].fields["output"]

    def _output(self, number: int, node: Node) -> Shape:
        """What a node's output is after a success (X2)."""
        match node.detail:
            case Work():
                return self._work(node.detail)
            case Call():
                return self._call(number, node.detail, Owner(node=number))
            case Foreach():
                return self._foreach(number, node.detail)
            case SetValue():
                return self._value(node.detail.value, Owner(node=number))
            case None if node.type is NodeType.JOIN:
                return self._view(number)
            case _:
                return ANY

    def _work(self, work: Work) -> Shape:
        if work.name == NodeType.HTTP:
            return _HTTP
        if isinstance(work.name, str) and self.file.tasks is not None:
            return self.file.tasks.result(work.name)
        return ANY

    def _call(self, number: int, call: Call, owner: Owner) -> Shape:
        child = ANY
        if call.inline is not None:
            params = self._value(call.input, owner)
            roots = {**self.roots, Root.PARAMS: params}
            if Root.ITEM in owner.sees:
                roots[Root.ITEM] = self.around[number].item
            inner = _Graph(
                self.file,
                self.shaped.inlines[call.inline],
                self.graph.inlines[call.inline],
                roots,
            )
            self.inner.append(inner)
            child = inner.infer()
        self.around.setdefault(number, _Around()).output = child
        if not call.wait:
            return record(run_id=STRING)
        if call.output is None:
            return child
        seeing = Owner(node=number, sees=owner.sees | {Root.OUTPUT})
        return self._value(call.output, seeing)

    def _foreach(self, number: int, foreach: Foreach) -> Shape:
        item = ANY
        if foreach.over is not None:
            item = self._expression(foreach.over.text, Owner(node=number)).element or ANY
        self.around[number] = _Around(item if foreach.batch == 0 else listed(item))
        if isinstance(foreach.body, Call):
            seeing = Owner(node=number, sees=frozenset({Root.ITEM, Root.INDEX}))
            result = self._call(number, foreach.body, seeing)
        else:
            result = self._work(foreach.body)
        # Null stands where an item failed.
        return listed(result if foreach.tolerate == Tolerance() else ANY)

    def _view(self, number: int) -> Shape:
        """A join's (J4): null is what a source without an output gives."""
        fields: dict[str, Shape] = {}
        for edge in (self.definition.edges[number] for number in self.graph.ins[number]):
            source = self.definition.nodes[edge.source]
            sure = edge.on is On.SUCCESS and not source.optional and source.id not in fields
            fields[source.id] = self._output_of(source.id) if sure else ANY
        return record(**fields)

    def _value(self, expression: Expression, owner: Owner) -> Shape:
        """Of a JSON value with `${…}` in it."""
        return self._template(json.loads(expression.text), owner)

    def _template(self, value: Json, owner: Owner) -> Shape:
        match value:
            case bool():
                return BOOL
            case int():
                return INT
            case float():
                return DOUBLE
            case str() if has_template(value):
                parts = split(value, self.file.parser)
                if isinstance(parts, Unclosed) or not parts:
                    return ANY
                return self._expression(parts[0].text, owner) if parts[0].whole else STRING
            case str():
                return STRING
            case list():
                return listed()
            case dict():
                return record(**{key: self._template(part, owner) for key, part in value.items()})
            case _:
                return ANY

    def _expression(self, text: str, owner: Owner) -> Shape:
        """What an expression yields."""
        known = self._known(owner)
        if _PATH.fullmatch(text):
            return _along(text, known)
        self.file.computed += 1
        if self.file.computed > _COMPUTED_MAX:
            return ANY
        (checked,) = self.file.parser.check((text,), known)
        return _RESULTS.get(checked.result, ANY) if isinstance(checked, Checked) else ANY

    def _known(self, owner: Owner) -> dict[str, Shape]:
        known = {
            str(root): shape
            for root, shape in {
                **self.roots,
                Root.NODES: Shape(ShapeKind.OBJECT, self.nodes, more=True),
            }.items()
        }
        around = self.around.get(-1 if owner.node is None else owner.node)
        if around is not None and Root.ITEM in owner.sees:
            known[Root.ITEM] = around.item
        if around is not None and Root.OUTPUT in owner.sees:
            known[Root.OUTPUT] = around.output
        return known

    # --- findings ----------------------------------------------------------------------------------

    def check(self) -> None:
        """Add the findings of this graph and of those inside it."""
        groups: dict[tuple[int, frozenset[Root]], list[Site]] = {}
        for site in self.shaped.sites:
            groups.setdefault(self._group(site.owner), []).append(site)
        found: dict[tuple[tuple[int, frozenset[Root]], str], Checked] = {}
        for group, sites in groups.items():
            known = self._known(sites[0].owner)
            texts = [site.text for site in sites]
            for site, checked in zip(sites, self.file.parser.check(texts, known), strict=True):
                if isinstance(checked, Checked):
                    found[group, site.text] = checked
                    self._tell(site, checked)
        for asked in self.shaped.asked:
            told = found.get((self._group(asked.owner), asked.text))
            if told is not None:
                self._compare(asked, told)
        for work in self._works():
            self._check_params(work)
        for inner in self.inner:
            inner.check()

    def _group(self, owner: Owner) -> tuple[int, frozenset[Root]]:
        """What tells those apart that see the same from those that see more."""
        sees = owner.sees & {Root.ITEM, Root.OUTPUT}
        around = self.around.get(owner.node) if owner.node is not None else None
        hides = self.roots.get(Root.ITEM, ANY) != ANY
        if around is None or not sees or (around == _Around() and not hides):
            return -1, frozenset()
        return owner.node or 0, sees

    def _tell(self, site: Site, checked: Checked) -> None:
        findings = self.file.findings
        for flaw in checked.flaws:
            at = site.places.offset(site.start + flaw.offset)
            self._tell_flaw(at, site.text, flaw)
        for offset in checked.divides_ints:
            findings.add("int_division", site.places.offset(site.start + offset), site.text)

    def _tell_flaw(self, at: int, text: str, flaw: Flaw) -> None:
        words = {"problem": flaw.message}
        if flaw.code in (FlawKind.UNKNOWN_KEY, FlawKind.UNDECLARED_KEY):
            meant = self.file.findings.suggest(flaw.key, flaw.known)
            if meant is None and flaw.code is FlawKind.UNDECLARED_KEY:
                return
            known = ", ".join(f"`{key}`" for key in flaw.known[:8]) or "none"
            words["cure"] = did_you_mean(meant, f"it has {known}")
            words["problem"] = flaw.message.replace(f"no key {flaw.key}", f"no key `{flaw.key}`")
        self.file.findings.add(_PROBLEMS[flaw.code], at, text, **words)

    def _compare(self, asked: Asked, checked: Checked) -> None:
        """What an expression must yield with what it yields."""
        findings, result = self.file.findings, checked.result
        if _PATH.fullmatch(asked.text):
            result = _along(asked.text, self._known(asked.owner)).kind
        check_result(findings, asked, result)
        if asked.kind is ExpressionKind.CONDITION and checked.constant is not None:
            value = "true" if checked.constant else "false"
            if asked.text.strip() == value:
                return  # said in so many words
            findings.add(
                "constant_condition", asked.tree.start, asked.text, key=asked.key, value=value
            )

    def _works(self) -> Iterator[tuple[Work, Owner]]:
        """All that workers do, and whose it is."""
        for number, node in enumerate(self.definition.nodes):
            owner = Owner(node=number)
            if isinstance(node.detail, Work):
                yield node.detail, owner
            elif isinstance(node.detail, Foreach):
                if node.detail.source is not None:
                    yield node.detail.source, owner
                if isinstance(node.detail.body, Work):
                    yield node.detail.body, Owner(node=number, sees=frozenset({Root.ITEM}))
            if node.compensate is not None and isinstance(node.compensate.detail, Work):
                yield node.compensate.detail, owner
        handler = self.definition.on_failure
        if handler is not None and isinstance(handler.detail, Work):
            yield handler.detail, Owner()

    def _check_params(self, of: tuple[Work, Owner]) -> None:
        """Compare params with the function that the app has."""
        work, owner = of
        if self.file.tasks is None or not isinstance(work.name, str):
            return
        if work.name in (NodeType.HTTP, NodeType.CODE):
            return
        params = json.loads(work.input.text)
        if not isinstance(params, dict):
            return
        given = {
            key: Given(self._template(value, owner), _is_fixed(value), value)
            for key, value in params.items()
        }
        for problem in self.file.tasks.problems(work.name, given):
            at, text = self._stands(work.input.where, problem.name)
            self.file.findings.add("task_params", at, text, problem=problem.message)

    def _stands(self, where: str, name: str | None) -> tuple[int, str]:
        """Where `params` or one of them stands: the last key of the path that is there."""
        here: Tree | None = self.file.tree
        at, text = 0, ""
        for step in (*where.split("."), *(() if name is None else (name,))):
            if not isinstance(here, Fields) or step not in here.entries:
                break
            key, here = here.entries[step]
            at, text = key.start, step
        return at, text


def _along(text: str, known: Mapping[str, Shape]) -> Shape:
    """The shape at a path."""
    root, *steps = text.strip().split(".")
    if root in (Root.ITERATION, Root.INDEX):
        return INT
    shape = known.get(root, ANY)
    for step in steps:
        shape = shape.fields.get(step, ANY)
    return shape


def _is_fixed(value: Json) -> bool:
    if isinstance(value, str):
        return not has_template(value) and "$${" not in value
    if isinstance(value, list):
        return all(map(_is_fixed, value))
    return not isinstance(value, dict) or all(map(_is_fixed, value.values()))

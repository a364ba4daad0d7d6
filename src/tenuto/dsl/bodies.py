"""Nodes that hold work of others: `call`, `foreach` with its bodies and sources, and handlers (C3, C4).

A body is a worker's task or a child run. A `do:` with `nodes:` is a graph of its own; a `do:` with a `type:` is one
node: a worker runs it as a plain task, a `call` as its child, and everything else is a graph of that node alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tenuto.dsl.expressions import Owner
from tenuto.dsl.findings import Findings, did_you_mean
from tenuto.dsl.keys import (
    CHILD_KEYS,
    EDGE_KEYS_OF_NODES,
    ELSEWHERE,
    ITEM_KEYS,
    LEAF_TYPES,
    NOT_ON_LEAVES,
    OWN,
    WORK_KEYS,
)
from tenuto.dsl.limits import BATCH_MAX, WORKFLOW_NAME
from tenuto.dsl.retry import read_retry
from tenuto.dsl.section import Section
from tenuto.dsl.synonyms import type_for
from tenuto.dsl.values import Values
from tenuto.dsl.work import Defaults, read_work
from tenuto.dsl.yaml import Fields, Scalar, json_text
from tenuto.model.definition import (
    CONCURRENCY_MAX,
    WORKER_TYPES,
    Call,
    Emit,
    Foreach,
    Handler,
    NodeType,
    Tolerance,
    Work,
)
from tenuto.model.expressions import Expression, ExpressionKind, Read, Root
from tenuto.model.names import EVENT_NAME

_ITEM = frozenset({Root.ITEM, Root.INDEX})
_TYPES = {str(type): type for type in NodeType}
_DO = "write `do: {type: http, request: {…}}`, or `do: {nodes: {…}, edges: […]}`"


def type_of(section: Section) -> NodeType | None:
    """The node's type, in any letter case; None with a finding when it is none."""
    tree = section.require("type", "add `type: task`, `type: http` or another")
    if tree is None:
        return None
    name = section.text("type", cure="write a type like `task`")
    if name is None:
        return None
    folded = name.lower()
    if folded not in _TYPES:
        known = ", ".join(_TYPES)
        meant = type_for(folded) or section.findings.suggest(folded, _TYPES)
        cure = did_you_mean(meant, f"there are {known}")
        section.findings.add("unknown_type", tree.start, name, cure=cure)
        return None
    return _TYPES[folded]


def named(type: NodeType) -> str:
    """A node of the type, in words."""
    return f"{'an' if type[0] in 'aeh' else 'a'} {type} node"


def read_emit(values: Values) -> Emit | None:
    """A message for the mailbox."""
    section = values.section
    section.require("event", "add `event: order.approved`")
    event = values.name(
        "event", "the name of an event", pattern=EVENT_NAME, cure="write it like `order.done`"
    )
    section.require("key", 'add `key: "${input.order_id}"`, by which a wait finds it')
    key = values.key("key")
    nothing = Expression(ExpressionKind.VALUE, "null", f"{values.where}.payload")
    payload, keep_us = values.value("payload") or nothing, values.duration("keep")
    return Emit(event, key, payload, keep_us) if event and key else None


@dataclass(frozen=True, slots=True)
class Inline:
    """A `do:` that becomes a graph of its own: where it stands, its only node's id (None if it has `nodes`), and
    whether it runs once for each item.
    """

    section: Section
    where: str
    id: str | None
    per_item: bool


class BodyReader:
    """Reads bodies of one graph. `shape` makes a graph inside it and answers its number."""

    def __init__(
        self, findings: Findings, defaults: Defaults, shape: Callable[[Inline], int]
    ) -> None:
        self._findings = findings
        self._defaults = defaults
        self._shape = shape

    # --- call ----------------------------------------------------------------------------------------

    def call(self, values: Values, id: str, *, per_item: bool = False) -> Call | None:
        """A child run: of a workflow by its name, or of the graph in `do`."""
        section = values.section
        form = _only(
            section, ("call", "do"), "add `call: <name of a workflow>`, or `do: {nodes: …}`"
        )
        wait = section.flag("wait")
        if wait is False:
            what, cure = "a call that does not wait", "take it out, or `wait: false`"
            for key in ("output", "retry", "timeout", "total_timeout"):
                section.refuse(key, cure, what)
        if form == "do":
            _refuse(section, ("input",), "a call with `do`", "write `params: {name: value}`")
            child = self._inline(values, id, values.mapping("params"), per_item=per_item)
        else:
            _refuse(section, ("params",), "a call of a workflow", "write `input: {name: value}`")
            child = self._named(values)
        if child is None:
            return None
        return replace(
            child,
            output=self._output(values),
            wait=wait is not False,
            timeout_us=values.duration("timeout"),
            total_timeout_us=values.duration("total_timeout"),
        )

    def _named(self, values: Values) -> Call | None:
        name = values.name(
            "call",
            "the name of a workflow, which `@` and an alias or a version may follow",
            pattern=WORKFLOW_NAME,
            cure="write it like `billing`, `billing@stable` or `billing@3`",
        )
        given = values.value("input")
        empty = Expression(ExpressionKind.VALUE, "{}", f"{values.where}.input")
        retry = read_retry(values).policy()
        return Call(name, None, given or empty, retry=retry) if name else None

    def _inline(
        self, values: Values, id: str, params: Expression | None, *, per_item: bool
    ) -> Call | None:
        """A child run of what stands in `do`."""
        do = values.section.section("do", "`do`", _DO)
        if do is None:
            return None
        single = not do.has("nodes")
        if single and not do.has("type"):
            do.require("nodes", _DO)
            return None
        inline = Inline(do, f"{values.where}.do", id if single else None, per_item)
        number, retry = self._shape(inline), read_retry(values).policy()
        return Call(None, number, params, retry=retry) if params else None

    def _output(self, values: Values) -> Expression | None:
        sees = values.owner.sees | {Root.OUTPUT}
        return values.of(values.section, owner=replace(values.owner, sees=sees)).value("output")

    # --- foreach -------------------------------------------------------------------------------------

    def foreach(self, values: Values, id: str) -> Foreach | None:
        """Work for each item of a list."""
        section = values.section
        source = None
        if _only(section, ("over", "source"), "add `over: input.files`") == "source":
            source = self._source(values)
        over = values.items("over")
        item = values.of(section, owner=replace(values.owner, sees=values.owner.sees | _ITEM))
        form = _only(section, ("do", "task", "call"), "add `task: <name>`, or `do:` and one node")
        body: Work | Call | None = None
        match form:
            case "task":
                _refuse(section, ("input", "output"), "a foreach with `task`", "write `params`")
                body = read_work(NodeType.TASK, item, self._defaults, total=False)
            case "call":
                self._refuse_work(section, "call")
                _refuse(section, ("params",), "a foreach with `call`", "write `input`")
                if (child := self._named(item)) is not None:
                    timeout_us, output = item.duration("timeout"), self._output(item)
                    body = replace(child, output=output, timeout_us=timeout_us)
            case "do":
                cure = "write it in `do`"
                _refuse(section, ("input", "output"), "a foreach with `do`", cure)
                body = self._do(item, id)
            case _:
                pass
        concurrency = values.count("concurrency", 1, CONCURRENCY_MAX)
        tolerate, batch = values.tolerance("tolerate"), values.count("batch", 1, BATCH_MAX)
        total_us = values.duration("total_timeout")
        if body is None or (over is None) == (source is None):
            return None
        made = Foreach(
            body=body,
            over=over,
            source=source,
            tolerate=tolerate or Tolerance(),
            batch=batch or 0,
            total_timeout_us=total_us,
        )
        return made if concurrency is None else replace(made, concurrency=concurrency)

    def _do(self, item: Values, id: str) -> Work | Call | None:
        """What stands in `do` of a foreach."""
        section = item.section
        do = section.section("do", "`do`", _DO)
        if do is None:
            return None
        kind = do.tree.get("type") if not do.has("nodes") else None
        word = str(kind.value).lower() if isinstance(kind, Scalar) else ""
        type = _TYPES.get(word)
        if type in WORKER_TYPES or (type is NodeType.CALL and not _is_let_go(do)):
            assert type is not None
            do.what = named(type)
            check_alone(do, type, optional=False)
            is_work = type in WORKER_TYPES
            cure = "write what it needs into `do`, which reads `item` and all else itself"
            _refuse(section, ("params",), f"a foreach whose `do` is {do.what}", cure)
            if not is_work:
                self._refuse_work(section, "do")
            inner = item.of(_merged(section, do, ITEM_KEYS if is_work else CHILD_KEYS))
            inner.where = f"{item.where}.do"
            if is_work:
                return read_work(type, inner, self._defaults)
            return self.call(inner, id, per_item=True)
        self._refuse_work(section, "do")
        child = self._inline(item, id, item.mapping("params"), per_item=True)
        return replace(child, timeout_us=item.duration("timeout")) if child else None

    def _refuse_work(self, section: Section, form: str) -> None:
        """Keys for a worker, where items are runs."""
        keys = [key for key in ITEM_KEYS if key not in CHILD_KEYS]
        cure = "no worker does the run of an item: write it on the nodes of that run"
        _refuse(section, keys, f"a foreach with such a `{form}`", cure)

    def _source(self, values: Values) -> Work | None:
        """A task that hands out the list in pages."""
        example = "write `source: {task: pages.list, params: {…}}`"
        section = values.section.section("source", "a source", example)
        if section is None:
            return None
        section.check_keys(("task", "params", *WORK_KEYS), elsewhere=ELSEWHERE)
        owner = replace(values.owner, sees=values.owner.sees | {Root.CURSOR})
        inner = values.of(section, f"{values.where}.source", owner)
        work = read_work(NodeType.TASK, inner, self._defaults)
        params = section.tree.get("params")
        if work is None or any(read.root is Root.CURSOR for read in work.input.reads):
            return work
        if params is not None and not isinstance(params, Fields):
            section.wrong_type(
                "params", params, "a mapping", "write a mapping, or read `cursor` in it"
            )
            return None
        # Whoever does not say under which name it takes the cursor gets it as `cursor`.
        given = params or Fields({}, 0, 0)
        kept = {key: entry for key, entry in given.entries.items() if key != "cursor"}
        cursor = Scalar("${cursor}", given.start, given.end)
        text = json_text(Fields({**kept, "cursor": (cursor, cursor)}, given.start, given.end))
        reads = (*work.input.reads, Read(Root.CURSOR))
        return replace(work, input=replace(work.input, text=text, reads=reads))

    # --- handlers ------------------------------------------------------------------------------------

    def handler(self, values: Values, key: str, owner: Owner, id: str) -> Handler | None:
        """One leaf: what stands under `compensate` of a node, or under `on_failure` (C3, C4)."""
        example = f"write `{key}: {{type: task, task: …}}`"
        section = values.section.section(key, f"`{key}`", example)
        if section is None:
            return None
        for other in (k for k in NOT_ON_LEAVES if section.has(k)):
            cure = f"take `{other}` out: a handler stands alone, and nothing follows it"
            problem = f"`{other}` has no meaning on a handler"
            self._leaf(section.start_of(other), other, problem, cure)
        type = type_of(section)
        if type is None:
            return None
        if type not in LEAF_TYPES:
            tree = section.tree.get("type")
            assert tree is not None
            kinds = ", ".join(LEAF_TYPES)
            cure = f"write one of {kinds}; a `call` may hold a graph in `do`"
            self._leaf(tree.start, str(type), f"{named(type)} cannot be a handler", cure)
            return None
        is_undo = key == "compensate"
        allowed = {"type", *OWN[type], *NOT_ON_LEAVES, *(("when",) if is_undo else ())}
        section.what = f"a handler of type {type}"
        section.check_keys(allowed, elsewhere=ELSEWHERE)
        started = is_undo and section.choice("when", ("started",)) is not None
        inner = values.of(section, f"{values.where}.{key}" if values.where else key, owner)
        detail: Work | Call | Emit | None
        if type is NodeType.CALL:
            detail = self.call(inner, id)
        elif type is NodeType.EMIT:
            detail = read_emit(inner)
        else:
            detail = read_work(type, inner, self._defaults)
        return Handler(type, detail, started) if detail else None

    def _leaf(self, at: int, text: str, problem: str, cure: str) -> None:
        self._findings.add("handler_not_leaf", at, text, problem=problem, cure=cure)


def _only(section: Section, keys: tuple[str, ...], cure: str) -> str | None:
    """Which one of some keys stands there; a finding for none and for several."""
    given = [key for key in section.tree.entries if key in keys]
    if not given:
        section.require(keys[0], cure)
        return None
    *others, last = (f"`{key}`" for key in keys)
    for key in given[1:]:
        what = f"{section.what} that has `{given[0]}`"
        section.refuse(key, f"keep one of {', '.join(others)} and {last}", what)
    return given[0]


def _refuse(section: Section, keys: Iterable[str], what: str, cure: str) -> None:
    for key in keys:
        section.refuse(key, cure, what)


def _is_let_go(do: Section) -> bool:
    tree = do.tree.get("wait")
    return isinstance(tree, Scalar) and tree.value is False


def check_alone(section: Section, type: NodeType, *, optional: bool) -> None:
    """Refuse keys of a `do:` that is one node which only a node among others has."""
    allowed = {"type", *OWN[type]} - {"compensate", *(() if optional else ("optional",))}
    there = {
        **ELSEWHERE,
        **dict.fromkeys(EDGE_KEYS_OF_NODES, "one node alone has no edges: use `do: {nodes: …}`"),
        "optional": "let the foreach `tolerate` failures, or use `do: {nodes: …}`",
    }
    if section.has("compensate"):
        at, cure = section.start_of("compensate"), "write it on the node around `do`"
        problem = "one node in `do` has no `compensate` of its own"
        section.findings.add("compensate_not_allowed", at, "compensate", problem=problem, cure=cure)
    section.check_keys((*allowed, "compensate"), elsewhere=there)


def _merged(section: Section, do: Section, keys: tuple[str, ...]) -> Section:
    """The keys of `do`, with those of an item that stand beside it."""
    beside = {key: entry for key, entry in section.tree.entries.items() if key in keys}
    for key in beside:
        do.refuse(key, "keep one of the two", f"a `do` beside which `{key}` stands")
    entries = {**do.tree.entries, **beside}
    return do.with_tree(Fields(entries, do.tree.start, do.tree.end))

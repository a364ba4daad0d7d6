"""One node's keys -> a `Node` of the model: what each type takes, and the defaults that fill it (SEMANTICS D, F5).

It knows nothing of edges beyond `join`; `needs` is `shape`'s.
"""

from __future__ import annotations

from typing import assert_never

from tenuto.dsl.bodies import BodyReader, check_alone, named, read_emit
from tenuto.dsl.expressions import Expressions, Owner
from tenuto.dsl.findings import Findings
from tenuto.dsl.keys import COMMON, ELSEWHERE, OWN
from tenuto.dsl.limits import FAILURE_CODE, JOIN_MAX
from tenuto.dsl.section import Section
from tenuto.dsl.values import Values
from tenuto.dsl.work import Defaults, read_work
from tenuto.dsl.yaml import Scalar
from tenuto.model.definition import (
    Detail,
    End,
    Fail,
    Handler,
    Node,
    NodeType,
    SetValue,
    Wait,
    WaitForEvent,
)
from tenuto.model.expressions import Root
from tenuto.model.names import EVENT_NAME

_EVENT = frozenset({Root.EVENT})


class NodeReader:
    """Reads nodes of one graph, whose type is known, with the file's defaults. `where` names the graph in errors."""

    def __init__(
        self,
        findings: Findings,
        expressions: Expressions,
        defaults: Defaults,
        bodies: BodyReader,
        where: str = "",
    ) -> None:
        self._findings = findings
        self._expressions = expressions
        self._defaults = defaults
        self._bodies = bodies
        self._where = f"{where}." if where else ""

    def read(self, section: Section, id: str, type: NodeType, number: int) -> Node:
        """The node; where keys are wrong its detail may be None or incomplete, and findings say so."""
        section.check_keys((*COMMON, *OWN[type], "compensate"), elsewhere=ELSEWHERE)
        join = self._join(section)
        cancel_losers = section.flag("cancel_losers") or False
        if cancel_losers and not join and _is_all(section):
            at = section.start_of("cancel_losers")
            self._findings.add("cancel_losers_without_race", at, "cancel_losers")
        values = self._values(section, f"{self._where}nodes.{id}", number)
        return Node(
            id=id,
            type=type,
            detail=self._detail(values, id, type),
            join=join,
            cancel_losers=cancel_losers,
            optional=section.has("optional") and (section.flag("optional") or False),
            compensate=self._compensate(values, id, type),
        )

    def read_alone(self, section: Section, id: str, type: NodeType, where: str) -> Node:
        """The only node of a graph: what stands in a `do:`."""
        check_alone(section, type, optional=True)
        optional = section.has("optional") and (section.flag("optional") or False)
        values = self._values(section, where, 0)
        return Node(id, type, self._detail(values, id, type), optional=optional)

    def _values(self, section: Section, where: str, number: int) -> Values:
        return Values(section, self._expressions, where, Owner(node=number))

    def _join(self, section: Section) -> int:
        """Tokens needed; 0 is all of them (J1, J2)."""
        tree = section.tree.get("join")
        if isinstance(tree, Scalar) and type(tree.value) is int:
            return section.integer("join", 1, JOIN_MAX) or 0
        word = section.choice("join", ("all", "any"))
        return 1 if word == "any" else 0

    def _compensate(self, values: Values, id: str, type: NodeType) -> Handler | None:
        section = values.section
        if not section.has("compensate"):
            return None
        if "compensate" not in OWN[type]:
            at, kinds = section.start_of("compensate"), (t for t in OWN if "compensate" in OWN[t])
            problem = f"{named(type)} does nothing that could be undone"
            cure = f"write it on {', '.join(kinds)}"
            self._findings.add(
                "compensate_not_allowed", at, "compensate", problem=problem, cure=cure
            )
            return None
        owner = Owner(node=values.owner.node, handler=True)
        return self._bodies.handler(values, "compensate", owner, id)

    def _detail(self, values: Values, id: str, type: NodeType) -> Detail:
        section = values.section
        match type:
            case NodeType.HTTP | NodeType.CODE | NodeType.TASK:
                return read_work(type, values, self._defaults)
            case NodeType.CALL:
                return self._bodies.call(values, id)
            case NodeType.FOREACH:
                return self._bodies.foreach(values, id)
            case NodeType.WAIT:
                return _wait(values)
            case NodeType.WAIT_FOR_EVENT:
                return _wait_for_event(values)
            case NodeType.EMIT:
                return read_emit(values)
            case NodeType.SET:
                section.require("values", "add `values: {name: value}`")
                value = values.mapping("values") if section.has("values") else None
                return SetValue(value) if value is not None else None
            case NodeType.FAIL:
                return _fail(values)
            case NodeType.END:
                return End(
                    cancelled=section.choice("as", ("success", "cancelled")) == "cancelled",
                    output=values.value("output"),
                )
            case NodeType.SWITCH | NodeType.FORK | NodeType.JOIN:
                return None
            case _:
                assert_never(type)


def _is_all(section: Section) -> bool:
    tree = section.tree.get("join")
    return tree is None or (isinstance(tree, Scalar) and tree.value == "all")


def _wait(values: Values) -> Wait | None:
    section = values.section
    given = [key for key in ("for", "until") if section.has(key)]
    if not given:
        section.require("for", "add `for: 10m`, or `until: 2026-12-24T18:00:00+01:00`")
        return None
    for key in given[1:]:
        section.findings.add("wait_form", section.start_of(key), key)
    for_us, until_at = values.duration("for", zero=True), values.instant("until")
    if len(given) > 1 or (for_us is None and until_at is None):
        return None
    return Wait(for_us, until_at)


def _wait_for_event(values: Values) -> WaitForEvent | None:
    values.section.require("event", "add `event: order.approved`")
    event = values.name(
        "event", "the name of an event", pattern=EVENT_NAME, cure="write it like `order.done`"
    )
    key = values.key("key")
    seeing = values.of(values.section, owner=Owner(node=values.owner.node, sees=_EVENT))
    found = WaitForEvent(
        event or "",
        key,
        values.duration("timeout"),
        seeing.condition("match"),
        seeing.condition("fail_when"),
        values.duration("heartbeat_timeout"),
    )
    return found if event else None


def _fail(values: Values) -> Fail | None:
    section = values.section
    section.require("code", "add `code: out_of_stock`")
    code = section.text(
        "code", "a short code", pattern=FAILURE_CODE, cure="write it like `out_of_stock`"
    )
    details, message = values.value("details"), values.key("message")
    return Fail(code, message, details) if code else None

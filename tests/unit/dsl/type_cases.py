"""The smallest file for every finding of types; for a task's params there is an app (`APP`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.unit.dsl.cases import NODES, PAIR

from tenuto.model.shapes import ANY, Given, ParamProblem, Shape

CLOSED = (
    "input: {type: object, additionalProperties: false, properties: {order_id: {type: string},"
    " n: {type: integer}, list: {type: array, items: {type: string}}}}\n"
)
OPEN = "input: {properties: {order_id: {type: string}}, type: object}\n"


def reads(expression: str, schema: str = CLOSED) -> str:
    """A task that reads something."""
    return schema + NODES + f'  a: {{type: task, task: t, params: {{x: "${{{expression}}}"}}}}\n'


def taken(condition: str, schema: str = CLOSED) -> str:
    """A condition of an edge."""
    edge = f"edges:\n  - {{from: a, to: b, when: {condition}}}\n  - {{from: a, to: b}}\n"
    return schema + PAIR.replace(", needs: a", "") + edge


TYPED: list[tuple[str, str]] = [
    ("unknown_field", reads("⟦input.ordr_id")),
    ("unknown_field", "vars: {limit: 1}\n" + reads("1 + ⟦vars.limt")),
    ("undeclared_field", reads("⟦input.ordr_id", OPEN)),
    ("type_mismatch", reads("input.n ⟦+ input.order_id")),
    ("type_mismatch", taken("input.order_id ⟦> 5")),
    ("never_equal", taken("input.n ⟦== '5'")),
    ("constant_condition", taken("⟦1 > 2")),
    ("condition_type", taken("⟦input.n")),
    ("condition_type", taken("⟦input")),
    ("int_division", reads("input.n ⟦/ 2")),
    ("duration_type", CLOSED + NODES + '  a: {type: wait, for: ⟦"${input.n}"}\n'),
    (
        "duration_type",
        CLOSED + NODES + '  a: {type: task, task: t, timeout: ⟦"${input.n * 2}"}\n',
    ),
    ("computed_type", CLOSED + NODES + "  a: {type: foreach, over: ⟦input.n, task: t}\n"),
    (
        "unknown_field",
        CLOSED + NODES + "  a: {type: foreach, over: input.list, do: {nodes: "
        '{h: {type: http, request: {url: "http://h/${item}"}}, '
        'b: {type: task, needs: h, task: t, params: {x: "${⟦nodes.h.output.code}"}}}}}\n',
    ),
    ("task_params", NODES + "  a: {type: task, task: known, params: {right: 1, ⟦wrong: 1}}\n"),
    ("task_params", NODES + "  a: {type: task, task: known, ⟦params: {}}\n"),
    (
        "task_params",
        NODES + "  a: {type: foreach, over: '[1]', do: {type: task, task: known, "
        "params: {right: 1, ⟦wrong: 1}}}\n",
    ),
]


class App:
    """Has one task, `known`, which takes `right`."""

    def problems(self, task: str, params: Mapping[str, Given]) -> Sequence[ParamProblem]:
        if task != "known":
            return ()
        found = [ParamProblem(name, f"no {name}") for name in params if name != "right"]
        return [*found, *([] if "right" in params else [ParamProblem(None, "needs right")])]

    def result(self, task: str) -> Shape:
        return ANY


APP = App()

"""Types as far as they can be proven: what is found, and that nothing is which may go well."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pytest
from tests.unit.dsl.type_cases import CLOSED, reads, taken

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import load
from tenuto.dsl.findings import Finding
from tenuto.model.shapes import STRING, Given, ParamProblem, Shape, record

PARSER = CelParser()


class App:
    """One task, `charge`, that returns `{receipt: text}`; it tells what it is given."""

    def __init__(self) -> None:
        self.given: dict[str, Mapping[str, Given]] = {}

    def problems(self, task: str, params: Mapping[str, Given]) -> Sequence[ParamProblem]:
        self.given[task] = params
        return ()

    def result(self, task: str) -> Shape:
        return record(receipt=STRING) if task == "charge" else Shape()


def findings_of(text: str, app: App | None = None) -> tuple[Finding, ...]:
    return load(text, file="a.yaml", parser=PARSER, tasks=app).findings


def codes(text: str, app: App | None = None) -> list[str]:
    return [finding.code for finding in findings_of(text, app)]


FLOW = """
name: a
vars: {limit: 3, city: Bern, deep: {x: 1}}
input:
  type: object
  properties:
    files: {type: array, items: {type: object, additionalProperties: false, properties: {path: {type: string}}}}
    n: {type: integer}
nodes:
  get: {type: http, request: {url: "http://h/"}}
  pay: {type: task, task: charge, needs: get}
  set:
    type: set
    needs: pay
    values: {text: "a ${input.n}", n: "${input.n + 1}", got: "${nodes.get.output}", fix: 1, none: null, l: [1]}
  both: {type: join, needs: [pay, set]}
  each: {type: foreach, needs: both, over: input.files, task: charge, params: {p: "${item.path}"}}
  rough: {type: foreach, needs: both, over: input.files, task: charge, tolerate: 1}
  sub:
    type: call
    needs: [each, rough]
    params: {city: "${vars.city}", n: 1}
    do:
      nodes: {x: {type: set, values: {y: "${params.n}", item: "${params.city}"}}}
      output: {z: "${nodes.x.output.y}"}
  gone: {type: call, needs: sub, call: other, wait: false}
  far: {type: call, needs: gone, call: other}
  event: {type: wait_for_event, needs: far, event: e}
  end: {type: set, needs: event, values: {v: "${EXPRESSION}"}}
"""


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("nodes.get.output.stats", "unknown_field"),
        ("nodes.get.output.status == '200'", "never_equal"),
        ("nodes.get.output.status + 'x'", "type_mismatch"),
        ("nodes.pay.output.recipt", "unknown_field"),
        ("nodes.pay.output.receipt + 1", "type_mismatch"),
        ("nodes.set.output.txt", "unknown_field"),
        ("nodes.set.output.text > 1", "type_mismatch"),
        ("nodes.set.output.n / 2", "int_division"),
        ("nodes.set.output.fix + 'x'", "type_mismatch"),
        ("nodes.set.output.got.stats", "unknown_field"),
        ("nodes.both.output.end", "unknown_field"),
        ("nodes.both.output.pay.receipt + 1", "type_mismatch"),
        ("nodes.each.output[0].recipt", "unknown_field"),
        ("nodes.sub.output.y", "unknown_field"),
        ("nodes.sub.output.z + 'x'", "type_mismatch"),
        ("nodes.gone.output.id", "unknown_field"),
        ("nodes.each.failures[0].idx", "unknown_field"),
        ("nodes.each.status + 1", "type_mismatch"),
        ("vars.city + 1", "type_mismatch"),
        ("vars.town", "unknown_field"),
        ("vars.deep.y + input.n / 2", "int_division"),
    ],
)  # fmt: skip
def test_shapes_flow_from_node_to_node(expression: str, code: str) -> None:
    assert codes(FLOW.replace("EXPRESSION", expression), App()) == [code]


@pytest.mark.parametrize(
    "expression",
    [
        "nodes.get.output.body.anything + 1",
        "nodes.get.output.headers.etag == 1",
        "nodes.get.output.?stats",
        "has(nodes.get.output.stats)",
        "nodes.set.output.none + 1",
        "nodes.set.output.got.status + 1",
        "nodes.set.output.l[0] + 'x'",
        "nodes.rough.output[0].recipt",
        "nodes.each.output.map(r, r.receipt)",
        "nodes.far.output.anything",
        "nodes.event.output.x + 1",
        "vars.limit + 'text'",
        "vars.deep.x + 'text'",
        "nodes.get.?error.orValue(null) == null",
        "nodes.pay.attempts + 1",
        "input.other",
        "input.files[0].path + 'x'",
    ],
)
def test_what_may_go_well_is_left_alone(expression: str) -> None:
    assert codes(FLOW.replace("EXPRESSION", expression), App()) == []


def test_without_an_app_a_task_may_return_anything() -> None:
    assert codes(FLOW.replace("EXPRESSION", "nodes.pay.output.recipt")) == []


def test_what_an_earlier_pass_left_is_not_known() -> None:
    text = """
name: a
nodes:
  count:
    type: set
    values: {n: "${nodes.count.?output.?n.orValue('x') + 1}", s: "${nodes.late.?output.?v.orValue(1)}"}
  late: {type: set, needs: count, values: {v: "${nodes.count.output.s + 'x'}"}}
  more: {type: switch, needs: late}
  z: {type: join}
edges:
  - {from: more, to: count, when: nodes.count.output.n < 3, loop: {max: 3}}
  - {from: more, to: z, else: true}
"""
    assert codes(text) == []


def test_an_item_of_an_item_hides_the_outer_one() -> None:
    text = """
name: a
input: {type: object, properties: {l: {type: array, items: {type: integer}}}}
nodes:
  e:
    type: foreach
    over: input.l
    do:
      nodes:
        s: {type: set, values: {x: "${item + 'x'}"}}
        f: {type: foreach, needs: s, over: "['a']", task: t, params: {x: "${item + 'x'}"}}
  b: {type: foreach, over: input.l, batch: 2, task: t, params: {x: "${item + 'x'}"}}
"""
    found = findings_of(text)

    assert [(f.code, f.line) for f in found] == [("type_mismatch", 10), ("type_mismatch", 12)]


def test_params_reach_the_app_with_their_values_or_what_is_known_of_them() -> None:
    app = App()
    text = (
        'params: {a: 1, b: "${nodes.get.output.status}", c: "${input.n > 1}", d: [1, "${input}"]}'
    )
    codes(FLOW.replace("task: charge, needs: get", f"task: charge, needs: get, {text}"), app)

    codes(reads("input.order_id"), app)

    given = app.given["t"]["x"]
    assert (given.shape, given.is_fixed) == (STRING, False)
    codes(
        FLOW.replace(
            "over: input.files, task: charge, tolerate: 1", f"over: '[1]', task: u, {text}"
        ),
        app,
    )
    kinds = {name: (given.shape.kind, given.is_fixed) for name, given in app.given["u"].items()}
    assert kinds == {
        "a": ("int", True),
        "b": ("int", False),
        "c": ("bool", False),
        "d": ("list", False),
    }  # fmt: skip


def test_a_misspelt_field_is_told_with_what_was_meant() -> None:
    [finding] = findings_of(reads("input.ordr_id"))

    assert finding.message == "input has no key `ordr_id`"
    assert finding.hint == "did you mean `order_id`?"
    assert (finding.line, finding.column) == (4, 43)


def test_a_condition_that_says_true_in_so_many_words_is_meant() -> None:
    assert codes(taken('"true"')) == []
    assert codes(taken("true")) == []


def test_X8_ints_of_a_schema_divide_as_ints() -> None:
    assert codes(reads("input.n / 2")) == ["int_division"]
    assert codes(reads("double(input.n) / 2.0")) == []


@pytest.mark.timeout(60)
def test_a_thousand_nodes_are_checked_in_a_second_or_two() -> None:
    lines = [
        f'  n{n}: {{type: set, needs: n{n - 1}, values: {{v: "${{nodes.n{n - 1}.output.v + {n}}}"}}}}\n'
        for n in range(1, 1_000)
    ]
    text = (
        CLOSED + 'name: a\nnodes:\n  n0: {type: set, values: {v: "${input.n}"}}\n' + "".join(lines)
    )

    before = time.process_time()
    assert codes(text) == []
    assert time.process_time() - before < 5  # 0.6 s here

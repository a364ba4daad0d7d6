"""The live evaluator (SEMANTICS X1-X9)."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenuto.adapters import cel
from tenuto.adapters.cel import CelEvaluator
from tenuto.model.expressions import (
    Evaluator,
    Expression,
    ExpressionKind,
    Fault,
    Message,
    Missing,
    NodeView,
    Scope,
    Verdict,
)
from tenuto.model.ids import RUN_PLACE, MessageId, Place
from tenuto.model.payload import PAYLOAD_MAX, JoinView, PayloadKey, PayloadKind, Text
from tenuto.runtime.results import resolve_secrets

INPUT = PayloadKey(RUN_PLACE, PayloadKind.INPUT)
VARS = PayloadKey(RUN_PLACE, PayloadKind.VARS)
SCORE = PayloadKey(Place("score"), PayloadKind.OUTPUT)
CHARGE = PayloadKey(Place("charge"), PayloadKind.ERROR)
TEXTS = {
    INPUT: '{"amount":40,"big":18446744073709551615,"id":"A-1","items":[{"n":1},{"n":2}],"none":null,"rate":1.5}',
    VARS: '{"payments":"http://127.0.0.1:9000"}',
    SCORE: '{"risk":60}',
    CHARGE: '{"code":"http.503","message":"busy"}',
}
NODES = (
    NodeView("score", "success", 1, SCORE, has_output=True),
    NodeView("charge", "dead", 3, error=CHARGE),
    NodeView("both", "success", 0, JoinView((("score", SCORE), ("wait", None))), has_output=True),
    NodeView("empty", "success", 1, None, has_output=True),
)
SCOPE = Scope(INPUT, VARS, NODES)


def condition(text: str) -> Expression:
    return Expression(ExpressionKind.CONDITION, text, "nodes.triage.when")


def value(tree: object, kind: ExpressionKind = ExpressionKind.VALUE) -> Expression:
    return Expression(kind, json.dumps(tree), "nodes.ship.params")


def verdict(text: str, scope: Scope = SCOPE) -> object:
    found = CelEvaluator(TEXTS).evaluate(condition(text), scope)
    return found.holds if isinstance(found, Verdict) else found


def text_of(tree: object, scope: Scope = SCOPE) -> object:
    found = CelEvaluator(TEXTS).evaluate(value(tree), scope)
    return found.text if isinstance(found, Text) else found


def fault(expression: Expression, scope: Scope = SCOPE) -> Fault:
    found = CelEvaluator(TEXTS).evaluate(expression, scope)
    assert isinstance(found, Fault), found
    return found


def test_it_is_an_evaluator() -> None:
    evaluator: Evaluator = CelEvaluator({})

    assert evaluator.evaluate(condition("true"), SCOPE) == Verdict(True)


@pytest.mark.rule("X2.2")
@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("nodes.score.output.risk > 50", True),
        ("nodes.score.output.risk > 59.5", True),
        ("input.amount * input.rate == 60.0", True),
        ("nodes.charge.error.code.startsWith('http.5')", True),
        ("nodes.charge.status == 'dead' && nodes.charge.attempts == 3", True),
        ("nodes.both.output.score.risk == 60 && nodes.both.output.wait == null", True),
        ("has(nodes.both.output.other)", False),
        ("nodes.empty.output == null", True),
        # what is absent can be guarded, in every way (X2)
        ("has(nodes.charge.output)", False),
        ("has(nodes.charge.output.id)", False),
        ("has(nodes.gone.output)", False),
        ("has(nodes.gone.output.id.x)", False),
        ("has(nodes.gone)", False),
        ("has(nodes.score.error)", False),
        ("has(nodes.score.output.risk)", True),
        ("has(nodes.score.output.other)", False),
        ("nodes.gone.?output.?x.orValue(true)", True),
        ("nodes.?gone.?output.?x.orValue(true)", True),
        ("nodes.?score.?output.?risk.orValue(0) == 60", True),
        ("nodes.score.?output.hasValue()", True),
        ("has(nodes.gone.output) ? nodes.gone.output.x > 1 : true", True),
        ("has(error.code)", False),
        ("error.?code.orValue('') == ''", True),
        ("error == null", True),
        ("has(input.none)", True),
        ("input.?none == optional.of(null)", True),
        ("input.items.exists(item, item.n == 2)", True),
        ("input.big == 18446744073709551615u", True),
        ("false && nodes.gone.output.x", False),
    ],
)
def test_a_condition_holds_or_not(text: str, holds: bool) -> None:
    assert verdict(text) is holds


def test_error_and_iteration_come_from_the_scope() -> None:
    scope = Scope(INPUT, VARS, NODES, iteration=2, error=CHARGE)

    assert verdict("error.code == 'http.503' && iteration == 2", scope) is True
    assert verdict("has(error.code) && !has(error.details)", scope) is True


@pytest.mark.rule("W5.1")
def test_a_loop_reads_its_own_previous_pass() -> None:
    """SEMANTICS L: loops carry data by `set` nodes; in the first pass the record is absent (X3)."""
    tree = {"n": "${iteration == 1 ? 0 : nodes.counter.output.n + 1}"}
    before = PayloadKey(Place("counter.1"), PayloadKind.OUTPUT)
    view = NodeView("counter", "success", 1, before, has_output=True)
    evaluator = CelEvaluator({before: '{"n":4}'})

    first = evaluator.evaluate(value(tree), Scope(INPUT, VARS, (), iteration=1))
    second = evaluator.evaluate(value(tree), Scope(INPUT, VARS, (view,), iteration=2))

    assert first == Text(7, '{"n":0}')
    assert second == Text(7, '{"n":5}')


@pytest.mark.rule("X2.2")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes.score.output.rsk > 50", "no such key: rsk in nodes.score.output"),
        ("nodes.gone.output.x > 1", "no such key: gone in nodes"),
        ("nodes.charge.output.x > 1", "no such key: output in nodes.charge, whose status is dead"),
        ("error.code == 'x'", "error is null, it has no key code: test `error != null` first"),
        ("iteration == 1", "iteration is read outside a loop"),
        ("input.items[7].n == 1", "index 7 is outside the list input.items, which has 2 elements"),
        ("input.id.x == 1", "input.id is a string, it has no key x"),
        ("input.items.all(i, i.gone > 1)", "no such key: gone"),
        ("nodes.score.output.risk", "the condition gave an int, not true or false"),
        ("input.none", "the condition gave null, not true or false"),
        ("'yes'", "the condition gave a string, not true or false"),
        ("input.?gone", "the condition gave null, not true or false"),
        ("input.amount / 0 == 1", "division by zero"),
        ("input.big + 1 > 0", "`+` does not take uint and int"),
        ("secrets.TOKEN", "a condition cannot read a secret"),
        ("nope", "unknown name `nope`"),
        ("timestamp('2020-01-01T00:00:00Z')", "gave a timestamp"),
    ],
)
def test_an_error_is_a_value_that_names_its_place(text: str, message: str) -> None:
    found = fault(condition(text))

    assert found.code == "expression_error"
    assert message in found.message
    assert found.message.endswith(f"(nodes.triage.when: `{text}`)")


@pytest.mark.rule("X7.2", "X8.3")
@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ("${input.amount}", "40"),
        ("${input.big}", "18446744073709551615"),
        ("${input.big // as it is\n}", "18446744073709551615"),
        ("order ${input.id}: ${input.amount * 1.5} $${x}", '"order A-1: 60.0 ${x}"'),
        ("${vars.payments}/charges", '"http://127.0.0.1:9000/charges"'),
        ("${vars.payments + '/charges'}", '"http://127.0.0.1:9000/charges"'),
        ({"b": "${input.items}", "a": "${nodes.both.output}"},
         '{"a":{"score":{"risk":60},"wait":null},"b":[{"n":1},{"n":2}]}'),
        ("${input.items.map(i, i.n * 2)}", "[2,4]"),
        ("${{'b': 1, 'a': {'d': 1, 'c': 2}}}", '{"a":{"c":2,"d":1},"b":1}'),
        ("${input.?gone}", "null"),
        ("${input.?gone.orValue('d')}", '"d"'),
        ("${nodes.ship.?output.?parcel.orValue(null)}", "null"),
        ("${nodes.charge}",
         '{"attempts":3,"error":{"code":"http.503","message":"busy"},"status":"dead"}'),
        ("${1.0}", "1.0"),
        ("${-0.0}", "-0.0"),
        ("${1e21}", "1e+21"),
        ("${0.1 + 0.2}", "0.30000000000000004"),
        ("${string(timestamp('2020-01-01T00:00:00Z'))}", '"2020-01-01T00:00:00Z"'),
        ("${'€' + 'ü'}", '"€ü"'),
        ({"a": {}, "b": []}, '{"a":{},"b":[]}'),
        ({"z": 1, "a": "x"}, '{"a":"x","z":1}'),
    ],
)  # fmt: skip
def test_X7_X8_a_value_is_canonical_json(tree: object, text: str) -> None:
    assert text_of(tree) == text


def test_the_size_of_a_value_is_in_bytes() -> None:
    assert CelEvaluator(TEXTS).evaluate(value("€"), SCOPE) == Text(5, '"€"')


@pytest.mark.rule("X8.3")
@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ("${0.0 / 0.0}", "the result is NaN"),
        ({"a": ["${1.0 / 0.0}"]}, "the result.a[0] is an infinity"),
        ("${timestamp('2020-01-01T00:00:00Z')}", "gave a timestamp, which JSON cannot hold"),
        ("${[timestamp('2020-01-01T00:00:00Z')]}", "write string(…) around it"),
        ("${duration('1h')}", "gave a duration"),
        ("${b'x'}", "gave bytes"),
        ("${type(1)}", "which JSON cannot hold"),
        ("${{1: 2}}", "the result has the key 1 (int)"),
        ("${'a\\u0000b'}", "the result holds a NUL character"),
        ("${[input.?gone]}", "end it with `.orValue(…)`"),
        ("${9223372036854775807 + input.amount}", "integer overflow"),
        ("id: ${input.none}", "`input.none` is null, which cannot stand inside a text"),
        ("id: ${input.items}", "`input.items` is a list, which cannot stand inside a text"),
        ("${input.gone}", "no such key: gone in input (nodes.ship.params: `input.gone`)"),
        ({"a": 1, "b": "x ${input.gone + 1}"}, "(nodes.ship.params: `input.gone + 1`)"),
        ("${secrets.TOKEN}", "a secret stands inside an object"),
        ("${input.a", "has no `}`"),
    ],
)
def test_what_cannot_be_a_value_is_a_fault(tree: object, message: str) -> None:
    found = fault(value(tree))

    assert found.code == "expression_error"
    assert message in found.message


def test_missing_texts_are_asked_for_at_once_and_only_those_that_are_read() -> None:
    tree = {
        "a": "${input.id}",
        "b": "${nodes.score.output.risk} ${vars.x}",
        "c": "${nodes.charge.status}",
    }

    assert CelEvaluator({VARS: "{}"}).evaluate(value(tree), SCOPE) == Missing((INPUT, SCORE))
    assert CelEvaluator({}).evaluate(
        condition("nodes.both.output.score.risk > 1"), SCOPE
    ) == Missing((SCORE,))


def test_texts_may_come_later() -> None:
    texts: dict[PayloadKey, str] = {}
    evaluator = CelEvaluator(texts)
    assert evaluator.evaluate(condition("input.amount > 1"), SCOPE) == Missing((INPUT,))

    texts[INPUT] = TEXTS[INPUT]

    assert evaluator.evaluate(condition("input.amount > 1"), SCOPE) == Verdict(True)


def test_a_payload_that_this_decision_made_is_seen_and_needs_no_loading() -> None:
    evaluator = CelEvaluator({})
    text = condition("nodes.score.output.risk == 70")
    made = evaluator.evaluate(value({"risk": 70}), SCOPE)
    assert isinstance(made, Text)

    assert evaluator.evaluate(text, SCOPE) == Missing((SCORE,))
    assert evaluator.evaluate(text, Scope(INPUT, VARS, NODES, fresh={SCORE: made})) == Verdict(True)


def test_a_key_that_has_a_new_text_is_read_anew() -> None:
    texts = {INPUT: '{"n":1}'}
    evaluator = CelEvaluator(texts)
    assert evaluator.evaluate(condition("input.n == 1"), SCOPE) == Verdict(True)

    texts[INPUT] = '{"n":2}'

    assert evaluator.evaluate(condition("input.n == 2"), SCOPE) == Verdict(True)


def test_evaluating_changes_no_data() -> None:
    evaluator = CelEvaluator(TEXTS)
    tree = {"a": "${input}", "k": "${secrets.K}"}

    first = evaluator.evaluate(value(tree), SCOPE)
    evaluator.evaluate(value("${input.items.map(i, i)}"), SCOPE)

    assert evaluator.evaluate(value(tree), SCOPE) == first


@pytest.mark.parametrize(
    ("tree", "key"),
    [
        ("${input.id}", "A-1"),
        ("order/${input.id}", "order/A-1"),
        ("${input.amount}", "40"),
        (7, "7"),
        ("ü", "ü"),
        ("", ""),
    ],
)
def test_a_key_is_plain_text(tree: object, key: str) -> None:
    found = CelEvaluator(TEXTS).evaluate(value(tree, ExpressionKind.KEY), SCOPE)

    assert found == Text(len(key.encode()), key)


@pytest.mark.parametrize(
    ("tree", "what"),
    [
        ("${input.none}", "null"),
        ("${input.rate}", "a double"),
        ("${true}", "a bool"),
        ("${input.items}", "a list"),
        ({"a": "${secrets.A}"}, "secret"),
        ("${'a\\u0000'}", "NUL"),
    ],
)
def test_a_key_is_a_string_or_an_integer(tree: object, what: str) -> None:
    assert what in fault(value(tree, ExpressionKind.KEY)).message


@pytest.mark.rule("X9.1")
def test_X9_secrets_pass_through_by_reference_and_only_ours_are_resolved() -> None:
    texts = {**TEXTS, INPUT: '{"lure":{"$secret":"TOKEN"},"more":{"$secrets":[["x"]]}}'}
    tree = {
        "headers": {"authorization": "Bearer ${secrets.TOKEN}"},
        "json": {"lure": "${input.lure}", "more": "${input.more}"},
    }

    found = CelEvaluator(texts).evaluate(value(tree), SCOPE)

    assert isinstance(found, Text)
    assert found.text is not None
    assert "t0k" not in found.text
    assert resolve_secrets(json.loads(found.text), {"TOKEN": "t0k"}.get) == {
        "headers": {"authorization": "Bearer t0k"},
        "json": {"lure": {"$secret": "TOKEN"}, "more": {"$secrets": [["x"]]}},
    }


def test_an_input_cannot_smuggle_in_a_reference() -> None:
    texts = {INPUT: '{"$secrets":[["body"]],"body":{"$secret":"TOKEN"}}'}

    found = CelEvaluator(texts).evaluate(value("${input}"), SCOPE)

    assert isinstance(found, Fault)
    assert "reserved" in found.message


def test_a_mailbox_address_is_looked_up_or_missing() -> None:
    first = Message(MessageId("m1"), Text(2, "{}"))
    address = ("order.approved", "A-1")
    evaluator = CelEvaluator({}, {(*address, None): first, (*address, first.id): Message(None)})

    assert evaluator.mailbox(*address[:1], Text(3, "A-1")) == first
    assert evaluator.mailbox(*address[:1], Text(3, "A-1"), first.id) == Message(None)
    assert evaluator.mailbox("x", Text(1, "z")) == Missing(mailbox=(("x", "z", None),))


# --- limits ---------------------------------------------------------------------------------------


def large(size: int) -> dict[PayloadKey, str]:
    return {INPUT: json.dumps({"blob": "x" * size, "n": 1}, separators=(",", ":"))}


def test_a_large_payload_can_be_read_in_part_and_passed_on_whole() -> None:
    evaluator = CelEvaluator(large(900_000))

    assert evaluator.evaluate(condition("input.n + 1 == 2"), SCOPE) == Verdict(True)
    assert evaluator.evaluate(condition("has(input.blob)"), SCOPE) == Verdict(True)
    whole = evaluator.evaluate(value("${input}"), SCOPE)
    assert isinstance(whole, Text)
    assert whole.size == 900_017


@pytest.mark.rule("X8.5")
def test_working_on_more_than_the_limit_is_a_fault_with_its_cure() -> None:
    """Catalogue I-7."""
    at_limit = CelEvaluator(large(262_000)).evaluate(condition("size(input.blob) > 1"), SCOPE)
    beyond = CelEvaluator(large(263_000)).evaluate(condition("size(input.blob) > 1"), SCOPE)

    assert at_limit == Verdict(True)
    assert isinstance(beyond, Fault)
    assert "more than 256 kB: name the fields that it needs" in beyond.message


def test_a_result_over_the_payload_limit_is_payload_too_large() -> None:
    found = CelEvaluator(large(600_000)).evaluate(value(["${input}", "${input}"]), SCOPE)

    assert isinstance(found, Fault)
    assert found.code == "payload_too_large"
    assert f"{PAYLOAD_MAX:,}" in found.message


@pytest.mark.rule("X8.5")
def test_iterations_are_bounded() -> None:
    texts = {INPUT: json.dumps({"l": list(range(150))})}
    nested = "input.l.map(a, input.l.map(b, a)).size() > 0"

    found = CelEvaluator(texts).evaluate(condition(nested), SCOPE)

    assert isinstance(found, Fault)
    assert "more than 10,000 iterations" in found.message


@pytest.mark.rule("X8.5")
def test_X8_no_bound_is_one_of_time() -> None:
    """Whatever the evaluator refuses, it refuses on every machine: none of its modules knows a clock."""
    folder = Path(cel.__file__).parent
    imported = {
        name.split(".")[0]
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }

    assert "tenuto" in imported
    assert imported & {"time", "signal", "sched", "asyncio", "faulthandler"} == set()


def test_data_as_deep_as_the_door_lets_through_is_no_danger() -> None:
    deep = "[" * 62 + "]" * 62
    evaluator = CelEvaluator({INPUT: f'{{"deep":{deep}}}'})

    assert evaluator.evaluate(condition("size(input.deep) == 1"), SCOPE) == Verdict(True)
    assert evaluator.evaluate(value("${input.deep}"), SCOPE) == Text(124, deep)
    too_deep = evaluator.evaluate(value("${[[[input.deep]]]}"), SCOPE)
    assert isinstance(too_deep, Fault)
    assert "nested deeper than 64 levels" in too_deep.message


# --- the same bytes everywhere ---------------------------------------------------------------------

PROBE = """
import json, sys
from tenuto.adapters import cel
from tenuto.adapters.cel import CelEvaluator
from tenuto.model.expressions import Expression, ExpressionKind, Scope
from tenuto.model.payload import PayloadKey, PayloadKind

key = PayloadKey("", PayloadKind.INPUT)
data = {name: {"n": index, name: [name]} for index, name in enumerate("zebra ant ox yak cat dog".split())}
evaluator = CelEvaluator({key: json.dumps(data)})
for text in ["${input}", "${{'z': 1, 'b': input.ox, 'a': input}}", "${[input.yak, {'q': 1, 'c': 2}]}",
             "x ${input.cat.n * 1.5}", "${input.ant == input.ox}"]:
    print(evaluator.evaluate(Expression(ExpressionKind.VALUE, json.dumps(text), ""), Scope(key, key)))
"""


@pytest.mark.rule("X8.1")
def test_twenty_processes_find_the_same_bytes() -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", PROBE],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            stdout=subprocess.PIPE,
        )
        for seed in range(20)
    ]
    printed = {child.communicate()[0] for child in children}

    assert all(child.returncode == 0 for child in children)
    assert len(printed) == 1
    assert printed.pop().count(b"Text(") == 5

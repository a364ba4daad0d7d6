"""What an expression reads beside input and nodes, and what it yields where no JSON is needed (SEMANTICS X1-X6)."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tenuto.adapters.cel import CelEvaluator
from tenuto.model.expressions import (
    Callee,
    Expression,
    ExpressionKind,
    Fault,
    ItemRef,
    Itself,
    Listed,
    Missing,
    Named,
    NodeView,
    Number,
    Page,
    Scope,
    Verdict,
)
from tenuto.model.ids import RUN_PLACE, Place
from tenuto.model.payload import PayloadKey, PayloadKind, Text

INPUT = PayloadKey(RUN_PLACE, PayloadKind.INPUT)
VARS = PayloadKey(RUN_PLACE, PayloadKind.VARS)
PARAMS = PayloadKey(RUN_PLACE, PayloadKind.PARAMS)
LIST = PayloadKey(Place("each"), PayloadKind.LIST)
PAGE = PayloadKey(Place("each[p0]"), PayloadKind.OUTPUT)
OUTPUT = PayloadKey(Place("w.1"), PayloadKind.OUTPUT)
ERROR = PayloadKey(Place("w.1"), PayloadKind.ERROR)
TEXTS = {
    INPUT: '{"hours":2,"list":[1,2,3],"name":"billing","page":5,"at":"2026-12-24T18:00:00Z"}',
    VARS: "{}",
    PARAMS: '{"who":"you"}',
    LIST: '["a","b",{"c":1},"d"]',
    PAGE: '{"items":[{"file":"x"},{"file":"y"}],"next":"cursor-1"}',
}
AT = datetime(2026, 11, 30, 1, 2, 3, 456789, tzinfo=UTC)
ITSELF = Itself(int(AT.timestamp()) * 1_000_000 + 456789, "run/back.2", "run/back.2")
KINDS = ExpressionKind
BARE = {KINDS.CONDITION, KINDS.ITEMS, KINDS.EVENT_ERROR}


def evaluated(text: object, kind: ExpressionKind = KINDS.VALUE, **scope: object) -> object:
    bare = isinstance(text, str) and kind in BARE
    expression = Expression(kind, str(text) if bare else json.dumps(text), "here")
    found = CelEvaluator(TEXTS).evaluate(expression, Scope(INPUT, VARS, **scope))  # type: ignore[arg-type]
    return (
        json.loads(found.text or "") if isinstance(found, Text) and kind is KINDS.VALUE else found
    )


def message_of(text: object, kind: ExpressionKind = KINDS.VALUE, **scope: object) -> str:
    found = evaluated(text, kind, **scope)
    assert isinstance(found, Fault), found
    assert found.code == "expression_error"
    return found.message


@pytest.mark.rule("X4.4")
@pytest.mark.parametrize(
    ("text", "ref", "value"),
    [
        ("${item}", ItemRef(LIST, 1), "b"),
        ("${item.c}", ItemRef(LIST, 2), 1),
        ("${item.c + 1}", ItemRef(LIST, 2), 2),
        ("${item}", ItemRef(LIST, 0, batch=3), ["a", "b", {"c": 1}]),
        ("${item}", ItemRef(LIST, 3, batch=3), ["d"]),
        ("${size(item)}", ItemRef(LIST, 3, batch=3), 1),
        ("${item.file}", ItemRef(PAGE, 1, paged=True), "y"),
        ("${item.map(i, i.file)}", ItemRef(PAGE, 0, batch=9, paged=True), ["x", "y"]),
        ("${item.who}", ItemRef(PARAMS, None), "you"),
        ("${item.?gone}", ItemRef(PARAMS, None), None),
    ],
)
def test_X4_an_item_is_found_in_its_list_its_page_or_alone(
    text: str, ref: ItemRef, value: object
) -> None:
    assert evaluated(text, item=ref) == value


def test_X4_the_other_roots_have_the_values_of_their_scope() -> None:
    assert evaluated("${index + 1}", index=0) == 1
    assert evaluated("Dear ${params.who}", params=PARAMS) == "Dear you"
    assert evaluated("${output.total}", output=Text(0, '{"total":7}')) == 7
    assert evaluated("event.ok", KINDS.CONDITION, event=Text(0, '{"ok":true}')) == Verdict(True)
    assert evaluated("has(event.gone)", KINDS.CONDITION, event=Text(0, "{}")) == Verdict(False)
    assert evaluated({"cursor": "${cursor}"}, cursor=PAGE) == {"cursor": "cursor-1"}
    assert evaluated({"cursor": "${cursor}"}) == {"cursor": None}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${item.x}", "item is read outside a foreach"),
        ("${item.x + 1}", "item is read outside a foreach"),
        ("${index}", "index is read outside a foreach"),
        ("${params.a}", "params is read outside an inline graph"),
        ("${event}", "event is read outside `match`"),
        ("${output.x}", "output is read outside the `output` of a call"),
        ("${node.callback_key}", "node is read where there is none"),
        ("${string(node.entered_at)}", "node is read where there is none"),
        ("${uuid('a')}", "`uuid` has no value here"),
        ("${node.entered_at}", "node is read where there is none"),
    ],
)
def test_X4_a_root_without_a_value_here_is_named(text: str, message: str) -> None:
    assert message in message_of(text)


@pytest.mark.rule("X6.1")
def test_X6_a_node_knows_when_it_was_entered_and_where_it_is_called_back() -> None:
    assert evaluated("${string(node.entered_at)}", itself=ITSELF) == "2026-11-30T01:02:03.456789Z"
    later = "${string(node.entered_at + duration('1h'))}"
    assert evaluated(later, itself=ITSELF) == "2026-11-30T02:02:03.456789Z"
    assert evaluated("${node.entered_at.getHours('+01:00')}", itself=ITSELF) == 2
    assert evaluated("${node.callback_key}", itself=ITSELF) == "run/back.2"
    assert evaluated("${uuid('a') == uuid('a')}", itself=ITSELF) is True
    assert "a timestamp, which JSON cannot hold" in message_of("${node.entered_at}", itself=ITSELF)


@pytest.mark.rule("X2.1")
def test_X4_the_callback_key_of_another_node_is_read() -> None:
    waits = NodeView("back", "pending", 0, callback_key="run/back")

    assert evaluated("${nodes.back.callback_key}", nodes=(waits,)) == "run/back"


@pytest.mark.parametrize(
    ("kind", "text", "outcome"),
    [
        (KINDS.NAME, "${input.name}@stable", Named("billing@stable")),
        (KINDS.DURATION, "${input.hours}h", Number(7_200_000_000)),
        (KINDS.DURATION, "${duration('90s')}", Number(90_000_000)),
        (KINDS.DURATION, "${timestamp(input.at) - timestamp('2026-12-24T17:00:00Z')}", Number(3_600_000_000)),
        (KINDS.INSTANT, "${input.at}", Number(1_798_135_200_000_000)),
        (KINDS.INSTANT, "${timestamp(input.at) + duration('1s')}", Number(1_798_135_201_000_000)),
        (KINDS.INSTANT, "${node.entered_at}", Number(ITSELF.entered_at)),
        (KINDS.COUNT, "${input.hours * 10}", Number(20)),
        (KINDS.COUNT, 5, Number(5)),
        (KINDS.TOLERANCE, "${input.page}%", Number(5, percent=True)),
        (KINDS.TOLERANCE, "${size(input.list)}", Number(3)),
        (KINDS.ITEMS, "input.list.filter(n, n > 1)", Listed(Text(5, "[2,3]"), 2)),
        (KINDS.ITEMS, "range(3)", Listed(Text(7, "[0,1,2]"), 3)),
        (KINDS.ITEMS, "input.list", Listed(Text(7, "[1,2,3]"), 3)),
    ],
)  # fmt: skip
def test_X1_what_is_computed_is_what_stands_there(
    kind: ExpressionKind, text: object, outcome: object
) -> None:
    assert evaluated(text, kind, itself=ITSELF) == outcome


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (KINDS.NAME, "${input.hours}", "the name is an int: a string is needed (here: "),
        (KINDS.NAME, "${secrets.X}", "a secret stands inside an object"),
        (KINDS.DURATION, "${input.hours}", "the duration is an int"),
        (KINDS.DURATION, "${timestamp(input.at)}", "the duration is a timestamp"),
        (KINDS.INSTANT, "${input.name}", "not an RFC 3339 time"),
        (KINDS.COUNT, "${input.hours / 4.0}", "the number is a double"),
        (KINDS.TOLERANCE, "${input.page * 100}%", "is no tolerance"),
        (KINDS.ITEMS, "input.?gone", "gave null, not a list"),
        (KINDS.ITEMS, "secrets.X", "a list cannot read a secret"),
        (KINDS.ITEMS, "[duration('1s')]", "the result[0] is a timedelta"),
    ],
)
def test_X1_X5_what_cannot_stand_there_is_an_expression_error(
    kind: ExpressionKind, text: str, message: str
) -> None:
    assert message in message_of(text, kind)


def test_a_failed_event_is_an_error_value_with_the_waiting_node() -> None:
    event = Text(0, '{"error":{"message":"declined","code":"card"}}')

    found = evaluated("back", KINDS.EVENT_ERROR, event=event)

    assert isinstance(found, Text)
    assert found.text == (
        '{"code":"card","details":{"code":"card","message":"declined"},'
        '"kind":"task","message":"declined","node":"back"}'
    )
    assert found.size == len(found.text)


# --- a pass that is over (C3) -----------------------------------------------------------------------

MAYBE = NodeView("w", "active", 1, OUTPUT, error=ERROR, maybe=True)


def maybe(text: str, texts: dict[PayloadKey, str], absent: frozenset[PayloadKey]) -> object:
    evaluator = CelEvaluator(texts, absent=absent)
    expression = Expression(KINDS.VALUE, json.dumps(text), "here")
    found = evaluator.evaluate(expression, Scope(INPUT, VARS, (MAYBE,)))
    return json.loads(found.text or "") if isinstance(found, Text) else found


@pytest.mark.rule("C3.6")
def test_C3_output_and_error_of_a_past_pass_are_there_if_their_payloads_are() -> None:
    text = "${[nodes.w.status, nodes.w.?output.orValue('-'), nodes.w.?error.orValue('-')]}"

    assert maybe(text, {}, frozenset()) == Missing(maybe=(OUTPUT, ERROR))
    assert maybe(text, {OUTPUT: "1"}, frozenset({ERROR})) == ["success", 1, "-"]
    assert maybe(text, {ERROR: "2"}, frozenset({OUTPUT})) == ["dead", "-", 2]
    assert maybe(text, {}, frozenset({OUTPUT, ERROR})) == ["active", "-", "-"]


# --- pages and callees ------------------------------------------------------------------------------


def test_a_page_is_looked_into() -> None:
    evaluator = CelEvaluator(TEXTS)

    assert evaluator.page(PAGE, {}) == Page(2, more=True)
    assert evaluator.page(PAGE, {PAGE: Text(0, '{"items":[1]}')}) == Page(1, more=False)
    assert evaluator.page(OUTPUT, {}) == Missing(payloads=(OUTPUT,))
    bad = evaluator.page(LIST, {})
    assert isinstance(bad, Fault)
    assert (bad.code, "the page is a list" in bad.message) == ("invalid_page", True)


def test_F6_a_callee_is_what_was_found_or_missing() -> None:
    callee = Callee("billing", 3, "hash", Text(2, "{}"), Text(2, "{}"))
    unknown = Fault("unknown_workflow", "no workflow has the name `x`")
    evaluator = CelEvaluator({}, callees={("billing@3", "{}"): callee, ("x", "{}"): unknown})

    assert evaluator.callee("billing@3", Text(2, "{}")) == callee
    assert evaluator.callee("x", Text(2, "{}")) == unknown
    assert evaluator.callee("billing", Text(2, "{}")) == Missing(callees=(("billing", "{}"),))


# --- lists that macros make -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("input.many.map(n, n)", "reads a list of 2,001 elements: `map`, `filter` and `sortBy` take 2,000"),
        ("input.deep[0].filter(n, n > 1)", "reads a list of 2,001 elements"),
        ("range(2001).map(n, n)", "`range` gives 2,001 numbers: at most 2,000 are allowed here"),
        ("input.many.exists(n, n > 1)", ""),
        ("input.many[7] + size(input.many)", ""),
        ("range(2001)[2000]", ""),
        ("input.many.sort()[0]", ""),
        ("input.few.map(n, n)", ""),
        ("cel.bind(many, input.many, size(many))", ""),
    ],
)  # fmt: skip
def test_a_macro_makes_no_list_that_takes_the_memory_of_the_process(
    text: str, message: str
) -> None:
    many = list(range(2_001))
    data = {"many": many, "few": many[:2_000], "deep": [many], "pad": "x" * 4_000}
    texts = {INPUT: json.dumps(data)}
    expression = Expression(KINDS.VALUE, json.dumps(f"${{{text}}}"), "here")

    found = CelEvaluator(texts).evaluate(expression, Scope(INPUT, VARS))

    assert isinstance(found, Fault if message else Text), found
    assert not isinstance(found, Fault) or message in found.message

"""`output` is warned of what it may not find after a success, and of nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.dsl.cases import LOOP, NODES, PAIR, TWO

from tenuto.adapters.cel import CelParser
from tenuto.dsl import certain
from tenuto.dsl.compile import load

PARSER = CelParser()

BRANCH = (
    NODES + "  s: {type: switch}\n  x: {type: task, task: t}\n  y: {type: task, task: t}\n"
    "  z: {type: task, task: t, needs: [x, y]}\nedges:\n"
    "  - {from: s, to: x, when: input.big}\n  - {from: s, to: y, else: true}\n"
)
FAILS = BRANCH.replace("y: {type: task, task: t}", "y: {type: fail, code: c}").replace(
    "[x, y]", "x"
)
REPAIRED = PAIR + "  c: {type: task, task: t, needs: b}\n  r: {type: task, task: t}\nedges:\n"
TIMELESS = "type: wait_for_event, event: e"
RACE = TWO + "  j: {type: join, join: any, needs: [a, b]}\n"


def warned(text: str, output: str) -> list[str]:
    """Messages of the finding."""
    loaded = load(f"{text}output: {output}\n", file="a.yaml", parser=PARSER)
    assert loaded.graph is not None, loaded.findings
    return [found.message for found in loaded.findings if found.code == "unguarded_output"]


@pytest.mark.parametrize(
    ("text", "node", "when"),
    [
        (BRANCH, "x", "when `s` leads to `y`"),
        (BRANCH, "y", "not every way leads to it"),
        (PAIR.replace("needs: a", "needs: a, optional: true"), "b", "when `b` fails"),
        (REPAIRED + "  - {from: a, to: r, on: failure}\n", "a", "when `a` fails"),
        (REPAIRED + "  - {from: a, to: r, on: failure}\n", "c", "when `a` fails"),
        (REPAIRED + "  - {from: a, to: r, on: failure}\n", "r", "not every way leads to it"),
        (TWO + "edges:\n  - {from: a, to: b, when: input.x}\n", "b", "when `a -> b` is not taken"),
        (RACE, "a", "when `a` fails"),
        (RACE.replace("any,", "any, cancel_losers: true,"), "a", "when `j` acts before it is done"),
        (TWO + "  e: {type: end, needs: a}\n", "b", "when `e` ends the run first"),
    ],
)
def test_an_output_that_a_success_may_lack_is_warned_of(text: str, node: str, when: str) -> None:
    assert warned(text, f'"${{nodes.{node}.output}}"') == [
        f"`{node}` may have no output although the run succeeds: {when}"
    ]


@pytest.mark.parametrize(
    ("keys", "may_fail"),
    [
        ("type: call, call: w", True),
        ("type: foreach, over: input.l, task: t", True),
        (f"{TIMELESS}, timeout: 1s", True),
        (f"{TIMELESS}, heartbeat_timeout: 1s", True),
        (f"{TIMELESS}, fail_when: event.x", True),
        (TIMELESS, False),
        ("type: emit, event: e, key: k", False),
    ],
)
def test_what_may_fail_in_a_race_may_have_no_output(keys: str, may_fail: bool) -> None:
    text = RACE.replace("a: {type: task, task: t}", f"a: {{{keys}}}")

    assert bool(warned(text, '"${nodes.a.output}"')) is may_fail


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_else_is_not_taken_beside_the_condition_wherever_it_stands(order: tuple[int, int]) -> None:
    edges = ("when: \"error.code == 'x'\"", "else: true")
    text = (
        TWO.replace("b:", "r:")
        + "  e: {type: fail, code: c}\nedges:\n"
        + "".join(f"  - {{from: a, to: {'re'[n]}, on: failure, {edges[n]}}}\n" for n in order)
    )

    assert warned(text, '"${nodes.a.output}"') == [
        "`a` may have no output although the run succeeds: when `a` fails"
    ]


@pytest.mark.parametrize(
    ("text", "node"),
    [
        (PAIR, "a"),
        (PAIR, "b"),
        (BRANCH, "s"),
        (BRANCH, "z"),  # both branches lead to it
        (FAILS, "x"),  # the other one fails the run
        (FAILS, "z"),
        (REPAIRED + "  - {from: a, to: c, on: failure}\n", "c"),
        (TWO + "edges:\n  - {from: a, to: b, on: always}\n", "a"),
        (RACE, "j"),
        (TWO + "  e: {type: end, needs: a, output: 1}\n", "b"),
        (LOOP, "h"),
        (LOOP, "z"),
        (
            TWO + "  f: {type: fail, code: c}\nedges:\n  - {from: a, to: f, on: failure}\n",
            "a",
        ),
    ],
)
def test_an_output_that_every_success_has_is_not(text: str, node: str) -> None:
    assert warned(text, f'"${{nodes.{node}.output}}"') == []


@pytest.mark.parametrize(
    "output",
    [
        "nodes.x.?output.orValue(null)",
        "has(nodes.x.output) ? nodes.x.output : 1",
        "nodes.x.status == 'success' ? nodes.x.output : 1",
        "input.big ? nodes.x.output : nodes.y.output",
        "nodes.x.status",
    ],
)
def test_a_guard_of_any_kind_is_enough(output: str) -> None:
    assert warned(BRANCH, f'"${{{output}}}"') == []


def test_of_a_large_graph_only_so_many_ways_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, edges = [NODES], []
    for n in range(500):
        needs = f", needs: z{n - 1}" if n else ""
        parts.append(
            f"  s{n}: {{type: switch{needs}}}\n  x{n}: {{type: task, task: t}}\n"
            f"  y{n}: {{type: task, task: t}}\n  z{n}: {{type: task, task: t, needs: [x{n}, y{n}]}}\n"
        )
        edges.append(
            f"  - {{from: s{n}, to: x{n}, when: input.x}}\n  - {{from: s{n}, to: y{n}, else: true}}\n"
        )
    ways: list[object] = []
    real = certain._Way

    def counted(*given: Any) -> Any:
        ways.append(given)
        return real(*given)

    monkeypatch.setattr(certain, "_Way", counted)

    found = warned(
        "".join([*parts, "edges:\n", *edges]),
        '{a: "${nodes.z499.output}", b: "${nodes.y7.output}"}',
    )

    assert [message.partition(" ")[0] for message in found] == ["`y7`"]
    assert 1 < len(ways) <= 50

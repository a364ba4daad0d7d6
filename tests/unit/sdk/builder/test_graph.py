"""Graphs that stand in `do`, and what of the language has no other place to be tried."""

from __future__ import annotations

import datetime as dt
import inspect
from typing import Any

import pytest
from tests.unit.sdk.builder.test_workflow import hash_of

from tenuto import Graph, InvalidDefinition, Step, Workflow


def line_here() -> int:
    """The number of the line that calls."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


TRIP = """
name: trip
vars: {api: "http://127.0.0.1:1"}
closing_timeout: 2h
defaults: {retry: {rules: [{on: [timeout, http.5xx, ConnectionError], max_attempts: 5}], give_up_on: http.4xx}}
nodes:
  hotel:
    type: http
    request: {method: POST, url: "${vars.api + '/hotel'}"}
    timeout: "${input.patience}"
    compensate:
      type: http
      when: started
      request: {method: DELETE, url: "${vars.api + '/hotel/' + nodes.hotel.output.body.id}"}
  legs:
    type: foreach
    over: input.legs
    concurrency: "${input.many}"
    tolerate: 5%
    params: {leg: "${item}", n: "${index}"}
    do:
      nodes:
        seat: {type: task, task: "${params.leg.task}", params: "${params.leg.params}"}
        paid:
          type: wait_for_event
          event: paid
          match: event.leg == params.n
          fail_when: has(event.error)
          heartbeat_timeout: 1m
        ask: {type: emit, event: ask, key: "${nodes.paid.callback_key}", keep: 1d}
      edges: [ask -> paid, paid -> seat]
      output: "${nodes.seat.output}"
    compensate: {type: call, call: back@stable, input: {failed: "${nodes.legs.failures}"}}
  mail: {type: call, call: mail, wait: false, input: {items: "${nodes.legs.items}"}, needs: legs}
edges:
  - {from: hotel, to: legs}
on_failure: {type: task, task: ops.alert, params: {error: "${error}"}}
output: {legs: "${nodes.legs.output}"}
"""


def trip() -> Workflow:
    wf = Workflow(
        "trip",
        vars={"api": "http://127.0.0.1:1"},
        closing_timeout=dt.timedelta(hours=2),
        defaults={
            "retry": {
                "rules": [{"on": ["timeout", "http.5xx", ConnectionError], "max_attempts": 5}],
                "give_up_on": "http.4xx",
            }
        },
    )
    with Graph() as leg:
        seat = leg.task("seat", leg.params.leg.task, params=leg.params.leg.params)
        paid = leg.wait_for_event(
            "paid",
            "paid",
            match="event.leg == params.n",
            fail_when="has(event.error)",
            heartbeat_timeout=dt.timedelta(minutes=1),
        )
        ask = leg.emit("ask", "ask", key=paid.callback_key, keep="1d")
        ask >> paid >> seat
        leg.output = seat.output
    with wf:
        hotel = wf.http(
            "hotel",
            request={"method": "POST", "url": "${vars.api + '/hotel'}"},
            timeout=wf.input.patience,
        )
        undo = "${vars.api + '/hotel/' + nodes.hotel.output.body.id}"
        hotel.compensate(Step.http(request={"method": "DELETE", "url": undo}), when="started")
        legs = wf.foreach(
            "legs",
            over=wf.input.legs,
            concurrency=wf.input.many,
            tolerate="5%",
            params={"leg": wf.item, "n": wf.index},
            do=leg,
        )
        legs.compensate(Step.call("back@stable", input={"failed": legs.failures}))
        wf.call("mail", "mail", wait=False, input={"items": legs.items}, needs=legs)
        hotel >> legs
        wf.on_failure = Step.task("ops.alert", params={"error": wf.error})
        wf.output = {"legs": legs.output}
    return wf


def test_a_trip_built_in_python_is_its_yaml() -> None:
    assert hash_of(trip().to_yaml()) == hash_of(TRIP)
    assert hash_of(Workflow.from_yaml(TRIP).to_yaml()) == hash_of(TRIP)
    assert Workflow.from_yaml(TRIP).on_failure["task"] == "ops.alert"


def test_what_stands_in_a_node_has_lines_of_its_own_in_the_text_for_people() -> None:
    wf = Workflow("w")
    with Graph() as body:
        body.fork("a") >> body.set("b", {"n": 1})
    wf.foreach("each", over="[1]", do=body)

    assert wf.to_yaml().splitlines()[3:] == [
        "  each:",
        "    type: foreach",
        '    over: "[1]"',
        "    do:",
        "      nodes:",
        "        a: {type: fork}",
        "        b: {type: set, values: {n: 1}}",
        "      edges:",
        "        - a -> b",
    ]


def test_findings_inside_stand_where_the_inner_node_edge_or_step_was_made() -> None:
    wf, lines = Workflow("w"), {}
    with Graph() as body:
        a = body.task("a", "t", timeout="soon"); lines["a"] = line_here()  # noqa: E702  # fmt: skip
        b = body.task("b", "t", params={"x": "${nodes.outer.output}"}); lines["b"] = line_here()  # noqa: E702  # fmt: skip
        a.when("nodes.c.output") >> b; lines["a -> b"] = line_here()  # noqa: E702  # fmt: skip
    outer = wf.task("outer", "t")
    each = wf.foreach("each", over="[1]", do=body, tolerate="5 of them"); lines["each"] = line_here()  # noqa: E702  # fmt: skip
    outer >> each
    undo = Step.task("t", params={"x": "${nodes.nowhere.output}"}); lines["undo"] = line_here()  # noqa: E702  # fmt: skip
    each.compensate(undo)
    wf.on_failure = Step.task("t", queue="no queue!"); lines["last"] = line_here()  # noqa: E702  # fmt: skip

    found = {(f.code, f.line) for f in wf.validate() if f.file.endswith("test_graph.py")}

    assert found >= {
        ("bad_duration", lines["a"]),
        ("outer_node", lines["b"]),
        ("unknown_reference", lines["a -> b"]),
        ("bad_value", lines["each"]),
        ("unknown_reference", lines["undo"]),
        ("bad_value", lines["last"]),
    }


def test_a_graph_is_finished_before_it_is_used_and_may_be_used_again() -> None:
    wf = Workflow("w")
    with Graph() as body:
        a = body.fork("a")
    used = line_here() + 1
    wf.call("one", do=body)
    wf.call("two", do=body)
    late: list[Any] = [
        lambda: body.fork("b"),
        lambda: a >> a,
        lambda: a.compensate(Step.task("t")),
        lambda: setattr(body, "output", 1),
    ]

    for change in late:
        with pytest.raises(InvalidDefinition, match=rf"in use since .*test_graph.py:{used}, and"):
            change()
    nodes = wf.to_dict()["nodes"]
    assert (
        nodes["one"] == nodes["two"] == {"type": "call", "do": {"nodes": {"a": {"type": "fork"}}}}
    )


def test_a_graph_with_an_end_that_leads_nowhere_is_not_used() -> None:
    body = Graph(output={"n": 1})
    body.fork("a").when("true")

    with pytest.raises(InvalidDefinition, match="leads nowhere"):
        Workflow("w").call("c", do=body)
    assert repr(body) == "<graph: 1 nodes>"
    assert body.output == {"n": 1}


def test_loops_say_how_many_passes_are_kept_and_nodes_what_became_of_them() -> None:
    wf = Workflow("w")
    a, b = wf.task("a", "t"), wf.task("b", "t")
    a >> b
    b.loop(back_to=a, max=9, keep=2)
    wf.set("c", {"all": a.iterations, "key": wf["b"].callback_key})

    assert wf.to_dict()["edges"][1] == {"from": "b", "to": "a", "loop": {"max": 9, "keep": 2}}
    assert wf.to_dict()["nodes"]["c"]["values"] == {
        "all": "${nodes.a.iterations}",
        "key": "${nodes.b.callback_key}",
    }

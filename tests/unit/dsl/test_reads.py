"""SEMANTICS X2, X3, X4, X9: what an expression may read from where it stands. What it may not is in test_findings."""

from __future__ import annotations

import pytest

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import load

PARSER = CelParser()

# An outer loop of o..p with an inner loop of h..s; y runs beside x inside the inner one; z comes after all.
NESTED = """
name: a
nodes:
  o: {{type: set, values: {{v: {o}}}}}
  h: {{type: set, needs: o, values: {{v: {h}}}}}
  x: {{type: set, needs: h, values: {{v: {x}}}}}
  y: {{type: set, needs: h, values: {{v: {y}}}}}
  s: {{type: switch, needs: [x, y]}}
  p: {{type: switch}}
  z: {{type: set, values: {{v: {z}}}}}
edges:
  - {{from: s, to: h, when: {s}, loop: {{max: 5}}}}
  - {{from: s, to: p, else: true}}
  - {{from: p, to: o, when: {p}, loop: {{max: 5}}}}
  - {{from: p, to: z, else: true}}
output: {output}
"""
NOTHING = dict.fromkeys("ohxyz", "1") | {"s": "input.b", "p": "input.b", "output": "1"}


def codes_of(where: str, expression: str) -> list[str]:
    bare = where in "sp"
    text = NESTED.format(**NOTHING | {where: f"'{expression}'" if bare else f'"${{{expression}}}"'})
    loaded = load(text, file="a.yaml", parser=PARSER)
    codes = [finding.code for finding in loaded.findings]
    if codes:
        line = text.splitlines()[loaded.findings[0].line - 1]
        assert line[loaded.findings[0].column - 1 :].startswith(("nodes", "iteration", "error"))
    return codes


@pytest.mark.rule("X2.1", "X2.4", "X3.5", "X4.3", "X4.6")
@pytest.mark.parametrize(
    ("where", "expression"),
    [
        ("h", "nodes.o.output"),  # X2: a forward ancestor
        ("x", "nodes.o.output"),
        ("z", "nodes.x.output"),  # X3: no common loop, last record
        ("z", "nodes.o.output"),
        ("s", "nodes.x.output == 1"),  # X2: a `when` reads what its source may read
        ("s", 'nodes.s.status == "success"'),  # X2: and the source itself, as it just ended
        ("p", 'nodes.s.status == "success"'),
        ("h", "nodes.h.?output"),  # X3: itself, in the previous pass
        ("h", "nodes.s.?status"),  # X3: what comes after it, in the previous pass
        ("x", "nodes.s.?status"),
        ("x", "iteration == 1 ? 0 : nodes.x.output.v"),
        ("x", "has(nodes.x.output) ? 1 : 0"),
        ("o", "nodes.p.?status"),  # X3: of the outer loop
        ("o", "nodes.x.?output"),
        ("o", "iteration"),
        ("x", "iteration"),
        ("x", "nodes.o.iteration"),  # X4: of the loop around
        ("x", "nodes.h.iteration"),
        ("h", "nodes.h.iteration"),
        ("s", "iteration < 3"),
        ("p", "nodes.o.iteration < 3"),
        ("x", "error"),  # X4: null where no failure led here
        ("output", "nodes.x.?output"),  # X4: the output reads every node
        ("output", "nodes.o.?error"),
    ],
)
def test_what_may_be_read(where: str, expression: str) -> None:
    assert codes_of(where, expression) == []


@pytest.mark.rule("X2.1", "X2.4", "X3.3", "X3.4", "X3.5", "X4.1", "X4.3")
@pytest.mark.parametrize(
    ("where", "expression", "code"),
    [
        ("h", "nodes.z.?output", "not_upstream"),
        ("o", "nodes.z.?output", "not_upstream"),
        ("z", "nodes.z.?output", "not_upstream"),
        ("x", "nodes.y.?output", "racy_reference"),  # beside it in the loop
        ("y", "nodes.x.?output", "racy_reference"),
        (
            "s",
            "nodes.h.output.v == 1 && nodes.p.?output.orValue(1) == 1",
            "racy_reference",
        ),  # no previous pass
        ("h", "nodes.h.output", "unguarded_previous_pass"),
        ("h", "nodes.x.status", "unguarded_previous_pass"),
        ("o", "nodes.x.output", "unguarded_previous_pass"),
        ("o", "nodes.h.iteration", "not_in_loop"),  # the header of a loop that is not around
        ("x", "nodes.x.iteration", "not_in_loop"),
        ("z", "iteration", "not_in_loop"),
        ("z", "nodes.o.iteration", "not_in_loop"),
        ("output", "iteration", "not_in_loop"),
        ("output", "error", "error_not_here"),
        ("s", "error == null", "error_not_here"),
    ],
)
def test_what_may_not(where: str, expression: str, code: str) -> None:
    assert codes_of(where, expression) == [code]


# A loop of h and s with a wait w and a foreach e in it; z comes after. The graphs in c and f see nothing of it.
LOOPED = """
name: a
nodes:
  h: {{type: set, values: {{v: {h}}}}}
  w: {{type: wait_for_event, needs: h, event: e, match: {match}}}
  e:
    type: foreach
    needs: w
    over: input.l
    task: t
    params: {{v: {e}}}
    compensate: {{type: task, task: u, params: {{v: {undo}}}}}
  s: {{type: switch, needs: e}}
  z: {{type: set, values: {{v: {z}}}}}
  c: {{type: call, needs: z, call: x, input: {{v: {c}}}, output: {{v: {call_output}}}}}
  d: {{type: call, needs: c, do: {{nodes: {{h: {{type: set, values: {{v: {call_do}}}}}}}, output: {{v: {do_output}}}}}}}
  f:
    type: foreach
    needs: d
    over: input.l
    params: {{v: {f}}}
    do:
      nodes:
        h: {{type: set, values: {{v: {each_do}}}}}
        g: {{type: call, needs: h, do: {{type: set, values: {{v: {deep}}}}}}}
edges:
  - {{from: s, to: h, when: input.b, loop: {{max: 5, keep: 2}}}}
  - {{from: s, to: z, else: true}}
on_failure: {{type: task, task: t, params: {{v: {on_failure}}}}}
output: {output}
"""
PLACES = ("h", "e", "undo", "z", "c", "call_output", "call_do", "do_output", "f", "each_do", "deep")
PLAIN = dict.fromkeys((*PLACES, "on_failure", "output"), "1") | {"match": "'true'"}


def looped(where: str, expression: str) -> list[str]:
    shown = f"'{expression}'" if where == "match" else f'"${{{expression}}}"'
    loaded = load(LOOPED.format(**PLAIN | {where: shown}), file="a.yaml", parser=PARSER)
    return [finding.code for finding in loaded.findings if finding.code != "unguarded_output"]


@pytest.mark.rule("C3.6", "X4.4", "X4.5", "X4.6", "W1.1")
@pytest.mark.parametrize(
    ("where", "expression"),
    [
        ("h", "nodes.w.callback_key"),  # X4: every loop around the wait holds the reader
        ("match", "event.id == nodes.h.output.v"),
        ("match", "node.callback_key == event.key"),
        ("e", "[item, index, iteration, nodes.w.output]"),
        ("e", "node.entered_at"),
        ("e", "uuid('x')"),
        ("undo", "nodes.e.output"),  # C3: itself, its loop-mates, and what comes after
        ("undo", "nodes.e.failures"),
        ("undo", "nodes.s.status"),
        ("undo", "nodes.z.output"),
        ("undo", "[iteration, nodes.h.iteration]"),
        ("undo", "error"),
        ("undo", "node.entered_at"),
        ("z", "nodes.e.failures"),
        ("z", "nodes.e.items"),
        ("z", "nodes.h.iterations"),  # L5: outside the loop
        ("z", "nodes.e.iterations"),
        ("call_output", "[output.total, nodes.z.output]"),
        ("call_do", "[input, vars, params]"),
        ("do_output", "[nodes.h.output, params, input]"),
        ("f", "[item.x, index, nodes.z.output]"),
        ("each_do", "[item.x, index, params.v]"),
        ("deep", "[item.x, index, params]"),  # the item goes down with the child
        ("on_failure", "[error.code, nodes.h.status, nodes.z.status]"),  # X4: every node
        ("on_failure", "nodes.h.iterations"),
        ("output", "nodes.e.items"),
        ("output", "nodes.h.iterations"),
    ],
)
def test_what_may_be_read_beside_nodes(where: str, expression: str) -> None:
    assert looped(where, expression) == []


@pytest.mark.rule("L5.3", "X4.2", "X4.4", "X4.5", "W1.1")
@pytest.mark.parametrize(
    ("where", "expression", "code"),
    [
        ("z", "nodes.w.callback_key", "callback_key_outside_loop"),
        ("on_failure", "nodes.w.callback_key", "callback_key_outside_loop"),
        ("output", "nodes.w.callback_key", "callback_key_outside_loop"),
        ("h", "event", "name_not_here"),
        ("h", "item", "not_in_foreach"),
        ("undo", "item", "not_in_foreach"),
        ("undo", "nodes.h.iterations", "iterations_inside_loop"),
        ("e", "nodes.h.iterations", "iterations_inside_loop"),
        ("c", "nodes.z.iterations", "not_in_loop"),
        ("c", "output", "name_not_here"),
        ("c", "params", "name_not_here"),
        ("call_output", "item", "not_in_foreach"),
        ("call_do", "iteration", "not_in_loop"),
        ("call_do", "nodes.z.output", "outer_node"),
        ("call_do", "nodes.zz.output", "unknown_reference"),
        ("call_do", "item", "not_in_foreach"),
        ("do_output", "error", "error_not_here"),
        ("each_do", "nodes.z.output", "outer_node"),
        ("deep", "nodes.h.output", "outer_node"),
        ("on_failure", "iteration", "not_in_loop"),
        ("on_failure", "item", "not_in_foreach"),
        ("on_failure", "node.callback_key", "field_not_here"),
        ("output", "node.entered_at", "name_not_here"),
    ],
)
def test_what_may_not_beside_nodes(where: str, expression: str, code: str) -> None:
    assert looped(where, expression) == [code]


@pytest.mark.rule("X4.5")
def test_x4_a_callback_key_may_be_read_before_its_wait_runs() -> None:
    text = (
        "name: a\nnodes:\n  a: {type: http, request: {url: 'http://a', json: {to: \"${nodes.w.callback_key}\"}}}\n"
        "  w: {type: wait_for_event, event: e, needs: a}\n"
    )

    assert load(text, file="a.yaml", parser=PARSER).findings == ()


def test_findings_in_a_graph_of_do_name_their_path_and_stand_at_their_lines() -> None:
    text = (
        "name: a\nnodes:\n  c:\n    type: call\n    do:\n      nodes:\n        x: {type: fork}\n"
        "        y: {type: fork, needs: [x, x]}\n"
    )

    (finding,) = load(text, file="a.yaml", parser=PARSER).findings

    assert (finding.code, finding.line, finding.column) == ("duplicate_edge", 8, 36)
    assert finding.message == "in `nodes.c.do`: the edge `x → y` is there twice"


@pytest.mark.rule("X4.1")
@pytest.mark.parametrize("on", ["failure", "always"])
def test_x4_error_is_read_in_conditions_of_failure_and_always_edges(on: str) -> None:
    text = (
        "name: a\nnodes: {a: {type: task, task: t}, b: {type: task, task: t}}\nedges:\n"
        f"  - {{from: a, to: b, on: {on}, when: 'error != null'}}\n"
    )

    loaded = load(text, file="a.yaml", parser=PARSER)

    assert [f.code for f in loaded.findings if f.code == "error_not_here"] == []


@pytest.mark.rule("X9.1")
@pytest.mark.parametrize(
    "request_",
    [
        'headers: {a: "Bearer ${secrets.T}"}',
        'auth: {bearer: "${secrets.T}"}',
        'json: {a: ["${secrets.T}"]}',
        'form: {a: "${secrets.T}"}',
        'body: "${secrets.T}"',
    ],
)
def test_x9_secrets_stand_in_headers_auth_and_body(request_: str) -> None:
    text = f"name: a\nnodes: {{a: {{type: http, request: {{url: 'http://a', {request_}}}}}}}\n"

    assert load(text, file="a.yaml", parser=PARSER).findings == ()


@pytest.mark.rule("X9.1")
@pytest.mark.parametrize("request_", ['query: {a: "${secrets.T}"}', 'method: "${secrets.T}"'])
def test_x9_secrets_stand_nowhere_else(request_: str) -> None:
    text = f"name: a\nnodes: {{a: {{type: http, request: {{url: 'http://a', {request_}}}}}}}\n"

    codes = [finding.code for finding in load(text, file="a.yaml", parser=PARSER).findings]

    assert codes == ["secret_not_allowed"]

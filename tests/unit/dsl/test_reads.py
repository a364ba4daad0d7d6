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


@pytest.mark.parametrize("on", ["failure", "always"])
def test_x4_error_is_read_in_conditions_of_failure_and_always_edges(on: str) -> None:
    text = (
        "name: a\nnodes: {a: {type: task, task: t}, b: {type: task, task: t}}\nedges:\n"
        f"  - {{from: a, to: b, on: {on}, when: 'error != null'}}\n"
    )

    loaded = load(text, file="a.yaml", parser=PARSER)

    assert [f.code for f in loaded.findings if f.code == "error_not_here"] == []


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


@pytest.mark.parametrize("request_", ['query: {a: "${secrets.T}"}', 'method: "${secrets.T}"'])
def test_x9_secrets_stand_nowhere_else(request_: str) -> None:
    text = f"name: a\nnodes: {{a: {{type: http, request: {{url: 'http://a', {request_}}}}}}}\n"

    codes = [finding.code for finding in load(text, file="a.yaml", parser=PARSER).findings]

    assert codes == ["secret_not_allowed"]

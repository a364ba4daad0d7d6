"""The smallest file for every finding. `⟦` stands before the place that it must name, and is no part of the file."""

from __future__ import annotations

HERE = "⟦"

NODES = "name: a\nnodes:\n"
ONE = NODES + "  a: {type: fork}\n"
TASK = NODES + "  a: {type: task, task: t}\n"
TWO = NODES + "  a: {type: task, task: t}\n  b: {type: task, task: t}\n"
PAIR = NODES + "  a: {type: task, task: t}\n  b: {type: task, task: t, needs: a}\n"
SWITCH = NODES + "  s: {type: switch}\n  a: {type: fork}\n  b: {type: fork}\nedges:\n"
# A loop of `h` and `b`, left to `z`.
LOOP = (
    NODES
    + "  h: {type: task, task: t}\n  b: {type: switch, needs: h}\n  z: {type: fork}\nedges:\n"
    + '  - {from: b, to: h, when: "nodes.h.output.again", loop: {max: 9}}\n'
    + "  - {from: b, to: z, else: true}\n"
)


# Ten times ten times ten …: the sixth line is the one that goes too far.
LAUGHS = (
    "x-a: &a [1,1,1,1,1,1,1,1,1,1]\nx-b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
    "x-c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nx-d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
    "x-e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nx-f: [*e,*e,*e,⟦*e,*e,*e,*e,*e,*e,*e]\n"
)


# Join n races for 2n nodes: that makes a million at the thousandth.
LADDER = (
    NODES
    + "  s: {type: fork}\n  j0: {type: fork, needs: s}\n"
    + "".join(
        f"  x{n}: {{type: task, task: t, needs: s}}\n"
        f"  {HERE if n == 1_000 else ''}j{n}: {{type: join, join: any, needs: [j{n - 1}, x{n}]}}\n"
        for n in range(1, 1_002)
    )
)


def params(expression: str) -> str:
    """A pair of nodes of which the second reads something."""
    return TASK + f'  b: {{type: task, task: t, needs: a, params: {{x: "${{{expression}}}"}}}}\n'


def task(keys: str) -> str:
    """One task with more keys."""
    return NODES + f"  a: {{type: task, task: t, {keys}}}\n"


def http(request: str) -> str:
    """One http node."""
    return NODES + f"  a: {{type: http, request: {{{request}}}}}\n"


def code(text: str, language: str = "python") -> str:
    """One code node with a block of code."""
    lines = "".join(f"      {line}\n" if line else "\n" for line in text.split("\n"))
    return NODES + f"  a:\n    type: code\n    language: {language}\n    code: |\n{lines}"


MAIN = "\ndef main(params):\n  pass"

CASES: list[tuple[str, str]] = [
    # --- the text ---
    ("too_large", "⟦# " + "x" * 1_048_576),
    ("syntax", "name: a\nnodes:\n⟦\ta: 1\n"),
    ("syntax", "name: ⟦@a\n"),
    ("syntax", "name: a\nnodes: {a: [⟦}\n"),
    ("syntax", "name: a⟦: b\n"),
    ("syntax", "name: a\n⟦---\nname: b\n"),
    ("syntax", "⟦"),
    ("syntax", "⟦# nothing but a comment\n"),
    ("syntax", "name: a⟦\x00b\n"),
    ("syntax", 'name: "a\\u⟦d800"\n'),
    ("too_deep", "x-a: " + "[" * 63 + "⟦[" + "]" * 64),
    ("too_deep", "x-a: &a " + "[" * 40 + "]" * 40 + "\nx-b: " + "[" * 30 + "⟦*a" + "]" * 30),
    (
        "alias_bomb",
        "x-a: &a " + "x" * 300_000 + "\nx-b: [*a, *a, *a, ⟦*a]\n",
    ),
    ("alias_bomb", LAUGHS),
    ("bad_alias", ONE + "x-a: ⟦*b\n"),
    ("bad_alias", ONE + "x-a: &a [⟦*a]\n"),
    ("merge_key", ONE + "x-a: {⟦<<: {b: 1}}\n"),
    ("tag", ONE + "x-a: ⟦!!python/object:os.system x\n"),
    ("key_not_text", task("params: {⟦1: x}")),
    ("key_not_text", task("params: {⟦[a]: x}")),
    ("key_not_text", task("params: {⟦true: x}")),
    ("duplicate_key", "name: a\nnodes:\n  a: {type: fork}\n  ⟦a: {type: fork}\n"),
    ("number_range", task("params: {x: ⟦9223372036854775808}")),
    ("number_range", task("params: {x: ⟦.inf}")),
    ("number_range", task("params: {x: ⟦1e999}")),
    ("number_range", task("params: {x: ⟦" + "9" * 5_000 + "}")),
    # --- keys and values ---
    ("unknown_key", task("⟦tiemout: 1s")),
    ("unknown_key", ONE + "⟦nods: 1\n"),
    ("unknown_key", TWO + "edges:\n  - {from: a, to: b, ⟦wehn: x}\n"),
    ("unknown_key", http("url: 'http://a', ⟦hedaers: {}")),
    ("unknown_key", TASK + "defaults: {⟦timout: 1s}\n"),
    ("missing_key", "⟦nodes: {a: {type: fork}}\n"),
    ("missing_key", "⟦name: a\n"),
    ("missing_key", NODES + "  ⟦a: {type: task}\n"),
    ("missing_key", NODES + "  ⟦a: {}\n"),
    ("missing_key", NODES + "  a: {type: http, ⟦request: {method: GET}}\n"),
    ("missing_key", NODES + "  ⟦a: {type: http}\n"),
    ("missing_key", NODES + "  ⟦a: {type: wait}\n"),
    ("missing_key", NODES + "  ⟦a: {type: wait_for_event, key: e}\n"),
    ("missing_key", NODES + "  ⟦a: {type: set}\n"),
    ("missing_key", NODES + "  ⟦a: {type: fail}\n"),
    ("missing_key", TWO + "edges:\n  - ⟦{to: b}\n"),
    ("missing_key", TWO + "edges:\n  - {from: a, to: b, ⟦loop: {}}\n"),
    ("missing_key", http("url: 'http://a', auth: {⟦basic: {username: u}}")),
    ("key_not_allowed", NODES + "  a: {type: fork, ⟦queue: q}\n"),
    ("key_not_allowed", NODES + "  a: {type: switch, ⟦optional: true}\n"),
    ("key_not_allowed", http("url: 'http://a', json: 1, ⟦body: x")),
    ("wrong_type", "⟦just text\n"),
    ("wrong_type", "name: ⟦7\nnodes: {a: {type: fork}}\n"),
    ("wrong_type", "name: a\nnodes: ⟦[a]\n"),
    ("wrong_type", "name: a\n⟦nodes:\n"),
    ("wrong_type", NODES + "  a: ⟦task\n"),
    ("wrong_type", NODES + "  ⟦a:\n"),
    ("wrong_type", ONE + "edges: ⟦a -> b\n"),
    ("wrong_type", ONE + "description: ⟦[a]\n"),
    ("wrong_type", ONE + "input: ⟦text\n"),
    ("wrong_type", ONE + "vars: ⟦[1]\n"),
    ("wrong_type", NODES + "  a: {type: ⟦7}\n"),
    ("wrong_type", NODES + "  a: {type: fork, needs: ⟦{b: c}}\n"),
    ("wrong_type", NODES + "  a: {type: fork, needs: [⟦7]}\n"),
    ("wrong_type", task("params: ⟦[1]")),
    ("wrong_type", task("retry: ⟦3")),
    ("wrong_type", task("retry: {max_attempts: ⟦three}")),
    ("wrong_type", task("retry: {max_attempts: ⟦1.5}")),
    ("wrong_type", task("optional: ⟦1")),
    ("wrong_type", task("priority: ⟦high")),
    ("wrong_type", task("⟦queue: ")),
    ("wrong_type", http("url: ⟦7")),
    ("wrong_type", http("url: 'http://a', headers: {a: ⟦[1]}")),
    ("wrong_type", NODES + "  a: {type: wait_for_event, event: e, key: ⟦1.5}\n"),
    ("wrong_type", NODES + "  a: {type: set, values: ⟦7}\n"),
    ("wrong_type", TWO + "edges:\n  - {from: a, to: b, when: ⟦7}\n"),
    ("wrong_type", TWO + "edges:\n  - {from: ⟦[a], to: b}\n"),
    ("bad_value", "name: ⟦a b\nnodes: {a: {type: fork}}\n"),
    ("bad_value", TWO + "edges:\n  - {from: a, to: b, on: ⟦fail}\n"),
    ("bad_value", PAIR + "  c: {type: join, needs: [a, b], join: ⟦some}\n"),
    ("bad_value", PAIR + "  c: {type: join, needs: [a, b], join: ⟦0}\n"),
    ("bad_value", task("retry: {max_attempts: ⟦0}")),
    ("bad_value", task("retry: {jitter: ⟦ful}")),
    ("bad_value", task("retry: {factor: ⟦0.5}")),
    ("bad_value", task("priority: ⟦10")),
    ("bad_value", task("timeout: ⟦0s")),
    ("bad_value", task("queue: ⟦a b")),
    ("bad_value", NODES + "  a: {type: task, task: ⟦http}\n"),
    ("bad_value", NODES + "  a: {type: end, as: ⟦failed}\n"),
    ("bad_value", NODES + "  a: {type: fail, code: ⟦out of stock}\n"),
    ("bad_value", TWO + "edges:\n  - {from: a, to: b, loop: {max: ⟦0}}\n"),
    ("bad_value", http("url: ⟦example.com")),
    ("bad_value", http("url: 'http://a', method: ⟦FETCH")),
    ("bad_value", http("url: 'http://a', ⟦auth: {}")),
    ("bad_id", ONE + "vars: {⟦a-b: 1}\n"),
    # --- code ---
    ("missing_key", NODES + "  ⟦a: {type: code, language: python}\n"),
    ("missing_key", NODES + "  ⟦a: {type: code, code: 'def main(p): pass'}\n"),
    ("bad_value", NODES + "  a: {type: code, language: ⟦py, code: 'def main(p): pass'}\n"),
    ("bad_value", NODES + "  a: {type: code, language: ⟦3, code: 'def main(p): pass'}\n"),
    ("wrong_type", NODES + "  a: {type: code, language: python, code: ⟦{a: 1}}\n"),
    ("bad_value", NODES + "  a: {type: task, task: ⟦code}\n"),
    ("code_syntax", code("def main(params):\n\n  return 1 +⟦")),
    ("code_syntax", code("⟦return 1", "CPython")),
    ("code_syntax", code("\n\nx = ⟦(")),
    ("code_syntax", code("function main() {\n  return 1 +⟦* 2 }", "javascript")),
    ("code_syntax", code("function main() {}\nlet a;\nlet a⟦;", "JavaScript")),
    ("code_syntax", NODES + "  a: {type: code, language: python, code: 'def main(p): ⟦)'}\n"),
    ("code_syntax", NODES + '  a: {type: code, language: cpython, code: "x = \\"\\"\\n⟦)"}\n'),
    ("code_syntax", NODES + "  a: {type: code, language: python, code: ⟦'x =\n\n    1 +'}\n"),
    ("code_no_main", code("⟦x = 1")),
    ("code_no_main", code("⟦def f():\n  def main(params): pass", "cpython")),
    ("code_no_main", code("import os\n\n⟦def main():\n  pass")),
    ("code_no_main", code("⟦def main(a, b): pass")),
    ("code_no_main", code("⟦const f = 'main'; // main\nlet x = f.main;", "javascript")),
    ("python_subset", code("import ⟦uuid" + MAIN)),
    ("python_subset", code("⟦from string import digits" + MAIN)),
    ("python_subset", code("⟦from json import *" + MAIN)),
    ("python_subset", code("def main(params):\n  x = 'ü'; y = (⟦yield 1)")),
    ("python_subset", code("def main(params):\n  x = [1]\n  ⟦del x[0]")),
    ("python_subset", code("⟦class A(dict):\n  pass" + MAIN)),
    ("python_subset", code("class A:\n  @⟦property\n  def x(self): return 1" + MAIN)),
    ("python_subset", code("def main(params):\n  return ⟦input()")),
    ("duration_type", task("timeout: ⟦30")),
    ("duration_type", NODES + "  a: {type: wait, for: ⟦1.5}\n"),
    ("bad_duration", task("timeout: ⟦30sec")),
    ("bad_duration", ONE + "timeout: ⟦99999d\n"),
    ("bad_instant", NODES + "  a: {type: wait, until: ⟦tomorrow}\n"),
    ("bad_instant", NODES + "  a: {type: wait, until: ⟦2026-12-24T18:00:00}\n"),
    ("wait_form", NODES + "  a: {type: wait, for: 1s, ⟦until: 2026-12-24T18:00:00Z}\n"),
    ("template_not_allowed", 'name: ⟦"${vars.x}"\nnodes: {a: {type: fork}}\n'),
    ("template_not_allowed", ONE + 'vars: {a: [⟦"${input.x}"]}\n'),
    ("template_not_allowed", NODES + '  a: {type: ⟦"${input.type}"}\n'),
    ("no_nodes", "name: a\n⟦nodes: {}\n"),
    (
        "too_many_nodes",
        "name: a\n⟦nodes:\n" + "".join(f"  n{n}: {{type: fork}}\n" for n in range(10_001)),
    ),
    ("unknown_type", NODES + "  a: {type: ⟦tsak, task: t}\n"),
    ("bad_id", NODES + "  ⟦a-b: {type: fork}\n"),
    ("bad_id", NODES + "  ⟦in: {type: fork}\n"),
    ("bad_id", NODES + '  ⟦"1": {type: fork}\n'),
    ("bad_id", NODES + "  ⟦" + "a" * 64 + ": {type: fork}\n"),
    ("input_schema", ONE + "input: {⟦type: objekt}\n"),
    ("input_schema", ONE + "input: {properties: {a: {⟦$ref: 'http://a/b'}}}\n"),
    ("input_schema", ONE + "input: {⟦$ref: '#/$defs/none'}\n"),
    ("input_schema", ONE + "input: {⟦$ref: '#'}\n"),
    ("input_schema", ONE + "input: {properties: {a: {⟦pattern: '('}}}\n"),
    ("input_schema", ONE + "input: {properties: {a: {⟦$id: 'http://a/'}}}\n"),
    (
        "input_schema",
        ONE + "⟦input: {enum: [" + ", ".join("1" for _ in range(10_000)) + "]}\n",
    ),
    ("edge_form", ONE + "edges:\n  - ⟦a\n"),
    ("edge_form", ONE + "edges:\n  - ⟦[a, a]\n"),
    ("unknown_node", TASK + "  b: {type: fork, needs: [a, ⟦c]}\n"),
    ("unknown_node", TASK + "  b: {type: fork, needs: ⟦c}\n"),
    ("unknown_node", TWO + "edges:\n  - a -> ⟦c\n"),
    ("unknown_node", TWO + "edges:\n  - '⟦c -> b'\n"),
    ("unknown_node", TWO + "edges:\n  - {from: ⟦c, to: b}\n"),
    ("else_with_when", SWITCH + "  - {from: s, to: a, when: input.x, ⟦else: true}\n"),
    ("cancel_losers_without_race", PAIR.replace("needs: a", "needs: a, ⟦cancel_losers: true")),
    # --- expressions ---
    ("expression", params("nodes.a.⟦")),
    ("expression", params("1 + ⟦nope")),
    ("expression", params("⟦nope(1)")),
    ("expression", params("⟦nodes.a.outptu")),
    ("expression", params("⟦nodes")),
    ("expression", TWO + "edges:\n  - {from: a, to: b, when: 'nodes.a.output ==⟦'}\n"),
    ("template_unclosed", task('params: {x: "a ⟦${input.x"}')),
    ("template_in_condition", TWO + "edges:\n  - {from: a, to: b, when: ⟦'${input.x}'}\n"),
    ("condition_type", TWO + "edges:\n  - {from: a, to: b, when: ⟦'1 + 1'}\n"),
    ("key_type", NODES + "  a: {type: wait_for_event, event: e, key: ⟦'${[1]}'}\n"),
    ("int_division", task('params: {x: "${7 ⟦/ 2}"}')),
    ("unknown_reference", params("⟦nodes.aa.output")),
    ("unknown_reference", PAIR + 'output: "${⟦nodes.c.output}"\n'),
    ("not_upstream", TASK + '  b: {type: task, task: t, params: {x: "${⟦nodes.a.output}"}}\n'),
    (
        "not_upstream",
        NODES
        + '  a: {type: task, task: t, params: {x: "${⟦nodes.b.?output}"}}\n'
        + "  b: {type: task, task: t, needs: a}\n",
    ),
    (
        "not_upstream",
        TWO + "edges:\n  - {from: a, to: b, when: '⟦nodes.b.?status.orValue(1) == 1'}\n",
    ),
    ("not_upstream", task('params: {x: "${⟦nodes.a.?output}"}')),
    (
        "racy_reference",
        NODES
        + "  h: {type: fork}\n"
        + "  a: {type: task, task: t, needs: h}\n"
        + '  b: {type: task, task: t, needs: h, params: {x: "${⟦nodes.a.?output}"}}\n'
        + "  c: {type: switch, needs: [a, b]}\n  z: {type: fork}\nedges:\n"
        + "  - {from: c, to: h, when: 'iteration < 3', loop: {max: 9}}\n"
        + "  - {from: c, to: z, else: true}\n",
    ),
    (
        "unguarded_previous_pass",
        LOOP.replace(
            "h: {type: task, task: t}",
            'h: {type: set, values: {again: true, n: "${⟦nodes.h.output.n}"}}',
        ),
    ),
    ("not_in_loop", params("⟦iteration")),
    ("not_in_loop", params("⟦nodes.a.iteration")),
    (
        "not_in_loop",
        LOOP.replace("z: {type: fork}", 'z: {type: set, values: {n: "${⟦iteration}"}}'),
    ),
    ("not_in_loop", LOOP + 'output: "${⟦iteration}"\n'),
    ("error_not_here", TWO + "edges:\n  - {from: a, to: b, when: '⟦error == null'}\n"),
    ("error_not_here", TASK + 'output: "${⟦error}"\n'),
    ("secret_not_allowed", task('params: {x: "${⟦secrets.TOKEN}"}')),
    ("secret_not_allowed", http("url: 'http://a/${⟦secrets.TOKEN}'")),
    # --- the graph ---
    ("cycle", TWO + "edges:\n  - a -> b\n  - ⟦b -> a\n"),
    ("cycle", NODES + "  a: {type: fork, needs: ⟦a}\n"),
    (
        "loop_entry",
        NODES
        + "  s: {type: fork}\n  h: {type: fork, needs: s}\n  b: {type: task, task: t, needs: [h, s]}\n"
        + "edges:\n  - ⟦{from: b, to: h, when: 'iteration < 3', loop: {max: 9}}\n",
    ),
    (
        "loop_max_differs",
        LOOP.replace("  - {from: b, to: h", "  - ⟦{from: b, to: h")
        + "  - {from: b, to: h, when: 'iteration > 5', loop: {max: 7}}\n",
    ),
    (
        "loop_no_exit",
        NODES + "  ⟦h: {type: wait, for: 1s}\nedges:\n  - {from: h, to: h, loop: {max: 3}}\n",
    ),
    (
        "loop_too_deep",
        NODES
        + "  h0: {type: task, task: t}\n"
        + "".join(
            f"  {HERE if n == 64 else ''}h{n}: {{type: task, task: t, needs: h{n - 1}}}\n"
            for n in range(1, 66)
        )
        + "edges:\n"
        + "".join(f"  - {{from: h{65}, to: h{n}, loop: {{max: 2}}}}\n" for n in range(65)),
    ),
    (
        "loop_parallel_exit",
        NODES
        + "  h: {type: fork}\n  a: {type: task, task: t, needs: ⟦h}\n  b: {type: task, task: t, needs: h}\n"
        + "  z: {type: fork, needs: b}\nedges:\n"
        + "  - {from: a, to: h, loop: {max: 3}}\n",
    ),
    (
        "unreachable",
        NODES
        + "  a: {type: fork}\n  ⟦b: {type: fork}\nedges:\n  - {from: a, to: b, on: failure}\n",
    ),
    (
        "switch_edge_without_condition",
        NODES + "  s: {type: switch}\n  a: {type: fork, needs: ⟦s}\n",
    ),
    ("switch_edge_without_condition", SWITCH + "  - ⟦s -> a\n  - {from: s, to: b, else: true}\n"),
    (
        "switch_always_edge",
        SWITCH + "  - ⟦{from: s, to: a, on: always}\n  - {from: s, to: b, else: true}\n",
    ),
    (
        "two_else",
        SWITCH + "  - ⟦{from: s, to: a, else: true}\n  - {from: s, to: b, else: true}\n",
    ),
    ("else_without_switch", TWO + "edges:\n  - ⟦{from: a, to: b, else: true}\n"),
    (
        "optional_with_failure_edge",
        TWO.replace("a: {type: task,", "a: {type: task, optional: true,")
        + "edges:\n  - ⟦{from: a, to: b, on: failure}\n",
    ),
    (
        "fork_edge_with_condition",
        ONE + "  b: {type: fork}\nedges:\n  - ⟦{from: a, to: b, when: input.x}\n",
    ),
    ("fail_has_successor", NODES + "  a: {type: fail, code: c}\n  b: {type: fork, needs: ⟦a}\n"),
    ("fail_has_successor", NODES + "  a: {type: end}\n  b: {type: fork, needs: ⟦a}\n"),
    ("duplicate_edge", PAIR.replace("needs: a", "needs: [a, ⟦a]")),
    ("join_cannot_fill", PAIR.replace("  b:", "  ⟦b:").replace("needs: a", "needs: a, join: 2")),
    (
        "join_cannot_fill",
        SWITCH.replace("edges:\n", "  ⟦j: {type: join, join: 2}\nedges:\n")
        + "  - {from: s, to: j, when: input.x}\n  - {from: s, to: j, else: true}\n  - a -> b\n",
    ),
    (
        "switch_without_else",
        SWITCH.replace("  s:", "  ⟦s:") + "  - {from: s, to: a, when: input.x}\n  - a -> b\n",
    ),
    (
        "all_edges_conditional",
        TWO.replace("  a:", "  ⟦a:") + "edges:\n  - {from: a, to: b, when: input.x}\n",
    ),
    (
        "end_while_parallel",
        NODES
        + "  a: {type: fork}\n  b: {type: task, task: t, needs: a}\n  ⟦e: {type: end, needs: a}\n",
    ),
    (
        "failure_cuts_join",
        NODES
        + "  pay: {type: task, task: t}\n  reserve: {type: task, task: t}\n"
        + "  notify: {type: task, task: t}\n  ⟦ship: {type: task, task: t, needs: [pay, reserve]}\n"
        + "edges:\n  - {from: pay, to: notify, on: failure}\n",
    ),
    (
        "race_leak",
        NODES
        + "  s: {type: fork}\n  ⟦a: {type: task, task: t, needs: s}\n  b: {type: task, task: t, needs: s}\n"
        + "  j: {type: join, join: any, needs: [a, b]}\n  x: {type: task, task: t, needs: a}\n",
    ),
    ("races_too_large", LADDER),
    ("jinja_braces", TASK.replace("task: t}", "task: t, params: {x: '⟦{{ input.n }}'}}")),
    ("jinja_braces", TASK.replace("task: t}", "task: t, params: {x: 'a ⟦{input.n}'}}")),
    ("jinja_braces", TASK.replace("task: t}", "task: t, params: {x: '${input.a} ⟦$input.n'}}")),
    ("jinja_braces", TASK.replace("task: t}", "task: t, params: {x: '⟦{ vars[0] } ${input.a}'}}")),
    (
        "unguarded_output",
        TASK.replace("t}", "t, optional: true}") + 'output: "${⟦nodes.a.output}"\n',
    ),
    (
        "loop_without_wait",
        NODES
        + "  ⟦h: {type: switch}\n  z: {type: fork}\nedges:\n"
        + "  - {from: h, to: h, when: 'iteration < 5', loop: {max: 1001}}\n"
        + "  - {from: h, to: z, else: true}\n",
    ),
    (
        "too_many_findings",
        NODES
        + "".join(f"  {HERE if n == 999 else ''}a-{n}: {{type: fork}}\n" for n in range(1_100)),
    ),
]

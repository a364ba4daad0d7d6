"""The smallest files for findings of foreach, call, emit, handlers, retry rules and computed values; see `cases`."""

from __future__ import annotations

from tests.unit.dsl.cases import LOOP, NODES, ONE, TASK, params, task

WAIT = NODES + "  w: {type: wait_for_event, event: e}\n"


def each(keys: str, over: str = "over: input.l, ") -> str:
    """One foreach."""
    return NODES + f"  e: {{type: foreach, {over}{keys}}}\n"


def call(keys: str) -> str:
    """One call."""
    return NODES + f"  c: {{type: call, {keys}}}\n"


def do(nodes: str, edges: str = "") -> str:
    """A call of a graph, as a block."""
    lines = "".join(f"        {line}\n" for line in nodes.split("\n"))
    return NODES + f"  c:\n    type: call\n    do:\n      nodes:\n{lines}{edges}"


NESTED: list[tuple[str, str]] = [
    # --- foreach ---
    ("missing_key", NODES + "  ⟦e: {type: foreach, task: t}\n"),
    ("missing_key", NODES + "  ⟦e: {type: foreach, over: input.l}\n"),
    ("missing_key", each("⟦do: {}")),
    ("missing_key", each("task: t", "⟦source: {params: {}}, ")),
    ("key_not_allowed", each("task: t, ⟦do: {type: fork}")),
    ("key_not_allowed", each("call: w, ⟦task: t")),
    ("key_not_allowed", each("task: t, ⟦source: {task: p}")),
    ("key_not_allowed", each("task: t, ⟦input: {}")),
    ("key_not_allowed", each("call: w, ⟦params: {}")),
    ("key_not_allowed", each("call: w, ⟦queue: q")),
    ("key_not_allowed", each("do: {type: wait, for: 1s}, ⟦heartbeat_timeout: 1s")),
    ("key_not_allowed", each("do: {nodes: {a: {type: fork}}}, ⟦priority: 1")),
    ("key_not_allowed", each("do: {nodes: {a: {type: fork}}}, ⟦output: 1")),
    ("key_not_allowed", each("do: {type: task, task: t}, ⟦params: {}")),
    ("key_not_allowed", each("retry: {}, do: {type: task, task: t, ⟦retry: {}}")),
    ("key_not_allowed", each("do: {type: task, task: t, ⟦optional: true}")),
    ("key_not_allowed", each("do: {type: wait, for: 1s, ⟦needs: []}")),
    ("key_not_allowed", each("do: {nodes: {a: {type: fork}}, ⟦retry: {}}")),
    ("key_not_allowed", each("do: {⟦type: fork, nodes: {a: {type: fork}}}")),
    ("key_not_allowed", NODES + "  e: {type: fork, ⟦over: input.l}\n"),
    ("unknown_key", each("task: t, ⟦tolarate: 1")),
    ("unknown_key", each("do: {type: task, task: t, ⟦tsak: u}")),
    ("wrong_type", each("task: t", "over: ⟦[1, 2], ")),
    ("wrong_type", each("task: t, tolerate: ⟦1.5")),
    ("wrong_type", each("do: ⟦t")),
    ("template_in_condition", each("task: t", "over: ⟦'${input.l}', ")),
    ("bad_value", each("task: t, concurrency: ⟦0")),
    ("bad_value", each("task: t, concurrency: ⟦10001")),
    ("bad_value", each("task: t, batch: ⟦0")),
    ("bad_value", each("task: t, tolerate: ⟦-1")),
    ("bad_value", each("task: t, tolerate: ⟦101%")),
    ("bad_value", each("task: t, tolerate: ⟦some")),
    ("no_nodes", each("do: {⟦nodes: {}}")),
    ("unknown_type", each("do: {type: ⟦tusk}")),
    # --- call and emit ---
    ("missing_key", NODES + "  ⟦c: {type: call}\n"),
    ("missing_key", NODES + "  ⟦a: {type: emit, key: k}\n"),
    ("missing_key", NODES + "  ⟦a: {type: emit, event: e}\n"),
    ("key_not_allowed", call("call: w, ⟦do: {type: fork}")),
    ("key_not_allowed", call("call: w, ⟦params: {}")),
    ("key_not_allowed", call("do: {type: fork}, ⟦input: {}")),
    ("key_not_allowed", call("call: w, wait: false, ⟦retry: {}")),
    ("key_not_allowed", call("call: w, wait: false, ⟦output: 1")),
    ("key_not_allowed", task("⟦do: {}")),
    ("key_not_allowed", task("⟦rules: []")),
    ("key_not_allowed", task("⟦keep: 1d")),
    ("key_not_allowed", NODES + "  a: {type: wait, for: 1s, ⟦heartbeat_timeout: 1s}\n"),
    ("key_not_allowed", ONE + "⟦compensate: {}\n"),
    ("bad_value", call("call: ⟦a b")),
    ("bad_value", call("call: ⟦a@b@c")),
    ("duration_type", NODES + "  a: {type: emit, event: e, key: k, keep: ⟦30}\n"),
    # --- graphs inside ---
    (
        "cycle",
        do(
            "a: {type: task, task: t}\nb: {type: task, task: t, needs: a}",
            "      edges:\n        - ⟦b -> a\n",
        ),
    ),
    ("unknown_node", do("a: {type: fork, needs: ⟦b}")),
    ("unknown_reference", do('a: {type: set, values: {x: "${⟦nodes.b.output}"}}')),
    ("bad_id", do("⟦a-b: {type: fork}")),
    (
        "outer_node",
        TASK + '  c: {type: call, needs: a, do: {type: set, values: {x: "${⟦nodes.a.output}"}}}\n',
    ),
    (
        "outer_node",
        TASK
        + '  e: {type: foreach, needs: a, over: "[1]", do: {type: wait, for: "${⟦nodes.a.output}"}}\n',
    ),
    # --- handlers ---
    ("compensate_not_allowed", NODES + "  a: {type: fork, ⟦compensate: {type: task, task: u}}\n"),
    (
        "compensate_not_allowed",
        each("do: {type: task, task: t, ⟦compensate: {type: task, task: u}}"),
    ),
    ("handler_not_leaf", task("compensate: {type: task, task: u, ⟦optional: true}")),
    ("handler_not_leaf", task("compensate: {type: ⟦wait, for: 1s}")),
    ("handler_not_leaf", ONE + "on_failure: {type: task, task: u, ⟦needs: a}\n"),
    ("handler_not_leaf", ONE + "on_failure: {type: task, task: u, ⟦compensate: {}}\n"),
    ("missing_key", ONE + "⟦on_failure: {task: u}\n"),
    ("bad_value", task("compensate: {type: task, task: u, when: ⟦dead}")),
    ("unknown_key", ONE + "on_failure: {type: task, task: u, ⟦whne: started}\n"),
    ("wrong_type", ONE + "on_failure: ⟦u\n"),
    ("duration_type", ONE + "closing_timeout: ⟦60\n"),
    (
        "compensate_inside_only",
        NODES
        + "  ⟦c: {type: call, do: {nodes: {a: {type: task, task: t, compensate: {type: task, task: u}}}}}\n",
    ),
    # --- retry rules ---
    ("missing_key", task("retry: {rules: [⟦{on: timeout}]}")),
    ("wrong_type", task("retry: {rules: ⟦timeout}")),
    ("wrong_type", task("retry: {rules: [⟦timeout]}")),
    ("wrong_type", task("retry: {rules: [{on: ⟦503, max_attempts: 2}]}")),
    ("wrong_type", task("retry: {give_up_on: [⟦[a]]}")),
    ("bad_value", task("retry: {give_up_on: [⟦a b]}")),
    ("bad_value", task("retry: {give_up_on: ⟦[]}")),
    ("bad_value", task(f"retry: {{rules: ⟦[{', '.join(['{max_attempts: 2}'] * 101)}]}}")),
    ("unknown_key", task("retry: {rules: [{⟦code: timeout, max_attempts: 2}]}")),
    (
        "retry_rule_unreachable",
        task("retry: {rules: [{max_attempts: 2}, ⟦{on: timeout, max_attempts: 3}]}"),
    ),
    (
        "retry_rule_unreachable",
        task(
            "retry: {give_up_on: http.4xx, rules: [⟦{on: [http.404, http.4xx], max_attempts: 3}]}"
        ),
    ),
    ("retry_rule_unreachable", task("retry: {rules: [⟦{on: queue_timeout, max_attempts: 3}]}")),
    ("odd_failure_name", task("retry: {max_attempts: 3, give_up_on: [http.404, ⟦http.6xx]}")),
    ("odd_failure_name", task("retry: {max_attempts: 3, give_up_on: [TimeoutErr, ⟦timeot]}")),
    ("odd_failure_name", task("retry: {rules: [{on: ⟦htp.400, max_attempts: 3}]}")),
    # --- computed values ---
    ("computed_type", task('queue: ⟦"${7}"')),
    ("computed_type", NODES + '  a: {type: task, task: ⟦"${[1]}"}\n'),
    ("computed_type", call('call: ⟦"${true}"')),
    ("computed_type", task('params: ⟦"${[1]}"')),
    ("computed_type", task('params: ⟦"a ${input.x}"')),
    ("wrong_type", each("task: t", "source: {task: p, params: ⟦'${input.x}'}, ")),
    ("computed_type", NODES + '  a: {type: wait, until: ⟦"${7}"}\n'),
    ("computed_type", task('priority: ⟦"a${input.x}"')),
    ("computed_type", each('task: t, concurrency: ⟦"${1.5}"')),
    ("computed_type", each('task: t, tolerate: ⟦"${true}"')),
    ("computed_type", each("task: t", "over: ⟦\"{'a': 1}\", ")),
    ("duration_type", task('timeout: ⟦"${30}"')),
    ("duration_type", NODES + '  a: {type: wait, for: ⟦"${1.5}"}\n'),
    ("condition_type", WAIT.replace("e}", "e, match: ⟦'1'}")),
    ("condition_type", WAIT.replace("e}", "e, fail_when: ⟦'[event]'}")),
    ("template_not_allowed", ONE + 'timeout: ⟦"${input.x}"\n'),
    ("template_not_allowed", task('retry: {initial: ⟦"${input.x}"}')),
    ("template_not_allowed", LOOP.replace("max: 9", 'max: 9, keep: ⟦"${input.x}"')),
    ("expression", task('timeout: "${⟦nope}"')),
    # --- who may read what ---
    ("not_in_foreach", params("⟦item.x")),
    ("not_in_foreach", params("⟦index")),
    ("not_in_foreach", each("task: t", "over: '⟦item.l', ")),
    ("not_in_foreach", each('task: t, concurrency: "${⟦index}"')),
    ("not_in_foreach", each('task: t, compensate: {type: task, task: u, params: {x: "${⟦item}"}}')),
    ("not_in_foreach", call('do: {type: set, values: {x: "${⟦item}"}}')),
    ("name_not_here", params("⟦params.x")),
    ("name_not_here", params("⟦event")),
    ("name_not_here", WAIT.replace("e}", 'e, key: "${⟦event.x}"}')),
    ("name_not_here", params("⟦output")),
    ("name_not_here", call('call: w, input: "${⟦output}"')),
    ("name_not_here", params("⟦cursor")),
    ("name_not_here", each('task: t, params: {c: "${⟦cursor}"}', "source: {task: p}, ")),
    ("name_not_here", ONE + 'output: "${string(⟦node.entered_at)}"\n'),
    (
        "name_not_here",
        task("retry: {rules: [{when: '⟦nodes.a.status == error.code', max_attempts: 2}]}"),
    ),
    ("name_not_here", TASK + 'defaults: {queue: "${⟦nodes.a.output}"}\n'),
    ("field_not_here", params("⟦nodes.a.items")),
    ("field_not_here", params("⟦nodes.a.failures")),
    ("field_not_here", params("⟦nodes.a.callback_key")),
    ("field_not_here", params("⟦node.callback_key")),
    ("not_in_loop", params("⟦nodes.a.iterations")),
    (
        "not_upstream",
        NODES
        + '  a: {type: task, task: t, params: {x: "${⟦nodes.e.items}"}}\n'
        + "  e: {type: foreach, over: input.l, task: t, needs: a}\n",
    ),
    (
        "iterations_inside_loop",
        LOOP.replace(
            "b: {type: switch, needs: h}",
            'b: {type: switch, needs: c}\n  c: {type: set, needs: h, values: {x: "${⟦nodes.h.iterations}"}}',
        ),
    ),
    (
        "callback_key_outside_loop",
        LOOP.replace("h: {type: task, task: t}", "h: {type: wait_for_event, event: e}").replace(
            "z: {type: fork}", 'z: {type: set, values: {x: "${⟦nodes.h.callback_key}"}}'
        ),
    ),
    (
        "loop_keep_differs",
        LOOP.replace("  - {from: b, to: h", "  - ⟦{from: b, to: h").replace(
            "max: 9", "max: 9, keep: 1"
        )
        + "  - {from: b, to: h, when: 'iteration > 5', loop: {max: 9, keep: 2}}\n",
    ),
]

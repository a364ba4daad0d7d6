"""Break valid definitions in seeded ways and load them: each gives a graph or findings, in time, and never a traceback.

`python scripts/mutate.py --count 10000 --seed 1` prints what came out; exit 1 with the broken texts if any did worse.
The property test runs the same edits, fewer of them.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random  # noqa: TID251 - seeded, so that a failure can be had again

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import load

ROOT = Path(__file__).resolve().parents[1]
SECONDS_MAX = 2.0
"""Of this process alone: a machine that stands still says nothing about the loader."""

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+|\s+|.", re.DOTALL)
_SPICE = (
    b"\x00", b"\xff", b"\xef\xbb\xbf", b"\t", b"\r", b"'", b'"', b"{", b"}", b"[", b"]", b"&a ", b"*a", b"<<: *a",
    b"${", b"}", b"$${", b": ", b"- ", b"#", b"!!python/name:os.system ", b"|\n", b">\n", b"---\n", b"%YAML 9\n",
    b"null", b"-1", b"1e999", b"99999999999999999999", b".nan", b"true", b"~", b"\\ud800", b"\xf0\x9f\x98\x80", b"? ",
    b"\xc2\x85", b"\xe2\x80\xa8", b"[" * 80, b"'" * 2000, b"(" * 200, b"a" * 2000, b"@", b"`", b"0x", b"0o9",
)  # fmt: skip
_WORDS = (
    "nodes", "edges", "type", "task", "http", "switch", "join", "needs", "when", "loop", "max", "retry", "input",
    "vars", "from", "to", "on", "else", "failure", "always", "any", "foreach", "compensate", "timeout", "10s",
    "output", "name", "secrets", "iteration", "error", "x-a", "fail", "end", "set", "values", "wait", "for",
    "until", "optional", "true", "do", "call", "over", "source", "item", "params", "emit", "on_failure", "rules",
    "give_up_on", "keep", "match", "fail_when", "tolerate", "concurrency", "batch", "cursor", "event", "5%",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one text: `graph`, `findings`, or how it went wrong."""

    verdict: str
    seconds: float
    detail: str = ""

    @property
    def is_good(self) -> bool:
        return self.verdict in ("graph", "findings")


def sources() -> list[bytes]:
    """Valid definitions: the examples, that of the docs, and a few that use every part of the language."""
    files = [path.read_bytes() for path in sorted((ROOT / "examples").glob("**/*.yaml"))]
    found = [data for data in files if b"\nnodes:" in data]
    docs = (ROOT / "docs" / "definition.md").read_text()
    fences = re.findall(r"```yaml\n(.*?)```", docs, re.DOTALL)
    found += [text.encode() for text in fences if "\nnodes:" in text]
    return [*found, *(text.encode() for text in _BUILT_IN)]


def mutations(seeds: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """`count` broken texts, the same for the same seed."""
    dice = Random(seed)  # noqa: S311 - a seed repeats a failure
    for _ in range(count):
        data = dice.choice(seeds)
        for _ in range(dice.choice((1, 1, 1, 2, 3, 8))):
            data = dice.choice(_EDITS)(data, dice)
        yield data


def outcome_of(data: bytes, parser: CelParser) -> Outcome:
    """Load one text as the door would."""
    started = time.process_time()
    try:
        loaded = load(data, file="mutant.yaml", parser=parser)
        told = [str(finding) for finding in loaded.findings]
    except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
        return Outcome("traceback", time.process_time() - started, traceback.format_exc())
    seconds = time.process_time() - started
    if seconds > SECONDS_MAX:
        return Outcome("slow", seconds, f"{seconds:.1f} s")
    if loaded.graph is None and not told:
        return Outcome("silent", seconds, "neither a graph nor findings")
    return Outcome("findings" if loaded.graph is None else "graph", seconds)


# --- edits -----------------------------------------------------------------------------------------


def _bytes(data: bytes, dice: Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    match dice.randrange(4):
        case 0:
            return data[:at] + data[at + dice.randint(1, 5) :]
        case 1:
            return data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]
        case 2:
            return data[:at] + dice.choice(_SPICE) + data[at:]
        case _:
            return data[:at]


def _lines(data: bytes, dice: Random) -> bytes:
    lines = data.split(b"\n")
    at, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    match dice.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(other, lines[at])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            lines[at] = b" " * dice.randrange(8) + lines[at].lstrip()
        case _:
            lines[at : at + 1] = [lines[at]] * dice.choice((3, 50))
    return b"\n".join(lines)


def _tokens(data: bytes, dice: Random) -> bytes:
    tokens = _TOKEN.findall(data.decode("utf-8", "replace"))
    if not tokens:
        return data
    at, other = dice.randrange(len(tokens)), dice.randrange(len(tokens))
    match dice.randrange(4):
        case 0:
            tokens[at] = tokens[other]
        case 1:
            tokens[at] = dice.choice(_WORDS)
        case 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        case _:
            del tokens[at]
    return "".join(tokens).encode("utf-8", "replace")


def _expressions(data: bytes, dice: Random) -> bytes:
    """Change what stands in `${…}` or behind `when:`."""
    places = [found.end() for found in re.finditer(rb"\$\{|when: ['\"]?", data)]
    if not places:
        return data
    at = dice.choice(places)
    return data[:at] + dice.choice(_CEL) + data[at + dice.choice((0, 0, 3)) :]


def _tree(data: bytes, dice: Random) -> bytes:
    """Move whole values: what follows one key to another key, or away."""
    values = [
        found.span(1)
        for found in re.finditer(rb": *([^\n,{}\[\]]+|\{[^{}\n]*\}|\[[^\[\]\n]*\])", data)
    ]
    if len(values) < 2:
        return data
    (start, end), (first, last) = dice.choice(values), dice.choice(values)
    new = dice.choice(
        (data[first:last], b"", b"[]", b"{}", b"null", b"7", b"[1, [2]]", b"{a: b}", b"''", b"-1.5")
    )
    return data[:start] + new + data[end:]


_CEL = (
    b"nodes.", b"nodes.zz.output", b"iteration + ", b"error.code + ", b"secrets.X", b"(", b")", b"1 / 2 ", b"'", b"[",
    b"has(nodes.a.output) ? ", b"sha256(input)", b"input.x.map(y, y.map(z, z))", b"!", b"&&", b"in ", b"nodes[input.x]",
    b"\xc3\xa9", b"r'''", b"//", b"{", b"1e999 ", b"9999999999999999999 ", b"-", b"b'x'", b"`", b"a.?b[?0]", b"()" * 60,
)  # fmt: skip
_EDITS: tuple[Callable[[bytes, Random], bytes], ...] = (
    _bytes,
    _bytes,
    _lines,
    _tokens,
    _expressions,
    _tree,
)

_JSON = (
    '{"name": "json", "nodes": {"a": {"type": "task", "task": "t", "params": {"e": "\\ud83d\\ude00 ${input.x}"}},'
    ' "b": {"type": "wait", "until": "2026-12-24T18:00:00+01:00"}}, "edges": ["a -> b"]}\n'
)
_BUILT_IN = (
    """\
name: poll
vars: {base: "http://127.0.0.1:9000", limits: {tries: 5}}
nodes:
  start: {type: set, values: {n: "${iteration == 1 ? 0 : nodes.start.output.n + 1}"}}
  ask: {type: http, needs: start, request: {url: "${vars.base}/jobs/${input.id}", auth: {bearer: "${secrets.T}"}}}
  pause: {type: wait, for: 5s}
  ready: {type: switch, needs: ask}
  done: {type: end, output: {n: "${nodes.start.output.n}", body: "${nodes.ask.output.body}"}}
  broken: {type: fail, code: not_ready, message: "after ${nodes.start.?output.?n.orValue(0)}", details: {a: [1, 2]}}
edges:
  - {from: ready, to: done, when: "nodes.ask.output.status == 200"}
  - {from: ready, to: pause, else: true}
  - {from: pause, to: start, loop: {max: 20}}
  - {from: ready, to: broken, when: "nodes.ask.?output.?status.orValue(0) == 404"}
  - {from: ask, to: ready, on: failure, when: "error.code != 'timeout'"}
""",
    """\
name: race
input: {type: object, properties: {a: {type: integer, default: 1}, b: {$ref: "#/$defs/b"}}, $defs: {b: {enum: [x, y]}}}
timeout: 1h30m
defaults: {queue: q, retry: {max_attempts: 3, initial: 1s, factor: 2, max: 1m, jitter: equal}}
nodes:
  go: {type: fork}
  one: {type: task, task: t.one, needs: go, params: &p {x: "${input.a}", y: [1, {z: "a ${input.b} c"}]}}
  two: {type: task, task: t.two, needs: [go], params: *p, optional: true, priority: 5}
  evt: {type: wait_for_event, event: e, key: "k-${input.a}", timeout: 2d, needs: go}
  first: {type: join, join: any, cancel_losers: true, needs: [one, two, evt]}
  most: {type: join, join: 2, needs: [one, two, evt]}
  last: {type: task, task: t, needs: [first, most], timeout: 10s, total_timeout: 1m, queue_timeout: 1h}
  clean: {type: task, task: t}
edges:
  - {from: last, to: clean, on: always}
output: {r: "${nodes.last.?output.orValue(null)}", all: "${nodes.first.output}"}
""",
    _JSON,
    """\
name: folded
description: >
  Several lines,
  folded.
nodes:
  a:
    type: task
    task: t
    params:
      text: |
        first ${input.x}
        second $${literal}
      quoted: 'it''s ${input.y + "}"}'
      double: "\\u00e4\\t${input.z}"
  b: {type: Task, task: t, needs: a}
""",
    """\
name: nested
vars: {limit: 1m, q: fast}
defaults: {retry: {rules: [{on: [timeout, http.5xx], max_attempts: 5, initial: 2s}, {when: error.details.again,
  max_attempts: 2}], give_up_on: [http.4xx]}, queue: "${vars.q}"}
nodes:
  pages: {type: foreach, source: {task: list, params: {after: "${cursor}"}}, task: "${item.task}",
    params: "${item.params}", concurrency: "${input.c}", tolerate: 5%, batch: 10, timeout: "${vars.limit}",
    compensate: {type: task, task: undo, when: started, params: {n: "${size(nodes.pages.failures)}"}}}
  graph:
    type: foreach
    needs: pages
    over: nodes.pages.output
    params: {all: "${input.all}"}
    do:
      nodes:
        x: {type: http, request: {url: "http://a/${item.id}/${params.all}"}}
        y: {type: call, needs: x, call: billing@stable, input: {i: "${index}"}, output: "${output.total}", wait: true}
        z: {type: call, needs: y, do: {type: wait, for: "${item.wait}"}, retry: {max_attempts: 3}, optional: true}
      edges: [{from: x, to: z, on: failure}]
      output: {y: "${nodes.y.?output}"}
  h: {type: emit, needs: graph, event: "e.${input.x}", key: "${nodes.w.callback_key}", payload: {n: 1}, keep: 1d}
  w: {type: wait_for_event, needs: h, event: done, match: event.ok, fail_when: has(event.error), heartbeat_timeout: 1m}
  s: {type: switch, needs: w}
  e: {type: set, values: {passes: "${nodes.h.iterations}", id: "${uuid('a')}"}}
edges:
  - {from: s, to: h, when: iteration < 3, loop: {max: 5, keep: 2}}
  - {from: s, to: e, else: true}
on_failure: {type: call, do: {nodes: {a: {type: task, task: t, params: {e: "${params.e}"}}}}, params: {e: "${error}"}}
closing_timeout: 1h
""",
)  # fmt: skip


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    cel = CelParser()
    verdicts: Counter[str] = Counter()
    slowest = 0.0
    for number, data in enumerate(mutations(sources(), options.count, options.seed)):
        outcome = outcome_of(data, cel)
        verdicts[outcome.verdict] += 1
        slowest = max(slowest, outcome.seconds)
        if not outcome.is_good:
            print(f"--- {number}: {outcome.verdict}\n{data!r}\n{outcome.detail}")
    print(
        f"seed {options.seed}, {options.count} texts, slowest {slowest * 1_000:.0f} ms: {dict(verdicts)}"
    )
    return 0 if set(verdicts) <= {"graph", "findings"} else 1


if __name__ == "__main__":
    sys.exit(main())

"""The workflows of chaos: ten steps each, in different shapes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flow:
    """A workflow, and how many tasks with a journal each of its runs has."""

    name: str
    text: str
    steps: int


def _chain(length: int) -> str:
    nodes = ["  n1: {type: task, task: step}"]
    nodes += [
        f"  n{n}: {{type: task, task: {'astep' if n % 2 == 0 else 'step'}, queue: {'b' if n % 3 == 0 else 'a'}, "
        f"needs: [n{n - 1}]}}"
        for n in range(2, length + 1)
    ]
    return "name: chain\ndefaults: {queue: a}\nnodes:\n" + "\n".join(nodes) + "\n"


_FAN = """
name: fan
defaults: {queue: a}
nodes:
  first: {type: task, task: step}
  each: {type: foreach, over: "range(8)", task: astep, queue: b, concurrency: 4, needs: [first]}
  last: {type: task, task: step, needs: [each]}
"""
_MIXED = """
name: mixed
defaults: {queue: b, retry: {max_attempts: 4, initial: 50ms}}
input: {type: object, required: [id]}
nodes:
  first: {type: task, task: flaky}
  left: {type: task, task: step, queue: a, needs: [first]}
  right: {type: task, task: astep, needs: [first]}
  pause: {type: wait, for: 300ms, needs: [left, right]}
  tell: {type: emit, event: go, key: "${input.id}", payload: {ok: true}, needs: [pause]}
  heard: {type: wait_for_event, event: go, key: "${input.id}", timeout: 1h, needs: [tell]}
  inside:
    type: call
    needs: [heard]
    do:
      nodes:
        x: {type: task, task: step}
        y: {type: task, task: flaky, needs: [x]}
        z: {type: foreach, over: "range(3)", task: astep, needs: [y]}
      output: "${nodes.y.output.attempt}"
  end1: {type: task, task: step, queue: a, needs: [inside]}
  end2: {type: task, task: astep, needs: [end1]}
"""
CHAIN = Flow("chain", _chain(10), 10)
FLOWS = (CHAIN, Flow("fan", _FAN, 10), Flow("mixed", _MIXED, 10))
TASK = Flow("one", "name: one\nnodes:\n  only: {type: task, task: quick, queue: a}\n", 0)
NAP = Flow(
    "nap",
    "name: nap\ninput: {type: object, required: [ms]}\nnodes:\n"
    "  only: {type: task, task: nap, queue: a, params: {ms: '${input.ms}'}}\n",
    1,
)

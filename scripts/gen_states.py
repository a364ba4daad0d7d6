"""Writes docs/states.md from the tables of legal moves: tasks, runs, workers' streams. `--check` only compares.

Run it from anywhere with the project's Python; a unit test holds the page fresh.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from tenuto.model.states import (
    FINAL_RUN_STATES,
    FINAL_TASK_STATES,
    NODE_STATUS,
    RUN_MOVES,
    TASK_MOVES,
    CancelReason,
    EdgeLetter,
    Move,
    NodeLetter,
)
from tenuto.rpc.states import ANSWERS, CROSSED, MOVES, SPOKEN, Side, State, Word

PAGE = Path(__file__).resolve().parents[1] / "docs" / "states.md"

_HEAD = """\
# States and legal moves

<!-- Written by scripts/gen_states.py from src/tenuto/{model,rpc}/states.py. Change those, not this. -->

A move is legal if a table has a row for it: in the state, on the event, if the guard holds, to the next state.
`*` stands for any event. The machine asserts every change against the rows.
"""

_TASKS = """\
One row for each unit of work. A worker runs a task that is `pending` under a live lease; a failed attempt is passed
through inside a decision, so neither is a stored state of its own.
"""

_RUNS = """\
Pause is a flag beside the state. `closing` is passed by a run that has an open child, something that may have to be
undone, or an `on_failure` that is due, when its outcome is decided.
"""

_NODES = """\
For nodes the rules of the definition language are the guards; each state is one letter in a run's row, each edge too.
"""


_STREAMS = """\
What a worker and a server say to each other (`proto/tenuto/worker/v1/worker.proto` has the messages).
Both ends move by the same table, with every message that they say or hear; anything else is a breach of the protocol,
and ends the stream. *crossed*: it may come, since the other end did not know yet, but is not said in that state.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(
        (
            _HEAD,
            "## Tasks\n",
            _TASKS,
            _diagram(TASK_MOVES, "pending", FINAL_TASK_STATES),
            _table(TASK_MOVES),
            "## Runs\n",
            _RUNS,
            _diagram(RUN_MOVES, "pending", FINAL_RUN_STATES),
            _table(RUN_MOVES),
            "## Nodes and edges\n",
            _NODES,
            _letters("node", [(letter, NODE_STATUS[letter]) for letter in NodeLetter]),
            _letters("edge", [(letter, letter.name.lower()) for letter in EdgeLetter]),
            "A node or task is cancelled for one reason: "
            + ", ".join(f"`{reason}`" for reason in CancelReason)
            + ".\n",
            "## A worker's stream\n",
            _STREAMS,
            _stream_diagram(),
            _stream_table(),
            _answers(),
        )
    )


def _diagram(moves: Sequence[Move], start: str, final: Collection[str]) -> str:
    reached = dict.fromkeys(state for move in moves for state in (move.source, move.target))
    labels: dict[tuple[str, str], list[str]] = {}
    for move in moves:
        label = move.guard if move.event == "*" else f"{move.event} [{move.guard}]"
        labels.setdefault((move.source, move.target), []).append(label)
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {start}"]
    lines += [f"    {a} --> {b}: {'<br>'.join(each)}" for (a, b), each in labels.items()]
    lines += [f"    {state} --> [*]" for state in reached if state in final]
    return "\n".join((*lines, "```", ""))


def _table(moves: Sequence[Move]) -> str:
    rows = [f"| `{m.source}` | `{m.event}` | `{m.guard}` | `{m.target}` |" for m in moves]
    return "\n".join(("| from | event | guard | to |", "|---|---|---|---|", *rows, ""))


def _letters(of: str, pairs: Sequence[tuple[str, str]]) -> str:
    rows = [f"| `{letter}` | {meaning} |" for letter, meaning in pairs]
    return "\n".join((f"| {of} | means |", "|---|---|", *rows, ""))


def _stream_diagram() -> str:
    labels: dict[tuple[State, State], list[Word]] = {}
    for (state, word), target in MOVES.items():
        if state is not target:
            labels.setdefault((state, target), []).append(word)
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {State.NEW}"]
    lines += [f"    {a} --> {b}: {'<br>'.join(words)}" for (a, b), words in labels.items()]
    return "\n".join((*lines, f"    {State.OVER} --> [*]", "```", ""))


def _stream_table() -> str:
    rows = []
    for state in State:
        for side in Side:
            said: dict[State, list[str]] = {}
            for (source, word), target in MOVES.items():
                if source is state and word in SPOKEN[side]:
                    crossed = " (crossed)" if (state, word) in CROSSED else ""
                    said.setdefault(target, []).append(f"`{word}`{crossed}")
            rows += [
                f"| `{state}` | {side} | {', '.join(words)} | `{to}` |"
                for to, words in said.items()
            ]
    return "\n".join(("| in | says | a message | to |", "|---|---|---|---|", *rows, ""))


def _answers() -> str:
    rows = [f"| `{word}` | `{answer}` |" for word, answer in ANSWERS.items()]
    return "\n".join(("| a call of the worker | its answer |", "|---|---|", *rows, ""))


def main() -> int:
    """Write the page, or with `--check` compare it."""
    text = page()
    if "--check" in sys.argv[1:]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{PAGE.name} is stale: run scripts/gen_states.py", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

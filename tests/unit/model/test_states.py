from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tenuto.model.states import (
    FINAL_NODE_LETTERS,
    FINAL_RUN_STATES,
    FINAL_TASK_STATES,
    NODE_STATUS,
    RUN_MOVES,
    TASK_MOVES,
    EdgeLetter,
    Move,
    NodeLetter,
    RunState,
    TaskState,
    may_move_run,
    may_move_task,
)

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


def reached(moves: Iterable[Move], start: str) -> set[str]:
    found = {start}
    for _ in range(len(TaskState) + len(RunState)):
        found |= {move.target for move in moves if move.source in found}
    return found


def test_moves_name_states_that_exist() -> None:
    assert {s for m in TASK_MOVES for s in (m.source, m.target)} == set(TaskState)
    assert {s for m in RUN_MOVES for s in (m.source, m.target)} <= set(RunState)


def test_r_only_a_retry_leaves_a_final_state_and_nothing_leaves_a_success() -> None:
    tasks = [move for move in TASK_MOVES if move.source in FINAL_TASK_STATES]
    runs = [move for move in RUN_MOVES if move.source in FINAL_RUN_STATES]

    assert all(move.guard.startswith("reopened") for move in tasks)
    assert {move.event for move in runs} == {"RetryRequested"}
    assert "success" not in {move.source for move in (*tasks, *runs)}


def test_every_final_state_can_be_reached() -> None:
    assert set(TaskState) == reached(TASK_MOVES, TaskState.PENDING)
    assert reached(RUN_MOVES, RunState.PENDING) >= FINAL_RUN_STATES


def test_every_state_that_is_not_final_leads_to_each_kind_of_end() -> None:
    for state in {TaskState.PENDING, TaskState.RETRY}:
        assert reached(TASK_MOVES, state) >= FINAL_TASK_STATES


def test_no_two_moves_contradict_each_other() -> None:
    for moves in (TASK_MOVES, RUN_MOVES):
        # Where a closing run ends was decided before it closed (C2).
        ways = [(m.source, m.event, m.guard) for m in moves if m.guard != "closed"]

        assert len(set(ways)) == len(ways)


def test_a_task_moves_by_its_rows_only() -> None:
    assert may_move_task("pending", "AttemptFailed", "retry")
    assert may_move_task("retry", "TimerFired", "pending")
    assert may_move_task("retry", "CancelRequested", "cancelled")
    assert not may_move_task("retry", "AttemptFailed", "dead")
    assert not may_move_task("success", "CancelRequested", "cancelled")


def test_a_run_moves_by_its_rows_only() -> None:
    assert may_move_run("pending", "running")
    assert may_move_run("running", "timed_out")
    assert may_move_run("failed", "running")
    assert not may_move_run("success", "running")
    assert not may_move_run("pending", "success")


def test_states_of_nodes_and_edges_are_letters_of_their_own() -> None:
    for letters in (NodeLetter, EdgeLetter):
        assert all(len(letter) == 1 and letter.isascii() for letter in letters)
        assert len({*letters}) == len(list(letters))
    assert set(NODE_STATUS) == set(NodeLetter)
    assert {NodeLetter.PENDING, NodeLetter.ACTIVE} == set(NodeLetter) - FINAL_NODE_LETTERS


def test_the_page_of_states_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import gen_states

    assert gen_states.PAGE.read_text(encoding="utf-8") == gen_states.page(), (
        "run scripts/gen_states.py"
    )
    assert all(f"`{move.guard}`" in gen_states.page() for move in (*TASK_MOVES, *RUN_MOVES))
    assert sys.modules["gen_states"].PAGE.name == "states.md"

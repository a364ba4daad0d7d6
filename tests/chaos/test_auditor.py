"""The auditor sees each kind of broken promise: one that can't go red proves nothing."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.chaos.audit import Ended, Facts, judge
from tests.support.chaos.campaign import Campaign, conduct
from tests.support.chaos.cluster import ROOT
from tests.support.chaos.journal import Execution
from tests.support.chaos.leases import Right, rights

SECOND = 1_000_000
TASK = "run/n1"


def an_execution(lease: str, began: int, ended: int | None, **what: Any) -> Execution:
    outcome = "ok" if ended is not None else ""
    given = {"attempt": 1, "worker": "w1", "pid": 1, "outcome": outcome, **what}
    return Execution(task=TASK, lease=lease, began=began, ended=ended, **given)


def a_right(lease: str, granted: int, ended: int | None, until: int = 10 * SECOND) -> Right:
    return Right(TASK, lease, granted, until, ended)


WELL = Facts(
    executions=[an_execution("a", 1 * SECOND, 2 * SECOND)],
    ended={TASK: [Ended("AttemptSucceeded", 1, "a", 2 * SECOND)]},
    runs={"run": ("success", "k")},
    left={"ready": 0},
    leased=0,
    folds={},
    promised={"k": ["run", "run"]},
    rights={"a": a_right("a", 1 * SECOND, 2 * SECOND + 100)},
    steps={"run": 1},
)
EXPIRED = replace(
    WELL,
    executions=[
        an_execution("a", 1 * SECOND, 6 * SECOND, worker="w2"),
        an_execution("b", 5 * SECOND, 6 * SECOND, attempt=2),
    ],
    ended={
        TASK: [
            Ended("LeaseExpired", 1, "a", 4 * SECOND),
            Ended("AttemptSucceeded", 2, "b", 6 * SECOND),
        ]
    },
    rights={
        "a": a_right("a", 1 * SECOND, 4 * SECOND, until=4 * SECOND - 9),
        "b": a_right("b", 5 * SECOND, 6 * SECOND + 100),
    },
)
"""A frozen worker went on after its lease: allowed, and its result was not taken."""


def problems(facts: Facts) -> Sequence[str]:
    return judge(facts).problems


def test_what_is_well_is_found_well() -> None:
    assert problems(WELL) == ()
    assert str(judge(WELL)).endswith("every history folds")


def test_who_works_on_after_the_end_of_its_lease_is_counted_and_no_problem() -> None:
    verdict = judge(EXPIRED)

    assert verdict.problems == ()
    assert (verdict.lost, verdict.overtaken) == (1, 1)


LIVING = {**EXPIRED.rights, "a": a_right("a", 1 * SECOND, 4 * SECOND, until=9 * SECOND)}
TWICE = [*WELL.executions, an_execution("b", 2 * SECOND + 500, 3 * SECOND)]


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (replace(WELL, runs={"run": ("failed", "k")}), "run run (k) is failed"),
        (replace(WELL, runs={**WELL.runs, "other": ("success", "k")}), "I10: key k has two runs"),
        (replace(WELL, promised={"k": ["run", "gone"]}), "I10: key k was answered with"),
        (replace(WELL, promised={"k": ["gone"]}), "I16: key k was answered with"),
        (replace(WELL, folds={"run": "rest: folds to x"}), "I5: run run: rest: folds to x"),
        (replace(WELL, left={"ready": 2}), "I15: 2 rows are left in ready"),
        (replace(WELL, leased=1), "I15: 1 tasks still have a lease"),
        (replace(WELL, steps={"run": 2}), "lost: run run succeeded with 1 of 2 steps"),
        (replace(WELL, executions=[]), "is a success that no worker did"),
        (
            replace(WELL, ended={TASK: [*WELL.ended[TASK], Ended("AttemptFailed", 1, "b", 3)]}),
            "I3: run/n1: attempt 1 ended after attempt 1",
        ),
        (
            replace(WELL, ended={TASK: [*WELL.ended[TASK], Ended("AttemptSucceeded", 2, "a", 3)]}),
            "I3: run/n1 succeeded 2 times",
        ),
        (replace(WELL, executions=TWICE), "ran under a lease that nobody granted"),
        (
            replace(WELL, executions=[*WELL.executions, an_execution("a", 3, 4)]),
            "ran under one lease",
        ),
        (
            replace(
                WELL,
                executions=[
                    *WELL.executions,
                    an_execution("b", 1 * SECOND + 500_000, 2 * SECOND, worker="w2"),
                ],
                rights={**WELL.rights, "b": a_right("b", 1 * SECOND, None)},
            ),
            "ran at one time under live leases",
        ),
        (replace(EXPIRED, rights=LIVING), "lease a lived, and was ended as expired"),
        (replace(WELL, rights={}), "which nobody granted"),
        (
            replace(WELL, rights={"a": a_right("a", 1 * SECOND, None)}),
            "AttemptSucceeded was accepted, and lease a stands",
        ),
        (
            replace(WELL, rights={"a": a_right("a", 1, 2 * SECOND + 9, until=1 * SECOND)}),
            "was accepted after lease a had run out",
        ),
    ],
)
def test_each_broken_promise_is_found(facts: Facts, says: str) -> None:
    assert any(says in problem for problem in problems(facts)), problems(facts)


def test_a_lease_that_is_given_away_under_its_worker_is_found_unless_that_was_asked_to_end() -> (
    None
):
    facts = replace(
        EXPIRED,
        ended={TASK: [Ended("AttemptSucceeded", 1, "b", 6 * SECOND)]},
        executions=[EXPIRED.executions[0], an_execution("b", 5 * SECOND, 6 * SECOND)],
        rights=LIVING,
    )

    assert any("was given away under w2" in problem for problem in problems(facts))
    assert problems(replace(facts, drained={"w2": [3 * SECOND]})) == ()


def test_the_log_of_rights_knows_grants_renewals_and_ends() -> None:
    log = [
        {"at": 1, "task": TASK, "was": None, "was_until": None, "lease": "a", "until": 5},
        {"at": 3, "task": TASK, "was": "a", "was_until": 5, "lease": "a", "until": 8},
        {"at": 9, "task": TASK, "was": "a", "was_until": 8, "lease": "b", "until": 14},
        {"at": 11, "task": TASK, "was": "b", "was_until": 14, "lease": None, "until": None},
    ]

    found = rights(log)

    assert (found["a"].over, found["a"].was_taken, found["a"].following) == (8, False, "b")
    assert (found["b"].over, found["b"].was_taken, found["b"].following) == (11, True, None)


# -- bugs planted in a copy of the engine ----------------------------------------------------------------------------

_MAY_BE_LEASED = "AND tasks.state = 'pending' AND tasks.lease_id IS NULL AND tasks.held = 0\n"
_BEAT = "        return await self._store.heartbeat(\n"
_GIVES_AWAY = """        await self._release(worker, beats, begun=True)
        return tuple(Verdict.OK for _ in beats)
"""
PLANTED = {
    "a sign of life gives the lease away": (
        "database",
        {
            "coordinator/gateway.py": [
                (_BEAT, f"{_GIVES_AWAY}{_BEAT}"),
            ],
        },
        "was given away under",
    ),
    "a grant leaves tasks out": (
        "redis",
        {
            "adapters/sql/statements/changes.py": [
                (_MAY_BE_LEASED, f"{_MAY_BE_LEASED}  AND tasks.place NOT LIKE '%1'\n"),
            ]
        },
        "stuck: ",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_bug_planted_in_a_copy_of_the_engine_is_found(name: str, tmp_path: Path) -> None:
    mode, edits, says = PLANTED[name]
    copy = tmp_path / "src"
    shutil.copytree(
        ROOT / "src" / "tenuto", copy / "tenuto", ignore=shutil.ignore_patterns("__pycache__")
    )
    for path, several in edits.items():
        text = (copy / "tenuto" / path).read_text()
        for right, wrong in several:
            assert text.count(right) == 1, f"the line to break is not in {path} any more"
            text = text.replace(right, wrong)
        (copy / "tenuto" / path).write_text(text)

    outcome = conduct(
        Campaign(
            mode=mode,  # type: ignore[arg-type]
            seed=1,
            runs=24,
            seconds=1,
            skewed=False,
            accidents=False,
            quiet_s=10,
            env={"PYTHONPATH": f"{copy}:{ROOT}", "TENUTO_WORKER__SLOTS": "2"},
        ),
        tmp_path / "chaos",
    )

    assert any(says in problem for problem in outcome.problems), str(outcome)

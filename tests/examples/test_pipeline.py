"""The pipeline over a list of seeds: retries, dead tasks and successes all occur, and each seed has one story."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import HANG_S, Tenuto, json_of
from tests.support.examples import attempts, definition, load_app, states, story

from tenuto.sdk.failures import RunFailed

SEEDS = range(1, 25)


@pytest.fixture
def rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[dict[str, Any]]]:
    """The stories of all seeds, twice."""
    monkeypatch.chdir(tmp_path)
    with load_app("pipeline") as app:
        runs = app.start_many(definition("pipeline"), [{"seed": seed} for seed in [*SEEDS, *SEEDS]])
        for run in runs:
            with suppress(RunFailed):
                run.result(timeout=HANG_S)
        stories = [story(run) for run in runs]
    return [stories[: len(SEEDS)], stories[len(SEEDS) :]]


def drawn(report: dict[str, Any]) -> dict[tuple[str, int], tuple[str, str | None]]:
    """What each attempt that came to an end came to."""
    return {
        (step["node"], step["attempt"]): (step["result"], step["code"])
        for step in report["timeline"]
        if step["result"] in ("success", "failed")
    }


def test_over_the_seeds_tasks_succeed_are_tried_again_and_die(
    rounds: list[list[dict[str, Any]]], tenuto: Tenuto
) -> None:
    reports = rounds[0]

    smooth = [r for r in reports if len(r["timeline"]) == 4 and r["state"] == "success"]
    retried = [r for r in reports if len(r["timeline"]) > 4 and r["state"] == "success"]
    failed = [r for r in reports if r["state"] == "failed"]
    assert smooth
    assert retried
    assert failed
    assert len(smooth) + len(retried) + len(failed) == len(SEEDS)
    for report in smooth + retried:
        assert report["output"] == {"text": "d(b(a()), c(a()))"}
        assert set(states(report).values()) == {"success"}
    for report in failed:
        dead = [node for node, state in states(report).items() if state == "dead"]
        assert report["error"]["node"] in dead
        assert report["error"]["code"] == "unlucky"
        for node in dead:  # a task is dead when it has failed as often as it may
            assert attempts(report, node) == [("failed", "unlucky")] * 3
    verified = json_of(tenuto("run", "verify", "--all", "-o", "json"))
    assert [each["ok"] for each in verified] == [True] * (2 * len(SEEDS))


def test_a_seed_always_gives_the_same_story(rounds: list[list[dict[str, Any]]]) -> None:
    for one, other in zip(*rounds, strict=True):
        assert one["run_id"] != other["run_id"]
        assert (one["state"], one["output"]) == (other["state"], other["output"])
        # Where a death cuts off the other branch, how far that one came is a matter of time.
        ours, theirs = drawn(one), drawn(other)
        assert {at: ours[at] for at in ours.keys() & theirs} == {
            at: theirs[at] for at in ours.keys() & theirs
        }
        if one["state"] == "success":
            assert ours == theirs

"""Patterns that the docs show, run: what they promise is what happens. `test_readmes` looks at the pages as such."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.examples import ROOT
from tests.support.pages import blocks

from tenuto import Tenuto
from tenuto.testing import Engine, Run, engine, raises


def shown(page: str, name: str, folder: Path) -> Path:
    """A definition of a page, as a file."""
    text = (ROOT / "docs" / page).read_text()
    [block] = [block for block in blocks(text) if block.name == name]
    path = folder / name
    path.write_text(block.text)
    return path


@pytest.fixture
def remind(tmp_path: Path) -> Path:
    return shown("nodes/wait_for_event.md", "remind.yaml", tmp_path)


def texts(env: Engine) -> list[object]:
    return [call.params["text"] for call in env.calls("ask")]


def test_three_times_somebody_is_reminded_then_the_run_gives_up(remind: Path) -> None:
    with engine() as env:
        env.mock("ask", returns=None)
        run = env.start(remind, {"order": "o-1", "boss": "ann"})
        env.advance("3d")
        run.assert_waiting("approval", "event order.approved key o-1")

        env.advance("1d")

        run.assert_failed(code="not_approved", node="given_up")
        assert texts(env) == ["please approve: o-1", *["still open: o-1"] * 3]


def test_an_approval_after_a_reminder_ends_the_reminding(remind: Path) -> None:
    with engine() as env:
        env.mock("ask", returns=None)
        run = env.start(remind, {"order": "o-1", "boss": "ann"})
        env.advance("36h")

        env.send_event("order.approved", "o-1", {"by": "ann"})
        env.advance("9d")

        run.assert_success({"by": "ann"})
        assert texts(env) == ["please approve: o-1", "still open: o-1"]


@pytest.mark.parametrize("failures", [0, 2, 3])
def test_a_loop_may_have_no_way_on_but_success(tmp_path: Path, failures: int) -> None:
    path = tmp_path / "again.yaml"
    path.write_text(
        "name: again\nnodes:\n  a: {type: task, task: t}\n"
        "edges:\n  - {from: a, to: a, on: failure, loop: {max: 3}}\n"
    )
    app, left = Tenuto(), ["no such luck"] * failures

    @app.task(name="t")
    def t() -> int:
        if left:
            raise RuntimeError(left.pop())
        return 7

    with engine(app) as env:
        run = env.start(path)
        env.advance("1s")

        if failures < 3:
            run.assert_success({"a": 7})
        else:
            run.assert_failed(code="loop_exhausted", node="a")


@pytest.fixture
def printer(tmp_path: Path) -> Path:
    return shown("patterns.md", "printer.yaml", tmp_path)


def holder_of(runs: list[Run]) -> Run:
    """The one that is at work, of those that have not ended; all others wait."""
    [holder] = [run for run in runs if run.node("print").state == "running"]
    assert {run.node("take").state for run in runs if run != holder} == {"waiting"}
    return holder


def test_a_lock_among_runs_comes_back_from_whoever_is_cancelled_or_fails(printer: Path) -> None:
    with engine() as env:
        mock = env.mock(task="document.print", hangs=True)
        env.send_event("lock.free", "printer")
        runs = [env.start(printer, {"file": name}) for name in ("a", "b", "c", "d")]

        runs.remove(cancelled := holder_of(runs))
        cancelled.cancel()
        env.advance("20s")  # until its lease is over: it may have worked on so long
        runs.remove(failed := holder_of(runs))
        mock.let_go(raises=raises("paper_jam", retryable=False))
        runs.remove(printed := holder_of(runs))
        mock.let_go(returns=None)

        assert [run.status() for run in (cancelled, failed, printed)] == [
            "cancelled",
            "failed",
            "success",
        ]
        assert holder_of([*runs, env.start(printer, {"file": "e"})]) == runs[0]

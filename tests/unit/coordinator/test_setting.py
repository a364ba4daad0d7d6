from __future__ import annotations

from tenuto.coordinator.setting import Focus
from tenuto.model.ids import RunId


def test_without_a_focus_every_run_is_driven() -> None:
    focus = Focus()
    focus.add(RunId("a"))

    assert focus.runs() is None
    assert RunId("b") in focus


def test_a_focus_grows_with_the_runs_that_are_started() -> None:
    focus = Focus(frozenset({RunId("b")}))
    assert focus.runs() == ("b",)
    focus.add(RunId("a"))

    assert focus.runs() == ("a", "b")
    assert RunId("c") not in focus


def test_an_empty_focus_is_nothing_not_everything() -> None:
    assert Focus(frozenset()).runs() == ()

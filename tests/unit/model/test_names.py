"""What things may be called."""

from __future__ import annotations

import re

import pytest

from tenuto.model.names import EVENT_NAME, NAME, TASK_NAME, node_meant


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (NAME, ("a", "9.b-c", "x" * 100), ("", "a b", "-a", "x" * 101, "é")),
        (TASK_NAME, ("a.b:c/d", "https", "x" * 200), ("http", "code", "a b", "x" * 201)),
        (EVENT_NAME, ("what you like", "é" * 200), ("", "a\nb", "x" * 201)),
    ],
)
def test_a_name_is_of_its_form(
    pattern: re.Pattern[str], good: tuple[str, ...], bad: tuple[str, ...]
) -> None:
    assert all(pattern.fullmatch(name) for name in good)
    assert not any(pattern.fullmatch(name) for name in bad)


@pytest.mark.parametrize(
    ("wrong", "known", "told"),
    [
        ("chargee", ("charge", "ship"), "did you mean 'charge'?"),
        ("nope", ("charge", "ship"), "there are charge, ship"),
        ("x", tuple(f"n{i}" for i in range(14)), "and 2 more"),
        ("x", (), ""),
    ],
)
def test_a_node_that_is_not_there_is_answered_with_those_that_are(
    wrong: str, known: tuple[str, ...], told: str
) -> None:
    assert node_meant(wrong, known).endswith(told)

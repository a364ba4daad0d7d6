"""How much of what a program prints is passed on."""

from __future__ import annotations

from tenuto.languages.bounds import LINE_MAX, LINES_MAX, TEXT_MAX, Bounds


def test_so_many_lines_are_admitted_and_the_others_counted() -> None:
    bounds = Bounds()

    admitted = [bounds.admit("x") for _ in range(LINES_MAX + 5)]

    assert admitted == [True] * LINES_MAX + [False] * 5
    assert bounds.dropped == 5


def test_long_lines_count_as_far_as_they_are_kept() -> None:
    bounds = Bounds()

    admitted = [bounds.admit("x" * 10 * LINE_MAX) for _ in range(TEXT_MAX // LINE_MAX + 1)]

    assert admitted == [True] * (TEXT_MAX // LINE_MAX) + [False]


def test_nothing_is_admitted_after_a_line_that_was_not() -> None:
    bounds = Bounds()
    for _ in range(TEXT_MAX // LINE_MAX):
        bounds.admit("x" * (LINE_MAX - 1))

    assert not bounds.admit("x" * LINE_MAX)
    assert not bounds.admit("")
    assert bounds.dropped == 2

"""Which lines of a failed test pytest shows: of what a test got wrong the test's own, of a bug of ours all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenuto.model.errors import InvariantViolated, TenutoError

if TYPE_CHECKING:
    import pytest


def hides(told: pytest.ExceptionInfo[BaseException] | None) -> bool:
    """Asked by pytest for the lines of a module: of what a test got wrong it shows the test's, not ours."""
    return told is not None and is_the_tests(told.value)


def is_the_tests(error: BaseException) -> bool:
    """Whether an error is the test's or its workflow's, not a bug of ours."""
    ours = isinstance(error, InvariantViolated)
    return isinstance(error, AssertionError | TenutoError) and not ours

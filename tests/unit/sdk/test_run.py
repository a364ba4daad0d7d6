"""`Run`: what it is, and words that are refused before anybody is asked. The verbs: tests/integration/test_again.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tenuto import InvalidInput, Run, Tenuto


@pytest.fixture(scope="module")
def app() -> Iterator[Tenuto]:
    with Tenuto(":memory:") as made:
        yield made


def test_a_run_is_known_by_its_id(app: Tenuto) -> None:
    assert Run("a", app) == Run("a", app)
    assert Run("a", app) != Run("b", app)
    assert len({Run("a", app), Run("a", app)}) == 1
    assert repr(Run("a", app)) == "Run('a')"


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda run: run.skip(""), "node: is empty; give a node's id"),
        (lambda run: run.replay(""), "node: is empty; give a node's id"),
        (lambda run: run.plan_replay("a\0"), "node: it holds a NUL character"),
        (lambda run: run.retry(skip=""), "skip: is empty; give a node's id"),
        (lambda run: run.retry(output=1), "output: is that of a node which is skipped"),
        (lambda run: run.terminate("x" * 3_000), "reason: 3,000 characters"),
        (lambda run: run.skip("a", float("nan")), "output"),
    ],
)
def test_a_wrong_word_is_refused_at_once(
    app: Tenuto, ask: Callable[[Run], object], told: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        ask(Run("a", app))
    assert told in str(raised.value)

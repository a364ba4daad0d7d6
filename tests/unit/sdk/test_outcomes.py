"""Ends of many runs, read page by page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenuto import RunFailed, Tenuto
from tenuto.sdk import outcomes

TEXT = """
name: echo
input: {type: object, required: [n]}
nodes:
  s: {type: switch}
  ok: {type: set, values: {n: "${input.n}"}}
  no: {type: fail, code: odd, message: "${'not ' + string(input.n)}"}
edges:
  - {from: s, to: ok, when: "input.n % 2 == 0"}
  - {from: s, to: no, else: true}
output: "${input.n}"
"""


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tenuto]:
    """An app in memory; three runs are a page."""
    monkeypatch.setattr(outcomes, "TOGETHER", 3)
    with Tenuto(":memory:") as made:
        yield made


def test_outputs_come_in_the_order_asked_for_across_pages(app: Tenuto) -> None:
    runs = app.start_many(TEXT, [{"n": 2 * n} for n in range(8)])

    assert app.results(runs[::-1], timeout=30) == [14, 12, 10, 8, 6, 4, 2, 0]


def test_the_first_that_failed_is_raised_with_its_error(app: Tenuto) -> None:
    runs = app.start_many(TEXT, [{"n": n} for n in (0, 2, 4, 6, 7, 9)])

    with pytest.raises(RunFailed) as raised:
        app.results(runs, timeout=30)

    assert (raised.value.run_id, raised.value.code, raised.value.message) == (
        runs[4].id,
        "odd",
        "not 7",
    )


def test_of_no_runs_there_are_no_outputs(app: Tenuto) -> None:
    assert app.results([], timeout=30) == []

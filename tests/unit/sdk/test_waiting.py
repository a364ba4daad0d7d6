"""What who waits in vain is told. What servers say is in test_far."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenuto import Tenuto
from tenuto.sdk import waiting
from tenuto.sdk.waiting import waits_of
from tenuto.testing import engine


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tenuto]:
    """An app with one task, whose engine may take as long as it likes to say why a run goes on."""
    monkeypatch.setattr(waiting, "LOOK_S", 60.0)
    made = Tenuto(":memory:")

    @made.task
    def add(a: int) -> int:
        return a + 1

    with made:
        yield made


MISSING = """
name: two
nodes:
  b: {type: task, task: addd}
"""


def test_a_task_that_nobody_has_is_warned_of_once_and_named_when_the_time_is_up(
    app: Tenuto, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = app.start(MISSING), app.start(MISSING)

    [warning] = [record.getMessage() for record in caplog.records]
    assert "task_missing" in warning
    assert "workflow='two' node='b'" in warning
    assert "no task 'addd'; did you mean 'add'?; the run waits until @app.task" in warning
    for run in (first, second):
        with pytest.raises(TimeoutError) as raised:
            run.result(timeout=0.05)
        assert str(raised.value).endswith("within 0.05 s: b waits for a worker that has `addd`")

    app.task(name="addd")(lambda: 3)
    assert app.results([first, second], timeout=30) == [{"b": 3}, {"b": 3}]


def test_the_mocked_tasks_of_a_test_are_no_missing_ones(
    app: Tenuto, caplog: pytest.LogCaptureFixture
) -> None:
    with engine(app) as env:
        env.mock("b", returns=1)
        env.start(MISSING).assert_success()

    assert caplog.records == []


async def test_of_a_run_that_has_ended_meanwhile_there_is_nothing_to_say(app: Tenuto) -> None:
    run = await app.aenqueue("add", a=1)
    await run.aresult(timeout=30)

    assert await waits_of(app.near, None, [run.id]) == ""
    await app.aclose()

"""`Tenuto` and `Run` over a real engine in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenuto import TaskError, Tenuto
from tenuto.app.embedded import Engine
from tenuto.model.errors import Conflict, InvalidDefinition, InvalidInput, NotFound
from tenuto.ports.reads import RunFilter
from tenuto.sdk import waiting
from tenuto.sdk.failures import RunFailed
from tenuto.sdk.run import Run

ADD = """
name: add
input:
  type: object
  required: [a]
  properties: {a: {type: integer}, b: {type: integer, default: 10}}
vars: {offset: 0}
nodes:
  sum: {type: task, task: add, params: {a: "${input.a}", b: "${input.b + vars.offset}"}}
output: "${nodes.sum.output}"
"""
WAIT = """
name: waiting
input: {type: object, required: [id]}
nodes:
  w: {type: wait_for_event, event: go, key: "${input.id}"}
output: "${nodes.w.output}"
"""


@pytest.fixture
def app() -> Iterator[Tenuto]:
    """An app in memory with a few tasks."""
    made = Tenuto(":memory:")

    @made.task
    def add(a: int, b: int = 1) -> int:
        return a + b

    @made.task(name="thread.name")
    def thread_name() -> str:
        return threading.current_thread().name

    @made.task
    async def where() -> list[object]:
        return [id(asyncio.get_running_loop()), threading.current_thread().name]

    @made.task
    def refuse(code: str) -> None:
        raise TaskError(code, "will not", details={"why": "test"})

    with made:
        yield made


def test_a_run_is_started_and_its_output_awaited(app: Tenuto) -> None:
    run = app.start(ADD, {"a": 1})

    assert run.result(timeout=30) == 11
    assert run.status() == "success"


@pytest.mark.rule("X1.2")
def test_input_defaults_and_vars_reach_the_nodes(app: Tenuto) -> None:
    assert app.start(ADD, {"a": 1, "b": 2}, vars={"offset": 100}).result(timeout=30) == 103


def test_a_bad_input_starts_nothing(app: Tenuto) -> None:
    with pytest.raises(InvalidInput, match=r"input\.a"):
        app.start(ADD, {"a": "one"})
    with pytest.raises(InvalidInput, match=r"input\.a"):
        app.start_many(ADD, [{"a": 1}, {"a": None}])


def test_the_same_key_gives_the_same_run(app: Tenuto) -> None:
    first = app.start(ADD, {"a": 1}, key="k")
    again = app.start(ADD, {"a": 2}, key="k")
    other = app.start(ADD, {"a": 2}, key="other")

    assert first == again
    assert other != first
    assert hash(first) == hash(again)
    assert (again.result(timeout=30), other.result(timeout=30)) == (11, 12)


@pytest.mark.rule("X1.3")
def test_a_run_has_the_priority_of_its_start(app: Tenuto) -> None:
    run = app.start(ADD, {"a": 1}, priority=7)

    assert run.result(timeout=30) == 11
    for wrong in (-1, 10, True, "high"):
        with pytest.raises(InvalidInput, match=r"priority: .* is no priority; give a whole number"):
            app.start(ADD, {"a": 1}, priority=wrong)  # type: ignore[arg-type]


def test_many_runs_start_at_once_in_order(app: Tenuto) -> None:
    runs = app.start_many(ADD, [{"a": n} for n in range(120)])

    assert app.results(runs, timeout=60) == [n + 10 for n in range(120)]
    assert runs[119].result(timeout=60) == 129
    assert app.results([]) == []
    assert app.start_many(ADD, []) == []


def test_many_results_name_the_first_run_that_failed(app: Tenuto) -> None:
    runs = [
        app.start(ADD, {"a": 1}),
        app.enqueue("refuse", code="second"),
        app.enqueue("refuse", code="third"),
    ]

    with pytest.raises(RunFailed) as failed:
        app.results(runs, timeout=60)

    assert (failed.value.run_id, failed.value.code) == (runs[1].id, "second")


def test_many_results_that_come_too_late_are_a_timeout(
    app: Tenuto, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "LOOK_S", 60.0)  # a busy machine's engine takes longer to say why
    runs = [app.start(ADD, {"a": 1}), app.start(WAIT, {"id": "never"})]
    assert runs[0].result(timeout=30) == 11

    with pytest.raises(TimeoutError) as raised:
        app.results(runs, timeout=0.05)
    assert str(raised.value) == (
        f"not all runs have ended within 0.05 s: run {runs[1].id}: w waits for event go key never"
    )


def test_a_workflow_is_a_file_a_deployed_name_or_a_text(app: Tenuto, tmp_path: Path) -> None:
    file = tmp_path / "add.yaml"
    file.write_text(ADD)

    stored = app.deploy(file)
    again = app.deploy(str(file))

    assert (stored.name, stored.version, again) == ("add", 1, stored)
    assert [
        app.start(way, {"a": 1}).result(timeout=30) for way in (file, str(file), "add", ADD)
    ] == [11] * 4


def test_a_changed_file_is_a_new_version_and_old_runs_keep_theirs(
    app: Tenuto, tmp_path: Path
) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(WAIT)
    old = app.start(file, {"id": "1"})
    file.write_text(WAIT.replace("nodes.w.output", "'changed'"))

    new = app.start(file, {"id": "2"})
    for key in ("1", "2"):
        app.send_event("go", key, "as sent")

    assert (old.result(timeout=30), new.result(timeout=30)) == ("as sent", "changed")


def test_unknown_names_and_broken_texts_are_refused(app: Tenuto) -> None:
    with pytest.raises(NotFound, match="no workflow 'nowhere'"):
        app.start("nowhere")
    with pytest.raises(InvalidDefinition, match="unknown_type"):
        app.start("name: t\nnodes:\n  a: {type: tusk}\n")
    with pytest.raises(NotFound, match="no run 'gone'"):
        app.get_run("gone")


def test_a_failed_run_raises_what_failed_it(app: Tenuto) -> None:
    with pytest.raises(RunFailed) as raised:
        app.enqueue("refuse", code="no_stock").result(timeout=30)

    error = raised.value
    assert (error.state, error.code, error.message, error.node) == (
        "failed",
        "no_stock",
        "will not",
        "refuse",
    )
    assert isinstance(error.error, dict)
    assert error.error["details"] == {"why": "test"}


def test_enqueue_takes_the_function_or_its_name(app: Tenuto) -> None:
    function: Any = app.registry.get("add").function

    assert app.enqueue(function, a=1).result(timeout=30) == 2
    assert app.enqueue("add", a=1, b=5).result(timeout=30) == 6
    assert app.enqueue("thread.name").result(timeout=30) != threading.current_thread().name


def test_enqueue_checks_the_call_before_it_stores_anything(app: Tenuto) -> None:
    with pytest.raises(InvalidInput, match="needs 'a'"):
        app.enqueue("add", b=1)
    with pytest.raises(InvalidInput, match="has no parameter 'c'"):
        app.enqueue("add", a=1, c=2)
    with pytest.raises(NotFound, match="did you mean 'add'"):
        app.enqueue("ad", a=1)
    with pytest.raises(NotFound, match=r"register it with @app\.task"):
        app.enqueue(lambda: None)


def test_a_task_registered_while_the_engine_runs_is_used(app: Tenuto) -> None:
    assert app.enqueue("add", a=1).result(timeout=30) == 2

    @app.task
    def late(a: int) -> int:
        return -a

    assert app.enqueue(late, a=1).result(timeout=30) == -1


def test_a_task_stays_callable(app: Tenuto) -> None:
    @app.task
    def double(a: int) -> int:
        return 2 * a

    assert double(4) == 8


def test_an_event_ends_a_wait_and_its_id_is_used_once(app: Tenuto) -> None:
    run = app.start(WAIT, {"id": "o-1"})

    sent = [app.send_event("go", "o-1", {"n": n}, event_id="e") for n in range(2)]

    assert run.result(timeout=30) == {"n": 0}
    assert sent == [True, False]


def test_a_run_can_be_cancelled_once(app: Tenuto) -> None:
    run = app.start(WAIT, {"id": "never"})
    run.cancel("no longer wanted")

    with pytest.raises(RunFailed) as raised:
        run.result(timeout=30)
    assert (raised.value.state, raised.value.code) == ("cancelled", "cancelled")
    with pytest.raises(Conflict, match="already cancelled"):
        run.cancel()


def test_a_paused_run_says_so_and_goes_on_when_resumed(app: Tenuto) -> None:
    run = app.start(WAIT, {"id": "p"})
    run.pause()
    assert run.status() == "paused"

    run.resume()
    app.send_event("go", "p", 1)

    assert run.result(timeout=30) == 1
    with pytest.raises(Conflict):
        run.resume()


def test_a_result_that_does_not_come_in_time_is_a_timeout_and_the_run_goes_on(app: Tenuto) -> None:
    run = app.start(WAIT, {"id": "slow"})

    with pytest.raises(TimeoutError, match=r"has not ended within 0\.01 s"):
        run.result(timeout=0.01)
    app.send_event("go", "slow", 1)

    assert run.result(timeout=30) == 1


def test_a_run_is_found_again_by_its_id(app: Tenuto) -> None:
    run = app.start(ADD, {"a": 1})

    found = app.get_run(run.id)

    assert found == run
    assert repr(found) == f"Run({run.id!r})"
    assert found.result(timeout=30) == 11


def test_coroutines_of_tasks_run_on_the_engines_loop_for_plain_programs(app: Tenuto) -> None:
    _, thread = app.enqueue("where").result(timeout=30)

    assert thread not in (threading.current_thread().name, "tenuto-engine")


def test_coroutines_of_tasks_run_on_the_loop_that_first_used_the_app(app: Tenuto) -> None:
    async def program() -> tuple[Any, int]:
        run = await app.aenqueue("where")
        return await run.aresult(timeout=30), id(asyncio.get_running_loop())

    (loop, thread), here = asyncio.run(program())

    assert (loop, thread) == (here, threading.current_thread().name)


def test_an_app_outlives_the_loop_that_first_used_it(tmp_path: Path) -> None:
    app = Tenuto(tmp_path / "runs.db")

    @app.task
    async def here() -> int:
        return id(asyncio.get_running_loop())

    async def program() -> list[int]:
        run = await app.aenqueue(here)
        return [await run.aresult(timeout=30), id(asyncio.get_running_loop())]

    with app:
        first, second = asyncio.run(program()), asyncio.run(program())
        alone = app.enqueue(here).result(timeout=30)

    assert first[0] == first[1]
    assert second[0] == second[1]
    assert isinstance(alone, int)


def test_a_waiting_verb_on_a_running_loop_raises_instead_of_blocking_it(app: Tenuto) -> None:
    async def program() -> None:
        app.start(ADD, {"a": 1})

    with pytest.raises(RuntimeError, match=r"start\(\) would block .* use `await …astart\(…\)`"):
        asyncio.run(program())


def test_a_task_may_start_runs_itself(app: Tenuto) -> None:
    @app.task
    def outer() -> str:
        return app.start(ADD, {"a": 5}).id

    run_id = app.enqueue(outer).result(timeout=30)

    assert app.get_run(run_id).result(timeout=30) == 15


def test_many_coroutines_share_one_engine(app: Tenuto) -> None:
    async def program() -> list[int]:
        async def one(n: int) -> int:
            return int(await (await app.astart(ADD, {"a": n})).aresult(timeout=30))

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(n)) for n in range(20)]
        return [task.result() for task in tasks]

    assert asyncio.run(program()) == [n + 10 for n in range(20)]


def test_a_cancelled_wait_leaves_the_run_alone(app: Tenuto) -> None:
    async def program() -> Any:
        run = await app.astart(WAIT, {"id": "c"})
        waiting = asyncio.get_running_loop().create_task(run.aresult())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await app.asend_event("go", "c", 1)
        return await run.aresult(timeout=30)

    assert asyncio.run(program()) == 1


def test_runs_go_on_when_the_file_is_opened_again(tmp_path: Path) -> None:
    app = Tenuto(tmp_path / "runs.db")
    run = app.start(WAIT, {"id": "1"})
    app.close()

    again = Tenuto(f"sqlite:///{tmp_path}/runs.db")
    again.send_event("go", "1", "later")

    assert again.get_run(run.id).result(timeout=30) == "later"
    again.close()


def test_a_file_has_one_engine(tmp_path: Path) -> None:
    with Tenuto(tmp_path / "runs.db") as first:
        first.start(WAIT, {"id": "1"})
        second = Tenuto(tmp_path / "runs.db")

        with pytest.raises(Conflict, match="in use by another engine"):
            second.start(WAIT, {"id": "2"})


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    with Tenuto(tmp_path / "runs.db"):
        pass

    assert list(tmp_path.iterdir()) == []


def test_the_async_context_closes_what_it_opened(tmp_path: Path) -> None:
    async def program() -> bool:
        async with Tenuto(tmp_path / "runs.db") as app:
            await app.astart(WAIT, {"id": "1"})
            assert app.link.is_open
        return app.link.is_open

    assert asyncio.run(program()) is False


def test_bounds_below_one_are_refused() -> None:
    with pytest.raises(InvalidInput):
        Tenuto(slots=0)
    with pytest.raises(InvalidInput):
        Tenuto(threads=0)
    with pytest.raises(InvalidInput):
        Tenuto(slots=1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("word", ["\ud800", "a\0", "x" * 5_000, 5])
def test_a_word_that_cannot_be_stored_is_refused_and_hurts_nothing(app: Tenuto, word: Any) -> None:
    waiting = app.start(WAIT, {"id": "1"})

    for verb in (
        lambda: app.start(WAIT, {"id": "1"}, key=word),
        lambda: app.get_run(word),
        lambda: app.send_event(word, "1"),
        lambda: app.send_event("go", word),
        lambda: app.send_event("go", "1", event_id=word),
        lambda: waiting.cancel(word),
    ):
        with pytest.raises(InvalidInput):
            verb()

    app.send_event("go", "1", 2)
    assert waiting.result() == 2


def test_a_run_is_no_text() -> None:
    assert Run("r", Tenuto(":memory:")) != "r"


def test_opening_carries_on_what_an_earlier_program_left_and_starts_nothing(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    with Tenuto(file) as first:
        left = first.start(WAIT, {"id": "1"})

    with Tenuto(file) as second:
        second.open()
        opened = second.link.is_open
        second.send_event("go", "1", "here")
        found = second.get_run(left.id).result(timeout=30)

    assert (opened, found) == (True, "here")


def test_a_file_in_use_is_said_with_a_cure_in_python_and_no_line_of_the_engine(
    tmp_path: Path,
) -> None:
    file = tmp_path / "runs.db"
    with Tenuto(file) as first:
        first.open()
        with pytest.raises(Conflict) as raised:
            Tenuto(file).open()

    assert 'open another file: Tenuto("other.db")' in str(raised.value)
    assert "--database" not in str(raised.value)
    places = {Path(entry.path).parent.name for entry in raised.traceback[1:]}
    assert places == {"sdk"}
    assert (raised.value.__cause__, raised.value.__suppress_context__) == (None, True)


def test_a_mistake_is_raised_without_the_lines_of_the_engine(app: Tenuto) -> None:
    with pytest.raises(NotFound) as plain:
        app.get_run("gone")
    with pytest.raises(NotFound) as awaited:
        asyncio.run(app.aget_run("gone"))

    for raised in (plain, awaited):
        files = [Path(entry.path) for entry in raised.traceback]
        assert {path.parent.name for path in files if "src" in path.parts} == {"sdk"}


def test_enqueue_makes_one_workflow_of_a_task_named_after_it(app: Tenuto) -> None:
    runs = [app.enqueue("add", a=1), app.enqueue("add", a=1, b=2), app.enqueue("thread.name")]
    app.results(runs, timeout=30)

    async def rows(engine: Any) -> list[tuple[str, int]]:
        return [(row.workflow, row.version) for row in await engine.reads.list_runs(RunFilter())]

    assert sorted(app.link.wait(app.link.ask(rows), "rows")) == [
        ("enqueue:add", 1),
        ("enqueue:add", 1),
        ("enqueue:thread.name", 1),
    ]


BIG = """
name: big
nodes:
  say:
    type: code
    language: python
    code: |
      def main(params):
          return "x" * 2000
"""
SETTINGS = """
[worker]
slots = 3
threads = 1
drain = "0s"
[languages]
output = "1KiB"
"""


async def _workers(app: Tenuto) -> list[int]:
    rows = await app.near.ask(lambda engine: engine.reads.list_workers())
    return [row.capacity for row in rows]


def test_an_app_without_a_place_obeys_the_settings_and_its_arguments_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tenuto.toml").write_text('database = ":memory:"\n' + SETTINGS)
    by_settings, by_arguments = Tenuto(), Tenuto(slots=4)

    with by_settings, by_arguments:
        assert asyncio.run(_workers(by_settings)) == [3]
        assert asyncio.run(_workers(by_arguments)) == [4]
        with pytest.raises(RunFailed) as failed:
            by_settings.start(BIG).result(timeout=60)
    assert failed.value.code == "output_too_large"


def test_an_app_with_a_place_reads_no_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tenuto.toml").write_text("[worker]\nslots = 0\n")

    with pytest.raises(InvalidInput, match="slots"):
        Tenuto()
    with Tenuto(":memory:") as app:
        assert asyncio.run(_workers(app)) == [50]


def test_the_setting_drain_says_how_long_closing_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tenuto.toml").write_text(SETTINGS)
    app, begun = Tenuto(), threading.Event()

    @app.task
    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    told: list[float] = []
    stop = Engine.stop

    def stopped(engine: Engine, *, grace_s: float = 10.0) -> None:
        told.append(grace_s)
        stop(engine, grace_s=grace_s)

    monkeypatch.setattr(Engine, "stop", stopped)
    app.enqueue(endless)
    assert begun.wait(60)
    app.close()

    assert told == [0.0], "ten seconds are the default"

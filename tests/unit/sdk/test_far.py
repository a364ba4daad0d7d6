"""`Tenuto("http://…")`: the same verbs and errors as with an engine of one's own."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.rest import AWAIT, ECHO, Server, serving

from tenuto import Tenuto
from tenuto.model.errors import Conflict, InvalidDefinition, InvalidInput, NotFound, Unavailable
from tenuto.sdk import waiting
from tenuto.sdk.failures import RunFailed
from tenuto.sdk.far import FarLink
from tenuto.sdk.remote import Remote
from tenuto.worker.registry import Registry, TaskError

FAIL = """
name: fail
nodes:
  f: {type: task, task: refuse}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    registry = Registry()

    def add(a: int, b: int = 10) -> int:
        return a + b

    def refuse() -> None:
        raise TaskError("no_stock", "none left")

    registry.add(add, name="stock:add")
    registry.add(refuse)
    with serving(registry=registry) as made:
        yield made


@pytest.fixture
def app(server: Server) -> Iterator[Tenuto]:
    with Tenuto(server.url) as made:
        yield made


def test_a_run_is_started_and_its_output_awaited(app: Tenuto) -> None:
    run = app.start(ECHO, {"n": 1}, vars={"greeting": "hi"})

    assert run.result(timeout=30) == {"n": 1, "greeting": "hi"}
    assert run.status() == "success"
    assert app.get_run(run.id) == run


def test_a_deployed_name_a_path_and_a_text_are_workflows(app: Tenuto, tmp_path: Path) -> None:
    path = tmp_path / "echo.yaml"
    path.write_text(ECHO)

    assert app.deploy(path) == app.deploy(ECHO)
    assert app.start("echo", {"n": 2}).result(timeout=30)["n"] == 2
    assert app.start(path, {"n": 3}).result(timeout=30)["n"] == 3


def test_of_a_function_that_is_not_registered_here_the_server_may_have_the_name(
    app: Tenuto,
) -> None:
    with pytest.raises(NotFound) as raised:
        app.enqueue(serving)
    assert str(raised.value) == (
        "no task 'serving'; register it with @app.task, or name one that the server has: enqueue('serving', …)"
    )


def test_one_key_is_one_run(app: Tenuto) -> None:
    assert app.start(ECHO, {"n": 1}, key="k") == app.start(ECHO, {"n": 1}, key="k")
    assert app.start(ECHO, {"n": 1}) != app.start(ECHO, {"n": 1})


def test_many_runs_are_started_in_order_or_none_of_them(app: Tenuto, server: Server) -> None:
    def known() -> set[str]:
        """Ids alone: what other tests have started may go on meanwhile."""
        return {each["run_id"] for each in server.get("/v1/runs", limit=1000)["items"]}

    runs = app.start_many(ECHO, [{"n": n} for n in range(20)])

    assert [each["n"] for each in app.results(runs, timeout=30)] == list(range(20))
    before = known()
    with pytest.raises(InvalidInput, match=r"input\.n"):
        app.start_many(ECHO, [{"n": 1}, {"n": "one"}])
    assert {run.id for run in runs} <= before
    assert known() == before


def test_a_failure_is_raised_with_what_it_said(app: Tenuto) -> None:
    with pytest.raises(RunFailed) as raised:
        app.start(FAIL).result(timeout=30)

    assert (raised.value.code, raised.value.node, raised.value.message) == (
        "no_stock",
        "f",
        "none left",
    )


def test_an_event_ends_a_wait_once(app: Tenuto) -> None:
    run = app.start(AWAIT, {"order": "7"})

    assert app.send_event("order.approved", "7", {"by": "ann"}, event_id="e")
    assert not app.send_event("order.approved", "7", event_id="e")
    assert run.result(timeout=30) == {"by": "ann"}


def test_a_run_is_paused_resumed_and_cancelled(app: Tenuto) -> None:
    run = app.start(AWAIT, {"order": "8"})

    run.pause()
    assert run.status() == "paused"
    run.resume()
    run.cancel("enough")
    with pytest.raises(RunFailed, match="was cancelled"):
        run.result(timeout=30)
    with pytest.raises(Conflict, match="is already cancelled"):
        run.cancel()


def test_a_task_of_the_servers_worker_is_called_by_name(app: Tenuto) -> None:
    assert app.enqueue("stock:add", a=1).result(timeout=30) == 11
    assert app.enqueue("stock:add", a=1, b=2).result(timeout=30) == 3
    assert app.enqueue("stock:add", b=5, a=1).result(timeout=30) == 6


def test_calls_with_the_same_params_are_one_version(app: Tenuto, server: Server) -> None:
    for _ in range(2):
        with Tenuto(server.url) as other:
            other.enqueue("stock:add", a=1).result(timeout=30)
            other.enqueue("stock:add", a=1, b=1).result(timeout=30)

    found = server.get("/v1/workflows", limit=100)["items"]
    assert {each["version"] for each in found if each["name"].startswith("enqueue.")} == {1}


def test_a_declared_task_is_checked_before_anything_is_sent(app: Tenuto) -> None:
    @app.task(name="stock:add")
    def add(a: int, b: int = 10) -> int:
        raise AssertionError("the server's worker runs it")

    assert app.enqueue(add, a=1).result(timeout=30) == 11
    with pytest.raises(InvalidInput, match="c"):
        app.enqueue(add, a=1, c=2)
    with pytest.raises(NotFound, match=r"register it with @app\.task"):
        app.enqueue(lambda: None)


@pytest.mark.parametrize(
    ("ask", "error", "said"),
    [
        (lambda app: app.start("ecco"), NotFound, "no workflow 'ecco'"),
        (lambda app: app.start("nowhere.yaml"), NotFound, "no file 'nowhere.yaml'"),
        (lambda app: app.start("name: x\n"), InvalidDefinition, "<text>:1:1: error"),
        (lambda app: app.deploy("echo"), InvalidInput, "is neither a .yaml, .yml or .json file"),
        (lambda app: app.start(ECHO, {"n": 1}, vars={"x": 1}), InvalidInput, "vars.x: "),
        (lambda app: app.start(ECHO, {"n": 1}, key="a\0"), InvalidInput, "key: it holds a NUL"),
        (lambda app: app.get_run("0" * 36), NotFound, "no run"),
        (lambda app: app.send_event("a\0", "k"), InvalidInput, "event: it holds a NUL"),
    ],
)
def test_a_mistake_is_the_same_error_as_with_an_engine_of_ones_own(
    app: Tenuto, ask: Callable[[Tenuto], Any], error: type[Exception], said: str
) -> None:
    app.deploy(ECHO)
    with pytest.raises(error) as raised:
        ask(app)
    with Tenuto(":memory:") as near:
        near.deploy(ECHO)
        with pytest.raises(error):
            ask(near)

    assert said in str(raised.value)


def test_part_of_an_id_names_no_run(app: Tenuto) -> None:
    run = app.start(ECHO, {"n": 1})

    with pytest.raises(NotFound, match=f"did you mean {run.id}"):
        app.get_run(run.id[-12:])


async def test_coroutines_use_it_from_any_loop(server: Server) -> None:
    async with Tenuto(server.url) as app:
        await app.aopen()
        run = await app.astart(ECHO, {"n": 4})

        assert (await run.aresult(timeout=30))["n"] == 4
        assert await run.astatus() == "success"
        with pytest.raises(RuntimeError, match=r"use `await …aget_run\(…\)`"):
            app.get_run(run.id)

    def elsewhere() -> None:
        asyncio.run(_again(server.url))

    await asyncio.to_thread(elsewhere)


async def _again(url: str) -> None:
    async with Tenuto(url) as app:
        assert (await (await app.astart(ECHO, {"n": 5})).aresult(timeout=30))["n"] == 5


async def test_a_wait_that_runs_out_leaves_the_run_alone(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "LOOK_S", 60.0)  # a busy machine's server takes longer to say why
    async with Tenuto(server.url) as app:
        run = await app.astart(AWAIT, {"order": "9"})
        waits = r"0\.1 s: ask waits for event order.approved key 9$"
        with pytest.raises(TimeoutError, match=rf"has not ended within {waits}"):
            await run.aresult(timeout=0.1)
        other = await app.astart(AWAIT, {"order": "10"})
        await other.acancel()
        with pytest.raises(TimeoutError, match=rf"within 0\.1 s: run {run.id}: ask waits for"):
            await app.aresults([run, other], timeout=0.1)

        assert await run.astatus() == "running"
        await run.acancel()


def close_while_it_waits(
    link: Any, coroutine: Coroutine[Any, Any, None], waits: threading.Event
) -> None:
    """Wait for it in a thread, close the client under that, and see what the thread is told."""
    told: list[BaseException] = []

    def waiter() -> None:
        try:
            link.wait(coroutine, "result")
        except BaseException as error:
            told.append(error)

    thread = threading.Thread(target=waiter)
    thread.start()
    assert waits.wait(30)
    link.close()
    thread.join()

    assert [type(error) for error in told] == [Unavailable]
    assert str(told[0]) == "the client was closed while it waited"


def test_closing_ends_a_wait_with_its_reason(server: Server) -> None:
    app = Tenuto(server.url)
    run = app.start(AWAIT, {"order": "10"})
    waits = threading.Event()

    async def wait() -> None:
        waits.set()
        await app.far.outcomes([run.id])  # type: ignore[union-attr]

    close_while_it_waits(app.link, wait(), waits)
    assert run.status() == "running", "the next verb opens anew"
    run.cancel()
    app.close()


@pytest.mark.parametrize("pauses", [(0, 0), (0,) * 5, (0.05,)])
def test_closing_waits_for_whoever_cleans_up_after_it(pauses: Sequence[float]) -> None:
    """As an HTTP client does: were the loop stopped meanwhile, he would wait for ever."""
    link, waits = FarLink("http://127.0.0.1:1"), threading.Event()

    async def wait() -> None:
        try:
            waits.set()
            await asyncio.Event().wait()
        finally:
            for pause in pauses:
                await asyncio.sleep(pause)

    close_while_it_waits(link, wait(), waits)


def test_what_begins_while_it_is_closed_leaves_no_connection_for_the_next(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection belongs to the loop on which it was made, and that one ends."""
    link, busy, go = FarLink(server.url), threading.Event(), threading.Event()
    handed: queue.Queue[None] = queue.Queue()
    hand_in = asyncio.run_coroutine_threadsafe

    def seen(*given: Any) -> Any:
        try:
            return hand_in(*given)
        finally:
            handed.put(None)

    async def block() -> None:
        busy.set()
        go.wait()

    async def ask() -> None:
        await link.ask(Remote.health)

    def quietly(coroutine: Coroutine[Any, Any, None]) -> None:
        with suppress(Unavailable):
            link.wait(coroutine, "open")

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", seen)
    threads = []
    for target, given in ((quietly, [block()]), (quietly, [ask()]), (link.close, [])):
        threads.append(threading.Thread(target=target, args=given))
        threads[-1].start()
        handed.get()  # in this order on the loop, which stands still
        busy.wait()
    go.set()
    for thread in threads:
        thread.join()

    assert not link.is_open
    link.wait(ask(), "open")
    link.close()


def test_where_nobody_listens_the_cure_is_named() -> None:
    with (
        Tenuto("http://127.0.0.1:1") as app,
        pytest.raises(Unavailable, match=r"nobody listens at http://127\.0\.0\.1:1; start a"),
    ):
        app.open()


def test_what_is_no_address_is_refused_at_once() -> None:
    with pytest.raises(InvalidInput, match="is no address of a server"):
        Tenuto("http://")


def test_an_app_of_a_server_keeps_the_default_database_for_workers_of_the_same_module() -> None:
    app = Tenuto("http://127.0.0.1:1")

    assert app.has_default_database

"""The client of REST: against a real server, and against servers that misbehave."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.rest import AWAIT, ECHO, PAUSE, Server, serving
from tests.support.scripted import (
    Answer,
    Asked,
    Scripted,
    answer,
    event,
    problem,
    raw,
    scripted,
    stream,
)
from tests.support.tcp import a_tcp_server

from tenuto.model.errors import Conflict, InvalidDefinition, InvalidInput, NotFound, Unavailable
from tenuto.model.version import VERSION
from tenuto.runtime.results import Refused
from tenuto.sdk.problems import START
from tenuto.sdk.remote import Remote, Sending
from tenuto.views.answers import Answers

RUN = {
    "run_id": "r-1",
    "state": "running",
    "quarantine": None,
    "deduplicated": False,
    "output": None,
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as made:
        for text in (ECHO, AWAIT, PAUSE.format(name="nap", time="1h")):
            made.deploy(text)
        made.wait(made.start("echo", {"n": 0}))  # whichever test comes first: there are runs
        yield made


@asynccontextmanager
async def remote_of(server: Server | Scripted, **more: Any) -> AsyncIterator[Remote]:
    async with Remote(server.url, **more) as remote:
        yield remote


# -- against a real server -----------------------------------------------------------------------------------------


async def test_a_run_is_started_waited_for_and_read(server: Server) -> None:
    async with remote_of(server) as remote:
        run = await remote.start_run("echo", {"n": 3}, key="k1", vars={"greeting": "hi"})
        report = await remote.wait_run(run["run_id"])
        again = await remote.start_run("echo", {"n": 4}, key="k1")

        assert report["output"] == {"n": 3, "greeting": "hi"}
        assert await remote.get_run(run["run_id"][-12:]) == report
        assert (again["run_id"], again["deduplicated"]) == (run["run_id"], True)


@pytest.mark.rule("X1.3")
async def test_a_priority_is_passed_on_and_a_bad_one_refused(server: Server) -> None:
    async with remote_of(server) as remote:
        run = await remote.start_run("echo", {"n": 3}, priority=4)

        assert (await remote.get_run(run["run_id"]))["priority"] == 4
        with pytest.raises(InvalidInput, match="priority: "):
            await remote.start_run("echo", {"n": 3}, priority=10)


async def test_every_document_is_the_one_that_the_reading_verbs_make() -> None:
    """On a server of its own: runs that other tests left going would end between one reading and the other."""
    with serving() as server:
        for text in (ECHO, AWAIT, PAUSE.format(name="nap", time="1h")):
            server.deploy(text)
        async with remote_of(server) as remote:
            run = await remote.start_run("echo", {"n": 5})
            run_id = (await remote.wait_run(run["run_id"]))["run_id"]
            for workflow in ("nap", "approval"):
                await remote.start_run(workflow, {"order": "documents"})
            await _read_by_both(server, remote, run_id)


async def _read_by_both(server: Server, remote: Remote, run_id: str) -> None:
    answers = Answers(reads=server.engine.reads, now=lambda: 0, database=":memory:")

    def near(make: Any) -> Any:
        return server.engine.call(make(answers)).result(30)

    asked: list[Callable[[Any], Any]] = [
        lambda source: source.list_runs(limit=2, states=["success"], workflow="echo"),
        lambda source: source.list_runs(since=0, until=2**60 // 1_000),
        lambda source: source.count_runs(),
        lambda source: source.get_run(run_id),
        lambda source: source.run_history(run_id, after=1),
        lambda source: source.run_notes(run_id, node="say"),
        lambda source: source.run_node(run_id, "say"),
        lambda source: source.export_run(run_id),
        lambda source: source.verify_run(run_id),
        lambda source: source.list_workflows(),
        lambda source: source.get_workflow("echo"),
        lambda source: source.list_versions("echo"),
        lambda source: source.get_version("echo", 1),
        lambda source: source.list_tasks(states=["dead"], queue="default"),
        lambda source: source.list_awaited(event="order.approved"),
    ]
    for make in asked:
        assert await make(remote) == near(make)
    assert [each["id"] for each in (await remote.list_workers())["items"]]


async def test_pages_follow_their_cursors_to_the_end(server: Server) -> None:
    async with remote_of(server) as remote:
        for n in range(5):
            await remote.start_run("echo", {"n": n}, key=f"page-{n}")
        seen: list[str] = []
        cursor: str | None = None
        while True:
            page = await remote.list_runs(workflow="echo", limit=2, cursor=cursor)
            seen += [run["run_id"] for run in page["items"]]
            cursor = page["next"]
            if cursor is None:
                break

        whole = await remote.list_runs(workflow="echo", limit=1000)
        assert seen == [run["run_id"] for run in whole["items"]]


async def test_a_definition_is_validated_and_deployed(server: Server) -> None:
    text = "name: fresh\nnodes: {s: {type: set, values: {x: 1}}}\n"
    async with remote_of(server) as remote:
        first, second = await remote.deploy(text, "f.yaml"), await remote.deploy(text)
        bad = await remote.validate("name: x\nnodes: {a: {type: tusk}}\n", "bad.yaml")

        assert (first["created"], second["created"], first["version"]) == (True, False, 1)
        assert (bad["valid"], bad["findings"][0]["file"]) == (False, "bad.yaml")
        with pytest.raises(InvalidDefinition, match=r"bad\.yaml:2:\d+: error"):
            await remote.deploy("name: x\nnodes: {a: {type: tusk}}\n", "bad.yaml")


async def test_a_run_is_paused_resumed_and_cancelled(server: Server) -> None:
    async with remote_of(server) as remote:
        run_id = (await remote.start_run("nap"))["run_id"]

        assert (await remote.pause_run(run_id))["state"] == "paused"
        with pytest.raises(Conflict, match=f"run {run_id} is already paused"):
            await remote.pause_run(run_id)
        assert (await remote.resume_run(run_id))["state"] == "running"
        assert (await remote.cancel_run(run_id, "enough"))["state"] in ("closing", "cancelled")
        assert (await remote.wait_run(run_id))["state"] == "cancelled"


async def test_a_run_is_started_and_waited_for_in_one(server: Server) -> None:
    async with remote_of(server) as remote:
        report = await remote.run("echo", {"n": 3}, key="in-one", vars={"greeting": "hi"})
        again = await remote.run("echo", {"n": 4}, key="in-one", version=1, priority=0)

        assert report["output"] == {"n": 3, "greeting": "hi"}
        assert (report["deduplicated"], again) == (False, {**report, "deduplicated": True})
        assert (await remote.run("nap", timeout_s=0.05))["state"] == "running"
        at_once = await remote.run("nap", timeout_s=0)
        assert (at_once["state"], at_once["output"]) == ("running", None)
        with pytest.raises(InvalidInput, match=r"input\.n: "):
            await remote.run("echo", {"n": "x"})


async def test_a_run_that_takes_longer_than_one_request_is_waited_for_on(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenuto.sdk.remote.WAIT_S", 0.01)
    async with remote_of(server) as remote:
        started = asyncio.create_task(remote.run("approval", {"order": "slow"}))
        late = await remote.run("approval", {"order": "late"}, timeout_s=0.3)
        await remote.send_event("order.approved", "slow", 1)
        report = await started

    assert (report["state"], report["output"], report["deduplicated"]) == ("success", 1, False)
    assert (late["state"], late["deduplicated"]) == ("running", False)


async def test_many_events_are_sent_in_one_request(server: Server) -> None:
    async with remote_of(server) as remote:
        runs = [
            (await remote.start_run("approval", {"order": f"m{n}"}))["run_id"] for n in range(3)
        ]
        sent = [Sending("order.approved", f"m{n}", {"n": n}, event_id=f"m{n}") for n in range(2)]

        last = Sending("order.approved", "m2", keep="1h")
        assert await remote.send_events([*sent, last]) == [True] * 3
        assert await remote.send_events(sent) == [False] * 2
        outputs = [(await remote.wait_run(run))["output"] for run in runs]
        assert outputs == [{"n": 0}, {"n": 1}, None]
        with pytest.raises(InvalidInput, match=r"events\.1\.event: "):
            await remote.send_events([last, Sending("", "k")])
        with pytest.raises(Refused, match="payload"):
            await remote.send_events([Sending("e", "k", {1, 2})])


async def test_waiting_gives_up_after_its_time_and_shows_how_the_run_stands(
    server: Server,
) -> None:
    async with remote_of(server) as remote:
        run_id = (await remote.start_run("nap"))["run_id"]

        assert (await remote.wait_run(run_id, 0.05))["state"] == "running"


async def test_events_are_sent_once_per_id_and_reach_their_wait(server: Server) -> None:
    async with remote_of(server) as remote:
        run_id = (await remote.start_run("approval", {"order": "o1"}))["run_id"]

        assert {"event": "order.approved", "key": "o1", "waits": 1} in (
            await remote.list_awaited()
        )["items"]
        assert await remote.send_event("order.approved", "o1", {"by": "ann"}, event_id="e1")
        assert not await remote.send_event("order.approved", "o1", event_id="e1")
        assert (await remote.wait_run(run_id))["output"] == {"by": "ann"}


async def test_a_run_is_followed_to_its_end(server: Server) -> None:
    async with remote_of(server) as remote:
        run_id = (await remote.start_run("approval", {"order": "o2"}))["run_id"]
        names: list[str] = []
        async for name, document in remote.follow_run(run_id, 0):
            if name == "state" and not names:
                await remote.send_event("order.approved", "o2", "\u2028 and \x85")
            names.append(name)
            if name == "state":
                last = document

        assert names[0] == "state"
        assert names[-1] == "end"
        assert "history" in names
        assert last["state"] == "success"


@pytest.mark.parametrize(
    ("ask", "error", "said"),
    [
        (lambda r: r.get_run("zzz"), NotFound, "no run 'zzz'; `tenuto run list` shows those"),
        (lambda r: r.get_run(" "), InvalidInput, "a run's id is empty"),
        (lambda r: r.get_run(".."), NotFound, "no run '..'"),
        (lambda r: r.get_run("\udcff"), NotFound, "no run"),
        (lambda r: r.get_run("a/b?c#d"), NotFound, "no run"),
        (lambda r: r.get_workflow("ecco"), NotFound, "no workflow 'ecco'; did you mean 'echo'?"),
        (lambda r: r.get_version("echo", 9), NotFound, "no version 'echo 9'; the newest is 1"),
        (lambda r: r.list_runs(states=["done"]), InvalidInput, "there is no"),
        (lambda r: r.list_runs(limit=0), InvalidInput, "limit: "),
        (lambda r: r.list_tasks(cursor="\u2603"), InvalidInput, "cursor"),
        (lambda r: r.start_run("echo", {"n": "x"}), InvalidInput, "input.n: 'x' is not of type"),
        (lambda r: r.start_run("echo", {"n": 1}, vars={"no": 1}), InvalidInput, "vars.no: "),
        (lambda r: r.start_run("echo", {"n": 1}, key="a\0"), InvalidInput, "key: it holds a NUL"),
        (lambda r: r.start_run("echo", {"n": {1, 2}}), Refused, "input.n"),
        (lambda r: r.send_event("e", "k", float("nan")), Refused, "payload"),
    ],
)
async def test_a_mistake_is_the_error_that_the_engine_itself_raises(
    server: Server, ask: Any, error: type[Exception], said: str
) -> None:
    async with remote_of(server) as remote:
        with pytest.raises(error) as raised:
            await ask(remote)

    assert said in str(raised.value)
    assert type(raised.value) is error


# -- against servers that misbehave --------------------------------------------------------------------------------


async def test_where_nobody_listens_the_cure_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with Remote(url) as remote:
            with pytest.raises(Unavailable) as raised:
                await remote.get_run("r")

    assert str(raised.value) == f"nobody listens at {url}; {START}"


async def test_a_port_for_workers_is_no_rest_and_said_to_be_one() -> None:
    """What a gRPC server sends first, whatever it is asked: HTTP/2's SETTINGS."""

    async def greet(_: object, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x00\x00\x12\x04" + bytes(5) + b"\x00\x03\x7f\xff\xff\xff" * 3)

    async with a_tcp_server(greet) as port:
        url = f"http://127.0.0.1:{port}"
        async with Remote(url) as remote:
            with pytest.raises(Unavailable) as raised:
                await remote.get_run("r")

    assert str(raised.value).startswith(
        f"{url} is no REST: it looks like a server's port for workers"
    )


@pytest.mark.parametrize(
    "health",
    [
        answer(200, {"hello": "world"}),
        answer(404, {"detail": "Not Found"}),
        raw(200, b"<html>", Content_Type="text/html"),
        raw(200, b"{", Content_Type="application/json"),
        raw(204),
    ],
)
async def test_another_product_at_the_address_is_told_apart(health: bytes) -> None:
    with scripted(lambda asked, before: health, health=None) as site:
        async with remote_of(site) as remote:
            with pytest.raises(Unavailable) as raised:
                await remote.list_runs()

    assert str(raised.value).startswith(f"what answers at {site.url} is no Tenuto server")


async def test_a_redirect_is_named_and_not_followed() -> None:
    moved = raw(301, Location="http://elsewhere.example/v1/health")
    with scripted(lambda asked, before: moved, health=None) as site:
        async with remote_of(site) as remote:
            with pytest.raises(Unavailable) as raised:
                await remote.health()

    assert "redirect to http://elsewhere.example/v1/health" in str(raised.value)
    assert site.paths() == ["/v1/health"]


async def test_a_server_of_another_version_that_lacks_a_route_is_named_as_such() -> None:
    health = {"status": "ok", "version": "9.9.9"}
    with scripted(lambda asked, before: answer(404, {"detail": "?"}), health=health) as site:
        async with remote_of(site) as remote:
            with pytest.raises(Unavailable, match=r"it is Tenuto 9\.9\.9, and this is "):
                await remote.list_workers()


async def test_who_is_asked_too_much_is_asked_again_after_a_while() -> None:
    def script(asked: Asked, before: int) -> Answer:
        if before < 2:
            return answer(429, {"code": "rate_limited", "detail": "too many"}, Retry_After="0")
        return answer(200, {"items": [], "next": None})

    with scripted(script) as site:
        async with remote_of(site) as remote:
            assert await remote.list_workers() == {"items": [], "next": None}

    assert len(site.asked) == 3


async def test_patience_with_refusals_has_an_end() -> None:
    refusal = answer(429, {"code": "rate_limited", "detail": "too many"}, Retry_After="0")
    with scripted(lambda asked, before: refusal) as site:
        async with remote_of(site) as remote:
            with pytest.raises(Unavailable, match="is asked too much: too many"):
                await remote.list_workers()


@pytest.mark.parametrize(
    "ask",
    [
        lambda r: r.list_runs(),
        lambda r: r.start_run("w"),
        lambda r: r.start_run("w", key="mine"),
        lambda r: r.run("w", timeout_s=0.05),
        lambda r: r.run("w", key="mine", timeout_s=0.05),
        lambda r: r.deploy("name: x"),
    ],
)
async def test_what_may_be_repeated_is_repeated_when_its_answer_is_lost(ask: Any) -> None:
    with scripted(lambda asked, before: answer(200, RUN) if before else None) as site:
        async with remote_of(site) as remote:
            await ask(remote)

    first, second, *_ = site.asked  # a run that has not ended is waited for on
    assert (first.body, first.headers.get("idempotency-key")) == (
        second.body,
        second.headers.get("idempotency-key"),
    )


async def test_a_start_without_a_key_brings_one_of_its_own() -> None:
    with scripted(lambda asked, before: answer(201, RUN)) as site:
        async with remote_of(site) as remote:
            await remote.start_run("w")
            await remote.start_run("w")
            await remote.start_run("w", key="mine")

    drawn = [each.headers.get("idempotency-key") for each in site.asked]
    assert drawn[0] is not None
    assert drawn[0] != drawn[1]
    assert drawn[2] is None
    assert json.loads(site.asked[2].body)["key"] == "mine"


async def test_an_event_whose_answer_was_lost_counts_as_sent() -> None:
    """The server kept the first request, whose answer was lost, and drops the second as the same."""
    script = [None, answer(202, {"stored": False})]
    with scripted(lambda asked, before: script[before]) as site:
        async with remote_of(site) as remote:
            assert await remote.send_event("e", "k") is True

    assert site.asked[0].body == site.asked[1].body


async def test_many_events_whose_answer_was_lost_count_as_sent() -> None:
    stored = answer(202, {"items": [{"stored": False}, {"stored": False}]})
    with scripted(lambda asked, before: stored if before else None) as site:
        async with remote_of(site) as remote:
            found = await remote.send_events([Sending("e", "k"), Sending("e", "k", event_id="x")])

    assert found == [True, False]
    assert site.asked[0].body == site.asked[1].body


async def test_a_start_that_waits_outlives_a_server_that_comes_back() -> None:
    ended = RUN | {"state": "success"}
    script = [None, problem(503, "unavailable", "stopping"), answer(201, ended)]
    numbers = iter(range(len(script)))
    with scripted(lambda asked, before: script[next(numbers)]) as site:
        async with remote_of(site) as remote:
            assert (await remote.run("w"))["state"] == "success"

    assert len({each.headers["idempotency-key"] for each in site.asked}) == 1
    assert site.paths() == ["/v1/runs?wait=25"] * 3


async def test_a_start_of_which_nothing_more_can_be_told_just_now_is_waited_for_on() -> None:
    alone = {name: value for name, value in RUN.items() if name != "output"}
    ended = RUN | {"state": "success", "output": 1}
    with scripted(
        lambda asked, before: answer(200, alone if "?wait" in asked.path else ended)
    ) as site:
        async with remote_of(site) as remote:
            assert (await remote.run("w"))["output"] == 1

    assert site.paths() == ["/v1/runs?wait=25", "/v1/runs/r-1/wait?timeout=25"]


async def test_a_cancel_whose_answer_is_lost_is_not_repeated() -> None:
    with scripted(lambda asked, before: None) as site:
        async with remote_of(site) as remote:
            with pytest.raises(Unavailable, match="it may have been done: look before you try"):
                await remote.cancel_run("r-1")

    assert len(site.asked) == 1


async def test_a_wait_outlives_a_server_that_comes_back() -> None:
    ended = RUN | {"state": "success"}
    script = [None, problem(503, "unavailable", "stopping"), answer(200, RUN), answer(200, ended)]
    numbers = iter(range(len(script)))
    with scripted(lambda asked, before: script[next(numbers)]) as site:
        async with remote_of(site) as remote:
            assert (await remote.wait_run("r-1"))["state"] == "success"


async def test_a_wait_for_a_server_that_stays_away_says_so() -> None:
    with scripted(lambda asked, before: None) as site:
        async with remote_of(site, patience_s=0.3) as remote:
            with pytest.raises(Unavailable, match=r"has gone .* start it again, or name another"):
                await remote.wait_run("r-1")


async def test_a_stream_that_breaks_is_opened_anew_behind_its_last_event() -> None:
    streams = [
        stream([event("state", RUN), event("history", {"seq": 1, "t": "\u2028"}, 1)]),
        None,
        problem(503, "unavailable", "starting"),
        stream([event("history", {"seq": 2}, 2)[:-9]]),  # broken off in the middle of an event
        stream([b": alive\n\n", event("history", {"seq": 2}, 2), event("end", {})]),
    ]
    numbers = iter(range(len(streams)))
    with scripted(lambda asked, before: streams[next(numbers)]) as site:
        async with remote_of(site) as remote:
            seen = [each async for each in remote.follow_run("r-1")]

    assert seen == [
        ("state", RUN),
        ("history", {"seq": 1, "t": "\u2028"}),
        ("history", {"seq": 2}),
        ("end", {}),
    ]
    assert [each.headers.get("last-event-id") for each in site.asked] == [None, *["1"] * 4]


async def test_a_stream_that_stays_broken_says_so() -> None:
    with scripted(lambda asked, before: stream([])) as site:
        async with remote_of(site, patience_s=0.3) as remote:
            with pytest.raises(Unavailable, match="has gone"):
                [each async for each in remote.follow_run("r-1")]


async def test_a_stream_of_a_run_that_is_not_there_is_not_asked_for_again() -> None:
    with scripted(lambda asked, before: problem(404, "not_found", "no run 'r-1'")) as site:
        async with remote_of(site) as remote:
            with pytest.raises(NotFound, match="no run 'r-1'"):
                [each async for each in remote.follow_run("r-1")]

    assert len(site.asked) == 1


async def test_a_proxy_of_the_environment_is_no_way_to_this_machine(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with remote_of(server) as remote:
        assert (await remote.health())["status"] == "ok"


async def test_a_server_that_does_not_answer_is_not_waited_for_for_ever() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        async with Remote(url, timeout_s=0.2) as remote:
            # As if it had been greeted: a connection that a busy machine makes too slowly is then made once more.
            remote.version = VERSION
            with pytest.raises(Unavailable, match=r"has not answered within 0\.2 s"):
                await remote.get_run("r")


async def test_a_password_in_the_address_is_sent_and_never_shown() -> None:
    with scripted(
        lambda asked, before: answer(500, {"code": "internal", "detail": "id 1"})
    ) as site:
        url = site.url.replace("//", "//ann:geheim@")
        async with Remote(url) as remote:
            with pytest.raises(Unavailable) as raised:
                await remote.list_workers()

    assert "geheim" not in str(raised.value)
    assert site.asked[0].headers["authorization"].startswith("Basic ")

"""REST over real HTTP, a real engine and a real store: every route, every problem, streams, keys, stops and kills."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.support.rest import AWAIT, CALL, ECHO, PAUSE, Server, serving, streaming

from tenuto.adapters.sql.reads import SqlReads
from tenuto.api import models
from tenuto.api.limits import Limits
from tenuto.api.page import Page
from tenuto.api.problems import KINDS
from tenuto.api.routes import health
from tenuto.coordinator.commands import Commands
from tenuto.model.errors import Unavailable
from tenuto.web import HEADERS, ROUTES, files
from tenuto.worker.context import current
from tenuto.worker.registry import Registry

ROOT = Path(__file__).parents[2]
NOBODY = "01980000-0000-7000-8000-000000000009"
BROKEN = "name: broken\nnodes:\n  a: {type: wiat, for: 1s}\n"


@pytest.fixture(scope="module", params=["memory", "file"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    path: Path | str = ":memory:"
    if request.param == "file":
        path = tmp_path_factory.mktemp("api") / "tenuto.db"
    with serving(path) as server:
        server.deploy(ECHO)
        server.deploy(AWAIT)
        server.deploy(PAUSE.format(name="long", time="1h"))
        yield server


def alone(server: Server) -> None:
    """Until nobody is held: a server learns a moment later that the clients of an earlier test have gone."""
    while server.held:
        server.get("/healthz")


def problem(answer: httpx2.Response, code: str) -> Any:
    """The document of a problem of this code."""
    document = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert document["code"] == code, document
    assert answer.status_code == document["status"] == KINDS[code].status
    assert document["title"] == KINDS[code].title
    models.Problem.model_validate(document)
    assert "Traceback" not in answer.text
    return document


# -- workflows --------------------------------------------------------------------------------------------------------


def test_a_definition_is_stored_once_and_then_known(server: Server) -> None:
    source = "name: once\nnodes:\n  a: {type: wait, for: 1s}\n"
    first = server.client.post("/v1/workflows", json={"source": source, "file": "once.yaml"})
    again = server.client.post("/v1/workflows", json={"source": source})
    other = server.client.post("/v1/workflows", json={"source": source.replace("1s", "2s")})

    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 201)
    assert [each.json()["created"] for each in (first, again, other)] == [True, False, True]
    assert [each.json()["version"] for each in (first, again, other)] == [1, 1, 2]
    assert other.headers["location"] == "/v1/workflows/once/versions/2"
    for each in (first, again, other):
        models.Deployed.model_validate(each.json())
    assert [row["version"] for row in server.get("/v1/workflows/once/versions")["items"]] == [2, 1]
    assert server.get("/v1/workflows/once")["version"] == 2
    assert server.get("/v1/workflows/once/versions/1")["source"] == source
    models.VersionPage.model_validate(server.get("/v1/workflows/once/versions"))
    models.WorkflowPage.model_validate(server.get("/v1/workflows"))
    models.Version.model_validate(server.get("/v1/workflows/once"))


def test_a_definition_may_be_sent_as_its_text(server: Server) -> None:
    answer = server.client.post(
        "/v1/workflows",
        content=PAUSE.format(name="astext", time="1s"),
        headers={"Content-Type": "application/yaml; charset=utf-8"},
    )

    assert (answer.status_code, answer.json()["name"]) == (201, "astext")


def test_a_broken_definition_is_answered_with_all_findings(server: Server) -> None:
    answer = server.client.post("/v1/workflows", json={"source": BROKEN, "file": "broken.yaml"})

    document = problem(answer, "invalid_definition")
    [finding] = document["findings"]
    assert (finding["file"], finding["line"], finding["text"]) == ("broken.yaml", 3, "wiat")
    assert "wait" in finding["hint"]


def test_validating_stores_nothing(server: Server) -> None:
    good = server.post("/v1/workflows/validate", {"source": PAUSE.format(name="ghost", time="1s")})
    bad = server.post("/v1/workflows/validate", {"source": BROKEN})

    assert (good["valid"], good["name"], good["findings"]) == (True, "ghost", [])
    assert (bad["valid"], bad["name"], len(bad["findings"])) == (False, None, 1)
    models.Validated.model_validate(bad)
    problem(server.client.get("/v1/workflows/ghost"), "not_found")


def test_a_definition_beyond_its_limit_is_a_finding(server: Server) -> None:
    source = "name: big\n# " + "x" * 1_100_000 + "\nnodes:\n  a: {type: wait, for: 1s}\n"

    document = problem(
        server.client.post("/v1/workflows", json={"source": source}), "invalid_definition"
    )
    assert document["findings"][0]["code"] == "too_large"


def test_an_unknown_workflow_names_the_one_that_is_meant(server: Server) -> None:
    document = problem(server.client.get("/v1/workflows/ecko"), "not_found")

    assert document["detail"] == "no workflow 'ecko'; did you mean 'echo'?"
    detail = problem(server.client.get("/v1/workflows/echo/versions/9"), "not_found")["detail"]
    assert detail == "no version 'echo 9'; the newest is 1"


def test_pictures_are_svg_with_a_policy_of_their_own(server: Server) -> None:
    run_id = server.start("echo", {"n": 1})
    server.wait(run_id)
    whole = server.client.get("/v1/workflows/echo/versions/1/graph.svg")
    run = server.client.get(f"/v1/runs/{run_id}/graph.svg")

    for answer in (whole, run):
        assert answer.headers["content-type"].startswith("image/svg+xml")
        assert "sandbox" in answer.headers["content-security-policy"]
    assert 'data-node="say"' in whole.text
    assert 'data-state="success"' in run.text
    problem(server.client.get(f"/v1/runs/{NOBODY}/graph.svg"), "not_found")


# -- runs -------------------------------------------------------------------------------------------------------------


def test_a_run_is_started_waited_for_and_shown(server: Server) -> None:
    answer = server.client.post(
        "/v1/runs", json={"workflow": "echo", "input": {"n": 7}, "vars": {"greeting": "hi"}}
    )
    document = answer.json()
    models.StartedRun.model_validate(document)
    report = server.wait(document["run_id"])

    assert answer.status_code == 201
    assert answer.headers["location"] == f"/v1/runs/{document['run_id']}"
    assert document["deduplicated"] is False
    assert (report["state"], report["output"]) == ("success", {"n": 7, "greeting": "hi"})
    run = f"/v1/runs/{document['run_id']}"
    models.RunReport.model_validate(server.get(run))
    models.EventPage.model_validate(server.get(f"{run}/history"))
    models.NotePage.model_validate(server.get(f"{run}/notes"))
    models.RunNode.model_validate(server.get(f"{run}/nodes/say"))
    models.Export.model_validate(server.get(f"{run}/export"))
    assert models.Verified.model_validate(server.get(f"{run}/verify")).ok
    assert server.get(f"{run}/nodes/say")["output"] == {"n": 7, "greeting": "hi"}
    assert server.get(f"/v1/runs/{document['run_id'][-8:]}")["run_id"] == document["run_id"]


def test_a_version_may_be_asked_for(server: Server) -> None:
    for seconds in (1, 2):
        server.deploy(PAUSE.format(name="pinned", time=f"{seconds}h"))

    first = server.post("/v1/runs", {"workflow": "pinned", "version": 1}, status=201)
    newest = server.post("/v1/runs", {"workflow": "pinned"}, status=201)
    assert (first["version"], newest["version"]) == (1, 2)


@pytest.mark.parametrize(
    ("body", "path", "told"),
    [
        ({"workflow": "echo", "input": {"n": "x"}}, "input.n", "input.n: "),
        ({"workflow": "echo", "input": {}}, "input", "input: "),
        ({"workflow": "echo", "input": {"n": 1}, "vars": {"greting": 1}}, "vars.greting", "did you mean `greeting`?"),
        ({"workflow": "echo", "inptu": {"n": 1}}, "inptu", "did you mean 'input'?"),
        ({"input": {"n": 1}}, "workflow", "workflow: is missing; add it"),
        ({"workflow": 1}, "workflow", "workflow: must be text"),
        ({"workflow": "echo", "version": 0}, "version", "version: "),
        ({"workflow": "echo", "version": "1"}, "version", "version: must be a whole number"),
        ({"workflow": "echo", "input": {"n": 1}, "key": ""}, "key", "key: "),
        ({"workflow": "echo", "input": {"n": 1}, "key": "k" * 513}, "key", "key: "),
        ({"workflow": "echo", "input": {"n": 1}, "key": "a\0b"}, "key", "key: it holds a NUL"),
        ({"workflow": "echo", "input": {"n": 1, "s": "\0"}}, "input.s", "it holds a NUL character"),
        ({"workflow": "echo", "vars": [1]}, "vars", "vars: must be an object"),
        ([], "body", "the body must be a JSON object"),
    ],
)  # fmt: skip
def test_a_start_that_is_wrong_says_where(server: Server, body: Any, path: str, told: str) -> None:
    document = problem(server.client.post("/v1/runs", json=body), "invalid_input")

    assert document["path"] == path
    assert told in document["detail"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "the body is empty; send a JSON object"),
        (b'{"workflow": "echo",}', "line 1 column 20"),
        (b'{"workflow":\n "echo" x}', "line 2 column 9"),
        (b'{"workflow": "echo", "input": {"n": NaN}}', "the body is no JSON"),
        (b'{"workflow": "echo", "input": {"n": 123456789012345678901234}}', "beyond 64 bits"),
        (b'{"workflow": "echo", "input": {"n": "\\ud800"}}', "the body is no JSON"),
        (b'{"workflow": "\xff"}', "the body is no JSON"),
        (b'{"workflow": "echo", "input": ' + b"[" * 3000 + b"]" * 3000 + b"}", "the body is no"),
        (b'{"workflow": "echo", "input": ' + b"[" * 300 + b"]" * 300 + b"}", "nested deeper than"),
    ],
)
def test_a_body_that_is_no_json_says_where(server: Server, body: bytes, told: str) -> None:
    answer = server.client.post(
        "/v1/runs", content=body, headers={"Content-Type": "application/json"}
    )

    assert told in problem(answer, "bad_request")["detail"]


def test_one_key_is_one_run_whatever_else_the_repetition_says(server: Server) -> None:
    first = server.client.post(
        "/v1/runs", json={"workflow": "echo", "input": {"n": 1}, "key": "one"}
    )
    again = server.client.post("/v1/runs", json={"workflow": "echo", "input": {"n": 2}},
                               headers={"Idempotency-Key": "one"})  # fmt: skip
    both = server.client.post("/v1/runs", json={"workflow": "echo", "input": {"n": 2}, "key": "one"},
                              headers={"Idempotency-Key": "one"})  # fmt: skip
    apart = server.client.post("/v1/runs", json={"workflow": "echo", "input": {"n": 2}, "key": "a"},
                               headers={"Idempotency-Key": "b"})  # fmt: skip

    assert (first.status_code, again.status_code, both.status_code) == (201, 200, 200)
    assert "deduplicated" not in first.headers
    for each in (again, both):
        assert each.json()["deduplicated"] is True
        assert each.headers["deduplicated"] == "true"
        assert each.json()["run_id"] == first.json()["run_id"]
    assert "Idempotency-Key" in problem(apart, "invalid_input")["detail"]


def test_many_runs_start_in_one_request_in_order_one_for_each_key(server: Server) -> None:
    old = server.post("/v1/runs", {"workflow": "echo", "input": {"n": 0}, "key": "m0"}, status=201)
    starts = [{"input": {"n": n}, "key": f"m{n}"} for n in range(4)] + [{"input": {"n": 9}}]
    twin = {"input": {"n": 1}, "key": "m1"}

    items = server.post(
        "/v1/workflows/echo/runs", {"runs": [*starts, twin], "vars": {"greeting": "all"}}
    )["items"]
    again = server.post("/v1/workflows/echo/runs", {"runs": starts[:4]})["items"]

    assert [each["deduplicated"] for each in items] == [True, False, False, False, False, True]
    assert items[0]["run_id"] == old["run_id"]
    assert items[5]["run_id"] == items[1]["run_id"]
    assert [each["run_id"] for each in again] == [each["run_id"] for each in items[:4]]
    ends = [server.get(f"/v1/runs/{each['run_id']}/wait") for each in items[1:5]]
    assert [each["output"] for each in ends] == [{"n": n, "greeting": "all"} for n in (1, 2, 3, 9)]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"runs": []}, "runs"),
        ({"runs": [{}] * 501}, "runs"),
        ({"runs": [{"input": {"n": 1}}, {"inputs": 1}]}, "runs.1.inputs"),
        ({"runs": [{"input": {"n": 1}}, {"input": {"n": "one"}}]}, "runs.1.input.n"),
        ({"runs": [{"input": {"n": 1}}], "vars": {"none": 1}}, "vars.none"),
    ],
)
def test_of_many_runs_none_starts_where_one_is_wrong(
    server: Server, body: dict[str, object], path: str
) -> None:
    before = server.get("/v1/runs/counts")

    assert (
        problem(server.client.post("/v1/workflows/echo/runs", json=body), "invalid_input")["path"]
        == path
    )
    assert server.get("/v1/runs/counts") == before


def test_twenty_starts_at_once_with_one_key_are_one_run(server: Server) -> None:
    """Catalogue G14."""
    gate = threading.Barrier(20)

    def start(number: int) -> tuple[int, str]:
        gate.wait()
        answer = server.client.post(
            "/v1/runs", json={"workflow": "echo", "input": {"n": number}, "key": "crowd"}
        )
        return answer.status_code, answer.json()["run_id"]

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(start, range(20)))

    assert len({run_id for _, run_id in answers}) == 1
    assert sorted(status for status, _ in answers) == [200] * 19 + [201]


def test_pages_lead_through_250_runs_without_gap_or_repeat(server: Server) -> None:
    """Catalogue J10."""
    server.deploy(PAUSE.format(name="many", time="1h"))
    with ThreadPoolExecutor(8) as pool:
        started = set(pool.map(lambda _: server.start("many"), range(250)))

    found: list[str] = []
    cursor = None
    while True:
        query: dict[str, Any] = {"workflow": "many", "limit": 60}
        page = server.get("/v1/runs", **query, **({"cursor": cursor} if cursor else {}))
        models.RunPage.model_validate(page)
        found += [row["run_id"] for row in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break

    assert len(found) == 250
    assert set(found) == started
    assert found == sorted(found, reverse=True)


def test_runs_are_filtered_by_state_key_and_time(server: Server) -> None:
    run_id = server.start("long", key="filtered")
    later = server.start("long")
    server.post(f"/v1/runs/{later}/pause")

    def ids(**query: Any) -> list[str]:
        return [row["run_id"] for row in server.get("/v1/runs", workflow="long", **query)["items"]]

    assert ids(key="filtered") == [run_id]
    assert later in ids(state=["paused", "failed"])
    assert later not in ids(state="running")
    assert run_id in ids(since="2026-01-01T00:00:00+00:00", until="2100-01-01T00:00:00Z")
    assert ids(since="2100-01-01T00:00:00Z") == []
    assert ids(until="2026-01-01T00:00:00+01:00") == []


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/v1/runs?stat=running", "there is no parameter 'stat'; did you mean 'state'?"),
        ("/v1/runs?limit=0", "limit: "),
        ("/v1/runs?limit=x", "limit: "),
        ("/v1/runs?limit=1&limit=2", "limit: is given twice"),
        ("/v1/runs?state=runing", "state: there is no 'runing'"),
        ("/v1/runs?since=yesterday", "since: 'yesterday' is not an RFC 3339 time"),
        ("/v1/runs?since=2026-01-01T00:00:00", "has no offset"),
        ("/v1/tasks?state=alive", "state: there is no 'alive'"),
        ("/v1/tasks?cursor=x", "cursor: is none of ours"),
        ("/v1/workflows/echo?x=1", "there is no parameter 'x'"),
        ("/v1/workflows/echo/versions/x", "version: "),
        ("/v1/workflows/echo/versions?cursor=x", "cursor: is none of ours"),
        (f"/v1/workflows/echo/versions?cursor={'9' * 30}", "cursor: is none of ours"),
        ("/v1/runs?cursor=2", "cursor: is none of ours"),
        ("/v1/runs/0/history?after=-1", "after: "),
        ("/v1/runs/0/wait?timeout=61", "timeout: "),
        ("/v1/runs/0/wait?timeout=nan", "timeout: "),
    ],
)
def test_a_query_that_is_wrong_says_where(server: Server, path: str, told: str) -> None:
    assert told in problem(server.client.get(path), "invalid_input")["detail"]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/history",
        "/nodes/say",
        "/notes",
        "/wait",
        "/export",
        "/verify",
        "/graph.svg",
        "/events",
    ],
)
def test_an_unknown_run_is_not_found_everywhere(server: Server, path: str) -> None:
    problem(server.client.get(f"/v1/runs/{NOBODY}{path}"), "not_found")


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume"])
def test_an_unknown_run_takes_no_command(server: Server, verb: str) -> None:
    problem(server.client.post(f"/v1/runs/{NOBODY}/{verb}", json={}), "not_found")


def test_an_ambiguous_beginning_of_an_id_is_refused(server: Server) -> None:
    server.start("long")
    run_id = server.start("long")

    assert (
        "give more of the id"
        in problem(server.client.get(f"/v1/runs/{run_id[:4]}"), "invalid_input")["detail"]
    )


def test_pausing_and_resuming_twice_are_conflicts(server: Server) -> None:
    """Catalogue I-19."""
    run = f"/v1/runs/{server.start('long')}"

    assert server.post(f"{run}/pause")["state"] == "paused"
    problem(server.client.post(f"{run}/pause"), "conflict")
    assert server.post(f"{run}/resume", {})["state"] == "running"
    problem(server.client.post(f"{run}/resume"), "conflict")


def test_a_run_is_cancelled_while_it_works_and_once_only(server: Server) -> None:
    run = f"/v1/runs/{server.start('long')}"
    server.post(f"{run}/cancel", {"reason": "not needed"})
    report = server.get(f"{run}/wait")

    assert report["state"] == "cancelled"
    models.Run.model_validate({k: report[k] for k in models.Run.model_fields})
    assert "not needed" in json.dumps(server.get(f"{run}/export"))
    assert "already cancelled" in problem(server.client.post(f"{run}/cancel"), "conflict")["detail"]
    problem(server.client.post(f"{run}/cancel", json={"reson": ""}), "invalid_input")
    problem(server.client.post(f"{run}/cancel", json={"reason": "x" * 2001}), "invalid_input")


def test_all_who_wait_for_one_run_get_its_report(server: Server) -> None:
    alone(server)
    run_id = server.start("approval", {"order": "shared"})

    def wait(_: int) -> Any:
        with httpx2.Client(base_url=server.url, timeout=70) as client:
            return client.get(f"/v1/runs/{run_id}/wait?timeout=60").json()

    with ThreadPoolExecutor(30) as pool:
        reports = [pool.submit(wait, number) for number in range(30)]
        while len(server.held) < 30:
            server.get("/healthz")
        server.post("/v1/events", {"event": "order.approved", "key": "shared"}, status=202)
        found = [report.result() for report in reports]

    assert found == [server.get(f"/v1/runs/{run_id}")] * 30
    assert found[0]["state"] == "success"
    assert len(server.held) == 0


def test_a_wait_that_is_over_answers_with_the_run_as_it_is(server: Server) -> None:
    report = server.get(f"/v1/runs/{server.start('long')}/wait", timeout=0.05)

    assert (report["state"], report["ended_at"]) == ("running", None)


def test_a_run_is_started_and_its_end_waited_for_in_one_request(server: Server) -> None:
    alone(server)
    body = {"workflow": "echo", "input": {"n": 7}, "key": "whole"}
    first = server.client.post("/v1/runs", params={"wait": 60}, json=body)
    again = server.client.post("/v1/runs", params={"wait": 60}, json=body)

    report = first.json()
    models.RunOutcome.model_validate(report)
    assert (first.status_code, report["state"], report["deduplicated"]) == (201, "success", False)
    assert report["output"] == {"n": 7, "greeting": "hello"}
    assert first.headers["location"] == f"/v1/runs/{report['run_id']}"
    assert (again.status_code, again.headers["deduplicated"]) == (200, "true")
    assert again.json() == {**report, "deduplicated": True}
    told = {**server.get(f"/v1/runs/{report['run_id']}/wait"), "deduplicated": False}
    assert {name: told[name] for name in report} == report
    assert len(server.held) == 0


def test_a_start_that_has_waited_long_enough_answers_with_the_run_as_it_is(server: Server) -> None:
    answer = server.client.post("/v1/runs", params={"wait": 0.05}, json={"workflow": "long"})

    models.RunOutcome.model_validate(answer.json())
    assert (answer.status_code, answer.json()["state"]) == (201, "running")
    assert answer.json()["ended_at"] is None


def test_a_start_that_does_not_wait_answers_with_the_run_alone(server: Server) -> None:
    for query in ({}, {"wait": 0}):
        answer = server.client.post("/v1/runs", params=query, json={"workflow": "long"})
        models.StartedRun.model_validate(answer.json())
        run = answer.json()
        assert (run.pop("deduplicated"), run["state"]) == (False, "running")
        [listed] = [
            each for each in server.get("/v1/runs")["items"] if each["run_id"] == run["run_id"]
        ]
        assert listed == run


@pytest.mark.parametrize("wait", ["61", "-1", "nan", "soon"])
def test_how_long_a_start_waits_is_bounded(server: Server, wait: str) -> None:
    before = server.get("/v1/runs/counts")
    answer = server.client.post("/v1/runs", params={"wait": wait}, json={"workflow": "long"})

    assert problem(answer, "invalid_input")["path"] == "wait"
    assert server.get("/v1/runs/counts") == before


def test_starts_with_one_key_wait_for_one_run_together(server: Server) -> None:
    alone(server)
    body = {"workflow": "approval", "input": {"order": "both"}, "key": "both"}

    def start(_: int) -> tuple[int, Any]:
        with httpx2.Client(base_url=server.url, timeout=70) as client:
            answer = client.post("/v1/runs", params={"wait": 60}, json=body)
            return answer.status_code, answer.json()

    with ThreadPoolExecutor(5) as pool:
        starts = [pool.submit(start, number) for number in range(5)]
        while len(server.held) < 5:
            server.get("/healthz")
        server.post("/v1/events", {"event": "order.approved", "key": "both"}, status=202)
        found = [each.result() for each in starts]

    assert sorted(status for status, _ in found) == [200, 200, 200, 200, 201]
    assert len({report["run_id"] for _, report in found}) == 1
    assert {report["state"] for _, report in found} == {"success"}


def test_who_hangs_up_while_a_start_waits_cancels_nothing(server: Server) -> None:
    alone(server)
    body = json.dumps({"workflow": "approval", "input": {"order": "gone"}, "key": "gone"}).encode()
    head = (
        f"POST /v1/runs?wait=60 HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode() + body)
        while not server.held:
            server.get("/healthz")
    alone(server)
    server.post("/v1/events", {"event": "order.approved", "key": "gone"}, status=202)
    [run] = server.get("/v1/runs", key="gone")["items"]

    assert server.wait(run["run_id"])["state"] == "success"


def test_a_run_that_is_stored_is_told_of_though_the_store_goes_then(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(*_: object, **__: object) -> None:
        raise Unavailable("the store has gone")

    with monkeypatch.context() as patched:
        patched.setattr(Commands, "wait", gone)
        answer = server.client.post("/v1/runs?wait=60", json={"workflow": "long"})
    models.StartedRun.model_validate(answer.json())

    assert answer.status_code == 201
    assert server.get(f"/v1/runs/{answer.json()['run_id']}")["state"] == "running"


@pytest.mark.parametrize("server", ["memory"], indirect=True)
def test_a_run_is_started_and_its_end_told_by_one_small_reading(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its name means now: all else is known, never changes, or stands in the commit of its end."""
    alone(server)  # a stream reads, too
    asked: list[str] = []
    find = SqlReads._find

    async def counted(reads: SqlReads, name: str, *params: Any) -> Any:
        asked.append(name)
        return await find(reads, name, *params)

    for key in ("first", "second"):  # at first the version itself is read, too
        body = {"workflow": "approval", "input": {"order": key}}
        with monkeypatch.context() as patched, ThreadPoolExecutor(1) as pool:
            patched.setattr(SqlReads, "_find", counted)
            asked.clear()
            answer = pool.submit(server.client.post, "/v1/runs?wait=60", json=body)
            while not server.held:  # what has ended before it is waited for is read
                server.get("/healthz")
            server.post("/v1/events", {"event": "order.approved", "key": key}, status=202)
            report = answer.result().json()

    assert report["state"] == "success"
    assert asked == ["NEWEST_ROW"]
    with monkeypatch.context() as patched:
        patched.setattr(SqlReads, "_find", counted)
        asked.clear()
        server.start("approval", {"order": "third"})
        assert asked == ["NEWEST_ROW"]
        server.start("approval@1", {"order": "third"})
        assert asked[1:] == ["VERSION_ROW"]


def test_a_version_that_was_deployed_since_is_started(server: Server) -> None:
    text = "name: newer\nnodes: {{a: {{type: set, values: {{n: {n}}}}}}}\noutput: {n}\n"
    outputs = []
    for n in (1, 2):
        server.deploy(text.format(n=n))
        answer = server.client.post("/v1/runs", params={"wait": 60}, json={"workflow": "newer"})
        outputs.append((answer.json()["version"], answer.json()["output"]))

    assert outputs == [(1, 1), (2, 2)]


def test_a_report_of_many_events_and_large_values_is_whole(server: Server) -> None:
    nodes = "\n".join(f"  n{n}: {{type: set, values: {{n: {n}}}}}" for n in range(250))
    server.deploy(f"name: wide\nnodes:\n{nodes}\n")
    wide = server.client.post("/v1/runs", params={"wait": 60}, json={"workflow": "wide"}).json()
    large = server.client.post(
        "/v1/runs",
        params={"wait": 60},
        json={"workflow": "echo", "input": {"n": 1}, "vars": {"greeting": "x" * 100_000}},
    ).json()

    reports = [server.get(f"/v1/runs/{run['run_id']}/wait") for run in (wide, large)]

    assert [node["state"] for node in reports[0]["nodes"]] == ["success"] * 250
    assert large["output"] == reports[1]["output"] == {"n": 1, "greeting": "x" * 100_000}
    assert [server.get(f"/v1/runs/{report['run_id']}") for report in reports] == reports


def test_a_failed_run_whose_end_was_waited_for_says_why(server: Server) -> None:
    server.deploy(
        "name: broken\nnodes: {a: {type: fail, code: out_of_stock, message: none left}}\n"
    )
    answer = server.client.post("/v1/runs", params={"wait": 60}, json={"workflow": "broken"}).json()

    models.RunOutcome.model_validate(answer)
    report = server.get(f"/v1/runs/{answer['run_id']}")
    assert (answer["state"], answer["output"]) == ("failed", None)
    assert answer["error"] == report["error"]
    assert "out_of_stock" in json.dumps(answer["error"])


# -- events, tasks, workers, health -----------------------------------------------------------------------------------


def test_an_event_reaches_the_run_that_waits_for_it_once(server: Server) -> None:
    run_id = server.start("approval", {"order": "A-1"})
    with streaming(server, f"/v1/runs/{run_id}/events") as stream:
        stream.until("history")
        awaited = server.get("/v1/events/awaited", event="order.approved")
        models.AwaitedPage.model_validate(awaited)
        assert {"event": "order.approved", "key": "A-1", "waits": 1} in awaited["items"]
        sent = {"event": "order.approved", "key": "A-1", "payload": {"by": "me"}, "event_id": "e1"}
        assert server.post("/v1/events", sent, status=202) == {"stored": True}
        assert server.post("/v1/events", sent, status=202) == {"stored": False}
        stream.until("end")

    assert server.get(f"/v1/runs/{run_id}")["output"] == {"by": "me"}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"event": "", "key": "k"}, "event"),
        ({"event": "e"}, "key"),
        ({"event": "e", "key": "k" * 513}, "key"),
        ({"event": "e", "key": "k", "payload": 1, "id": "x"}, "id"),
        ({"event": "e\0", "key": "k"}, "event"),
    ],
)
def test_an_event_that_is_wrong_says_where(server: Server, body: Any, path: str) -> None:
    assert problem(server.client.post("/v1/events", json=body), "invalid_input")["path"] == path


def test_many_events_wake_their_runs_in_one_request_each_id_once(server: Server) -> None:
    runs = [server.start("approval", {"order": f"batch-{n}"}) for n in range(20)]
    events = [
        {"event": "order.approved", "key": f"batch-{n}", "payload": n, "event_id": f"batch-{n}"}
        for n in range(20)
    ]
    items = server.post("/v1/events/batch", {"events": events}, status=202)["items"]
    again = server.post("/v1/events/batch", {"events": events[:2]}, status=202)["items"]

    assert items == [{"stored": True}] * 20
    assert again == [{"stored": False}] * 2
    assert [server.wait(run_id)["output"] for run_id in runs] == list(range(20))


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"event": "", "key": "k"}, "events.1.event"),
        ({"event": "e"}, "events.1.key"),
        ({"event": "e\0", "key": "k"}, "events.1.event"),
        ({"event": "e", "key": "k", "keep": "soon"}, "events.1.keep"),
        ({"event": "e", "key": "k", "id": "x"}, "events.1.id"),
    ],
)
def test_of_many_events_none_is_stored_where_one_is_wrong(
    server: Server, wrong: dict[str, object], path: str
) -> None:
    good = {"event": "batched", "key": "k", "event_id": f"good-{json.dumps(wrong)}"}
    answer = server.client.post("/v1/events/batch", json={"events": [good, wrong]})

    assert problem(answer, "invalid_input")["path"] == path
    assert server.post("/v1/events", good, status=202) == {"stored": True}


@pytest.mark.parametrize("events", [[], [{"event": "e", "key": "k"}] * 501])
def test_how_many_events_one_request_sends_is_bounded(server: Server, events: object) -> None:
    answer = server.client.post("/v1/events/batch", json={"events": events})

    assert problem(answer, "invalid_input")["path"] == "events"


def test_health_says_who_it_is(server: Server) -> None:
    for path in ("/healthz", "/readyz", "/v1/health"):
        shown = models.Health.model_validate(server.get(path))
        assert shown.url == server.url
        assert shown.database == server.engine.place


def test_a_database_that_was_deleted_makes_the_server_unready_not_dead(tmp_path: Path) -> None:
    path = tmp_path / "tenuto.db"
    with serving(path) as server:
        assert server.get("/v1/health")["database"] == str(path)
        path.unlink()
        answers = [server.client.get(path) for path in ("/readyz", "/v1/health")]
        alive = server.client.get("/healthz")

    for answer in answers:
        assert "was deleted while an engine has it open" in problem(answer, "unavailable")["detail"]
    assert alive.status_code == 200


def test_who_asks_for_a_websocket_is_answered_as_anybody(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    asked = {"Connection": "Upgrade", "Upgrade": "websocket"}

    assert server.client.get("/healthz", headers=asked).status_code == 200
    assert "http_server_said" not in caplog.text


# -- streams ----------------------------------------------------------------------------------------------------------


def test_a_stream_has_the_whole_history_then_what_happens_and_an_end(server: Server) -> None:
    server.deploy(PAUSE.format(name="short", time="200ms"))
    run_id = server.start("short")
    with streaming(server, f"/v1/runs/{run_id}/events") as stream:
        events = list(stream)

    history = [each.data for each in events if each.event == "history"]
    assert [each["seq"] for each in history] == list(range(1, len(history) + 1))
    assert history == server.get(f"/v1/runs/{run_id}/history")["items"]
    states = [each.data["state"] for each in events if each.event == "state"]
    assert (states[0], states[-1]) in [("running", "success"), ("success", "success")]
    assert (events[-1].event, events[-1].data["state"]) == ("end", "success")


@pytest.mark.parametrize("last", [0, 1, 2, 50])
def test_a_stream_goes_on_after_the_event_that_the_client_has(server: Server, last: int) -> None:
    run_id = server.start("echo", {"n": 1})
    server.wait(run_id)
    whole = server.get(f"/v1/runs/{run_id}/history")["items"]
    with streaming(server, f"/v1/runs/{run_id}/events", last=last) as stream:
        events = list(stream)

    assert [int(each.id or 0) for each in events if each.event == "history"] == [
        row["seq"] for row in whole if row["seq"] > last
    ]
    assert events[-1].event == "end"


@pytest.mark.parametrize("last", ["x", "-1", "1" * 30, "١"])
def test_a_last_event_id_that_is_none_is_refused(server: Server, last: str) -> None:
    answer = server.client.get(f"/v1/runs/{server.start('long')}/events",
                               headers=[(b"Last-Event-ID", last.encode())])  # fmt: skip

    assert problem(answer, "invalid_input")["path"] == "Last-Event-ID"


def test_a_stream_tells_pause_and_resume_as_states(server: Server) -> None:
    run_id = server.start("long")
    with streaming(server, f"/v1/runs/{run_id}/events") as stream:
        stream.until("history")
        server.post(f"/v1/runs/{run_id}/pause")
        assert stream.until("state")[-1].data["state"] == "paused"
        server.post(f"/v1/runs/{run_id}/resume")
        assert stream.until("state")[-1].data["state"] == "running"


def test_the_stream_of_all_runs_tells_those_that_change(server: Server) -> None:
    with streaming(server, "/v1/runs/events") as stream:
        run_id = server.start("long")
        seen = []
        for event in stream:
            if event.event == "run":
                models.Run.model_validate(event.data)
                seen.append(event.data["run_id"])
                if run_id in seen:
                    break


def test_a_hundred_streams_and_waits_at_once_all_see_the_end(server: Server) -> None:
    """Catalogue J11."""
    run_id = server.start("approval", {"order": "crowd"})
    opened = threading.Semaphore(0)

    def follow(number: int) -> str:
        with httpx2.Client(base_url=server.url, timeout=70) as client:
            if number % 2:
                opened.release()
                return str(client.get(f"/v1/runs/{run_id}/wait?timeout=60").json()["state"])
            with client.stream("GET", f"/v1/runs/{run_id}/events") as answer:
                text = ""
                for part in answer.iter_text():
                    if not text:
                        opened.release()
                    text += part
            return "success" if "event: end" in text else text

    with ThreadPoolExecutor(100) as pool:
        futures = [pool.submit(follow, number) for number in range(100)]
        for _ in futures:
            opened.acquire()
        server.post("/v1/events", {"event": "order.approved", "key": "crowd"}, status=202)

        assert {future.result() for future in futures} == {"success"}


# -- the door ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1:1", "localhost", "", "127.0.0.1.evil.example"]
)
def test_a_foreign_name_of_the_host_is_refused(server: Server, host: str) -> None:
    problem(server.client.get("/v1/runs", headers={"Host": host}), "forbidden_host")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_names_of_this_machine_are_ours(server: Server, name: str) -> None:
    answer = server.client.get("/v1/health", headers={"Host": f"{name}:{server.port}"})

    assert answer.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_changes_nothing(server: Server, headers: dict[str, str]) -> None:
    run_id = server.start("long")
    problem(server.client.post(f"/v1/runs/{run_id}/cancel", headers=headers), "forbidden_origin")

    assert server.get(f"/v1/runs/{run_id}")["state"] == "running"
    assert server.client.get("/v1/health", headers=headers).status_code == 200


def test_our_own_page_may_change_things(server: Server) -> None:
    headers = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}
    answer = server.client.post(f"/v1/runs/{server.start('long')}/cancel", headers=headers)

    assert answer.status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None]
)
def test_other_kinds_of_bodies_are_refused(server: Server, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    for path in (
        "/v1/runs",
        "/v1/events",
        "/v1/workflows",
        f"/v1/runs/{server.start('long')}/cancel",
    ):
        answer = server.client.post(path, content=b"{}", headers=headers)
        assert "application/json" in problem(answer, "unsupported_media_type")["detail"]


def test_a_method_that_is_not_taken_names_those_that_are(server: Server) -> None:
    answer = server.client.delete("/v1/runs")

    problem(answer, "method_not_allowed")
    assert answer.headers["allow"] == "GET, POST"


@pytest.mark.parametrize(
    "path", ["/v1/nothing", "/v1/runs/", "/v2/runs", "/v1", "/%00", "/v1/runs/x/y/z"]
)
def test_an_address_that_is_none_is_a_problem(server: Server, path: str) -> None:
    problem(server.client.get(path), "not_found")


@pytest.mark.parametrize(
    "path", ["/v1/runs/%00", "/v1/runs/%FF", "/v1/workflows/%00", "/v1/runs/%ED%A0%80"]
)
def test_bytes_that_are_no_text_in_an_address_are_a_problem(server: Server, path: str) -> None:
    problem(server.client.get(path), "not_found")


def test_answers_are_neither_kept_nor_guessed_at(server: Server) -> None:
    for path in ("/v1/runs", "/v1/runs/x", "/v1/nothing"):
        headers = server.client.get(path).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "date" in headers
        assert not any(name.startswith("access-control") for name in headers)


def test_a_body_beyond_the_limit_is_refused_while_it_streams() -> None:
    """Catalogue G13."""
    limits = Limits(body=10_000, requests_per_second=1_000_000, burst=1_000_000)
    with serving(limits=limits) as server:
        announced = server.client.post("/v1/runs", json={"workflow": "x" * 10_000})
        streamed = server.client.post(
            "/v1/runs",
            content=(b" " * 1_000 for _ in range(20)),
            headers={"Content-Type": "application/json"},
        )

        assert "10,0" in problem(announced, "payload_too_large")["detail"]
        assert "the limit is 10,000" in problem(streamed, "payload_too_large")["detail"]
        assert server.client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"this is no HTTP\r\n\r\n", "Invalid HTTP request received"),
        (b"GET /healthz HTTP/1.1\r\n" + b"A: " + b"x" * 70_000 + b"\r\n\r\n", "more than 65,536 bytes"),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", "more than 65,536 bytes"),
    ],
    ids=["no HTTP", "headers", "address"],
)  # fmt: skip
def test_what_cannot_be_read_as_a_request_is_a_problem_too(
    server: Server, sent: bytes, told: str
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
        answer = b""
        # It hangs up as soon as it knows, and need not have read all by then.
        with suppress(ConnectionError):
            client.sendall(sent)
        with suppress(ConnectionError):
            while part := client.recv(65_536):
                answer += part

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in head
    assert told in json.loads(body)["detail"]


def test_a_client_beyond_its_rate_is_told_when_to_come_back() -> None:
    """Catalogue J5."""
    with serving(limits=Limits(requests_per_second=1, burst=3)) as server:
        taken, began = 0, time.monotonic()
        while (answer := server.client.get("/v1/runs")).status_code == 200:
            taken += 1

        assert 3 <= taken <= 3 + (time.monotonic() - began), "the burst, and one for each second"
        assert answer.headers["retry-after"] == "1"
        problem(answer, "rate_limited")
        assert server.client.get("/healthz").status_code == 200


def test_more_streams_than_the_limit_are_turned_away_until_one_ends() -> None:
    limits = Limits(held=1, requests_per_second=1_000_000, burst=1_000_000)
    with serving(limits=limits) as server:
        server.deploy(PAUSE.format(name="long", time="1h"))
        run_id = server.start("long")
        with streaming(server, "/v1/runs/events"):
            for path in ("/v1/runs/events", f"/v1/runs/{run_id}/events", f"/v1/runs/{run_id}/wait"):
                answer = server.client.get(path)
                problem(answer, "unavailable")
                assert "retry-after" in answer.headers
            answer = server.client.post("/v1/runs?wait=1", json={"workflow": "long"})
            assert "nothing was written" in problem(answer, "unavailable")["title"]
            assert len(server.get("/v1/runs")["items"]) == 1
        while server.client.get(f"/v1/runs/{run_id}/wait?timeout=0").status_code != 200:
            continue  # until the server has seen that the client is gone


def test_a_silent_stream_is_kept_alive() -> None:
    limits = Limits(keep_alive_s=0.05, requests_per_second=1_000_000, burst=1_000_000)
    with serving(limits=limits) as server:
        server.deploy(PAUSE.format(name="long", time="1h"))
        run_id = server.start("long")
        for path in ("/v1/runs/events", f"/v1/runs/{run_id}/events"):
            with streaming(server, path) as stream:
                assert stream.until("comment")[-1].comment == "nothing new"


def test_waits_and_streams_end_when_the_server_stops() -> None:
    with serving() as server:
        server.deploy(PAUSE.format(name="long", time="1h"))
        run_id = server.start("long")
        ended: list[str] = []

        def wait() -> None:
            with httpx2.Client(base_url=server.url, timeout=70) as client:
                ended.append(client.get(f"/v1/runs/{run_id}/wait?timeout=60").json()["state"])

        def start() -> None:
            with httpx2.Client(base_url=server.url, timeout=70) as client:
                report = client.post("/v1/runs?wait=60", json={"workflow": "long"}).json()
                ended.append(report["state"])

        waiter, starter = threading.Thread(target=wait), threading.Thread(target=start)
        with streaming(server, f"/v1/runs/{run_id}/events") as stream:
            stream.until("history")
            waiter.start()
            starter.start()
            while len(server.held) < 3:
                server.get("/healthz")
            stopper = threading.Thread(target=server.engine.stop, kwargs={"grace_s": 60})
            stopper.start()
            rest = list(stream)
        waiter.join()
        starter.join()
        stopper.join()

    assert rest[-1].comment == "the server stops"
    assert ended == ["running", "running"]


def test_the_page_is_served_at_its_addresses_with_its_headers() -> None:
    page = Page(files=files(), routes=ROUTES, headers=HEADERS)
    with serving(page=page) as server:
        home = server.client.get("/")
        run = server.client.get("/runs/abc")
        script = server.client.get("/static/app.js")
        kept = server.client.get("/", headers={"If-None-Match": home.headers["etag"]})

        assert home.text == run.text
        assert home.headers["content-type"] == "text/html; charset=utf-8"
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        assert (kept.status_code, kept.content) == (304, b"")
        for answer in (home, run, script):
            assert answer.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]


def test_the_reference_needs_nothing_from_elsewhere(server: Server) -> None:
    answer = server.client.get("/docs")

    assert answer.headers["content-type"].startswith("text/html")
    assert "<script" not in answer.text
    assert "http://" not in answer.text
    assert "https://" not in answer.text
    for code in KINDS:
        assert f'id="{code}"' in answer.text


def test_what_goes_wrong_unexpectedly_is_told_by_an_id_that_the_log_has(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving() as server:
        server.deploy(ECHO)
        server.engine.commands.start = _explode  # type: ignore[method-assign, assignment]
        answer = server.client.post("/v1/runs", json={"workflow": "echo", "input": {"n": 1}})

    incident = problem(answer, "internal")["detail"].split()[-1]
    assert incident in caplog.text
    assert "a planted fault" not in answer.text


async def _explode(*_: object) -> None:
    raise RuntimeError("a planted fault")


def test_tasks_and_workers_are_listed_while_they_work() -> None:
    registry = Registry()
    entered, leave = threading.Event(), threading.Event()

    def work(n: int) -> int:
        entered.set()
        assert leave.wait(60)
        return n

    registry.add(work, name="work")
    with serving(registry=registry) as server:
        server.deploy(CALL)
        run_id = server.start("call", {"n": 3})
        assert entered.wait(30)
        tasks = models.TaskPage.model_validate(server.get("/v1/tasks", state="running"))
        workers = models.WorkerPage.model_validate(server.get("/v1/workers"))
        leave.set()
        report = server.wait(run_id)

    assert [(task.run_id, task.name) for task in tasks.items] == [(run_id, "work")]
    assert "work" in workers.items[0].names
    assert report["output"] == 3


def test_a_database_that_does_not_answer_makes_the_server_unready_not_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "STORE_S", 0.05)
    taken, leave = threading.Event(), threading.Event()

    def block() -> Any:
        taken.set()
        leave.wait(60)
        row = yield (("SELECT 1", ()),)
        return row

    with serving(tmp_path / "tenuto.db") as server:
        reads: Any = server.engine.reads
        blocked = server.engine.call(reads._engine.read(block))
        assert taken.wait(30)
        answers = [server.client.get(path) for path in ("/readyz", "/v1/health")]
        alive = server.client.get("/healthz")
        leave.set()
        blocked.result(30)
        monkeypatch.undo()
        while server.client.get("/readyz").status_code != 200:
            pass

    for answer in answers:
        assert "has not answered within 0.05 s" in problem(answer, "unavailable")["detail"]
        assert answer.headers["retry-after"] == "1"
    assert alive.status_code == 200


def test_what_an_attempt_says_is_streamed_once_and_stays(tmp_path: Path) -> None:
    registry = Registry()
    leave = threading.Event()

    def work(n: int) -> int:
        current().logger.info("begun with %s", n)
        assert leave.wait(60)
        current().logger.info("done with %s", n)
        return n

    registry.add(work, name="work")
    with serving(tmp_path / "tenuto.db", registry=registry) as server:
        server.deploy(CALL)
        run_id = server.start("call", {"n": 3})
        with streaming(server, f"/v1/runs/{run_id}/events") as stream:
            [*_, first] = stream.until("note")
            # A second client comes when one note is stored and another is to come.
            with streaming(server, f"/v1/runs/{run_id}/events") as late:
                [*_, same] = late.until("note")
                leave.set()
                rest, lates = stream.until("end"), late.until("end")
        stored = server.get(f"/v1/runs/{run_id}/notes", node="work")["items"]

    for note in stored:
        models.Note.model_validate(note)
    assert [note["number"] for note in stored] == [1, 2]
    assert first.data == same.data == stored[0]
    for events in (rest, lates):
        assert [each.data for each in events if each.event == "note"] == stored[1:]


def test_vars_come_from_the_environment_of_the_server() -> None:
    with serving(environment={"TENUTO_VAR_GREETING": "hey"}) as server:
        server.deploy(ECHO)
        report = server.wait(server.start("echo", {"n": 1}))

    assert report["output"]["greeting"] == "hey"


# -- kill -9 ----------------------------------------------------------------------------------------------------------


@contextmanager
def doomed(path: Path, moment: str) -> Iterator[str]:
    """A server in a process of its own that dies at the moment; its URL."""
    command = [sys.executable, "-m", "tests.support.killed_rest", str(path), moment]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.communicate(timeout=60)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_start_whose_server_was_killed_is_repeated_with_its_key(
    tmp_path: Path, moment: str
) -> None:
    """Catalogue A1."""
    path = tmp_path / "tenuto.db"
    source = PAUSE.format(name="long", time="1h")
    body = {"workflow": "long", "key": "order-1"}
    with doomed(path, moment) as url:
        assert (
            httpx2.post(f"{url}/v1/workflows", json={"source": source}, timeout=60).status_code
            == 201
        )
        with pytest.raises(httpx2.TransportError):
            httpx2.post(f"{url}/v1/runs", json=body, timeout=60)

    with doomed(path, "never") as url:
        again = httpx2.post(f"{url}/v1/runs", json=body, timeout=60)
        third = httpx2.post(f"{url}/v1/runs", json=body, timeout=60)
        runs = httpx2.get(f"{url}/v1/runs", timeout=60).json()["items"]

    assert [each["run_id"] for each in runs] == [again.json()["run_id"]]
    assert third.json()["run_id"] == again.json()["run_id"]
    assert again.json()["deduplicated"] is (moment == "after")
    assert again.status_code == (200 if moment == "after" else 201)

"""Who may ask REST what: all routes of the app, each asked by everybody. Catalogue S1, S12, S13, S24, S46, L15."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import httpx2
import pytest
from tests.support.rest import PAUSE, Server, Stream, serving

from tenuto import web
from tenuto.adapters.jwt import LEEWAY_US, Claims, authorizer, sign
from tenuto.api.page import Page
from tenuto.api.routes.health import without_addresses
from tenuto.ports.access import MAKE_TOKEN, Scope

NOW = 1_800_000_000_000_000
SECRET, OLD, OTHER = "a" * 32, "b" * 32, "c" * 32
HOUR = 3_600_000_000
PAGE = Page(files=web.files(), routes=web.ROUTES, headers=web.HEADERS)
OPEN = {"/healthz", "/readyz", *web.files(), *web.ROUTES}


class Clock:
    """Turned by hand; read by the server's thread."""

    at = NOW

    def now(self) -> int:
        return self.at


CLOCK = Clock()


def token(scope: Scope = Scope.ADMIN, secret: str = SECRET, *, lasts_us: int = HOUR) -> str:
    return sign(Claims(scope, CLOCK.at + lasts_us), secret, at=CLOCK.at)


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    with serving(page=PAGE, authorize=authorizer(lambda: (SECRET, OLD), CLOCK.now)) as server:
        yield server


ASKERS: dict[str, tuple[dict[str, str], str]] = {
    "nobody": ({}, "unauthenticated"),
    "no token behind the word": ({"Authorization": "Bearer"}, "unauthenticated"),
    "a wrong token": (bearer("x.y.z"), "unauthenticated"),
    "a token of another secret": (bearer(token(secret=OTHER)), "unauthenticated"),
    "an expired token": (bearer(token(lasts_us=-LEEWAY_US - 1_000_000)), "unauthenticated"),
    "a password": ({"Authorization": "Basic YWRtaW46YWRtaW4="}, "unauthenticated"),
    "a token in a header of its own": ({"X-Token": token()}, "unauthenticated"),
    "a token as a cookie": ({"Cookie": f"token={token()}"}, "unauthenticated"),
    "a worker": (bearer(token(Scope.WORKER)), "forbidden"),
}


def routes(server: Server) -> list[tuple[str, str]]:
    """Every route of the running app: method and path."""
    app = server.services[0].app
    assert app is not None
    found = [
        (method, str(getattr(route, "path")))  # noqa: B009 - of every route of ours
        for route in app.routes
        for method in sorted(getattr(route, "methods", ()))
    ]
    assert len(found) > 60, "the app has lost its routes"
    return found


def filled(path: str) -> str:
    return re.sub(r"\{[^}]+\}", "x", path)


@pytest.mark.parametrize("asker", ASKERS)
def test_no_route_but_the_open_ones_answers_who_is_no_admin(guarded: Server, asker: str) -> None:
    headers, code = ASKERS[asker]
    status = 403 if code == "forbidden" else 401

    wrong = []
    for method, path in routes(guarded):
        answer = guarded.client.request(method, filled(path), headers=headers)
        if path in OPEN:
            right = answer.status_code in (200, 405)
        elif method == "HEAD":
            right = answer.status_code == status
        else:
            right = (answer.status_code, answer.json()["code"]) == (status, code)
        if not right:
            wrong.append((method, path, answer.status_code, answer.text[:80]))
    assert wrong == []


def test_an_admin_is_turned_away_by_no_route(guarded: Server) -> None:
    streams = ("/events", "/changes", "/wait", "/follow")

    for method, path in routes(guarded):
        if path.endswith(streams):
            continue
        answer = guarded.client.request(method, filled(path), headers=bearer(token()))
        assert answer.status_code not in (401, 403), (method, path, answer.text)


def test_whoever_is_refused_learns_how_to_be_let_in_and_sees_no_token(guarded: Server) -> None:
    nobody = guarded.client.get("/v1/runs")
    worker = guarded.client.get("/v1/runs", headers=bearer(token(Scope.WORKER)))
    wrong = guarded.client.get("/v1/runs", headers=bearer("canary"))

    assert nobody.headers["www-authenticate"] == "Bearer"
    assert nobody.headers["content-type"] == "application/problem+json"
    assert (
        f"set TENUTO_TOKEN to one that `{MAKE_TOKEN[Scope.ADMIN]}` prints"
        in nobody.json()["detail"]
    )
    assert worker.json()["detail"] == "this token is for workers; this needs one of scope admin"
    assert "canary" not in wrong.text


def test_both_secrets_are_believed_while_one_replaces_the_other(guarded: Server) -> None:
    """Catalogue L15."""
    for secret in (SECRET, OLD):
        assert (
            guarded.client.get("/v1/runs", headers=bearer(token(secret=secret))).status_code == 200
        )


ODD = ["/v1/runs/", "//v1/runs", "/v1//runs", "/v1/./runs", "/v1/x/../runs", "/v1/%72uns", "/V1/runs",
       "/v1/runs;x", "/healthz/../v1/runs", "/healthz/..%2fv1/runs", "/static/../v1/runs", "/static/%2e%2e/v1/runs",
       "/v1/runs%00", "/v1/runs%2f", "/v1/runs?x=/healthz", "/healthz%2f..%2fv1%2fruns", "/readyz/v1/runs",
       "/v1/runs/..;/", "/./v1/runs", "/%2e/v1/runs", "/v1/runs%20", "/v1/runs#/healthz"]  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "OPTIONS", "PUT", "TRACE"])
@pytest.mark.parametrize("path", ODD)
def test_no_way_to_write_an_address_leads_past_the_token(
    guarded: Server, path: str, method: str
) -> None:
    overridden = {
        "X-HTTP-Method-Override": "GET",
        "X-Original-URL": "/healthz",
        "X-Rewrite-URL": "/healthz",
    }
    connection = HTTPConnection("127.0.0.1", guarded.port, timeout=30)  # sends an address as it is

    connection.request(method, path, headers=overridden)
    answer = connection.getresponse()

    with closing(connection):
        assert answer.status in (400, 401, 404, 405), answer.read()
        assert b"items" not in answer.read()


def test_the_health_of_a_guarded_server_tells_nobody_where_its_database_is(guarded: Server) -> None:
    admin = guarded.client.get("/v1/health", headers=bearer(token())).json()

    assert admin["database"] == ":memory:"
    for path in ("/healthz", "/readyz"):
        answer = guarded.client.get(path)
        assert (answer.status_code, answer.json()["status"]) == (200, "ok")


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("database is away: postgresql://h:5/x does not answer", "database is away: PostgreSQL does not answer"),
        ("dispatch by redis: redis+cluster://a:1,b:2: gone", "dispatch by redis: Redis gone"),
        ("Error 111 connecting to r.example:6379. Connect call failed ('10.0.0.7', 6379)",
         "Error 111 connecting to …. Connect call failed …"),
        ("Connect call failed ('::1', 6379, 0, 0) at 2001:db8::1 and 10.0.0.7:5", "Connect call failed … at … and …"),
        ("/var/lib/x/tenuto.db is gone", "… is gone"),
        ("timers: no success for 40 s", "timers: no success for 40 s"),
    ],
)  # fmt: skip
def test_a_reason_for_everybody_has_no_addresses(told: str, shown: str) -> None:
    assert without_addresses(told) == shown


def test_a_guarded_server_is_reached_under_any_name_but_by_no_other_site(guarded: Server) -> None:
    def status(method: str, path: str, **headers: str) -> int:
        found = guarded.client.request(method, path, headers={**bearer(token()), **headers})
        return int(found.status_code)

    assert status("GET", "/v1/runs", Host="flows.example.com") == 200
    for origin in ("http://flows.example.com", "https://flows.example.com"):
        assert status("POST", "/v1/runs", Host="flows.example.com", Origin=origin) == 415
    assert (
        status("POST", "/v1/runs", Host="flows.example.com", Origin="https://evil.example") == 403
    )
    assert status("POST", "/v1/runs", **{"Sec-Fetch-Site": "cross-site"}) == 403


def test_without_a_secret_nobody_is_asked() -> None:
    with serving() as server:
        assert server.client.get("/v1/runs").status_code == 200
        assert server.client.get("/v1/runs", headers=bearer("x.y.z")).status_code == 200


def test_a_stream_and_a_wait_end_with_their_token(guarded: Server) -> None:
    guarded.client.headers.update(bearer(token()))
    try:
        guarded.deploy(PAUSE.format(name="long", time="1h"))
        run_id = guarded.start("long")
    finally:
        del guarded.client.headers["Authorization"]
    headers = bearer(token(lasts_us=1_000_000 - LEEWAY_US))  # a second is left of the leeway

    def wait() -> None:
        found.append(
            guarded.client.get(f"/v1/runs/{run_id}/wait", params={"timeout": 60}, headers=headers)
        )

    found: list[Any] = []
    waiting = threading.Thread(target=wait)
    waiting.start()
    began = time.monotonic()
    with (
        pytest.raises(httpx2.RemoteProtocolError),
        guarded.client.stream("GET", f"/v1/runs/{run_id}/events", headers=headers) as answer,
    ):
        assert answer.status_code == 200
        for _ in Stream(answer):
            assert time.monotonic() - began < 30
    waiting.join(30)

    assert [(each.status_code, each.json()["detail"]) for each in found] == [
        (401, f"the token has expired; get another: {MAKE_TOKEN[Scope.ADMIN]}")
    ]

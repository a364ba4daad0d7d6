"""Files at their paths."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.testclient import TestClient
from starlette.exceptions import HTTPException

from tenuto.api.page import Page, add_routes, or_page


@dataclass(frozen=True, slots=True)
class File:
    content_type: str
    content: bytes
    etag: str


HOME = File("text/html; charset=utf-8", b"home", '"h"')
SCRIPT = File("text/javascript; charset=utf-8", b"script", '"s"')


def _client() -> TestClient:
    app = FastAPI()
    files = {"/": HOME, "/static/a.js": SCRIPT}
    page = Page(files=files, routes=("/", "/runs/{run}"), headers={"X-Own": "1"})
    add_routes(app, page)
    app.add_exception_handler(HTTPException, or_page(page, _refuse))
    return TestClient(app)


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Response("refused", status_code=error.status_code)


def test_the_page_stands_at_all_its_addresses() -> None:
    client = _client()

    for path in ("/", "/runs/1"):
        answer = client.get(path)
        assert (answer.content, answer.headers["etag"], answer.headers["x-own"]) == (
            b"home",
            '"h"',
            "1",
        )
    assert client.get("/static/a.js").content == b"script"
    assert client.get("/static/b.js").status_code == 404


def test_a_file_that_the_browser_has_is_not_sent_again() -> None:
    client = _client()

    assert client.get("/", headers={"If-None-Match": '"h"'}).status_code == 304
    assert client.get("/", headers={"If-None-Match": '"old"'}).status_code == 200


BROWSER = "text/html,application/xhtml+xml,*/*;q=0.8"


def test_a_browser_at_an_address_of_nothing_gets_the_page_that_says_so() -> None:
    answer = _client().get("/nope", headers={"Accept": BROWSER})

    assert (answer.status_code, answer.content) == (404, b"home")
    assert (answer.headers["x-own"], answer.headers["vary"]) == ("1", "Accept")


@pytest.mark.parametrize(
    ("method", "path", "accept", "status"),
    [
        ("GET", "/nope", "application/json", 404),
        ("GET", "/nope", "*/*", 404),
        ("POST", "/nope", BROWSER, 404),
        ("POST", "/", BROWSER, 405),
        ("GET", "/v1/nope", BROWSER, 404),
        ("GET", "/static/b.js", BROWSER, 404),
    ],
)
def test_everybody_else_is_refused_as_ever(
    method: str, path: str, accept: str, status: int
) -> None:
    answer = _client().request(method, path, headers={"Accept": accept})

    assert (answer.status_code, answer.content) == (status, b"refused")

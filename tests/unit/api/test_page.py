"""Files at their paths."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import FastAPI
from fastapi.testclient import TestClient

from tenuto.api.page import Page, add_routes


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
    add_routes(app, Page(files=files, routes=("/", "/runs/{run}"), headers={"X-Own": "1"}))
    return TestClient(app)


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

"""The page when something comes late, or in another order than it was asked for: what it shows last is what is so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect
from tests.support.browser import Server

APP = """
import time
from pathlib import Path

from tenuto import Tenuto

app = Tenuto()


@app.task
def gate(name: str) -> str:
    Path(f"{name}.begun").touch()
    while not Path(f"{name}.open").exists():
        time.sleep(0.01)
    return name
"""
FLOW = """
name: gated
input: {type: object, properties: {name: {type: string}}}
nodes:
  a: {type: task, task: gate, params: {name: "${input.name}"}}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Does one task at a time."""
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "gated.yaml").write_text(FLOW)
    made = Server(tmp_path, TENUTO_WORKER__SLOTS="1")
    made.start()
    yield made
    made.kill()


def until_begun(server: Server, name: str) -> None:
    while not (server.folder / f"{name}.begun").exists():
        time.sleep(0.01)


def test_a_task_that_is_taken_late_is_seen_at_work(server: Server, browser: Browser) -> None:
    """That somebody takes a task which has waited is no event of its run."""
    server.run("gated", {"name": "one"})
    until_begun(server, "one")
    run = server.run("gated", {"name": "two"})
    page = browser.new_page()
    page.goto(f"{server.url}/runs/{run}")
    node = page.locator('.graph .node[data-node="a"]')
    expect(node).to_have_attribute("data-state", "ready")
    expect(page.locator("#link")).to_have_text("live")
    page.wait_for_timeout(1_000)  # what is read as the stream begins would find it too

    (server.folder / "one.open").touch()
    until_begun(server, "two")

    expect(node).to_have_attribute("data-state", "running")
    (server.folder / "two.open").touch()
    page.context.close()


def test_what_a_stream_told_is_not_overwritten_by_an_older_page(
    server: Server, browser: Browser
) -> None:
    """The list is read once more as its stream begins, and that answer may come after what the stream tells."""
    run = server.run("gated", {"name": "one"})
    until_begun(server, "one")
    page = browser.new_page()
    badge = page.locator(f'tr[data-run="{run}"] .badge')
    asked = []
    held = []

    def late(route: Route) -> None:
        asked.append(route)
        if len(asked) != 2:
            route.continue_()
            return
        held.append((route, route.fetch()))  # as the run was then

    page.route("**/v1/runs?*", late)
    page.goto(server.url)
    while not held:
        page.wait_for_timeout(10)
    (server.folder / "one.open").touch()
    expect(badge).to_have_text("success")

    route, answer = held[0]
    with page.expect_response("**/v1/runs?*"):
        route.fulfill(response=answer)

    other = server.run("gated", {"name": "two"})  # what comes after that answer has been shown
    expect(page.locator(f'tr[data-run="{other}"]')).to_be_visible()
    expect(badge).to_have_text("success")
    (server.folder / "two.open").touch()
    page.context.close()

"""The page of a server that wants a token: asked for once, kept for the tab, in no address. Catalogue S24, S45."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Request, expect
from tests.support.browser import Watched
from tests.support.rest import PAUSE, Server, serving

from tenuto import web
from tenuto.api.page import Page
from tenuto.app.access import create_token, door_of
from tenuto.ports.access import Scope
from tenuto.settings.tree import Auth

AUTH = Auth(secret="a" * 32)
HOUR = 3_600_000_000


def token(scope: Scope = Scope.ADMIN) -> str:
    return create_token(AUTH, scope, lasts_us=HOUR)


@pytest.fixture
def server() -> Iterator[Server]:
    page = Page(files=web.files(), routes=web.ROUTES, headers=web.HEADERS)
    with serving(page=page, authorize=door_of(AUTH)) as served:
        served.client.headers["Authorization"] = f"Bearer {token()}"
        served.deploy(PAUSE.format(name="long", time="1h"))
        served.start("long")
        yield served


def test_a_token_is_asked_for_once_and_kept_for_the_tab(browser: Browser, server: Server) -> None:
    tab = browser.new_page()
    watched = Watched(tab, server.url)
    asked: list[Request] = []
    tab.on("request", lambda request: asked.append(request))  # noqa: PLW0108 - Playwright marks what it gets
    page = watched.open("/")
    question = page.get_by_role("dialog", name="This server wants a token")
    given = question.get_by_label("Token")

    given.fill("two words")
    question.get_by_role("button", name="Go on").click()
    expect(question).to_contain_text("That is no token.")
    given.fill("x.y.z")
    question.get_by_role("button", name="Go on").click()
    expect(question).to_contain_text("cannot be read")
    given.fill(token(Scope.WORKER))
    question.get_by_role("button", name="Go on").click()
    expect(question).to_contain_text("this needs one of scope admin")
    right = token()
    given.fill(f"Bearer {right}")
    question.get_by_role("button", name="Go on").click()

    expect(page.get_by_role("link", name="long", exact=True)).to_be_visible()
    expect(page.locator("#link")).to_have_text("live")  # the stream has it, too
    expect(question).to_have_count(0)
    page.reload()
    expect(page.get_by_role("link", name="long", exact=True)).to_be_visible()
    expect(question).to_have_count(0)
    page.get_by_role("link", name="long", exact=True).click()
    expect(page.get_by_role("group", name="workflow long")).to_be_visible()
    assert [each.url for each in asked if right in each.url] == []
    assert watched.complaints == []

    other = browser.new_page()
    other.goto(server.url)
    expect(other.get_by_role("dialog", name="This server wants a token")).to_be_visible()
    other.close()
    tab.close()

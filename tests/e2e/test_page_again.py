"""The page on what is nested in a run, and on doing it again: in a real browser, under the page's own policy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.support.browser import Server, Watched

APP = """
import time
from pathlib import Path

from tenuto import TaskError, Tenuto

app = Tenuto()


@app.task
def picky(n: int) -> int:
    if n == 3 and not Path("mended").exists():
        raise TaskError("bad_item", "three is bad")
    return n


@app.task
def held(n: int, gate: str) -> int:
    while n > 1 and not Path(gate).exists():
        time.sleep(0.01)
    return n


@app.task
def fine() -> None:
    return None


@app.task
def refuse() -> None:
    raise TaskError("no_stock", "none left")
"""
FLOWS = {
    "listed": """
name: listed
nodes:
  each: {type: foreach, over: "range(12)", task: picky, params: {n: "${item}"}, concurrency: 4}
  sum: {type: set, needs: [each], values: {all: "${nodes.each.output}"}}
""",
    "patient": """
name: patient
nodes:
  each: {type: foreach, over: "range(12)", task: picky, params: {n: "${item}"}, concurrency: 4, tolerate: 1}
""",
    "told": """
name: told
input: {type: object, properties: {n: {type: integer}}}
nodes:
  first: {type: set, values: {n: "${input.n}"}}
  sub: {type: call, needs: [first], do: {nodes: {pay: {type: task, task: refuse}}}}
""",
    "slow": """
name: slow
nodes:
  each: {type: foreach, over: "range(4)", task: held, params: {n: "${item}", gate: "${input.gate}"}}
""",
    "family": """
name: family
nodes:
  sub: {type: call, do: {nodes: {w: {type: wait_for_event, event: go, key: "${input.key}"}}}}
""",
    "saga": """
name: saga
nodes:
  book: {type: task, task: fine, compensate: {type: task, task: fine}}
  pay: {type: task, task: refuse, needs: [book]}
""",
}
Open = Callable[..., Watched]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("page_again")
    (folder / "app.py").write_text(APP)
    for name, text in FLOWS.items():
        (folder / f"{name}.yaml").write_text(text)
    made = Server(folder)
    made.start()
    yield made
    made.kill()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Opens pages; at the end none may have complained: no error, nothing against the policy."""
    pages: list[Watched] = []

    def open_page(server: Server) -> Watched:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        pages.append(Watched(context.new_page(), server.url))
        return pages[-1]

    yield open_page
    complaints = [complaint for page in pages for complaint in page.complaints]
    for page in pages:
        page.page.context.close()
    assert complaints == []


def state(page: Page, wanted: str) -> None:
    expect(page.locator(".run-head .badge")).to_have_text(wanted)


def button(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def test_a_foreach_counts_as_it_goes_on(server: Server, opened: Open) -> None:
    page = opened(server).open(f"/runs/{server.run('slow', {'gate': 'open-1'})}")
    detail = page.locator('.graph .node[data-node="each"] .detail')

    expect(detail).to_have_text("foreach 2 of 4")
    expect(page.locator('.line[data-node="each"] .items')).to_contain_text("2 of 4, 2 active")
    (server.folder / "open-1").touch()
    expect(detail).to_have_text("foreach 4 of 4")
    state(page, "success")
    bar = page.locator('.graph .node[data-node="each"] .bar.good')
    track = page.locator('.graph .node[data-node="each"] .track')
    assert float(bar.get_attribute("width") or 0) == pytest.approx(
        float(track.get_attribute("width") or 0), abs=0.2
    )


def test_R1_a_run_is_retried_once_its_plan_was_seen(server: Server, opened: Open) -> None:
    run = server.run("listed")
    page = opened(server).open(f"/runs/{run}?node=each")
    state(page, "failed")
    expect(page.locator(".failed-items")).to_contain_text("each[3]")
    expect(page.locator(".failed-items")).to_contain_text("three is bad")
    page.keyboard.press("Escape")  # the drawer lies above the head

    button(page, "Retry")
    expect(page.locator("dialog .plan li")).to_have_count(2)
    expect(page.locator("dialog .plan")).to_contain_text(re.compile(r"of its \d+ items"))
    button(page, "No, go back")
    state(page, "failed")
    (server.folder / "mended").touch()
    try:
        button(page, "Retry")
        button(page, "Retry the run")
        state(page, "success")
    finally:
        (server.folder / "mended").unlink()
    expect(page.locator(".facts")).to_contain_text("Retriedonce")
    expect(page.locator('.line[data-node="each"] .items')).to_contain_text("12 of 12")
    expect(page.get_by_role("button", name="Retry", exact=True)).to_have_count(0)


def test_a_run_goes_on_without_a_node_that_failed(server: Server, opened: Open) -> None:
    page = opened(server).open(f"/runs/{server.run('listed')}?node=each")
    state(page, "failed")

    button(page, "Retry without it …")
    page.locator("dialog textarea").fill("[1, 2")
    button(page, "Retry the run")
    expect(page.locator("dialog")).to_contain_text("this is not JSON")
    page.locator("dialog textarea").fill("[1, 2]")
    button(page, "Retry the run")

    state(page, "success")
    expect(page.locator("#drawer")).to_contain_text("Output, given by hand")
    expect(page.locator('.line[data-node="each"]')).to_contain_text("given by hand")


def test_R2_a_replay_opens_the_new_run(server: Server, opened: Open) -> None:
    run = server.run("slow", {"gate": "open-2"})
    (server.folder / "open-2").touch()
    page = opened(server).open(f"/runs/{run}?node=each")
    state(page, "success")

    button(page, "Replay from here …")
    expect(page.locator("dialog .plan")).to_contain_text("a second time: it had succeeded")
    page.locator("dialog textarea").fill('{"gate": "open-2", "other": 1}')
    button(page, "Start the new run")

    expect(page.locator(".facts")).to_contain_text(f"Replays{run[-8:]}")
    state(page, "success")
    assert run not in page.url


def test_failures_that_a_foreach_tolerates_are_not_red(server: Server, opened: Open) -> None:
    page = opened(server).open(f"/runs/{server.run('patient')}")
    state(page, "success")

    line = page.locator('.line[data-node="each"]')
    expect(line.locator(".items")).to_contain_text("12 of 12, 1 failed")
    expect(line.locator("rect.bar")).to_have_count(1)
    expect(line.locator("rect.bar.s-success")).to_have_count(1)


def test_a_call_tells_what_its_run_failed_of_and_is_replayed_with_another_input(
    server: Server, opened: Open
) -> None:
    run = server.run("told", {"n": 1})
    page = opened(server).open(f"/runs/{run}?node=sub")
    state(page, "failed")
    expect(page.locator("#drawer .cause")).to_have_text("because pay: no_stock: none left")

    button(page, "Replay from here …")
    area = page.locator("dialog textarea")
    expect(area).to_have_value('{\n  "n": 1\n}')
    area.fill('{"n": 2}')
    button(page, "Start the new run")
    expect(page.locator("dialog")).to_contain_text("they have read the old input: first")
    button(page, "Start the new run")

    expect(page.locator(".facts")).to_contain_text(f"Replays{run[-8:]}")
    expect(page.get_by_label("Input").first).to_contain_text('"n": 2')
    state(page, "failed")


def test_children_and_parents_lead_to_each_other(server: Server, opened: Open) -> None:
    run = server.run("family", {"key": "links"})
    page = opened(server).open(f"/runs/{run}")
    children = page.get_by_label("Runs that it has called")
    expect(children).to_contain_text("waits for event go key links")

    children.get_by_role("link").click()
    expect(page.locator(".facts")).to_contain_text(f"Called by{run[-8:]}")
    page.locator(".facts").get_by_role("link", name=run[-8:]).click()
    expect(page.locator("#drawer h2")).to_have_text("sub")
    button(page, "Skip …")
    page.locator("dialog textarea").fill('{"by": "hand"}')
    button(page, "Skip the node")
    state(page, "success")


def test_children_are_not_in_the_list_of_runs(server: Server, opened: Open) -> None:
    watched = opened(server)
    page = watched.open("/?workflow=family")
    run = server.run("family", {"key": "list"})

    row = page.locator(f'a[href*="{run}"]').first
    expect(row).to_be_visible()
    called = opened(server).open(f"/runs/{run}").get_by_label("Runs that it has called")
    expect(called).to_contain_text("waits for event go key list")
    [child] = [each["run_id"] for each in server.ask(f"/runs/{run}")["children"]["newest"]]
    page.reload()
    expect(row).to_be_visible()
    expect(page.locator(f'a[href*="{child}"]')).to_have_count(0)


def test_a_run_is_terminated_after_a_question(server: Server, opened: Open) -> None:
    page = opened(server).open(f"/runs/{server.run('family', {'key': 'end'})}")
    state(page, "running")

    button(page, "Terminate")
    page.get_by_label("Reason").fill("it hangs")
    button(page, "Terminate the run")

    state(page, "cancelled")
    expect(page.locator(".panel.off")).to_contain_text("it hangs")


def test_C3_undone_work_is_struck_out_and_a_refusal_says_why(server: Server, opened: Open) -> None:
    page = opened(server).open(f"/runs/{server.run('saga')}")
    state(page, "failed")
    expect(page.locator('.graph .node[data-node="book"]')).to_have_attribute("data-undo", "undone")
    expect(page.locator('.line[data-node="book"]')).to_contain_text("undo: undone")

    button(page, "Retry")
    expect(page.locator("dialog")).to_contain_text("has been undone")
    expect(page.locator("dialog")).to_contain_text("a new run has to do all of it")
    button(page, "Start again with this input …")
    expect(page).to_have_url(re.compile("/workflows/saga"))

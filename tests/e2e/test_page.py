"""The page in a real browser, served by `tenuto dev`: live, honest about failures, safe, and usable on a telephone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request, expect
from tests.support.backing.ports import free_port
from tests.support.browser import Server, Watched, widths

PROBE = '<img src=x onerror="window.pwned = 1">'
APP = f'''
import time
from pathlib import Path

from tenuto import Context, TaskError, Tenuto

app = Tenuto()


@app.task
def hello(name: str) -> str:
    return f"Hello {{name}}"


@app.task
def gate(name: str) -> str:
    """Holds until the test opens it, so that what is between can be seen."""
    while not Path(f"{{name}}.open").exists():
        time.sleep(0.01)
    return name


@app.task
def talk(name: str, context: Context) -> str:
    context.logger.info("first line of " + name)
    context.progress(1, 2, "half of it")
    gate(name)
    context.logger.info("last line of " + name)
    return name


@app.task
def flaky(context: Context) -> int:
    if context.attempt < 3:
        raise TaskError("http.503", "away")
    return context.attempt


@app.task
def refuse() -> None:
    raise TaskError("no_stock", {PROBE!r})
'''
FLOWS = {
    "steps": """
name: steps
description: Two steps with a gate between them.
input:
  type: object
  required: [gate, amount]
  properties:
    gate: {type: string, minLength: 1, examples: [g0]}
    amount: {type: integer, exclusiveMinimum: 0, default: 5}
nodes:
  first: {type: task, task: hello, params: {name: "${input.gate}"}}
  held: {type: task, task: talk, params: {name: "${input.gate}"}, needs: [first]}
  choice: {type: switch, needs: [held]}
  large: {type: task, task: hello, params: {name: large}}
  small: {type: task, task: gate, params: {name: "${input.gate + '-small'}"}}
edges:
  - {from: choice, to: large, when: "input.amount > 100"}
  - {from: choice, to: small, else: true}
output: {said: "${nodes.first.output}"}
""",
    "broken": """
name: broken
nodes:
  first: {type: task, task: hello, params: {name: x}}
  bad: {type: task, task: refuse, needs: [first], retry: {max_attempts: 2, initial: 1ms}}
  never: {type: task, task: hello, params: {name: x}, needs: [bad]}
""",
    "again": """
name: again
vars: {limit: 3}
nodes:
  left: {type: task, task: hello, params: {name: x}}
  charge: {type: task, task: flaky, retry: {max_attempts: 3, initial: 1ms}}
  right: {type: task, task: hello, params: {name: x}}
  below: {type: join, needs: [charge]}
  last: {type: join, needs: [below]}
output: "${nodes.charge.output}"
""",
    "approval": """
name: approval
input: {type: object, required: [id]}
nodes:
  approved: {type: wait_for_event, event: order.approved, key: "${input.id}", timeout: 2d}
  after: {type: task, task: hello, params: {name: "${nodes.approved.output.by}"}, needs: [approved]}
output: "${nodes.after.output}"
""",
    "crowd": "name: crowd\nnodes:\n"
    + "".join(
        f"  n{n}: {{type: join{f', needs: [n{n // 3}]' if n else ''}}}\n" for n in range(200)
    ),
}


def a_server(folder: Path) -> Server:
    (folder / "app.py").write_text(APP)
    for name, text in FLOWS.items():
        (folder / f"{name}.yaml").write_text(text)
    return Server(folder)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = a_server(tmp_path_factory.mktemp("page"))
    made.start()
    yield made
    made.kill()


Open = Callable[..., Watched]


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Opens pages; at the end none may have complained: no error, nothing against the policy."""
    pages: list[Watched] = []

    def open_page(server: Server, *, width: int = 1280, scheme: str = "light") -> Watched:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        watched = Watched(context.new_page(), server.url)
        pages.append(watched)
        return watched

    yield open_page
    complaints = [complaint for page in pages for complaint in page.complaints]
    for page in pages:
        page.page.context.close()
    assert complaints == []


def node(page: Page, id: str, state: str) -> None:
    """Wait until the graph and the list of nodes say that a node is in a state."""
    expect(page.locator(f'.graph .node[data-node="{id}"]')).to_have_attribute("data-state", state)
    expect(page.locator(f'.line[data-node="{id}"]')).to_have_attribute("data-state", state)


def state(page: Page, wanted: str) -> None:
    expect(page.locator(".run-head .badge")).to_have_text(wanted)


def colour(page: Page, selector: str, property: str = "color") -> str:
    return str(
        page.evaluate(
            "([s, p]) => getComputedStyle(document.querySelector(s))[p]", [selector, property]
        )
    )


def open_gates(server: Server, name: str) -> None:
    """Let all that waits in a run of `steps` go on."""
    for gate in (name, f"{name}-small"):
        (server.folder / f"{gate}.open").touch()


# -- starting and following ------------------------------------------------------------------------


def test_a_run_started_by_the_form_reaches_the_page_live(server: Server, opened: Open) -> None:
    watched = opened(server)
    page = watched.open("/workflows/steps")
    area = page.get_by_label("Input", exact=False).first
    expect(area).to_have_value(re.compile(r'"gate": "g0",\s+"amount": 5'))
    area.fill('{"gate": "g1", "amount": 7}')
    page.get_by_role("button", name="Start a run").click()

    expect(page).to_have_url(re.compile("/runs/[0-9a-f-]{36}$"))
    node(page, "first", "success")
    node(page, "held", "running")
    node(page, "small", "pending")
    state(page, "running")
    green = colour(page, '.node[data-node="first"]')
    assert colour(page, '.node[data-node="held"]') != green

    (server.folder / "g1.open").touch()
    node(page, "held", "success")
    node(page, "choice", "success")
    node(page, "small", "running")
    state(page, "running")
    (server.folder / "g1-small.open").touch()
    node(page, "small", "success")
    node(page, "large", "skipped")
    state(page, "success")
    expect(page.locator("main")).to_contain_text('"said": "Hello g1"')
    expect(page).to_have_title(re.compile("^success · steps"))
    assert colour(page, '.node[data-node="small"]') == green
    assert watched.was_not_reloaded()


def test_an_input_that_does_not_fit_is_shown_at_its_place(server: Server, opened: Open) -> None:
    page = opened(server).open("/workflows/steps")
    area = page.get_by_label("Input", exact=False).first
    area.fill('{\n  "gate": "g",\n  "amount": -1\n}')
    page.get_by_role("button", name="Start a run").click()

    errors = page.locator("#input-errors")
    expect(errors).to_contain_text("Line 3")
    expect(errors).to_contain_text("input.amount")
    expect(page.locator(".numbers .wrong")).to_have_text("3\n")
    chosen = "() => { const a = document.activeElement; return a.value.slice(a.selectionStart, a.selectionEnd) }"
    assert page.evaluate(chosen) == "-1"

    area.fill('{"gate": ')
    page.get_by_role("button", name="Start a run").click()
    expect(errors).to_contain_text("this is not JSON")
    expect(page).to_have_url(re.compile("/workflows/steps$"))


def test_a_failure_says_where_and_why(server: Server, opened: Open) -> None:
    page = opened(server).open(f"/runs/{server.run('broken')}")

    state(page, "failed")
    node(page, "bad", "dead")
    node(page, "never", "cancelled")
    expect(page.locator(".panel.bad")).to_contain_text("no_stock in bad")
    page.locator('.graph .node[data-node="bad"]').click()
    drawer = page.get_by_role("complementary", name="Node bad")
    expect(drawer.locator(".attempts li")).to_have_count(2)
    expect(drawer).to_contain_text("attempt 2")
    expect(page).to_have_url(re.compile(r"\?node=bad$"))


def test_a_node_that_succeeded_in_the_end_has_no_error_but_a_last_failed_attempt(
    server: Server, opened: Open
) -> None:
    page = opened(server).open(f"/runs/{server.run('again')}?node=charge")
    node(page, "charge", "success")

    drawer = page.get_by_role("complementary", name="Node charge")
    expect(drawer.locator("h3")).to_have_text(
        ["Input", "Output", "Attempts", "Last failed attempt"]
    )
    expect(drawer.locator("section").last).to_contain_text("http.503 in charge: away")


def test_a_run_shows_its_input_and_starts_another_one_with_it(server: Server, opened: Open) -> None:
    open_gates(server, "g8")
    first = server.run("steps", {"gate": "g8", "amount": 41})
    page = opened(server).open(f"/runs/{first}")
    given = page.get_by_role("region", name="Input")
    expect(given.locator("pre")).to_contain_text('"amount": 41')
    given.get_by_role("link", name="Start again with this input").click()

    area = page.get_by_label("Input", exact=False).first
    expect(area).to_have_value(re.compile(r'"amount": 41'))
    expect(page.locator("main")).to_contain_text(f"With the input of …{first[-8:]}")
    page.get_by_role("button", name="Start a run").click()
    expect(page).to_have_url(re.compile("/runs/[0-9a-f-]{36}$"))
    state(page, "success")
    expect(page.locator(".run-id")).not_to_have_text(first)
    expect(given.locator("pre")).to_contain_text('"amount": 41')

    page = opened(server).open(f"/runs/{server.run('again')}")
    page.get_by_text("Vars", exact=True).click()
    expect(page.get_by_label("vars", exact=True)).to_contain_text('"limit": 3')


def test_a_key_that_a_client_drew_is_not_shown(server: Server, opened: Open) -> None:
    drawn, chosen = "once-" + "1d8e" * 6, "once-more"
    runs = {key: server.run("broken", key=key) for key in (drawn, chosen)}
    page = opened(server).open("/?workflow=broken")

    expect(page.locator(f'tr[data-run="{runs[chosen]}"] .c-key')).to_have_text(chosen)
    expect(page.locator(f'tr[data-run="{runs[drawn]}"] .c-key')).to_have_text("")
    page.locator(f'tr[data-run="{runs[drawn]}"] a').click()
    state(page, "failed")
    expect(page.locator(".facts")).not_to_contain_text("once-")


def test_what_a_task_says_arrives_while_it_runs(server: Server, opened: Open) -> None:
    run = server.run("steps", {"gate": "g2", "amount": 1})
    page = opened(server).open(f"/runs/{run}?node=held")
    log = page.get_by_role("log")

    expect(log).to_contain_text("first line of g2")
    expect(log).not_to_contain_text("last line")
    expect(page.locator('.line[data-node="held"]')).to_contain_text("1 of 2: half of it")
    open_gates(server, "g2")
    expect(log).to_contain_text("last line of g2")


def test_a_run_is_cancelled_after_a_question(server: Server, opened: Open) -> None:
    page = opened(server).open(f"/runs/{server.run('approval', {'id': 'c'})}")
    node(page, "approved", "waiting")

    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="No, go back").click()
    state(page, "running")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_label("Reason").fill("changed my mind")
    page.get_by_role("button", name="Cancel the run").click()

    state(page, "cancelled")
    node(page, "approved", "cancelled")
    expect(page.locator(".panel.off")).to_contain_text("cancelled: changed my mind")
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_have_count(0)


def test_a_run_is_paused_and_resumed(server: Server, opened: Open) -> None:
    run = server.run("steps", {"gate": "g3", "amount": 1})
    page = opened(server).open(f"/runs/{run}")
    node(page, "held", "running")

    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("button", name="Pause the run").click()
    state(page, "paused")
    open_gates(server, "g3")
    node(page, "held", "success")
    node(page, "small", "ready")
    page.get_by_role("button", name="Resume", exact=True).click()
    page.get_by_label("Move its deadlines").check()
    page.get_by_role("button", name="Resume the run").click()
    state(page, "success")


def test_a_wait_says_what_it_waits_for_and_the_form_ends_it(server: Server, opened: Open) -> None:
    page = opened(server).open(f"/runs/{server.run('approval', {'id': 'order 7'})}")

    waits = page.get_by_role("region", name="What it waits for")
    expect(waits).to_contain_text("approved waits for event order.approved key 'order 7'")
    expect(waits.locator(".command code")).to_contain_text("tenuto event send order.approved")
    waits.get_by_text("Send the event from here").click()
    area = waits.get_by_label("Payload")
    expect(area).to_have_value(re.compile('"by": null'))
    area.fill("{nothing")
    waits.get_by_role("button", name="Send event").click()
    expect(waits.locator(".errors")).to_contain_text("this is not JSON")
    area.fill('{"by": "Ann"}')
    waits.get_by_role("button", name="Send event").click()

    node(page, "approved", "success")
    state(page, "success")
    expect(page.locator("main")).to_contain_text("Hello Ann")


def test_what_is_typed_stays_while_the_run_goes_on(server: Server, opened: Open) -> None:
    """The page is drawn anew at every change; a form that is being filled in is not touched, and still works."""
    run = server.run("approval", {"id": "typed"})
    page = opened(server).open(f"/runs/{run}")
    page.get_by_text("Send the event from here").click()
    area = page.get_by_label("Payload")
    area.fill('{"by": "Eve"}')
    server.ask(f"/runs/{run}/pause", {})
    state(page, "paused")
    expect(area).to_be_focused()
    area.blur()
    server.ask(f"/runs/{run}/resume", {})
    state(page, "running")

    expect(area).to_have_value('{"by": "Eve"}')
    page.get_by_role("button", name="Send event").click()
    state(page, "success")
    expect(page.locator("main")).to_contain_text("Hello Eve")


# -- lists -----------------------------------------------------------------------------------------


def test_the_list_is_live_filtered_by_the_address_and_can_be_held(
    server: Server, opened: Open
) -> None:
    server.ask(f"/runs/{server.run('broken')}/wait?timeout=30")  # what changes later is counted
    page = opened(server).open("/?workflow=approval&key=live-1")
    expect(page.locator("main")).to_contain_text("No run matches")
    expect(page.locator("#link")).to_have_text("live")
    other = server.run("approval", {"id": "other"}, key="live-2")
    run = server.run("approval", {"id": "live"}, key="live-1")

    line = page.locator(f'tr[data-run="{run}"]')
    expect(line.locator(".badge")).to_have_text("running")
    expect(page.locator(f'tr[data-run="{other}"]')).to_have_count(0)

    page.get_by_role("button", name="Hold the list still").click()
    server.ask("/events", {"event": "order.approved", "key": "live", "payload": {"by": "x"}})
    expect(page.get_by_role("button", name="Go on (1 changed)")).to_be_visible()
    expect(line.locator(".badge")).to_have_text("running")
    page.get_by_role("button", name="Go on").click()
    expect(line.locator(".badge")).to_have_text("success")

    page.get_by_role("button", name="failed", exact=True).click()
    expect(page).to_have_url(re.compile("state=failed"))
    expect(page.locator("main")).to_contain_text("No run matches")
    page.get_by_role("button", name="Show all runs").click()
    expect(page.locator("tr[data-run]").nth(1)).to_be_visible()


def test_the_chips_count_all_runs_live(tmp_path: Path, opened: Open) -> None:
    server = a_server(tmp_path)
    server.start()
    try:
        server.run("broken")
        page = opened(server).open("/")
        counted = page.locator(".chip")
        expect(counted.filter(has_text="failed")).to_have_text("failed1")
        server.ask(f"/runs/{server.run('approval', {'id': 'n'})}/pause", {})

        expect(counted.filter(has_text="paused")).to_have_text("paused1")
        expect(counted.first).to_have_text("all2")
        expect(counted.filter(has_text="running")).to_have_text("running")
        page.get_by_label("Workflow").select_option("broken")
        expect(counted.filter(has_text="failed")).to_have_text("failed")
    finally:
        server.kill()


def test_older_runs_come_by_the_page(server: Server, opened: Open) -> None:
    for _ in range(55):
        server.run("crowd")
    page = opened(server).open("/?workflow=crowd")

    expect(page.locator("tr[data-run]")).to_have_count(50)
    page.get_by_role("button", name="Older runs").click()
    expect(page.locator("tr[data-run]").nth(54)).to_be_visible()
    ids = page.locator("tr[data-run]").evaluate_all("rows => rows.map(row => row.dataset.run)")
    assert ids == sorted(set(ids), reverse=True)


def test_an_empty_database_teaches_how_to_start(tmp_path: Path, opened: Open) -> None:
    server = a_server(tmp_path)
    server.start()
    try:
        page = opened(server).open("/")

        expect(page.locator("main")).to_contain_text("No runs yet")
        expect(page.locator(".command code")).to_contain_text("tenuto run start")
        page.get_by_role("link", name="Start broken").click()
        page.get_by_role("button", name="Start a run").click()
        state(page, "failed")
    finally:
        server.kill()


def test_a_workflow_shows_its_graph_versions_and_source(server: Server, opened: Open) -> None:
    page = opened(server).open("/workflows")
    page.get_by_role("link", name="steps").first.click()

    expect(page.locator(".graph .node")).to_have_count(5)
    expect(page.locator(".source")).to_contain_text("Two steps with a gate")
    page.locator('.graph .node[data-node="held"]').click()
    assert page.evaluate("getSelection().toString()") == "held"
    expect(page.locator(".versions")).to_contain_text("v1")
    page.go_back()
    expect(page.get_by_role("heading", name="Workflows")).to_be_visible()


@pytest.mark.parametrize(
    "path", ["/runs/01980000-0000-7000-8000-00000000dead", "/workflows/none", "/nope"]
)
def test_what_is_not_there_is_said_with_a_way_on(server: Server, opened: Open, path: str) -> None:
    page = opened(server).open(path)

    said = re.compile("^(No (run|workflow)|There is no page) ")
    expect(page.get_by_role("heading")).to_contain_text(said)
    page.get_by_role("link", name="All runs").click()
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()


# -- a bad connection ------------------------------------------------------------------------------


def test_a_server_that_is_gone_is_said_and_its_return_resumes(tmp_path: Path, opened: Open) -> None:
    server = a_server(tmp_path)
    server.start(port=free_port())
    try:
        watched = opened(server)
        page = watched.open(f"/runs/{server.run('steps', {'gate': 'g4', 'amount': 1})}")
        node(page, "held", "running")
        server.kill()

        banner = page.get_by_role("alert").filter(has_text="does not answer")
        expect(banner.locator("code")).to_have_text(f"tenuto dev --port {server.port}")
        expect(page.locator("#link")).to_have_text("no connection")
        open_gates(server, "g4")
        server.start(port=server.port)

        state(page, "success")
        node(page, "small", "success")
        expect(banner).to_have_count(0)
        assert watched.was_not_reloaded()
    finally:
        server.kill()


def test_a_stream_that_breaks_is_taken_up_where_it_stood(server: Server, opened: Open) -> None:
    asked: list[str | None] = []
    watched = opened(server)
    page = watched.page

    def see(request: Request) -> None:
        if request.url.endswith("/events"):
            asked.append(request.headers.get("last-event-id"))

    page.on("request", see)
    run = server.run("steps", {"gate": "g5", "amount": 1})
    # The cut stream claims the second event. Were that still to come, it would be told to nobody.
    server.until(f"/runs/{run}", lambda it: it["nodes"][1]["state"] == "running")
    cut = "data: {}\n\n"
    page.route(
        "**/v1/runs/*/events",
        lambda route: (
            route.fulfill(content_type="text/event-stream", body=f"id: 2\nevent: state\n{cut}")
            if not asked[1:]
            else route.continue_()
        ),
    )
    with page.expect_request(lambda request: request.headers.get("last-event-id") == "2"):
        watched.open(f"/runs/{run}")

    expect(page.locator("#link")).to_have_text("live")
    node(page, "held", "running")
    open_gates(server, "g5")
    state(page, "success")
    assert asked[:2] == [None, "2"]


def test_where_streams_cannot_pass_the_page_asks_instead(server: Server, opened: Open) -> None:
    watched = opened(server)
    watched.page.route("**/events", lambda route: route.abort())
    page = watched.open(f"/runs/{server.run('steps', {'gate': 'g6', 'amount': 1})}")

    expect(page.locator("#link")).to_have_text("every 2 s")
    open_gates(server, "g6")
    state(page, "success")
    assert watched.was_not_reloaded()


# -- safe ------------------------------------------------------------------------------------------


def test_nothing_that_is_stored_becomes_markup(server: Server, opened: Open) -> None:
    """Keys, messages, outputs, events and logs hold whatever somebody sent."""
    run = server.run("approval", {"id": PROBE}, key=PROBE)
    steps = server.run("steps", {"gate": "g7", "amount": 1})
    watched = opened(server)
    page = watched.open(f"/runs/{run}?node=approved")
    expect(page.locator(".facts")).to_contain_text(PROBE)
    expect(page.get_by_role("region", name="What it waits for")).to_contain_text("onerror")
    markup = (
        "() => [document.querySelectorAll('main img, main script').length, window.pwned ?? null]"
    )
    assert page.evaluate(markup) == [0, None]

    server.ask("/events", {"event": "order.approved", "key": PROBE, "payload": {"by": PROBE}})
    state(page, "success")
    expect(page.locator("main")).to_contain_text("Hello <img")
    assert page.evaluate(markup) == [0, None]

    watched.open(f"/?key={PROBE}")
    expect(page.locator(".c-key")).to_have_text(PROBE)
    assert page.evaluate(markup) == [0, None]

    watched.open(f"/runs/{server.run('broken')}?node=bad")
    expect(page.get_by_role("complementary")).to_contain_text(PROBE)
    assert page.evaluate(markup) == [0, None]
    open_gates(server, "g7")
    watched.open(f"/runs/{steps}")
    state(page, "success")


def test_the_browser_is_told_to_run_nothing_but_the_pages_own_files(
    server: Server, browser: Browser
) -> None:
    """That nothing of the page's own is against the policy is asked of every test here."""
    context = browser.new_context()
    page = context.new_page()
    answer = page.goto(server.url + "/")
    assert answer is not None
    policy = answer.headers["content-security-policy"]

    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('style'), {textContent: 'main{color:red}'}))"
    )
    assert colour(page, "main") != "rgb(255, 0, 0)"
    with pytest.raises(Exception, match="TrustedHTML"):
        page.evaluate("document.body.innerHTML = '<b>x</b>'")
    context.close()


# -- for everybody ---------------------------------------------------------------------------------


def test_a_node_is_opened_and_closed_by_the_keyboard(server: Server, opened: Open) -> None:
    page = opened(server).open(f"/runs/{server.run('broken')}")
    state(page, "failed")

    page.locator('.graph .node[data-node="bad"]').focus()
    page.keyboard.press("Enter")
    drawer = page.get_by_role("complementary", name="Node bad")
    expect(drawer).to_be_focused()
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    expect(page.locator('.line[data-node="bad"] .open')).to_be_focused()


def test_the_page_follows_the_systems_darkness(
    server: Server, opened: Open, tmp_path: Path
) -> None:
    run = server.run("broken")
    grounds = {}
    for scheme in ("light", "dark"):
        page = opened(server, scheme=scheme).open(f"/runs/{run}")
        state(page, "failed")
        node(page, "bad", "dead")
        grounds[scheme] = colour(page, "body", "backgroundColor")
        assert colour(page, ".graph .node .title", "fill") == colour(page, "body")
        picture = page.screenshot(path=tmp_path / f"{scheme}.png")
        assert len(picture) > 10_000

    levels = {name: int(re.findall(r"\d+", value)[0]) for name, value in grounds.items()}
    assert levels["light"] > 200
    assert levels["dark"] < 50


def test_a_state_is_a_mark_a_word_and_a_colour(server: Server, opened: Open) -> None:
    page = opened(server).open(f"/runs/{server.run('broken')}")
    node(page, "bad", "dead")
    marks = page.locator(".graph .node .mark").evaluate_all(
        "all => all.map(e => e.getAttribute('d'))"
    )

    assert len(set(marks)) == 3
    expect(page.locator('.graph .node[data-node="bad"]')).to_have_attribute(
        "aria-label", re.compile(", dead$")
    )
    expect(page.locator('.line[data-node="bad"] .word')).to_have_text("dead")
    assert len({colour(page, f'.node[data-node="{id}"]') for id in ("first", "bad", "never")}) == 3


def test_nothing_is_cut_off_on_a_telephone(server: Server, opened: Open) -> None:
    run = server.run("approval", {"id": "telephone"}, key="a-long-key-" * 12)
    done = server.run("broken")
    watched = opened(server, width=380)
    for path, there in (
        ("/", "tr[data-run]"),
        (f"/runs/{run}", ".graph .node[data-state=waiting]"),
        (f"/runs/{done}?node=bad", ".drawer .attempts"),
        ("/workflows", "table"),
        ("/workflows/steps", "#start"),
    ):
        page = watched.open(path)
        expect(page.locator(there).first).to_be_visible()
        content, window = widths(page)
        assert content <= window, path


def test_nothing_lies_above_a_node_and_no_figure_is_cut(server: Server, opened: Open) -> None:
    page = opened(server).open(f"/runs/{server.run('again')}")
    node(page, "charge", "success")

    over = """() => {
      const box = (e) => e.getBoundingClientRect();
      const tools = box(document.querySelector('.tools'));
      const line = document.querySelector('.line[data-node=charge]');
      const ends = [...line.querySelectorAll('.figures span')].map((e) => box(e).right);
      return [
        [...document.querySelectorAll('.graph .node')].filter((e) => box(e).top < tools.bottom).length,
        Math.max(...ends) < box(line.closest('.pane')).right - 8,
      ];
    }"""
    expect(page.locator('.line[data-node="charge"] .figures')).to_contain_text("3 attempts")
    assert page.evaluate(over) == [0, True]


def test_on_a_telephone_a_run_that_goes_on_has_not_lasted(server: Server, opened: Open) -> None:
    run = server.run("approval", {"id": "goes on"})
    done = server.run("broken")
    page = opened(server, width=380).open("/")
    expect(page.locator(f'tr[data-run="{done}"] .badge')).to_have_text("failed")
    before = "run => getComputedStyle(document.querySelector(`tr[data-run='${run}'] .c-lasted`), '::before').content"

    assert page.evaluate(before, run) == '"so far "'
    assert page.evaluate(before, done) == '"lasted "'


def test_two_hundred_nodes_are_shown_and_can_be_opened(server: Server, opened: Open) -> None:
    page = opened(server).open(f"/runs/{server.run('crowd')}")
    state(page, "success")

    expect(page.locator(".graph .node[data-state=success]")).to_have_count(200)
    expect(page.locator(".line[data-state=success]")).to_have_count(200)
    content, window = widths(page)
    assert content <= window
    page.get_by_role("button", name="Fit the whole graph").click()
    page.locator('.line[data-node="n199"] .open').click()
    expect(page.get_by_role("complementary", name="Node n199")).to_be_visible()

"""The reading verbs about what is nested in a run, over a real engine: children, items, passes, values of places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.driver import Driver, engine_with

from tenuto.model.errors import InvalidInput, NotFound
from tenuto.views.answers import Answers
from tenuto.views.picture import run_svg

WHOLE = """
name: whole
nodes:
  each: {type: foreach, over: "range(12)", task: double, params: {n: "${item}"}, tolerate: 1}
  sub:
    type: call
    needs: [each]
    compensate: {type: task, task: undo}
    params: {who: "${nodes.each.output[0]}"}
    do: {nodes: {inner: {type: task, task: double, params: {n: 21}}}, output: "${nodes.inner.output}"}
  twice:
    type: foreach
    needs: [sub]
    over: "[1, 2]"
    do: {nodes: {a: {type: task, task: double, params: {n: "${item}"}}}}
  go: {type: task, task: double, needs: [twice], params: {n: 0}}
  back: {type: task, task: double, params: {n: "${iteration * 10}"}}
  more: {type: switch}
  last: {type: task, task: refuse}
edges:
  - {from: go, to: back}
  - {from: back, to: more}
  - {from: more, to: back, when: "iteration < 3", loop: {max: 3}}
  - {from: more, to: last, else: true}
"""


def double(n: int) -> int:
    if n == 3:
        raise ValueError("not three")
    return 2 * n


def undo() -> None:
    return None


def refuse() -> None:
    raise ValueError("refused")


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with engine_with(double, undo, refuse) as found:
        yield found


@pytest.fixture(scope="module")
def read(driver: Driver) -> Callable[..., Any]:
    answers = Answers(reads=driver.engine.reads, now=driver.engine.now)

    def ask(verb: str, *args: object, **more: object) -> Any:
        return driver.ask(getattr(answers, verb)(*args, **more))

    return ask


@pytest.fixture(scope="module")
def run(driver: Driver) -> str:
    return driver.run(WHOLE).run_id


def test_a_report_tells_children_items_undoing_and_why(read: Callable[..., Any], run: str) -> None:
    report = read("get_run", run)

    nodes = {node["id"]: node for node in report["nodes"]}
    assert report["state"] == "failed"
    assert report["compensation"] == "complete"
    assert nodes["each"]["items"] == {
        "total": 12,
        "succeeded": 11,
        "failed": 1,
        "active": 0,
        "cancelled": 0,
        "complete": True,
    }
    assert nodes["sub"]["undo"] == "undone"
    places = [child["place"] for child in report["children"]["newest"]]
    assert sorted(places) == ["sub", "twice[0]", "twice[1]"]
    assert nodes["sub"]["child"] in {child["run_id"] for child in report["children"]["newest"]}
    assert "undo sub" not in str(report["timeline"])
    assert any(step["place"] == "sub!undo" for step in report["timeline"])


def test_a_child_tells_its_parent_and_what_it_was_given(read: Callable[..., Any], run: str) -> None:
    children = read("list_children", run)["items"]

    by_node = {(each["parent"]["node"], each["parent"]["item"]): each for each in children}
    assert set(by_node) == {("sub", None), ("twice", 0), ("twice", 1)}
    child = read("get_run", by_node["sub", None]["run_id"])
    assert child["params"] == {"who": 0}
    assert child["parent"] == {"run_id": run, "node": "sub", "item": None}
    assert read("get_run", by_node["twice", 1]["run_id"])["item"] == 2


def test_lists_are_without_children_unless_they_are_asked_for(
    read: Callable[..., Any], run: str
) -> None:
    assert {each["parent"] for each in read("list_runs")["items"]} == {None}
    everybody = read("list_runs", children=True)["items"]
    assert sum(each["parent"] is not None for each in everybody) >= 3
    assert len(read("list_runs", parent=run)["items"]) == 3
    assert sum(read("count_runs").values()) == len(read("list_runs")["items"])


def test_items_are_paged_filtered_and_told_with_values_and_runs(
    read: Callable[..., Any], run: str
) -> None:
    page = read("list_items", run, "each", limit=5)

    assert [item["index"] for item in page["items"]] == [0, 1, 2, 3, 4]
    assert [item["output"] for item in page["items"]] == [0, 2, 4, None, 8]
    assert page["items"][3]["error"]["message"] == "not three"
    rest = read("list_items", run, "each", limit=50, cursor=page["next"])
    assert [item["index"] for item in rest["items"]] == list(range(5, 12))
    assert rest["next"] is None
    [dead] = read("list_items", run, "each", states=("dead",))["items"]
    assert (dead["index"], dead["input"]) == (3, {"n": 3})
    assert all(item["child"] for item in read("list_items", run, "twice")["items"])


def test_iterations_are_paged_and_told_with_values(read: Callable[..., Any], run: str) -> None:
    page = read("list_iterations", run, "back", limit=2)

    assert [each["iteration"] for each in page["items"]] == [1, 2]
    assert [each["output"] for each in page["items"]] == [20, 40]
    rest = read("list_iterations", run, "back", cursor=page["next"])
    assert [each["iterations"] for each in rest["items"]] == [[3]]
    assert rest["next"] is None


@pytest.mark.parametrize(
    ("verb", "node", "error", "told"),
    [
        ("list_items", "eech", NotFound, "did you mean 'each'?"),
        ("list_items", "sub", InvalidInput, "is no foreach"),
        ("list_items", "each[3", NotFound, "each[3"),
        ("list_iterations", "sub", InvalidInput, "is in no loop"),
        ("list_iterations", "bak", NotFound, "did you mean 'back'?"),
        ("run_node", "each[3", NotFound, "each[3"),
    ],
)
def test_what_has_none_is_refused_with_a_cure(
    read: Callable[..., Any], run: str, verb: str, node: str, error: type[Exception], told: str
) -> None:
    with pytest.raises(error) as caught:
        read(verb, run, node)
    assert told in str(caught.value)


def test_a_cursor_that_is_none_of_ours_is_refused(read: Callable[..., Any], run: str) -> None:
    for verb, node, cursor in (("list_items", "each", "x"), ("list_iterations", "back", "1.")):
        with pytest.raises(InvalidInput, match="none of ours"):
            read(verb, run, node, cursor=cursor)


def test_a_node_tells_its_items_its_child_and_other_places(
    read: Callable[..., Any], run: str
) -> None:
    each = read("run_node", run, "each")
    assert each["output"] == [0, 2, 4, None, *range(8, 24, 2)]
    item = read("run_node", run, "each[3]")
    assert (item["state"], item["input"], item["error"]["message"]) == (
        "dead",
        {"n": 3},
        "not three",
    )
    handler = read("run_node", run, "sub!undo")
    assert (handler["type"], handler["state"]) == ("task", "success")
    assert read("run_node", run, "back.1")["output"] == 20
    assert read("run_node", run, "twice[1]")["child"]
    assert read("run_node", run, "each[40]")["state"] == "pending"


def test_an_output_given_by_hand_is_shown_as_the_nodes_output(
    driver: Driver, read: Callable[..., Any]
) -> None:
    text = "name: given\nnodes: {a: {type: task, task: refuse}, b: {type: wait, for: 1ms, needs: [a]}}\n"
    run_id = driver.run(text).run_id

    driver.ask(driver.commands.retry(run_id, skip="a", output='{"by":"hand"}'))
    driver.end(run_id)

    found = read("run_node", run_id, "a")
    assert (found["state"], found["given"], found["output"]) == ("success", True, {"by": "hand"})
    whole = read("get_run", run_id)
    assert whole["epoch"] == 2
    assert {node["id"]: node["given"] for node in whole["nodes"]} == {"a": True, "b": False}


def test_a_replay_tells_its_source(driver: Driver, read: Callable[..., Any]) -> None:
    source = driver.run(
        "name: two\nnodes: {a: {type: wait, for: 1ms}, b: {type: wait, for: 1ms, needs: [a]}}\n"
    )

    new, _ = driver.ask(driver.commands.replay(source.run_id, "b"))
    driver.end(new)

    assert read("get_run", new)["source"] == source.run_id
    assert read("verify_run", new)["ok"]


def test_an_open_child_says_what_it_waits_for(driver: Driver, read: Callable[..., Any]) -> None:
    text = """
name: waiting
nodes:
  sub: {type: call, do: {nodes: {w: {type: wait_for_event, event: go, key: "1"}}}}
"""
    run_id = driver.begin(text)
    driver.until(lambda: read("get_run", run_id)["children"]["newest"])
    driver.until(lambda: read("get_run", run_id)["children"]["newest"][0]["waits_for"])

    report = read("get_run", run_id)
    [child] = report["children"]["newest"]
    assert child["waits_for"] == "event go key 1"
    assert child["command"] == "tenuto event send go --key 1"
    assert report["children"]["open"] == 1
    [node] = report["nodes"]
    assert (node["state"], node["child"]) == ("running", child["run_id"])
    driver.ask(driver.commands.terminate(run_id))


def test_a_foreach_is_drawn_with_its_bar_and_undone_work_struck_out(
    driver: Driver, read: Callable[..., Any], run: str
) -> None:
    graph, lines = read("run_graph", run)

    picture = run_svg(graph, lines)

    assert "foreach 12 of 12, 1 failed" in picture
    assert picture.count('class="track"') == 2
    assert 'data-node="sub" data-state="success" data-type="call" data-undo="undone"' in picture

"""The reading verbs over a real engine in memory: what each document says, and how each refuses."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tenuto.app.definitions import load_definition
from tenuto.app.embedded import Engine
from tenuto.coordinator.commands import StartRequest
from tenuto.model.errors import InvalidInput, NotFound, TenutoError
from tenuto.model.ids import RunId
from tenuto.views.answers import RUN_STATES, Answers, is_small
from tenuto.worker.context import current
from tenuto.worker.registry import Registry

NOW = 1_800_000_000_000_000
ORDER = """
name: order
input: {type: object, properties: {n: {type: integer}}}
vars: {limit: 3}
nodes:
  charge: {type: task, task: charge, params: {n: "${input.n}"}}
  spare: {type: set, values: {a: 1}}
  both: {type: join, needs: [charge, spare]}
  choose: {type: switch, needs: [both]}
  wait: {type: wait_for_event, event: paid, key: "k"}
  bad: {type: task, task: explode}
edges:
  - {from: choose, to: wait, when: "input.n == 1"}
  - {from: choose, to: bad, else: true}
"""


class World:
    """An engine with one workflow, and answers over it."""

    def __init__(self) -> None:
        registry = Registry()
        registry.add(charge)
        registry.add(explode)
        self.engine = Engine(":memory:", registry=registry)
        self.engine.start()
        self.deploy(ORDER)
        self.answers = Answers(reads=self.engine.reads, now=lambda: NOW)

    def ask(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.engine.call(coroutine).result()

    def deploy(self, text: str) -> None:
        graph = load_definition(text, file="order.yaml").graph
        assert graph is not None
        self.row = self.ask(self.engine.commands.deploy(graph))

    def start(self, n: int, *, key: str | None = None, wait: bool = True) -> RunId:
        request = StartRequest(
            graph_hash=self.row.hash,
            workflow=self.row.name,
            version=self.row.version,
            input=json.dumps({"n": n}),
            vars='{"limit":3}',
            key=key,
        )
        [started] = self.ask(self.engine.commands.start([request]))
        if wait:
            self.ask(self.engine.commands.wait(started.run_id))
        return RunId(started.run_id)


def charge(n: int) -> dict[str, int]:
    current().progress(n, 10, "charging")
    return {"charged": n}


def explode() -> None:
    raise ValueError("it burns")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    world = World()
    yield world
    world.engine.stop()


def test_runs_are_paged_by_a_cursor_that_is_given_back(world: World) -> None:
    made = [world.start(2, key=f"page-{n}") for n in range(3)]
    found: list[str] = []
    cursor: Any = None
    while True:
        page = world.ask(world.answers.list_runs(states=["failed"], limit=1, cursor=cursor))
        found += [run["run_id"] for run in page["items"]]
        cursor = page["next"]
        if cursor is None or len(found) >= 3:
            break

    assert found == made[::-1]
    [only] = world.ask(world.answers.list_runs(key="page-1"))["items"]
    assert (only["run_id"], only["state"], only["key"]) == (made[1], "failed", "page-1")


@pytest.mark.rule("X1.2")
def test_a_run_tells_with_what_it_was_started(world: World) -> None:
    run = world.ask(world.answers.get_run(world.start(2)))

    assert (run["input"], run["vars"]) == ({"n": 2}, {"limit": 3})


def test_a_report_in_two_parts_is_the_whole_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = world.ask(world.engine.commands.wait(world.start(2)))
    begun = world.ask(world.answers.begin_run(row))
    monkeypatch.setattr(
        "tenuto.views.answers.SMALL_MAX", 2
    )  # so the rest of the events is read later
    part = world.ask(world.answers.begin_run(row))

    told = world.ask(world.answers.get_run(row.run_id))
    assert told["error"] is not None
    assert len(part.events) == 2 < len(begun.events)
    for whole in (begun, part):
        assert world.ask(world.answers.finish_run(whole)) == told


def test_what_is_small_is_all_there_and_short(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = world.ask(world.engine.commands.wait(world.start(2)))
    whole = world.ask(world.answers.begin_run(row))

    assert is_small(whole)
    assert not is_small(replace(whole, events=whole.events[:-1]))
    assert not is_small(replace(whole, texts=dict.fromkeys(whole.texts, "x" * 65_536)))
    monkeypatch.setattr("tenuto.views.answers.SMALL_MAX", 2)
    assert not is_small(whole), "it has more nodes"


def test_a_version_is_located_as_it_is_found(world: World) -> None:
    for name, version in (("order", None), ("order", 1), ("order@1", None)):
        found = world.ask(world.answers.find_version(name, version))
        located = world.ask(world.answers.locate_version(name, version))
        assert (located.name, located.version, located.hash) == (
            found.name,
            found.version,
            found.hash,
        )
    for name, version in (("ordre", None), ("order", 9), ("order@stable", None), ("order@1", 1)):
        errors = []
        for verb in (world.answers.find_version, world.answers.locate_version):
            with pytest.raises(TenutoError) as raised:
                world.ask(verb(name, version))
            errors.append((type(raised.value), str(raised.value)))
        assert errors[0] == errors[1]


def test_runs_are_counted_by_every_state(world: World) -> None:
    before = world.ask(world.answers.count_runs())
    world.start(2)

    after = world.ask(world.answers.count_runs())
    assert list(after) == list(RUN_STATES)
    assert {name: after[name] - before[name] for name in after if after[name] != before[name]} == {
        "failed": 1
    }


def test_a_node_tells_its_values_attempts_and_notes(world: World) -> None:
    run_id = world.start(2)

    node = world.ask(world.answers.run_node(run_id, "charge"))

    assert (node["input"], node["output"], node["error"]) == ({"n": 2}, {"charged": 2}, None)
    [attempt] = node["attempts"]
    [note] = node["notes"]
    assert (attempt["attempt"], attempt["result"]) == (1, "success")
    assert json.loads(note["text"]) == {"done": 2, "total": 10, "message": "charging"}
    error = world.ask(world.answers.run_node(run_id[-8:], "bad"))["error"]
    assert (error["code"], error["message"]) == ("ValueError", "it burns")


def test_a_join_tells_what_it_joined(world: World) -> None:
    node = world.ask(world.answers.run_node(world.start(2), "both"))

    assert node["output"] == {"charge": {"charged": 2}, "spare": {"a": 1}}


def test_a_waiting_node_tells_for_what_and_how_to_end_it(world: World) -> None:
    run_id = world.start(1, wait=False)
    while True:
        awaited = world.ask(world.answers.list_awaited(event="paid"))["items"]
        if awaited:
            break
    assert awaited == [{"event": "paid", "key": "k", "waits": 1}]

    node = world.ask(world.answers.run_node(run_id, "wait"))

    assert (node["state"], node["waits_for"]) == ("waiting", "event paid key k")
    assert node["command"] == "tenuto event send paid --key k"
    world.ask(world.engine.commands.cancel(run_id))
    world.ask(world.engine.commands.wait(run_id))  # it would be counted by other tests on its way


def test_dead_tasks_are_listed_with_their_error(world: World) -> None:
    older, run_id = world.start(2), world.start(2)

    tasks = world.ask(world.answers.list_tasks(states=["dead"], limit=1))
    following = world.ask(world.answers.list_tasks(states=["dead"], cursor=tasks["next"]))

    [task] = tasks["items"]
    assert (task["run_id"], task["node"], task["state"]) == (run_id, "bad", "dead")
    assert task["error"]["message"] == "it burns"
    assert following["items"][0]["run_id"] == older
    assert run_id not in [each["run_id"] for each in following["items"]]


def test_a_version_tells_all_that_the_definition_says(world: World) -> None:
    version = world.ask(world.answers.get_workflow("order"))

    assert (version["version"], version["vars"], version["source"]) == (1, {"limit": 3}, ORDER)
    assert version["input_schema"] == {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
    }
    assert {"id": "choose", "type": "switch"} in version["nodes"]
    assert {
        "from": "choose",
        "to": "bad",
        "on": "success",
        "when": None,
        "else": True,
        "loop": None,
    } in version["edges"]
    assert version == world.ask(world.answers.get_version("order", 1))
    [row] = world.ask(world.answers.list_versions("order"))["items"]
    assert row["version"] == 1


def test_an_export_holds_what_verifying_and_reading_needs(world: World) -> None:
    run_id = world.start(2)

    whole = world.ask(world.answers.export_run(run_id))

    history = whole["history"]
    assert [event["seq"] for event in history] == list(range(1, len(history) + 1))
    assert whole["run"]["run_id"] == run_id
    assert whole["definition"]["source"] == ORDER
    assert {"place": "charge", "kind": "output", "value": {"charged": 2}}.items() <= next(
        each for each in whole["payloads"] if (each["place"], each["kind"]) == ("charge", "output")
    ).items()
    assert len(whole["notes"]) == 1
    assert world.ask(world.answers.verify_run(run_id))["ok"] is True


def test_history_is_paged_by_number(world: World) -> None:
    run_id = world.start(2)

    first = world.ask(world.answers.run_history(run_id, limit=2))
    rest = world.ask(world.answers.run_history(run_id, after=int(str(first["next"]))))

    events = [*first["items"], *rest["items"]]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (events[0]["kind"], rest["next"]) == ("RunStarted", None)


@pytest.mark.parametrize(
    ("ask", "kind", "message"),
    [
        (lambda a: a.get_run("zzz"), NotFound, "no run 'zzz'"),
        (lambda a: a.get_run(""), InvalidInput, "a run's id is empty"),
        (lambda a: a.list_runs(states=["done"]), InvalidInput, "there is no state 'done'"),
        (lambda a: a.list_runs(limit=0), InvalidInput, "limit: must be 1 to 1,000"),
        (lambda a: a.list_tasks(states=["closing"]), InvalidInput, "there is no state 'closing'"),
        (lambda a: a.list_runs(cursor="2"), InvalidInput, "cursor: is none of ours"),
        (lambda a: a.list_tasks(cursor="x"), InvalidInput, "cursor: is none of ours"),
        (lambda a: a.list_versions("order", cursor="x"), InvalidInput, "cursor: is none of ours"),
        (lambda a: a.get_workflow("ordre"), NotFound, "did you mean 'order'"),
        (lambda a: a.list_versions("nope"), NotFound, "no workflow 'nope'"),
        (lambda a: a.get_version("order", 9), NotFound, "the newest is 1"),
        (lambda a: a.get_version("order", 0), NotFound, "the newest is 1"),
    ],
)
def test_what_is_not_there_is_refused_with_a_cure(
    world: World, ask: Any, kind: type[TenutoError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        world.ask(ask(world.answers))


def test_an_unknown_node_is_refused_with_what_was_meant(world: World) -> None:
    run_id = world.start(2)

    for node, hint in (("chrage", "did you mean 'charge'"), ("charge7", "did you mean")):
        with pytest.raises(NotFound, match=hint):
            world.ask(world.answers.run_node(run_id, node))


PICKY = """
name: picky
nodes:
  each: {type: foreach, over: "range(3)", task: explode}
"""


def test_a_foreach_that_failed_names_what_its_first_item_failed_of(world: World) -> None:
    order = world.row
    try:
        world.deploy(PICKY)
        run_id = world.start(1)
    finally:
        world.row = order

    run = world.ask(world.answers.get_run(run_id))
    node = world.ask(world.answers.run_node(run_id, "each"))
    for error in (run["error"], run["nodes"][0]["error"], node["error"]):
        assert error["code"] == "foreach_failed"
        assert error["details"]["cause"]["message"] == "it burns"


DEEP = """
name: deep
nodes:
  sub: {type: call, do: {nodes: {each: {type: foreach, over: "range(3)", task: explode}}}}
"""


def test_the_first_item_is_named_where_a_child_failed_of_it(world: World) -> None:
    order = world.row
    try:
        world.deploy(DEEP)
        run_id = world.start(1)
    finally:
        world.row = order

    run = world.ask(world.answers.get_run(run_id))
    for error in (run["error"], run["nodes"][0]["error"]):
        assert error["code"] == "child_failed"
        assert error["details"]["cause"]["details"]["cause"]["message"] == "it burns"


JAMMED = """
name: jammed
nodes:
  w: {type: wait_for_event, event: jam, key: k, fail_when: "has(event.error)"}
"""


def test_an_event_that_is_a_failure_is_one_in_the_timeline(world: World) -> None:
    order = world.row
    try:
        world.deploy(JAMMED)
        run_id = world.start(1, wait=False)
    finally:
        world.row = order
    payload = '{"error": {"code": "paper_jam", "message": "no paper"}}'
    world.ask(world.engine.commands.send_event("jam", "k", payload))
    world.ask(world.engine.commands.wait(run_id))

    run = world.ask(world.answers.get_run(run_id))
    [step] = [step for step in run["timeline"] if step["what"] == "event"]
    assert (step["result"], step["code"], step["message"]) == ("failed", "paper_jam", "no paper")

"""The table of mocks: which one stands for an attempt, and which mistakes it knows."""

from __future__ import annotations

import datetime as dt

import pytest

from tenuto import InvalidInput, NotFound, TaskError
from tenuto.app.definitions import load_definition
from tenuto.model.definition import Definition
from tenuto.model.failures import Failure
from tenuto.model.ids import Place
from tenuto.ports.gateway import Failed, Success
from tenuto.testing.faults import (
    UNSET,
    Calls,
    Ends,
    Hangs,
    Lost,
    Mock,
    Mocks,
    Real,
    each_of,
    hangs,
    lost,
    one_of,
    raises,
    real,
    response,
    returns,
)


def a_definition() -> Definition:
    text = """
name: w
nodes:
  charge: {type: http, request: {url: "http://x.example/"}}
  reserve: {type: task, task: stock.reserve, needs: charge}
  again: {type: task, task: stock.reserve, needs: reserve}
  rest: {type: wait, for: 1s, needs: again}
"""
    graph = load_definition(text, file="w.yaml").graph
    assert graph is not None
    return graph.definition


def a_mock(node: str | None = None, task: str | None = None) -> Mock:
    return Mock(node, task, (Real(),))


def test_a_value_becomes_an_output_and_a_code_a_failure() -> None:
    assert returns({"a": 1}) == Ends(Success(output='{"a":1}'))
    day = dt.date(2026, 1, 2)
    assert returns({"on": day}) == Ends(Success(output='{"on":"2026-01-02"}'))
    assert raises("http.503").result == Failed(code="http.503", message="made to fail by a mock")
    assert raises("x", "y", details=[1], retryable=False, retry_after="2s").result == Failed(
        code="x", message="y", details="[1]", retryable=False, retry_after_us=2_000_000
    )


def test_an_exception_fails_as_in_a_task() -> None:
    declined = raises(TaskError("declined", "no", details={"a": 1}, retryable=False)).result
    assert declined == Failed(
        code="declined",
        message="no",
        details='{"a":1}',
        retryable=False,
        classes=("TaskError", "Exception"),
    )
    other = raises(ValueError("bad")).result
    assert isinstance(other, Failed)
    assert (other.code, other.message, other.retryable) == ("ValueError", "bad", True)
    assert raises(Failure("c", "m", retryable=False)).result == Failed(
        code="c", message="m", retryable=False
    )


def test_an_answer_is_an_output_or_a_failure_by_its_status() -> None:
    assert response({"id": 1}, headers={"etag": "x"}).result == Success(
        output='{"body":{"id":1},"headers":{"etag":"x"},"status":200}'
    )
    failed = response("gone", status=410).result
    assert isinstance(failed, Failed)
    assert failed.code == "http.410"
    assert failed.details == '{"body":"gone","headers":{},"status":410}'


def test_each_attempt_has_its_own_and_the_last_stands_for_all_later_ones() -> None:
    mock = Mock("n", None, each_of([raises("x"), hangs(), lost(), real()]))

    assert [type(mock.at(attempt)) for attempt in (1, 2, 3, 4, 5, 99)] == [
        Ends,
        Hangs,
        Lost,
        Real,
        Real,
        Real,
    ]


def test_one_thing_is_done_and_false_is_nothing() -> None:
    assert one_of({"returns": UNSET, "hangs": False}) is None
    assert one_of({"returns": None}) == returns(None)
    assert one_of({"hangs": True}) == Hangs()
    assert one_of({"lost": True}) == Lost()
    assert isinstance(one_of({"calls": len}), Calls)
    with pytest.raises(InvalidInput, match="not hangs and lost"):
        one_of({"hangs": True, "lost": True})


def test_a_coroutine_function_cannot_be_called() -> None:
    async def call(params: object) -> None: ...

    with pytest.raises(InvalidInput, match="no plain function"):
        one_of({"calls": call})


def test_a_nodes_own_mock_goes_first_then_the_newest() -> None:
    mocks = Mocks()
    mocks.learn(a_definition(), ())
    node, old, new = a_mock("reserve"), a_mock(task="stock.reserve"), a_mock(task="stock.reserve")
    for mock in (node, old, new):
        mocks.add(mock, ())

    assert mocks.find(Place("reserve"), "stock.reserve") is node
    assert mocks.find(Place("again"), "stock.reserve") is new
    assert mocks.find(Place("charge"), "http") is None


def test_a_mocked_node_tells_the_worker_its_tasks_name() -> None:
    mocks = Mocks()
    mocks.add(a_mock("reserve"), ())
    assert mocks.names() == ()
    mocks.learn(a_definition(), ())

    assert set(mocks.names()) == {"stock.reserve"}


def test_what_no_workflow_has_is_found_as_soon_as_one_is_known() -> None:
    early = Mocks()
    early.add(a_mock("chrage"), ())
    with pytest.raises(NotFound, match="did you mean 'charge'"):
        early.learn(a_definition(), ())

    known = Mocks()
    known.learn(a_definition(), ())
    for mock, kind in (
        (a_mock("nothing"), NotFound),
        (a_mock(task="nothing"), NotFound),
        (a_mock("rest"), InvalidInput),
    ):
        with pytest.raises(kind):
            known.add(mock, ())
    known.add(a_mock(task="of the app"), ("of the app",))

"""Reports are made from rows and events as they stand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.rows import TASK

from tenuto.adapters.cel import CelParser
from tenuto.cli.look import look_and_count
from tenuto.dsl.compile import load
from tenuto.machine import events
from tenuto.machine.snapshot import OpenedWait, Snapshot, Task, Timer
from tenuto.model.graph import Graph
from tenuto.model.ids import LeaseId, MessageId, Place, RunId, WorkerId
from tenuto.model.payload import Text
from tenuto.model.states import RunState, TaskState
from tenuto.ports.reads import RunDetail, WorkerRow
from tenuto.ports.store import LeaseRow, RunRow
from tenuto.views.cures import payload_hints, quoted, send_command
from tenuto.views.family import ChildLine, Children, shown_state
from tenuto.views.report import Known, NodeLine, Report, make_report, report_json
from tenuto.views.timeline import Step, make_timeline, node_of

SECOND = 1_000_000
RUN = RunId("01939d6e-0000-7000-8000-00000000abcd")
DEFINITION = """
name: order
nodes:
  charge: {type: task, task: pay.charge, retry: {max_attempts: 3}}
  pause: {type: wait, for: 10m, needs: [charge]}
  approval: {type: wait_for_event, event: order.approved, key: "${input.id}", timeout: 2d,
    needs: [charge]}
"""


def graph() -> Graph:
    loaded = load(DEFINITION, file="order.yaml", parser=CelParser())
    assert loaded.graph is not None, loaded.findings
    return loaded.graph


def task(**changes: object) -> Task:
    plain = replace(TASK, place=Place("charge"), name="pay.charge", priority=0)
    return replace(plain, **changes)  # type: ignore[arg-type]


LEASE = LeaseRow(
    lease_id=LeaseId("l"),
    worker=WorkerId("w-1"),
    leased_at=2 * SECOND,
    lease_until=12 * SECOND,
    attempt_until=None,
    heartbeat_until=None,
)


def detail(nodes: bytes, *, state: RunState = RunState.RUNNING, **more: object) -> RunDetail:
    plain = RunDetail(
        run=RunRow(
            run_id=RUN,
            namespace="default",
            workflow="order",
            version=1,
            definition="hash",
            key=None,
            state=state,
            paused=False,
            created_at=SECOND,
            ended_at=None,
        ),
        snapshot=Snapshot(
            run_id=RUN,
            seq=1,
            at=SECOND,
            state=state,
            paused=False,
            epoch=1,
            nodes=nodes,
            edges=b"--",
            passes=(),
            live=1,
        ),
        tasks=(),
        timers=(),
        waits=(),
        ready=(),
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def line(found: RunDetail, node: str, known: Known) -> NodeLine:
    report = make_report(graph(), found, known)
    return next(each for each in report.nodes if each.id == node)


def worker(*names: str, queues: tuple[str, ...] = ("*",)) -> WorkerRow:
    return WorkerRow(
        id="w-1", queues=queues, names=names, capacity=1, busy=0, lag_us=0, seen_at=SECOND
    )


def test_a_leased_task_is_running_since_its_lease() -> None:
    found = line(detail(b"a..", tasks=((task(), LEASE),)), "charge", Known())

    assert (found.state, found.since, found.attempts, found.attempts_max) == (
        "running",
        2 * SECOND,
        1,
        3,
    )
    assert found.waits_for == ""


def test_a_task_that_nobody_knows_says_what_it_waits_for() -> None:
    """Catalogue J14."""
    waiting = detail(b"a..", tasks=((task(), None),))

    assert line(waiting, "charge", Known()).waits_for == "a worker that has `pay.charge`"
    assert line(waiting, "charge", Known(workers=[worker("http")])).waits_for == (
        "a worker that has `pay.charge`"
    )
    assert line(waiting, "charge", Known(workers=[worker("pay.charge")])).waits_for == ""


def test_J14_a_worker_that_is_lost_is_not_counted_on() -> None:
    waiting = detail(b"a..", tasks=((task(), None),))
    lost = replace(worker("pay.charge"), lost=True)

    said = line(waiting, "charge", Known(workers=[lost])).waits_for
    assert said == "a worker that has `pay.charge`"
    # All are lost together with their engine: that is what is lacking.
    assert line(waiting, "charge", Known(workers=[lost], engine=None)).waits_for == "an engine"


def test_a_task_whose_queue_nobody_serves_says_so() -> None:
    waiting = detail(b"a..", tasks=((task(queue="warehouse"), None),))
    known = Known(workers=[worker("pay.charge", queues=("default",))])

    assert line(waiting, "charge", known).waits_for == (
        "a worker of the queue `warehouse` that has `pay.charge`"
    )


def test_a_retry_says_when_the_next_attempt_comes() -> None:
    found = line(
        detail(
            b"a..",
            tasks=((task(state=TaskState.RETRY, attempt=2), None),),
            timers=(Timer(Place("charge"), events.TimerKind.BACKOFF, 5 * SECOND, 3),),
        ),
        "charge",
        Known(now=3 * SECOND),
    )

    assert (found.state, found.attempts, found.waits_for) == ("retry", 1, "attempt 2 in 2s")


def test_a_paused_run_says_so_at_its_tasks_and_as_its_state() -> None:
    waiting = detail(b"a..", tasks=((task(), None),))
    paused = replace(waiting, run=replace(waiting.run, paused=True))

    report = make_report(graph(), paused, Known(workers=[worker("pay.charge")]))

    assert report.state == "paused"
    assert report.nodes[0].waits_for == "the run to be resumed"


@pytest.mark.rule("C6.1")
@pytest.mark.parametrize(
    ("state", "shown"),
    [("pending", "paused"), ("running", "paused"), ("closing", "closing"), ("failed", "failed")],
)
def test_C6_a_pause_is_shown_as_the_state_while_the_outcome_is_open(state: str, shown: str) -> None:
    assert shown_state(state, paused=True) == shown
    assert shown_state(state, paused=False) == state


def test_a_wait_says_how_long_it_takes() -> None:
    found = line(
        detail(b"sa.", timers=(Timer(Place("pause"), events.TimerKind.WAIT, 603 * SECOND, 2),)),
        "pause",
        Known(now=3 * SECOND, history=[(2, events.RunStarted(at=2 * SECOND))]),
    )

    assert (found.state, found.since, found.waits_for) == (
        "waiting",
        2 * SECOND,
        "its time in 10m00s",
    )


def test_a_wait_for_an_event_names_the_command_that_sends_it() -> None:
    waiting = detail(
        b"s.a",
        waits=(OpenedWait(Place("approval"), "order.approved", "o 1", 2, 2 * SECOND),),
        timers=(Timer(Place("approval"), events.TimerKind.EVENT, 62 * SECOND, 2),),
    )

    known = Known(now=2 * SECOND + 1_000, database="my.db")
    found = line(waiting, "approval", known)
    read = line(waiting, "approval", replace(known, hints={"approval": '{"by": …}'}))

    assert found.waits_for == "event order.approved key 'o 1', for at most 1m00s"
    assert found.awaits == ("order.approved", "o 1", "")
    assert read.awaits == ("order.approved", "o 1", '{"by": …}')
    assert found.command == "tenuto event send order.approved --key 'o 1' --database my.db"
    assert read.command == (
        "tenuto event send order.approved --key 'o 1' --payload '{\"by\": …}' --database my.db"
    )


def test_the_payload_that_is_hinted_at_has_the_fields_that_are_read() -> None:
    text = """
name: x
nodes:
  a: {type: wait_for_event, event: e, key: k}
  b: {type: wait_for_event, event: e, key: k}
  c: {type: wait_for_event, event: e, key: k}
  d: {type: task, task: t, needs: [a, b], params: {x: "${nodes.a.output.by}", y: "${nodes.b.output}"}}
output: {by: "${nodes.a.output.?at.orValue(null)}", again: "${nodes.a.output.by}"}
"""
    loaded = load(text, file="x.yaml", parser=CelParser())
    assert loaded.graph is not None, loaded.findings

    assert payload_hints(loaded.graph.definition) == {"a": '{"at": …, "by": …}', "b": "{…}"}


def test_what_items_and_handlers_read_of_an_event_is_hinted_at_too() -> None:
    text = """
name: x
nodes:
  a: {type: wait_for_event, event: e, key: k}
  b: {type: foreach, over: nodes.a.output.list, task: t, params: {x: "${nodes.a.output.of}"}, needs: a}
  c: {type: task, task: t, needs: b, compensate: {type: task, task: u, params: {by: "${nodes.a.output.by}"}}}
"""
    loaded = load(text, file="x.yaml", parser=CelParser())
    assert loaded.graph is not None, loaded.findings

    assert payload_hints(loaded.graph.definition) == {"a": '{"of": …, "list": …, "by": …}'}


def test_a_task_that_was_cancelled_before_its_first_attempt_had_none() -> None:
    never = detail(b"c..", state=RunState.FAILED, tasks=((task(state=TaskState.CANCELLED), None),))
    second = replace(never, tasks=((task(state=TaskState.CANCELLED, attempt=2), None),))
    history = [(2, replace(_failed(at=9, leased_at=4), place=Place("charge")))]

    assert line(never, "charge", Known()).attempts == 0
    assert line(second, "charge", Known(history=history)).attempts == 1


def test_without_an_engine_nothing_runs_and_the_command_that_goes_on_is_named() -> None:
    leased = detail(b"a..", tasks=((task(), LEASE),))

    report = make_report(graph(), leased, Known(engine=None, database="my.db"))

    assert (report.nodes[0].state, report.nodes[0].since) == ("interrupted", None)
    assert report.timeline[0].result == "interrupted"
    assert report.go_on == f"tenuto run --carry-on {RUN} --database my.db"
    assert make_report(graph(), leased, Known(engine="17")).go_on == ""


def test_an_event_that_was_there_before_its_wait_has_a_line() -> None:
    history: list[tuple[int, events.Event]] = [
        (1, events.RunStarted(at=5)),
        (2, _failed(at=9, leased_at=4)),
    ]

    steps = make_timeline(history, early=[(1, Place("e.2"))], failures={2: "no"})

    assert [(s.place, s.what, s.started_at, s.ended_at, s.message) for s in steps] == [
        ("a", "attempt", 4, 9, "no"),
        ("e.2", "event", 5, 5, ""),
    ]


def test_a_run_that_ends_between_two_readings_is_not_counted_among_the_others() -> None:
    open_, final = (make_report(graph(), detail(b"...", state=state), Known()) for state in (
        RunState.RUNNING, RunState.SUCCESS))  # fmt: skip
    for counted in (0, 1):  # before its end was counted, and after
        looks, counts = [open_, final, final], [counted, 0]
        assert look_and_count(lambda: looks.pop(0), lambda: counts.pop(0)) == (final, 0)  # noqa: B023

    assert look_and_count(lambda: open_, lambda: 3) == (open_, 2)
    child = replace(open_, parent=(RUN, Place("call")))
    assert look_and_count(lambda: child, lambda: 3) == (child, 3), (
        "what runs have called is not counted"
    )


def test_a_call_waits_for_the_run_that_it_has_called_and_never_for_a_worker() -> None:
    calling = load(
        "name: order\nnodes: {bill: {type: call, call: billing}}\n",
        file="o.yaml",
        parser=CelParser(),
    ).graph
    assert calling is not None
    child = RunId("01939d6e-0000-7000-8000-000070bd3af4")
    called = ChildLine(
        run_id=child,
        place="bill",
        workflow="billing",
        version=1,
        state="running",
        created_at=SECOND,
        ended_at=None,
    )
    own = task(place=Place("bill"), name="call", queue="call", child=child)

    def waits(task: Task, known: Known) -> tuple[str, str]:
        [found] = make_report(calling, replace(detail(b"a"), tasks=((task, None),)), known).nodes
        return found.state, found.waits_for

    known = Known(children=Children(newest=(called,), open=1))
    assert waits(own, known) == ("running", "run 70bd3af4 (billing v1)")
    assert waits(own, Known()) == ("running", "run 70bd3af4")
    assert waits(replace(own, ending="timeout"), Known()) == (
        "running",
        "run 70bd3af4, to be cancelled: its time is over",
    )
    assert waits(replace(own, child=None), Known()) == ("running", "")


def test_an_event_that_fail_when_made_a_failure_is_no_success() -> None:
    received = events.EventReceived(
        at=60, place=Place("approval"), version=1, payload=Text(2), message_id=MessageId("m")
    )

    [step] = make_timeline([(2, received)], codes={2: "paper_jam"}, failures={2: "no paper"})

    assert (step.what, step.result, step.code, step.message) == (
        "event",
        "failed",
        "paper_jam",
        "no paper",
    )


def test_a_finished_run_waits_for_nothing() -> None:
    over = detail(b"a..", state=RunState.CANCELLED, tasks=((task(), None),))

    assert make_report(graph(), over, Known()).waits == ()


def test_a_dead_node_shows_its_error() -> None:
    known = Known(errors={"charge": {"code": "http.503", "message": "no"}})

    assert line(detail(b"x.."), "charge", known).error == {"code": "http.503", "message": "no"}


def test_the_timeline_lists_attempts_waits_and_requests_by_their_start() -> None:
    history: list[tuple[int, events.Event]] = [
        (1, events.RunStarted(at=1)),
        (2, _failed(at=9, leased_at=4)),
        (3, events.LeaseExpired(
            at=30, place=Place("a"), attempt=2, lease_id=LeaseId("k"),
            worker=WorkerId("w"), leased_at=20,
        )),
        (4, events.EventReceived(
            at=50, place=Place("e.2"), version=1, message_id=MessageId("m"), payload=Text(2)
        )),
        (5, events.TimerFired(at=60, place=Place("w"), kind=events.TimerKind.WAIT, version=3)),
        (6, events.TimerFired(at=61, place=Place("a"), kind=events.TimerKind.BACKOFF, version=2)),
        (7, events.CancelRequested(at=70)),
    ]  # fmt: skip

    made = make_timeline(history, [(task(state=TaskState.CANCELLED, attempt=3), LEASE)])

    assert [
        (s.place, s.what, s.attempt, s.result, s.code, s.started_at, s.ended_at) for s in made
    ] == [
        ("e.2", "event", None, "success", None, 1, 50),
        ("a", "attempt", 1, "failed", "http.503", 4, 9),
        ("a", "attempt", 2, "lost", "lease_lost", 20, 30),
        ("w", "wait", None, "success", None, 30, 60),
        ("", "run", None, "cancel requested", None, 70, 70),
        ("charge", "attempt", 3, "cancelled", None, 2 * SECOND, None),
    ]
    assert made[0].node == "e"


def test_a_passed_deadline_is_a_failed_attempt_with_its_code() -> None:
    passed = events.DeadlinePassed(
        at=9, place=Place("a"), attempt=1, deadline=events.Deadline.QUEUE, lease_id=None, draw=0.0
    )

    [step] = make_timeline([(1, passed)])

    assert (step.result, step.code, step.started_at, step.ended_at) == (
        "failed",
        "queue_timeout",
        None,
        9,
    )


def test_an_event_that_never_came_is_a_timeout() -> None:
    fired = events.TimerFired(at=9, place=Place("e"), kind=events.TimerKind.EVENT, version=1)

    [step] = make_timeline([(1, events.RunStarted(at=3)), (2, fired)])

    assert (step.what, step.result, step.code, step.started_at) == ("event", "failed", "timeout", 3)


def test_a_report_is_json_with_times_relative_to_the_start() -> None:
    report = Report(
        run_id="r",
        workflow="w",
        version=2,
        state="success",
        key="k",
        created_at=SECOND,
        ended_at=3 * SECOND,
        now=9 * SECOND,
        nodes=(NodeLine(id="a", type="task", state="success", attempts=1),),
        timeline=(
            Step(
                place="a",
                node="a",
                what="attempt",
                result="success",
                attempt=1,
                started_at=2 * SECOND,
                ended_at=3 * SECOND,
                worker="w-1",
            ),
        ),
        output={"x": 1},
    )

    made = report_json(report)

    assert made["lasted_us"] == 2 * SECOND
    assert made["created_at"] == "1970-01-01T00:00:01.000Z"
    assert made["timeline"] == [
        {
            "place": "a",
            "node": "a",
            "what": "attempt",
            "attempt": 1,
            "result": "success",
            "code": None,
            "message": None,
            "worker": "w-1",
            "child": None,
            "start_us": SECOND,
            "duration_us": SECOND,
        }
    ]


def test_a_place_names_its_node() -> None:
    places = ("charge", "poll.3", "poll.3.1", "each[2]", "a~2", "")

    assert [node_of(place) for place in places] == ["charge", "poll", "poll", "each", "a", ""]


def test_words_are_quoted_for_the_shell_where_they_must_be() -> None:
    assert [quoted(word) for word in ("o-1", "a b", "it's", "", "$x")] == [
        "o-1",
        "'a b'",
        """'it'"'"'s'""",
        "''",
        "'$x'",
    ]
    assert send_command("e", "k", "") == "tenuto event send e --key k"


def _failed(*, at: int, leased_at: int) -> events.AttemptFailed:
    return events.AttemptFailed(
        at=at,
        place=Place("a"),
        attempt=1,
        lease_id=LeaseId("l"),
        code="http.503",
        error=Text(2),
        draw=0.5,
        worker=WorkerId("w"),
        leased_at=leased_at,
    )

"""What a notice means: facts compared with the rows as loaded, whatever was handed in before (F6, C6, R1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.support.graphs import graph
from tests.support.store import a_snapshot, a_task

from tenuto.adapters.local.dice import SystemDice
from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.coordinator.batch import Batch
from tenuto.coordinator.notices import StartNotice, fact_of
from tenuto.coordinator.seats import Seats
from tenuto.coordinator.waiting import NOBODY, Beginning, Found, Moment, Settled, Waiting, Wanted
from tenuto.machine.decide import initial
from tenuto.machine.events import (
    CancelRequested,
    ChildSettled,
    ParentPaused,
    Rejection,
    RunStarted,
    TerminateRequested,
)
from tenuto.machine.snapshot import Snapshot
from tenuto.model.errors import InvariantViolated
from tenuto.model.ids import Place, RunId
from tenuto.model.payload import PAYLOAD_MAX, PayloadKey, PayloadKind
from tenuto.model.states import RunState, TaskState
from tenuto.ports.store import ItemRow, Loaded, NewRun, NoticeKind, NoticeRow, RunRow

PARENT, CHILD, C = RunId("parent"), RunId("child"), Place("c")
MOMENT = Moment(now=50, dice=SystemDice(1), workers=Seats())
GRAPH = graph("c", types={"c": "call"})
ORDER = (
    '{"definition":"h","workflow":"w","version":1,"inline":false,"waited":true,"depth":1,"index":3}'
)


def row(run_id: RunId, state: str = "running", **columns: Any) -> RunRow:
    new = NewRun(namespace="space", workflow="w", version=1, definition="h", key=None, created_at=1)
    return replace(Beginning(new, {}).row(run_id), state=state, **columns)


def a_batch(run_id: RunId, state: RunState = RunState.RUNNING) -> Batch:
    snapshot = replace(initial(run_id, GRAPH), seq=4, state=state)
    return Batch(GRAPH, row(run_id), snapshot, {}, message_id=Uuid7Ids().message_id)


def notice(kind: NoticeKind, to: RunId, sender: RunId, data: str = "{}") -> NoticeRow:
    return NoticeRow(run_id=to, kind=kind, place=C, sender=sender, data=data)


def loaded(it: NoticeRow, *runs: tuple[RunRow, Snapshot], **more: Any) -> Loaded:
    return Loaded(
        now=1,
        runs={run.run_id: (run, snapshot) for run, snapshot in runs},
        notices={(it.run_id, it.kind, it.place): it},
        **more,
    )


def event_of(fact: Waiting, batch: Batch, found: Loaded, more: Loaded | None = None) -> Any:
    fact.fill(batch, found)
    event = fact.event(batch, found, MOMENT)
    if isinstance(event, Wanted):
        assert more is not None
        fact.learn(Found(more))
        event = fact.event(batch, found, MOMENT)
    return event


@pytest.mark.parametrize("kind", NoticeKind)
def test_a_notice_that_is_gone_says_nothing(kind: NoticeKind) -> None:
    it = notice(kind, CHILD, PARENT, ORDER if kind is NoticeKind.START else "{}")
    batch = a_batch(CHILD)
    event = event_of(fact_of(it, NOBODY, 0), batch, Loaded(now=1))

    assert event == Settled(False)
    assert batch.is_empty


@pytest.mark.parametrize("kind", NoticeKind)
def test_a_notice_goes_with_its_decision_also_where_it_is_refused(kind: NoticeKind) -> None:
    it = notice(kind, CHILD, PARENT, ORDER if kind is NoticeKind.START else "{}")
    batch = a_batch(CHILD)
    fact = fact_of(it, NOBODY, 0)
    fact.decided(batch, Rejection.RUN_FINAL)

    assert batch.build().claims.notices == ((kind, C, PARENT, 0),)
    assert fact.answer_to(Rejection.RUN_FINAL) is True


# -- start ------------------------------------------------------------------------------------------------------------


def texts(**given: str) -> Mapping[tuple[RunId, PayloadKey], str]:
    return {(PARENT, PayloadKey(C, PayloadKind(kind))): text for kind, text in given.items()}


def test_F6_a_child_begins_with_copies_of_its_parents_texts_and_with_its_pause() -> None:
    it = notice(NoticeKind.START, CHILD, PARENT, ORDER)
    fact = fact_of(it, NOBODY, 0)
    assert isinstance(fact, StartNotice)
    paused = a_snapshot(PARENT, 3, parent_paused=True)
    found = loaded(it, (row(PARENT), paused), payloads=texts(input="1", vars="2"))
    beginning = fact.beginning(found, 9)
    snapshot = initial(CHILD, GRAPH)
    batch = Batch(GRAPH, beginning.row(CHILD), snapshot, {}, message_id=Uuid7Ids().message_id)

    assert fact.definition(found) == "h"
    assert beginning.new_run.parent == (PARENT, C)
    assert beginning.new_run.namespace == "space"
    assert sorted(beginning.texts.values()) == ["1", "2"]
    assert event_of(fact, batch, found) == RunStarted(
        at=50, parent=(PARENT, C), index=3, depth=1, paused=True
    )


@pytest.mark.rule("F6.4")
def test_F6_a_child_that_is_not_waited_for_has_no_parent_to_pause_it() -> None:
    it = notice(NoticeKind.START, CHILD, PARENT, ORDER.replace("true", "false"))
    found = loaded(it, (row(PARENT), a_snapshot(PARENT, 3, paused=True)))
    batch = Batch(GRAPH, row(CHILD), initial(CHILD, GRAPH), {}, message_id=Uuid7Ids().message_id)

    event = event_of(fact_of(it, NOBODY, 0), batch, found)
    assert event == RunStarted(at=50, parent=None, index=3, depth=1, paused=False)


def test_a_start_of_a_run_that_exists_is_only_taken_away() -> None:
    it = notice(NoticeKind.START, CHILD, PARENT, ORDER)
    batch = a_batch(CHILD)
    event = event_of(fact_of(it, NOBODY, 0), batch, loaded(it, (row(CHILD), a_snapshot(CHILD, 4))))

    assert event == Settled(True)
    assert batch.build().claims.notices == (("start", C, PARENT, 0),)
    assert batch.build().events == ()


def test_a_start_without_its_texts_is_a_bug() -> None:
    it = notice(NoticeKind.START, CHILD, PARENT, ORDER)
    fact = fact_of(it, NOBODY, 0)
    assert isinstance(fact, StartNotice)
    with pytest.raises(InvariantViolated, match="not stored"):
        fact.beginning(loaded(it, (row(PARENT), a_snapshot(PARENT, 3))), 9)


# -- settled ----------------------------------------------------------------------------------------------------------


def settled(child: RunRow, more: Loaded | None = None) -> tuple[Any, Batch]:
    it = notice(NoticeKind.SETTLED, PARENT, CHILD)
    task = a_task("c", child=CHILD)
    batch = a_batch(PARENT)
    found = loaded(
        it,
        (child, a_snapshot(CHILD, 9, state=RunState(child.state))),
        tasks={(PARENT, C): (task, None)},
    )
    event = event_of(fact_of(it, NOBODY, 0), batch, found, more)
    assert batch.tasks == {C: task}
    return event, batch


def test_F6_the_output_of_a_child_is_put_together_for_its_parent() -> None:
    output = '{"a":["a","output"],"e":["e","items",2]}'
    key = PayloadKey(Place("a"), PayloadKind.OUTPUT)
    items = (ItemRow(index=1, state="success", output="7", error=None),)
    more = Loaded(now=1, payloads={(CHILD, key): "1"}, items={(CHILD, Place("e")): items})
    event, _ = settled(row(CHILD, "success", output=output), more)

    assert isinstance(event, ChildSettled)
    assert (event.place, event.child, event.state) == (C, CHILD, RunState.SUCCESS)
    assert event.output is not None
    assert event.output.text == '{"a":1,"e":[null,7]}'
    assert event.error is None


def test_F6_a_child_without_an_output_gives_null() -> None:
    event, _ = settled(row(CHILD, "success", output="null"))

    assert event.output.text == "null"


def test_F6_an_output_that_does_not_fit_is_a_failure() -> None:
    key = PayloadKey(Place("a"), PayloadKind.OUTPUT)
    more = Loaded(now=1, payloads={(CHILD, key): '"' + "x" * PAYLOAD_MAX + '"'})
    event, _ = settled(row(CHILD, "success", output='["a","output"]'), more)

    assert (event.state, event.code, event.output) == (RunState.FAILED, "payload_too_large", None)


def test_F6_a_failed_child_tells_its_error_and_a_cancelled_one_may_have_none() -> None:
    key = PayloadKey(Place("a"), PayloadKind.ERROR)
    more = Loaded(now=1, payloads={(CHILD, key): '{"code":"x"}'})
    event, _ = settled(row(CHILD, "failed", error='["a","error"]'), more)
    assert (event.state, event.error.text, event.output) == ("failed", '{"code":"x"}', None)

    event, _ = settled(row(CHILD, "cancelled"))
    assert (event.state, event.error, event.output) == ("cancelled", None, None)


def test_a_child_that_goes_on_again_will_say_so_when_it_ends() -> None:
    event, batch = settled(row(CHILD, "running"))

    assert event == Settled(True)
    assert batch.build().claims.notices == (("settled", C, CHILD, 0),)


# -- the others -------------------------------------------------------------------------------------------------------


def waiting(
    it: NoticeRow, state: RunState = RunState.RUNNING, task: dict[str, Any] | None = None
) -> Loaded:
    """The parent and its task as they stand."""
    parent = (row(PARENT, state), a_snapshot(PARENT, 3, state=state))
    tasks = {(PARENT, C): (a_task("c", **({"child": CHILD} | (task or {}))), None)}
    return loaded(it, parent, tasks=tasks)


def test_C2_C4_a_cancel_and_a_terminate_become_what_they_say() -> None:
    for kind, wanted in (
        (NoticeKind.CANCEL, CancelRequested),
        (NoticeKind.TERMINATE, TerminateRequested),
    ):
        it = notice(kind, CHILD, PARENT)
        fact = fact_of(it, NOBODY, 0)
        for found in (
            waiting(it, state=RunState.CANCELLED),
            waiting(it, task={"state": TaskState.CANCELLED}),
            waiting(it, task={"ending": "timeout"}),
        ):
            event = event_of(fact, a_batch(CHILD), found)

            assert isinstance(event, wanted)
            assert "parent" in event.reason
        assert fact.travels_alone


def test_a_cancel_that_is_not_meant_any_more_is_only_taken_away() -> None:
    """The parent was retried meanwhile, and wants the child again, or another one."""
    it = notice(NoticeKind.CANCEL, CHILD, PARENT)
    for found in (
        waiting(it),
        waiting(it, task={"child": RunId("other"), "ending": "timeout"}),
        loaded(it),
    ):
        batch = a_batch(CHILD)

        assert event_of(fact_of(it, NOBODY, 0), batch, found) == Settled(True)
        assert batch.build().claims.notices == (("cancel", C, PARENT, 0),)


@pytest.mark.rule("C6.3")
def test_C6_a_pause_reads_the_parents_flag_when_it_is_decided() -> None:
    for paused in (True, False):
        it = notice(NoticeKind.PAUSE, CHILD, PARENT, "{}" if paused else '{"freeze":true}')
        found = loaded(it, (row(PARENT), a_snapshot(PARENT, 3, paused=paused)))
        event = event_of(fact_of(it, NOBODY, 0), a_batch(CHILD), found)

        assert event == ParentPaused(at=50, paused=paused, freeze=not paused)


def test_R1_a_child_that_refuses_a_retry_tells_its_end_again() -> None:
    it = notice(NoticeKind.RETRY, CHILD, PARENT)
    final, going = a_batch(CHILD, RunState.FAILED), a_batch(CHILD)
    for batch in (final, going):
        fact = fact_of(it, NOBODY, 0)
        fact.fill(batch, waiting(it))
        fact.decided(batch, Rejection.NOT_RETRYABLE)
    told = final.build().notices

    assert [(n.run_id, n.kind, n.place, n.sender) for n in told] == [(PARENT, "settled", C, CHILD)]
    assert going.build().notices == ()


def test_R1_a_retry_that_is_not_meant_any_more_opens_nothing() -> None:
    it = notice(NoticeKind.RETRY, CHILD, PARENT)
    for task, told in (
        ({"state": TaskState.CANCELLED}, 1),
        ({"ending": "timeout"}, 1),
        ({"child": RunId("other")}, 0),
    ):
        batch = a_batch(CHILD, RunState.FAILED)
        event = event_of(fact_of(it, NOBODY, 0), batch, waiting(it, task=task))

        assert event == Settled(True)
        assert len(batch.build().notices) == told
        assert batch.build().claims.notices == (("retry", C, PARENT, 0),)

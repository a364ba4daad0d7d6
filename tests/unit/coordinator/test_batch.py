"""The net of several events must leave the rows that the events would have left one by one."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.support.graphs import graph, key, value
from tests.support.plain import PlainEvaluator

from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.coordinator.batch import Batch
from tenuto.coordinator.waiting import Beginning
from tenuto.machine.actions import CancelItems, CloseRun
from tenuto.machine.decide import decide, initial
from tenuto.machine.decision import Decision
from tenuto.machine.events import (
    AttemptFailed,
    AttemptSucceeded,
    CancelRequested,
    Event,
    EventReceived,
    LeaseExpired,
    PauseRequested,
    ResumeRequested,
    RunStarted,
    TimerFired,
    TimerKind,
)
from tenuto.machine.fold import Ledger
from tenuto.machine.snapshot import Task
from tenuto.model.definition import Foreach, Tolerance, WaitForEvent, Work
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Expression, ExpressionKind, Message
from tenuto.model.graph import Graph
from tenuto.model.ids import LeaseId, MessageId, Place, RunId
from tenuto.model.payload import PayloadKey, PayloadKind, Text
from tenuto.model.retry import Jitter, RetryPolicy
from tenuto.model.states import FINAL_TASK_STATES, TaskState
from tenuto.ports.store import Change, EagerGrant, NewRun

RUN = RunId("0190a000-0000-7000-8000-000000000001")
NEW = NewRun(
    namespace="default", workflow="test", version=1, definition="h", key=None, created_at=1
)


ROW = Beginning(NEW, {}).row(RUN)


def a_batch(definition: Graph) -> Batch:
    return Batch(
        definition, ROW, initial(RUN, definition), {}, NEW, message_id=Uuid7Ids().message_id
    )


def after(before: Batch) -> Batch:
    """The batch of a later cycle."""
    return Batch(before.graph, ROW, before.snapshot, {}, message_id=Uuid7Ids().message_id)


def put_in(batch: Batch, event: Event, evaluator: PlainEvaluator | None = None) -> Decision:
    decision = decide(batch.graph, batch.snapshot, batch.rows, event, evaluator or PlainEvaluator())
    assert isinstance(decision, Decision)
    if decision.rejected is None:
        batch.apply(event, decision)
    return decision


def started(definition: Graph) -> Batch:
    batch = a_batch(definition)
    put_in(batch, RunStarted(at=10))
    return batch


def success(place: str, attempt: int = 1, at: int = 20) -> AttemptSucceeded:
    return AttemptSucceeded(
        at=at,
        place=Place(place),
        attempt=attempt,
        lease_id=LeaseId(f"lease-{place}-{attempt}"),
        output=Text(2, "{}"),
    )


def failure(place: str, attempt: int = 1, at: int = 20) -> AttemptFailed:
    return AttemptFailed(
        at=at,
        place=Place(place),
        attempt=attempt,
        lease_id=LeaseId(f"lease-{place}-{attempt}"),
        code="Oops",
        error=Text(2, "{}"),
        draw=0.5,
    )


def test_a_row_changed_twice_is_written_once() -> None:
    batch = started(graph("a -> c; b -> c", join={"c": 0}))
    put_in(batch, success("a"))
    put_in(batch, success("b"))
    change = batch.build()

    assert change.expected_seq == 0
    assert change.snapshot.seq == 3
    assert [row.seq for row in change.events] == [1, 2, 3]
    assert [row.kind for row in change.events] == ["RunStarted"] + ["AttemptSucceeded"] * 2
    assert {t.place: t.state for t in change.created} == {
        "a": TaskState.SUCCESS,
        "b": TaskState.SUCCESS,
        "c": TaskState.PENDING,
    }
    assert change.updated == ()
    assert [task.place for task in change.ready] == ["c"]


def test_every_accepted_report_claims_its_lease() -> None:
    batch = started(graph("a; b"))
    put_in(batch, success("a"))
    put_in(batch, success("b"))

    assert batch.build().claims.leases == (("a", 1, "lease-a-1"), ("b", 1, "lease-b-1"))


def test_a_repeated_report_in_one_batch_leaves_one_event() -> None:
    batch = started(graph("a -> b"))
    put_in(batch, success("a"))
    again = put_in(batch, success("a"))

    assert again.rejected is not None
    assert len(batch.build().events) == 2


def test_a_task_that_a_later_event_cancels_is_not_offered() -> None:
    batch = started(graph("a -> j; b -> j", join={"j": 1}, cancel_losers=["j"]))
    assert set(batch.ready) == {"a", "b"}
    put_in(batch, success("a"))
    change = batch.build()

    assert [task.place for task in change.ready] == ["j"]
    assert {t.place: t.state for t in change.created}[Place("b")] is TaskState.CANCELLED
    assert change.cancelled == ()


def test_a_task_of_before_the_batch_is_cancelled_by_its_place() -> None:
    before = started(graph("a -> j; b -> j", join={"j": 1}, cancel_losers=["j"]))
    later = after(before)
    later.tasks[Place("a")] = before.tasks[Place("a")]
    put_in(later, success("a"))

    assert later.build().cancelled == ("b",)


def test_the_end_of_a_run_leaves_nothing_to_offer_or_to_wait_for() -> None:
    definition = graph("a; b; w", types={"w": "wait"})
    batch = started(definition)
    assert batch.build().timers
    put_in(batch, CancelRequested(at=30))
    change = batch.build()

    assert change.close
    assert change.ready == ()
    assert change.timers == ()
    assert change.waits == ()
    assert change.settle is not None


def test_a_wait_opened_and_met_in_one_batch_is_not_written() -> None:
    definition = graph("e -> a", types={"e": "wait_for_event"})
    nothing = PlainEvaluator(messages={("e", "k"): Message(None)})
    batch = a_batch(definition)
    put_in(batch, RunStarted(at=10), nothing)
    assert batch.is_urgent
    put_in(
        batch,
        EventReceived(
            at=20,
            place=Place("e"),
            version=1,
            message_id=MessageId("m1"),
            payload=Text(1, "1"),
        ),
    )
    change = batch.build()

    assert change.waits == ()
    assert change.claims.messages == ("m1",)
    assert change.claims.waits == (("e", 1),)
    assert batch.uses_message


def test_a_message_found_in_the_mailbox_is_claimed_and_looked_up_anew_by_the_next_event() -> None:
    definition = graph("e -> a", types={"e": "wait_for_event"})
    batch = a_batch(definition)
    batch.mailbox[("e", "k", None)] = Message(MessageId("m1"), Text(1, "1"))
    put_in(batch, RunStarted(at=10), PlainEvaluator(messages=batch.mailbox))

    assert batch.build().claims.messages == ("m1",)
    assert batch.mailbox == {}


def test_a_back_off_of_the_same_batch_is_the_next_thing_due() -> None:
    policy = RetryPolicy(max_attempts=2, initial_us=1_000, jitter=Jitter.NONE)
    work = Work("a", value("{}"), retry=policy)
    batch = started(graph("a", details={"a": work}))
    put_in(batch, failure("a", at=50))

    assert batch.next_due() == 1_050
    assert batch.build().ready == ()


def test_a_payload_is_stored_under_the_number_of_its_event_and_seen_by_the_next() -> None:
    batch = started(graph("a -> b"))
    put_in(batch, success("a"))
    output = PayloadKey(Place("a"), PayloadKind.OUTPUT)

    assert batch.texts[output] == "{}"
    assert [p.seq for p in batch.build().payloads if p.key == output] == [2]


def test_a_text_that_takes_the_place_of_another_is_noticed() -> None:
    policy = RetryPolicy(max_attempts=3, initial_us=1_000, jitter=Jitter.NONE)
    batch = started(graph("a", details={"a": Work("a", value("{}"), retry=policy)}))
    put_in(batch, failure("a"))
    assert not batch.replaced
    put_in(batch, TimerFired(at=2_000, place=Place("a"), kind=TimerKind.BACKOFF, version=2))
    put_in(batch, failure("a", attempt=2, at=2_100))

    assert batch.replaced


def test_a_payload_without_a_text_is_a_bug() -> None:
    batch = started(graph("a -> b"))
    with pytest.raises(InvariantViolated, match="has no text"):
        put_in(batch, replace(success("a"), output=Text(2)))


def test_eager_grants_are_passed_on() -> None:
    grant = EagerGrant(place=Place("a"), worker="w", lease_id=LeaseId("l"))  # type: ignore[arg-type]
    change = started(graph("a")).build((grant,))

    assert change.eager == (grant,)


# -- the net equals the sum -------------------------------------------------------------------------------------------


def write(change: Change, ledger: Ledger) -> tuple[dict[Place, Task], Ledger, set[Place]]:
    """Write a change into rows, in the order that the store's port promises."""
    for task in change.created:
        assert task.place not in ledger.tasks
        ledger.tasks[task.place] = task
    for task, _ in change.updated:
        ledger.tasks[task.place] = task
    for place in change.cancelled:
        if ledger.tasks[place].state not in FINAL_TASK_STATES:
            ledger.tasks[place] = replace(ledger.tasks[place], state=TaskState.CANCELLED)
    for place, kind, _ in change.claims.timers:
        ledger.timers.pop((place, kind), None)
    for place, wanted in change.cleared:
        for each in TimerKind if wanted is None else (wanted,):
            ledger.timers.pop((place, each), None)
    for place in change.closed_waits:
        ledger.waits.pop(place, None)
    for place, _ in change.claims.waits:
        ledger.waits.pop(place, None)
    ledger.apply(CancelItems(place) for place in change.cancelled_items)
    if change.close:
        ledger.apply([CloseRun()])
    for timer in change.timers:
        ledger.timers[timer.place, timer.kind] = timer
    for wait in change.waits:
        ledger.waits[wait.place] = wait
    return ledger.tasks, ledger, {task.place for task in change.ready}


DEFINITIONS = {
    "diamond": graph("a -> b; a -> c; b -> d; c -> d"),
    "race": graph("a -> b; a -> c; b -> j; c -> j; j -> d", join={"j": 1}, cancel_losers=["j"]),
    "repair": graph("a -> b; a -failure-> r; r -> e; b -> e", join={"e": 1}),
    "loop": graph("h -> w; w -> h loop 4; w -failure-> out", types={"w": "task"}),
    "each": graph(
        "e -> b; e -failure-> c",
        types={"e": "foreach"},
        details={
            "e": Foreach(
                Work("i", value("{}"), retry=RetryPolicy(max_attempts=2, jitter=Jitter.NONE)),
                Expression(ExpressionKind.ITEMS, "[1,2,3,4,5,6]", "over"),
                concurrency=3,
                tolerate=Tolerance(1),
            )
        },
    ),
    "waits": graph(
        "a -> w; w -> b; a -> e; e -> b",
        types={"w": "wait", "e": "wait_for_event"},
        details={"e": WaitForEvent("e", key('"k"'), timeout_us=500)},
    ),
}


def something_due(ledger: Ledger, chance: Random, at: int, last: int) -> Event:
    """An event that could happen now, or one that is late."""
    choices: list[Event] = []
    for task in ledger.tasks.values():
        choices.append(success(task.place, task.attempt, at))
        if chance.random() < 0.5:
            choices.append(failure(task.place, task.attempt, at))
        lease = LeaseId(f"lease-{task.place}-{task.attempt}")
        choices.append(LeaseExpired(at=at, place=task.place, attempt=task.attempt, lease_id=lease))
    for timer in ledger.timers.values():
        late = max(at, timer.due_at)
        choices.append(
            TimerFired(at=late, place=timer.place, kind=timer.kind, version=timer.version)
        )
    choices += [
        EventReceived(
            at=at,
            place=wait.place,
            version=wait.version,
            message_id=MessageId(f"m{last}"),
            payload=Text(1, "1"),
        )
        for wait in ledger.waits.values()
    ]
    if chance.random() < 0.05 or not choices:
        choices = [CancelRequested(at=at)]
    return chance.choice(choices)


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("seed", range(40))
def test_batches_of_any_size_leave_the_rows_that_single_events_leave(name: str, seed: int) -> None:
    chance = Random(f"{name}-{seed}")
    definition = DEFINITIONS[name]
    evaluator = PlainEvaluator(messages={("e", "k"): Message(None)})
    truth, stored = Ledger(), Ledger()
    batch = a_batch(definition)
    event: Event = RunStarted(at=1)
    held = 0
    for step in range(40):
        decision = put_in(batch, event, evaluator)
        if decision.rejected is None:
            truth.apply(decision.actions)
            held += 1
            if isinstance(event, TimerFired):
                truth.timers.pop((event.place, event.kind), None)
                for action in decision.actions:
                    truth.apply([action])
            if isinstance(event, EventReceived):
                truth.waits.pop(event.place, None)
        if chance.random() < 0.4 or step == 39:
            if held:
                change = batch.build()
                write(change, stored)
                assert stored.tasks == truth.tasks
                assert stored.timers == truth.timers
                assert stored.waits == truth.waits
                offered = {task.place: task for task in change.ready}
                assert all(truth.tasks[p] == t for p, t in offered.items())
                assert all(t.state is TaskState.PENDING for t in offered.values())
            batch = after(batch)
            batch.tasks.update(stored.tasks)
            batch.timers.update(stored.timers)
            batch.waits.update(stored.waits)
            held = 0
        event = something_due(truth, chance, at=(step + 2) * 1_000, last=step)


def test_pause_and_resume_carry_their_orders_and_no_offers() -> None:
    before = started(graph("a; b"))
    pause = after(before)
    put_in(pause, PauseRequested(at=20))
    held = pause.build()
    resume = after(pause)
    put_in(resume, ResumeRequested(at=30))
    released = resume.build()

    assert held.hold
    assert held.ready == ()
    assert released.release_at == 30
    assert resume.releases

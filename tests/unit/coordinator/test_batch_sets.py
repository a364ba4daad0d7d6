"""Orders on children, items, messages and passes: what a batch writes of them, and what later events see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.graphs import graph, value
from tests.support.store import a_task

from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.coordinator import telling
from tenuto.coordinator.batch import ENTRY_SIZE, Batch
from tenuto.coordinator.waiting import Beginning
from tenuto.machine.actions import (
    Action,
    CancelChild,
    CancelItems,
    CancelTask,
    CloseRun,
    CreateTask,
    DispatchTask,
    DropPayloads,
    PostMessage,
    PutPayload,
    RetryChild,
    SetTimer,
    StartChild,
    TellChildren,
    TellParent,
    TerminateChildren,
    UpdateTask,
)
from tenuto.machine.decide import initial
from tenuto.machine.decision import Decision
from tenuto.machine.events import Drained, Event, HeartbeatReceived, PauseRequested, TimerKind
from tenuto.machine.snapshot import Timer
from tenuto.model.expressions import Callee
from tenuto.model.ids import Place, RunId, item_place, page_place
from tenuto.model.payload import PayloadKey, PayloadKind, Text
from tenuto.model.states import CancelReason, RunState, TaskState
from tenuto.ports.store import ItemRow, NewRun, NoticeKind, NoticeRow, PayloadRow

RUN = RunId("0190a000-0000-7000-8000-000000000001")
CHILD = RunId("0190a000-0000-7000-8000-000000000002")
NEW = NewRun(
    namespace="default", workflow="test", version=3, definition="hash", key=None, created_at=1
)
GRAPH = graph("e; a", types={"e": "foreach"})
E, A = Place("e"), Place("a")


def a_batch(definition: str = "hash") -> Batch:
    row = replace(Beginning(NEW, {}).row(RUN), definition=definition)
    snapshot = replace(initial(RUN, GRAPH), seq=1, state=RunState.RUNNING)
    return Batch(GRAPH, row, snapshot, {}, message_id=Uuid7Ids().message_id)


def apply(batch: Batch, *actions: Action, event: Event | None = None, **snapshot: Any) -> None:
    after = replace(batch.snapshot, seq=batch.snapshot.seq + 1, **snapshot)
    batch.apply(event or PauseRequested(at=1), Decision(after, actions))


def item(index: int, **columns: Any) -> Any:
    return a_task(item_place(E, index), **columns)


def put(place: str, text: str, kind: PayloadKind = PayloadKind.OUTPUT) -> PutPayload:
    return PutPayload(PayloadKey(Place(place), kind), Text(len(text), text))


# -- children ---------------------------------------------------------------------------------------------------------


def start(**columns: Any) -> StartChild:
    values = {"callee": None, "inline": 2, "waited": True, "depth": 1}
    return StartChild(place=A, child=CHILD, **(values | columns))


def test_the_start_of_a_child_is_a_notice_that_says_what_to_begin() -> None:
    batch = a_batch()
    callee = Callee("other", 7, "other-hash", Text(2, "{}"), Text(2, "{}"))
    item_key = PayloadKey(item_place(E, 4), PayloadKind.ITEM)
    apply(batch, start(callee=callee, inline=None, index=4, item=item_key))
    [notice] = batch.build().notices
    order = telling.read_order(notice.data)

    assert (notice.run_id, notice.kind, notice.place, notice.sender) == (CHILD, "start", A, RUN)
    assert (order.workflow, order.version, order.definition) == ("other", 7, "other-hash")
    assert (order.inline, order.waited, order.depth, order.index) == (False, True, 1, 4)
    assert order.texts(A) == {
        telling.INPUT: PayloadKey(A, PayloadKind.INPUT),
        telling.VARS: PayloadKey(A, PayloadKind.VARS),
        telling.ITEM: item_key,
    }


def test_the_graph_of_an_inline_child_is_named_by_its_path() -> None:
    for definition, path in (("hash", "hash#2"), ("hash#0", "hash#0.2")):
        batch = a_batch(definition)
        apply(batch, start())
        order = telling.read_order(batch.build().notices[0].data)

        assert (order.definition, order.workflow, order.version) == (path, "test", 3)
        assert order.texts(A) == {
            telling.INPUT: telling.INPUT,
            telling.VARS: telling.VARS,
            telling.PARAMS: PayloadKey(A, PayloadKind.INPUT),
        }


def test_what_runs_tell_each_other_is_written_once_the_newest_last() -> None:
    batch = a_batch()
    parent = RunId("parent")
    apply(batch, start(), CancelChild(A, CHILD), CancelChild(A, CHILD))
    apply(batch, CancelChild(A, CHILD, terminate=True), RetryChild(A, CHILD), TellParent(parent, E))
    told = [(n.run_id, n.kind, n.sender) for n in batch.build().notices]

    assert told == [
        (CHILD, NoticeKind.START, RUN),
        (CHILD, NoticeKind.CANCEL, RUN),
        (CHILD, NoticeKind.TERMINATE, RUN),
        (CHILD, NoticeKind.RETRY, RUN),
        (parent, NoticeKind.SETTLED, RUN),
    ]


def test_orders_to_all_children_are_passed_on() -> None:
    batch = a_batch()
    assert not batch.tells_many
    apply(batch, TerminateChildren())
    assert batch.build().terminate_children
    apply(batch, TellChildren())
    assert batch.build().tell_children == "{}"
    apply(batch, TellChildren(freeze=True))

    assert batch.build().tell_children == '{"freeze":true}'
    assert batch.tells_many


def test_a_notice_that_is_used_up_makes_a_change_without_an_event() -> None:
    batch = a_batch()
    assert batch.is_empty
    batch.use_notice(NoticeRow(run_id=RUN, kind=NoticeKind.CANCEL, place=A, sender=CHILD))
    batch.use_notice(NoticeRow(run_id=RUN, kind=NoticeKind.CANCEL, place=A, sender=CHILD))
    change = batch.build()

    assert not batch.is_empty
    assert change.claims.notices == (("cancel", A, CHILD, 0),)
    assert (change.expected_seq, change.snapshot.seq, change.events) == (1, 1, ())


# -- items ------------------------------------------------------------------------------------------------------------


def test_cancelled_items_are_withdrawn_and_left_to_the_store_with_their_children() -> None:
    batch = a_batch()
    page = a_task(page_place(E, 0))
    mine = item(0, child=CHILD)
    apply(batch, CreateTask(mine), CreateTask(page), DispatchTask(page), CreateTask(a_task("a")))
    timer = Timer(mine.place, TimerKind.CHILD, 9, 2)
    other = Timer(A, TimerKind.TOTAL, 9, 2)
    apply(batch, SetTimer(timer), SetTimer(other), DispatchTask(a_task("a")))
    apply(batch, CancelItems(E))
    change = batch.build()

    assert change.cancelled_items == (E,)
    assert batch.tasks[mine.place].state is TaskState.CANCELLED
    assert batch.tasks[A].state is TaskState.PENDING
    assert [task.place for task in change.ready] == [A]
    assert change.timers == (other,)
    # The store cancels it, after it has created it: so it finds the child to be told.
    assert {t.place: t.state for t in change.created}[mine.place] is TaskState.PENDING
    assert batch.tells_many


def test_a_task_that_is_asked_for_after_it_was_swept_away_is_cancelled() -> None:
    batch = a_batch()
    apply(batch, CancelItems(E))
    batch.learn_task(item_place(E, 0), item(0))
    batch.learn_task(item_place(E, 1), item(1, state=TaskState.SUCCESS))
    batch.learn_task(A, a_task("a"))
    batch.learn_task(Place("b"), None)

    assert batch.tasks[item_place(E, 0)].state is TaskState.CANCELLED
    assert batch.tasks[item_place(E, 1)].state is TaskState.SUCCESS
    assert batch.tasks[A].state is TaskState.PENDING
    assert batch.rows.absent == {"b"}
    apply(batch, CloseRun())
    batch.learn_task(Place("c"), a_task("c"))
    assert batch.tasks[Place("c")].state is TaskState.CANCELLED


def test_a_task_that_is_known_better_is_not_overwritten() -> None:
    batch = a_batch()
    apply(batch, UpdateTask(a_task("a", state=TaskState.DEAD)))
    batch.learn_task(A, a_task("a"))

    assert batch.tasks[A].state is TaskState.DEAD


def test_items_are_read_as_the_batch_leaves_them_and_anew_after_the_next_event() -> None:
    batch = a_batch()
    done = item(1, state=TaskState.SUCCESS)
    apply(batch, UpdateTask(done), put("e[1]", '"new"'), CreateTask(item(7)))
    stored = [
        ItemRow(index=0, state="success", output='"old"', error=None),
        ItemRow(index=1, state="pending", output=None, error=None),
    ]
    batch.learn_items(E, stored)
    rows = {row.index: (row.state, row.output) for row in batch.items[E]}

    assert rows == {0: ("success", '"old"'), 1: ("success", '"new"'), 7: ("pending", None)}
    batch.replaced = False
    apply(batch, CancelItems(E))
    assert not batch.items
    assert batch.replaced
    batch.learn_items(E, [*stored, ItemRow(index=2, state="retry", output=None, error=None)])
    assert {row.index: row.state for row in batch.items[E]} == {
        0: "success",
        1: "success",
        2: "cancelled",
        7: "cancelled",
    }


# -- payloads, messages, timers ---------------------------------------------------------------------------------------


def test_dropped_passes_take_what_was_put_before_and_not_what_comes_after() -> None:
    batch = a_batch()
    apply(batch, put("a.1", "1"), put("a.1.2", "1"), put("a.10", "1"), put("e.1[3]", "1"))
    apply(batch, DropPayloads((Place("a.1"), Place("e.1"))))
    apply(batch, put("a.1", "2"))
    change = batch.build()

    assert change.dropped == ("a.1", "e.1")
    assert [(p.key.place, p.text) for p in change.payloads] == [("a.10", "1"), ("a.1", "2")]
    assert batch.texts[PayloadKey(Place("a.1"), PayloadKind.OUTPUT)] == "2"


def test_passes_are_read_with_what_was_put_and_without_what_was_dropped() -> None:
    batch = a_batch()
    apply(batch, DropPayloads((Place("a.1"),)))
    apply(batch, put("a.3", "3"), put("a.3[0]", "no"), put("ab.3", "no"), put("a.2~2", "22"))
    apply(batch, put("a.3", "no", PayloadKind.INPUT))

    def row(place: str) -> PayloadRow:
        return PayloadRow(key=PayloadKey(Place(place), PayloadKind.OUTPUT), seq=1, text="old")

    batch.learn_passes("a.", 1, [row("a.1"), row("a.2"), row("a.3")])
    found = {(r.key.place, r.text) for r in batch.passes["a.", 1]}

    assert found == {("a.2", "old"), ("a.3", "3"), ("a.2~2", "22")}


def test_what_is_emitted_is_posted_under_a_fresh_id() -> None:
    batch = a_batch()
    text = Text(1, "1")
    apply(batch, PostMessage("sent", Text(1, "k"), text, "run/e~1", None))
    apply(batch, PostMessage("sent", Text(1, "k"), text, "run/f~1", 5))
    first, second = batch.build().posts

    assert (first.event, first.key, first.payload, first.event_id) == ("sent", "k", "1", "run/e~1")
    assert first.id != second.id
    assert (first.keep_us > 5, second.keep_us) == (True, 5)
    assert batch.is_urgent


def test_a_heartbeat_claims_its_wait_and_a_drain_its_timer() -> None:
    batch = a_batch()
    apply(batch, event=HeartbeatReceived(at=1, place=A, version=4))
    apply(batch, event=Drained(at=1, version=5, started=()))
    claims = batch.build().claims

    assert claims.waits == ((A, 4),)
    assert claims.timers == (("", TimerKind.DRAIN, 5),)


def test_a_closing_run_is_looked_at_at_once() -> None:
    batch = a_batch()
    apply(batch, CancelTask(A, CancelReason.CLOSING))
    assert not batch.is_urgent
    apply(batch, state=RunState.CLOSING)

    assert batch.is_urgent


def test_a_payload_that_was_looked_for_in_vain_is_seen_once_it_is_there() -> None:
    batch = a_batch()
    key = PayloadKey(A, PayloadKind.OUTPUT)
    batch.missing.add(key)
    apply(batch, put("a", "1"))

    assert key not in batch.missing
    assert batch.replaced


def test_an_input_that_was_loaded_is_known_to_the_next_event() -> None:
    batch = a_batch()
    batch.learn(PayloadKey(A, PayloadKind.INPUT), value("1").text)

    assert batch.texts[PayloadKey(A, PayloadKind.INPUT)] == "1"
    assert batch.grown == 1 + ENTRY_SIZE

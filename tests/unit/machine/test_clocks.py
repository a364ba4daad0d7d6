"""D, F5, F7, F8, C7: attempts, back-off, leases, deadlines. Times in microseconds."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.support.graphs import graph, value
from tests.support.world import World

from tenuto.machine import clocks
from tenuto.machine.decide import decide
from tenuto.machine.events import Deadline, Rejection, TimerKind
from tenuto.machine.snapshot import Rows
from tenuto.model.definition import Work
from tenuto.model.errors import InvariantViolated
from tenuto.model.instants import MINUTE_US, SECOND_US
from tenuto.model.payload import PAYLOAD_MAX, PayloadKind, Text
from tenuto.model.retry import Jitter, RetryPolicy
from tenuto.model.states import RunState, TaskState

ONCE = RetryPolicy()
STEADY = RetryPolicy(max_attempts=9, jitter=Jitter.NONE)


def one(retry: RetryPolicy = ONCE, text: str = "a", **clocks: int) -> World:
    work = Work("a", value("{}"), retry=retry)
    for name, us in clocks.items():
        work = replace(work, **{name: us})  # type: ignore[arg-type]
    return World(graph(text, details={"a": work})).start()


def code(world: World) -> str:
    found = json.loads(world.error("a"))["code"]
    assert isinstance(found, str)
    return found


@pytest.mark.rule("D1.1")
def test_D_without_a_policy_there_is_one_attempt() -> None:
    world = one()
    world.fail("a")

    assert (world.state, world.task("a").state) == (RunState.FAILED, TaskState.DEAD)


@pytest.mark.rule("D1.1")
def test_D_back_off_doubles_up_to_its_cap() -> None:
    world = one(STEADY)
    delays = []
    for _ in range(8):
        world.fail("a")
        timer = world.timer("a", TimerKind.BACKOFF)
        delays.append(timer.due_at - world.snapshot.at)
        world.fire("a", TimerKind.BACKOFF)

    assert delays == [n * SECOND_US for n in (1, 2, 4, 8, 16, 32)] + [MINUTE_US] * 2


@pytest.mark.rule("D1.1")
def test_D_full_jitter_is_the_default_and_drawn_by_the_event() -> None:
    world = one(RetryPolicy(max_attempts=2))
    world.draw = 0.25
    world.fail("a")

    assert world.timer("a", TimerKind.BACKOFF).due_at == world.now + SECOND_US // 4


def test_D_the_wait_is_the_longer_of_back_off_and_what_the_other_side_asks() -> None:
    world = one(STEADY)
    world.fail("a", retry_after_us=5 * SECOND_US)

    assert world.timer("a", TimerKind.BACKOFF).due_at == world.now + 5 * SECOND_US


def test_D_max_attempts_counts_the_first_try() -> None:
    world = one(RetryPolicy(max_attempts=2))
    world.fail("a")
    assert (world.task("a").state, world.task("a").attempt) == (TaskState.RETRY, 2)
    world.fire("a", TimerKind.BACKOFF)
    assert world.ready == {"a"}

    world.fail("a", "again")

    assert (world.state, code(world)) == (RunState.FAILED, "again")


def test_D_a_lost_lease_is_handed_out_again_without_back_off_and_is_no_failure() -> None:
    world = one()
    world.lose("a")

    task = world.task("a")
    assert (task.state, task.attempt, task.lost) == (TaskState.PENDING, 2, 1)
    assert world.ready == {"a"}
    world.succeed("a")
    assert world.state is RunState.SUCCESS


def test_D_losses_are_not_counted_by_max_attempts() -> None:
    world = one(RetryPolicy(max_attempts=2))
    world.lose("a")
    world.lose("a")
    world.fail("a")
    assert world.task("a").state is TaskState.RETRY
    world.fire("a", TimerKind.BACKOFF)

    world.fail("a")

    assert world.state is RunState.FAILED


@pytest.mark.rule("F5.2")
def test_D_after_five_losses_the_task_is_dead() -> None:
    world = one(STEADY)
    for _ in range(5):
        assert world.state is RunState.RUNNING
        world.lose("a")

    assert (world.state, code(world)) == (RunState.FAILED, "lease_lost")


@pytest.mark.rule("F5.2")
@pytest.mark.parametrize(
    "never",
    [
        "expression_error",
        "no_match",
        "loop_exhausted",
        "join_unsatisfied",
        "payload_too_large",
        "queue_timeout",
        "lease_lost",
    ],
)
def test_F5_some_failures_are_never_retried(never: str) -> None:
    world = one(STEADY)
    world.fail("a", never)

    assert world.state is RunState.FAILED


def test_F5_a_failure_that_no_attempt_can_help_is_not_retried() -> None:
    world = one(STEADY)
    world.fail("a", retryable=False)

    assert world.state is RunState.FAILED


@pytest.mark.rule("F5.2")
def test_F5_an_output_that_is_too_large_is_a_failure_without_retry() -> None:
    world = one(STEADY, "a -failure-> b")
    event = world.success_of(world.grant("a"))
    world.accept(replace(event, output=Text(PAYLOAD_MAX + 1)))

    assert (world.letters, code(world)) == ("xa", "payload_too_large")


@pytest.mark.rule("F5.2")
def test_F5_queue_timeout_is_not_retried() -> None:
    world = one(STEADY, queue_timeout_us=10)
    world.now += 10
    world.pass_deadline("a", Deadline.QUEUE)

    assert (world.state, code(world)) == (RunState.FAILED, "queue_timeout")


def test_C6_a_queue_timeout_that_was_read_before_a_pause_is_stale() -> None:
    world = one(queue_timeout_us=10)
    world.now += 10
    event = world.deadline_of(world.place("a"), Deadline.QUEUE, None)
    world.pause()
    assert world.send(event).rejected is Rejection.STALE

    world.resume()

    assert world.send(event).rejected is Rejection.STALE
    assert world.task("a").queue_until == world.now + 10


@pytest.mark.parametrize("deadline", [Deadline.ATTEMPT, Deadline.HEARTBEAT])
def test_F7_a_passed_deadline_is_a_failure_of_the_attempt(deadline: Deadline) -> None:
    world = one(RetryPolicy(max_attempts=2), timeout_us=5, heartbeat_timeout_us=5)
    world.pass_deadline("a", deadline)
    assert (world.task("a").state, code(world)) == (TaskState.RETRY, deadline.value)
    world.fire("a", TimerKind.BACKOFF)

    world.pass_deadline("a", deadline)

    assert (world.state, code(world)) == (RunState.FAILED, deadline.value)


@pytest.mark.parametrize("during", ["queue", "attempt", "back_off"])
def test_F7_total_timeout_ends_the_task_whatever_it_is_doing(during: str) -> None:
    world = one(STEADY, total_timeout_us=10 * SECOND_US)
    assert world.task("a").total_until == world.now + 10 * SECOND_US
    if during == "attempt":
        world.grant("a")
    elif during == "back_off":
        world.fail("a")

    world.fire("a", TimerKind.TOTAL)

    assert (world.state, code(world)) == (RunState.FAILED, "total_timeout")
    assert not world.leases


def test_F7_total_timeout_goes_on_over_the_attempts() -> None:
    world = one(STEADY, "a -> b", total_timeout_us=100 * SECOND_US)
    timer = world.timer("a", TimerKind.TOTAL)
    world.fail("a")
    world.fire("a", TimerKind.BACKOFF)
    assert world.timer("a", TimerKind.TOTAL) == timer

    world.succeed("a")

    assert not world.ledger.timers
    assert world.send(world.firing_of(timer)).rejected is Rejection.STALE


@pytest.mark.rule("F8.1")
def test_F8_a_late_success_is_kept_and_changes_nothing_else() -> None:
    world = World(graph("a; b")).start()
    lease = world.grant("a")
    world.cancel()
    world.accept(world.success_of(lease, "7"))

    assert (world.letters, world.state) == ("cc", RunState.CANCELLED)
    assert world.payload("a", PayloadKind.OUTPUT) == "7"
    assert world.task("a").ended_lease == lease.lease_id
    assert world.send(world.success_of(lease, "7")).rejected is Rejection.DUPLICATE


def test_F8_a_late_success_that_is_too_large_is_not_stored() -> None:
    world = World(graph("a")).start()
    lease = world.grant("a")
    world.cancel()
    world.accept(replace(world.success_of(lease), output=Text(PAYLOAD_MAX + 1)))

    assert world.payload("a", PayloadKind.OUTPUT) is None


def test_F8_a_late_failure_or_loss_is_stale() -> None:
    world = World(graph("a")).start()
    lease = world.grant("a")
    world.cancel()

    assert world.send(world.failure_of(lease)).rejected is Rejection.STALE
    assert world.send(world.loss_of(lease)).rejected is Rejection.STALE


def test_a_report_that_comes_twice_is_a_duplicate() -> None:
    world = World(graph("a -> b")).start()
    lease = world.grant("a")
    event = world.success_of(lease)
    world.accept(event)

    assert world.send(event).rejected is Rejection.DUPLICATE


def test_a_report_of_an_earlier_attempt_is_stale() -> None:
    world = one(STEADY)
    lease = world.grant("a")
    world.lose("a")

    for event in (
        world.success_of(lease),
        world.failure_of(lease),
        world.loss_of(lease),
        world.deadline_of(lease.place, Deadline.ATTEMPT, lease),
    ):
        assert world.send(event).rejected is Rejection.STALE


def test_a_report_about_a_task_that_is_not_there_is_stale() -> None:
    world = World(graph("a -> b")).start()
    lease = replace(world.grant("a"), place=world.place("b"))

    assert world.send(world.success_of(lease)).rejected is Rejection.STALE


@pytest.mark.rule("C7.1")
@pytest.mark.parametrize("kind", [TimerKind.BACKOFF, TimerKind.TOTAL])
def test_C7_a_timer_of_another_version_is_stale(kind: TimerKind) -> None:
    world = one(STEADY, total_timeout_us=100 * SECOND_US)
    world.fail("a")
    event = world.firing_of(world.timer("a", kind))

    assert world.send(replace(event, version=event.version + 1)).rejected is Rejection.STALE


@pytest.mark.parametrize("kind", [TimerKind.BACKOFF, TimerKind.TOTAL])
def test_C7_a_timer_whose_task_has_moved_on_is_stale(kind: TimerKind) -> None:
    """The store removes such timers; the machine does not rely on it."""
    world = one(STEADY, "a -> b", total_timeout_us=100 * SECOND_US)
    world.fail("a")
    timer = world.timer("a", kind)
    world.fire("a", TimerKind.BACKOFF)
    world.succeed("a")
    rows = Rows(world.ledger.tasks, {("a", kind): timer}, {})  # type: ignore[dict-item]
    event = world.firing_of(timer)

    found = decide(world.graph, world.snapshot, rows, event, None)  # type: ignore[arg-type]

    assert found.rejected is Rejection.STALE  # type: ignore[union-attr]


def test_a_task_whose_node_is_not_active_is_a_bug_and_says_so() -> None:
    world = World(graph("a -> b")).start()
    lease = world.grant("a")
    event = world.success_of(lease)
    pending = world.task("a")
    world.accept(event)
    rows = Rows({pending.place: pending}, {}, {})

    with pytest.raises(InvariantViolated, match="nothing waits for it"):
        decide(world.graph, world.snapshot, rows, event, None)  # type: ignore[arg-type]


def test_an_illegal_move_of_a_task_is_a_bug_and_says_so() -> None:
    world = one()
    event = world.loss_of(world.grant("a"))

    with pytest.raises(InvariantViolated, match="does not move from pending to success on Lease"):
        clocks.check_move(world.task("a"), TaskState.SUCCESS, event)


@pytest.mark.parametrize(
    ("then", "attempts"), [("nothing", 1), ("lost", 2), ("retried", 2), ("total_timeout", 1)]
)
def test_X2_attempts_is_the_last_number_used(then: str, attempts: int) -> None:
    world = one(STEADY, "a -> b; a -failure-> c", total_timeout_us=100 * SECOND_US)
    if then == "lost":
        world.lose("a")
    elif then != "nothing":
        world.fail("a")
        if then == "retried":
            world.fire("a", TimerKind.BACKOFF)
    if then == "total_timeout":
        world.fire("a", TimerKind.TOTAL)
    else:
        world.succeed("a")

    assert world.snapshot.attempts.get(0, 1) == attempts

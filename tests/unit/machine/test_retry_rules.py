"""Which failures are tried again, how often and how soon (DESIGN section 3, SEMANTICS F5)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.graphs import condition, graph, value
from tests.support.world import World

from tenuto.machine.clocks import try_again
from tenuto.machine.events import AttemptFailed, Deadline, TimerKind
from tenuto.machine.turn import Turn
from tenuto.model.definition import Work
from tenuto.model.expressions import Fault
from tenuto.model.instants import SECOND_US
from tenuto.model.retry import Jitter, RetryPolicy, RetryRule, names_failure

AGAIN = condition("error.details.again")


def rule(*on: str, attempts: int = 3, when: bool = False) -> RetryRule:
    return RetryRule(
        on=on,
        max_attempts=attempts,
        when=AGAIN if when else None,
        initial_us=SECOND_US,
        jitter=Jitter.NONE,
    )


def policy(
    *rules: RetryRule, attempts: int = 1, total: int | None = None, never: tuple[str, ...] = ()
) -> RetryPolicy:
    return RetryPolicy(
        max_attempts=attempts, jitter=Jitter.NONE, rules=rules, total=total, give_up_on=never
    )


class Trial:
    """One task that fails as it is told, its back-offs over at once."""

    def __init__(self, retry: RetryPolicy, script: dict[str, object] | None = None) -> None:
        work = Work("a", value("{}"), retry=retry)
        self.world = World(graph("a", details={"a": work}), script or {}).start()  # type: ignore[arg-type]

    def fail(self, code: str, classes: tuple[str, ...] = ()) -> int | None:
        """How long until the next attempt, or None: it is dead."""
        world = self.world
        lease = world.grant("a")
        failed = world.failure_of(lease, code)
        assert isinstance(failed, AttemptFailed)
        world.accept(replace(failed, classes=classes))
        if world.is_final:
            return None
        before = world.now
        timer = world.timer("a", TimerKind.BACKOFF)
        world.fire("a", TimerKind.BACKOFF)
        return timer.due_at - before


@pytest.mark.rule("D1.2")
@pytest.mark.parametrize(
    ("names", "code", "classes", "found"),
    [
        (("timeout",), "timeout", (), True),
        (("timeout",), "connect", (), False),
        (("http.5xx",), "http.503", (), True),
        (("http.5xx",), "http.404", (), False),
        (("http.4xx",), "http.404", (), True),
        (("http.503",), "http.503", (), True),
        (("http.5xx",), "http.5000", (), False),
        (("OSError",), "ConnectionResetError", ("ConnectionResetError", "ConnectionError", "OSError"), True),
        (("ValueError",), "KeyError", ("KeyError", "LookupError"), False),
        (("*",), "anything", (), True),
        ((), "anything", (), False),
    ],
)  # fmt: skip
def test_what_a_name_in_a_rule_stands_for(
    names: tuple[str, ...],
    code: str,
    classes: tuple[str, ...],
    found: bool,
) -> None:
    assert names_failure(names, code, classes) is found


def test_the_first_rule_that_matches_decides() -> None:
    trial = Trial(policy(rule("timeout", attempts=2), rule("*", attempts=9)))

    assert [trial.fail("timeout"), trial.fail("timeout")] == [SECOND_US, None]


def test_each_rule_counts_its_own_failures_and_backs_off_by_them() -> None:
    trial = Trial(policy(rule("timeout"), rule("connect")))

    assert [trial.fail("timeout"), trial.fail("connect"), trial.fail("timeout")] == [
        SECOND_US,
        SECOND_US,
        2 * SECOND_US,
    ]
    assert trial.world.task("a").rules == (2, 1)
    assert trial.fail("timeout") is None


def test_a_failure_without_a_rule_has_the_policy_s_own_allowance() -> None:
    assert Trial(policy(rule("timeout"))).fail("boom") is None
    assert Trial(policy(rule("timeout"), attempts=2)).fail("boom") == SECOND_US


def test_a_total_bounds_the_tries_of_all_rules_together() -> None:
    trial = Trial(policy(rule("timeout", attempts=9), rule("connect", attempts=9), total=3))

    assert [trial.fail("timeout"), trial.fail("connect"), trial.fail("timeout")] == [
        SECOND_US,
        SECOND_US,
        None,
    ]


def test_what_is_given_up_on_comes_before_the_rules() -> None:
    assert Trial(policy(rule("*"), never=("http.4xx",))).fail("http.404") is None


def test_a_rule_s_condition_reads_the_error_of_the_attempt() -> None:
    trial = Trial(policy(rule(when=True)), {AGAIN.text: [True, False]})

    assert [trial.fail("boom"), trial.fail("boom")] == [SECOND_US, None]
    [first, _] = [asked for asked in trial.world.asked if asked.expression is AGAIN]
    assert first.scope.error is not None
    assert first.scope.error.place == "a"


def test_an_error_in_a_rule_s_condition_counts_as_not_matching() -> None:
    trial = Trial(
        policy(rule(when=True, attempts=9), rule("*", attempts=2)),
        {AGAIN.text: Fault("expression_error", "no such key")},
    )

    assert [trial.fail("boom"), trial.fail("boom")] == [SECOND_US, None]


def test_a_rule_names_and_condition_must_both_hold() -> None:
    trial = Trial(policy(rule("timeout", when=True)), {AGAIN.text: True})

    assert trial.fail("boom") is None


def test_a_deadline_is_matched_by_its_code() -> None:
    trial = Trial(policy(rule("timeout", attempts=2)))
    trial.world.grant("a")

    trial.world.pass_deadline("a", Deadline.ATTEMPT)

    assert trial.world.task("a").rules == (1,)


@pytest.mark.rule("F5.2")
def test_F5_no_rule_retries_what_is_never_retried() -> None:
    trial = Trial(policy(rule("*")))
    world = trial.world
    turn = Turn(world.graph, world.snapshot, world.ledger.rows(), world.now, None)  # type: ignore[arg-type]
    assert try_again(turn, world.task("a"), "queue_timeout", (), 0.5) is None


def test_a_lost_lease_counts_for_no_rule() -> None:
    trial = Trial(policy(rule("*", attempts=2)))
    trial.world.grant("a")
    trial.world.lose("a")

    assert [trial.fail("boom"), trial.fail("boom")] == [SECOND_US, None]

"""Events on the engine: `match`, `fail_when`, heartbeats, callbacks, `emit` (SEMANTICS "Waits and events")."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.driver import Driver, engine_with

from tenuto.app.files import post_message
from tenuto.coordinator import timers
from tenuto.coordinator.mailbox import Message
from tenuto.coordinator.matching import Matching
from tenuto.model.errors import Conflict
from tenuto.model.ids import MessageId, RunId
from tenuto.ports.store import Due, Match


@pytest.fixture(autouse=True)
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is due must be announced by whoever makes it so; polling would hide a lost hint."""
    monkeypatch.setattr(timers, "POLL_US", 600_000_000)
    monkeypatch.setattr(timers, "PULSE_US", 600_000_000)


PICKY = """
name: picky
nodes:
  w: {type: wait_for_event, event: paid, key: k, match: "event.order == input.order", timeout: 1h}
output: "${nodes.w.output}"
"""


def send(driver: Driver, payload: str, event: str = "paid", key: str = "k") -> None:
    driver.ask(driver.commands.send_event(event, key, payload))


def test_an_event_goes_to_the_wait_whose_match_holds_whatever_the_order() -> None:
    with engine_with() as driver:
        runs = [driver.begin(PICKY, input={"order": n}) for n in range(5)]
        for n in (3, 1, 4, 0, 2):
            send(driver, f'{{"order": {n}}}')
        for n, run_id in enumerate(runs):
            assert driver.output(driver.end(run_id)) == {"order": n}
            driver.check(run_id)


def test_an_event_that_nobody_wants_waits_for_a_later_wait() -> None:
    with engine_with() as driver:
        first = driver.begin(PICKY, input={"order": 1})
        send(driver, '{"order": 2}')
        send(driver, '{"other": 2}')
        second = driver.begin(PICKY, input={"order": 2})

        assert driver.output(driver.end(second)) == {"order": 2}
        assert driver.row(first).state == "running"
        send(driver, '{"order": 1}')
        assert driver.end(first).state == "success"


def test_pairs_that_do_not_match_are_tried_once() -> None:
    """What is refused leaves the due rows, so nothing spins: the loop's statement is not run again and again."""
    with engine_with() as driver:
        run_id = driver.begin(PICKY, input={"order": 1})
        for _ in range(3):
            send(driver, '{"order": 2}')
        driver.until(lambda: driver.ask(_count_looks(driver)) == 0)
        send(driver, '{"order": 1}')

        assert driver.end(run_id).state == "success"


async def _count_looks(driver: Driver) -> int:
    store = driver.engine.commands._coordinator.store
    count, due = 0, store.due

    async def counted(**asked: object) -> object:
        nonlocal count
        count += 1
        return await due(**asked)  # type: ignore[arg-type]

    store.due = counted  # type: ignore[method-assign, assignment]
    await asyncio.sleep(0.2)
    store.due = due  # type: ignore[method-assign]
    return count


def test_a_message_of_another_process_is_matched_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with engine_with(path=path) as driver:
        run_id = driver.begin(PICKY, input={"order": 1})
    post_message(path, Message("paid", "k", '{"order": 2}'))
    post_message(path, Message("paid", "k", '{"order": 1}'))
    with engine_with(path=path) as driver:
        assert driver.output(driver.end(run_id)) == {"order": 1}


def test_fail_when_ends_the_wait_with_the_error_of_the_event() -> None:
    text = """
name: failing
nodes:
  w: {type: wait_for_event, event: done, key: k, fail_when: "has(event.error)", timeout: 1h}
"""
    with engine_with() as driver:
        run_id = driver.begin(text)
        send(driver, '{"error": {"code": "no_stock", "message": "none left"}}', "done")
        run = driver.end(run_id)

        assert run.state == "failed"
        assert driver.error(run)["code"] == "no_stock"
        driver.check(run_id)


BEATING = """
name: beating
nodes:
  w: {type: wait_for_event, event: job, key: k, heartbeat_timeout: 3s, timeout: 1h}
"""


@pytest.mark.rule("W6.3")
def test_a_heartbeat_starts_the_silence_anew_and_an_early_one_does_nothing() -> None:
    with engine_with() as driver:
        assert driver.ask(driver.commands.heartbeat("job", "k")) == 0
        for silence in ("3s", "30s"):  # so long for a machine that pauses between two of them
            run_id = driver.begin(BEATING.replace("3s", silence))
            heard = [driver.ask(driver.commands.heartbeat("job", "k")) for _ in range(3)]
            run = driver.end(run_id)
            if heard == [1, 1, 1]:
                break

        assert driver.error(run)["code"] == "heartbeat_timeout"
        assert driver.kinds(run_id) == ["RunStarted"] + ["HeartbeatReceived"] * 3 + ["TimerFired"]
        driver.check(run_id)


@pytest.mark.rule("W3.3")
def test_what_one_run_emits_another_one_waits_for() -> None:
    waits = """
name: waits
nodes:
  w: {type: wait_for_event, event: shipped, key: "${input.id}", timeout: 1h}
output: "${nodes.w.output.n}"
"""
    emits = """
name: emits
nodes:
  e: {type: emit, event: shipped, key: "${input.id}", payload: {n: "${input.n}"}, keep: 1d}
"""
    with engine_with() as driver:
        early = driver.begin(waits, input={"id": "a"})
        for name, n in (("a", 1), ("b", 2)):
            assert driver.run(emits, input={"id": name, "n": n}).state == "success"
        late = driver.begin(waits, input={"id": "b"})

        assert [driver.output(driver.end(run_id)) for run_id in (early, late)] == [1, 2]
        driver.check(early, late)


def test_a_run_may_meet_its_own_event() -> None:
    text = """
name: both
nodes:
  e: {type: emit, event: x, key: k, payload: {n: 1}}
  w: {type: wait_for_event, event: x, key: k, timeout: 1h}
edges: [e -> w]
output: "${nodes.w.output.n}"
"""
    with engine_with() as driver:
        run = driver.run(text)

        assert driver.output(run) == 1
        driver.check(run.run_id)


@pytest.mark.rule("W4.1")
def test_a_called_service_calls_back_by_the_waits_key() -> None:
    told: list[str] = []

    def ask(key: str) -> None:
        told.append(key)

    text = """
name: call_back
nodes:
  a: {type: task, task: ask, params: {key: "${nodes.w.callback_key}"}}
  w: {type: wait_for_event, event: done, timeout: 1h}
edges: [a -> w]
output: "${nodes.w.output}"
"""
    with engine_with(ask) as driver:
        run_id: RunId = driver.begin(text)
        driver.until(lambda: told)
        send(driver, '"back"', "done", told[0])

        assert driver.output(driver.end(run_id)) == "back"
        driver.check(run_id)


def test_C6_freezing_moves_the_deadline_of_a_wait() -> None:
    with engine_with() as driver:
        for time in ("2s", "30s"):  # so long for a machine that pauses before it is asked
            run_id = driver.begin(f"name: f\nnodes:\n  w: {{type: wait, for: {time}}}\n")
            dues = driver.ask(_frozen_and_thawed(driver, run_id))
            assert driver.end(run_id).state == "success"
            driver.check(run_id)
            if len(dues) == 2:
                break

        before, after = dues
        assert after > before


async def _frozen_and_thawed(driver: Driver, run_id: RunId) -> list[int]:
    """When the timer is due, in a pause and after it; none once it has fired."""
    dues: list[int] = []
    with suppress(Conflict):
        await driver.commands.pause(run_id)
        dues += [timer.due_at for timer in (await driver.engine.reads.get_run(run_id)).timers]
        await driver.commands.resume(run_id, freeze_timers=True)
        dues += [timer.due_at for timer in (await driver.engine.reads.get_run(run_id)).timers]
    return dues


@pytest.mark.rule("W6.1")
def test_W6_many_messages_that_nobody_wants_do_not_hold_up_the_one_that_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes = 0
    choose = Matching.choose

    def counted(self: Matching, due: Due) -> tuple[list[Match], list[MessageId]]:
        nonlocal passes
        passes += bool(due.matches)
        return choose(self, due)

    monkeypatch.setattr(Matching, "choose", counted)
    with engine_with() as driver:
        run_id = driver.begin(PICKY, input={"order": 400})
        driver.ask(driver.commands.pause(run_id))  # a pause holds no event up either
        # Sent one by one, they might come one by one, and each be looked at by itself.
        messages = [Message("paid", "k", f'{{"order": {n}}}') for n in range(401)]
        driver.ask(driver.commands.send_events(messages))

        assert driver.output(driver.end(run_id)) == {"order": 400}
        assert passes < 100
        driver.check(run_id)

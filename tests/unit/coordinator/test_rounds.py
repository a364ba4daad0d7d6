from __future__ import annotations

import asyncio

import pytest

from tenuto.adapters.local.clock import SystemClock
from tenuto.adapters.local.dice import SystemDice
from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.coordinator.health import Health
from tenuto.coordinator.rounds import Rounds, woken
from tenuto.coordinator.setting import Setting
from tenuto.model.errors import Unavailable

NAME = "loop"


def a_setting(*, sole: bool = True) -> Setting:
    return Setting(
        clock=SystemClock(),
        ids=Uuid7Ids(),
        dice=SystemDice(1),
        incarnation="here",
        lease_us=1_000_000,
        sole=sole,
        health=Health(lambda: 1),
    )


async def test_a_round_that_fails_is_told_accounted_for_and_had_again() -> None:
    setting = a_setting()
    met: list[Exception] = []
    rounds = Rounds(NAME, setting, failed=met.append)
    results = iter([Unavailable("the disk is full"), "done"])

    async def work() -> str:
        result = next(results)
        if isinstance(result, Unavailable):
            raise result
        return str(result)

    assert await rounds.go(work, asyncio.Event()) is None
    assert [str(error) for error in met] == ["the disk is full"]
    assert setting.health.troubles() == {NAME: "the disk is full"}
    assert await rounds.go(work, asyncio.Event()) == "done"
    assert setting.health.troubles() == {}


async def test_a_bug_ends_the_loop_of_a_process_that_is_alone() -> None:
    met: list[Exception] = []

    async def work() -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Rounds(NAME, a_setting(), failed=met.append).go(work, asyncio.Event())
    assert met == []
    shared = Rounds(NAME, a_setting(sole=False), failed=met.append)
    assert await shared.go(work, asyncio.Event()) is None
    assert len(met) == 1


async def test_the_pause_after_a_failure_ends_when_it_is_time_to_stop() -> None:
    async def work() -> bool:
        raise Unavailable("away")

    rounds, stopping = Rounds(NAME, a_setting(), failed=lambda _: None), asyncio.Event()
    stopping.set()
    async with asyncio.timeout(60):
        for _ in range(100):
            assert await rounds.go(work, stopping) is None


async def test_whoever_waits_is_woken_when_it_is_time_to_stop() -> None:
    stopping, one, two = asyncio.Event(), asyncio.Event(), asyncio.Event()
    async with asyncio.timeout(60), woken(stopping, one, two):
        asyncio.get_running_loop().call_soon(stopping.set)
        await one.wait()
        await two.wait()
    async with asyncio.timeout(60), woken(asyncio.Event(), one):
        pass  # and its end waits for nothing

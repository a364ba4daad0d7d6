"""What `/readyz` makes of loops that stand still, of dispatch that limps, of a database. Catalogue L11."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tenuto.app.core import Core, assemble
from tenuto.app.database import Opened, open_database
from tenuto.app.readiness import readiness_of
from tenuto.coordinator.dispatching import DatabaseDispatch
from tenuto.model.errors import Unavailable
from tenuto.ports.database import AWAY
from tenuto.settings import Database


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    made = await open_database(Database())
    yield made
    await made.engine.close()


@pytest.fixture
async def core(opened: Opened) -> Core:
    return assemble(opened)


async def test_all_is_well(core: Core, opened: Opened) -> None:
    found = await readiness_of(core, opened)

    assert (found.troubles, found.degraded) == ((), ())


async def test_each_loop_that_fails_is_named_with_its_reason(core: Core, opened: Opened) -> None:
    """Catalogue L11."""
    names = [loop.name for loop in core.health.loops()]
    assert {"gateway", "timers", "watching"} <= set(names)

    for name in names:
        account = core.health.loop(name, every_us=1_000)
        account.fail(Unavailable("the disk\nis full"))
        found = await readiness_of(core, opened)
        assert found.troubles == (f"{name}: the disk is full",)
        account.begin()
        account.end()
        assert (await readiness_of(core, opened)).troubles == ()


async def test_a_database_that_will_refuse_or_refuses_is_a_trouble(
    core: Core, opened: Opened
) -> None:
    async def refuses() -> str | None:
        return "it is read-only"

    async def is_away() -> str | None:
        raise Unavailable("nobody listens there")

    soon = replace(opened, problem=lambda: "partitions cannot be made")
    assert (await readiness_of(core, soon)).troubles == ("partitions cannot be made",)
    now = replace(opened, refusal=refuses)
    assert (await readiness_of(core, now)).troubles == ("database: it is read-only",)
    away = replace(opened, refusal=is_away)
    assert (await readiness_of(core, away)).troubles == (f"{AWAY}nobody listens there",)


async def test_D4_a_database_that_may_have_lost_commits_is_named_and_no_trouble(
    core: Core, opened: Opened
) -> None:
    found = await readiness_of(core, replace(opened, doubt=lambda: "is another server now"))

    assert (found.troubles, found.degraded) == ((), ("database: is another server now",))


async def test_a_database_that_is_away_is_one_cause_and_not_one_for_each_loop(
    core: Core, opened: Opened
) -> None:
    async def is_away() -> str | None:
        raise Unavailable("postgresql://h/x cannot be reached: nobody listens there")

    core.health.loop("lane-2").fail(Unavailable("postgresql://h/x has closed the connection"))
    core.health.loop("timers").fail(Unavailable("the disk is full"))
    core.health.loop("watching").fail(Unavailable("the disk is full"))
    problem = "partitions cannot be made: postgresql://h/x does not answer"

    found = await readiness_of(core, replace(opened, refusal=is_away, problem=lambda: problem))

    assert found.troubles == (
        f"{AWAY}postgresql://h/x cannot be reached: nobody listens there",
        "timers, watching: the disk is full",
    )


class Limping(DatabaseDispatch):
    """Makes do with the database."""

    name = "redis"

    @property
    def trouble(self) -> str | None:  # type: ignore[override]
        return "redis://h does not answer"


async def test_dispatch_that_makes_do_is_named_and_no_trouble(opened: Opened) -> None:
    found = await readiness_of(assemble(opened, dispatch=Limping), opened)

    assert (found.troubles, found.degraded) == (
        (),
        ("dispatch by redis: redis://h does not answer",),
    )

"""What workers are told of their queues: what nothing names, once it is sure, and with few questions to the store."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.support.graphs import graph, value

from tenuto.coordinator import queues as module
from tenuto.coordinator.graphs import Graphs
from tenuto.coordinator.queues import ASK_S, NOTED_MAX, Queues
from tenuto.model.definition import Work
from tenuto.model.errors import Unavailable
from tenuto.model.expressions import Expression, ExpressionKind
from tenuto.ports.reads import NamedQueues, Reads


class Stored:
    """The one read that is used, of what a test says is stored. `hold`: answers wait for it."""

    def __init__(self, *queues: str, computed: bool = False) -> None:
        self.queues, self.computed = {*queues}, computed
        self.asked = 0
        self.away = False
        self.hold: asyncio.Event | None = None

    async def list_queues(self) -> NamedQueues:
        self.asked += 1
        if self.hold is not None:
            await self.hold.wait()
        if self.away:
            raise Unavailable("the database is away")
        return NamedQueues(queues=frozenset(self.queues), computed=self.computed)


class World:
    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        self.now = 1_000.0
        self.graphs = Graphs(cast("Reads", stored))
        self.queues = Queues(self.graphs, cast("Reads", stored), lambda: self.now)

    async def notes(self, *queues: str) -> list[str]:
        return list(await self.queues.notes(queues))


def work_on(queue: Any) -> Any:
    return graph("a", details={"a": Work("w", value("{}"), queue=queue)})


async def test_a_queue_that_nothing_names_is_told_with_what_was_meant_and_the_cure() -> None:
    world = World(Stored("default", "mail"))

    [line] = await world.notes("default", "defualt")  # `default` is served already
    assert line == (
        "no definition names the queue `defualt`, and no task waits in it. Check `--queues`, or deploy a definition"
        " that names it: it is served as soon as there is one"
    )
    [line] = await world.notes("mial")
    assert (
        "the queue `mial`, and no task waits in it; did you mean `mail`? Check `--queues`" in line
    )


async def test_a_queue_that_the_store_names_is_not_told_nor_asked_about_again() -> None:
    world = World(Stored("default", "mail"))

    assert await world.notes("mail") == []
    world.now += 2 * ASK_S
    assert await world.notes("default", "mail") == []
    assert world.stored.asked == 1


async def test_what_this_process_has_seen_is_known_without_a_question() -> None:
    world = World(Stored())
    world.graphs.put("h", work_on("mail"))
    world.graphs.see_queue("waiting")

    assert await world.notes("mail", "waiting") == []
    assert world.stored.asked == 0


async def test_a_worker_for_every_queue_is_told_nothing() -> None:
    world = World(Stored("default"))

    assert await world.notes("*", "defualt") == []
    assert world.stored.asked == 0


async def test_where_a_definition_computes_its_queue_nothing_can_be_said() -> None:
    world = World(Stored("default", computed=True))
    assert await world.notes("defualt") == []

    seen = World(Stored("default"))
    seen.graphs.put("h", work_on(Expression(ExpressionKind.NAME, '"${input.q}"', "queue")))
    assert await seen.notes("defualt") == []
    assert seen.stored.asked == 0


async def test_before_anything_is_deployed_nothing_is_told() -> None:
    world = World(Stored())

    assert await world.notes("defualt", "default") == []


async def test_default_is_told_too_where_definitions_name_others() -> None:
    world = World(Stored("mail"))

    [line] = await world.notes("default")

    assert "the queue `default`" in line
    assert "did you mean" not in line


async def test_an_unknown_queue_is_asked_about_once_a_minute_and_each_worker_is_told() -> None:
    world = World(Stored("default"))
    for _ in range(3):
        assert len(await world.notes("defualt")) == 1
    assert world.stored.asked == 1

    world.now += ASK_S
    world.stored.queues.add("defualt")

    assert await world.notes("defualt") == []
    assert world.stored.asked == 2


async def test_a_definition_that_came_meanwhile_ends_it_at_once() -> None:
    world = World(Stored("default"))
    assert len(await world.notes("mail")) == 1

    world.graphs.put("h", work_on("mail"))

    assert await world.notes("mail") == []


async def test_a_thousand_workers_at_once_are_two_questions_at_most() -> None:
    world = World(Stored("default"))
    world.stored.hold = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        told = [group.create_task(world.notes(f"queue-{n % 500}")) for n in range(1_000)]
        await asyncio.sleep(0)
        world.stored.hold.set()

    assert all(len(each.result()) == 1 for each in told)
    assert world.stored.asked <= 2


async def test_a_store_that_is_away_is_nothing_to_tell_and_is_not_asked_again_soon() -> None:
    world = World(Stored("default"))
    world.stored.away = True
    assert await world.notes("defualt") == []
    world.stored.away = False
    assert await world.notes("defualt") == []
    assert world.stored.asked == 1

    world.now += ASK_S

    assert len(await world.notes("defualt")) == 1


async def test_a_store_that_is_slow_delays_no_worker_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)
    world = World(Stored("default"))
    world.stored.hold = asyncio.Event()

    assert await world.notes("defualt") == []
    assert await world.notes("defualt") == []
    assert world.stored.asked == 1


async def test_many_queues_of_one_worker_are_not_many_lines() -> None:
    world = World(Stored("default"))

    lines = await world.notes(*(f"strange-{n}" for n in range(NOTED_MAX + 1_200)))

    assert len(lines) == NOTED_MAX + 1
    assert lines[-1] == "the same holds for 1,200 more of its queues"


async def test_what_is_remembered_of_unknown_queues_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "ASKED_MAX", 2)
    world = World(Stored("default"))
    for name in ("one", "two", "three"):
        await world.notes(name)

    assert list(world.queues._answers) == ["two", "three"]

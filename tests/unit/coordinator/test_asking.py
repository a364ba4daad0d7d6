"""What users ask for becomes events and runs: signs of life, replays."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.graphs import graph
from tests.support.store import a_snapshot

from tenuto.adapters.local.dice import SystemDice
from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.coordinator.asking import HeartbeatWaiting, NewReplay, ReplayWaiting, RetryWaiting
from tenuto.coordinator.batch import Batch
from tenuto.coordinator.seats import Seats
from tenuto.coordinator.telling import INPUT, ITEM, PARAMS, VARS
from tenuto.coordinator.waiting import (
    NOBODY,
    Again,
    Beginning,
    Found,
    Moment,
    Settled,
    Wanted,
)
from tenuto.machine.decide import initial
from tenuto.machine.events import HeartbeatReceived, RetryRequested, RunReplayed
from tenuto.machine.snapshot import OpenedWait
from tenuto.model.errors import NotFound
from tenuto.model.ids import Place, RunId
from tenuto.ports.store import Loaded, NewRun

RUN, NEW_RUN = RunId("run"), RunId("new")
MOMENT = Moment(now=50, dice=SystemDice(1), workers=Seats())
NEW = NewRun(namespace="space", workflow="w", version=2, definition="h", key="once", created_at=1)
GRAPH = graph("w", types={"w": "wait_for_event"})


def a_batch() -> Batch:
    snapshot = replace(initial(RUN, GRAPH), seq=3)
    return Batch(GRAPH, Beginning(NEW, {}).row(RUN), snapshot, {}, message_id=Uuid7Ids().message_id)


def test_a_heartbeat_is_for_the_wait_that_was_open() -> None:
    wait = OpenedWait(Place("w"), "e", "k", 2, 1)
    fact, batch = HeartbeatWaiting(RUN, wait, NOBODY, 0), a_batch()
    fact.fill(batch, Loaded(now=1))
    assert fact.event(batch, Loaded(now=1), MOMENT) == Settled(False)

    found = Loaded(now=1, waits={(RUN, wait.place): wait})
    fact.fill(batch, found)
    assert fact.event(batch, found, MOMENT) == HeartbeatReceived(at=50, place=Place("w"), version=2)


def test_R1_a_retry_carries_what_could_be_retried_inside() -> None:
    fact, batch = RetryWaiting(RUN, NOBODY, missing=NotFound("run", RUN)), a_batch()
    wanted = fact.event(batch, Loaded(now=1), MOMENT)
    assert isinstance(wanted, Wanted)
    assert list(wanted.again) == [RUN]
    fact.learn(Found(Loaded(now=1), again=Again((("e", (1,)),), ((Place("c"), NEW_RUN),))))

    assert fact.event(batch, Loaded(now=1), MOMENT) == RetryRequested(
        at=50, again=(("e", (1,)),), children=((Place("c"), NEW_RUN),)
    )
    fact.fill(batch, Loaded(now=1))  # decided anew: what was found may be old
    assert isinstance(fact.event(batch, Loaded(now=1), MOMENT), Wanted)


@pytest.mark.rule("R2.1")
def test_R2_a_replay_takes_over_what_the_source_was_given() -> None:
    source = (replace(Beginning(NEW, {}).row(RUN), state="success"), a_snapshot(RUN, 9))
    texts = {(RUN, INPUT): "1", (RUN, VARS): "2", (RUN, PARAMS): "3", (RUN, ITEM): "4"}
    loaded = Loaded(now=1, runs={RUN: source}, payloads=texts)
    request = NewReplay(source=RUN, node="b", input="10", vars=None)
    fact = ReplayWaiting(NEW_RUN, request, NOBODY, missing=NotFound("run", RUN))
    beginning = fact.beginning(loaded, 7)
    event = fact.event(a_batch(), loaded, MOMENT)

    assert fact.definition(loaded) == "h"
    assert fact.definition(Loaded(now=1)) is None
    assert beginning.new_run == replace(NEW, key=None, created_at=7, source=RUN)
    assert beginning.texts == {INPUT: "10", VARS: "2", PARAMS: "3", ITEM: "4"}
    assert isinstance(event, RunReplayed)
    assert (event.source, event.node, event.nodes) == (RUN, "b", "a.")

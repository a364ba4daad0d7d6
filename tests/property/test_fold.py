"""Folding and the codec under random histories (SEMANTICS X8, invariant I5).

`World` folds every event on its way; here whole histories go through text, and damaged ones are refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support.fates import Trouble, drive, script_of
from tests.support.flows import Taste, random_graph
from tests.support.world import RUN, World

from tenuto.machine import codec
from tenuto.machine.events import (
    AttemptFailed,
    AttemptSucceeded,
    CancelRequested,
    ChildSettled,
    Deadline,
    DeadlinePassed,
    Drained,
    Event,
    EventReceived,
    HeartbeatReceived,
    LeaseExpired,
    ParentPaused,
    PauseRequested,
    ResumeRequested,
    RetryRequested,
    RunReplayed,
    RunStarted,
    SkipRequested,
    TerminateRequested,
    TimerFired,
    TimerKind,
)
from tenuto.machine.fold import fold
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import (
    Callee,
    Fault,
    Listed,
    Message,
    Named,
    Number,
    Outcome,
    Page,
    Verdict,
)
from tenuto.model.ids import LeaseId, MessageId, Place, RunId, WorkerId
from tenuto.model.payload import ItemsView, JoinView, Output, PayloadKey, PayloadKind, Text
from tenuto.model.states import RunState

INSTANTS = st.integers(0, 2**53)
COUNTS = st.integers(0, 2**31)
NAMES = st.text(max_size=8)
PLACES = NAMES.map(Place)
RUNS = NAMES.map(RunId)
LEASED = st.sampled_from(({}, {"worker": WorkerId("w"), "leased_at": 7}))
DRAWS = st.floats(0, 1, exclude_max=True)
SIZES = COUNTS.map(Text)
INDEXES = st.lists(COUNTS, max_size=3).map(tuple)


def _attempts(
    kind: Callable[..., Event], **more: st.SearchStrategy[object]
) -> st.SearchStrategy[Event]:
    facts = st.fixed_dictionaries({"at": INSTANTS, "place": PLACES, "attempt": COUNTS, **more})
    return st.tuples(facts, LEASED).map(lambda pair: kind(**pair[0], **pair[1]))


def _retry(at: int, again: object, children: object, skip: tuple[str, Text] | None) -> Event:
    node, output = skip or (None, None)
    return RetryRequested(at=at, again=again, children=children, skip=node, output=output)  # type: ignore[arg-type]


LEASES = NAMES.map(LeaseId)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        RunStarted,
        at=INSTANTS,
        parent=st.none() | st.tuples(RUNS, PLACES),
        index=st.none() | COUNTS,
        depth=COUNTS,
        paused=st.booleans(),
    ),
    st.builds(
        RunReplayed, at=INSTANTS, source=RUNS, node=NAMES, nodes=NAMES, edges=NAMES, rest=NAMES
    ),
    _attempts(AttemptSucceeded, lease_id=LEASES, output=SIZES),
    _attempts(
        AttemptFailed,
        lease_id=LEASES,
        code=NAMES,
        error=SIZES,
        draw=DRAWS,
        retryable=st.booleans(),
        retry_after_us=COUNTS,
        classes=st.lists(NAMES, max_size=2).map(tuple),
    ),
    _attempts(LeaseExpired, lease_id=LEASES),
    _attempts(
        DeadlinePassed, lease_id=st.none() | LEASES, deadline=st.sampled_from(Deadline), draw=DRAWS
    ),
    st.builds(
        TimerFired, at=INSTANTS, place=PLACES, kind=st.sampled_from(TimerKind), version=COUNTS
    ),
    st.builds(
        EventReceived,
        at=INSTANTS,
        place=PLACES,
        version=COUNTS,
        message_id=NAMES.map(MessageId),
        payload=SIZES,
    ),
    st.builds(HeartbeatReceived, at=INSTANTS, place=PLACES, version=COUNTS),
    st.builds(
        ChildSettled,
        at=INSTANTS,
        place=PLACES,
        child=RUNS,
        state=st.sampled_from(RunState),
        output=st.none() | SIZES,
        error=st.none() | SIZES,
        draw=DRAWS,
        code=NAMES,
    ),
    st.builds(CancelRequested, at=INSTANTS, reason=NAMES),
    st.builds(TerminateRequested, at=INSTANTS, reason=NAMES),
    st.builds(PauseRequested, at=INSTANTS),
    st.builds(ResumeRequested, at=INSTANTS, freeze=st.booleans()),
    st.builds(ParentPaused, at=INSTANTS, paused=st.booleans(), freeze=st.booleans()),
    st.builds(
        Drained, at=INSTANTS, version=COUNTS, started=st.lists(PLACES, max_size=3).map(tuple)
    ),
    st.builds(
        _retry,
        at=INSTANTS,
        again=st.lists(st.tuples(NAMES, INDEXES), max_size=2).map(tuple),
        children=st.lists(st.tuples(PLACES, RUNS), max_size=2).map(tuple),
        skip=st.none() | st.tuples(NAMES, SIZES),
    ),
    st.builds(SkipRequested, at=INSTANTS, node=NAMES, output=SIZES),
)
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Verdict, st.booleans()),
    SIZES,
    st.builds(Fault, NAMES, NAMES),
    st.builds(Message, NAMES.map(MessageId), SIZES),
    st.just(Message(None)),
    st.builds(Named, NAMES),
    st.builds(Number, COUNTS, st.booleans()),
    st.builds(Listed, SIZES, COUNTS),
    st.builds(Page, COUNTS, st.booleans()),
    st.builds(Callee, NAMES, COUNTS, NAMES, SIZES, SIZES),
)
OUTPUTS: st.SearchStrategy[Output] = st.recursive(
    st.none()
    | st.builds(PayloadKey, PLACES, st.sampled_from(PayloadKind))
    | st.builds(ItemsView, PLACES, COUNTS),
    lambda inner: st.dictionaries(NAMES, inner, max_size=3).map(
        lambda entries: JoinView(tuple(sorted(entries.items(), key=lambda pair: pair[0])))
    ),
    max_leaves=6,
)


@given(event=EVENTS, outcomes=st.lists(OUTCOMES, max_size=4))
def test_an_event_and_its_outcomes_survive_their_row(event: Event, outcomes: list[Outcome]) -> None:
    """Catalogue I-15."""
    parts = codec.encode_event(event, outcomes)

    assert codec.decode_event(parts.kind, event.at, parts.place, parts.data) == (
        event,
        tuple(outcomes),
    )


@given(output=OUTPUTS)
def test_an_output_survives_its_column(output: Output) -> None:
    assert codec.decode_output(codec.encode_output(output)) == output


_REPEATABLE = (
    "PauseRequested",
    "ResumeRequested",
    "ParentPaused",
    "HeartbeatReceived",
    "RetryRequested",
)
"""Events that may stand twice in a row: a retry may fail in its own decision, and be asked for again."""


@given(rng=st.randoms(use_true_random=False), seed=st.integers(0, 2**32 - 1), data=st.data())
def test_a_history_that_was_tampered_with_does_not_fold(
    rng: Random, seed: int, data: st.DataObject
) -> None:
    """A row that is there twice, an outcome too many or too few, never goes unnoticed."""
    taste = Taste(nodes=6, whole=20, inlines=0, undo=20, rules=10, events=10)
    graph = random_graph(rng, taste)
    assume(graph is not None)
    assert graph is not None
    world = World(graph, script_of(graph, seed, taste))
    drive(world, rng, seed, Trouble(pauses=0, retries=50))
    rows = [(p.kind, at, p.place, p.data) for at, p in world.history]
    at = data.draw(st.integers(0, len(rows) - 1))
    how = data.draw(st.sampled_from(("twice", "too many", "too few")))
    kind, when, place, text = rows[at]
    assume(kind not in _REPEATABLE)
    told = json.loads(text)
    outcomes = told.get("outcomes", [])
    if how == "twice":
        rows.insert(at, rows[at])
    elif how == "too many":
        rows[at] = (kind, when, place, json.dumps({**told, "outcomes": [*outcomes, True]}))
    else:
        assume(outcomes)
        rows[at] = (kind, when, place, json.dumps({**told, "outcomes": outcomes[:-1]}))

    with pytest.raises(InvariantViolated):
        fold(RUN, graph, (codec.decode_event(*row) for row in rows))

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
from tests.support.flows import Taste, Trouble, drive, random_graph, script_of
from tests.support.world import RUN, World

from tenuto.machine import codec
from tenuto.machine.events import (
    AttemptFailed,
    AttemptSucceeded,
    CancelRequested,
    Deadline,
    DeadlinePassed,
    Event,
    EventReceived,
    LeaseExpired,
    PauseRequested,
    ResumeRequested,
    RunStarted,
    TimerFired,
    TimerKind,
)
from tenuto.machine.fold import fold
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Fault, Message, Outcome, Verdict
from tenuto.model.ids import LeaseId, MessageId, Place, WorkerId
from tenuto.model.payload import JoinView, Output, PayloadKey, PayloadKind, Text

INSTANTS = st.integers(0, 2**53)
COUNTS = st.integers(0, 2**31)
NAMES = st.text(max_size=8)
PLACES = NAMES.map(Place)
LEASED = st.sampled_from(({}, {"worker": WorkerId("w"), "leased_at": 7}))
DRAWS = st.floats(0, 1, exclude_max=True)
SIZES = COUNTS.map(Text)


def _attempts(
    kind: Callable[..., Event], **more: st.SearchStrategy[object]
) -> st.SearchStrategy[Event]:
    facts = st.fixed_dictionaries({"at": INSTANTS, "place": PLACES, "attempt": COUNTS, **more})
    return st.tuples(facts, LEASED).map(lambda pair: kind(**pair[0], **pair[1]))


LEASES = NAMES.map(LeaseId)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(RunStarted, at=INSTANTS),
    _attempts(AttemptSucceeded, lease_id=LEASES, output=SIZES),
    _attempts(
        AttemptFailed,
        lease_id=LEASES,
        code=NAMES,
        error=SIZES,
        draw=DRAWS,
        retryable=st.booleans(),
        retry_after_us=COUNTS,
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
    st.builds(CancelRequested, at=INSTANTS, reason=NAMES),
    st.builds(PauseRequested, at=INSTANTS),
    st.builds(ResumeRequested, at=INSTANTS),
)
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Verdict, st.booleans()),
    SIZES,
    st.builds(Fault, NAMES, NAMES),
    st.builds(Message, NAMES.map(MessageId), SIZES),
    st.just(Message(None)),
)
OUTPUTS: st.SearchStrategy[Output] = st.recursive(
    st.none() | st.builds(PayloadKey, PLACES, st.sampled_from(PayloadKind)),
    lambda inner: st.dictionaries(NAMES, inner, max_size=3).map(
        lambda entries: JoinView(tuple(sorted(entries.items(), key=lambda pair: pair[0])))
    ),
    max_leaves=6,
)


@given(event=EVENTS, outcomes=st.lists(OUTCOMES, max_size=4))
def test_an_event_and_its_outcomes_survive_their_row(event: Event, outcomes: list[Outcome]) -> None:
    parts = codec.encode_event(event, outcomes)

    assert codec.decode_event(parts.kind, event.at, parts.place, parts.data) == (
        event,
        tuple(outcomes),
    )


@given(output=OUTPUTS)
def test_an_output_survives_its_column(output: Output) -> None:
    assert codec.decode_output(codec.encode_output(output)) == output


@given(rng=st.randoms(use_true_random=False), seed=st.integers(0, 2**32 - 1), data=st.data())
def test_a_history_that_was_tampered_with_does_not_fold(
    rng: Random, seed: int, data: st.DataObject
) -> None:
    """A row that is there twice, an outcome too many or too few, never goes unnoticed."""
    taste = Taste()
    graph = random_graph(rng, taste)
    assume(graph is not None)
    assert graph is not None
    world = drive(World(graph, script_of(graph, seed, taste)), rng, seed, Trouble(pauses=0))
    rows = [(p.kind, at, p.place, p.data) for at, p in world.history]
    at = data.draw(st.integers(0, len(rows) - 1))
    how = data.draw(st.sampled_from(("twice", "too many", "too few")))
    kind, when, place, text = rows[at]
    assume(kind not in ("PauseRequested", "ResumeRequested"))
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

"""Which wait a message is tried on: the oldest that has not refused it (SEMANTICS "Waits and events")."""

from __future__ import annotations

import pytest

from tenuto.coordinator.matching import Matching
from tenuto.machine.snapshot import OpenedWait
from tenuto.model.ids import MessageId, Place, RunId
from tenuto.ports.store import Due, Match


def pair(message: str, run: str, version: int = 1) -> Match:
    wait = OpenedWait(Place("w"), "e", "k", version, 1)
    return Match(run_id=RunId(run), wait=wait, message_id=MessageId(message), payload="1")


def due(*matches: Match, unmatched: tuple[str, ...] = ()) -> Due:
    return Due(now=1, matches=matches, unmatched=tuple(map(MessageId, unmatched)))


def names(matches: list[Match]) -> list[tuple[str, str]]:
    return [(match.message_id, match.run_id) for match in matches]


@pytest.mark.rule("W6.1")
def test_each_message_is_tried_on_one_wait_which_sees_them_in_their_order() -> None:
    listed = due(pair("m1", "r1"), pair("m1", "r2"), pair("m2", "r1"), pair("m2", "r2"))
    chosen, hopeless = Matching().choose(listed)

    # The second message is the oldest wait's too, if that does not want the first: a younger wait is not asked yet.
    assert names(chosen) == [("m1", "r1"), ("m2", "r1")]
    assert hopeless == []


@pytest.mark.rule("W6.1")
def test_what_was_refused_goes_to_the_next_wait() -> None:
    matching = Matching()
    listed = due(pair("m1", "r1"), pair("m1", "r2"), pair("m2", "r1"), pair("m2", "r2"))
    matching.refuse(pair("m1", "r1"))
    chosen, _ = matching.choose(listed)

    assert names(chosen) == [("m1", "r2"), ("m2", "r1")]


def test_a_message_that_all_refuse_or_nobody_waits_for_is_hopeless() -> None:
    matching = Matching()
    matching.refuse(pair("m1", "r1"))
    matching.refuse(pair("m1", "r1"))
    chosen, hopeless = matching.choose(due(pair("m1", "r1"), unmatched=("m9",)))

    assert chosen == []
    assert sorted(hopeless) == ["m1", "m9"]
    assert matching.refusals_of(hopeless) == [("m1", "r1", "w", 1)]


def test_another_pass_of_a_wait_is_another_wait() -> None:
    matching = Matching()
    matching.refuse(pair("m1", "r1"))

    assert names(matching.choose(due(pair("m1", "r1", version=2)))[0]) == [("m1", "r1")]


def test_what_is_remembered_is_bounded() -> None:
    """Catalogue J7."""
    matching = Matching(refusals_max=3)
    for number in range(10):
        matching.refuse(pair(f"m{number}", "r1"))

    kept = matching.refusals_of([MessageId(f"m{number}") for number in range(10)])
    assert [message for message, *_ in kept] == ["m7", "m8", "m9"]

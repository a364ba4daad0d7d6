"""Texts and the values that they parse to."""

from __future__ import annotations

from tenuto.adapters.cel.payloads import LARGE, Payloads, _Shared
from tenuto.model.ids import RUN_PLACE
from tenuto.model.payload import PayloadKey, PayloadKind, Text

INPUT = PayloadKey(RUN_PLACE, PayloadKind.INPUT)


def test_what_the_decision_made_comes_first() -> None:
    payloads = Payloads({INPUT: "1"})

    assert payloads.text(INPUT, {}) == "1"
    assert payloads.text(INPUT, {INPUT: Text(1, "2")}) == "2"
    assert payloads.text(INPUT, {INPUT: Text(1)}) == "1"


def test_a_large_text_is_parsed_once_for_all_evaluators() -> None:
    text = f'["{"x" * LARGE}"]'
    again = "".join(list(text))
    assert text is not again

    assert Payloads({}).value(text) is Payloads({}).value(again)


def test_small_texts_are_kept_by_their_evaluator_only() -> None:
    payloads = Payloads({})

    assert payloads.value("[1]") is payloads.value("[1]")
    assert payloads.value("[1]") is not Payloads({}).value("[1]")


def test_what_was_used_longest_ago_goes_first_and_the_last_one_stays() -> None:
    shared = _Shared(limit=10)
    first, second = shared.value("[1,1]"), shared.value("[2,2]")

    assert shared.value("[1,1]") is first
    shared.value("[3,3]")

    assert shared.value("[1,1]") is first
    assert shared.value("[2,2]") is not second
    large = shared.value('["longer than the limit"]')
    assert shared.value('["longer than the limit"]') is large

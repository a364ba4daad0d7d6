"""The tables of a worker's stream: what they say is complete, and what they do not say is told as a breach."""

from __future__ import annotations

import pytest

from tenuto.proto.worker.v1 import worker_pb2 as pb
from tenuto.rpc.states import (
    ANSWERS,
    CALLS_MAX,
    CROSSED,
    MOVES,
    SPOKEN,
    Breach,
    Side,
    State,
    Stream,
    Word,
)


def a_stream(side: Side, state: State = State.WORKING) -> Stream:
    """One that got so far in order."""
    stream = Stream(side)
    says, hears = (stream.say, stream.hear) if side is Side.WORKER else (stream.hear, stream.say)
    if state is not State.NEW:
        says(Word.REGISTER, 1)
    if state not in {State.NEW, State.REGISTERING}:
        hears(Word.WELCOME, 1)
    if state is State.DRAINING:
        hears(Word.DRAIN, 0)
    if state is State.LEAVING:
        says(Word.LEAVE, 9)
    assert stream.state is state
    return stream


def test_each_word_is_a_message_of_the_proto_and_said_by_one_side() -> None:
    said = {
        Side.WORKER: pb.FromWorker.DESCRIPTOR.oneofs_by_name["message"].fields,
        Side.SERVER: pb.FromServer.DESCRIPTOR.oneofs_by_name["message"].fields,
    }

    assert {side: {field.name for field in fields} for side, fields in said.items()} == SPOKEN
    assert not SPOKEN[Side.WORKER] & SPOKEN[Side.SERVER]
    assert set(Word) == SPOKEN[Side.WORKER] | SPOKEN[Side.SERVER]


def test_every_state_but_the_last_is_left_and_reached_by_some_row() -> None:
    left = {state for (state, _), target in MOVES.items() if target is not state}

    assert left == set(State) - {State.OVER}
    assert set(MOVES.values()) == set(State) - {State.NEW}
    assert set(MOVES) > CROSSED


def test_a_call_is_answered_once_by_its_own_word() -> None:
    for word, answer in ANSWERS.items():
        stream = a_stream(Side.WORKER)
        stream.say(word, 7)
        for other in {*ANSWERS.values(), Word.PART} - {answer}:
            if (other, word) not in {(Word.PART, Word.LEASE), (Word.PART, Word.REPORT)}:
                with pytest.raises(Breach):
                    stream.hear(other, 7)

        stream.hear(answer, 7)

        with pytest.raises(Breach):
            stream.hear(answer, 7)


def test_parts_leave_their_call_open() -> None:
    stream = a_stream(Side.WORKER)
    stream.say(Word.LEASE, 2)

    stream.hear(Word.PART, 2)
    stream.hear(Word.PART, 2)
    stream.hear(Word.LEASES, 2)

    assert stream.open == {}


@pytest.mark.parametrize(
    ("state", "word", "call", "text"),
    [
        (State.NEW, Word.LEASE, 1, "`lease` has no meaning while the stream is new"),
        (
            State.REGISTERING,
            Word.LEASE,
            2,
            "`lease` has no meaning while the stream is registering",
        ),
        (State.LEAVING, Word.REPORT, 2, "`report` has no meaning while the stream is leaving"),
        (
            State.WORKING,
            Word.REPORT,
            0,
            "`report` opens a call, so its number is at least 1, not 0",
        ),
        (State.WORKING, Word.LEASES, 1, "`leases` is said by the other side"),
    ],
)
def test_a_breach_says_what_it_was(state: State, word: Word, call: int, text: str) -> None:
    stream = a_stream(Side.SERVER, state)

    with pytest.raises(Breach) as caught:
        stream.hear(word, call)

    assert str(caught.value) == text
    assert stream.state is state


def test_a_number_is_used_again_only_when_its_call_is_answered() -> None:
    stream = a_stream(Side.SERVER)
    stream.hear(Word.NOTE, 5)
    with pytest.raises(Breach, match="call 5 is open already, as `note`"):
        stream.hear(Word.HEARTBEAT, 5)
    stream.say(Word.DONE, 5)

    stream.hear(Word.HEARTBEAT, 5)


def test_no_more_calls_are_open_than_can_be_remembered() -> None:
    stream = a_stream(Side.SERVER)
    for number in range(1, CALLS_MAX + 1):
        stream.hear(Word.NOTE, number)

    with pytest.raises(Breach, match=f"more than {CALLS_MAX} calls are open"):
        stream.hear(Word.NOTE, CALLS_MAX + 1)


def test_a_cancel_that_crosses_its_answer_means_nothing_but_only_leases_are_cancelled() -> None:
    stream = a_stream(Side.SERVER)
    stream.hear(Word.CANCEL, 5)
    stream.hear(Word.REPORT, 6)

    with pytest.raises(Breach, match="`cancel` is about a `lease`, not about `report`"):
        stream.hear(Word.CANCEL, 6)


def test_the_first_register_and_leave_never_fail_but_a_later_register_may() -> None:
    first = a_stream(Side.WORKER, State.REGISTERING)
    with pytest.raises(Breach):
        first.hear(Word.FAILED, 1)
    stream = a_stream(Side.WORKER)
    stream.say(Word.REGISTER, 2)

    stream.hear(Word.FAILED, 2)

    stream.say(Word.LEAVE, 3)
    with pytest.raises(Breach, match="`leave` is answered by the end of the stream"):
        stream.hear(Word.FAILED, 3)


def test_a_drain_belongs_to_no_call() -> None:
    with pytest.raises(Breach, match="its number is 0, not 4"):
        a_stream(Side.WORKER).hear(Word.DRAIN, 4)


def test_what_only_crosses_is_heard_but_not_said() -> None:
    assert not a_stream(Side.WORKER, State.DRAINING).may_say(Word.LEASE)
    a_stream(Side.SERVER, State.DRAINING).hear(Word.LEASE, 2)
    assert not a_stream(Side.SERVER, State.LEAVING).may_say(Word.DRAIN)
    a_stream(Side.WORKER, State.LEAVING).hear(Word.DRAIN, 0)


def test_saying_what_must_not_be_said_is_a_bug_of_ours() -> None:
    with pytest.raises(AssertionError):
        a_stream(Side.WORKER, State.NEW).say(Word.LEASE, 1)
    with pytest.raises(AssertionError):
        a_stream(Side.SERVER).say(Word.LEASES, 1)


def test_after_the_end_nothing_is_said() -> None:
    stream = a_stream(Side.WORKER)
    stream.end()

    assert not any(stream.may_say(word) for word in Word)

"""Messages of the workers' service say what the types of the port say, and nothing gets lost on the way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.model.ids import LeaseId, Place, RunId, WorkerId
from tenuto.ports.gateway import (
    Beat,
    Failed,
    Lease,
    Note,
    NoteKind,
    Report,
    Result,
    Success,
    Verdict,
    WorkerInfo,
)
from tenuto.proto.worker.v1 import worker_pb2 as pb
from tenuto.rpc.mapping import (
    Malformed,
    beat_to,
    beats_of,
    lease_batches,
    lease_of,
    lease_to,
    note_batches,
    note_to,
    notes_of,
    register_to,
    report_of,
    report_to,
    result_batches,
    too_large,
    unsayable,
    verdicts_of,
    verdicts_to,
    worker_of,
)
from tenuto.rpc.wire import BATCH_BYTES, REPORTS_MAX

# Text as it may stand in a database: no NUL, no broken Unicode.
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
names = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20)
durations = st.integers(0, 2**53)
counts = st.integers(1, 2**31 - 1)
ids = {
    "run_id": names.map(RunId),
    "place": names.map(Place),
    "lease_id": names.map(LeaseId),
}
beats = st.builds(Beat, **ids, alive=st.booleans())
leases = st.builds(
    Lease,
    **ids,
    name=names,
    queue=names,
    attempt=counts,
    input=words,
    lease_us=durations,
    attempt_us=st.none() | durations,
    heartbeat_us=st.none() | durations,
)
outputs = st.sampled_from(['"é"', "null", "0", "[]", '{"a":[1.5,true]}', str(2**64 - 1)])
failures = st.builds(
    Failed,
    code=names,
    message=words,
    details=st.none() | outputs,
    retryable=st.booleans(),
    retry_after_us=durations,
    classes=st.lists(words, max_size=3).map(tuple),
)
reports = st.builds(
    Report, **ids, attempt=counts, result=outputs.map(lambda t: Success(output=t)) | failures
)
notes = st.builds(
    Note,
    run_id=ids["run_id"],
    place=ids["place"],
    attempt=counts,
    number=durations,
    kind=st.sampled_from(NoteKind),
    text=words,
    age_us=durations,
)


@given(beats, leases, reports, notes)
def test_what_was_said_is_what_is_heard(
    beat: Beat, lease: Lease, report: Report, note: Note
) -> None:
    assert beats_of([over_the_wire(beat_to(beat))]) == [beat]
    assert lease_of(over_the_wire(lease_to(lease))) == lease
    assert report_of(over_the_wire(report_to(report))) == report
    assert notes_of([over_the_wire(note_to(note))]) == [note]


def over_the_wire(message: Any) -> Any:
    return type(message).FromString(message.SerializeToString())


def test_all_verdicts_are_told_in_order_and_unknown_ones_are_harmless() -> None:
    assert verdicts_of(verdicts_to(Verdict)) == tuple(Verdict)
    assert verdicts_of([9]) == (Verdict.STALE,)  # type: ignore[list-item]


def test_a_worker_says_who_it_is() -> None:
    worker = WorkerInfo(
        id=WorkerId("w-1"),
        queues=("a", "b"),
        names=("x",),
        capacity=7,
        labels=(("host", "h"), ("zone", "z")),
        version="1.2",
    )
    held = Beat(run_id=RunId("r"), place=Place("p"), lease_id=LeaseId("l"))

    message = over_the_wire(register_to(worker, [held]))

    assert worker_of(message) == worker
    assert beats_of(message.held) == [held]


def a_report(result: Result | None = None) -> Report:
    return Report(
        run_id=RunId("r"),
        place=Place("p"),
        attempt=1,
        lease_id=LeaseId("l"),
        result=result or Success(output="1"),
    )


def test_broken_unicode_in_a_failure_is_said_as_well_as_can_be() -> None:
    broken = Failed(code="c\ud800", message="m\ud800", details='"\ud800"', classes=("k\ud800",))

    message = report_to(a_report(broken))

    assert (message.failure.code, message.failure.message) == ("c?", "m?")
    assert (message.failure.details, list(message.failure.classes)) == ('"?"', ["k?"])


def test_a_note_of_a_later_kind_is_refused() -> None:
    with pytest.raises(Malformed, match="9 is no kind of line"):
        notes_of([pb.Line(kind=9)])  # type: ignore[arg-type]


def test_what_cannot_be_sent_is_a_failure_for_good_under_the_same_lease() -> None:
    for instead, code in (
        (too_large(a_report(), 9_000_000), "payload_too_large"),
        (unsayable(a_report()), "invalid_result"),
    ):
        assert (instead.run_id, instead.lease_id, instead.attempt) == ("r", "l", 1)
        assert isinstance(instead.result, Failed)
        assert (instead.result.code, instead.result.retryable) == (code, False)


def test_batches_keep_to_bytes_and_count_and_lose_nothing() -> None:
    large = [report_to(a_report(Success(output=f'"{"x" * 900_000}"'))) for _ in range(5)]
    small = [report_to(a_report()) for _ in range(REPORTS_MAX + 1)]
    huge = [report_to(a_report(Success(output="x" * (BATCH_BYTES + 1))))]

    assert [len(batch) for batch in result_batches(large)] == [2, 2, 1]
    assert [len(batch) for batch in result_batches(small)] == [REPORTS_MAX, 1]
    assert [len(batch) for batch in result_batches([*small[:1], *huge, *small[:1]])] == [1, 1, 1]
    assert list(lease_batches([])) == [[]]


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "x" * 1_001], ids=repr)
@pytest.mark.parametrize("field", ["run_id", "place", "lease_id"])
def test_a_lease_whose_name_no_store_can_hold_is_refused(field: str, name: str) -> None:
    named: dict[str, Any] = {"run_id": "r", "place": "p", "lease_id": "l"} | {field: name}

    with pytest.raises(Malformed, match="a lease is named by"):
        beats_of([pb.Beat(**named)])
    with pytest.raises(Malformed, match="a lease is named by"):
        report_of(pb.Result(**named, attempt=1, output="1"))
    if field != "lease_id":
        del named["lease_id"]
        with pytest.raises(Malformed, match="a line names its attempt"):
            notes_of([pb.Line(**named, attempt=1, kind=pb.KIND_LOG)])


@pytest.mark.parametrize(
    ("columns", "trouble"),
    [
        ({"worker": " "}, "printable characters"),
        ({"worker": "a\0b"}, "printable characters"),
        ({"capacity": 0}, "capacity is 1 to 10,000"),
        ({"capacity": 2**31 - 1}, "capacity is 1 to 10,000"),
        ({"queues": ["a\0b"]}, "is no name of a queue"),
        ({"queues": [""]}, "is no name of a queue"),
        ({"names": ["a\0b"]}, "is no name of a task"),
        ({"names": ["x" * 1_001]}, "is no name of a task"),
        ({"names": [f"n{number}" for number in range(20_001)]}, "at most 20,000"),
        ({"labels": {"a\0": "b"}}, "labels"),
        ({"labels": {f"l{number}": "x" for number in range(65)}}, "at most 64 labels"),
        ({"version": "v" * 101}, "a version has"),
    ],
)
def test_a_worker_that_cannot_be_is_refused(columns: dict[str, Any], trouble: str) -> None:
    usual: dict[str, Any] = {"worker": "w-1", "queues": ["q"], "names": ["n"], "capacity": 1}

    with pytest.raises(Malformed, match=trouble):
        worker_of(pb.Register(**(usual | columns)))


def test_more_than_a_worker_can_hold_or_say_at_once_is_refused() -> None:
    beat = pb.Beat(run_id="r", place="p", lease_id="l")
    line = pb.Line(run_id="r", place="p", attempt=1, kind=pb.KIND_LOG)

    with pytest.raises(Malformed, match="10,001 leases in one message"):
        beats_of([beat] * 10_001)
    with pytest.raises(Malformed, match="5,001 lines in one message"):
        notes_of([line] * 5_001)
    with pytest.raises(Malformed, match="counted from"):
        notes_of([pb.Line(run_id="r", place="p", attempt=-1, kind=pb.KIND_LOG)])


def test_a_failure_is_cut_to_what_is_kept() -> None:
    huge = pb.Failure(code="c\0" * 10_000, message="m\0" * 100_000, classes=["k\0" * 10_000] * 100)

    result = report_of(
        pb.Result(run_id="r", place="p", lease_id="l", attempt=1, failure=huge)
    ).result

    assert isinstance(result, Failed)
    assert (len(result.code), len(result.classes)) == (100, 16)
    assert len(result.message) == 8_192
    assert not any("\0" in text for text in (result.code, result.message, *result.classes))


def test_what_many_attempts_said_in_long_words_goes_in_several_messages() -> None:
    note = Note(
        run_id=RunId("r"),
        place=Place("p"),
        attempt=1,
        number=1,
        kind=NoteKind.STDOUT,
        text="字" * 8_192,
        age_us=0,
    )

    batches = list(note_batches([note] * 500))

    assert sum(map(len, batches)) == 500
    assert all(sum(line.ByteSize() for line in lines) <= BATCH_BYTES for lines in batches)

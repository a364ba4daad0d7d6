"""Between the messages of `worker.proto` and the types of `ports.gateway`: two functions for each, total, no decisions.

What a worker of somebody else's may have sent wrongly is refused as `Malformed`, except a result's own value: that is
judged like any user's (`_output_of`), since only this one attempt should suffer from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

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
from tenuto.rpc.wire import (
    BATCH_BYTES,
    CAPACITY_MAX,
    CLASSES_MAX,
    CODE_MAX,
    ID_MAX,
    LABELS_MAX,
    LINES_MAX,
    NAMES_MAX,
    PROTOCOL,
    REPORTS_MAX,
    TEXT_MAX,
    VERSION_MAX,
    WORKER_MAX,
)
from tenuto.runtime.results import INVALID_RESULT, Refused, canonical, parse

T = TypeVar("T", pb.Task, pb.Result, pb.Line)

_INT32_MAX = 2**31 - 1
_AGE_MAX_US = 2**53

_VERDICTS: Mapping[Verdict, pb.Verdict] = {
    Verdict.OK: pb.VERDICT_OK,
    Verdict.CANCELLED: pb.VERDICT_CANCELLED,
    Verdict.STALE: pb.VERDICT_STALE,
}
_FROM_VERDICTS = {number: verdict for verdict, number in _VERDICTS.items()}

_KINDS: Mapping[NoteKind, pb.Kind] = {
    NoteKind.STDOUT: pb.KIND_STDOUT,
    NoteKind.STDERR: pb.KIND_STDERR,
    NoteKind.LOG: pb.KIND_LOG,
    NoteKind.PROGRESS: pb.KIND_PROGRESS,
}
_FROM_KINDS = {number: kind for kind, number in _KINDS.items()}


class Malformed(Exception):
    """A message that makes no sense; the text says why."""


def clean(text: str) -> str:
    """Text that protobuf can hold: broken Unicode becomes `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _is_text(text: str, longest: int) -> bool:
    """Whether it is something that a store can hold and a person can read."""
    return 0 < len(text) <= longest and text.isprintable()


def _check_names(message: pb.Beat | pb.Result) -> None:
    for name in (message.run_id, message.place, message.lease_id):
        if not _is_text(name, ID_MAX):
            raise Malformed(
                "a lease is named by `run_id`, `place` and `lease_id`, as it was granted"
            )


# -- who a worker is ---------------------------------------------------------------------------------------------------


def register_to(worker: WorkerInfo, held: Sequence[Beat]) -> pb.Register:
    """As `register` says it."""
    return pb.Register(
        protocol=PROTOCOL,
        worker=worker.id,
        queues=worker.queues,
        names=worker.names,
        capacity=worker.capacity,
        labels=dict(worker.labels),
        version=worker.version,
        held=map(beat_to, held),
    )


def worker_of(message: pb.Register) -> WorkerInfo:
    """Raises Malformed: no usable id, a capacity, names or queues that no worker has."""
    if not _is_text(message.worker, WORKER_MAX) or not message.worker.strip():
        raise Malformed(f"a worker's id has 1 to {WORKER_MAX} printable characters")
    if not 1 <= message.capacity <= CAPACITY_MAX:
        raise Malformed(f"a worker's capacity is 1 to {CAPACITY_MAX:,}, not {message.capacity}")
    if len(message.queues) + len(message.names) > NAMES_MAX:
        raise Malformed(f"a worker has at most {NAMES_MAX:,} queues and names together")
    for what, given in (("queue", message.queues), ("task", message.names)):
        for name in given:
            if not _is_text(name, ID_MAX):
                raise Malformed(f"{name[:ID_MAX]!r} is no name of a {what}")
    labels = message.labels.items()
    if len(labels) > LABELS_MAX or not all(
        _is_text(text, ID_MAX) for label in labels for text in label
    ):
        raise Malformed(f"a worker has at most {LABELS_MAX} labels, of {ID_MAX} characters each")
    if message.version and not _is_text(message.version, VERSION_MAX):
        raise Malformed(f"a version has at most {VERSION_MAX} printable characters")
    return WorkerInfo(
        id=WorkerId(message.worker),
        queues=tuple(message.queues),
        names=tuple(message.names),
        capacity=message.capacity,
        labels=tuple(sorted(message.labels.items())),
        version=message.version,
    )


# -- leases ------------------------------------------------------------------------------------------------------------


def beat_to(beat: Beat) -> pb.Beat:
    """One lease, by its names."""
    return pb.Beat(run_id=beat.run_id, place=beat.place, lease_id=beat.lease_id, alive=beat.alive)


def beats_of(messages: Sequence[pb.Beat]) -> list[Beat]:
    """Raises Malformed: more than a worker can hold, or names that no lease has."""
    if len(messages) > CAPACITY_MAX:
        raise Malformed(f"{len(messages):,} leases in one message: at most {CAPACITY_MAX:,}")
    return [_beat_of(message) for message in messages]


def _beat_of(message: pb.Beat) -> Beat:
    _check_names(message)
    return Beat(
        run_id=RunId(message.run_id),
        place=Place(message.place),
        lease_id=LeaseId(message.lease_id),
        alive=message.alive,
    )


def lease_to(lease: Lease) -> pb.Task:
    """The right to one attempt."""
    return pb.Task(
        run_id=lease.run_id,
        place=lease.place,
        lease_id=lease.lease_id,
        name=lease.name,
        queue=lease.queue,
        attempt=lease.attempt,
        input=lease.input,
        lease_us=lease.lease_us,
        attempt_us=lease.attempt_us,
        heartbeat_us=lease.heartbeat_us,
    )


def lease_of(message: pb.Task) -> Lease:
    """The right to one attempt."""
    return Lease(
        run_id=RunId(message.run_id),
        place=Place(message.place),
        lease_id=LeaseId(message.lease_id),
        name=message.name,
        queue=message.queue,
        attempt=message.attempt,
        input=message.input,
        lease_us=message.lease_us,
        attempt_us=message.attempt_us if message.HasField("attempt_us") else None,
        heartbeat_us=message.heartbeat_us if message.HasField("heartbeat_us") else None,
    )


def beats_on(leases: Iterable[Lease]) -> list[Beat]:
    """The names of leases."""
    return [Beat(run_id=each.run_id, place=each.place, lease_id=each.lease_id) for each in leases]


def lease_batches(leases: Sequence[Lease]) -> Iterator[list[pb.Task]]:
    """Leases in messages' worth, at least one of them, which may be empty."""
    return _batches([lease_to(lease) for lease in leases], _INT32_MAX)


# -- results -----------------------------------------------------------------------------------------------------------


def report_to(report: Report) -> pb.Result:
    """How an attempt ended."""
    message = pb.Result(
        run_id=report.run_id,
        place=report.place,
        attempt=report.attempt,
        lease_id=report.lease_id,
    )
    result = report.result
    if isinstance(result, Success):
        message.output = result.output
    else:
        message.failure.CopyFrom(_failure_to(result))
    return message


def _failure_to(result: Failed) -> pb.Failure:
    return pb.Failure(
        code=clean(result.code),
        message=clean(result.message),
        details=clean(result.details or ""),
        permanent=not result.retryable,
        retry_after_us=result.retry_after_us,
        classes=map(clean, result.classes),
    )


def report_of(message: pb.Result) -> Report:
    """Raises Malformed: neither output nor failure, no attempt, or names that no lease has."""
    _check_names(message)
    if message.attempt < 1:
        raise Malformed("an attempt is counted from 1")
    return Report(
        run_id=RunId(message.run_id),
        place=Place(message.place),
        attempt=message.attempt,
        lease_id=LeaseId(message.lease_id),
        result=_result_of(message),
    )


def _result_of(message: pb.Result) -> Result:
    if message.HasField("output"):
        return _output_of(message.output)
    if not message.HasField("failure"):
        raise Malformed("a result is an output or a failure")
    failure = message.failure
    return Failed(
        code=failure.code[:CODE_MAX].replace("\0", "") or "failed",
        message=failure.message[:TEXT_MAX].replace("\0", ""),
        details=_details_of(failure.details),
        retryable=not failure.permanent,
        retry_after_us=max(0, failure.retry_after_us),
        classes=tuple(name[:CODE_MAX].replace("\0", "") for name in failure.classes[:CLASSES_MAX]),
    )


def _output_of(text: str) -> Result:
    """Past the door of results, as if the worker had not been there: it may be anybody's."""
    try:
        return Success(output=canonical(parse(text, name="result")))
    except Refused as refused:
        code = refused.code if refused.code != "invalid_json" else INVALID_RESULT
        return Failed(code=code, message=refused.message, retryable=False)


def _details_of(text: str) -> str | None:
    """A JSON object, or nothing: what is no JSON is not worth an attempt."""
    if not text:
        return None
    try:
        return canonical(parse(text, name="details"))
    except Refused as refused:
        return canonical({"refused": refused.message})


def too_large(report: Report, size: int) -> Report:
    """The report to send in the place of one that no message can hold."""
    return _instead(
        report,
        "payload_too_large",
        f"the result has {size:,} bytes, more than a message to the server can hold:"
        " store the data elsewhere and return a reference to it",
    )


def unsayable(report: Report) -> Report:
    """The report to send in the place of one whose text is broken Unicode."""
    return _instead(report, INVALID_RESULT, "the result holds a lone surrogate (broken Unicode)")


def _instead(report: Report, code: str, message: str) -> Report:
    return replace(report, result=Failed(code=code, message=message, retryable=False))


def result_batches(messages: Sequence[pb.Result]) -> Iterator[list[pb.Result]]:
    """Results in messages' worth, at least one of them."""
    return _batches(messages, REPORTS_MAX)


def _batches(messages: Sequence[T], count: int) -> Iterator[list[T]]:
    batch: list[T] = []
    size = 0
    for message in messages:
        grown = size + message.ByteSize()
        if batch and (grown > BATCH_BYTES or len(batch) >= count):
            yield batch
            batch, grown = [], grown - size
        batch.append(message)
        size = grown
    yield batch


def verdicts_to(verdicts: Iterable[Verdict]) -> list[pb.Verdict]:
    """In order."""
    return [_VERDICTS[verdict] for verdict in verdicts]


def verdicts_of(messages: Iterable[pb.Verdict]) -> tuple[Verdict, ...]:
    """In order; one of a later version counts as stale, which harms nobody."""
    return tuple(_FROM_VERDICTS.get(message, Verdict.STALE) for message in messages)


# -- notes -------------------------------------------------------------------------------------------------------------


def note_to(note: Note) -> pb.Line:
    """What an attempt said."""
    return pb.Line(
        run_id=note.run_id,
        place=note.place,
        attempt=note.attempt,
        number=note.number,
        kind=_KINDS[note.kind],
        text=clean(note.text),
        age_us=note.age_us,
    )


def notes_of(messages: Sequence[pb.Line]) -> list[Note]:
    """Raises Malformed: too many lines, one of no known kind, or names that no attempt has."""
    if len(messages) > LINES_MAX:
        raise Malformed(f"{len(messages):,} lines in one message: at most {LINES_MAX:,}")
    return [_note_of(message) for message in messages]


def _note_of(message: pb.Line) -> Note:
    kind = _FROM_KINDS.get(message.kind)
    if kind is None:
        raise Malformed(f"{message.kind} is no kind of line")
    if not _is_text(message.run_id, ID_MAX) or not _is_text(message.place, ID_MAX):
        raise Malformed("a line names its attempt by `run_id` and `place`")
    if message.attempt < 1 or message.number < 0:
        raise Malformed("attempts are counted from 1, lines from 0")
    return Note(
        run_id=RunId(message.run_id),
        place=Place(message.place),
        attempt=message.attempt,
        number=message.number,
        kind=kind,
        text=message.text.replace("\0", "�"),
        age_us=min(max(0, message.age_us), _AGE_MAX_US),
    )


def note_batches(notes: Sequence[Note]) -> Iterator[list[pb.Line]]:
    """What attempts said in messages' worth, at least one of them."""
    return _batches([note_to(note) for note in notes], LINES_MAX)

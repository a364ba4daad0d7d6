# sha256 of worker.proto: 655b8b6e96825ce5f0e6cde23ec52b3c45f7fb0292e44454f9d9d60795717678
"""Made from `proto/tenuto/worker/v1/worker.proto` by scripts/gen_proto.py. Not to be edited."""

from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KIND_UNSPECIFIED: _ClassVar[Kind]
    KIND_STDOUT: _ClassVar[Kind]
    KIND_STDERR: _ClassVar[Kind]
    KIND_LOG: _ClassVar[Kind]
    KIND_PROGRESS: _ClassVar[Kind]

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    VERDICT_OK: _ClassVar[Verdict]
    VERDICT_CANCELLED: _ClassVar[Verdict]
    VERDICT_STALE: _ClassVar[Verdict]

class Code(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CODE_UNSPECIFIED: _ClassVar[Code]
    CODE_UNAVAILABLE: _ClassVar[Code]
    CODE_DENIED: _ClassVar[Code]
    CODE_INVALID: _ClassVar[Code]
KIND_UNSPECIFIED: Kind
KIND_STDOUT: Kind
KIND_STDERR: Kind
KIND_LOG: Kind
KIND_PROGRESS: Kind
VERDICT_UNSPECIFIED: Verdict
VERDICT_OK: Verdict
VERDICT_CANCELLED: Verdict
VERDICT_STALE: Verdict
CODE_UNSPECIFIED: Code
CODE_UNAVAILABLE: Code
CODE_DENIED: Code
CODE_INVALID: Code

class FromWorker(_message.Message):
    __slots__ = ("call", "register", "lease", "cancel", "heartbeat", "report", "note", "release", "lose", "leave")
    CALL_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    LOSE_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    call: int
    register: Register
    lease: Lease
    cancel: Cancel
    heartbeat: Heartbeat
    report: Report
    note: Note
    release: Release
    lose: Lose
    leave: Leave
    def __init__(self, call: _Optional[int] = ..., register: _Optional[_Union[Register, _Mapping]] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., note: _Optional[_Union[Note, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., lose: _Optional[_Union[Lose, _Mapping]] = ..., leave: _Optional[_Union[Leave, _Mapping]] = ...) -> None: ...

class FromServer(_message.Message):
    __slots__ = ("call", "welcome", "part", "leases", "verdicts", "reported", "done", "failed", "drain", "left")
    CALL_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    REPORTED_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    call: int
    welcome: Welcome
    part: Leases
    leases: Leases
    verdicts: Verdicts
    reported: Reported
    done: Done
    failed: Failed
    drain: Drain
    left: Left
    def __init__(self, call: _Optional[int] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., part: _Optional[_Union[Leases, _Mapping]] = ..., leases: _Optional[_Union[Leases, _Mapping]] = ..., verdicts: _Optional[_Union[Verdicts, _Mapping]] = ..., reported: _Optional[_Union[Reported, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., failed: _Optional[_Union[Failed, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ..., left: _Optional[_Union[Left, _Mapping]] = ...) -> None: ...

class Register(_message.Message):
    __slots__ = ("protocol", "worker", "queues", "names", "capacity", "labels", "version", "held")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    worker: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    names: _containers.RepeatedScalarFieldContainer[str]
    capacity: int
    labels: _containers.ScalarMap[str, str]
    version: str
    held: _containers.RepeatedCompositeFieldContainer[Beat]
    def __init__(self, protocol: _Optional[int] = ..., worker: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., names: _Optional[_Iterable[str]] = ..., capacity: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., version: _Optional[str] = ..., held: _Optional[_Iterable[_Union[Beat, _Mapping]]] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("free", "wait_us")
    FREE_FIELD_NUMBER: _ClassVar[int]
    WAIT_US_FIELD_NUMBER: _ClassVar[int]
    free: int
    wait_us: int
    def __init__(self, free: _Optional[int] = ..., wait_us: _Optional[int] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("beats", "busy", "capacity", "lag_us")
    BEATS_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    LAG_US_FIELD_NUMBER: _ClassVar[int]
    beats: _containers.RepeatedCompositeFieldContainer[Beat]
    busy: int
    capacity: int
    lag_us: int
    def __init__(self, beats: _Optional[_Iterable[_Union[Beat, _Mapping]]] = ..., busy: _Optional[int] = ..., capacity: _Optional[int] = ..., lag_us: _Optional[int] = ...) -> None: ...

class Beat(_message.Message):
    __slots__ = ("run_id", "place", "lease_id", "alive")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    place: str
    lease_id: str
    alive: bool
    def __init__(self, run_id: _Optional[str] = ..., place: _Optional[str] = ..., lease_id: _Optional[str] = ..., alive: bool = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("results", "want")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    WANT_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[Result]
    want: int
    def __init__(self, results: _Optional[_Iterable[_Union[Result, _Mapping]]] = ..., want: _Optional[int] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("run_id", "place", "attempt", "lease_id", "output", "failure")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    place: str
    attempt: int
    lease_id: str
    output: str
    failure: Failure
    def __init__(self, run_id: _Optional[str] = ..., place: _Optional[str] = ..., attempt: _Optional[int] = ..., lease_id: _Optional[str] = ..., output: _Optional[str] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("code", "message", "details", "permanent", "retry_after_us", "classes")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    PERMANENT_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_US_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    details: str
    permanent: bool
    retry_after_us: int
    classes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., details: _Optional[str] = ..., permanent: bool = ..., retry_after_us: _Optional[int] = ..., classes: _Optional[_Iterable[str]] = ...) -> None: ...

class Note(_message.Message):
    __slots__ = ("lines",)
    LINES_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedCompositeFieldContainer[Line]
    def __init__(self, lines: _Optional[_Iterable[_Union[Line, _Mapping]]] = ...) -> None: ...

class Line(_message.Message):
    __slots__ = ("run_id", "place", "attempt", "number", "kind", "text", "age_us")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    AGE_US_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    place: str
    attempt: int
    number: int
    kind: Kind
    text: str
    age_us: int
    def __init__(self, run_id: _Optional[str] = ..., place: _Optional[str] = ..., attempt: _Optional[int] = ..., number: _Optional[int] = ..., kind: _Optional[_Union[Kind, str]] = ..., text: _Optional[str] = ..., age_us: _Optional[int] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("beats",)
    BEATS_FIELD_NUMBER: _ClassVar[int]
    beats: _containers.RepeatedCompositeFieldContainer[Beat]
    def __init__(self, beats: _Optional[_Iterable[_Union[Beat, _Mapping]]] = ...) -> None: ...

class Lose(_message.Message):
    __slots__ = ("beats",)
    BEATS_FIELD_NUMBER: _ClassVar[int]
    beats: _containers.RepeatedCompositeFieldContainer[Beat]
    def __init__(self, beats: _Optional[_Iterable[_Union[Beat, _Mapping]]] = ...) -> None: ...

class Leave(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("protocol", "version", "lease_us", "limits", "notes")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LEASE_US_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    version: str
    lease_us: int
    limits: Limits
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, protocol: _Optional[int] = ..., version: _Optional[str] = ..., lease_us: _Optional[int] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("message_bytes", "payload_bytes", "calls", "reports", "wait_us")
    MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    WAIT_US_FIELD_NUMBER: _ClassVar[int]
    message_bytes: int
    payload_bytes: int
    calls: int
    reports: int
    wait_us: int
    def __init__(self, message_bytes: _Optional[int] = ..., payload_bytes: _Optional[int] = ..., calls: _Optional[int] = ..., reports: _Optional[int] = ..., wait_us: _Optional[int] = ...) -> None: ...

class Leases(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    def __init__(self, tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("run_id", "place", "lease_id", "name", "queue", "attempt", "input", "lease_us", "attempt_us", "heartbeat_us")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    LEASE_US_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_US_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_US_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    place: str
    lease_id: str
    name: str
    queue: str
    attempt: int
    input: str
    lease_us: int
    attempt_us: int
    heartbeat_us: int
    def __init__(self, run_id: _Optional[str] = ..., place: _Optional[str] = ..., lease_id: _Optional[str] = ..., name: _Optional[str] = ..., queue: _Optional[str] = ..., attempt: _Optional[int] = ..., input: _Optional[str] = ..., lease_us: _Optional[int] = ..., attempt_us: _Optional[int] = ..., heartbeat_us: _Optional[int] = ...) -> None: ...

class Verdicts(_message.Message):
    __slots__ = ("verdicts",)
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    verdicts: _containers.RepeatedScalarFieldContainer[Verdict]
    def __init__(self, verdicts: _Optional[_Iterable[_Union[Verdict, str]]] = ...) -> None: ...

class Reported(_message.Message):
    __slots__ = ("verdicts", "tasks")
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    verdicts: _containers.RepeatedScalarFieldContainer[Verdict]
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    def __init__(self, verdicts: _Optional[_Iterable[_Union[Verdict, str]]] = ..., tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Left(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Failed(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: Code
    message: str
    def __init__(self, code: _Optional[_Union[Code, str]] = ..., message: _Optional[str] = ...) -> None: ...

class Drain(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

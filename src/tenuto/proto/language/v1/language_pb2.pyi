# sha256 of language.proto: fbfa5a1984a70e9b25fa9bc59b1263a79b48198ff3e2d5aa46fb169ab9724da3
"""Made from `proto/tenuto/language/v1/language.proto` by scripts/gen_proto.py. Not to be edited."""

from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Stream(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STREAM_UNSPECIFIED: _ClassVar[Stream]
    STREAM_STDOUT: _ClassVar[Stream]
    STREAM_STDERR: _ClassVar[Stream]
STREAM_UNSPECIFIED: Stream
STREAM_STDOUT: Stream
STREAM_STDERR: Stream

class ExecuteRequest(_message.Message):
    __slots__ = ("id", "language", "code", "params", "limits")
    ID_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    id: str
    language: str
    code: str
    params: str
    limits: Limits
    def __init__(self, id: _Optional[str] = ..., language: _Optional[str] = ..., code: _Optional[str] = ..., params: _Optional[str] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("time_ms", "memory_bytes", "output_bytes")
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    time_ms: int
    memory_bytes: int
    output_bytes: int
    def __init__(self, time_ms: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., output_bytes: _Optional[int] = ...) -> None: ...

class ExecuteReply(_message.Message):
    __slots__ = ("lines", "result")
    LINES_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    lines: Lines
    result: Result
    def __init__(self, lines: _Optional[_Union[Lines, _Mapping]] = ..., result: _Optional[_Union[Result, _Mapping]] = ...) -> None: ...

class Lines(_message.Message):
    __slots__ = ("lines",)
    LINES_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedCompositeFieldContainer[Line]
    def __init__(self, lines: _Optional[_Iterable[_Union[Line, _Mapping]]] = ...) -> None: ...

class Line(_message.Message):
    __slots__ = ("stream", "text")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    stream: Stream
    text: str
    def __init__(self, stream: _Optional[_Union[Stream, str]] = ..., text: _Optional[str] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("output", "failure", "lines_dropped", "confinement")
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    LINES_DROPPED_FIELD_NUMBER: _ClassVar[int]
    CONFINEMENT_FIELD_NUMBER: _ClassVar[int]
    output: str
    failure: Failure
    lines_dropped: int
    confinement: str
    def __init__(self, output: _Optional[str] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., lines_dropped: _Optional[int] = ..., confinement: _Optional[str] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("code", "message", "details", "retryable")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    details: str
    retryable: bool
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., details: _Optional[str] = ..., retryable: bool = ...) -> None: ...

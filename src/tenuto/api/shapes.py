"""What all documents and bodies of REST have in common, as types (`models`, `nested`)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

RunStateName = Literal[
    "pending", "running", "paused", "closing", "success", "failed", "cancelled", "timed_out"
]
TaskStateName = Literal["pending", "running", "retry", "success", "dead", "cancelled"]
Instant = Annotated[
    str,
    Field(description="RFC 3339 in UTC", json_schema_extra={"format": "date-time"}),
]
Json = Any


class Document(BaseModel):
    """What is answered."""

    model_config = ConfigDict(extra="forbid")


class Body(BaseModel):
    """What is sent: unknown fields are refused, nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


VarName = Annotated[str, Field(max_length=200)]

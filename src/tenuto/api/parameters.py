"""Parameters of paths and queries, with their descriptions, bounds and examples."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from tenuto.api.problems import Problem
from tenuto.api.shapes import RunStateName, TaskStateName
from tenuto.model.instants import parse_instant
from tenuto.views.answers import HISTORY_MAX, LIMIT_MAX

RunPath = Annotated[
    str,
    Path(
        description="the run's id, or its beginning or end",
        examples=["01980000-0000-7000-8000-000000000001"],
    ),
]
NamePath = Annotated[str, Path(description="the workflow's name", examples=["hello"])]
NamedPath = Annotated[
    str,
    Path(
        description="the workflow's name; `hello@3` and `hello@stable` name a version of it",
        examples=["hello"],
    ),
]
AliasPath = Annotated[str, Path(description="the alias", examples=["stable"])]
Old = Annotated[
    str | None,
    Query(alias="from", description="a number or an alias; the version before `to` by default"),
]
New = Annotated[
    str | None, Query(alias="to", description="a number or an alias; the newest by default")
]
VersionPath = Annotated[int, Path(ge=1, le=2**31 - 1, description="the number of the version")]
NodePath = Annotated[
    str, Path(description="the node's id, or a place of it such as `poll.3`", examples=["charge"])
]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="entries of a page")]
Cursor = Annotated[
    str | None, Query(max_length=512, description="`next` of the page before", examples=[None])
]
WorkflowQuery = Annotated[str | None, Query(description="only runs of this workflow")]
RunStates = Annotated[
    list[RunStateName], Query(description="only runs in this state; several times for several")
]
ParentQuery = Annotated[
    str | None, Query(description="only runs that this one called: its id, or the beginning or end")
]
Children = Annotated[bool, Query(description="with runs that another one called")]
DryRun = Annotated[bool, Query(description="only say what would be done")]
KeyQuery = Annotated[str | None, Query(description="only the run with this idempotency key")]
Since = Annotated[
    str | None,
    Query(
        description="created at or after; RFC 3339 with an offset",
        json_schema_extra={"format": "date-time"},
    ),
]
Until = Annotated[
    str | None,
    Query(
        description="created before; RFC 3339 with an offset",
        json_schema_extra={"format": "date-time"},
    ),
]
After = Annotated[int, Query(ge=0, le=2**62, description="only events with a higher number")]
HistoryLimit = Annotated[int, Query(ge=1, le=HISTORY_MAX, description="events of a page")]
NodeQuery = Annotated[str | None, Query(description="only of this node, or of a place of it")]
Timeout = Annotated[
    float, Query(ge=0, le=60, description="seconds, at most 60; the run itself goes on")
]
Wait = Annotated[
    float,
    Query(
        ge=0,
        le=60,
        description="wait so long for the run's end, in seconds, at most 60; the run itself goes on",
    ),
]
TaskStates = Annotated[
    list[TaskStateName], Query(description="only tasks in this state; several times for several")
]
ItemStates = Annotated[
    list[TaskStateName], Query(description="only items in this state; several times for several")
]
QueueQuery = Annotated[str | None, Query(description="only tasks of this queue")]
EventQuery = Annotated[str | None, Query(description="only waits for this event")]


def instant(text: str | None, name: str) -> int | None:
    """A moment of a query in microseconds. Raises Problem (invalid_input)."""
    if text is None:
        return None
    try:
        # A plus that was not written as %2B arrives as a space.
        return parse_instant(text.strip().replace(" ", "+") if text.count(" ") == 1 else text)
    except (ValueError, OverflowError) as error:
        raise Problem("invalid_input", f"{name}: {error}", path=name) from None

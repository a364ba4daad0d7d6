"""Documents and bodies of REST for events that are sent."""

from __future__ import annotations

from pydantic import Field

from tenuto.api.shapes import Body, Document, Json

EVENTS_MAX = 500
"""Events that one request may send: as many as it may start runs."""


class Stored(Document):
    """Whether an event was new."""

    stored: bool = Field(description="false: an event with this id was sent before")


class StoredMany(Document):
    """Which events were new, in the order in which they were sent."""

    items: list[Stored]


class EventBody(Body):
    """An event for whoever waits for it."""

    event: str = Field(min_length=1, max_length=512, examples=["order.approved"])
    key: str = Field(max_length=512, examples=["A-1"])
    payload: Json = Field(default=None, description="any JSON value; the output of the wait")
    event_id: str | None = Field(
        default=None, min_length=1, max_length=512, description="a second one with it is dropped"
    )
    keep: str | None = Field(
        default=None, max_length=40, description="how long it waits for a wait", examples=["1h"]
    )


class EventsBody(Body):
    """Events for whoever waits for them."""

    events: list[EventBody] = Field(
        min_length=1, max_length=EVENTS_MAX, description="1 to 500 of them"
    )

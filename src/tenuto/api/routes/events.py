"""`/v1/events`: messages for runs that wait, and what is waited for."""

from __future__ import annotations

from enum import Enum
from typing import Any

from fastapi import FastAPI, Request, Response

from tenuto.api.bodies import JSON, read_body
from tenuto.api.messages import EventBody, EventsBody, Stored, StoredMany
from tenuto.api.models import AwaitedPage
from tenuto.api.nested import Heard, HeartbeatBody
from tenuto.api.parameters import EventQuery
from tenuto.api.service import UNSAFE, Service, body_of, encode, responses
from tenuto.api.shapes import Document as Model
from tenuto.coordinator.mailbox import Message
from tenuto.dsl.given import read_keep
from tenuto.dsl.storable import check_word
from tenuto.runtime.results import canonical

TAGS: list[str | Enum] = ["events"]


def add_routes(app: FastAPI, service: Service) -> None:
    """Add the routes."""

    @app.post(
        "/v1/events",
        tags=TAGS,
        summary="Send an event",
        status_code=202,
        responses=_accepted(Stored),
        openapi_extra=body_of(EventBody),
    )
    async def send_event(request: Request) -> Response:
        """The oldest wait for (event, key) takes it, now or when it opens within `keep`, by default seven days."""
        body = await read_body(request, EventBody)
        [stored] = await service.backend.commands.send_events([_message(body, "")])
        return Response(encode({"stored": stored}), status_code=202, media_type=JSON)

    @app.post(
        "/v1/events/batch",
        tags=TAGS,
        summary="Send many events",
        status_code=202,
        responses=_accepted(StoredMany),
        openapi_extra=body_of(EventsBody),
    )
    async def send_events(request: Request) -> Response:
        """All are stored when this answers; none is where one of them is wrong. Give each an `event_id`, and a request
        whose answer was lost may be repeated.
        """
        body = await read_body(request, EventsBody)
        messages = [_message(each, f"events.{number}.") for number, each in enumerate(body.events)]
        stored = await service.backend.commands.send_events(messages)
        items = [{"stored": each} for each in stored]
        return Response(encode({"items": items}), status_code=202, media_type=JSON)

    @app.post(
        "/v1/events/heartbeat",
        tags=TAGS,
        summary="Show a sign of life",
        responses=responses(Heard, *UNSAFE),
        openapi_extra=body_of(HeartbeatBody),
    )
    async def heartbeat(request: Request) -> Response:
        """Waits for (event, key) that have a `heartbeat_timeout` count from now again. Nobody waits: no effect."""
        body = await read_body(request, HeartbeatBody)
        check_word(body.event, "event")
        check_word(body.key, "key")
        waits = await service.backend.commands.heartbeat(body.event, body.key)
        return Response(encode({"waits": waits}), media_type=JSON)

    @app.get(
        "/v1/events/awaited",
        tags=TAGS,
        summary="List what is waited for",
        responses=responses(AwaitedPage),
    )
    async def list_awaited(event: EventQuery = None) -> Response:
        """Addresses (event, key), at most 1,000."""
        return await service.answer(lambda answers: answers.list_awaited(event=event))


def _accepted(model: type[Model]) -> dict[int | str, dict[str, Any]]:
    """The answers of a route whose work is done later."""
    answers = responses(model, *UNSAFE)
    answers[202] = answers.pop(200)
    return answers


def _message(body: EventBody, path: str) -> Message:
    """What a body says. `path`: of the body, for what is wrong in it."""
    for word, what in ((body.event, "event"), (body.key, "key"), (body.event_id or "", "event_id")):
        check_word(word, path + what)
    return Message(
        body.event,
        body.key,
        canonical(body.payload, name=f"{path}payload"),
        event_id=body.event_id,
        keep_us=read_keep(body.keep, f"{path}keep"),
    )

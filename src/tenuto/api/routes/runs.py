"""`/v1/runs`: start, list, show, command, wait, export, verify, pictures, streams."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from fastapi import FastAPI, Header, Request, Response
from starlette.types import Receive

from tenuto.api.bodies import read_body
from tenuto.api.models import (
    EventPage,
    Export,
    NotePage,
    RunCounts,
    RunNode,
    RunOutcome,
    RunPage,
    RunReport,
    StartBody,
    StartedRun,
    StartedRuns,
    StartManyBody,
    Verified,
)
from tenuto.api.parameters import (
    After,
    Children,
    Cursor,
    HistoryLimit,
    KeyQuery,
    Limit,
    NamedPath,
    NodePath,
    NodeQuery,
    ParentQuery,
    RunPath,
    RunStates,
    Since,
    Timeout,
    Until,
    Wait,
    WorkflowQuery,
    instant,
)
from tenuto.api.problems import Problem
from tenuto.api.routes import commands, nested
from tenuto.api.routes.workflows import SVG, picture
from tenuto.api.service import JSON, UNSAFE, Service, body_of, encode, responses
from tenuto.api.starting import Starter
from tenuto.api.streams import ChangesStream, EventStream, RunStream
from tenuto.coordinator.commands import Started
from tenuto.dsl.storable import check_word
from tenuto.model.errors import Unavailable
from tenuto.views.answers import LIMIT, LIMIT_MAX, Answers
from tenuto.views.documents import run_document
from tenuto.views.picture import run_svg

TAGS: list[str | Enum] = ["runs"]
_STREAM = {"text/event-stream": {"schema": {"type": "string"}}}


def add_routes(app: FastAPI, service: Service) -> None:
    """Add the routes; fixed paths before those with a run in them."""
    _add_starts(app, service)
    _add_lists(app, service)
    _add_streams(app, service)
    commands.add_routes(app, service)
    nested.add_routes(app, service)
    _add_waiting(app, service)
    _add_details(app, service)
    _add_whole(app, service)


def _add_starts(app: FastAPI, service: Service) -> None:
    starter = Starter(service.backend)

    @app.post(
        "/v1/runs",
        tags=TAGS,
        summary="Start a run",
        responses=responses(
            StartedRun | RunOutcome,
            *UNSAFE,
            "not_found",
            about="The key had its run already (header Deduplicated: true)",
            created="The new run",
        ),
        openapi_extra=body_of(StartBody),
    )
    async def start_run(
        request: Request,
        idempotency_key: Annotated[
            str | None, Header(description="as `key` of the body: one key, one run")
        ] = None,
        wait: Wait = 0.0,
    ) -> Response:
        """It is stored, and will be carried on, when this answers. Repeat it with the same key after a lost answer.

        With `wait` the answer comes when the run is final or the time is up, with its output or error: look at
        `state`. Who hangs up cancels nothing.
        """
        if wait:
            service.held.check()
        body = await read_body(request, StartBody)
        check_word(body.key or "", "key")
        if idempotency_key is not None:
            if body.key not in (None, idempotency_key):
                raise Problem(
                    "invalid_input",
                    "key: the header Idempotency-Key says another; send one of them",
                    path="key",
                )
            if not idempotency_key:
                raise Problem("invalid_input", "Idempotency-Key: is empty", path="Idempotency-Key")
            check_word(idempotency_key, "Idempotency-Key")
        size = len(await request.body())
        started = await starter.start(body, body.key or idempotency_key, size=size)
        again, deduplicated = not started.created, b',"deduplicated":'
        if wait:
            content = await _end_of(service, started, request.receive, wait)
        elif started.row is not None:
            content = encode(run_document(started.row))
        else:
            run_id = started.run_id
            content = encode(await service.backend.glance(lambda each: each.get_run_row(run_id)))
        headers = {"Location": f"/v1/runs/{started.run_id}"}
        return Response(
            content.removesuffix(b"}") + deduplicated + (b"true}" if again else b"false}"),
            status_code=200 if again else 201,
            media_type=JSON,
            headers=headers | ({"Deduplicated": "true"} if again else {}),
        )

    @app.post(
        "/v1/workflows/{name}/runs",
        tags=TAGS,
        summary="Start many runs",
        responses=responses(StartedRuns, *UNSAFE, "not_found"),
        openapi_extra=body_of(StartManyBody),
    )
    async def start_runs(request: Request, name: NamedPath) -> Response:
        """All are stored, and will be carried on, when this answers; none is where one input is wrong. Give each a key,
        and a request whose answer was lost may be repeated.
        """
        body = await read_body(request, StartManyBody)
        for run in body.runs:
            check_word(run.key or "", "key")
        size = len(await request.body())
        started = await starter.start_many(name, body, size=size)
        items = [{"run_id": each.run_id, "deduplicated": not each.created} for each in started]
        return Response(encode({"items": items}), media_type=JSON)


async def _end_of(service: Service, started: Started, receive: Receive, within_s: float) -> bytes:
    """What a run that was started came to, or how it stands when nobody can wait any longer.

    It is stored: whatever happens now, the answer must not say that nothing was written.
    """
    try:
        if service.held.has_room:
            async with service.held.hold(receive, within_s):
                wait = service.backend.commands.wait
                return await service.outcome(await wait(started.run_id, fresh=started.created))
        return await service.outlook(started.run_id)
    except Unavailable:
        if started.row is None:
            raise
        return encode(run_document(started.row))


def _add_lists(app: FastAPI, service: Service) -> None:
    @app.get("/v1/runs/counts", tags=TAGS, summary="Count runs", responses=responses(RunCounts))
    async def count_runs() -> Response:
        """Of each state."""
        return await service.answer(lambda answers: answers.count_runs())

    @app.get("/v1/runs", tags=TAGS, summary="List runs", responses=responses(RunPage, "not_found"))
    async def list_runs(  # noqa: PLR0913 - a filter each, by keyword
        *,
        workflow: WorkflowQuery = None,
        state: RunStates = [],  # noqa: B006 - read only
        key: KeyQuery = None,
        since: Since = None,
        until: Until = None,
        parent: ParentQuery = None,
        children: Children = False,
        limit: Limit = LIMIT,
        cursor: Cursor = None,
    ) -> Response:
        """Newest first, without those that another run called. All conditions hold together."""
        earliest, latest = instant(since, "since"), instant(until, "until")
        return await service.answer(
            lambda answers: answers.list_runs(
                workflow=workflow,
                states=state,
                key=key,
                since=earliest,
                until=latest,
                parent=parent,
                children=children,
                limit=limit,
                cursor=cursor,
            )
        )


def _add_streams(app: FastAPI, service: Service) -> None:
    backend, limits, held = service.backend, service.limits, service.held

    @app.get(
        "/v1/runs/events",
        tags=TAGS,
        summary="Follow all runs",
        responses=responses(None, about="Server-sent events", content=_STREAM),
        response_class=Response,
    )
    async def follow_runs() -> Response:
        """Event `run` with the run's document for each that changed."""
        held.check()
        return EventStream(held, limits, ChangesStream(service.changes, limits).send)

    @app.get(
        "/v1/runs/{run_id}/events",
        tags=TAGS,
        summary="Follow a run",
        responses=responses(None, "not_found", about="Server-sent events", content=_STREAM),
        response_class=Response,
    )
    async def follow_run(
        run_id: RunPath,
        last_event_id: Annotated[
            str | None, Header(description="go on after the event with this number")
        ] = None,
    ) -> Response:
        """The whole history, then what happens.

        `history` events carry their number as id, `note` what attempts say, `state` the run's document at first and
        after each change; `end` comes when it is final. A note may come again to a client that comes back.
        """
        last = _number(last_event_id)
        held.check()
        found = await service.find_run(run_id)
        return EventStream(held, limits, RunStream(backend, limits, found, last).send)


def _number(text: str | None) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Problem(
            "invalid_input", "Last-Event-ID: is no number of an event", path="Last-Event-ID"
        )
    return int(text)


def _add_waiting(app: FastAPI, service: Service) -> None:
    backend, held = service.backend, service.held

    @app.get(
        "/v1/runs/{run_id}",
        tags=TAGS,
        summary="Show a run",
        responses=responses(RunReport, "not_found"),
    )
    async def get_run(run_id: RunPath) -> Response:
        """Its nodes, timeline, output or error."""
        return await service.answer(lambda answers: answers.get_run(run_id))

    @app.get(
        "/v1/runs/{run_id}/wait",
        tags=TAGS,
        summary="Wait for the end of a run",
        responses=responses(RunReport, "not_found"),
    )
    async def wait_run(request: Request, run_id: RunPath, timeout: Timeout = 30.0) -> Response:
        """Answers when the run is final or the time is up: look at `state`."""
        async with held.hold(request.receive, timeout):
            row = await backend.glance(lambda answers: answers.found(run_id, backend.commands.wait))
            return Response(await service.final_report(row), media_type=JSON)
        return await service.answer(lambda answers: answers.get_run(run_id))


def _add_details(app: FastAPI, service: Service) -> None:
    @app.get(
        "/v1/runs/{run_id}/history",
        tags=TAGS,
        summary="Show a run's events",
        responses=responses(EventPage, "not_found"),
    )
    async def run_history(
        run_id: RunPath, after: After = 0, limit: HistoryLimit = LIMIT_MAX
    ) -> Response:
        """In order, without gaps; `next` goes into `after`."""
        return await service.answer(
            lambda answers: answers.run_history(run_id, after=after, limit=limit)
        )

    @app.get(
        "/v1/runs/{run_id}/nodes/{node}",
        tags=TAGS,
        summary="Show a node's values",
        responses=responses(RunNode, "not_found"),
    )
    async def run_node(run_id: RunPath, node: NodePath) -> Response:
        """Input, output, error, attempts and notes of its current pass, or of the place that is named."""
        return await service.answer(lambda answers: answers.run_node(run_id, node))

    @app.get(
        "/v1/runs/{run_id}/notes",
        tags=TAGS,
        summary="Show what attempts said",
        responses=responses(NotePage, "not_found"),
    )
    async def run_notes(
        run_id: RunPath, node: NodeQuery = None, limit: Limit = LIMIT_MAX
    ) -> Response:
        """The newest, oldest of them first."""
        return await service.answer(
            lambda answers: answers.run_notes(run_id, node=node, limit=limit)
        )


def _add_whole(app: FastAPI, service: Service) -> None:
    @app.get(
        "/v1/runs/{run_id}/export",
        tags=TAGS,
        summary="Export a run",
        responses=responses(Export, "not_found"),
    )
    async def export_run(run_id: RunPath) -> Response:
        """All that is kept of it."""
        return await service.answer(lambda answers: answers.export_run(run_id))

    @app.get(
        "/v1/runs/{run_id}/verify",
        tags=TAGS,
        summary="Verify a run",
        responses=responses(Verified, "not_found"),
    )
    async def verify_run(run_id: RunPath) -> Response:
        """Fold its history and compare with what is stored."""
        return await service.answer(lambda answers: answers.verify_run(run_id))

    @app.get(
        "/v1/runs/{run_id}/graph.svg",
        tags=TAGS,
        summary="Draw a run",
        responses=responses(
            None, "not_found", about="The picture", content={SVG: {"schema": {"type": "string"}}}
        ),
        response_class=Response,
    )
    async def draw_run(run_id: RunPath) -> Response:
        """Nodes carry `data-node` and `data-state`."""

        async def drawn(answers: Answers) -> str:
            return run_svg(*await answers.run_graph(run_id))

        return picture(await service.backend.read(drawn))

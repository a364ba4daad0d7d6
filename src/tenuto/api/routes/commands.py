"""`/v1/runs/{run_id}/…`: what may be asked of a run: cancel, terminate, pause, resume, skip, retry, replay."""

from __future__ import annotations

import asyncio
from enum import Enum

from fastapi import FastAPI, Request, Response

from tenuto.api.bodies import read_body
from tenuto.api.models import CancelBody, NothingBody, Run
from tenuto.api.nested import (
    Planned,
    ReplayBody,
    ResumeBody,
    RetryBody,
    SkipBody,
    TerminateBody,
)
from tenuto.api.parameters import DryRun, NodePath, RunPath
from tenuto.api.service import JSON, UNSAFE, Service, body_of, encode, responses
from tenuto.coordinator.outlook import Outlook, outlook_json
from tenuto.dsl.storable import check_word
from tenuto.model.ids import RunId
from tenuto.runtime.results import canonical

TAGS: list[str | Enum] = ["runs"]
CODES = (*UNSAFE, "not_found", "conflict")


def add_routes(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    _add_ends(app, service)
    _add_pauses(app, service)
    _add_again(app, service)


async def _answer(service: Service, run_id: RunId) -> Response:
    return await service.show(lambda answers: answers.get_run_row(run_id))


def _add_ends(app: FastAPI, service: Service) -> None:
    commands = service.backend.commands

    @app.post(
        "/v1/runs/{run_id}/cancel",
        tags=TAGS,
        summary="Cancel a run",
        responses=responses(Run, *CODES),
        openapi_extra=body_of(CancelBody, required=False),
    )
    async def cancel_run(request: Request, run_id: RunPath) -> Response:
        """Nothing more is handed out; attempts under way are told, children too; then finished work is undone where
        the definition says how. A conflict if it is final or closing already.
        """
        body = await read_body(request, CancelBody, may_be_empty=True)
        check_word(body.reason, "reason", limit=2_000)
        found = await service.find_run(run_id)
        await commands.cancel(found, body.reason)
        return await _answer(service, found)

    @app.post(
        "/v1/runs/{run_id}/terminate",
        tags=TAGS,
        summary="Terminate a run",
        responses=responses(Run, *CODES),
        openapi_extra=body_of(TerminateBody, required=False),
    )
    async def terminate_run(request: Request, run_id: RunPath) -> Response:
        """It is final at once, and so are its children: nothing is undone, no `on_failure` runs. A conflict if it is
        final already.
        """
        body = await read_body(request, TerminateBody, may_be_empty=True)
        check_word(body.reason, "reason", limit=2_000)
        found = await service.find_run(run_id)
        await commands.terminate(found, body.reason)
        return await _answer(service, found)


def _add_pauses(app: FastAPI, service: Service) -> None:
    commands = service.backend.commands

    @app.post(
        "/v1/runs/{run_id}/pause",
        tags=TAGS,
        summary="Pause a run",
        responses=responses(Run, *CODES),
        openapi_extra=body_of(NothingBody, required=False),
    )
    async def pause_run(request: Request, run_id: RunPath) -> Response:
        """No more attempts are handed out. Nothing else stops: those under way may end, waits and time-outs pass,
        events are taken, and nodes that need no worker go on. A conflict if it is final or paused.
        """
        await read_body(request, NothingBody, may_be_empty=True)
        found = await service.find_run(run_id)
        await commands.pause(found)
        return await _answer(service, found)

    @app.post(
        "/v1/runs/{run_id}/resume",
        tags=TAGS,
        summary="Resume a run",
        responses=responses(Run, *CODES),
        openapi_extra=body_of(ResumeBody, required=False),
    )
    async def resume_run(request: Request, run_id: RunPath) -> Response:
        """Ends a pause, and tries again what is quarantined. A conflict if it is neither."""
        body = await read_body(request, ResumeBody, may_be_empty=True)
        found = await service.find_run(run_id)
        await commands.resume(found, freeze_timers=body.freeze_timers)
        return await _answer(service, found)


def _add_again(app: FastAPI, service: Service) -> None:
    commands = service.backend.commands

    @app.post(
        "/v1/runs/{run_id}/nodes/{node}/skip",
        tags=TAGS,
        summary="Skip a node",
        responses=responses(Run, *CODES),
        openapi_extra=body_of(SkipBody, required=False),
    )
    async def skip_node(request: Request, run_id: RunPath, node: NodePath) -> Response:
        """Take a node as done, with this output: one that is under way, or one that failed the run, which then goes
        on. A conflict if it is neither.
        """
        body = await read_body(request, SkipBody, may_be_empty=True)
        check_word(node, "node")
        output = await asyncio.to_thread(canonical, body.output, name="output")
        found = await service.find_run(run_id)
        await commands.skip(found, node, output)
        return await _answer(service, found)

    @app.post(
        "/v1/runs/{run_id}/retry",
        tags=TAGS,
        summary="Retry a run",
        responses=responses(Planned, *CODES),
        openapi_extra=body_of(RetryBody, required=False),
    )
    async def retry_run(request: Request, run_id: RunPath, *, dry_run: DryRun = False) -> Response:
        """The same run goes on: what failed or was cut short is done again, and all that follows from it. A conflict
        with the reason if it cannot. `dry_run`: only the plan.
        """
        body = await read_body(request, RetryBody, may_be_empty=True)
        skip, output = None, None
        if body.skip is not None:
            skip = check_word(body.skip.node, "skip.node")
            output = await asyncio.to_thread(canonical, body.skip.output, name="skip.output")
        found = await service.find_run(run_id)
        outlook = await commands.retry(found, skip=skip, output=output, dry_run=dry_run)
        return _planned(found, outlook, dry_run=dry_run)

    @app.post(
        "/v1/runs/{run_id}/replay",
        tags=TAGS,
        summary="Replay a run",
        responses=responses(
            Planned, *CODES, about="The plan (`dry_run`)", created="The new run and its plan"
        ),
        openapi_extra=body_of(ReplayBody),
    )
    async def replay_run(request: Request, run_id: RunPath, *, dry_run: DryRun = False) -> Response:
        """A new run of the same version that keeps what this one did before the node `from`. A conflict with the
        reason if it cannot. `dry_run`: only the plan.
        """
        body = await read_body(request, ReplayBody)
        check_word(body.start, "from")
        given = None if body.input is None else canonical(body.input, name="input")
        found = await service.find_run(run_id)
        new, outlook = await commands.replay(
            found,
            body.start,
            input=given,
            vars={
                name: canonical(value, name=f"vars.{name}")
                for name, value in (body.vars or {}).items()
            },
            dry_run=dry_run,
        )
        return _planned(new, outlook, dry_run=dry_run, created=new is not None)


def _planned(
    run_id: RunId | None, outlook: Outlook, *, dry_run: bool, created: bool = False
) -> Response:
    document = {"run_id": run_id, "dry_run": dry_run, "plan": outlook_json(outlook)}
    return Response(
        encode(document),
        status_code=201 if created else 200,
        media_type=JSON,
        headers={"Location": f"/v1/runs/{run_id}"} if created else None,
    )

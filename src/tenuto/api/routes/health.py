"""Is it there, and does it work: `/healthz`, `/readyz`, `/v1/health`."""

from __future__ import annotations

import asyncio
from enum import Enum

from fastapi import FastAPI, Request, Response

from tenuto.api.bodies import JSON
from tenuto.api.models import Health
from tenuto.api.problems import RETRY_AFTER_S, Problem
from tenuto.api.service import Service, encode, responses
from tenuto.model.instants import format_instant

TAGS: list[str | Enum] = ["health"]
STORE_S = 2.0
"""A store that takes longer to find one row is none that a request should wait for."""


def add_routes(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    backend = service.backend

    def health(request: Request) -> Response:
        about = backend.about
        document = {
            "status": "ok",
            "version": about.version,
            "database": about.database,
            "pid": about.pid,
            "url": f"{request.url.scheme}://{request.url.netloc}",
            "started_at": format_instant(about.started_at),
        }
        return Response(encode(document), media_type=JSON, headers={"Cache-Control": "no-store"})

    async def ready(request: Request) -> Response:
        """Whether the store can be read, its file is there, and the engine works."""
        why = backend.trouble()
        if why is not None:
            raise Problem("unavailable", why)
        try:
            async with asyncio.timeout(STORE_S):
                await backend.read(lambda answers: answers.reads.list_run_ids("0000"))
        except TimeoutError:
            raise Problem(
                "unavailable",
                f"the database has not answered within {STORE_S:g} s",
                headers={"Retry-After": str(RETRY_AFTER_S)},
            ) from None
        return health(request)

    @app.get("/healthz", tags=TAGS, summary="Does the process live", responses=responses(Health))
    async def healthz(request: Request) -> Response:
        """Looks at nothing else."""
        return health(request)

    for path, name in (("/readyz", "readyz"), ("/v1/health", "health")):
        app.get(path, name=name, tags=TAGS, summary="Is it ready", responses=responses(Health))(
            ready
        )

"""Is it there, and does it work: `/healthz`, `/readyz`, `/v1/health`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from enum import Enum

from fastapi import FastAPI, Request, Response

from tenuto.api.bodies import JSON
from tenuto.api.gate import HEALTH
from tenuto.api.models import Health
from tenuto.api.problems import RETRY_AFTER_S, Problem
from tenuto.api.service import Service, encode, responses
from tenuto.model.instants import format_instant

TAGS: list[str | Enum] = ["health"]
_URL = re.compile(r"\b([a-z]+)(?:\+[a-z]+)?://[^\s;)]*")
_PLACE = re.compile(
    r"\('[^']*', \d+[^)]*\)|\[?[0-9a-fA-F]*:[0-9a-fA-F:]*:[0-9a-fA-F:.]+\]?(?::\d+)?"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?|\b[A-Za-z][\w.-]*:\d{2,5}\b|(?<![\w:/])/[\w.-]+(?:/[\w.-]+)+"
)
"""Addresses without a scheme: of sockets, IPv6, IPv4, host:port; and paths."""
_KINDS = {"postgresql": "PostgreSQL", "redis": "Redis", "rediss": "Redis", "unix": "Redis"}
STORE_S = 2.0
"""A store that takes longer to find one row is none that a request should wait for."""


def without_addresses(text: str) -> str:
    """A reason for everybody: it does not say where anything is."""
    return _PLACE.sub("…", _URL.sub(lambda found: _KINDS.get(found[1], found[1]), text))


def add_routes(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    backend = service.backend

    def told(request: Request, text: str) -> str:
        """A reason as whoever asks may know it."""
        about = backend.about
        hidden = request.url.path in HEALTH and about.kind != about.database
        return without_addresses(text.replace(about.database, about.kind)) if hidden else text

    def health(request: Request, degraded: Sequence[str] = ()) -> Response:
        about = backend.about
        trusted = request.url.path not in HEALTH
        document = {
            "status": "ok",
            "version": about.version,
            "database": about.database if trusted else about.kind,
            "pid": about.pid,
            "url": f"{request.url.scheme}://{request.url.netloc}",
            "started_at": format_instant(about.started_at),
            "degraded": [told(request, each) for each in degraded],
        }
        return Response(encode(document), media_type=JSON, headers={"Cache-Control": "no-store"})

    async def ready(request: Request) -> Response:
        """Whether the store can be read and written, and every loop of the engine goes round."""
        again = {"Retry-After": str(RETRY_AFTER_S)}
        try:
            async with asyncio.timeout(STORE_S):
                found = await backend.readiness()
                if not found.troubles:
                    await backend.read(lambda answers: answers.reads.list_run_ids("0000"))
        except TimeoutError:
            why = f"the database has not answered within {STORE_S:g} s"
            raise Problem("unavailable", why, headers=again) from None
        if found.troubles:
            troubles = [told(request, each) for each in found.troubles]
            several = troubles if len(troubles) > 1 else []
            raise Problem("unavailable", "\n".join(troubles), headers=again, problems=several)
        return health(request, found.degraded)

    @app.get(
        "/healthz",
        tags=TAGS,
        summary="Does the process live",
        responses=responses(Health, is_open=True),
    )
    async def healthz(request: Request) -> Response:
        """Looks at nothing else."""
        return health(request)

    for path, name in (("/readyz", "readyz"), ("/v1/health", "health")):
        answers = responses(Health, is_open=name == "readyz")
        app.get(path, name=name, tags=TAGS, summary="Is it ready", responses=answers)(ready)

"""`/v1/tasks` and `/v1/workers`: what is to be done, and who does it."""

from __future__ import annotations

from fastapi import FastAPI, Response

from tenuto.api.models import TaskPage, WorkerPage
from tenuto.api.parameters import Cursor, Limit, QueueQuery, TaskStates
from tenuto.api.service import Service, responses
from tenuto.views.answers import LIMIT


def add_routes(app: FastAPI, service: Service) -> None:
    """Add the routes."""

    @app.get("/v1/tasks", tags=["tasks"], summary="List tasks", responses=responses(TaskPage))
    async def list_tasks(
        state: TaskStates = [],  # noqa: B006 - read only
        queue: QueueQuery = None,
        limit: Limit = LIMIT,
        cursor: Cursor = None,
    ) -> Response:
        """Those of the newest runs first; `state=dead` shows what failed for good."""
        return await service.answer(
            lambda answers: answers.list_tasks(
                states=state, queue=queue, limit=limit, cursor=cursor
            )
        )

    @app.get(
        "/v1/workers", tags=["workers"], summary="List workers", responses=responses(WorkerPage)
    )
    async def list_workers() -> Response:
        """As last heard of."""
        return await service.answer(lambda answers: answers.list_workers())

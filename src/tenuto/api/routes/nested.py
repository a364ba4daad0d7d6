"""`/v1/runs/{run_id}/…`: what is nested in a run: its children, the items of a foreach, the passes of a loop."""

from __future__ import annotations

from enum import Enum

from fastapi import FastAPI, Response

from tenuto.api.models import RunPage
from tenuto.api.nested import ItemPage, IterationPage
from tenuto.api.parameters import Cursor, ItemStates, Limit, NodePath, RunPath
from tenuto.api.service import Service, responses
from tenuto.views.answers import LIMIT

TAGS: list[str | Enum] = ["runs"]


def add_routes(app: FastAPI, service: Service) -> None:
    """Add the routes."""

    @app.get(
        "/v1/runs/{run_id}/children",
        tags=TAGS,
        summary="List the runs that a run has called",
        responses=responses(RunPage, "not_found"),
    )
    async def list_children(
        run_id: RunPath, limit: Limit = LIMIT, cursor: Cursor = None
    ) -> Response:
        """Newest first; `parent` of each says which node, and which item of it, has called it."""
        return await service.answer(
            lambda answers: answers.list_children(run_id, limit=limit, cursor=cursor)
        )

    @app.get(
        "/v1/runs/{run_id}/nodes/{node}/items",
        tags=TAGS,
        summary="List the items of a foreach",
        responses=responses(ItemPage, "not_found"),
    )
    async def list_items(
        run_id: RunPath,
        node: NodePath,
        state: ItemStates = [],  # noqa: B006 - read only
        limit: Limit = LIMIT,
        cursor: Cursor = None,
    ) -> Response:
        """Those that have begun, in order, with their values, errors and child runs."""
        return await service.answer(
            lambda answers: answers.list_items(
                run_id, node, states=state, limit=limit, cursor=cursor
            )
        )

    @app.get(
        "/v1/runs/{run_id}/nodes/{node}/iterations",
        tags=TAGS,
        summary="List the passes of a node in loops",
        responses=responses(IterationPage, "not_found"),
    )
    async def list_iterations(
        run_id: RunPath, node: NodePath, limit: Limit = LIMIT, cursor: Cursor = None
    ) -> Response:
        """Oldest first, as far as `keep` of the loop keeps them, with outputs and errors."""
        return await service.answer(
            lambda answers: answers.list_iterations(run_id, node, limit=limit, cursor=cursor)
        )

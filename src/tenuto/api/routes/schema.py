"""`/v1/schema`: what editors read."""

from __future__ import annotations

from enum import Enum
from functools import cache

from fastapi import FastAPI, Response

from tenuto.api.service import responses
from tenuto.dsl.schema import schema_text

TAGS: list[str | Enum] = ["workflows"]
MEDIA_TYPE = "application/schema+json"


def add_routes(app: FastAPI) -> None:
    """Add the route."""

    @app.get(
        "/v1/schema/definition.json",
        tags=TAGS,
        summary="The JSON Schema of definitions",
        responses=responses(
            None, about="The schema", content={MEDIA_TYPE: {"schema": {"type": "object"}}}
        ),
        response_class=Response,
    )
    async def get_schema() -> Response:
        """Draft 2020-12. An editor that is told this address checks and completes definitions."""
        return Response(_text(), media_type=MEDIA_TYPE)


@cache
def _text() -> str:
    return schema_text()

"""`/v1/workflows`: validate, deploy, list, show, pictures. What is done with versions then is in `routes.versions`."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from fastapi import FastAPI, Request, Response

from tenuto.api.bodies import JSON, YAML, check, media_type, read_json, unsupported
from tenuto.api.models import (
    DefinitionBody,
    DeployBody,
    Deployed,
    Validated,
    Version,
    VersionPage,
    WorkflowPage,
)
from tenuto.api.parameters import Cursor, Limit, NamedPath, NamePath, VersionPath
from tenuto.api.problems import Problem, invalid_definition
from tenuto.api.service import UNSAFE, Service, body_of, encode, responses
from tenuto.dsl.storable import check_alias
from tenuto.model.definition import DEFINITION_MAX
from tenuto.model.stored import decode_graph
from tenuto.views.answers import LIMIT, Answers
from tenuto.views.documents import Document
from tenuto.views.picture import graph_svg

B = TypeVar("B", bound=DefinitionBody)
TAGS: list[str | Enum] = ["workflows"]
SVG = "image/svg+xml"
SVG_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""A picture's own style, and nothing else."""
_TEXT = {"schema": {"description": "the definition as it stands in its file"}}
_PICTURE = {SVG: {"schema": {"type": "string"}}}


def add_routes(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    _add_writing(app, service)
    _add_reading(app, service)


def _add_writing(app: FastAPI, service: Service) -> None:
    backend = service.backend

    @app.post(
        "/v1/workflows/validate",
        tags=TAGS,
        summary="Check a definition",
        responses=responses(Validated, *UNSAFE),
        openapi_extra=body_of(DefinitionBody, application_yaml=_TEXT),
    )
    async def validate_workflow(request: Request) -> Response:
        """All findings at once; nothing is stored. The body may be the text itself, as application/yaml."""
        body = await _read_definition(request, DefinitionBody)
        loaded = await backend.compile(body.source, body.file)
        document: Document = {
            "valid": loaded.graph is not None,
            "name": None if loaded.graph is None else loaded.graph.definition.name,
            "findings": [finding.as_dict() for finding in loaded.findings],
        }
        return Response(encode(document), media_type=JSON)

    @app.post(
        "/v1/workflows",
        tags=TAGS,
        summary="Store a definition as a new version",
        responses=responses(
            Deployed,
            *UNSAFE,
            "invalid_definition",
            about="The newest version says the same already",
            created="The new version",
        ),
        openapi_extra=body_of(DeployBody, application_yaml=_TEXT),
    )
    async def deploy_workflow(request: Request) -> Response:
        """A version never changes; runs keep the one with which they began. `aliases` mean it from now on."""
        body = await _read_definition(request, DeployBody)
        for alias in body.aliases:
            check_alias(alias)
        loaded = await backend.compile(body.source, body.file)
        if loaded.graph is None:
            raise invalid_definition(loaded.findings)
        row = await backend.commands.deploy(loaded.graph)
        moved = []
        for alias in dict.fromkeys(body.aliases):
            was = await backend.commands.set_alias(row.name, alias, row.version)
            moved.append({"name": row.name, "alias": alias, "version": row.version, "was": was})
        findings = [finding.as_dict() for finding in loaded.findings]

        async def deployed(answers: Answers) -> Document:
            version = await answers.get_version(row.name, row.version)
            return {**version, "created": row.created, "moved": moved, "findings": findings}

        return await service.answer(
            deployed,
            status=201 if row.created else 200,
            headers={"Location": f"/v1/workflows/{row.name}/versions/{row.version}"},
        )


def _add_reading(app: FastAPI, service: Service) -> None:
    @app.get(
        "/v1/workflows", tags=TAGS, summary="List workflows", responses=responses(WorkflowPage)
    )
    async def list_workflows(limit: Limit = LIMIT, cursor: Cursor = None) -> Response:
        """By name, each with its newest version."""
        return await service.answer(
            lambda answers: answers.list_workflows(limit=limit, cursor=cursor)
        )

    @app.get(
        "/v1/workflows/{name}",
        tags=TAGS,
        summary="Show the newest version, or the one that is named",
        responses=responses(Version, "not_found"),
    )
    async def get_workflow(name: NamedPath) -> Response:
        return await service.answer(lambda answers: answers.get_workflow(name))

    @app.get(
        "/v1/workflows/{name}/versions",
        tags=TAGS,
        summary="List versions",
        responses=responses(VersionPage, "not_found"),
    )
    async def list_versions(
        name: NamePath, limit: Limit = LIMIT, cursor: Cursor = None
    ) -> Response:
        """Newest first."""
        return await service.answer(
            lambda answers: answers.list_versions(name, limit=limit, cursor=cursor)
        )

    @app.get(
        "/v1/workflows/{name}/versions/{version}",
        tags=TAGS,
        summary="Show a version",
        responses=responses(Version, "not_found"),
    )
    async def get_version(name: NamePath, version: VersionPath) -> Response:
        return await service.answer(lambda answers: answers.get_version(name, version))

    @app.get(
        "/v1/workflows/{name}/versions/{version}/graph.svg",
        tags=TAGS,
        summary="Draw a version",
        responses=responses(None, "not_found", about="The picture", content=_PICTURE),
        response_class=Response,
    )
    async def draw_version(name: NamePath, version: VersionPath) -> Response:
        async def drawn(answers: Answers) -> str:
            row = await answers.find_version(name, version)
            return graph_svg(decode_graph(row.graph))

        return picture(await service.backend.read(drawn))


def picture(svg: str) -> Response:
    """A picture as an answer."""
    return Response(svg, media_type=SVG, headers={"Content-Security-Policy": SVG_POLICY})


async def _read_definition(request: Request, model: type[B]) -> B:
    """The body: JSON, or the definition's text itself."""
    kind = media_type(request)
    data = await request.body()
    if kind in YAML:
        return model.model_construct(source=data, file="<request>")
    if kind != JSON:
        raise unsupported(kind, JSON, YAML[0])
    if len(data) > DEFINITION_MAX * 4:
        raise Problem(
            "payload_too_large", f"a definition has at most {DEFINITION_MAX:,} bytes of text"
        )
    if not data:
        raise Problem("bad_request", "the body is empty; send a JSON object")
    return check(model, read_json(data))

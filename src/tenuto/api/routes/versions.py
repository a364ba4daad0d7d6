"""`/v1/workflows/{name}`: what becomes of versions: aliases, what changed from one to another, deleting."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from tenuto.api.bodies import JSON, read_body
from tenuto.api.diffs import Diff
from tenuto.api.models import Alias, AliasBody, AliasPage, DeletedVersion, MovedAlias
from tenuto.api.parameters import AliasPath, NamePath, New, Old, VersionPath
from tenuto.api.routes.workflows import TAGS
from tenuto.api.service import UNSAFE, Service, body_of, encode, responses
from tenuto.views.documents import Document


def add_routes(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    _add_aliases(app, service)
    backend = service.backend

    @app.get(
        "/v1/workflows/{name}/diff",
        tags=TAGS,
        summary="Compare two versions",
        responses=responses(Diff, "not_found"),
    )
    async def diff_versions(name: NamePath, old: Old = None, new: New = None) -> Response:
        """Texts line by line, graphs node by node and edge by edge."""
        return await service.answer(lambda answers: answers.diff_versions(name, old=old, new=new))

    @app.delete(
        "/v1/workflows/{name}/versions/{version}",
        tags=TAGS,
        summary="Delete a version",
        responses=responses(DeletedVersion, "forbidden_origin", "not_found", "conflict"),
    )
    async def delete_version(name: NamePath, version: VersionPath) -> Response:
        """Refused while a run of it is not over, or an alias means it. Its number is not given again."""
        await backend.read(lambda answers: answers.find_version(name, version))
        await backend.commands.delete_version(name, version)
        return _answer({"name": name, "version": version})


def _add_aliases(app: FastAPI, service: Service) -> None:
    backend = service.backend

    @app.get(
        "/v1/workflows/{name}/aliases",
        tags=TAGS,
        summary="List aliases",
        responses=responses(AliasPage, "not_found"),
    )
    async def list_aliases(name: NamePath) -> Response:
        """By alias, each with the version that it means now."""
        return await service.answer(lambda answers: answers.list_aliases(name))

    @app.get(
        "/v1/workflows/{name}/aliases/{alias}",
        tags=TAGS,
        summary="Show an alias",
        responses=responses(Alias, "not_found"),
    )
    async def get_alias(name: NamePath, alias: AliasPath) -> Response:
        return await service.answer(lambda answers: answers.get_alias(name, alias))

    @app.put(
        "/v1/workflows/{name}/aliases/{alias}",
        tags=TAGS,
        summary="Set an alias",
        responses=responses(MovedAlias, *UNSAFE, "not_found"),
        openapi_extra=body_of(AliasBody),
    )
    async def set_alias(name: NamePath, alias: AliasPath, request: Request) -> Response:
        """From now on starts and calls of `name@alias` take this version; runs that have begun keep theirs."""
        body = await read_body(request, AliasBody)
        await backend.read(lambda answers: answers.find_version(name, body.version))
        was = await backend.commands.set_alias(name, alias, body.version)
        return _answer({"name": name, "alias": alias, "version": body.version, "was": was})

    @app.delete(
        "/v1/workflows/{name}/aliases/{alias}",
        tags=TAGS,
        summary="Drop an alias",
        responses=responses(Alias, "forbidden_origin", "not_found", about="The alias, as it was"),
    )
    async def drop_alias(name: NamePath, alias: AliasPath) -> Response:
        found = await backend.read(lambda answers: answers.get_alias(name, alias))
        await backend.commands.drop_alias(str(found["name"]), alias)
        return _answer(found)


def _answer(document: Document) -> Response:
    return Response(encode(document), media_type=JSON)

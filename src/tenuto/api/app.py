"""The app: all routes, the door around them, the OpenAPI document. Serving it is the composition root's."""

from __future__ import annotations

from typing import Any, cast

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.routing import Match

from tenuto.api import messages, models, nested
from tenuto.api.backend import Backend
from tenuto.api.bodies import first_problem
from tenuto.api.door import Door
from tenuto.api.gate import HEALTH, add_gate
from tenuto.api.limits import Limits
from tenuto.api.page import Page, or_page
from tenuto.api.page import add_routes as add_page
from tenuto.api.problems import Problem
from tenuto.api.reference import POLICY, as_page
from tenuto.api.routes import events, health, runs, schema, tasks, versions, workflows
from tenuto.api.service import Service, StrictRoute
from tenuto.model.version import VERSION
from tenuto.ports.access import Authorize

ABOUT = """Workflows, runs, events and tasks of one engine.

Every error is a problem (RFC 9457) with a stable `code`. Lists are pages: `next` of one is `cursor` of the next.
A run is named by its id, or by the beginning or end of it. Instants are RFC 3339 in UTC, durations microseconds.
"""
_BODIES = (
    models.DefinitionBody,
    models.DeployBody,
    models.AliasBody,
    models.StartBody,
    models.StartManyBody,
    models.CancelBody,
    models.NothingBody,
    nested.TerminateBody,
    nested.ResumeBody,
    nested.RetryBody,
    nested.ReplayBody,
    nested.SkipBody,
    nested.HeartbeatBody,
    messages.EventBody,
    messages.EventsBody,
    models.Problem,
)


class App(FastAPI):
    """The app, and how its held requests end."""

    service: Service

    async def tell_changes(self) -> None:
        """Feed those who follow all runs; to be run as long as requests are answered."""
        await self.service.changes.run()

    def stop_held(self) -> None:
        """End streams and waits; no other begins."""
        self.service.held.stop()


def make_app(
    backend: Backend,
    *,
    limits: Limits | None = None,
    page: Page | None = None,
    authorize: Authorize | None = None,
) -> App:
    """All of REST over one engine.

    Args:
        backend: the engine.
        limits: of clients, bodies and what is held.
        page: what stands at `/`; its files are anybody's, for they show nothing without a token.
        authorize: what a token grants; None: nobody is asked for one.
    """
    bounds = limits or Limits()
    app = App(
        title="Tenuto",
        version=VERSION,
        summary="A durable workflow engine",
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
        separate_input_output_schemas=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.router.route_class = StrictRoute
    app.service = Service(backend, bounds)
    health.add_routes(app, app.service)
    workflows.add_routes(app, app.service)
    versions.add_routes(app, app.service)
    schema.add_routes(app)
    runs.add_routes(app, app.service)
    events.add_routes(app, app.service)
    tasks.add_routes(app, app.service)
    _add_reference(app)
    if page is not None:
        add_page(app, page)
    refuse = _http_problem if page is None else or_page(page, _http_problem)
    app.add_exception_handler(HTTPException, refuse)
    app.add_exception_handler(RequestValidationError, _parameter_problem)
    if authorize is not None:
        add_gate(app, authorize, () if page is None else (*page.files, *page.routes))
    guarded = authorize is not None
    app.add_middleware(Door, limits=bounds, incident=backend.incident, guarded=guarded)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def describe() -> dict[str, Any]:
    """The OpenAPI document, without an engine: no route is called."""
    return make_app(cast("Backend", _Nobody())).openapi()


class _Nobody:
    """Stands where an engine would."""

    commands = None

    def incident(self) -> str:
        return ""


def _add_reference(app: App) -> None:
    made: list[str] = []

    async def show(_: Request) -> Response:
        if not made:
            made.append(as_page(app.openapi()))
        headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
        return Response(made[0], media_type="text/html", headers=headers)

    app.router.add_route("/docs", show, ["GET"], include_in_schema=False)


async def _http_problem(request: Request, error: Exception) -> Response:
    """What the framework itself refuses."""
    assert isinstance(error, HTTPException)
    method, path = request.method, request.url.path
    if error.status_code == 405:
        allowed = ", ".join(_methods(request))
        problem = Problem(
            "method_not_allowed",
            f"{path} does not take {method}; it takes {allowed}",
            headers={"Allow": allowed},
        )
    elif error.status_code == 404:
        problem = Problem("not_found", f"there is nothing at {path}; see /docs")
    else:
        problem = Problem("bad_request", str(error.detail))
    return problem.response()


def _methods(request: Request) -> list[str]:
    """All methods of an address: the framework names those of its first route only. Routes of a more general address,
    such as `/v1/workflows/{name}` for `/v1/workflows/validate`, are not its own.
    """
    paths: list[str] = []
    found: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is Match.NONE:
            continue
        paths.append(route.path)
        if route.path == paths[0]:
            found |= set(getattr(route, "methods", None) or ())
    return sorted(found)


async def _parameter_problem(_: Request, error: Exception) -> Response:
    """A parameter of a path, a query or a header that does not fit."""
    assert isinstance(error, RequestValidationError)
    return first_problem(error.errors(), ()).response()


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            summary=app.summary,
            description=app.description,
            routes=app.routes,
            separate_input_output_schemas=False,
        )
        _, shapes = models_json_schema(
            [(model, "validation") for model in _BODIES],
            ref_template="#/components/schemas/{model}",
        )
        document["components"]["schemas"].update(shapes["$defs"])
        document["components"]["securitySchemes"] = {
            "token": {
                "type": "http",
                "scheme": "bearer",
                "bearerFormat": "JWT",
                "description": "Of scope `admin`; asked for by a server that has a secret.",
            }
        }
        document["security"] = [{"token": []}, {}]
        for path in HEALTH:
            document["paths"][path]["get"]["security"] = []
        app.openapi_schema = document
    return app.openapi_schema

"""What all routes share: the engine, the limits, the held requests, and how a document becomes an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import UnionType
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from tenuto.api.backend import Backend
from tenuto.api.changes import Changes
from tenuto.api.held import Held
from tenuto.api.limits import Limits
from tenuto.api.problems import KINDS, MEDIA_TYPE, SHOWN_MAX, Problem, meant
from tenuto.api.shapes import Document as Model
from tenuto.model.ids import RunId
from tenuto.model.states import RunState
from tenuto.ports.store import RunRow
from tenuto.views.answers import Answers, is_small
from tenuto.views.documents import Document, outcome_document, outcome_of

JSON = "application/json"
OPEN = ("forbidden_host", "invalid_input", "rate_limited", "internal", "unavailable")
EVERYWHERE = ("unauthenticated", "forbidden", *OPEN)
"""Codes that any route may answer; those of `OPEN` also one that asks for no token."""
UNSAFE = (
    "bad_request",
    "forbidden_origin",
    "payload_too_large",
    "unsupported_media_type",
)


class Service:
    """One engine behind REST."""

    def __init__(self, backend: Backend, limits: Limits) -> None:
        self.backend = backend
        self.limits = limits
        self.held = Held(limits.held)
        self.changes = Changes(backend)
        self._reports: dict[RunId, _Shared] = {}

    async def answer(
        self,
        verb: Callable[[Answers], Awaitable[Document]],
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """The document of a reading verb, encoded where it was made."""
        content = await self.backend.read(lambda answers: _encoded(verb(answers)))
        return Response(content, status_code=status, media_type=JSON, headers=dict(headers or {}))

    async def show(
        self,
        verb: Callable[[Answers], Awaitable[Document]],
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """The document of a verb that reads a row or two."""
        content = encode(await self.backend.glance(verb))
        return Response(content, status_code=status, media_type=JSON, headers=dict(headers or {}))

    async def final_report(self, row: RunRow) -> bytes:
        """The report of a run that is final: read once for all who waited for its end, since it changes no more."""
        shared = self._reports.get(row.run_id)
        if shared is None:
            shared = self._reports[row.run_id] = _Shared()
            try:
                shared.content = await self._report(row)
            finally:
                del self._reports[row.run_id]
                shared.made.set()
        else:
            await shared.made.wait()
        if shared.content is None:  # whoever read it was cancelled, or failed
            return await self._report(row)
        return shared.content

    async def outcome(self, row: RunRow) -> bytes:
        """What a run that is final came to. Of a success its row says all."""
        if row.state is RunState.SUCCESS:
            return encode(outcome_document(row))
        return encode(outcome_of(orjson.loads(await self.final_report(row))))

    async def outlook(self, run_id: RunId) -> bytes:
        """The same of a run that may not have ended: as it stands."""

        async def shown(answers: Answers) -> Document:
            return outcome_of(await answers.get_run(run_id))

        return await self.backend.read(lambda answers: _encoded(shown(answers)))

    async def _report(self, row: RunRow) -> bytes:
        """What is small is read and made right here: crossing threads would cost more."""
        whole = await self.backend.glance(lambda answers: answers.begin_run(row))
        ask = self.backend.glance if is_small(whole) else self.backend.read
        return await ask(lambda answers: _encoded(answers.finish_run(whole)))

    async def find_run(self, text: str) -> RunId:
        """The run that a path names."""
        return await self.backend.glance(lambda answers: answers.find(text))


class _Shared:
    """A text that somebody is reading for several."""

    def __init__(self) -> None:
        self.made = asyncio.Event()
        self.content: bytes | None = None


async def _encoded(document: Awaitable[Document]) -> bytes:
    return encode(await document)


def encode(document: object) -> bytes:
    """As JSON text."""
    return orjson.dumps(document)


class StrictRoute(APIRoute):
    """Refuses parameters that the route does not know: a misspelt filter would answer with everything."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As the framework, which takes longer to find out that it is another route."""
        if not scope["path"].startswith(self.path.partition("{")[0]):
            return Match.NONE, {}
        return super().matches(scope)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the handler."""
        handle = super().get_route_handler()
        queries = [field.alias for field in self.dependant.query_params]
        many = {
            field.alias
            for field in self.dependant.query_params
            if "list" in str(field.field_info.annotation)
        }

        async def strict(request: Request) -> Response:
            seen = set()
            for name, _ in request.query_params.multi_items():
                if name not in queries:
                    hint, name = meant(name, queries), name[:SHOWN_MAX]  # noqa: PLW2901 - ends here
                    raise Problem(
                        "invalid_input",
                        f"there is no parameter {name!r}; {hint}",
                        path=name,
                        hint=hint,
                    )
                if name in seen and name not in many:
                    raise Problem("invalid_input", f"{name}: is given twice", path=name)
                seen.add(name)
            return await handle(request)

        return strict


def responses(
    model: type[Model] | UnionType | None,
    *codes: str,
    about: str = "",
    created: str = "",
    content: Mapping[str, object] | None = None,
    is_open: bool = False,
) -> dict[int | str, dict[str, Any]]:
    """What a route may answer, for OpenAPI: its document, and a problem for each code."""
    found: dict[int | str, dict[str, Any]] = {}
    success: dict[str, Any] = {"description": about or _first_line(model)}
    if model is not None:
        success["model"] = model
    if content is not None:
        success["content"] = dict(content)
    found[200] = success
    if created:
        found[201] = {**success, "description": created}
    grouped: dict[int, list[str]] = {}
    for code in (*(OPEN if is_open else EVERYWHERE), *codes):
        grouped.setdefault(KINDS[code].status, []).append(code)
    for status, listed in sorted(grouped.items()):
        found[status] = {
            "description": "; ".join(f"`{code}`: {KINDS[code].title}" for code in listed),
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    return found


def body_of(model: type[Model | Any], *, required: bool = True, **more: Any) -> dict[str, Any]:
    """The body of a route, for OpenAPI. `more`: other media types with underscores for slashes."""
    content: dict[str, Any] = {
        JSON: {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}},
        **{name.replace("_", "/", 1): shape for name, shape in more.items()},
    }
    return {"requestBody": {"required": required, "content": content}}


def _first_line(model: type[Model] | UnionType | None) -> str:
    text = model.__doc__ if isinstance(model, type) else None
    return (text or "").partition("\n")[0] or "Done"

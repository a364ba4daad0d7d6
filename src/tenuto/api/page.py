"""The page that people open: files at their paths, the page itself at its addresses. Not what is in them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

Refuse = Callable[[Request, Exception], Coroutine[None, None, Response]]
NO_PAGE = ("/v1/", "/static/")
"""Addresses of documents and files: also a browser is told of them in the way of their own."""


class File(Protocol):
    """What to answer. `etag` is quoted."""

    @property
    def content_type(self) -> str: ...

    @property
    def content(self) -> bytes: ...

    @property
    def etag(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Path -> file, the addresses (path templates) that show the file `/`, and the headers of all."""

    files: Mapping[str, File]
    routes: Sequence[str] = ("/",)
    headers: Mapping[str, str] = field(default_factory=dict)


def add_routes(app: FastAPI, page: Page) -> None:
    """Serve a page."""
    home = page.files["/"]
    served: dict[str, File] = {**page.files, **dict.fromkeys(page.routes, home)}
    for path, file in served.items():
        app.router.add_route(path, _answer(file, page.headers), ["GET"], include_in_schema=False)


def or_page(page: Page, refuse: Refuse) -> Refuse:
    """What answers a refusal: the page, which says so itself, to a person whose browser asks for an address where
    nothing is; `refuse` in all other cases.
    """
    home = page.files["/"]

    async def answer(request: Request, error: Exception) -> Response:
        if not (
            isinstance(error, HTTPException)
            and error.status_code == 404
            and request.method == "GET"
            and "text/html" in request.headers.get("accept", "")
            and not request.url.path.startswith(NO_PAGE)
        ):
            return await refuse(request, error)
        headers = {**page.headers, "Vary": "Accept"}
        return Response(
            home.content, status_code=404, media_type=home.content_type, headers=headers
        )

    return answer


def _answer(
    file: File, headers: Mapping[str, str]
) -> Callable[[Request], Coroutine[None, None, Response]]:
    async def answer(request: Request) -> Response:
        named = {**headers, "ETag": file.etag}
        if file.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=named)
        return Response(file.content, media_type=file.content_type, headers=named)

    return answer

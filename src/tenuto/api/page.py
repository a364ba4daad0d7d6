"""The page that people open: files at their paths, the page itself at its addresses. Not what is in them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fastapi import FastAPI, Request, Response


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


def _answer(
    file: File, headers: Mapping[str, str]
) -> Callable[[Request], Coroutine[None, None, Response]]:
    async def answer(request: Request) -> Response:
        named = {**headers, "ETag": file.etag}
        if file.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=named)
        return Response(file.content, media_type=file.content_type, headers=named)

    return answer

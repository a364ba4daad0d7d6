"""Who may ask a route: everything needs a token of scope `admin`, but for the routes that are named as open.

The question is put to the route that will answer, as the router finds it, never to the text of an address: an odd way
to write one leads to the same handler or to none. A token comes in the header `Authorization`, and nowhere else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from tenuto.model.errors import Denied
from tenuto.ports.access import MAKE_TOKEN, Authorize
from tenuto.ports.access import Scope as Grant

HEALTH = frozenset({"/healthz", "/readyz"})
"""For whoever watches the server and has no token."""


class Gate:
    """ASGI middleware between the door and the routes.

    Args:
        app: what is inside.
        routes: all there are.
        open_paths: templates of routes that anybody may ask.
        authorize: what a token grants.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        routes: Sequence[BaseRoute],
        open_paths: Collection[str],
        authorize: Authorize,
    ) -> None:
        self._app = app
        self._routes = routes
        self._open = frozenset(open_paths)
        self._authorize = authorize

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on whose route is open, or that shows a token. Raises Denied.

        What lasts, as a stream does, ends with the token.
        """
        if self._is_open(scope):
            await self._app(scope, receive, send)
            return
        grantee = self._authorize(bearer(Headers(scope=scope).get("authorization")))
        grantee.must_administer()
        within_s = None if grantee.left_us is None else grantee.left_us / 1_000_000
        ending = asyncio.timeout(within_s)
        try:
            async with ending:
                await self._app(scope, receive, send)
        except TimeoutError:
            if not ending.expired():
                raise
            raise Denied(f"the token has expired; get another: {MAKE_TOKEN[Grant.ADMIN]}") from None

    def _is_open(self, scope: Scope) -> bool:
        """Also where no route is: there is nothing to guard."""
        partly: BaseRoute | None = None
        for route in self._routes:
            match, _ = route.matches(scope)
            if match is Match.FULL:
                return getattr(route, "path", None) in self._open
            if match is Match.PARTIAL:
                partly = partly or route
        return partly is None or getattr(partly, "path", None) in self._open


def bearer(header: str | None) -> str | None:
    """The token of a header; None if there is none. Raises Denied for another way to say who asks."""
    if header is None:
        return None
    scheme, _, token = header.strip().partition(" ")
    if scheme.lower() != "bearer":
        raise Denied("the header Authorization is read only as `Bearer TOKEN`")
    return token.strip() or None


def add_gate(app: FastAPI, authorize: Authorize, open_paths: Collection[str]) -> None:
    """Put the gate around all routes, those of later, too."""
    app.add_middleware(
        Gate, routes=app.router.routes, open_paths={*HEALTH, *open_paths}, authorize=authorize
    )

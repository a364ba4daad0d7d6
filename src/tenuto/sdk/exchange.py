"""One connection to a server: requests with their repeats, answers, failures as the engine's own errors. No verb.

A request that may be repeated is repeated when its connection is lost. One `Exchange` belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Generator, Mapping
from functools import lru_cache
from types import TracebackType
from typing import Any, Self

import httpx2

from tenuto.model.errors import Unavailable
from tenuto.model.version import VERSION
from tenuto.sdk.problems import START, error_of, problem_of, strange
from tenuto.sdk.wire import (
    Calm,
    body_of,
    check_address,
    is_loopback,
    is_of_workers,
    is_unknown_name,
    is_without_tls,
    object_of,
    query,
    reason_of,
    retry_after,
    trust,
)

Document = dict[str, Any]

TIMEOUT_S = 30.0
CONNECT_S = 5.0
PATIENCE_S = 20.0
"""How long who waits for a run keeps on asking a server that has gone, before it says so."""
_KEPT_S = 2.0
"""Idle connections are kept for less than a server keeps them: else a request would meet its end."""
_REFUSALS_MAX = 5
_QUICK_S = 1.5
_LOST = (
    httpx2.ReadError,
    httpx2.WriteError,
    httpx2.CloseError,
    httpx2.RemoteProtocolError,
)
_HIDDEN = re.compile(r"//[^/@]*@")
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


@lru_cache(maxsize=256)
def _url(text: str) -> httpx2.URL:
    """Taking an address apart costs a tenth of a small request; most are asked again and again."""
    return httpx2.URL(text)


class _Bearer(httpx2.Auth):
    """Shows a token with each request, where there is one."""

    def __init__(self, token: Callable[[], str | None]) -> None:
        self._token = token

    def auth_flow(
        self, request: httpx2.Request
    ) -> Generator[httpx2.Request, httpx2.Response, None]:
        token = self._token()
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token}"
        yield request


class Exchange:
    """Asks one server. Use it as an async context manager, or call `close`.

    Attributes:
        url: the server's address for people, without `/v1` and without a password.
        version: of the server, once it has answered.
    """

    def __init__(
        self,
        url: str,
        *,
        token: Callable[[], str | None] | None = None,
        timeout_s: float = TIMEOUT_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Nothing is asked yet.

        Args:
            url: `http://host:port`.
            token: what the server is shown; asked for at each request, for tokens are renewed. None: nothing.
            timeout_s: seconds for one answer.
            patience_s: seconds for which waits and streams look for a server that has gone.
        """
        address = check_address(url)
        self.url = _HIDDEN.sub("//***@", address)
        self.version = ""
        self._patience_s, self._timeout_s = patience_s, timeout_s
        self._address = f"{address}/v1"
        self._client = httpx2.AsyncClient(
            base_url=self._address,
            headers={"User-Agent": f"tenuto/{VERSION}", "Accept": "application/json"},
            timeout=httpx2.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
            limits=httpx2.Limits(keepalive_expiry=_KEPT_S),
            follow_redirects=False,
            auth=None if token is None else _Bearer(token),
            trust_env=not is_loopback(address),  # no proxy leads to this very machine
            verify=trust(address),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def _hello(self) -> Document:
        """`{"status", "version", "database", "pid", "url"}`, a server that is going down, too."""
        answer = await self._exchange("GET", "/health", again=True)
        return self._healthy(answer)

    async def _get(self, path: str, params: Mapping[str, object] | None = None) -> Document:
        """A reading verb."""
        return await self._call("GET", path, params=params, again=True)

    async def _call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, object] | None = None,
        fields: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        again: bool = False,
        patience_s: float = _QUICK_S,
        read_s: float | None = None,
    ) -> Document:
        """One verb: its document. `fields`: of the body's object, as JSON texts. `again`: may be repeated."""
        await self._greet()
        answer = await self._exchange(
            method,
            path,
            params=params,
            fields=fields,
            headers=headers,
            again=again,
            patience_s=patience_s,
            read_s=read_s,
        )
        document = object_of(answer) if answer.is_success else None
        if document is None:
            raise self._failure(answer)
        return document

    async def _greet(self) -> None:
        """Once: is it a Tenuto server that answers?"""
        if not self.version:
            await self._hello()

    def _healthy(self, answer: httpx2.Response) -> Document:
        document = object_of(answer)
        known = document or {}
        if isinstance(known.get("version"), str) and isinstance(known.get("status"), str):
            self.version = known["version"]
            return known
        raise self._failure(answer)

    async def _exchange(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, object] | None = None,
        fields: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        again: bool,
        patience_s: float = _QUICK_S,
        read_s: float | None = None,
    ) -> httpx2.Response:
        """One answer, whatever it says; asks again as far as that is safe."""
        request = self._client.build_request(
            method,
            _url(f"{self._address}{path}{query(params)}"),
            content=None if fields is None else body_of(fields),
            headers={
                **({} if fields is None else {"Content-Type": "application/json"}),
                **(headers or {}),
            },
        )
        if read_s is not None:
            request.extensions["timeout"] = httpx2.Timeout(read_s, connect=CONNECT_S).as_dict()
        calm, refusals = Calm(patience_s), 0
        while True:
            try:
                answer = await self._client.send(request)
            except _NEVER_SENT as error:
                if not self.version:
                    raise self._nobody(error) from None
                await calm.wait(self._gone(reason_of(error)))
            except _LOST as error:
                if not self.version and is_of_workers(reason_of(error)):
                    raise Unavailable(
                        f"{self.url} is no REST: it looks like a server's port for workers; name the "
                        "one for REST, by default 8080"
                    ) from None
                if not again:
                    raise Unavailable(
                        f"the connection to {self.url} was lost before it answered; it may have "
                        "been done: look before you try again"
                    ) from None
                await calm.wait(self._gone(reason_of(error)))
            except httpx2.TimeoutException:
                raise Unavailable(
                    f"{self.url} has not answered within {read_s or self._timeout_s:g} s"
                ) from None
            except httpx2.HTTPError as error:
                raise Unavailable(f"{self.url} cannot be asked: {reason_of(error)}") from None
            else:
                if answer.status_code == 429 and refusals < _REFUSALS_MAX:
                    refusals += 1
                    await asyncio.sleep(retry_after(answer))
                elif answer.status_code == 503 and again and patience_s > _QUICK_S:
                    await calm.wait(self._failure(answer))
                else:
                    return answer

    # -- failures --------------------------------------------------------------------------------------------------

    def _failure(self, answer: httpx2.Response) -> Exception:
        problem = problem_of(answer.status_code, answer.headers, answer.content)
        if problem is None:
            error: Exception = strange(answer.status_code, answer.headers, self.url)
        else:
            error = error_of(problem, self.url)
        if self.version not in ("", VERSION) and (problem is None or answer.status_code == 405):
            return Unavailable(
                f"{self.url} does not know this request: it is Tenuto {self.version}, and this is "
                f"{VERSION}; bring the older one up to date"
            )
        return error

    def _nobody(self, error: Exception) -> Unavailable:
        if isinstance(error, httpx2.ConnectTimeout | httpx2.PoolTimeout):
            return Unavailable(f"{self.url} cannot be reached: no answer within {CONNECT_S:g} s")
        reason = reason_of(error)
        if "refused" in reason.lower() or "attempts failed" in reason.lower():
            return Unavailable(f"nobody listens at {self.url}; {START}")
        if is_without_tls(reason):
            plain = self.url.replace("https:", "http:", 1)
            return Unavailable(f"{self.url} answers without TLS; write {plain}")
        if is_unknown_name(error):
            return Unavailable(f"{self.url} cannot be reached: its name is not known; check it")
        return Unavailable(f"{self.url} cannot be reached: {reason}")

    def _gone(self, reason: str) -> Unavailable:
        return Unavailable(
            f"the server at {self.url} has gone ({reason}); start it again, or name another"
        )

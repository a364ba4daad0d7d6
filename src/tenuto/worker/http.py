"""Executes `http` nodes: one request over a pooled client on the engine's loop, and its answer as the node's output.

The input is the definition's `request` with everything evaluated: `method, url, headers, query, auth` and one of
`json, body, form`. The output is `{status, headers, body}`; header names in lower case, body parsed when the answer
says that it is JSON. Only a 2xx is a success (SEMANTICS D). Neither headers nor bodies are ever logged; what a secret
resolved to is blotted out of whatever is stored.

| failure | when | tried again |
|---|---|---|
| `http.<status>` | an answer other than 2xx, a redirect that is not followed among them | yes |
| `connect` | no connection: refused, name unknown, TLS failed | yes |
| `disconnected` | the connection broke, or what came was no HTTP | yes |
| `timeout` | no connection in 10 s; the attempt's own time is the runner's | yes |
| `payload_too_large` | the answer is larger than a payload may be | no |
| `invalid_request` | no such URL, header, method or body can be sent | no |
| `address_blocked` | the host stands for an address that must not be called | no |
| `secret_missing` | the worker has no such secret | no |

Redirects are followed up to five times, also across origins unless the request carries credentials or headers of its
own, or would carry its body along.
"""

from __future__ import annotations

import base64
import codecs
import os
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from http.cookiejar import DefaultCookiePolicy
from importlib.metadata import version
from typing import Any
from urllib.parse import urlencode

import httpcore2
import httpx2

from tenuto.model.instants import HOUR_US, SECOND_US
from tenuto.model.payload import PAYLOAD_MAX
from tenuto.ports.gateway import Failed, Lease, Result, Success
from tenuto.runtime.results import Refused, canonical, canonical_bytes, parse, resolve_secrets
from tenuto.worker.calls import text_of
from tenuto.worker.egress import AddressBlocked, GuardedTransport

REDIRECTS_MAX = 5
CONNECT_S = 10.0
SILENCE_S = 300.0
"""Longest silence of the other side where the attempt has no time limit of its own."""
ERROR_BODY_MAX = 16_384
"""How much of an answer other than 2xx is kept in the failure's details."""
RETRY_AFTER_MAX_US = HOUR_US
"""A server that asks for more is asked again after this."""
SECRET_PREFIX = "TENUTO_SECRET_"

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Headers that say nothing about who asks, so another origin may see them.
_HARMLESS = frozenset(
    {"accept", "accept-language", "content-type", "idempotency-key", "user-agent"}
)
# Codecs of Python's that no answer is written in; some take minutes for a million bytes.
_NO_CHARSETS = frozenset({"idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"})
_BLOT = "***"
_PATH_MAX = 200
"""Characters of a path that a message shows."""
_SECRET_MIN = 4
"""Shorter secrets are not blotted out: that would tear holes into unrelated text."""


class _Bad(Exception):
    """The request cannot be sent; the text says why, without any value of it."""


class HttpExecutor:
    """An executor of `http` nodes."""

    def __init__(
        self,
        *,
        private: bool = True,
        secrets: Callable[[str], str | None] | None = None,
    ) -> None:
        """`private`: loopback and private networks may be called. `secrets`: from the environment by default."""
        self._secrets = secrets if secrets is not None else _from_environment
        self._client = httpx2.AsyncClient(
            transport=GuardedTransport(private=private),
            headers={"User-Agent": f"tenuto/{version('tenuto')}"},
            trust_env=False,
        )
        # A cookie that one run was given is no other run's business.
        self._client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    async def execute(self, lease: Lease) -> Result:
        """Send the request of one attempt."""
        seen: list[str] = []
        asked: list[str] = []
        try:
            result = await self._send(lease, seen, asked)
        except _Bad as bad:
            result = Failed(code="invalid_request", message=str(bad), retryable=False)
        except Refused as refused:
            result = Failed(code=refused.code, message=refused.message, retryable=False)
        except AddressBlocked as blocked:
            result = Failed(
                code="address_blocked", message=_about(asked, str(blocked)), retryable=False
            )
        except (httpcore2.TimeoutException, httpx2.TimeoutException) as error:
            result = Failed(code="timeout", message=_said(asked, error, "the other side is silent"))
        except httpcore2.ConnectError as error:
            result = Failed(code="connect", message=_said(asked, error, "no connection"))
        except (httpcore2.LocalProtocolError, httpcore2.UnsupportedProtocol):
            # h11 quotes the offending header, so its text is not passed on.
            message = _about(asked, "the request breaks a rule of HTTP")
            result = Failed(code="invalid_request", message=message, retryable=False)
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpx2.HTTPError) as error:
            result = Failed(
                code="disconnected", message=_said(asked, error, "the connection broke")
            )
        return _blotted(result, seen)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def _send(self, lease: Lease, seen: list[str], asked: list[str]) -> Result:
        """One request with its redirects. `seen` collects the secrets that were put in, `asked` what was asked for."""

        def lookup(name: str) -> str | None:
            text = self._secrets(name)
            if text is not None:
                seen.append(text)
            return text

        tree = resolve_secrets(parse(lease.input, name="the request"), lookup)
        if not isinstance(tree, dict):
            raise _Bad("the request is no mapping")
        request = self._request(tree, lease)
        if seen and "Authorization" in request.headers:
            seen.append(request.headers["Authorization"].partition(" ")[2])  # basic auth is encoded
        guarded = tree.get("auth") is not None or not _HARMLESS.issuperset(
            str(name).lower() for name in tree.get("headers") or ()
        )
        for _ in range(REDIRECTS_MAX + 1):
            asked.append(_request_line(request))
            response = await self._client.send(request, stream=True)
            try:
                follow = _redirected(request, response, guarded=guarded)
                if follow is None:
                    return await _result(response)
                request = follow
            finally:
                await response.aclose()
        return Failed(
            code=f"http.{response.status_code}",
            message=_about(asked[:1], f"more than {REDIRECTS_MAX} redirects"),
        )

    def _request(self, tree: Mapping[str, Any], lease: Lease) -> httpx2.Request:
        method = str(tree.get("method") or "GET").upper()
        if method not in _METHODS:
            raise _Bad("the method is none of " + ", ".join(sorted(_METHODS)))
        content, content_type = _content(tree)
        headers = {
            "Idempotency-Key": lease.task_id,
            "X-Tenuto-Attempt": str(lease.attempt),
            **({} if content_type is None else {"Content-Type": content_type}),
            **_authorization(tree),
        }
        own = {
            name: _scalar(value, f"header `{name}`") for name, value in _mapping(tree, "headers")
        }
        lower = {name.lower() for name in own}
        headers = {name: text for name, text in headers.items() if name.lower() not in lower} | own
        for name, text in headers.items():
            if not (name and name.isascii() and text.isascii()) or not text.isprintable():
                raise _Bad(f"header {text_of(name)!r} has characters that a header cannot hold")
        silence = None if lease.attempt_us is not None else SILENCE_S
        return self._client.build_request(
            method,
            _url(tree),
            headers=headers,
            content=content,
            timeout=httpx2.Timeout(silence, connect=CONNECT_S, pool=None),
            extensions={},
        )


def _from_environment(name: str) -> str | None:
    """`secrets.NAME` is the environment's TENUTO_SECRET_NAME (SEMANTICS X9)."""
    return os.environ.get(SECRET_PREFIX + name)


# -- the request ---------------------------------------------------------------------------------------------------


def _url(tree: Mapping[str, Any]) -> httpx2.URL:
    """The address with its query. Basic auth and bearer go into headers, never here."""
    text = tree.get("url")
    if not isinstance(text, str):
        raise _Bad("`url` is no text")
    if not text.isprintable() or " " in text:
        raise _Bad("`url` has characters that an address cannot hold")
    try:
        url = httpx2.URL(text)
        port = url.port
    except (httpx2.InvalidURL, ValueError, UnicodeError):
        raise _Bad("`url` is no address") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise _Bad("`url` is no http:// or https:// address")
    if url.userinfo:
        raise _Bad("`url` holds a user name or password; use `auth`")
    if port is not None and not 0 < port < 65_536:
        raise _Bad("`url` has a port beyond 65535")
    query: list[tuple[str, str]] = []
    for name, value in _mapping(tree, "query"):
        parts = value if isinstance(value, list) else [value]
        query.extend((name, _scalar(p, f"query `{name}`")) for p in parts if p is not None)
    if not query:
        return url
    joined = "&".join(filter(None, (url.query.decode("ascii"), urlencode(query))))
    return url.copy_with(query=joined.encode("ascii"))


def _content(tree: Mapping[str, Any]) -> tuple[bytes | None, str | None]:
    """The body's bytes and content type. One of json, body, form, or none."""
    if "json" in tree:
        return canonical_bytes(tree["json"], name="json"), "application/json"
    if tree.get("form") is not None:
        pairs = [(name, _scalar(value, f"form `{name}`")) for name, value in _mapping(tree, "form")]
        return urlencode(pairs).encode(), "application/x-www-form-urlencoded"
    if tree.get("body") is not None:
        return _scalar(tree["body"], "`body`").encode(), "text/plain; charset=utf-8"
    return None, None


def _authorization(tree: Mapping[str, Any]) -> dict[str, str]:
    """The header for `auth: {bearer: …}` or `auth: {basic: {username, password}}`."""
    auth = dict(_mapping(tree, "auth"))
    if not auth:
        return {}
    if "bearer" in auth:
        return {"Authorization": "Bearer " + _scalar(auth["bearer"], "`auth.bearer`")}
    basic = dict(_mapping(auth, "basic"))
    pair = [_scalar(basic.get(key), f"`auth.basic.{key}`") for key in ("username", "password")]
    return {"Authorization": "Basic " + base64.b64encode(":".join(pair).encode()).decode()}


def _mapping(tree: Mapping[str, Any], key: str) -> list[tuple[str, Any]]:
    """Entries of an optional mapping; null values are left out."""
    value = tree.get(key)
    if value is None:
        return []
    if not isinstance(value, dict):
        raise _Bad(f"`{key}` is no mapping")
    return [(name, part) for name, part in value.items() if part is not None]


def _scalar(value: object, what: str) -> str:
    """A text, number or boolean as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return canonical(value)
    raise _Bad(f"{what} is no text or number")


# -- the answer ----------------------------------------------------------------------------------------------------


def _redirected(
    request: httpx2.Request, response: httpx2.Response, *, guarded: bool
) -> httpx2.Request | None:
    """The request that a redirect asks for, or None: no redirect, or one that must not be followed."""
    follow = response.next_request
    if follow is None:
        return None
    if follow.url.scheme not in {"http", "https"} or follow.url.userinfo:
        return None
    elsewhere = follow.url.origin != request.url.origin
    if elsewhere and (guarded or follow.method not in {"GET", "HEAD"}):
        return None
    return follow


async def _result(response: httpx2.Response) -> Result:
    """Read the answer, at most as much of it as may be kept."""
    status = response.status_code
    headers = _headers(response)
    if response.is_success:
        body, whole = await _read(response, PAYLOAD_MAX)
        if not whole:
            return Failed(
                code="payload_too_large",
                message=_about(
                    [_request_line(response.request)],
                    f"the answer has more than the {PAYLOAD_MAX:,} bytes allowed",
                ),
                retryable=False,
            )
        value = {"status": status, "headers": headers, "body": _body(response, body)}
        return Success(output=canonical(value, name="the answer"))
    body, whole = await _read(response, ERROR_BODY_MAX)
    kept = _body(response, body) if whole else body.decode("utf-8", "replace")
    try:
        details = canonical({"status": status, "headers": headers, "body": kept})
    except Refused:
        details = canonical({"status": status, "headers": headers, "body": None})
    reason = response.reason_phrase or "no reason given"
    return Failed(
        code=f"http.{status}",
        message=text_of(f"{_request_line(response.request)} answered {status} {reason}"),
        details=details,
        retry_after_us=_retry_after_us(response) if status in {429, 503} else 0,
    )


async def _read(response: httpx2.Response, limit: int) -> tuple[bytes, bool]:
    """The first `limit` bytes of the body, decoded, and whether that is all."""
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > limit:
            return b"".join(parts)[:limit], False
    return b"".join(parts), True


def _headers(response: httpx2.Response) -> dict[str, str]:
    """Headers of the answer; cookies are left out, since they are credentials."""
    return {name: text_of(text) for name, text in response.headers.items() if name != "set-cookie"}


def _body(response: httpx2.Response, body: bytes) -> object:
    """JSON if the answer says so and it is; else text; else, for bytes that are none, `{base64: …}`; null if empty."""
    if not body:
        return None
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        try:
            return parse(body.removeprefix(codecs.BOM_UTF8))
        except Refused:
            pass  # said to be JSON, and is not: what came is passed on
    try:
        charset = codecs.lookup(response.charset_encoding or "utf-8").name
        if charset.replace("-", "_") not in _NO_CHARSETS:
            text = body.decode(charset)
            text.encode()
            if "\0" not in text:
                return text
    except (ValueError, LookupError):
        pass  # unknown, wrong, or what it yields cannot be stored
    return {"base64": base64.b64encode(body).decode()}


def _retry_after_us(response: httpx2.Response) -> int:
    """How long the server asks us to wait: seconds, or a date, which is compared with the answer's own Date."""
    text = response.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:9]) * SECOND_US, RETRY_AFTER_MAX_US)
    try:
        until = parsedate_to_datetime(text)
        now = parsedate_to_datetime(response.headers.get("date", ""))
        wait_us = int((until - now).total_seconds() * SECOND_US)
    except (ValueError, TypeError, OverflowError):
        return 0
    return max(0, min(wait_us, RETRY_AFTER_MAX_US))


def _request_line(request: httpx2.Request) -> str:
    """Method and address, for people; without the query and what stands before the host: those may be secret."""
    url = request.url
    port = f":{url.port}" if url.port is not None else ""
    path = url.raw_path.partition(b"?")[0].decode("ascii", "replace")
    shown = path if len(path) <= _PATH_MAX else path[:_PATH_MAX] + "…"
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{request.method} {url.scheme}://{host}{port}{shown}"


def _about(asked: list[str], message: str) -> str:
    """A message with the request that it is about, where one was made."""
    return f"{asked[-1]}: {message}" if asked else message


def _said(asked: list[str], error: Exception, otherwise: str) -> str:
    """What an error of the network says, about the last request."""
    return text_of(_about(asked, text_of(error) or otherwise))


def _blotted(result: Result, secrets: list[str]) -> Result:
    """The result without what secrets resolved to, should the other side have sent it back."""
    hidden = [secret for secret in secrets if len(secret) >= _SECRET_MIN]
    if not hidden:
        return result
    if isinstance(result, Success):
        return Success(output=_blotted_json(result.output, hidden))
    return Failed(
        code=result.code,
        message=_blotted_text(result.message, hidden),
        details=None if result.details is None else _blotted_json(result.details, hidden),
        retryable=result.retryable,
        retry_after_us=result.retry_after_us,
    )


def _blotted_text(text: str, hidden: list[str]) -> str:
    for secret in hidden:
        text = text.replace(secret, _BLOT)
    return text


def _blotted_json(text: str, hidden: list[str]) -> str:
    """The same in every string and key of a JSON text."""

    def walk(value: object) -> object:
        if isinstance(value, str):
            return _blotted_text(value, hidden)
        if isinstance(value, list):
            return [walk(part) for part in value]
        if isinstance(value, dict):
            return {_blotted_text(key, hidden): walk(part) for key, part in value.items()}
        return value

    return canonical(walk(parse(text)), limit=2 * PAYLOAD_MAX)

"""Tokens as JSON web tokens, HS256: signs them, and reads what they grant. Where secrets are kept is not known here.

A token says `exp` and `scope`, and may say `sub` (a name) and `queues`. One algorithm, whatever a header asks for; no
other header is looked at. Time is checked here, not in the library, so that it is the one that was handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jwt

from tenuto.model.errors import Denied
from tenuto.model.instants import format_instant
from tenuto.ports.access import MAKE_TOKEN, Authorize, Grantee, Scope

ALGORITHM = "HS256"
LEEWAY_US = 60_000_000
"""What clocks of a cluster may differ by; not more, or a stolen token would live longer."""
TOKEN_MAX = 8_192
"""Bytes: a token of ours has some hundred."""
_AT_MAX = 253_402_300_799
"""The last second of the year 9999."""
_OURS = frozenset({"exp", "iat", "scope", "sub", "queues"})


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says. Whether it may say so is another question."""

    scope: Scope
    expires_at: int
    name: str = ""
    queues: frozenset[str] | None = None


def sign(claims: Claims, secret: str, *, at: int) -> str:
    """A token, issued `at`."""
    payload: dict[str, Any] = {
        "exp": claims.expires_at // 1_000_000,
        "iat": at // 1_000_000,
        "scope": claims.scope.value,
    }
    if claims.name:
        payload["sub"] = claims.name
    if claims.queues is not None:
        payload["queues"] = sorted(claims.queues)
    return jwt.encode(payload, secret, algorithm=ALGORITHM)


def peek(token: str) -> Claims:
    """What a token says of itself, believed or not. Raises Denied for what is none of ours."""
    return _claims(_decoded(token, "", {"verify_signature": False}))


def authorizer(
    secrets: Callable[[], Sequence[str]], now: Callable[[], int], scope: Scope = Scope.ADMIN
) -> Authorize:
    """The door for tokens that one of the secrets has signed. `secrets` is asked each time: they may change. `scope`:
    whom those who are refused had better be.
    """
    made_by = MAKE_TOKEN[scope]

    def authorize(token: str | None) -> Grantee:
        if not token:
            raise Denied(f"this needs a token; set TENUTO_TOKEN to one that `{made_by}` prints")
        claims = _verified(token, secrets())
        left_us = claims.expires_at + LEEWAY_US - now()
        if left_us <= 0:
            ended = format_instant(claims.expires_at)
            raise Denied(f"the token expired at {ended}; get another: {made_by}")
        return Grantee(
            scope=claims.scope,
            name=claims.name,
            queues=claims.queues,
            expires_at=claims.expires_at,
            left_us=left_us,
        )

    return authorize


def _verified(token: str, secrets: Sequence[str]) -> Claims:
    for secret in secrets:
        try:
            return _claims(_decoded(token, secret, {"require": ["exp", "scope"]}))
        except jwt.InvalidSignatureError:
            continue
    raise Denied("the token was signed with another secret than this server's")


def _decoded(token: str, secret: str, options: Mapping[str, Any]) -> dict[str, Any]:
    if len(token) > TOKEN_MAX:
        raise Denied(f"the token has more than {TOKEN_MAX:,} bytes")
    unchecked = {
        f"verify_{each}": False for each in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")
    }
    try:
        return jwt.decode(token, secret, algorithms=[ALGORITHM], options={**unchecked, **options})  # type: ignore[arg-type] # a TypedDict
    except jwt.InvalidSignatureError:
        raise
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise Denied(f"the token cannot be read: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """The library's words, where they are about the form; never a piece of the token."""
    match error:
        case jwt.MissingRequiredClaimError():
            return f"it lacks `{error.claim}`"
        case jwt.InvalidAlgorithmError():
            return f"it is not signed by {ALGORITHM}"
        case _:
            return "it is no JSON web token"


def _claims(payload: Mapping[str, Any]) -> Claims:
    """The claims, in their types. One that is not known could be a limit: it is refused, not ignored."""
    expires, scope = payload.get("exp"), payload.get("scope")
    name, queues = payload.get("sub", ""), payload.get("queues")
    strange = sorted(payload.keys() - _OURS)
    if strange:
        raise Denied(f"the token says `{strange[0][:40]}`, which is not understood here")
    if not isinstance(expires, int) or isinstance(expires, bool) or not 0 < expires <= _AT_MAX:
        raise Denied("the token's `exp` is no time")
    if not isinstance(scope, str) or scope not in tuple(Scope):
        raise Denied(f"the token's `scope` is neither {Scope.ADMIN} nor {Scope.WORKER}")
    if not isinstance(name, str):
        raise Denied("the token's `sub` is no text")
    if queues is not None and not (
        isinstance(queues, list) and queues and all(isinstance(each, str) for each in queues)
    ):
        raise Denied("the token's `queues` are no list of names")
    return Claims(
        scope=Scope(scope),
        expires_at=expires * 1_000_000,
        name=name,
        queues=None if queues is None else frozenset(queues),
    )

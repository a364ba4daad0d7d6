"""Tokens: what is believed, what is not, and that nothing of them is repeated. Catalogue S1-S4, S7, S11, L10, L15."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.adapters.jwt import LEEWAY_US, Claims, authorizer, peek, sign
from tenuto.model.errors import Denied
from tenuto.ports.access import Scope

NOW = 1_800_000_000_000_000
SECRET, OLD, OTHER = "a" * 32, "b" * 40, "c" * 32
HOUR = 3_600_000_000


def door(*secrets: str, now: int = NOW) -> Any:
    return authorizer(lambda: secrets or (SECRET,), lambda: now)


def made(payload: object, secret: str = SECRET, **header: object) -> str:
    """A token by hand: any header, any payload, a good HS256 signature."""
    head = {"alg": "HS256", "typ": "JWT", **header}
    text = b".".join(_b64(json.dumps(each).encode()) for each in (head, payload))
    return (text + b"." + _b64(hmac.digest(secret.encode(), text, hashlib.sha256))).decode()


def _b64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


GOOD = {"exp": NOW // 1_000_000 + 3_600, "scope": "admin"}


def test_a_token_grants_what_it_says() -> None:
    claims = Claims(Scope.WORKER, NOW + HOUR, "shop", frozenset({"b", "a"}))

    grantee = door()(sign(claims, SECRET, at=NOW))

    assert (grantee.scope, grantee.name, grantee.queues) == ("worker", "shop", {"a", "b"})
    assert (grantee.expires_at, grantee.left_us) == (NOW + HOUR, HOUR + LEEWAY_US)


def test_a_token_without_name_and_queues_is_anybodys_for_all() -> None:
    grantee = door()(made(GOOD))

    assert (grantee.scope, grantee.name, grantee.queues) == ("admin", "", None)


def test_two_secrets_hold_at_once_and_a_third_does_not() -> None:
    either = door(SECRET, OLD)

    assert either(made(GOOD, SECRET)) == either(made(GOOD, OLD))
    with pytest.raises(Denied, match="signed with another secret than this server's"):
        either(made(GOOD, OTHER))


@pytest.mark.parametrize(
    ("late_us", "holds"),
    [(0, True), (-HOUR, True), (LEEWAY_US - 1, True), (LEEWAY_US, False), (HOUR, False)],
)
def test_a_token_holds_until_a_minute_after_its_end(late_us: int, holds: bool) -> None:
    """Catalogue L10."""
    token = made({**GOOD, "exp": NOW // 1_000_000})
    ask = door(now=NOW + late_us)

    if holds:
        assert ask(token).left_us == LEEWAY_US - late_us
    else:
        with pytest.raises(
            Denied, match=r"expired at 2027-01-15T08:00:00\.000Z; get another"
        ) as raised:
            ask(token)
        assert not raised.value.known


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("none", [None, ""])
def test_nobody_gets_the_cure(none: str | None, scope: Scope) -> None:
    cure = f"set TENUTO_TOKEN to one that `tenuto token create --scope {scope} --expires "
    with pytest.raises(Denied, match=cure):
        authorizer(lambda: (SECRET,), lambda: NOW, scope)(none)


def _unsigned(alg: object) -> str:
    head = {"alg": alg, "typ": "JWT"}
    return (
        _b64(json.dumps(head).encode()) + b"." + _b64(json.dumps(GOOD).encode()) + b"."
    ).decode()


_RIGHT = made(GOOD)
_HEAD, _BODY, _SIGN = _RIGHT.split(".")
UNSIGNED: tuple[object, ...] = ("none", "None", "NONE", "nOnE", "", None, 1, [])
OTHERS: tuple[object, ...] = (
    "none",
    "hs256",
    "HS384",
    "HS512",
    "RS256",
    "ES256",
    "EdDSA",
    "PS256",
    "",
    None,
    {},
    "HS256 ",
)
FORGED = {
    **{f"alg {alg!r}, no signature": _unsigned(alg) for alg in UNSIGNED},
    **{f"alg {alg!r}, signed by HS256": made(GOOD, alg=alg) for alg in OTHERS},
    "signed by HS512": jwt.encode(GOOD, SECRET * 2, algorithm="HS512"),
    "signature cut off": f"{_HEAD}.{_BODY}.",
    "signature of two parts": f"{_HEAD}.{_BODY}",
    "signature shortened": _RIGHT[:-3],
    "signature of another": f"{_HEAD}.{_BODY}.{made({**GOOD, 'sub': 'x'}).split('.')[2]}",
    "payload exchanged": f"{_HEAD}.{_b64(json.dumps({**GOOD, 'sub': 'root'}).encode()).decode()}.{_SIGN}",
    "another secret": made(GOOD, OTHER),
    "an empty secret": made(GOOD, ""),
    "the secret cut": made(GOOD, SECRET[:-1]),
    "no exp": made({"scope": "admin"}),
    "no scope": made({"exp": GOOD["exp"]}),
    "exp null": made({**GOOD, "exp": None}),
    "exp of text": made({**GOOD, "exp": "9999999999"}),
    "exp of a fraction": made({**GOOD, "exp": 9999999999.5}),
    "exp true": made({**GOOD, "exp": True}),
    "exp beyond all years": made({**GOOD, "exp": 10**15}),
    "exp negative": made({**GOOD, "exp": -1}),
    "scope unknown": made({**GOOD, "scope": "root"}),
    "scope of two": made({**GOOD, "scope": "admin worker"}),
    "scope a list": made({**GOOD, "scope": ["admin"]}),
    "scope in capitals": made({**GOOD, "scope": "ADMIN"}),
    "sub a number": made({**GOOD, "sub": 5}),
    "queues of text": made({**GOOD, "queues": "a"}),
    "queues empty": made({**GOOD, "queues": []}),
    "queues of numbers": made({**GOOD, "queues": [1]}),
    "a limit that is not known": made({**GOOD, "nbf": 1}),
    "an audience": made({**GOOD, "aud": "other"}),
    "payload a list": made([GOOD]),
    "payload text": made("admin"),
    "not base64": "a.b.c",
    "no token": "canary",
    "very long": "x" * 9_000,
    "very long and signed": made({**GOOD, "sub": "x" * 9_000}),
    "not latin": "ü.ü.ü",
    "nested deeply": f"{_HEAD}.{_b64(b'[' * 4_000).decode()}.{_SIGN}",
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=list(FORGED))
def test_a_forged_token_is_refused_and_not_repeated(forged: str) -> None:
    with pytest.raises(Denied) as raised:
        door()(forged)

    said = str(raised.value)
    assert (raised.value.exit_code, raised.value.known) == (5, False)
    assert forged not in said
    assert len(said) < 120


@pytest.mark.parametrize("name", ["kid", "jku", "x5u", "jwk", "x5c"])
@pytest.mark.parametrize("value", ["../../etc/passwd", "' OR 1=1 --", "http://127.0.0.1:1/keys"])
def test_no_header_names_a_key(name: str, value: str) -> None:
    assert door()(made(GOOD, **{name: value})).scope is Scope.ADMIN
    with pytest.raises(Denied):
        door()(made(GOOD, OTHER, **{name: value}))


@given(
    st.text(max_size=200)
    | st.binary(max_size=100).map(lambda b: _b64(b).decode()).map(lambda t: f"{t}.{t}.{t}")
)
def test_any_text_is_refused_in_order(text: str) -> None:
    with pytest.raises(Denied):
        door()(text)


def test_a_token_shows_what_it_says_without_the_secret() -> None:
    claims = Claims(Scope.WORKER, NOW, "shop", frozenset({"a"}))

    assert peek(sign(claims, OTHER, at=NOW)) == claims
    with pytest.raises(Denied, match="cannot be read: it is no JSON web token"):
        peek("hunter2")

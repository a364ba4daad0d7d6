"""`tenuto token`: tokens for clients and workers, signed with the servers' secret. A token goes to stdout, alone."""

from __future__ import annotations

import json

from tenuto.cli.console import note, say
from tenuto.cli.look import now_us
from tenuto.model.errors import Denied, InvalidInput
from tenuto.model.instants import format_duration, format_instant, parse_duration
from tenuto.ports.access import Scope
from tenuto.settings import load

LONGEST = "3650d"
_ROUND_US = 60_000_000


def print_token(scope: Scope, *, expires: str, name: str, queues: str) -> int:
    """Print a new token. Raises InvalidInput: there is no secret, or what it shall say cannot be."""
    from tenuto.app.access import create_token

    lasts_us = _lasting(expires)
    if len(name) > 200 or not name.isprintable():
        raise InvalidInput(
            "is longer than 200 characters, or has a character that no line shows", path="--name"
        )
    if scope is Scope.ADMIN and queues:
        raise InvalidInput(
            "belongs to --scope worker; an admin's token is for everything", path="--queues"
        )
    say(create_token(load().auth, scope, lasts_us=lasts_us, name=name, queues=_names(queues)))
    return 0


def show_token(token: str, *, as_json: bool) -> int:
    """Print what a token says of itself. 5: it has expired. Raises Denied: it is none of ours."""
    from tenuto.app.access import peek_token

    text = _typed() if token == "-" else token
    claims = peek_token(text)
    left_us = claims.expires_at - now_us()
    queues = None if claims.queues is None else sorted(claims.queues)
    if as_json:
        expires_at = format_instant(claims.expires_at)
        document = {
            "scope": claims.scope,
            "name": claims.name,
            "queues": queues,
            "expires_at": expires_at,
        }
        say(json.dumps({**document, "expired": left_us <= 0}, ensure_ascii=False))
    else:
        say(f"scope    {claims.scope}")
        say(f"name     {claims.name or 'none'}")
        say(f"queues   {'all' if queues is None else ', '.join(queues)}")
        rounded = format_duration(max(abs(left_us) // _ROUND_US * _ROUND_US, _ROUND_US))
        when = f"in {rounded}" if left_us > 0 else f"{rounded} ago"
        say(f"expires  {format_instant(claims.expires_at)}, {when}")
        note("whether a server believes it was not asked: that takes its secret")
    return 0 if left_us > 0 else Denied.exit_code


def _typed() -> str:
    """From standard input, so that it stands in no list of processes."""
    import sys

    return sys.stdin.readline(10_000).strip()


def _lasting(text: str) -> int:
    try:
        us = parse_duration(text)
    except ValueError as error:
        raise InvalidInput(str(error), path="--expires") from None
    if not 60_000_000 <= us <= parse_duration(LONGEST):
        raise InvalidInput(
            f"{text} is out of bounds; give one from 1m to {LONGEST}", path="--expires"
        )
    return us


def _names(text: str) -> list[str]:
    names = [each.strip() for each in text.split(",")] if text else []
    if not all(names):
        raise InvalidInput(
            f"{text!r} holds an empty name; write names with commas between", path="--queues"
        )
    return names

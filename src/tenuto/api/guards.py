"""Who may ask: the names under which this server is reached, and the sites whose pages may change something.

There is no login: who reaches the loopback interface is trusted. What a browser does there for a page of another site
is not, hence these checks (DNS rebinding; cross-site requests). No rule is about what is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenuto.api.problems import Problem

NAMES = ("127.0.0.1", "localhost", "[::1]")
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_OURS = frozenset({"same-origin", "none"})
_HTTP_PORT = 80


def check_host(host: str | None, port: int | None) -> None:
    """Refuse names that are none of ours. `port`: where we listen; None if that is unknown.

    Raises Problem: forbidden_host.
    """
    name, given = _split(host or "")
    is_ours = name.lower() in NAMES and (port is None or given == port)
    if not is_ours:
        shown = "127.0.0.1" if port is None else f"127.0.0.1:{port}"
        raise Problem(
            "forbidden_host",
            f"the request is for {host!r}, which is no name of this server; use http://{shown}",
        )


def check_origin(method: str, headers: Mapping[str, str]) -> None:
    """Refuse what a page of another site would change. Raises Problem: forbidden_origin."""
    if method in SAFE:
        return
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    ours = f"http://{headers.get('host', '')}".lower()
    if (site is not None and site not in _OURS) or (origin is not None and origin.lower() != ours):
        raise Problem(
            "forbidden_origin",
            f"a page of {origin or 'another site'} may not change anything here",
        )


def _split(host: str) -> tuple[str, int | None]:
    """Name and port; None for a port that is no number."""
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        return host, _HTTP_PORT
    return name, int(port) if port.isascii() and port.isdigit() and len(port) < 6 else None

"""Who may ask: the names under which this server is reached, and the sites whose pages may change something.

Without tokens, who reaches the loopback interface is trusted. What a browser does there for a page of another site is
not, hence these checks (DNS rebinding; cross-site requests). Where tokens are asked for, the names of a server are not
known here, and a foreign page has no token. No rule is about what is asked for.
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


def check_text(path: str, query: bytes) -> None:
    """Refuse a NUL, which no name holds and no database can look for. `path`: decoded; `query`: as it came.

    Raises Problem: not_found for a path, invalid_input for a query.
    """
    if "\0" in path:
        raise Problem("not_found", "the address holds a NUL character (%00); leave it out")
    if b"%00" in query or b"\0" in query:
        raise Problem("invalid_input", "the query holds a NUL character (%00); leave it out")


def check_origin(method: str, headers: Mapping[str, str], *, guarded: bool = False) -> None:
    """Refuse what a page of another site would change. `guarded`: a proxy may speak TLS for us.

    Raises Problem: forbidden_origin.
    """
    if method in SAFE:
        return
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    host = headers.get("host", "").lower()
    ours = (f"http://{host}", *([f"https://{host}"] if guarded else []))
    if (site is not None and site not in _OURS) or (
        origin is not None and origin.lower() not in ours
    ):
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

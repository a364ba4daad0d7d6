"""Where Redis is, read from a URL: `redis://`, `rediss://` (TLS), `redis+cluster://`, `rediss+cluster://`, `unix://`.

Nothing is opened here. What is printed never has the password.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from tenuto.model.errors import InvalidInput

PORT = 6379
FORMS = "redis://, rediss://, redis+cluster://, rediss+cluster:// or unix://"
_LOOPBACK = ("localhost", "127.", "::1")
_TLS = {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One Redis.

    Attributes:
        nodes: hosts and ports, several only of a cluster; empty for a socket.
        path: of a Unix socket.
        options: what else the client is told: username, password, db, ssl….
    """

    cluster: bool = False
    nodes: tuple[tuple[str, int], ...] = ()
    path: str | None = None
    tls: bool = False
    options: Mapping[str, str | int | bool] = field(default_factory=dict, repr=False)

    @property
    def loopback(self) -> bool:
        """Whether it is on this machine by its name."""
        return all(host.startswith(_LOOPBACK) for host, _ in self.nodes)

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix://{self.path}"
        scheme = ("rediss" if self.tls else "redis") + ("+cluster" if self.cluster else "")
        nodes = ",".join(f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in self.nodes)
        db = self.options.get("db", 0)
        return f"{scheme}://{nodes}" + (f"/{db}" if db else "")


def read_address(url: str) -> Address:
    """Read a URL.

    Raises:
        InvalidInput: of another form. The text has no password.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _wrong("cannot be read as a URL") from None
    scheme = parts.scheme
    cluster = scheme.endswith("+cluster")
    if scheme.removesuffix("+cluster") not in {"redis", "rediss"} and scheme != "unix":
        raise _wrong(f"says {scheme or 'no scheme'}; use {FORMS}")
    tls = scheme.startswith("rediss")
    options = _options(parts, tls=tls)
    if scheme == "unix":
        if not parts.path:
            raise _wrong("has no path of a socket: unix:///run/redis.sock")
        return Address(path=unquote(parts.path), options=options)
    db = parts.path.strip("/")
    if db:
        if not db.isdecimal():
            raise _wrong(f"has {db!r} where the number of a database stands")
        if cluster and int(db):
            raise _wrong("names a database; a cluster has only number 0")
        options["db"] = int(db)
    nodes = tuple(_node(text) for text in parts.netloc.rpartition("@")[2].split(","))
    if len(nodes) > 1 and not cluster:
        raise _wrong("names several servers; that is the form redis+cluster://a:6379,b:6379")
    return Address(cluster=cluster, nodes=nodes, tls=tls, options=options)


def _options(parts: SplitResult, *, tls: bool) -> dict[str, str | int | bool]:
    options: dict[str, str | int | bool] = {}
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    if user:
        options["username"] = unquote(user)
    if password:
        options["password"] = unquote(password)
    for name, value in parse_qsl(parts.query):
        if parts.scheme == "unix" and name == "db" and value.isdecimal():
            options["db"] = int(value)
        elif tls and name in _TLS:
            options[name] = value == "true" if name == "ssl_check_hostname" else value
        else:
            raise _wrong(f"has {name!r}, which is not known here")
    return options


def _node(text: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _wrong(f"has {text!r} where host:port stands") from None
    return host or "localhost", port or PORT


def _wrong(message: str) -> InvalidInput:
    return InvalidInput(f"the address of Redis {message}", path="redis.url")

"""What a user's words about the database mean. No file is opened here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tenuto.model.errors import InvalidInput

DEFAULT_DATABASE = Path(".tenuto") / "tenuto.db"
MEMORY = ":memory:"
POOL = 10

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_WORD = re.compile(r"([?&](?:ssl)?password=)[^&]*", re.IGNORECASE)
_NAMED = re.compile(r"(?:^|&)(?:dbname|database|service)=[^&]")
_PORT = re.compile(r":([^:\]]*)$")


@dataclass(frozen=True, slots=True)
class Database:
    """Where runs are kept: a file, memory (neither `path` nor `url`), or a PostgreSQL database.

    Attributes:
        path: the file.
        url: of PostgreSQL, with its password; never to be printed.
        listen_url: a connection past PgBouncer for LISTEN; None: `url` will do.
        pool: most connections of this process beside that one.
    """

    path: Path | None = None
    url: str | None = field(default=None, repr=False)
    listen_url: str | None = field(default=None, repr=False)
    pool: int = POOL

    @property
    def is_postgres(self) -> bool:
        """Whether many processes may work on it at once."""
        return self.url is not None

    @property
    def place(self) -> Path | str:
        """As the engine takes it; a URL without its password."""
        if self.url is not None:
            return mask(self.url)
        return MEMORY if self.path is None else self.path

    def __str__(self) -> str:
        """As people write it, without a password."""
        return str(self.place)


def mask(url: str) -> str:
    """A URL with stars for its password, wherever one may stand."""
    scheme, slashes, rest = url.partition("://")
    if not slashes:
        return _WORD.sub(r"\1***", url)
    # The last @ ends a password, which may hold any character that somebody forgot to escape; of the web it is known
    # that a path may hold one, too.
    web = scheme.lower() in ("http", "https")
    end = len(re.split(r"[/?#]", rest, maxsplit=1)[0]) if web else len(rest)
    head, at, tail = rest[:end].rpartition("@")
    tail += rest[end:]
    user, colon, _ = head.partition(":")
    return _WORD.sub(r"\1***", f"{scheme}://{user}{':***' if colon else ''}{at}{tail}")


def read_database(text: str, *, folder: Path | None = None) -> Database:
    """Read a path, `:memory:`, a `sqlite:` or a `postgresql:` URL.

    `sqlite:///runs.db` is relative to the working directory, `sqlite:////var/runs.db` is absolute.

    Args:
        text: as the user wrote it.
        folder: what a relative path is relative to; None is the working directory.

    Raises:
        InvalidInput: another scheme, a directory, an incomplete URL, or nothing at all.
    """
    if not text:
        raise InvalidInput("is empty; give a file such as .tenuto/tenuto.db", path="database")
    if "\0" in text:
        raise InvalidInput("holds a NUL character", path="database")
    scheme = _SCHEME.match(text)
    if scheme is None:
        return _file(text, folder)
    match scheme[1].lower():
        case "sqlite":
            return _file(_sqlite_path(text[len("sqlite:") :]), folder)
        case "postgresql" | "postgres":
            return Database(url=_postgres(text))
        case "postgresql+asyncpg" | "postgresql+psycopg" | "postgresql+psycopg2":
            plain = mask(text).partition(":")[2]
            raise InvalidInput(
                f"is written for SQLAlchemy; write postgresql:{plain}", path="database"
            )
        case "http" | "https":
            raise InvalidInput(
                f"{mask(text)} is the address of a server, no database; it belongs to --url, or TENUTO_URL",
                path="database",
            )
        case other:
            raise InvalidInput(
                f"{other!r} is no kind of database; write a path, sqlite:///path or "
                "postgresql://user@host/name",
                path="database",
            )


def _postgres(text: str) -> str:
    """A URL that says where, checked as far as this can be done without a connection."""
    like = "write it like postgresql://user:password@host:5432/name"
    if not text.partition(":")[2].startswith("//"):
        raise InvalidInput(f"{mask(text)} lacks its slashes; {like}", path="database")
    try:
        parts = urlsplit(text)
    except ValueError:  # brackets without their other half
        raise InvalidInput(f"{mask(text)} cannot be read; {like}", path="database") from None
    escaped = "; in a password write %23 for #, %2F for /, %3F for ? and %40 for @"
    if parts.fragment or "@" in parts.path or "@" in parts.query:
        raise InvalidInput(
            f"{mask(text)} has a character that ends it too early{escaped}", path="database"
        )
    hosts = parts.netloc.rpartition("@")[2]
    for host in hosts.split(","):
        port = _PORT.search(host)
        if port is not None and not (port[1].isdecimal() and 0 < int(port[1][:6]) <= 65_535):
            raise InvalidInput(
                f"{mask(text)} has the port {port[1]!r}; give one from 1 to 65535{escaped}",
                path="database",
            )
    if not parts.path.strip("/") and not _NAMED.search(parts.query):
        raise InvalidInput(f"{mask(text)} names no database; {like}", path="database")
    return text


def _sqlite_path(rest: str) -> str:
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        if host:
            raise InvalidInput(
                f"sqlite URLs have no host, but this one names {host!r}; write sqlite:///{host}"
                f"{slash}{rest}",
                path="database",
            )
    return unquote(rest)


def _file(text: str, folder: Path | None) -> Database:
    if text in (MEMORY, ""):
        return Database(None)
    try:
        path = Path(text).expanduser()
    except RuntimeError:  # `~name` of a user who is not there
        raise InvalidInput(
            f"{text} names the home of an unknown user; write the path itself", path="database"
        ) from None
    if folder is not None:
        path = folder / path
    if path.is_dir():
        raise InvalidInput(
            f"{text} is a directory; name a file in it, such as {path / 'tenuto.db'}",
            path="database",
        )
    return Database(path)

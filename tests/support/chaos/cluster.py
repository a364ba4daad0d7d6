"""A cluster of real processes: starts servers, workers and a language server, finds them again, ends them.

Each stands behind proxies of its own, so that its connections can be cut alone. Nothing outlives the caller, also if
that is killed (`tests.support.backing.keeper`).
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.error import URLError
from urllib.request import urlopen

from tests.support import commands
from tests.support.backing.keeper import Kept, descendants, keeper
from tests.support.backing.ports import free_port
from tests.support.backing.postgres import Postgres, start_postgres
from tests.support.backing.proxy import Proxy, start_proxy
from tests.support.backing.redis import Redis, start_redis
from tests.support.chaos.journal import FOLDER

PROGRAM = (sys.executable, "-m", "tenuto")
ROOT = Path(__file__).resolve().parents[3]
SKEW = Path(__file__).resolve().parent / "skew"
READY_S = 30.0
Mode = Literal["database", "redis"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a cluster is made of.

    Attributes:
        proxied: put proxies before everything; else processes speak to each other directly.
        skewed: wall clocks of hosts are one hour ahead and behind by turns.
        durable: PostgreSQL flushes to the disk.
        lease: how long a lease lasts, as the setting takes it.
    """

    mode: Mode = "database"
    servers: int = 2
    workers: int = 3
    queues: tuple[str, ...] = ("a", "b")
    app: str = "tests.support.chaos.app:app"
    languages: bool = False
    proxied: bool = True
    skewed: bool = False
    durable: bool = False
    lease: str = "3s"
    env: Mapping[str, str] = field(default_factory=dict)
    version: int | None = None


@dataclass(slots=True)
class Member:
    """One process of the cluster, started again under the same name."""

    name: str
    command: list[str]
    env: dict[str, str]
    log: Path
    kept: Kept | None = None
    drained: list[int] = field(default_factory=list)
    """When it was asked to end, by the monotonic clock in microseconds."""
    stopped: bool = False
    falls: list[str] = field(default_factory=list)
    """How it ended by itself, each time, as far as somebody has looked."""
    _watched: bool = False
    """It runs, and its end would be a fall."""

    def start(self) -> None:
        """Start it; it is not ready yet."""
        self.look()
        self.kept = keeper().start(self.command, folder=ROOT, log=self.log, env=self.env)
        self.stopped, self._watched = False, True

    def look(self) -> None:
        """Note if it has ended by itself; `falls` has it once, whatever is done to it afterwards."""
        if self._watched and not self.alive:
            self.falls.append(self.state())
            self._watched = False

    @property
    def pid(self) -> int:
        assert self.kept is not None
        return self.kept.pid

    @property
    def alive(self) -> bool:
        return self.kept is not None and self.kept.alive

    def kill(self) -> None:
        """SIGKILL to it alone: its children have to notice by themselves."""
        if self.kept is not None:
            self._end_it()
            self.kept.send(signal.SIGKILL)
            self.kept.wait(10)

    def kill_all(self) -> None:
        """SIGKILL to it and all below it, as when its host is gone."""
        if self.kept is not None:
            self._end_it()
            self.kept.kill()

    def stop(self) -> None:
        """SIGSTOP to it and all below it."""
        self._send_all(signal.SIGSTOP)
        self.stopped = True

    def resume(self) -> None:
        """SIGCONT to the same."""
        self._send_all(signal.SIGCONT)
        self.stopped = False

    def drain(self, within_s: float) -> int | None:
        """SIGTERM, and wait for its end; the code, None (and SIGKILL) if it takes longer."""
        if self.kept is None:
            return 0
        self._end_it()
        self.drained.append(time.monotonic_ns() // 1_000)
        self.kept.send(signal.SIGTERM)
        code = self.kept.wait(within_s)
        if code is None:
            self.kept.kill()
        return code

    def children(self) -> list[int]:
        """Processes below it."""
        return descendants(self.pid)

    def last_words(self, lines: int = 30) -> str:
        """The end of its log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def state(self) -> str:
        """Whether it runs, or how it ended; and what it said last."""
        code = None if self.kept is None else self.kept.wait(0)
        how = "runs" if self.alive else f"has ended with code {code}"
        return f"{self.name} {how}; it said last:\n{self.last_words()}\n"

    def _end_it(self) -> None:
        """From here on its end is our doing."""
        self.look()
        self._watched = False

    def _send_all(self, number: signal.Signals) -> None:
        if self.kept is None or not self.kept.alive:
            return
        for pid in (self.kept.pid, *descendants(self.kept.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)


@dataclass(slots=True)
class Server(Member):
    """A coordinator. `database`, `listen`, `redis`: proxies before what it uses; `gate`: before its own port."""

    port: int = 0
    grpc_port: int = 0
    database: Proxy | None = None
    listen: Proxy | None = None
    redis: Proxy | None = None
    gate: Proxy | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def is_ready(self) -> bool:
        """Whether it says that all its loops are well."""
        with suppress(URLError, OSError), urlopen(f"{self.url}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
        return False


class Cluster:
    """Made by `with Cluster(plan, folder) as cluster`. `folder` gets logs and the journal. `tell`: what is started
    next, for it takes its time.
    """

    def __init__(
        self, plan: Plan, folder: Path, *, tell: Callable[[str], None] = lambda _what: None
    ) -> None:
        self.plan = plan
        self.tell = tell
        self.folder = folder
        self.journal = folder / "journal"
        self.logs = folder / "logs"
        self.servers: list[Server] = []
        self.workers: list[Member] = []
        self.languages: Member | None = None
        self.postgres: Postgres
        self.redis: Redis | None = None
        self.dsn = ""
        self._proxies: list[Proxy] = []

    def __enter__(self) -> Self:
        for made in (self.journal, self.logs):
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir(parents=True)
        self.tell("PostgreSQL")
        self.postgres = start_postgres(self.plan.version, durable=self.plan.durable)
        try:
            self._start()
        except BaseException as error:
            self._tell_falls(error)
            self.close()
            raise
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if error is not None:
            self._tell_falls(error)
        self.close()

    def close(self) -> None:
        """End everything."""
        for member in self.members():
            member.kill_all()
        for proxy in self._proxies:
            proxy.close()
        if self.redis is not None:
            self.redis.close()
        self.postgres.close()

    def members(self) -> list[Member]:
        """All processes of ours."""
        alone = [] if self.languages is None else [self.languages]
        return [*self.servers, *self.workers, *alone]

    def falls(self) -> list[str]:
        """Processes that ended by themselves, with their exit codes and what they said last."""
        for member in self.members():
            member.look()
        return [fall for member in self.members() for fall in member.falls]

    def _tell_falls(self, error: BaseException) -> None:
        """It may have failed by one of them."""
        if falls := self.falls():
            error.add_note("\n".join(["ended by themselves:", *falls]))

    # -- making ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        plan = self.plan
        self.dsn = self.postgres.create_database()
        if plan.mode == "redis":
            self.tell("Redis")
            self.redis = start_redis()
        self.tell("servers")
        if plan.languages:
            self._add_languages()
        for number in range(1, plan.servers + 1):
            server = self._make_server(number)
            self.servers.append(server)
            server.start()
            if number == 1:
                self.wait_ready()  # the first one brings the schema up
        self.wait_ready()
        self.tell("workers")
        for number in range(1, plan.workers + 1):
            self.add_worker(f"worker-{number}")
        self.wait_workers()

    def _make_server(self, number: int) -> Server:
        plan, port, grpc_port = self.plan, free_port(), free_port()
        proxies: dict[str, Proxy] = {}
        database = listen = self.dsn
        redis = "" if self.redis is None else self.redis.url
        if plan.proxied:
            proxies = {"database": self._proxy(self.dsn), "listen": self._proxy(self.dsn)}
            database, listen = (proxies[name].url(self.dsn) for name in ("database", "listen"))
            if self.redis is not None:
                proxies["redis"] = self._proxy(self.redis.url)
                redis = proxies["redis"].url(self.redis.url)
            proxies["gate"] = self._proxy(f"tcp://127.0.0.1:{grpc_port}")
        command = [*PROGRAM, *commands.SERVER, "--database", database, "--upgrade"]
        command += ["--redis", redis] if redis else []
        command += ["--host", "127.0.0.1", "--port", str(port), "--grpc-port", str(grpc_port)]
        env = self._env(number) | {
            "TENUTO_POSTGRES__LISTEN_URL": listen,
            "TENUTO_DISPATCH": plan.mode,
            "TENUTO_SERVER__LEASE": plan.lease,
            "TENUTO_SERVER__DRAIN": "3s",
            "TENUTO_API__REQUESTS_PER_SECOND": "100000",
            "TENUTO_API__BURST": "100000",
        }
        if self.languages is not None:
            env["TENUTO_LANGUAGES__SERVER"] = self.languages_address
        name = f"server-{number}"
        return Server(
            name,
            command,
            env,
            self.logs / f"{name}.log",
            port=port,
            grpc_port=grpc_port,
            database=proxies.get("database"),
            listen=proxies.get("listen"),
            redis=proxies.get("redis"),
            gate=proxies.get("gate"),
        )

    def add_worker(
        self, name: str, queues: tuple[str, ...] | None = None, env: Mapping[str, str] | None = None
    ) -> Member:
        """Start one more worker."""
        command = [*PROGRAM, *commands.worker(self.plan.app)]
        command += ["--queues", ",".join(queues or self.plan.queues), "--server", self.gates()]
        made = Member(
            name,
            command,
            self._env(len(self.workers))
            | {
                "TENUTO_WORKER__NAME": name,
                "TENUTO_WORKER__GRACE": "1s",
                FOLDER: str(self.journal),
                **(
                    {}
                    if self.languages is None
                    else {"TENUTO_LANGUAGES__SERVER": self.languages_address}
                ),
                **(env or {}),
            },
            self.logs / f"{name}.log",
        )
        self.workers.append(made)
        made.start()
        return made

    def _add_languages(self) -> None:
        self.languages_address = f"127.0.0.1:{free_port()}"
        command = [*PROGRAM, *commands.language_server(self.languages_address)]
        log = self.logs / "languages.log"
        self.languages = Member("languages", command, self._env(0), log)
        self.languages.start()

    def gates(self) -> str:
        """Where workers find servers."""
        return ",".join(
            f"127.0.0.1:{server.grpc_port}" if server.gate is None else server.gate.address
            for server in self.servers
        )

    def _proxy(self, url: str) -> Proxy:
        made = start_proxy(url)
        self._proxies.append(made)
        return made

    def _env(self, number: int) -> dict[str, str]:
        skew = 0 if not self.plan.skewed else (3_600 if number % 2 else -3_600)
        env = {key: value for key, value in os.environ.items() if not key.startswith("TENUTO_")}
        paths = [str(ROOT), *([str(SKEW)] if skew else [])]
        env |= {"PYTHONPATH": os.pathsep.join(paths), "CHAOS_SKEW_S": str(skew)}
        return env | dict(self.plan.env)

    # -- waiting ---------------------------------------------------------------------------------------------------

    def wait_ready(self, within_s: float = READY_S) -> None:
        """Until every server says that it is well.

        Raises:
            RuntimeError: one has ended, or ends meanwhile.
            TimeoutError: one does not say so; the text has its last words.
        """
        for server in self.servers:

            def is_ready(server: Server = server) -> bool:
                if not server.alive:
                    raise RuntimeError(f"{server.name} has ended")
                return server.is_ready()

            until(is_ready, within_s, server.state)

    def wait_workers(self, count: int | None = None, within_s: float = READY_S) -> None:
        """Until so many workers have announced themselves."""
        wanted = len(self.workers) if count is None else count
        until(
            lambda: self.value("SELECT count(*) FROM workers") >= wanted,
            within_s,
            lambda: "\n".join(worker.state() for worker in self.workers),
        )

    # -- looking ---------------------------------------------------------------------------------------------------

    @property
    def database(self) -> str:
        """The name of the database."""
        return self.dsn.rpartition("/")[2]

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """Ask PostgreSQL directly, past every proxy."""
        return self.postgres.fetch(sql, self.database)

    def value(self, sql: str) -> int:
        """One number."""
        found = self.rows(sql)[0][0]
        assert isinstance(found, int)
        return found


def until(holds: Callable[[], bool], within_s: float, says: Callable[[], str] = str) -> float:
    """Ask every 20 ms until it holds; how many seconds that took. Raises TimeoutError."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > within_s:
            raise TimeoutError(f"not within {within_s:g} s: {says()}")
        time.sleep(0.02)
    return time.monotonic() - began

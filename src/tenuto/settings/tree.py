"""The table of settings: name, kind, default, bounds, and one line of doc each.

Everything comes from these classes: what a file and the environment may say, the frozen tree that programs get,
`tenuto config show` and docs/settings.md. A field that ends in `_us` is a duration whose setting has the name without
it; sizes are bytes. Reads nothing itself (`loading`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from tenuto.settings.database import DEFAULT_DATABASE, POOL
from tenuto.settings.kinds import (
    Choice,
    Kind,
    Secret,
    Size,
    Span,
    Switch,
    Text,
    Url,
    Whole,
    check_addresses,
    check_host,
    check_place,
    check_postgres,
    check_prefix,
    check_queues,
    check_redis,
    check_worker,
)

PREFIX = "TENUTO_"
DEFAULT = "default"
LOOPBACK = "127.0.0.1"
SECRET_MIN = 32
"""Bytes: what HS256 needs to be worth its name (RFC 7518, 3.2)."""
_UNIT = "_us"
_HOST = Text(check_host, "a name or an address")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. `table` is empty for the settings above all tables."""

    table: str
    key: str
    attribute: str
    kind: Kind[Any]
    default: object
    doc: str
    named: str = ""
    """Its variable, where that is not the usual one."""

    @property
    def name(self) -> str:
        """As `config show` writes it: `dev.port`."""
        return f"{self.table}.{self.key}" if self.table else self.key

    @property
    def variable(self) -> str:
        """Of the environment: `TENUTO_DEV__PORT`."""
        return self.named or PREFIX + self.name.replace(".", "__").upper()

    @property
    def option(self) -> str:
        """Of the command line, where a command has it: `--grpc-port`."""
        word = self.table if self.table and self.key == "url" else self.key  # redis.url is --redis
        return f"--{word.replace('_', '-')}"


def _setting(kind: Kind[T], default: object, doc: str, *, variable: str = "") -> T:
    """A field: its default is written as in a file."""
    metadata = {"kind": kind, "doc": doc, "variable": variable}
    shown = not isinstance(kind, Secret | Url)  # what may hold a password stands in no traceback
    made: T = field(default=kind.of_file(default), metadata=metadata, repr=shown)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Dev:
    """`tenuto dev`."""

    port: int = _setting(
        Whole(0, 65_535), 8080, "Port of the page and of REST; 0 takes a free one."
    )
    watch: bool = _setting(Switch(), True, "Whether changed files become new versions at once.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """`tenuto server`."""

    host: str = _setting(
        _HOST, LOOPBACK, "Address of REST and the page; beyond loopback, `auth.secret` is needed."
    )
    port: int = _setting(Whole(0, 65_535), 8080, "Port of these; 0 takes a free one.")
    grpc_host: str = _setting(
        _HOST, LOOPBACK, "Address for workers; beyond loopback, `auth.secret` is needed."
    )
    grpc_port: int = _setting(Whole(0, 65_535), 50_051, "Port for workers; 0 takes a free one.")
    drain_us: int = _setting(
        Span("0s", "1h"), "10s", "How long workers may take to go elsewhere when a server stops."
    )
    lease_us: int = _setting(
        Span("2s", "10m"),
        "10s",
        "How long a worker may be silent before its tasks run again, elsewhere.",
    )
    reflection: bool = _setting(
        Switch(), False, "Whether the workers' service describes itself to whoever can connect."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """A `postgresql:` database."""

    listen_url: str = _setting(
        Url(check_postgres, "`postgresql://…`"),
        "",
        "A way past PgBouncer for LISTEN; empty: that of `database`.",
    )
    pool: int = _setting(
        Whole(2, 200), POOL, "Most connections of one process, beside the one that listens."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Redis:
    """Redis or Valkey, for dispatch."""

    url: str = _setting(
        Url(check_redis, "`redis://…`, `rediss://…`, `redis+cluster://…` or `unix:///…`"),
        "",
        "Where streams of ready tasks are; it may lose them.",
    )
    prefix: str = _setting(
        Text(check_prefix, "letters, digits, `.`, `_`, `:`, `-`"),
        "",
        "Before every key, where several installations share one Redis.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """Tokens: what servers ask for, and what clients and workers show. Tokens and secrets are never printed."""

    secret: str = _setting(
        Secret(SECRET_MIN),
        "",
        "Signs tokens; two with a comma between are both accepted, and the first one signs.",
        variable="TENUTO_AUTH_SECRET",
    )
    secret_file: str = _setting(
        Text(told="a file"),
        "",
        "A file with a secret a line, in place of `secret`; read again when it changes.",
        variable="TENUTO_AUTH_SECRET_FILE",
    )
    token: str = _setting(
        Secret(), "", "What commands and workers show a server.", variable="TENUTO_TOKEN"
    )
    token_file: str = _setting(
        Text(told="a file"),
        "",
        "A file with the token, in place of `token`; read again at each connection.",
        variable="TENUTO_TOKEN_FILE",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """What executes tasks."""

    server: str = _setting(
        Text(check_addresses, "`host:port`, or several with commas between"),
        f"{LOOPBACK}:50051",
        "Where `tenuto worker` finds servers; the next is tried when one is lost.",
    )
    queues: str = _setting(
        Text(check_queues, "names with commas between"),
        "default",
        "What `tenuto worker` works for; `*` is every queue.",
    )
    name: str = _setting(
        Text(check_worker, "a name"),
        "",
        "Its name for people; empty: the host's. A random end is added.",
    )
    slots: int = _setting(Whole(1, 10_000), 50, "Attempts at the same time.")
    threads: int = _setting(Whole(1, 1_000), 16, "Of these, `def` tasks at the same time.")
    processes: int = _setting(
        Whole(1, 256),
        2,
        "Of these, tasks with `process=True` at the same time; `--processes` is `worker.task_processes`.",
    )
    drain_us: int = _setting(
        Span("0s", "1h"),
        "10s",
        "How long tasks under way may go on when `dev` or `run` stops; `tenuto worker` has `worker.grace`.",
    )
    task_processes: int = _setting(
        Whole(0, 256),
        0,
        "Processes in which `tenuto worker` runs functions (`--processes`); 0: as many as there are cores.",
    )
    grace_us: int = _setting(
        Span("0s", "1h"),
        "30s",
        "How long tasks under way may go on when `tenuto worker` stops (`--grace`).",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Languages:
    """Code nodes."""

    processes: int = _setting(Whole(1, 64), 2, "Executions at a time, in each language.")
    memory: int = _setting(
        Size(16 * 2**20, 64 * 2**30), "128MiB", "Most memory that the code of one attempt may take."
    )
    time_us: int = _setting(Span("10ms", "1h"), "10s", "Longest time for the code of one attempt.")
    output: int = _setting(
        Size(1024, 64 * 2**20),
        "1MiB",
        "Most bytes of JSON that the code of one attempt may return.",
    )
    cpython: str = _setting(
        Choice("restricted", "off"),
        "restricted",
        "Whether `language: cpython` runs; it is limited, but no wall against an enemy.",
    )
    server: str = _setting(
        Text(check_place, "`host:port` or `unix:/path`"),
        "",
        "A `tenuto language-server` to use; empty: this process starts its own.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """REST."""

    body: int = _setting(Size(1024, 64 * 2**20), "4MiB", "Largest body of a request.")
    requests_per_second: int = _setting(
        Whole(1, 1_000_000), 200, "Requests of one client in the long run."
    )
    burst: int = _setting(Whole(1, 1_000_000), 400, "Requests of one client at once.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What is said on stderr."""

    level: str = _setting(
        Choice("debug", "info", "warning", "error"), "info", "The least that is worth a line."
    )
    format: str = _setting(
        Choice("text", "json"), "text", "Lines for people, or one JSON object a line."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, checked. `origins` has the place of each that is no default, by name; `file` is the settings
    file, if there is one.
    """

    app: str = _setting(
        Text(told="`module:name` or `path.py:name`"),
        "",
        "Where your tasks are; empty: `app.py` beside the definition.",
    )
    database: str = _setting(
        Url(None, "a path, `sqlite:///path`, `:memory:` or `postgresql://user@host/name`"),
        str(DEFAULT_DATABASE),
        "Where runs are kept.",
    )
    dispatch: str = _setting(
        Choice("auto", "database", "redis"),
        "auto",
        "How ready tasks reach servers of a cluster; auto: by Redis when `redis.url` is set.",
    )
    url: str = _setting(Url(), "", "The server that commands speak to; empty: the database itself.")
    dev: Dev = field(default_factory=Dev)
    server: Server = field(default_factory=Server)
    postgres: Postgres = field(default_factory=Postgres)
    redis: Redis = field(default_factory=Redis)
    auth: Auth = field(default_factory=Auth)
    worker: Worker = field(default_factory=Worker)
    languages: Languages = field(default_factory=Languages)
    api: Api = field(default_factory=Api)
    log: Log = field(default_factory=Log)
    file: Path | None = None
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def get(self, setting: Setting) -> object:
        """The value of a row."""
        owner = getattr(self, setting.table) if setting.table else self
        value: object = getattr(owner, setting.attribute)
        return value

    def sources(self) -> list[tuple[str, str, str]]:
        """Each setting as (name, value as text, where it is from), in the table's order."""
        return [
            (row.name, row.kind.show(self.get(row)), self.origins.get(row.name, DEFAULT))
            for row in SETTINGS
        ]


TABLES: Mapping[str, type[Any]] = MappingProxyType(
    {
        "dev": Dev,
        "server": Server,
        "postgres": Postgres,
        "redis": Redis,
        "auth": Auth,
        "worker": Worker,
        "languages": Languages,
        "api": Api,
        "log": Log,
    }
)


def _rows() -> Iterator[Setting]:
    owners: dict[str, type[Any]] = {"": Settings, **TABLES}
    for table, owner in owners.items():
        for each in dataclasses.fields(owner):
            if "kind" in each.metadata:
                yield Setting(
                    table,
                    each.name.removesuffix(_UNIT),
                    each.name,
                    each.metadata["kind"],
                    each.default,
                    each.metadata["doc"],
                    each.metadata["variable"],
                )


SETTINGS: tuple[Setting, ...] = tuple(_rows())

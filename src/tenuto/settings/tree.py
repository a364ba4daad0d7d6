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

from tenuto.settings.database import DEFAULT_DATABASE
from tenuto.settings.kinds import (
    Choice,
    Kind,
    Size,
    Span,
    Switch,
    Text,
    Url,
    Whole,
    check_address,
)

PREFIX = "TENUTO_"
DEFAULT = "default"
_UNIT = "_us"

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

    @property
    def name(self) -> str:
        """As `config show` writes it: `dev.port`."""
        return f"{self.table}.{self.key}" if self.table else self.key

    @property
    def variable(self) -> str:
        """Of the environment: `TENUTO_DEV__PORT`."""
        return PREFIX + self.name.replace(".", "__").upper()

    @property
    def option(self) -> str:
        """Of the command line, where a command has it: `--port`."""
        return f"--{self.key}"


def _setting(kind: Kind[T], default: object, doc: str) -> T:
    """A field: its default is written as in a file."""
    made: T = field(default=kind.of_file(default), metadata={"kind": kind, "doc": doc})
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Dev:
    """`tenuto dev`."""

    port: int = _setting(
        Whole(0, 65_535), 8080, "Port of the page and of REST; 0 takes a free one."
    )
    watch: bool = _setting(Switch(), True, "Whether changed files become new versions at once.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """What executes tasks."""

    slots: int = _setting(Whole(1, 10_000), 50, "Attempts at the same time.")
    threads: int = _setting(Whole(1, 1_000), 16, "Of these, `def` tasks at the same time.")
    processes: int = _setting(
        Whole(1, 256), 2, "Of these, tasks with `process=True` at the same time."
    )
    drain_us: int = _setting(
        Span("0s", "1h"), "10s", "How long tasks under way may go on when the engine stops."
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
        Text(check_address, "`host:port`"),
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
        Text(told="a path, `sqlite:///path` or `:memory:`"),
        str(DEFAULT_DATABASE),
        "Where runs are kept.",
    )
    url: str = _setting(Url(), "", "The server that commands speak to; empty: the database itself.")
    dev: Dev = field(default_factory=Dev)
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
    {"dev": Dev, "worker": Worker, "languages": Languages, "api": Api, "log": Log}
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
                )


SETTINGS: tuple[Setting, ...] = tuple(_rows())

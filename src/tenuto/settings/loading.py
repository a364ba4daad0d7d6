"""Loads the settings: the default, then the file, then the environment, then flags; later ones win.

All that is wrong, in all sources, is told at once. Nothing is kept: each call reads anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tenuto.model.errors import InvalidInput, TenutoError
from tenuto.settings.database import Database, read_database
from tenuto.settings.file import SettingsFile, find_file
from tenuto.settings.kinds import Wrong, shown
from tenuto.settings.tree import PREFIX, SETTINGS, TABLES, Setting, Settings

VAR_PREFIX = "TENUTO_VAR_"
SECRET_PREFIX = "TENUTO_SECRET_"
OPEN_PREFIXES = (VAR_PREFIX, SECRET_PREFIX, "TENUTO_TEST_", "TENUTO_BENCH_")
"""Variables that are no settings: vars and secrets of workflows, seeds and folders of our own tests and figures."""

_NONE: Mapping[str, object] = MappingProxyType({})
_BY_NAME = {row.name: row for row in SETTINGS}
_BY_VARIABLE = {row.variable: row for row in SETTINGS}


class InvalidSettings(InvalidInput):
    """Settings are wrong: `problems` has one line for each, with its place."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(problems[0], more=problems[1:])


@dataclass(slots=True)
class _Found:
    """What the sources have said so far."""

    values: dict[str, object] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def take(self, row: Setting, value: object, origin: str) -> None:
        self.values[row.name] = value
        self.origins[row.name] = origin


def load(
    flags: Mapping[str, object] = _NONE,
    *,
    environment: Mapping[str, str] = os.environ,
    folder: Path | None = None,
) -> Settings:
    """Read all sources.

    Args:
        flags: values of the command line by setting (`{"dev.port": 9000}`); None is not given.
        environment: `TENUTO_…` variables; an empty one is not set.
        folder: where the search for a settings file begins; the working directory.

    Raises:
        InvalidSettings: with every problem of every source.
        InvalidInput: the settings file cannot be read, or there are two.
    """
    start = Path.cwd() if folder is None else folder.absolute()
    found = _Found()
    file = find_file(start)
    if file is not None:
        _take_table(file, start, found)
    for name in sorted(environment):
        if name.startswith(PREFIX) and not name.startswith(OPEN_PREFIXES):
            _take_variable(name, environment[name], found)
    for name, value in flags.items():
        if value is not None:
            _take_flag(_BY_NAME[name], value, found)
    if found.problems:
        raise InvalidSettings(found.problems)
    return _build(found, file)


def parse_database(url: str | None, environment: Mapping[str, str] = os.environ) -> Database:
    """Read a path, `:memory:`, a `sqlite:` or `postgresql:` URL; None means the setting `database`.

    Raises:
        InvalidInput: another scheme, a directory, nothing at all; or settings that are wrong.
    """
    if url is None:
        return database_of(load(environment=environment))
    database = read_database(url)
    return _completed(database, load(environment=environment)) if database.is_postgres else database


def database_of(settings: Settings) -> Database:
    """The setting `database`, with those that go with it."""
    return _completed(read_database(settings.database), settings)


def _completed(database: Database, settings: Settings) -> Database:
    if not database.is_postgres:
        return database
    own = settings.postgres
    return replace(database, listen_url=own.listen_url or None, pool=own.pool)


# -- a file ----------------------------------------------------------------------------------------


def _take_table(file: SettingsFile, start: Path, found: _Found) -> None:
    for key, value in file.table.items():
        if key in TABLES:
            if isinstance(value, dict):
                for inner, each in value.items():
                    _take_key(file, start, (key, inner), each, found)
            else:
                place = file.place((key,))
                found.problems.append(
                    f"{place}: {shown(value)} is no table; write [{'.'.join((*file.prefix, key))}] "
                    "and its settings below it"
                )
        else:
            _take_key(file, start, (key,), value, found)


def _take_key(
    file: SettingsFile, start: Path, names: tuple[str, ...], value: object, found: _Found
) -> None:
    row = _BY_NAME.get(".".join(names)) if "." not in names[-1] else None
    if row is None:
        found.problems.append(f"{file.place(names)}: {_unknown(names, value)}")
        return
    if value == "" and row.default != "":
        found.problems.append(
            f"{file.place(names)}: it is empty; leave it out, or give {row.kind.told}"
        )
        return
    try:
        folder = None if file.path.parent == start else file.path.parent
        read = _settled(row, row.kind.of_file(value), folder)
    except Wrong as error:
        found.problems.append(f"{file.place(names)}: {error}")
        return
    found.take(row, read, file.origin(names))


def _unknown(names: tuple[str, ...], value: object) -> str:
    """A key that is no setting, with the one that was probably meant."""
    *tables, key = names
    table = "".join(tables)
    if isinstance(value, dict) and not table:
        close = get_close_matches(key.lower(), TABLES, n=1)
        meant = f"did you mean [{close[0]}]?" if close else f"there are {_listed(TABLES)}"
        return f"there is no such table; {meant}"
    here = [row.key for row in SETTINGS if row.table == table]
    if close := get_close_matches(key.lower().replace("-", "_"), here, n=1):
        return f"there is no such setting; did you mean {close[0]}?"
    elsewhere = [row for row in SETTINGS if row.key == key]
    if elsewhere:
        where = f"[{elsewhere[0].table}]" if elsewhere[0].table else "the top, above all tables"
        return f"there is no such setting here; it belongs to {where}"
    return f"there is no such setting; there are {', '.join(here)}"


def _listed(tables: Mapping[str, object]) -> str:
    return ", ".join(f"[{name}]" for name in tables)


def _settled(row: Setting, value: Any, folder: Path | None) -> object:
    """Check what needs more than the value itself; a relative path of a file is relative to its `folder`."""
    if row.name == "database" and value:
        try:
            database = read_database(value, folder=folder)
        except TenutoError as error:
            raise Wrong(str(error).removeprefix("database: ")) from None
        return value if folder is None or database.is_postgres else str(database)
    if row.key.endswith("_file") and value and folder is not None:
        return str(folder / value)
    if row.name == "app" and value and folder is not None:
        target = value.rpartition(":")[0] or value
        return str(folder / value) if target.endswith(".py") else value
    return value


# -- the environment, and flags --------------------------------------------------------------------


def _take_variable(name: str, text: str, found: _Found) -> None:
    row = _BY_VARIABLE.get(name)
    if row is None:
        found.problems.append(f"{name}: there is no such variable; {_meant_variable(name)}")
        return
    if not text:
        return
    try:
        found.take(row, _settled(row, row.kind.of_text(text), None), f"environment {name}")
    except Wrong as error:
        found.problems.append(f"{name}: {error}")


def _meant_variable(name: str) -> str:
    names = [*_BY_VARIABLE, VAR_PREFIX + "NAME", SECRET_PREFIX + "NAME"]
    close = get_close_matches(name.upper(), names, n=1, cutoff=0.75)
    if close:
        return f"did you mean {close[0]}?"
    return "`tenuto config show` lists the settings"


def _take_flag(row: Setting, value: object, found: _Found) -> None:
    try:
        read = row.kind.of_text(value) if isinstance(value, str) else row.kind.of_file(value)
        read = _settled(row, read, None)
    except Wrong as error:
        found.problems.append(f"{row.option}: {error}")
        return
    found.take(row, read, f"flag {row.option}")


# -- the tree --------------------------------------------------------------------------------------


def _build(found: _Found, file: SettingsFile | None) -> Settings:
    values = dict(_values(found, ""))
    tables = {name: owner(**dict(_values(found, name))) for name, owner in TABLES.items()}
    return Settings(
        **values,
        **tables,
        file=None if file is None else file.path,
        origins=MappingProxyType(found.origins),
    )


def _values(found: _Found, table: str) -> Iterator[tuple[str, Any]]:
    for row in SETTINGS:
        if row.table == table and row.name in found.values:
            yield row.attribute, found.values[row.name]

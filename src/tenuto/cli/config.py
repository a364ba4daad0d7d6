"""`tenuto config show`: the settings as they are here, and where each is from. Changes nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping

from tenuto.cli.console import say
from tenuto.settings import SETTINGS, Settings, load
from tenuto.settings.loading import SECRET_PREFIX, VAR_PREFIX

MASK = "***"


def show_settings(*, sources: bool, output: str) -> int:
    """Print each setting; with `sources` also its origin. Secrets are named and never shown."""
    rows = list(_rows(load(), os.environ))
    if output == "table":
        _print_table(rows, sources=sources)
        return 0
    if not sources:
        rows = [{k: v for k, v in row.items() if k != "source"} for row in rows]
    if output == "json":
        say(json.dumps(rows, ensure_ascii=False))
    else:
        for row in rows:
            say(json.dumps(row, ensure_ascii=False))
    return 0


def _rows(settings: Settings, environment: Mapping[str, str]) -> Iterator[dict[str, object]]:
    for row, (name, shown, source) in zip(SETTINGS, settings.sources(), strict=True):
        value = settings.get(row)
        plain = isinstance(row.default, bool) or row.kind.show(value) == str(value)
        yield {"name": name, "value": value if plain else shown, "source": source}
    for prefix, kind in ((VAR_PREFIX, "vars"), (SECRET_PREFIX, "secrets")):
        for name in sorted(environment):
            if name.startswith(prefix) and name != prefix:
                value = MASK if kind == "secrets" else environment[name]
                yield {
                    "name": f"{kind}.{name.removeprefix(prefix)}",
                    "value": value,
                    "source": f"environment {name}",
                }


def _print_table(rows: list[dict[str, object]], *, sources: bool) -> None:
    cells = [(str(row["name"]), _cell(row["value"]), str(row["source"])) for row in rows]
    first, second = (max(len(cell[column]) for cell in cells) for column in (0, 1))
    for name, value, source in cells:
        line = (
            f"{name:<{first}}  {value:<{second}}  {source}"
            if sources
            else f"{name:<{first}}  {value}"
        )
        say(line.rstrip())


def _cell(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    # A name from the environment may hold anything; a line stays a line.
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)

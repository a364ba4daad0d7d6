"""`tenuto db`: the schema of a PostgreSQL database, its partitions, and whether a server would start on it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict

from tenuto.cli.checks import Check, Grade, of_database, print_checks
from tenuto.cli.console import note, say
from tenuto.cli.versions import ask_user
from tenuto.model.errors import TenutoError
from tenuto.model.instants import format_instant
from tenuto.settings import Database, parse_database


def upgrade(url: str | None, *, dry_run: bool) -> int:
    """Bring the schema up, or say what that would do."""
    from tenuto.app import database as opened

    database = parse_database(url)
    if dry_run:
        due = asyncio.run(opened.due_migrations(database))
        for name in due:
            say(name)
        note(
            f"{database}: {_count(due)} to apply; nothing was changed"
            if due
            else _nothing(database)
        )
        return 0
    applied = asyncio.run(opened.upgrade_schema(database))
    for name in applied:
        say(name)
    note(f"{database}: {_count(applied)} applied" if applied else _nothing(database))
    return 0


def current(url: str | None) -> int:
    """Print the schema's version; 0 for none."""
    from tenuto.app import database as opened

    say(asyncio.run(opened.current_schema(parse_database(url))))
    return 0


def check(url: str | None, *, as_json: bool) -> int:
    """Print whether a server would start; the exit code of what keeps it from that, else 0."""
    from tenuto.app import database as opened

    database = parse_database(url)
    try:
        checks = list(of_database(database, asyncio.run(opened.look_at(database))))
        code = 1 if any(each.grade is Grade.ERROR for each in checks) else 0
    except TenutoError as error:
        checks, code = [Check("connection", Grade.ERROR, str(error))], error.exit_code
    if as_json:
        say(json.dumps([asdict(each) for each in checks], ensure_ascii=False))
    else:
        print_checks(checks)
    return code


def partitions(url: str | None) -> int:
    """Print the partitions, oldest first: name, first moment, end."""
    from tenuto.app import database as opened

    for suffix, first, end in asyncio.run(opened.list_partitions(parse_database(url))):
        say(f"{suffix}  {_moment(first)}  {_moment(end)}")
    return 0


def drop(url: str | None, suffix: str, *, dry_run: bool, sure: bool) -> int:
    """Drop a partition with all that is known of its runs, once the user has said that he means it."""
    from tenuto.app import database as opened

    database = parse_database(url)
    runs = asyncio.run(opened.drop_partition(database, suffix, dry_run=True))
    whole = f"partition {suffix} with {runs:,} run{'' if runs == 1 else 's'}"
    if dry_run:
        note(f"{whole} can be dropped; nothing was changed")
        return 0
    if not sure:
        ask_user(f"drop {whole}?")
    asyncio.run(opened.drop_partition(database, suffix))
    note(f"{whole} dropped")
    return 0


def _count(names: tuple[str, ...]) -> str:
    return f"{len(names)} migration{'' if len(names) == 1 else 's'}"


def _nothing(database: Database) -> str:
    return f"{database}: the schema is up to date"


def _moment(us: int) -> str:
    return format_instant(us)[:16] + "Z"

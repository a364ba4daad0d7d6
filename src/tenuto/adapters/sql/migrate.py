"""Numbered, forward-only migrations: reading them and deciding which are due. No database here; engines apply them.

A file is `0001_name.sql`. Each is applied in one transaction together with its row in `schema_migrations`, and is never
edited afterwards: its checksum is compared at every opening.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from tenuto.model.errors import Conflict, InvariantViolated

_NAME = re.compile(r"(\d{4})_(\w+)\.sql")

CREATE_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migrations (
  version INTEGER NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  checksum TEXT NOT NULL,
  applied_at BIGINT NOT NULL
)
"""
APPLIED = "SELECT version, checksum FROM schema_migrations ORDER BY version"
REGISTER = "INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES (?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Migration:
    """One file. `checksum` is of its text."""

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:32]


@cache
def read_migrations(package: str) -> tuple[Migration, ...]:
    """All migrations of a package, numbered from 1 without gaps."""
    found = []
    for file in resources.files(package).iterdir():
        match = _NAME.fullmatch(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    found.sort(key=lambda migration: migration.version)
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise InvariantViolated(f"the migrations of {package} are not numbered 1, 2, 3, …")
    return tuple(found)


def due_migrations(
    known: Sequence[Migration], applied: Sequence[tuple[int, str]], *, where: str
) -> tuple[Migration, ...]:
    """Those that are not applied yet.

    Args:
        applied: (version, checksum) as stored, ascending.
        where: names the database in the message.

    Raises:
        Conflict: the database was written by a newer Tenuto, or by one with other migrations.
    """
    newest = applied[-1][0] if applied else 0
    if newest > len(known):
        raise Conflict(
            f"{where} was written by a newer Tenuto (schema {newest}, this one knows {len(known)});"
            " upgrade Tenuto or name another database"
        )
    for version, checksum in applied:
        if known[version - 1].checksum != checksum:
            raise Conflict(
                f"{where} was made by another build of Tenuto: its migration {version} differs;"
                " use that build or name another database"
            )
    return tuple(known[newest:])

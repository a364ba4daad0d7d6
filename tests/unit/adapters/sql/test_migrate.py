"""Which migrations are due."""

from __future__ import annotations

import pytest

from tenuto.adapters.sql.migrate import Migration, due_migrations, read_migrations
from tenuto.model.errors import Conflict

KNOWN = (Migration(1, "tables", "CREATE 1"), Migration(2, "more", "CREATE 2"))
APPLIED = [(m.version, m.checksum) for m in KNOWN]


def test_the_files_of_a_package_are_numbered_from_one() -> None:
    found = read_migrations("tenuto.adapters.sqlite.migrations")

    assert [m.version for m in found] == list(range(1, len(found) + 1))
    assert "CREATE TABLE runs" in found[0].text


def test_what_is_not_applied_is_due_in_order() -> None:
    assert due_migrations(KNOWN, [], where="db") == KNOWN
    assert due_migrations(KNOWN, APPLIED[:1], where="db") == KNOWN[1:]
    assert due_migrations(KNOWN, APPLIED, where="db") == ()


def test_a_newer_database_is_refused_with_both_numbers() -> None:
    with pytest.raises(Conflict, match=r"newer Tenuto \(schema 7, this one knows 2\); upgrade"):
        due_migrations(KNOWN, [*APPLIED, (7, "x")], where="db")


def test_an_edited_migration_is_noticed() -> None:
    with pytest.raises(Conflict, match="migration 2 differs"):
        due_migrations(KNOWN, [APPLIED[0], (2, "other")], where="db")

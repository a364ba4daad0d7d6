"""SQLite's errors in our words."""

from __future__ import annotations

import sqlite3

import pytest

from tenuto.adapters.sqlite.errors import translate
from tenuto.model.errors import Conflict, InvariantViolated, NotFound, TenutoError, Unavailable


def an_error(code: int, kind: type[sqlite3.Error] = sqlite3.OperationalError) -> sqlite3.Error:
    error = kind("driver's words")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (sqlite3.SQLITE_BUSY, Unavailable, "locked by another program"),
        (sqlite3.SQLITE_FULL, Unavailable, "disk is full"),
        (sqlite3.SQLITE_READONLY, Unavailable, "read-only"),
        (sqlite3.SQLITE_READONLY_DBMOVED, Unavailable, "read-only"),
        (sqlite3.SQLITE_IOERR_FSYNC, Unavailable, "disk reports an error"),
        (sqlite3.SQLITE_CORRUPT, Unavailable, "damaged"),
        (sqlite3.SQLITE_CANTOPEN, Unavailable, "cannot be opened"),
        (sqlite3.SQLITE_NOTADB, Conflict, "not a database"),
        (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, InvariantViolated, "driver's words"),
        (sqlite3.SQLITE_ERROR, InvariantViolated, "driver's words"),
    ],
)
def test_a_code_gets_its_class_and_its_cure(code: int, kind: type[TenutoError], words: str) -> None:
    said = translate(an_error(code), "tenuto.db")

    assert type(said) is kind
    assert str(said).startswith("tenuto.db")
    assert words in str(said)


def test_our_own_errors_pass_unchanged() -> None:
    error = NotFound("run", "x")

    assert translate(error, "tenuto.db") is error


def test_anything_else_is_a_bug_of_ours() -> None:
    said = translate(UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates"), "tenuto.db")

    assert isinstance(said, InvariantViolated)

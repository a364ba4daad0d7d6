"""What a user may call a database."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenuto.model.errors import InvalidInput
from tenuto.settings import Database, NotYet, parse_database


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("runs.db", Path("runs.db")),
        ("a folder/runs.db", Path("a folder/runs.db")),
        ("/var/runs.db", Path("/var/runs.db")),
        ("sqlite:///runs.db", Path("runs.db")),
        ("sqlite:////var/runs.db", Path("/var/runs.db")),
        ("sqlite:runs.db", Path("runs.db")),
        ("SQLITE:///a%20b.db", Path("a b.db")),
        (":memory:", None),
        ("sqlite://", None),
        ("sqlite:///:memory:", None),
        ("sqlite::memory:", None),
    ],
)
def test_a_path_or_sqlite_url_names_a_file(url: str, path: Path | None) -> None:
    assert parse_database(url, {}) == Database(path)


def test_without_a_word_it_is_the_default_file() -> None:
    assert parse_database(None, {}) == Database(Path(".tenuto/tenuto.db"))


def test_the_environment_stands_in_for_a_missing_word_only() -> None:
    environment = {"TENUTO_DATABASE": "mine.db"}

    assert parse_database(None, environment) == Database(Path("mine.db"))
    assert parse_database("other.db", environment) == Database(Path("other.db"))


@pytest.mark.parametrize("url", ["postgresql://h/db", "postgres://h/db"])
def test_engines_of_later_releases_are_named_as_such(url: str) -> None:
    with pytest.raises(NotYet, match="comes with a later release; use a file") as raised:
        parse_database(url, {})

    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "database: is empty"),
        ("http://h", "database: http://h is the address of a server, no database; it belongs to"),
        ("mysql://h/db", "database: 'mysql' is no kind of database"),
        ("sqlite://host/x.db", "names 'host'; write sqlite:///host/x.db"),
        ("a\0b", "database: holds a NUL character"),
        ("~nobody-here/x.db", "database: ~nobody-here/x.db names the home of an unknown user"),
    ],
)
def test_other_words_are_refused_with_the_cure(url: str, said: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_database(url, {})

    assert said in str(raised.value)


def test_a_directory_is_refused_and_a_file_in_it_proposed(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_database(str(tmp_path), {})

    assert str(raised.value) == (
        f"database: {tmp_path} is a directory; name a file in it, such as {tmp_path}/tenuto.db"
    )


def test_it_reads_as_people_write_it() -> None:
    assert [str(Database(None)), str(Database(Path("a/b.db")))] == [":memory:", "a/b.db"]

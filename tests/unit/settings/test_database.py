"""What a user may call a database."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenuto.model.errors import InvalidInput
from tenuto.settings import Database, parse_database, read_database
from tenuto.settings.database import mask


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


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h/db",
        "postgres://h:5433/db",
        "PostgreSQL://me:pw@h/db?sslmode=require",
        "postgresql://me:p%40%2F@h/db",
        "postgresql://a:1,b:2/db",
        "postgresql://[::1]:5432/db",
        "postgresql:///db?host=/run/postgresql",
        "postgresql://?service=mine",
    ],
)
def test_a_postgresql_url_is_kept_as_it_is(url: str) -> None:
    database = read_database(url)

    assert (database.url, database.path, database.is_postgres) == (url, None, True)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:canary@h/db", "postgresql://me:***@h/db"),
        ("postgresql://me:canary/x@y@h/db", "postgresql://me:***@h/db"),
        ("postgresql://:canary@h/db", "postgresql://:***@h/db"),
        ("postgresql:///db?password=canary&host=/run", "postgresql:///db?password=***&host=/run"),
        ("redis://:canary@h:1/0", "redis://:***@h:1/0"),
        ("http://h:8080/x", "http://h:8080/x"),
        ("postgresql://me@h/db", "postgresql://me@h/db"),
    ],
)
def test_a_password_is_shown_as_stars(url: str, shown: str) -> None:
    assert mask(url) == shown
    assert str(Database(url=url)) == str(Database(url=url).place) == shown
    assert "canary" not in repr(Database(url=url, listen_url=url))


def test_a_postgresql_database_brings_its_pool_and_its_way_past_pgbouncer() -> None:
    environment = {
        "TENUTO_DATABASE": "postgresql://h:6432/db",
        "TENUTO_POSTGRES__LISTEN_URL": "postgresql://h:5432/db",
        "TENUTO_POSTGRES__POOL": "4",
    }

    whole = Database(url="postgresql://h:6432/db", listen_url="postgresql://h:5432/db", pool=4)
    assert parse_database(None, environment) == whole
    assert parse_database("postgresql://h:6432/db", environment) == whole
    assert parse_database("a.db", environment) == Database(Path("a.db"))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://me:canary@h", "postgresql://me:***@h names no database; write it like"),
        ("postgresql:db", "postgresql:db lacks its slashes; write it like postgresql://user:"),
        ("postgresql://[h/db", "postgresql://[h/db cannot be read; write it like"),
        ("postgresql://me:can#ary@h/d", "postgresql://me:***@h/d has a character that ends it too"),
        ("postgresql://me:can/ary@h/d", "in a password write %23 for #, %2F for /"),
        ("postgresql://me:can?ary@h/d", "in a password write %23 for #, %2F for /"),
        ("postgresql://h:port/d", "has the port 'port'; give one from 1 to 65535"),
        ("postgresql://h:70000/d", "has the port '70000'"),
        ("postgresql://h:0/d", "has the port '0'"),
        ("postgresql+asyncpg://me:canary@h/d", "is written for SQLAlchemy; write postgresql://me:"),
        ("http://me:canary@h", "http://me:***@h is the address of a server"),
    ],
)
def test_a_url_that_cannot_be_is_refused_without_its_password(url: str, said: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        read_database(url)

    assert said in str(raised.value)
    assert "ary@" not in str(raised.value)


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

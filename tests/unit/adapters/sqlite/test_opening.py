"""Opening files of every kind."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from tests.support.store import TurnedClock

from tenuto.adapters.sql.migrate import Migration, read_migrations
from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sqlite import opening
from tenuto.adapters.sqlite.engine import SqliteEngine, open_engine, open_reader, open_sender
from tenuto.adapters.sqlite.lock import FileLock
from tenuto.adapters.sqlite.opening import network_filesystem
from tenuto.model.errors import Conflict, InvariantViolated, NotFound, TenutoError, Unavailable

Open = Callable[..., SqliteEngine]
NOBODY = 65534
ALL = pytest.mark.parametrize("open_", [open_engine, open_sender, open_reader])


def test_an_engine_makes_directory_and_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "tenuto.db"

    open_engine(path, TurnedClock()).shut()

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
    assert {"runs", "run_states", "tasks", "mailbox", "schema_migrations"} <= tables


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tenuto.db"
    open_engine(path, TurnedClock()).shut()
    before = path.read_bytes()

    open_engine(path, TurnedClock()).shut()

    assert path.read_bytes() == before


@pytest.mark.parametrize("open_", [open_sender, open_reader])
def test_an_engine_that_is_bringing_the_file_up_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_: Open
) -> None:
    path = tmp_path / "tenuto.db"
    lock = FileLock(path)
    connection = opening.connect(str(path))
    looks: list[float] = []

    def go_on(seconds: float) -> None:
        """The engine, which is slow."""
        looks.append(seconds)
        if len(looks) == 3:
            opening.migrate(connection, str(path), at=1)

    turned = SimpleNamespace(sleep=go_on, monotonic=lambda: sum(looks))  # it waits for 2 s of them
    monkeypatch.setattr(opening, "time", turned)

    open_(path, TurnedClock()).shut()

    assert len(looks) == 3
    connection.close()
    lock.release()


@pytest.mark.parametrize("open_", [open_sender, open_reader])
def test_an_engine_of_an_older_release_is_named_and_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_: Open
) -> None:
    path = tmp_path / "tenuto.db"
    engine = open_engine(path, TurnedClock())
    known = read_migrations("tenuto.adapters.sqlite.migrations")
    newer = (*known, Migration(len(known) + 1, "more", "CREATE TABLE more (id INTEGER)"))
    monkeypatch.setattr(opening, "read_migrations", lambda _: newer)
    now = [0.0]

    def pass_by(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(opening, "time", SimpleNamespace(sleep=pass_by, monotonic=lambda: now[0]))

    with pytest.raises(Conflict, match=rf"engine of an older release \(pid {os.getpid()}\): stop"):
        open_(path, TurnedClock())

    assert now[0] < 2 * opening.MIGRATING_S
    engine.shut()


@pytest.mark.parametrize("open_", [open_sender, open_reader])
def test_a_file_that_an_engine_left_unfinished_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_: Open
) -> None:
    opening.connect(str(tmp_path / "tenuto.db")).close()
    still = SimpleNamespace(sleep=lambda _: pytest.fail("it waits"), monotonic=time.monotonic)
    monkeypatch.setattr(opening, "time", still)

    with pytest.raises(NotFound, match="no database"):
        open_(tmp_path / "tenuto.db", TurnedClock())


@pytest.mark.parametrize("open_", [open_sender, open_reader])
def test_reading_or_sending_makes_no_file(tmp_path: Path, open_: Open) -> None:
    with pytest.raises(NotFound, match="no database"):
        open_(tmp_path / "tenuto.db", TurnedClock())

    assert list(tmp_path.iterdir()) == []


@ALL
@pytest.mark.parametrize("content", [b"name: order\n" * 100, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_file_that_is_no_database_is_refused_and_left_alone(
    tmp_path: Path, open_: Open, content: bytes
) -> None:
    """Catalogue K10."""
    path = tmp_path / "order.yaml"
    path.write_bytes(content)

    with pytest.raises(TenutoError, match=r"order.yaml (is not a database|is damaged)"):
        open_(path, TurnedClock())

    assert path.read_bytes() == content


@ALL
def test_another_programs_database_is_refused(tmp_path: Path, open_: Open) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (id)")

    with pytest.raises(Conflict, match=r"another program .*'orders'"):
        open_(path, TurnedClock())


@ALL
def test_a_foreign_table_of_migrations_is_another_programs(tmp_path: Path, open_: Open) -> None:
    path = tmp_path / "tenuto.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE schema_migrations (id INTEGER)")

    with pytest.raises(Conflict, match=r"database of another program .*no such column"):
        open_(path, TurnedClock())


async def test_a_database_that_lacks_a_table_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "tenuto.db"
    open_engine(path, TurnedClock()).shut()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE run_keys")
        connection.execute("DROP TABLE runs")
    reader = open_reader(path, TurnedClock())

    with pytest.raises(Unavailable, match=r"is damaged \(no such table: runs\); restore a backup"):
        await SqlReads(reader).count_runs("default")

    reader.shut()


@contextmanager
def bound_by_permissions() -> Iterator[Path]:
    """A directory with a database that may be made read-only; permissions do not bind root, so it is nobody there."""
    with TemporaryDirectory() as place:
        directory = Path(place)
        open_engine(directory / "tenuto.db", TurnedClock()).shut()
        # Whichever of its connections closed last may have left an empty log: a writer alone takes it away.
        with closing(sqlite3.connect(directory / "tenuto.db")) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        (directory / "tenuto.db.lock").unlink()
        for path in (directory, *directory.iterdir()):
            os.chown(path, NOBODY if os.geteuid() == 0 else -1, -1)
        root = os.geteuid() == 0
        if root:
            os.seteuid(NOBODY)
        try:
            yield directory
        finally:
            directory.chmod(0o700)
            if root:
                os.seteuid(0)


async def test_a_file_on_a_read_only_disk_can_be_read() -> None:
    with bound_by_permissions() as directory:
        path = directory / "tenuto.db"
        assert not path.with_name("tenuto.db-wal").exists()
        directory.chmod(0o500)

        reader = open_reader(path, TurnedClock())

        assert await SqlReads(reader).count_runs("default") == {}
        reader.shut()


async def test_a_log_on_a_read_only_disk_is_not_left_out() -> None:
    with bound_by_permissions() as directory:
        path = directory / "tenuto.db"
        path.with_name("tenuto.db-wal").write_bytes(b"committed, perhaps")
        directory.chmod(0o500)

        with pytest.raises(Unavailable, match="cannot be opened"):
            open_reader(path, TurnedClock())


@ALL
def test_a_newer_database_is_refused(tmp_path: Path, open_: Open) -> None:
    path = tmp_path / "tenuto.db"
    open_engine(path, TurnedClock()).shut()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO schema_migrations VALUES (999, 'future', 'x', 1)")
        connection.commit()

    with pytest.raises(Conflict, match=r"newer Tenuto \(schema 999, this one knows \d+\); upgrade"):
        open_(path, TurnedClock())


@pytest.mark.parametrize("open_", [open_sender, open_reader])
def test_a_database_without_any_schema_is_none(tmp_path: Path, open_: Open) -> None:
    path = tmp_path / "tenuto.db"
    open_engine(path, TurnedClock()).shut()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM schema_migrations")
        connection.commit()

    with pytest.raises(NotFound, match="no database"):
        open_(path, TurnedClock())


@pytest.mark.parametrize("open_", [open_sender, open_reader])
def test_an_older_database_waits_for_an_engine(
    tmp_path: Path, open_: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tenuto.db"
    open_engine(path, TurnedClock()).shut()
    known = read_migrations("tenuto.adapters.sqlite.migrations")
    newer = (*known, Migration(len(known) + 1, "more", "CREATE TABLE more (id INTEGER)"))
    monkeypatch.setattr(opening, "read_migrations", lambda _: newer)

    with pytest.raises(Conflict, match="older schema"):
        open_(path, TurnedClock())
    open_engine(path, TurnedClock()).shut()
    open_(path, TurnedClock()).shut()


def test_a_migration_that_fails_leaves_the_schema_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tenuto.db"
    open_engine(path, TurnedClock()).shut()
    known = read_migrations("tenuto.adapters.sqlite.migrations")
    broken = Migration(len(known) + 1, "bad", "CREATE TABLE more (id);\nCREATE TABLE runs (id);\n")

    with monkeypatch.context() as patch, pytest.raises(InvariantViolated):
        patch.setattr(opening, "read_migrations", lambda _: (*known, broken))
        open_engine(path, TurnedClock())

    open_engine(path, TurnedClock()).shut()
    with closing(sqlite3.connect(path)) as connection:
        assert (
            connection.execute("SELECT name FROM sqlite_schema WHERE name = 'more'").fetchall()
            == []
        )


def test_a_refused_opening_gives_the_lock_back(tmp_path: Path) -> None:
    path = tmp_path / "tenuto.db"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(Conflict):
        open_engine(path, TurnedClock())
    path.unlink()

    open_engine(path, TurnedClock()).shut()


def test_a_directory_that_is_a_file_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(Unavailable, match="cannot be made"):
        open_engine(tmp_path / "file" / "tenuto.db", TurnedClock())


def test_a_path_that_is_a_directory_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "tenuto.db").mkdir()

    with pytest.raises(Unavailable, match="cannot be opened"):
        open_engine(tmp_path / "tenuto.db", TurnedClock())


def test_a_path_with_signs_of_a_url_is_taken_literally(tmp_path: Path) -> None:
    path = tmp_path / "50% off?mode=ro#x.db"

    open_engine(path, TurnedClock()).shut()

    assert path.is_file()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/shared/tenuto.db", "nfs4"),
        ("/data/tenuto.db", None),
        ("/data/shared-not/tenuto.db", None),
        ("/my disk/tenuto.db", "cifs"),
    ],
)
def test_a_network_filesystem_is_noticed(path: str, kind: str | None) -> None:
    """Catalogue K9."""
    mounts = (
        "/dev/sda / ext4 rw 0 0\nserver:/x /data/shared nfs4 rw 0 0\n"
        "//s/y /my\\040disk cifs rw 0 0\nbroken\n"
    )

    assert network_filesystem(path, mounts) == kind

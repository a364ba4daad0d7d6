"""A database file without an engine."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tenuto.app.embedded import Engine
from tenuto.app.files import Driver, Kept, announce, driver_of, engine_of, post_message, read_only
from tenuto.coordinator.mailbox import Message
from tenuto.model.errors import InvalidInput, NotFound


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that an engine has made."""
    engine = Engine(tmp_path / "t.db")
    engine.start()
    engine.stop()
    return tmp_path / "t.db"


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "none.db"
    with pytest.raises(NotFound), read_only(path):
        pass
    with pytest.raises(NotFound):
        post_message(path, Message("e", "k", "1"))

    assert list(tmp_path.iterdir()) == []


def test_a_file_is_read_without_an_engine(path: Path) -> None:
    with read_only(path) as opened:
        assert asyncio.run(opened.reads.count_runs("default")) == {}


def test_a_message_is_put_into_the_file_once_for_each_event_id(path: Path) -> None:
    assert post_message(path, Message("e", "k", "1", event_id="x"))
    assert not post_message(path, Message("e", "k", "2", event_id="x"))
    assert post_message(path, Message("e", "k", "3"))


def test_a_message_beyond_its_bounds_is_refused(path: Path) -> None:
    with pytest.raises(InvalidInput, match="is empty"):
        post_message(path, Message("", "k", "1"))


def test_an_engine_notices_that_its_file_was_taken_away(path: Path) -> None:
    engine = Engine(path)
    engine.start()
    before = engine.file_trouble()
    aside = path.rename(path.with_name("aside.db"))
    gone = engine.file_trouble()
    path.write_bytes(b"")
    other = engine.file_trouble()
    path.unlink()
    aside.rename(path)
    back = engine.file_trouble()
    engine.stop()

    assert (before, back) == (None, None)
    assert gone is not None
    assert gone.startswith(f"{path} was deleted while an engine has it open")
    assert other is not None
    assert other.startswith(f"{path} was replaced by another file while")


def test_a_file_that_cannot_be_looked_at_is_not_called_gone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(path)

    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", refuse)

    assert kept.trouble() is None


def test_who_drives_a_file_is_told_with_where_it_answers(path: Path) -> None:
    pid, engine = str(os.getpid()), Engine(path)
    before = driver_of(path)
    engine.start()
    silent = driver_of(path)
    announce(path, "http://127.0.0.1:1")
    serving = driver_of(path)
    known_by = engine_of(path)
    engine.stop()

    assert (before, silent, serving) == (None, Driver(pid, ""), Driver(pid, "http://127.0.0.1:1"))
    assert (known_by, engine_of(path)) == (pid, None)

"""Folders of language servers: private, and gone with whoever had them."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

import pytest

from tenuto.app.scratch import PREFIX, Scratch


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where folders are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_is_its_makers_alone_and_is_removed_once(place: Path) -> None:
    scratch = Scratch()
    assert scratch.folder.stat().st_mode & 0o777 == 0o700
    (scratch.folder / "socket").touch()

    scratch.remove()
    scratch.remove()

    assert list(place.iterdir()) == []


def test_a_folder_that_nobody_has_any_more_is_removed_by_the_next(place: Path) -> None:
    left = Scratch()
    (left.folder / "code-1").mkdir()
    os.close(left.lock)  # as if its process were dead

    scratch = Scratch()

    assert list(place.iterdir()) == [scratch.folder]
    scratch.remove()


def test_a_folder_stays_as_long_as_one_process_has_its_lock(place: Path) -> None:
    maker = Scratch()
    inherited = os.dup(maker.lock)
    os.close(maker.lock)

    other = Scratch()
    assert maker.folder.exists()

    os.close(inherited)
    other.remove()


def test_a_folder_is_nobodys_at_no_moment_of_its_making(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, others = fcntl.flock, [True]

    def at_the_same_time(handle: int, how: int) -> None:
        if others and others.pop():
            Scratch().remove()
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", at_the_same_time)
    scratch = Scratch()

    assert list(place.iterdir()) == [scratch.folder]
    scratch.remove()


def test_without_a_lock_only_an_old_folder_is_nobodys(place: Path) -> None:
    young, old = place / f"{PREFIX}young", place / f"{PREFIX}old"
    for folder in (young, old):
        folder.mkdir()
    os.utime(old, (0, 0))

    scratch = Scratch()

    assert young.exists()
    assert not old.exists()
    scratch.remove()


def test_what_only_looks_like_a_folder_of_ours_is_left_alone(place: Path) -> None:
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    (place / f"{PREFIX}link").symlink_to(elsewhere)

    Scratch().remove()

    assert (elsewhere / "lock").exists()

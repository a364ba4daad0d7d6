"""`tenuto init`: a small project that runs and is tested. Never writes over a file."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from tenuto.cli.console import note, say
from tenuto.model.errors import Conflict, InvalidInput, Unavailable
from tenuto.settings import SETTINGS
from tenuto.settings.file import find_file

TEMPLATES = Path(__file__).with_name("templates")
FILES: dict[str, str] = {
    "app.py": "two tasks",
    "hello.yaml": "a workflow that uses them",
    "tests/test_hello.py": "its test",
    "tenuto.toml": "settings",
    ".gitignore": "leaves out .tenuto/",
}
"""What is made, and what each is for."""
_KEPT = ".gitignore"
"""The one file that may be there already: it is left as it is."""
_SETTINGS = ("app", "database")
"""Settings that the file sets, so that they hold from any folder below; the others are comments."""
_VALUES = {"app": "app.py"}


def make_project(text: str) -> int:
    """Make the project in a folder, which is made if it is not there.

    Raises:
        InvalidInput: it is no folder.
        Conflict: files are in the way.
        Unavailable: it cannot be written; nothing of ours is left behind.
    """
    if not text or "\0" in text:
        raise InvalidInput("is empty" if not text else "holds a NUL character", path="FOLDER")
    folder = Path(text)
    place = folder.absolute()  # a working directory that is gone is told of before anything is made
    _check(folder, text)
    wanted = [name for name in FILES if name != _KEPT or not (folder / name).exists()]
    _write(folder, {each: text_of(each) for each in wanted})
    _tell(folder, place, text, wanted)
    return 0


def text_of(file: str) -> str:
    """The text of a file of the project."""
    if file == "tenuto.toml":
        return _settings_text()
    template = TEMPLATES / (Path(file).name.removeprefix(".") + ".txt")
    return template.read_text()


def _check(folder: Path, text: str) -> None:
    try:
        if folder.exists() and not folder.is_dir():
            raise InvalidInput(f"{text} is a file; name a folder", path="FOLDER")
        there = [name for name in FILES if name != _KEPT and _is_there(folder / name)]
        if (folder / "tests").exists() and not (folder / "tests").is_dir():
            there.append("tests")
    except OSError as error:
        raise _unwritable(folder, error) from None
    if "tenuto.toml" not in there and folder.is_dir():
        settings = find_file(folder.absolute())
        if settings is not None and settings.prefix and settings.path.parent == folder.absolute():
            there.append(f"[tool.tenuto] of {settings.path.name}")
    if there:
        verb = "is" if len(there) == 1 else "are"
        raise Conflict(
            f"{', '.join(there)} {verb} in {text} already, and nothing is written over; "
            "name another folder"
        )


def _is_there(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _write(folder: Path, texts: dict[str, str]) -> None:
    """Write all files, or leave none of them."""
    made: list[Path] = []
    try:
        for name, text in texts.items():
            path = folder / name
            _make_folders(path.parent, made)
            with path.open("x", encoding="utf-8") as file:
                made.append(path)
                file.write(text)
    except OSError as error:
        for path in reversed(made):
            path.rmdir() if path.is_dir() else path.unlink()
        if isinstance(error, FileExistsError):
            raise Conflict(f"{error.filename} came into the way; nothing was made") from None
        raise _unwritable(folder, error) from None


def _make_folders(folder: Path, made: list[Path]) -> None:
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir()
        made.append(each)


def _unwritable(folder: Path, error: OSError) -> Unavailable:
    place = error.filename or folder
    return Unavailable(f"{place} cannot be made: {error.strerror}; nothing was made")


def _tell(folder: Path, place: Path, text: str, made: Sequence[str]) -> None:
    say(f"made in {place}:")
    for name in made:
        say(f"  {name:<20} {FILES[name]}")
    say("next:")
    if place != Path.cwd():
        say(f"  cd {shlex.quote(text)}")
    say("  tenuto run hello.yaml --set name=Ada")
    say("  tenuto dev")
    if _KEPT not in made and ".tenuto" not in (folder / _KEPT).read_text(errors="replace"):
        note(f"{_KEPT} was there already; add the line .tenuto/ to it")


def _settings_text() -> str:
    """tenuto.toml: every setting with its default, as a comment where nothing has to be said."""
    lines = ["# Settings of this project; `tenuto config show --sources` says what holds, and why."]
    table = ""
    for row in SETTINGS:
        if row.table != table:
            table = row.table
            lines += ["", f"[{table}]"]
        value = _VALUES.get(row.name, row.default)
        shown = row.kind.show(value)
        quoted = shown if isinstance(value, bool) or shown == str(value) != value else f'"{shown}"'
        mark = "" if row.name in _SETTINGS else "# "
        lines.append(f"{mark}{row.key} = {quoted}  # {row.doc}")
    return "\n".join(lines) + "\n"

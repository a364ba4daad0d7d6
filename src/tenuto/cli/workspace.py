"""The files that `tenuto dev` keeps in step with the engine: which definitions there are, and what has changed.

Looks at files by their size and time, a few times a second: that works on every file system, and the files are few.
Compiles; deploys nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tenuto.app.definitions import load_definition
from tenuto.dsl import yaml
from tenuto.dsl.compile import Loaded
from tenuto.dsl.findings import Findings
from tenuto.dsl.yaml import Fields
from tenuto.model.errors import InvalidInput, NotFound
from tenuto.sdk.workflows import SUFFIXES, Source, near_files, read_source

FILES_MAX = 1_000
"""Definitions of one workspace; more are a folder given by mistake."""
_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages", "venv"})

Stamp = tuple[int, int, int]
"""Time, size and inode: another one means that a file was written."""


@dataclass(slots=True)
class Workspace:
    """Definitions found in `places`, files or folders, and further files to watch.

    Of a folder's files those are taken that have `nodes:` at their top; a file that is named is always taken.
    """

    places: Sequence[Path]
    _seen: dict[Path, Stamp] = field(default_factory=dict)
    _owners: dict[str, Path] = field(default_factory=dict)
    """Workflow -> the file that defines it."""
    _behind: dict[Path, str] = field(default_factory=dict)
    """Files that name a workflow of another file."""

    def scan(self) -> list[Path]:
        """Definitions that are new or were written since the last scan, in order. Gone ones are forgotten.

        Raises:
            NotFound: a place that is not there, in the first scan.
            InvalidInput: too many files.
        """
        first = not self._seen
        found: dict[Path, Stamp] = {}
        changed = []
        for path in self._files(first=first):
            stamp = stamp_of(path)
            if stamp is None:
                continue
            found[path] = stamp
            if self._seen.get(path) != stamp:
                changed.append(path)
            if len(found) > FILES_MAX:
                shown = ", ".join(map(str, self.places))
                raise InvalidInput(
                    f"more than {FILES_MAX:,} YAML and JSON files in {shown}; name the definitions"
                )
        self._seen = found
        return changed + self._freed(set(changed))

    def claim(self, path: Path, name: str) -> Path | None:
        """Note which workflow a file defines. The file that did so before it, if there is one; None: it is this one's.

        Once the other is gone, or names another workflow, a scan has this file again.
        """
        for other in [each for each, owner in self._owners.items() if owner == path]:
            if other != name:
                del self._owners[other]
        owner = self._owners.setdefault(name, path)
        if owner == path:
            self._behind.pop(path, None)
            return None
        self._behind[path] = name
        return owner

    def _freed(self, known: set[Path]) -> list[Path]:
        """Files whose workflow has become theirs since."""
        for name in [each for each, owner in self._owners.items() if owner not in self._seen]:
            del self._owners[name]
        free = [path for path, name in self._behind.items() if name not in self._owners]
        for path in free:
            del self._behind[path]
        return [path for path in free if path in self._seen and path not in known]

    @property
    def count(self) -> int:
        """Files of the last scan."""
        return len(self._seen)

    def is_named(self, path: Path) -> bool:
        """Whether the user named this very file."""
        return path in self.places

    def _files(self, *, first: bool) -> Iterator[Path]:
        for place in self.places:
            if place.is_dir():
                yield from sorted(files_in(place, SUFFIXES))
            elif place.is_file():
                yield place
            elif first:
                raise NotFound("file", str(place), near_files(place))


def files_in(folder: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Files below a folder that a user has written: nothing hidden, nothing installed."""
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name[0] != "." and name not in _SKIPPED]
        for name in names:
            if name.endswith(suffixes) and name[0] != ".":
                yield Path(path) / name


def read_workflow(path: Path, *, named: bool) -> Loaded | None:
    """Compile a definition; None for a file of a folder that is no workflow.

    Raises:
        NotFound, InvalidInput: it cannot be read (any more).
    """
    source = read_source(path)
    if not named and not _looks_like_workflow(source):
        return None
    return load_definition(source.text, file=source.file)


def _looks_like_workflow(source: Source) -> bool:
    """Whether a file of a folder is meant for us: `nodes:` stands at its top, well or badly written."""
    text = source.text.decode("utf-8", "replace") if isinstance(source.text, bytes) else source.text
    tree = yaml.read(text, Findings(source.file, text))
    if isinstance(tree, Fields):
        return "nodes" in tree.entries
    return any(line.startswith("nodes:") for line in text.splitlines())


def both_say(one: str, other: str, name: str) -> str:
    """What to say of two definitions of one workflow: each would replace the other."""
    return f"{one} and {other} both say name: {name}; give one another name"


def stamp_of(path: Path) -> Stamp | None:
    """What tells one writing of a file from another; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def stamps_of(paths: Iterable[Path]) -> dict[Path, Stamp]:
    """Of files that are there."""
    return {path: stamp for path in paths if (stamp := stamp_of(path)) is not None}

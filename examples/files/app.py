"""The tasks of the files example. They only read, so each may be repeated."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tenuto import TaskError, Tenuto

app = Tenuto()


class Look(BaseModel):
    """What was found in one file."""

    name: str
    sha256: str
    words: int


@app.task(name="files.list")
def find(folder: str) -> list[str]:
    """Names of the texts, in order, so that an item's index says which file it was."""
    if not Path(folder).is_dir():
        raise TaskError("no_such_folder", f"{folder} is no folder", retryable=False)
    return sorted(path.name for path in Path(folder).glob("*.txt"))


@app.task(name="files.look")
def look(folder: str, name: str) -> Look:
    """Hash one file and count its words."""
    data = (Path(folder) / name).read_bytes()
    try:
        words = len(data.decode().split())
    except UnicodeDecodeError as broken:
        # Another attempt would read the same bytes.
        raise TaskError("not_utf8", f"byte {broken.start} is no UTF-8", retryable=False) from None
    return Look(name=name, sha256=hashlib.sha256(data).hexdigest(), words=words)


@app.task(name="files.look_all")
def look_all(folder: str, names: list[str]) -> list[Look | None]:
    """A batch of them; a broken file is None, since what is raised here fails the whole batch."""
    looks: list[Look | None] = []
    for name in names:
        try:
            looks.append(look(folder, name))
        except TaskError:
            looks.append(None)
    return looks


@app.task(name="files.total")
def total(
    looks: list[Look | list[Look | None] | None],
    names: Sequence[str] = (),
    failures: Sequence[dict[str, Any]] = (),
) -> dict[str, object]:
    """One number and one hash over all that could be read, one by one or in batches; and what could not be."""
    batches = [each if isinstance(each, list) else [each] for each in looks]
    read = [look for batch in batches for look in batch if look is not None]
    digest = hashlib.sha256("".join(look.sha256 for look in read).encode()).hexdigest()
    return {
        "files": len(read),
        "words": sum(look.words for look in read),
        "digest": digest[:16],
        "broken": [f"{names[f['index']]}: {f['error']['code']}" for f in failures],
    }

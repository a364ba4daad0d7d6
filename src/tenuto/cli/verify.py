"""`tenuto run verify`: folds a run's history and compares it with what the engine stored.

Over a file this process folds; over a server, the server. Source: DESIGN section 4, "History".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tenuto.cli.console import note, progress, say
from tenuto.cli.door import Door, File, ask, must_exist
from tenuto.model.errors import InvalidInput
from tenuto.views.answers import LIMIT_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenuto.cli.door import Source

Document = dict[str, Any]


def verify(door: Door, text: str | None, *, every: bool, output: str) -> int:
    """Verify one run, or every run there is. Exit code 1 when one differs."""
    if every == (text is not None):
        raise InvalidInput("give the ID of one run, or --all")
    if isinstance(door, File):
        must_exist(door, text or "--all")
    with progress("verified {:,} runs") as tell:
        checked = ask(door, lambda source: _check_all(source, text, tell), output=output)
    if output == "table":
        for each in checked:
            line = _words(each) if text is not None else f"{each['run_id']}  {_words(each)}"
            (say if each["ok"] else note)(line)
        if every and not checked:
            say("there are no runs")
    elif output == "json":
        say(json.dumps(checked[0] if text is not None else checked))
    else:
        for each in checked:
            say(json.dumps(each))
    return 0 if all(each["ok"] for each in checked) else 1


async def _check_all(
    source: Source, text: str | None, tell: Callable[[int], None]
) -> list[Document]:
    if text is not None:
        return [await source.verify_run(text)]
    checked: list[Document] = []
    cursor: str | None = None
    while True:
        page: Document = await source.list_runs(limit=LIMIT_MAX, cursor=cursor)
        for run in page["items"]:
            checked.append(await source.verify_run(run["run_id"]))
            tell(len(checked))
        cursor = page["next"]
        if cursor is None:
            return checked


def _words(checked: Document) -> str:
    if checked["ok"]:
        noun = "event folds" if checked["events"] == 1 else "events fold"
        return f"ok: {checked['events']} {noun} to the stored state"
    return "\n".join(checked["differences"])

"""`tenuto run list|show|export`: looking at runs, of a server or of a file. What is asked of one is `acts`."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenuto.cli.console import answers, note, say, show_table
from tenuto.cli.door import (
    START_HINT,
    Door,
    File,
    Server,
    ask,
    holds_nothing,
    must_exist,
)
from tenuto.cli.look import now_us
from tenuto.cli.render import OWN, clean, cures, detail_view, failure_text, styled, value_text
from tenuto.cli.reports import report_of
from tenuto.cli.tables import READY, inside_lines, note_line, runs_table, task_word
from tenuto.model.errors import InvalidInput, Unavailable
from tenuto.views.answers import LIMIT_MAX, RUN_STATES, TASK_STATES, Answers
from tenuto.views.report import Report, report_json

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from rich.console import Console

    from tenuto.cli.door import Source

Document = dict[str, Any]


def list_runs(
    door: Door,
    *,
    workflow: str | None = None,
    states: tuple[str, ...] = (),
    key: str | None = None,
    since: int | None = None,
    until: int | None = None,
    parent: str | None = None,
    children: bool = False,
    limit: int,
    every: bool = False,
    output: str,
) -> int:
    """Print runs, newest first. An empty list is no error."""
    check_states(states, RUN_STATES)

    async def pages(source: Source, size: int, cursor: str | None) -> Document:
        return await source.list_runs(
            workflow=workflow,
            states=states,
            key=key,
            since=since,
            until=until,
            parent=parent,
            children=children,
            limit=size,
            cursor=cursor,
        )

    runs, more = read_list(door, pages, limit=limit, every=every, output=output)
    if print_documents(runs, output):
        return 0
    if runs:
        show_table(runs_table(runs, now_us()))
        if more:
            note(f"the newest {limit}; --limit shows more, --all shows all")
        return 0
    filtered = any(each is not None for each in (workflow, key, since, until, parent)) or states
    hint = START_HINT if isinstance(door, File) else "`tenuto run start WORKFLOW` starts one"
    note(f"no runs{' of that kind' if filtered else ''} in {place_of(door)}; {hint}")
    return 0


def read_list(
    door: Door,
    pages: Callable[[Source, int, str | None], Coroutine[Any, Any, Document]],
    *,
    limit: int,
    every: bool,
    output: str,
) -> tuple[list[Document], bool]:
    """Items of a list, and whether there are more. `every`: all pages. A file that is not there holds nothing."""
    if holds_nothing(door):
        return [], False

    async def collect(source: Source) -> tuple[list[Document], bool]:
        page = await pages(source, LIMIT_MAX if every else limit, None)
        items: list[Document] = page["items"]
        while every and page["next"] is not None:
            page = await pages(source, LIMIT_MAX, page["next"])
            items += page["items"]
        return items, page["next"] is not None

    return ask(door, collect, output=output)


def check_states(given: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Raise InvalidInput for a state that there is not."""
    for state in given:
        if state not in known:
            raise InvalidInput(
                f"there is no state {state!r}; there are {', '.join(known)}", path="--state"
            )


def read_task_states(given: tuple[str, ...]) -> tuple[str, ...]:
    """States of tasks, in the words that lists of them show, as they are stored. Raises InvalidInput."""
    words = tuple(task_word(each) for each in given)
    check_states(words, tuple(map(task_word, TASK_STATES)))
    return tuple("pending" if each == READY else each for each in words)


def print_documents(items: list[Document], output: str) -> bool:
    """Print a list as JSON, one value or a line for each; False: people want to see it."""
    if output == "json":
        say(json.dumps(items, ensure_ascii=False))
    elif output == "jsonl":
        for item in items:
            say(json.dumps(item, ensure_ascii=False))
    return output != "table"


def place_of(door: Door) -> str:
    """Where was looked, for people."""
    return door.url if isinstance(door, Server) else str(door.database)


def show_run(door: Door, text: str, *, output: str) -> int:
    """Print all about one run. The exit code says whether it could be shown, not how it ended."""
    if isinstance(door, File):
        must_exist(door, text)
    words = door.words if isinstance(door, Server) and output == "table" else ""
    report, document = ask(door, lambda source: look_at(source, text, words), output=output)
    if output == "table":
        console = answers()
        console.print(detail_view(report))
        for lead, command in cures(report, words):
            console.print(f"\n{lead}", markup=False)
            console.print(f"  {command}", markup=False, soft_wrap=True)
        return 0
    if output == "jsonl":
        for step in document["timeline"]:
            say(json.dumps(step))
    say(json.dumps(document, ensure_ascii=False))
    return 0


async def look_at(source: Source, text: str, words: str = "") -> tuple[Report, Document]:
    """A run, from either kind of source: to be shown, and to be printed."""
    if isinstance(source, Answers):
        report = await source.report(text)
        return report, report_json(report)
    document = await source.get_run(text)
    return report_of(document, words), document


def show_node(door: Door, text: str, node: str, *, output: str) -> int:
    """Print a node of a run: input, output, error, attempts, what they said."""
    if isinstance(door, File):
        must_exist(door, text)
    found: Document = ask(door, lambda source: source.run_node(text, node), output=output)
    if output == "table":
        print_node(found)
    else:
        say(json.dumps(found, ensure_ascii=False))
    return 0


def print_node(found: Document) -> None:
    """Print the document of a node for people."""
    console = answers()
    head = f"{clean(found['place'] or found['node'])}  {found['type']}  "
    console.print(head, styled(found["state"]), sep="", markup=False)
    if found["waits_for"]:
        console.print(f"waits for {clean(found['waits_for'])}", markup=False)
    for line in inside_lines(found):
        console.print(line, markup=False)
    for name in ("input", "output"):
        if found[name] is not None:
            given = " (given by hand)" if name == "output" and found["given"] else ""
            console.print(f"{name}{given}:\n{value_text(found[name])}", markup=False)
    if found["state"] == "dead":
        _print_error(console, "error", found["error"])
    for step in found["attempts"]:
        code = f": {clean(step['code'])}" if step["code"] else ""
        said = f": {clean(step['message'])}" if step["message"] else ""
        what = step["what"] if step["attempt"] is None else f"attempt {step['attempt']}"
        worker = step.get("worker") or OWN
        at = "" if worker.startswith(OWN) else f" at {clean(worker)}"
        console.print(f"{what} {step['result']}{at}{code}{said}", markup=False)
    if found["state"] != "dead":  # others came after it
        _print_error(console, "last failed attempt", found["error"])
    for each in found["notes"]:
        console.print(note_line(each), markup=False)


def _print_error(console: Console, name: str, error: object) -> None:
    if error is not None:
        console.print(f"{name}: {failure_text(error, at_node=True)}", markup=False)
        console.print(value_text(error), markup=False)


def export_run(door: Door, text: str, *, to: str | None) -> int:
    """Write all that is kept of a run as JSON, to stdout or into a file of its own."""
    if isinstance(door, File):
        must_exist(door, text)
    found = ask(door, lambda source: source.export_run(text), output="json")
    if to is None or to == "-":
        say(json.dumps(found, ensure_ascii=False))
        return 0
    path = Path(to)
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise Unavailable(f"{to} cannot be written: {error.strerror or error}") from None
    note(f"wrote {to}")
    return 0

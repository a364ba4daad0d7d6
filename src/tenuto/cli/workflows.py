"""`tenuto workflow list|show`: what is deployed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tenuto.cli.console import answers, note, say, show_table
from tenuto.cli.door import Door, File, ask
from tenuto.cli.look import now_us
from tenuto.cli.render import clean
from tenuto.cli.runs import place_of, print_documents, read_list
from tenuto.cli.tables import nodes_and_edges, versions_table, workflows_table
from tenuto.model.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from tenuto.cli.door import Source

Document = dict[str, Any]
DEPLOY_HINT = "`tenuto deploy FILE` stores one"


def list_workflows(door: Door, *, limit: int, every: bool, output: str) -> int:
    """Print the names that are deployed, with their newest versions."""

    async def pages(source: Source, size: int, cursor: str | None) -> Document:
        return await source.list_workflows(limit=size, cursor=cursor)

    workflows, more = read_list(door, pages, limit=limit, every=every, output=output)
    if print_documents(workflows, output):
        return 0
    if workflows:
        show_table(workflows_table(workflows, now_us()))
        if more:
            note(f"the first {limit}; --limit shows more, --all shows all")
    else:
        note(f"no workflows in {place_of(door)}; {DEPLOY_HINT}")
    return 0


def show_workflow(door: Door, name: str, *, version: int | None, source: bool, output: str) -> int:
    """Print a version, by default the newest; or only its text, as it was deployed. `name` may say which, too."""
    must_hold(door, name)
    if version is not None and "@" in name:
        raise InvalidInput(f"{name} says which one already; leave it out", path="--version")

    async def read(answers: Source) -> tuple[Document, list[Document], list[Document]]:
        found = await _version(answers, name, version)
        page: Document = await answers.list_versions(found["name"], limit=10)
        aliases: Document = await answers.list_aliases(found["name"])
        return found, page["items"], aliases["items"]

    found, versions, aliases = ask(door, read, output="json" if source else output)
    if output != "table":
        say(json.dumps(found, ensure_ascii=False))
        return 0
    if source:
        say(found["source"].removesuffix("\n"))
        return 0
    console = answers()
    console.print(
        f"{clean(found['name'])} version {found['version']}, {found['hash'][:12]}, deployed "
        f"{found['created_at']}",
        markup=False,
    )
    if aliases:
        named = ", ".join(f"{clean(each['alias'])} → {each['version']}" for each in aliases)
        console.print(f"aliases: {named}", markup=False)
    if found["description"]:
        console.print(clean(found["description"]), markup=False)
    if found["input_schema"] is not None:
        console.print(f"input: {clean(json.dumps(found['input_schema']))}", markup=False)
    if found["vars"]:
        console.print(f"vars: {clean(json.dumps(found['vars']))}", markup=False)
    for table in nodes_and_edges(found):
        console.print()
        console.print(table)
    if len(versions) > 1:
        console.print()
        console.print(versions_table(versions, now_us()))
    return 0


async def _version(source: Source, name: str, version: int | None) -> Document:
    if version is None:
        return await source.get_workflow(name)
    return await source.get_version(name, version)


def must_hold(door: Door, name: str) -> None:
    """Raise NotFound where there is no file that could hold a workflow."""
    if isinstance(door, File) and door.is_missing:
        raise NotFound("workflow", name, f"there is no file {door.database}; {DEPLOY_HINT}")

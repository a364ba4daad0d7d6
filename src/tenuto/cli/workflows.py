"""`tenuto workflow list|show|diff`: what is deployed, and what changed between two versions."""

from __future__ import annotations

import json
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

from tenuto.cli.console import answers, note, say, show_table
from tenuto.cli.door import Door, File, ask
from tenuto.cli.look import now_us
from tenuto.cli.render import clean
from tenuto.cli.runs import place_of, print_documents, read_list
from tenuto.cli.tables import condition_of, nodes_and_edges, versions_table, workflows_table
from tenuto.model.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    """Print a version, by default the newest; or only its text, as it was deployed."""
    _must_exist(door, name)

    async def read(answers: Source) -> tuple[Document, list[Document]]:
        found = await _version(answers, name, version)
        page: Document = await answers.list_versions(name, limit=10)
        return found, page["items"]

    found, versions = ask(door, read, output="json" if source else output)
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


def diff_workflow(door: Door, name: str, old: int | None, new: int | None, *, output: str) -> int:
    """Print what changed from version `old` to `new`; by default from the last but one to the last."""
    _must_exist(door, name)

    async def read(answers: Source) -> tuple[Document, Document]:
        newer = await _version(answers, name, new)
        wanted = newer["version"] - 1 if old is None else old
        if wanted < 1:
            raise InvalidInput(f"{name} has one version only; there is nothing to compare")
        return await _version(answers, name, wanted), newer

    before, after = ask(door, read, output=output)
    lines = _text_diff(before, after)
    changes = compare(before, after)
    if output != "table":
        document = {
            "name": name,
            "old": before["version"],
            "new": after["version"],
            "diff": lines,
            **changes,
        }
        say(json.dumps(document, ensure_ascii=False))
        return 0
    for line in lines:
        say(clean(line))
    if not lines:
        say(f"versions {before['version']} and {after['version']} of {name} have the same text")
    for line in _summary(changes):
        note(clean(line))
    return 0


def compare(before: Document, after: Document) -> dict[str, Any]:
    """What of the graph changed: nodes by id, edges as people write them."""
    old, new = _nodes(before), _nodes(after)
    old_edges, new_edges = _edges(before), _edges(after)
    return {
        "nodes": {
            "added": [id for id in new if id not in old],
            "removed": [id for id in old if id not in new],
            "changed": [id for id in new if id in old and new[id] != old[id]],
        },
        "edges": {
            "added": [edge for edge in new_edges if edge not in old_edges],
            "removed": [edge for edge in old_edges if edge not in new_edges],
        },
    }


def _nodes(version: Document) -> dict[str, object]:
    """Node -> all that the text says of it."""
    said = _said_of_nodes(version["source"])
    return {node["id"]: (node["type"], said.get(node["id"])) for node in version["nodes"]}


def _said_of_nodes(source: str) -> Mapping[str, object]:
    """The `nodes` of a definition's text: equal ones are equal, which is all that is asked of them."""
    import yaml

    try:
        tree = yaml.load(source, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
    except (yaml.YAMLError, ValueError):
        return {}
    nodes = tree.get("nodes") if isinstance(tree, dict) else None
    return nodes if isinstance(nodes, dict) else {}


def _edges(version: Document) -> list[str]:
    return [
        f"{edge['from']} -> {edge['to']}"
        + (f" on {edge['on']}" if edge["on"] != "success" else "")
        + (f" when {condition}" if (condition := condition_of(edge)) else "")
        for edge in version["edges"]
    ]


def _summary(changes: Mapping[str, Mapping[str, Sequence[str]]]) -> Sequence[str]:
    return [
        f"{what} {how}: {', '.join(names)}"
        for what, kinds in changes.items()
        for how, names in kinds.items()
        if names
    ]


def _text_diff(before: Document, after: Document) -> list[str]:
    return [
        line.rstrip("\n")
        for line in unified_diff(
            before["source"].splitlines(keepends=True),
            after["source"].splitlines(keepends=True),
            f"{before['name']} version {before['version']}",
            f"{after['name']} version {after['version']}",
        )
    ]


async def _version(source: Source, name: str, version: int | None) -> Document:
    if version is None:
        return await source.get_workflow(name)
    return await source.get_version(name, version)


def _must_exist(door: Door, name: str) -> None:
    if isinstance(door, File) and door.is_missing:
        raise NotFound("workflow", name, f"there is no file {door.database}; {DEPLOY_HINT}")

"""`tenuto workflow diff|alias|delete`: what changed between two versions, what names mean, what is no more."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from tenuto.cli.console import note, say
from tenuto.cli.definitions import read_definition
from tenuto.cli.door import Door, Server, ask, ask_server, changing
from tenuto.cli.render import clean
from tenuto.cli.tables import condition_of
from tenuto.cli.workflows import must_hold
from tenuto.model.errors import InvalidDefinition, InvalidInput
from tenuto.sdk.workflows import SUFFIXES
from tenuto.views.answers import Answers
from tenuto.views.cures import quoted
from tenuto.views.diff import Side, diff_document
from tenuto.views.versions import find_version, split_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from tenuto.app.embedded import Engine
    from tenuto.cli.door import Source
    from tenuto.sdk.remote import Remote

Document = dict[str, Any]
_SHOWN_MAX = 60
"""Characters of a value in a line; `-o json` has the whole."""


# -- diff -------------------------------------------------------------------------------------------------------------


def diff_workflow(
    find: Callable[[], Door], old: str, new: str | None, *, graph: bool, output: str
) -> int:
    """Print what changed from `old` to `new`: each a version, `order`, `order@3`, `order@stable`, or a file.

    Without `new`: a version is compared with the one before it, a file with the newest version of its name.
    `find` finds the door, which two files do not need.
    """
    found = _diff(find, old, new, output)
    if output != "table":
        say(json.dumps(found, ensure_ascii=False))
    elif graph:
        for line in graph_lines(found):
            say(clean(line))
    else:
        for line in found["text"]:
            say(clean(line))
        if not found["text"]:
            say(f"{clean(found['old'])} and {clean(found['new'])} have the same text")
        elif found["same"]:
            note("they mean the same")
        for line in _summary(found):
            note(clean(line))
    return 0


def _diff(find: Callable[[], Door], old: str, new: str | None, output: str) -> Document:
    if new is None and _is_file(old):
        newer = _read_side(old)
        name = newer.definition.name
        return diff_document(_stored_side(find(), name, output), newer)
    if new is not None and _is_file(old) and _is_file(new):
        return diff_document(_read_side(old), _read_side(new))
    if new is None or not (_is_file(old) or _is_file(new)):
        name, reference = split_reference(old)
        if new is not None and new.isdigit() and new != name:
            raise InvalidInput(f"{new} names no workflow; write {name}@{new}", path="NEW")
        other, to = (name, reference) if new is None else split_reference(new)
        if name == other:
            return _stored_diff(find(), name, None if new is None else (reference,), to, output)
    assert new is not None
    door = find()
    before, after = (
        _read_side(text) if _is_file(text) else _stored_side(door, text, output)
        for text in (old, new)
    )
    return diff_document(before, after)


def _stored_diff(
    door: Door, name: str, old: tuple[str | None] | None, new: str | None, output: str
) -> Document:
    """Two versions of one name, compared where they are. `old` None: the one before `new`."""
    must_hold(door, name)

    async def read(source: Source) -> Document:
        before = None if old is None else old[0]
        if old is not None and before is None:
            before = str((await source.get_workflow(name))["version"])
        return await source.diff_versions(name, old=before, new=new)

    return ask(door, read, output=output)


def _stored_side(door: Door, text: str, output: str) -> Side:
    """A deployed version, compiled here once more."""
    must_hold(door, text)

    async def read(source: Source) -> Document:
        return await source.get_workflow(text)

    found = ask(door, read, output=output)
    return _compiled(found["source"], f"{found['name']}@{found['version']}")


def _read_side(name: str) -> Side:
    source = read_definition(name)
    return _compiled(source.text, source.file)


def _compiled(text: str | bytes, label: str) -> Side:
    from tenuto.app.definitions import load_definition

    loaded = load_definition(text, file=label)
    if loaded.graph is None:
        raise InvalidDefinition(loaded.findings)
    definition = loaded.graph.definition
    return Side(label, definition.source, definition)


def _is_file(text: str) -> bool:
    return text == "-" or text.endswith(SUFFIXES) or "/" in text


def graph_lines(found: Mapping[str, Any]) -> Sequence[str]:
    """What changed in the graph, for people: `+` is new, `-` is gone, `~` is otherwise."""
    lines = [f"{found['old']} → {found['new']}"]
    lines += _otherwise("workflow", found["workflow"])
    nodes, edges = found["nodes"], found["edges"]
    lines += [f"+ node {each['id']}  {each['type']}" for each in nodes["added"]]
    lines += [f"- node {each['id']}  {each['type']}" for each in nodes["removed"]]
    for each in nodes["changed"]:
        lines += _otherwise(f"node {each['id']}  {each['type']}", each["changes"])
    lines += [f"+ edge {_edge(each)}" for each in edges["added"]]
    lines += [f"- edge {_edge(each)}" for each in edges["removed"]]
    for each in edges["changed"]:
        lines += _otherwise(f"edge {_ends(each)}", each["changes"])
    if len(lines) == 1:
        return [f"{found['old']} and {found['new']} mean the same"]
    return lines


def _otherwise(what: str, changes: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    if not changes:
        return ()
    return (
        f"~ {what}",
        *(f"    {c['what']}: {_value(c['old'])} → {_value(c['new'])}" for c in changes),
    )


def _value(value: object) -> str:
    """A value in a line, cut where it is long."""
    if value is None:
        return "none"
    if isinstance(value, str) and "\n" in value.strip():
        return f"{len(value.splitlines())} lines"
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 1]}…"


def _ends(edge: Mapping[str, Any]) -> str:
    on = f" on {edge['on']}" if edge["on"] != "success" else ""
    return f"{edge['from']} -> {edge['to']}{on}"


def _edge(edge: Mapping[str, Any]) -> str:
    condition = condition_of(edge)
    return _ends(edge) + (f" when {condition}" if condition else "")


def _summary(found: Mapping[str, Any]) -> Sequence[str]:
    """A line for each kind of change, beside the texts."""
    nodes, edges = found["nodes"], found["edges"]
    named = {
        "workflow changed": [each["what"] for each in found["workflow"]],
        **{f"nodes {how}": [each["id"] for each in nodes[how]] for how in nodes},
        **{
            f"edges {how}": [(_ends if how == "changed" else _edge)(each) for each in edges[how]]
            for how in edges
        },
    }
    return [f"{what}: {', '.join(names)}" for what, names in named.items() if names]


# -- aliases and deleting ---------------------------------------------------------------------------------------------


def read_version(text: str, what: str) -> int:
    """The number of a version, as a word of the command line."""
    digits = text.removeprefix("v")
    if digits.isdecimal() and digits.isascii() and 0 < len(digits) < 10 and int(digits):
        if digits == text:
            return int(digits)
        raise InvalidInput(f"{text!r:.80} is no number; did you mean {digits}?", path=what)
    raise InvalidInput(f"{text!r:.80} is no number; give that of a version, such as 3", path=what)


def set_alias(door: Door, name: str, alias: str, version: int | None, *, output: str) -> int:
    """Let `name@alias` mean a version, and say what it meant before."""
    from tenuto.dsl.storable import check_alias

    check_alias(alias)
    if version is None:
        raise InvalidInput(
            f"is missing; name one, as in `tenuto workflow alias {quoted(name)} {alias} 3`",
            path="VERSION",
        )

    async def by_engine(engine: Engine) -> Document:
        row = await find_version(engine.reads, "default", name, str(version))
        was = await engine.commands.set_alias(row.name, alias, version)
        return {"name": row.name, "alias": alias, "version": version, "was": was}

    found = _change(door, name, by_engine, lambda remote: remote.set_alias(name, alias, version))
    say(json.dumps(found, ensure_ascii=False) if output != "table" else alias_line(found))
    return 0


def drop_alias(door: Door, name: str, alias: str, version: int | None, *, output: str) -> int:
    """Let `name@alias` mean nothing."""
    if version is not None:
        raise InvalidInput("takes no VERSION; leave one of the two out", path="--drop")

    async def by_engine(engine: Engine) -> Document:
        found = await Answers(reads=engine.reads, now=engine.now).get_alias(name, alias)
        await engine.commands.drop_alias(str(found["name"]), alias)
        return found

    found = _change(door, name, by_engine, lambda remote: remote.drop_alias(name, alias))
    if output != "table":
        say(json.dumps(found, ensure_ascii=False))
    else:
        say(f"{clean(found['name'])}@{clean(alias)} dropped; it was version {found['version']}")
    return 0


def alias_line(moved: Mapping[str, Any]) -> str:
    """What became of an alias: old → new."""
    named, version, was = f"{clean(moved['name'])}@{moved['alias']}", moved["version"], moved["was"]
    if was is None:
        return f"{named}: new → {version}"
    return f"{named}: {version}, as before" if was == version else f"{named}: {was} → {version}"


def delete_version(door: Door, text: str, *, sure: bool, output: str) -> int:
    """Delete `NAME@VERSION`, once the user has said that he means it."""
    name, reference = split_reference(text)
    if reference is None or not (reference.isascii() and reference.isdigit()):
        raise InvalidInput(
            f"{text!r:.80} names no version by its number; write {name[:80]}@N, N its number; "
            f"`tenuto workflow show {name[:80]}` lists them",
            path="NAME@VERSION",
        )
    must_hold(door, name)

    async def read(source: Source) -> Document:
        return await source.get_workflow(text)

    version = ask(door, read, output="json")["version"]
    if not sure:
        ask_user(f"delete version {version} of {clean(name)}?")

    async def by_engine(engine: Engine) -> Document:
        await engine.commands.delete_version(name, version)
        return {"name": name, "version": version}

    found = _change(door, name, by_engine, lambda remote: remote.delete_version(name, version))
    deleted = f"{clean(name)} version {version} deleted"
    say(json.dumps(found, ensure_ascii=False) if output != "table" else deleted)
    return 0


def ask_user(question: str) -> None:
    """Raise InvalidInput unless somebody at a terminal says yes."""
    if sys.stdin.isatty() and sys.stderr.isatty():
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
        raise InvalidInput("nothing was deleted")
    raise InvalidInput("is needed where nobody can be asked", path="--yes")


def _change(
    door: Door,
    name: str,
    by_engine: Callable[[Engine], Coroutine[Any, Any, Document]],
    by_remote: Callable[[Remote], Coroutine[Any, Any, Document]],
) -> Document:
    """Through the server of who has the file open, or through an engine of our own that drives nothing meanwhile."""
    must_hold(door, name)
    door = changing(door)
    if isinstance(door, Server):
        return ask_server(door, by_remote)
    from tenuto.app.embedded import Engine

    engine = Engine(door.database, focus=True)
    engine.start()
    try:
        return engine.call(by_engine(engine)).result()
    finally:
        engine.stop(grace_s=1.0)

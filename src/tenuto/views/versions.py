"""Which version of a workflow is meant: `order` (the newest), `order@3` or `order@stable`. Reads only."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from tenuto.model.errors import InvalidInput, NotFound
from tenuto.ports.reads import AliasRow, Reads, VersionRow
from tenuto.ports.store import DefinitionRow
from tenuto.views.look import plain

_NAMES_MAX = 1_000
"""Names among which a misspelt one is looked for."""
_DIGITS_MAX = 10
_LISTED_MAX = 5


def split_reference(text: str) -> tuple[str, str | None]:
    """The name, and what stands behind its `@`. Raises InvalidInput: nothing stands there."""
    name, at, reference = text.partition("@")
    if at and not (name and reference):
        raise InvalidInput(
            f"{text!r:.80} names no version; write order@3, order@stable, or order for the newest",
            path="workflow",
        )
    return name, reference if at else None


async def find_version(
    reads: Reads, namespace: str, name: str, reference: str | None = None, *, unknown: str = ""
) -> DefinitionRow:
    """The row of a version.

    Args:
        name: `order`, or with its version: `order@3`, `order@stable`.
        reference: the version, where the name has none: a number or an alias; None for the newest.
        unknown: the hint where no deployed name is like this one.

    Raises:
        NotFound: no such workflow, version or alias; the hint names what is probably meant.
        InvalidInput: the version is named twice, or nothing stands behind `@`.
    """
    name, behind = split_reference(name)
    if behind is not None and reference is not None:
        raise InvalidInput(
            f"{name}@{behind} says which one already; leave out the other", path="version"
        )
    reference = behind if reference is None else reference
    newest = await reads.find_definition(namespace, plain(name))
    if newest is None:
        page = await reads.list_workflows(namespace, limit=_NAMES_MAX)
        raise NotFound("workflow", name, meant(name, [row.name for row in page]) or unknown)
    if reference is None:
        return newest
    found = await reads.find_version(namespace, plain(name), plain(reference))
    if found is not None:
        return found
    if reference.isascii() and reference.isdigit():
        is_old = len(reference) <= _DIGITS_MAX and 1 <= int(reference) <= newest.version
        hint = "it has been deleted" if is_old else f"the newest is {newest.version}"
        raise NotFound("version", f"{name} {reference}", hint)
    raise unknown_alias(name, reference, await reads.list_aliases(namespace, plain(name)))


async def locate_version(
    reads: Reads, namespace: str, name: str, reference: str | None = None, *, unknown: str = ""
) -> VersionRow:
    """As `find_version`, without text and graph: one small reading where the version is there."""
    plain_name, behind = split_reference(name)
    if behind is None or reference is None:
        meant_by = behind if reference is None else reference
        row = await reads.find_version_row(
            namespace, plain(plain_name), None if meant_by is None else plain(meant_by)
        )
        if row is not None:
            return row
    found = await find_version(reads, namespace, name, reference, unknown=unknown)  # it says why
    return VersionRow(
        name=found.name, version=found.version, hash=found.hash, created_at=found.created_at
    )


def unknown_alias(name: str, alias: str, known: Iterable[AliasRow]) -> NotFound:
    """The error for an alias that a workflow does not have."""
    names = [row.alias for row in known]
    listed = ", ".join(names[:_LISTED_MAX]) + (", …" if len(names) > _LISTED_MAX else "")
    close = get_close_matches(alias, names, n=1)
    hint = f"there are {listed}" if names else f"{name} has no aliases"
    return NotFound(
        "alias", f"{name}@{alias}", f"did you mean {name}@{close[0]}?" if close else hint
    )


def meant(wrong: str, known: Iterable[str]) -> str:
    """A hint that names what is probably meant; empty if nothing is like it."""
    close = get_close_matches(wrong, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else ""

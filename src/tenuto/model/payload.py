"""Where JSON values of a run live. The machine sees key and size of a payload, never its content."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tenuto.model.ids import Place

PAYLOAD_MAX = 1_048_576
"""Bytes of canonical JSON inline; larger is the node's failure `payload_too_large` (DESIGN section 3)."""


class PayloadKind(StrEnum):
    """What a payload is of its place."""

    INPUT = "input"
    OUTPUT = "output"
    ERROR = "error"
    VARS = "vars"
    PARAMS = "params"
    """What an inline graph was given, at its run's place."""
    ITEM = "item"
    """The item that a child run of a foreach works on, at its run's place."""
    LIST = "list"
    """The list of a foreach, as evaluated once, at the node's place."""
    GIVEN = "given"
    """The output that somebody gave a node in place of its work (`skip`), at the node's place."""


@dataclass(frozen=True, slots=True)
class PayloadKey:
    """A payload of a run: its place and kind. The newest `seq` of the two is the one that counts (L5)."""

    place: Place
    kind: PayloadKind


@dataclass(frozen=True, slots=True)
class JoinView:
    """Output of a join: upstream id -> output, assembled on reading, never stored (SEMANTICS J4, C5)."""

    entries: tuple[tuple[str, Output], ...]


@dataclass(frozen=True, slots=True)
class ItemsView:
    """Output of the foreach at `place`: a list of `total` outputs in input order, null where an item failed.

    Assembled on reading from the items' tasks and payloads, never stored, not counted against the payload limit.
    """

    place: Place
    total: int


Output = PayloadKey | JoinView | ItemsView | None
"""Where an output is found; None is JSON null."""


@dataclass(frozen=True, slots=True)
class Text:
    """A JSON value on its way: its size in UTF-8 bytes, and its canonical text, which folding does not have."""

    size: int
    text: str | None = None

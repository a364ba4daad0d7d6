"""What a foreach and a node's passes list: assembled from their rows on reading, never stored (J4, L5, foreach).

Rows are as loaded; what the decision under way wrote lies over them. Texts only: parsing is the reader's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from tenuto.model.expressions import Scope
from tenuto.model.ids import Place, PlaceParts, parts_of, place_of
from tenuto.model.payload import ItemsView, PayloadKind
from tenuto.model.states import TaskState
from tenuto.ports.store import ItemRow, PayloadRow

_OPEN = frozenset({TaskState.PENDING.value, TaskState.RETRY.value})
_NULL = "null"
_ENDS = frozenset({PayloadKind.OUTPUT, PayloadKind.ERROR})


class Items:
    """The items of one foreach, by index: state of the task (None: never begun), output and error as text."""

    def __init__(self, rows: Sequence[ItemRow]) -> None:
        count = 1 + max((row.index for row in rows), default=-1)
        self._states: list[str | None] = [None] * count
        self._outputs: list[str | None] = [None] * count
        self._errors: dict[int, str] = {}
        for row in rows:
            self._states[row.index] = row.state
            if row.state == TaskState.SUCCESS:
                self._outputs[row.index] = row.output
            if row.error is not None:
                self._errors[row.index] = row.error

    def seen(self, view: ItemsView, scope: Scope, *, ended: bool) -> ItemsSeen:
        """As an expression sees them. `ended`: the foreach has, so what never began is cancelled."""
        missing = view.total - len(self._states)
        states = [*self._states, *[None] * missing][: view.total]
        outputs = [*self._outputs, *[None] * missing][: view.total]
        errors = dict(self._errors)
        if view.place in scope.dropped:
            cancelled = TaskState.CANCELLED.value
            states = [cancelled if state in _OPEN else state for state in states]
        for place, state in scope.states.items():
            if (index := _index(place, view)) is not None:
                states[index] = state
        for key, text in scope.fresh.items():
            if (index := _index(key.place, view)) is None or text.text is None:
                continue
            if key.kind is PayloadKind.OUTPUT:
                outputs[index] = text.text
            elif key.kind is PayloadKind.ERROR:
                errors[index] = text.text
        return ItemsSeen(states, outputs, errors, ended)


@dataclass(frozen=True, slots=True)
class ItemsSeen:
    """By index, over the whole list."""

    _states: Sequence[str | None]
    _outputs: Sequence[str | None]
    _errors: Mapping[int, str]
    _ended: bool

    @property
    def outputs(self) -> list[str]:
        """Null where an item has not succeeded."""
        success = TaskState.SUCCESS.value
        return [
            _NULL if output is None or state != success else output
            for state, output in zip(self._states, self._outputs, strict=True)
        ]

    @property
    def failures(self) -> list[str]:
        """`{index, error}` of each item that failed."""
        dead = TaskState.DEAD.value
        return [
            f'{{"error":{self._errors.get(index, _NULL)},"index":{index}}}'
            for index, state in enumerate(self._states)
            if state == dead
        ]

    @property
    def items(self) -> list[str]:
        """`{index, status}` of each item."""
        return [
            f'{{"index":{index},"status":"{self._status(state)}"}}'
            for index, state in enumerate(self._states)
        ]

    def _status(self, state: str | None) -> str:
        if state is None:
            return "cancelled" if self._ended else "pending"
        return "active" if state in _OPEN else state


def passes(
    prefix: str,
    loops: int,
    rows: Sequence[PayloadRow],
    scope: Scope,
    last: tuple[int, ...] | None = None,
) -> list[str]:
    """`{iteration, output, error}` of each pass of a node that left one of them, first pass first (L5).

    Inside several loops `iterations`, a list, outermost first, stands in place of `iteration`. A pass that was done
    again after a retry counts as it was done last; one after `last` was, before the retry, and counts no more.
    """
    texts = {row.key: row.text for row in sorted(rows, key=attrgetter("seq"))}
    texts.update((key, text.text) for key, text in scope.fresh.items() if text.text is not None)
    found: dict[tuple[int, ...], tuple[int, dict[PayloadKind, str]]] = {}
    for key, text in texts.items():
        if key.kind not in _ENDS or not key.place.startswith(prefix):
            continue
        parts = parts_of(key.place)
        if parts.index is not None or parts.page is not None or parts.undo:
            continue
        if len(parts.passes) != loops or (last is not None and parts.passes > last):
            continue
        if _is_forgotten(parts, scope):
            continue
        if parts.passes not in found or found[parts.passes][0] < parts.epoch:
            found[parts.passes] = (parts.epoch, {})
        if found[parts.passes][0] == parts.epoch:
            found[parts.passes][1][key.kind] = text
    return [_pass(numbers, found[numbers][1]) for numbers in sorted(found)]


def _is_forgotten(parts: PlaceParts, scope: Scope) -> bool:
    """Whether `keep` has dropped the pass, or one around it, in the decision under way."""
    if not scope.forgotten:
        return False
    places = (place_of(parts.node, parts.passes[:n], 1) for n in range(1, len(parts.passes) + 1))
    return any(place in scope.forgotten for place in places)


def _pass(numbers: tuple[int, ...], texts: Mapping[PayloadKind, str]) -> str:
    error = texts.get(PayloadKind.ERROR, _NULL)
    output = texts.get(PayloadKind.OUTPUT, _NULL)
    if len(numbers) == 1:
        which = f'"iteration":{numbers[0]}'
    else:
        which = f'"iterations":[{",".join(map(str, numbers))}]'
    return f'{{"error":{error},{which},"output":{output}}}'


def _index(place: Place, view: ItemsView) -> int | None:
    """Of an item of the foreach; None for any other place."""
    bare, _, epoch = view.place.partition("~")
    if not place.startswith(f"{bare}["):
        return None
    parts = parts_of(place)
    if parts.index is None or parts.undo or parts.index >= view.total:
        return None
    return parts.index if str(parts.epoch) == (epoch or "1") else None

"""What the store says of a run's items and passes, as the events of a batch leave it that is not written yet. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from tenuto.machine.snapshot import Task
from tenuto.model.ids import Place, parts_of
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.model.states import FINAL_TASK_STATES, TaskState
from tenuto.ports.store import ItemRow, PayloadRow

_ENDS = (PayloadKind.OUTPUT, PayloadKind.ERROR)


def items_now(
    foreach: Place,
    stored: Iterable[ItemRow],
    tasks: Mapping[Place, Task],
    texts: Mapping[PayloadKey, str],
    *,
    swept: bool,
) -> tuple[ItemRow, ...]:
    """Items of the foreach at a place. `tasks`, `texts`: what is known better; `swept`: what was open is cancelled."""
    rows = {row.index: row for row in stored}
    if swept:
        for row in list(rows.values()):
            if row.state not in FINAL_TASK_STATES:
                rows[row.index] = replace(row, state=TaskState.CANCELLED.value)
    for place, task in tasks.items():
        index = parts_of(place).index if is_part(place, foreach) else None
        if index is not None:
            before = rows.get(index)
            output, error = (None, None) if before is None else (before.output, before.error)
            rows[index] = ItemRow(
                index=index,
                state=task.state.value,
                output=texts.get(PayloadKey(place, PayloadKind.OUTPUT), output),
                error=texts.get(PayloadKey(place, PayloadKind.ERROR), error),
            )
    return tuple(rows.values())


def passes_now(
    prefix: str,
    stored: Iterable[PayloadRow],
    put: Iterable[PayloadRow],
    dropped: Container[Place],
) -> tuple[PayloadRow, ...]:
    """Outputs and errors of a node's passes, of all epochs; `prefix` is its id and a dot."""
    rows = {row.key: row for row in stored if not is_dropped(row.key.place, dropped)}
    for row in put:
        if row.key.kind in _ENDS and _is_pass(row.key.place, prefix):
            rows[row.key] = row
    return tuple(rows.values())


def is_dropped(place: Place, dropped: Container[Place]) -> bool:
    """Whether it is one of these places, or one of its inner passes, items and pages."""
    if place in dropped:
        return True
    bare = place.partition("~")[0].partition("[")[0]
    while bare:
        if Place(bare) in dropped:
            return True
        bare = bare.rpartition(".")[0]
    return False


def is_part(place: Place, foreach: Place) -> bool:
    """Whether it is an item or a page of the foreach at a place."""
    if "[" not in place:
        return False
    parts = parts_of(place)
    return not parts.undo and parts.owner == foreach


def _is_pass(place: Place, prefix: str) -> bool:
    return place.startswith(prefix) and "[" not in place and not parts_of(place).undo

"""Folding a run's history and comparing it with what the engine stored. Reads only.

Source: DESIGN section 4, "History".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from tenuto.machine.codec import decode_event
from tenuto.machine.columns import encode_snapshot
from tenuto.machine.fold import fold
from tenuto.machine.snapshot import Snapshot, Task
from tenuto.model.errors import InvariantViolated
from tenuto.model.ids import Place, RunId
from tenuto.ports.reads import Reads, RunDetail
from tenuto.ports.store import EventRow
from tenuto.views.look import read_graph

_PAGE = 10_000
_SHOWN_MAX = 120


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of one run: how many events were folded, and each difference in words."""

    run_id: RunId
    events: int
    differences: tuple[str, ...]

    def __str__(self) -> str:
        if not self.differences:
            noun = "event folds" if self.events == 1 else "events fold"
            return f"ok: {self.events} {noun} to the stored state"
        return "\n".join(self.differences)


async def check_run(reads: Reads, run_id: RunId) -> Checked:
    """Fold a run's history and compare all decided columns of `run_states` and `tasks`."""
    detail = await reads.get_run(run_id)
    graph = await read_graph(reads, detail)
    rows: list[EventRow] = []
    while page := await reads.history(run_id, after=rows[-1].seq if rows else 0, limit=_PAGE):
        # What the engine decides meanwhile is not compared: the state read above is older.
        rows += [row for row in page if row.seq <= detail.snapshot.seq]
        if page[-1].seq >= detail.snapshot.seq:
            break
    numbers = [row.seq for row in rows]
    if numbers != list(range(1, detail.snapshot.seq + 1)):
        missing = sorted(set(range(1, detail.snapshot.seq + 1)) - set(numbers))
        return Checked(
            run_id,
            len(rows),
            (f"history: {len(missing)} of {detail.snapshot.seq} events are missing",),
        )
    try:
        history = [decode_event(row.kind, row.at, row.place, row.data) for row in rows]
        snapshot, ledger = fold(run_id, graph, history)
    except InvariantViolated as error:
        return Checked(run_id, len(rows), (f"history: {error}",))
    return Checked(run_id, len(rows), tuple(_differences(detail, snapshot, ledger.tasks)))


def _differences(
    detail: RunDetail, snapshot: Snapshot, folded: Mapping[Place, Task]
) -> Iterator[str]:
    yield from _compare("run_states", _columns(snapshot), _columns(detail.snapshot))
    # Rows that a replay took over were made by no event of this run.
    stored = {task.place: task for task, _ in detail.tasks if task.input_seq}
    for place in sorted(folded.keys() | stored.keys()):
        ours, theirs = folded.get(place), stored.get(place)
        if ours is None:
            yield f"tasks {place}: stored, but the history never made it"
        elif theirs is None:
            yield f"tasks {place}: missing"
        else:
            yield from _compare(f"tasks {place}", _fields(ours), _fields(theirs))
    if detail.run.state != detail.snapshot.state:
        yield f"runs.state: folds to {detail.snapshot.state}, stored is {detail.run.state}"


def _compare(
    where: str, folded: Mapping[str, object], stored: Mapping[str, object]
) -> Iterator[str]:
    for name, value in folded.items():
        if stored[name] != value:
            yield f"{where}.{name}: folds to {_shown(value)}, stored is {_shown(stored[name])}"


def _columns(snapshot: Snapshot) -> dict[str, object]:
    nodes, edges, rest = encode_snapshot(snapshot)
    return {
        "seq": snapshot.seq,
        "at": snapshot.at,
        "state": str(snapshot.state),
        "paused": snapshot.paused,
        "nodes": nodes,
        "edges": edges,
        "rest": rest,
    }


def _fields(task: Task) -> dict[str, object]:
    return {field.name: getattr(task, field.name) for field in fields(task)}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"


def checked_json(checked: Checked) -> dict[str, object]:
    """As JSON values."""
    return {
        "run_id": checked.run_id,
        "events": checked.events,
        "ok": not checked.differences,
        "differences": list(checked.differences),
    }

"""The reading that decisions stand on: a request as parameters of LOAD, and its row as what it says. Pure."""

from __future__ import annotations

from sys import intern
from typing import Any

from tenuto.adapters.sql.engine import Row
from tenuto.adapters.sql.rows import (
    epoch_suffix,
    items_range,
    pack,
    passes_range,
    read_notice,
    read_payload,
    read_run_with_snapshot,
    read_task_with_lease,
    read_timer,
    read_wait,
    unpack,
)
from tenuto.machine.events import TimerKind
from tenuto.machine.snapshot import OpenedWait
from tenuto.model.expressions import Message
from tenuto.model.ids import MessageId, Place, RunId, item_index
from tenuto.model.payload import PayloadKey, PayloadKind, Text
from tenuto.ports.store import ItemRow, Loaded, LoadRequest, PayloadRow


def load_params(request: LoadRequest) -> tuple[str, ...]:
    """One parameter for each kind of row, in the order of LOAD; rows of runs sorted by run, as its bounds want them."""
    return (
        pack([[run] for run in sorted(request.runs)]),
        pack(sorted(request.tasks)),
        pack(request.timers),
        pack(request.waits),
        pack(sorted((run, key.place, key.kind) for run, key in request.payloads)),
        pack(request.mailbox),
        pack(request.notices),
        pack(
            sorted(
                (run, place, *items_range(place), epoch_suffix(place), number)
                for number, (run, place) in enumerate(request.items)
            )
        ),
        pack(
            sorted(
                (run, prefix, epoch, passes_range(prefix)[1])
                for run, prefix, epoch in request.passes
            )
        ),
        pack(sorted(request.children)),
        pack(request.addresses),
    )


def read_loaded(request: LoadRequest, row: Row) -> Loaded:
    """What LOAD answered."""
    now, runs, tasks, timers, waits, payloads, mailbox, notices, items, passes, children, opened = (
        row
    )
    return Loaded(
        now=now,
        runs={r[0]: read_run_with_snapshot(r) for r in unpack(runs)},
        tasks={(r[0], r[1]): read_task_with_lease(r) for r in unpack(tasks)},
        timers={(r[0], r[1], TimerKind(r[2])): read_timer(r) for r in unpack(timers)},
        waits={(r[0], r[1]): read_wait(r) for r in unpack(waits)},
        payloads={
            (r[0], PayloadKey(r[1], PayloadKind(r[2]))): r[3]
            for r in unpack(payloads)
            if r[3] is not None
        },
        mailbox={
            (r[0], r[1], r[2], r[3]): Message(MessageId(r[4]), Text(len(r[5].encode()), r[5]))
            for r in unpack(mailbox)
        },
        notices={(r[0], r[1], r[2]): read_notice(r) for r in unpack(notices)},
        items=_items(request, unpack(items)),
        passes=_passes(request, unpack(passes)),
        children={(r[0], r[1]): RunId(r[2]) for r in unpack(children) if r[2] is not None},
        addresses=_addresses(unpack(opened)),
    )


def _items(
    request: LoadRequest, rows: list[list[Any]]
) -> dict[tuple[RunId, Place], tuple[ItemRow, ...]]:
    """Rows are used up on the way: of a long list there would be two otherwise."""
    found: list[list[ItemRow]] = [[] for _ in request.items]
    while rows:
        number, place, state, output, error = rows.pop()
        index = item_index(place)
        row = ItemRow(index=index, state=intern(state), output=output, error=error)
        found[number].append(row)
    return {key: tuple(items) for key, items in zip(request.items, found, strict=True)}


def _passes(
    request: LoadRequest, rows: list[list[Any]]
) -> dict[tuple[RunId, str, int], tuple[PayloadRow, ...]]:
    found: dict[tuple[RunId, str, int], list[PayloadRow]] = {key: [] for key in request.passes}
    for run, prefix, epoch, *payload in rows:
        found[run, prefix, epoch].append(read_payload(payload))
    return {key: tuple(payloads) for key, payloads in found.items()}


def _addresses(
    rows: list[list[Any]],
) -> dict[tuple[str, str, str], tuple[tuple[RunId, OpenedWait], ...]]:
    found: dict[tuple[str, str, str], list[tuple[RunId, OpenedWait]]] = {}
    for r in sorted(rows, key=lambda r: (r[5], r[0], r[1])):
        found.setdefault((r[6], r[2], r[3]), []).append((RunId(r[0]), read_wait(r)))
    return {address: tuple(waits) for address, waits in found.items()}

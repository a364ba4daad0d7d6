"""The auditor: reads the database and the journals when all is quiet, and says what is wrong (reliability.md, 1.3).

It believes nobody: what was executed is known from the journals, what was decided from the history, what a client was
promised from the client's own list.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
from tests.support.chaos import journal, leases
from tests.support.chaos.journal import Execution
from tests.support.chaos.leases import Right

from tenuto.adapters.sql.reads import SqlReads
from tenuto.app.database import open_database
from tenuto.model.ids import RunId
from tenuto.settings.database import Database
from tenuto.views.verify import check_run

_ENDS = ("AttemptSucceeded", "AttemptFailed", "LeaseExpired", "DeadlinePassed")
_TOLERANCE_US = 5_000
"""What the offset between the database's clock and the monotonic one is measured to."""
_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Ended:
    """How the history says that an attempt ended. `at`: microseconds of the database's clock."""

    kind: str
    attempt: int
    lease: str
    at: int


@dataclass(slots=True)
class Facts:
    """All that is judged.

    Attributes:
        executions: from the journals.
        ended: task id -> its ended attempts, in the history's order.
        runs: run id -> (state, key).
        left: table -> rows that should be gone.
        leased: tasks that still have a lease.
        folds: run id -> what is wrong with its history.
        promised: key -> run ids that clients were told.
        rights: lease -> the right that it was, by the database's own log.
        drained: worker -> when it was asked to end, microseconds of the monotonic clock.
        steps: run id -> tasks with a journal that a successful run has, of its own and its children's.
        offset: of the wall clock to the monotonic one, in microseconds.
    """

    executions: Sequence[Execution]
    ended: Mapping[str, Sequence[Ended]]
    runs: Mapping[str, tuple[str, str | None]]
    left: Mapping[str, int]
    leased: int
    folds: Mapping[str, str]
    promised: Mapping[str, Iterable[str]]
    rights: Mapping[str, Right] = field(default_factory=dict)
    drained: Mapping[str, Sequence[int]] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the auditor found. `problems` empty: all promises were kept."""

    problems: tuple[str, ...]
    runs: int
    attempts: int
    executions: int
    lost: int
    """Executions whose lease was taken away, so that their work was done again."""
    overtaken: int
    """Executions that went on after their lease had ended, while the next one ran: allowed, and never accepted."""

    def __str__(self) -> str:
        counts = (
            f"{self.runs} runs, {self.attempts} attempts accepted, {self.executions} executions"
        )
        lines = [
            f"{counts}: {self.lost} in vain, {self.overtaken} of them still at work when the next had begun"
        ]
        shown = self.problems[:_SHOWN_MAX]
        lines += shown or ["nothing is lost, doubled, stuck or left over; every history folds"]
        if len(self.problems) > len(shown):
            lines.append(f"and {len(self.problems) - len(shown)} problems more")
        return "\n".join(lines)


def judge(facts: Facts) -> Verdict:
    """Compare what was promised with what happened."""
    problems = [*_runs(facts), *_attempts(facts), *_left(facts), *_rights(facts)]
    by_task: dict[str, list[Execution]] = {}
    for execution in facts.executions:
        by_task.setdefault(execution.task, []).append(execution)
    overtaken = 0
    for task, executions in by_task.items():
        found, late = _executions(task, executions, facts)
        problems += found
        overtaken += late
    accepted = {
        ended.lease
        for all in facts.ended.values()
        for ended in all
        if ended.kind == "AttemptSucceeded"
    }
    lost = sum(execution.lease not in accepted for execution in facts.executions)
    return Verdict(
        tuple(problems),
        len(facts.runs),
        len(accepted),
        len(facts.executions),
        lost,
        overtaken,
    )


def _runs(facts: Facts) -> Iterable[str]:
    keys: dict[str, str] = {}
    for run_id, (state, key) in facts.runs.items():
        if state != "success":
            yield f"run {run_id} ({key}) is {state}"
        if key is not None and key in keys:
            yield f"I10: key {key} has two runs, {keys[key]} and {run_id}"
        elif key is not None:
            keys[key] = run_id
    for key, told in facts.promised.items():
        ids = set(told)
        if len(ids) != 1:
            yield f"I10: key {key} was answered with {sorted(ids)}"
        elif keys.get(key) not in ids:
            yield f"I16: key {key} was answered with {ids}, and the database has {keys.get(key)}"
    for run_id, problem in facts.folds.items():
        yield f"I5: run {run_id}: {problem}"


def _attempts(facts: Facts) -> Iterable[str]:
    finished = {
        execution.lease: execution for execution in facts.executions if execution.outcome == "ok"
    }
    done: dict[str, int] = {}
    for task, ended in facts.ended.items():
        last, succeeded = 0, 0
        for each in ended:
            if each.attempt <= last:
                yield f"I3: {task}: attempt {each.attempt} ended after attempt {last} ({each.kind})"
            last = each.attempt
            if each.kind == "AttemptSucceeded":
                succeeded += 1
                if each.lease not in finished:
                    yield f"lost: {task}: attempt {each.attempt} is a success that no worker did"
        if succeeded > 1:
            yield f"I3: {task} succeeded {succeeded} times"
        top = _top(task.partition("/")[0], facts.parents)
        done[top] = done.get(top, 0) + succeeded
    for run_id, wanted in facts.steps.items():
        if facts.runs[run_id][0] == "success" and done.get(run_id, 0) != wanted:
            yield f"lost: run {run_id} succeeded with {done.get(run_id, 0)} of {wanted} steps"


def _top(run_id: str, parents: Mapping[str, str]) -> str:
    while run_id in parents:
        run_id = parents[run_id]
    return run_id


def _left(facts: Facts) -> Iterable[str]:
    for table, count in facts.left.items():
        if count:
            yield f"I15: {count} rows are left in {table}"
    if facts.leased:
        yield f"I15: {facts.leased} tasks still have a lease"


def _executions(task: str, executions: Sequence[Execution], facts: Facts) -> tuple[list[str], int]:
    """I2: no two executions at a time while both leases live."""
    problems, overtaken = [], 0
    for number, later in enumerate(executions):
        if later.lease not in facts.rights:
            problems.append(f"I2: {task}: {_name(later)} ran under a lease that nobody granted")
            continue
        for earlier in executions[:number]:
            right = facts.rights.get(earlier.lease)
            what = f"{task}: {_name(earlier)} and {_name(later)}"
            if right is None:
                continue
            if earlier.lease == later.lease:
                problems.append(f"I2: {what} ran under one lease")
            elif later.attempt < earlier.attempt:
                problems.append(f"I3: {what} began in this order")
            elif earlier.ended is not None and earlier.ended <= later.began:
                continue
            elif right.over - facts.offset <= later.began + _TOLERANCE_US:
                overtaken += earlier.ended is not None
            else:
                problems.append(f"I2: {what} ran at one time under live leases")
    return problems, overtaken


def _rights(facts: Facts) -> Iterable[str]:
    """A living lease ends by its own report, by its worker's leave, by a deadline, or because its process is dead."""
    how = {
        ended.lease: ended
        for all in facts.ended.values()
        for ended in all
        if ended.lease is not None
    }
    by_lease = {execution.lease: execution for execution in facts.executions}
    for lease, ended in how.items():
        right = facts.rights.get(lease)
        if right is None:
            yield f"I2: {ended.kind} was accepted under lease {lease}, which nobody granted"
        elif right.ended is None and ended.kind != "LeaseExpired":
            yield f"I2: {right.task}: {ended.kind} was accepted, and lease {lease} stands"
        elif right.until < ended.at - _TOLERANCE_US and ended.kind in (
            "AttemptSucceeded",
            "AttemptFailed",
        ):
            yield f"I2: {right.task}: {ended.kind} was accepted after lease {lease} had run out"
    for lease, right in facts.rights.items():
        execution = by_lease.get(lease)
        if (
            not right.was_taken
            or execution is None
            or execution.ended is None
            or right.ended is None
        ):
            continue
        event, after = how.get(lease), execution.ended + facts.offset - right.ended
        if after <= _TOLERANCE_US:
            continue  # it had done its work by then, or was just done
        if event is not None and event.kind == "LeaseExpired":
            yield f"I2: {right.task}: lease {lease} lived, and was ended as expired; it worked on for {after} us"
        elif event is None and not _was_drained(
            execution, right.ended - facts.offset, facts.drained
        ):
            yield f"I2: {right.task}: lease {lease} was given away under {execution.worker}, {after} us before its end"


def _was_drained(execution: Execution, at: int, drained: Mapping[str, Sequence[int]]) -> bool:
    return any(moment <= at for moment in drained.get(execution.worker, ()))


def _name(execution: Execution) -> str:
    until = "?" if execution.ended is None else str(execution.ended)
    return (
        f"attempt {execution.attempt} ({execution.lease[:8]}, {execution.worker}, {execution.began}-{until}, "
        f"{execution.outcome or 'no end'})"
    )


# -- gathering --------------------------------------------------------------------------------------------------------

LEFT = ("ready", "timers", "waits", "notices")
_LOOKS = 50


async def gather(
    dsn: str,
    folder: Path,
    promised: Mapping[str, Iterable[str]],
    *,
    steps: Mapping[str, int],
    drained: Mapping[str, Sequence[int]],
) -> Facts:
    """Read everything. `steps`: workflow -> tasks with a journal that a run of it has."""
    link = await asyncpg.connect(dsn)
    try:
        rows = await link.fetch("SELECT run_id, state, key, parent, workflow FROM runs")
        runs = {r["run_id"]: (r["state"], r["key"]) for r in rows}
        events = await link.fetch(
            "SELECT run_id, seq, at, kind, place, data FROM events WHERE kind = ANY($1) ORDER BY run_id, seq",
            _ENDS,
        )
        left = {table: await link.fetchval(f"SELECT count(*) FROM {table}") for table in LEFT}
        leased = await link.fetchval("SELECT count(*) FROM tasks WHERE lease_id IS NOT NULL")
        offset = await _offset(link)
        rights = leases.rights(await leases.read(link))
    finally:
        await link.close()
    ended: dict[str, list[Ended]] = {}
    for r in events:
        data = json.loads(r["data"])
        if data.get("lease") is None:
            continue
        told = Ended(r["kind"], data["attempt"], data["lease"], r["at"])
        ended.setdefault(f"{r['run_id']}/{r['place']}", []).append(told)
    return Facts(
        executions=journal.read(folder),
        ended=ended,
        runs=runs,
        left=left,
        leased=leased,
        folds=await _folds(dsn, list(runs)),
        promised=promised,
        rights=rights,
        drained=drained,
        parents={r["run_id"]: r["parent"] for r in rows if r["parent"] is not None},
        steps={
            r["run_id"]: steps[r["workflow"]]
            for r in rows
            if r["parent"] is None and r["workflow"] in steps
        },
        offset=offset,
    )


async def _offset(link: asyncpg.Connection) -> int:
    """Of the database's clock to the monotonic one, by the quickest of many answers: a busy machine may stop in between
    for longer than what is measured with it.
    """
    quickest, offset = None, 0
    for _ in range(_LOOKS):
        asked = time.monotonic_ns() // 1_000
        now = await link.fetchval(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT"
        )
        took = time.monotonic_ns() // 1_000 - asked
        if quickest is None or took < quickest:
            quickest, offset = took, int(now) - asked - took // 2
    return offset


async def _folds(dsn: str, runs: Sequence[str]) -> dict[str, str]:
    """Fold every history."""
    opened = await open_database(Database(path=None, url=dsn), name="auditor", upgrade=False)
    try:
        reads = SqlReads(opened.engine)
        found = {}
        for run_id in runs:
            checked = await check_run(reads, RunId(run_id))
            if checked.differences:
                found[run_id] = "; ".join(checked.differences)
        return found
    finally:
        await opened.engine.close()

"""One commit as a job: what is checked, who loses, which rows are written. Pure; the engine runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tenuto.adapters.sql.dialect import Dialect
from tenuto.adapters.sql.engine import Param, Step, Steps
from tenuto.adapters.sql.rows import (
    event_row,
    lease_row,
    new_lease,
    pack,
    payload_row,
    state_row,
    task_row,
    timer_row,
    unpack,
    wait_row,
)
from tenuto.machine.codec import encode_output
from tenuto.machine.events import TimerKind
from tenuto.model.errors import InvariantViolated
from tenuto.model.ids import Place, RunId
from tenuto.ports.store import Change, Committed, EagerGrant, LeaseRow

LARGE_LETTERS = 2_000
"""From here on a run's state is written by a statement of its own."""

Rows = list[list[Param]]

# Order of writing; a section without rows is left out. Rows of `released` go into two statements.
_WRITES = (
    ("keys", "INSERT_KEYS"),
    ("runs", "INSERT_RUNS"),
    ("settled", "UPDATE_RUNS"),
    ("new_states", "INSERT_STATES"),
    ("states", "UPDATE_STATES"),
    ("events", "INSERT_EVENTS"),
    ("payloads", "INSERT_PAYLOADS"),
    ("created", "INSERT_TASKS"),
    ("updated", "UPDATE_TASKS"),
    ("cancelled", "CANCEL_TASKS"),
    ("withdrawn", "DELETE_READY"),
    ("cleared", "DELETE_TIMERS"),
    ("timers", "INSERT_TIMERS"),
    ("closed_waits", "DELETE_WAITS"),
    ("waits", "INSERT_WAITS"),
    ("waits", "HINT_MESSAGES"),
    ("messages", "USE_MESSAGES"),
    ("held", "HOLD_TASKS"),
    ("released", "RELEASE_TASKS"),
    ("closed", "CLOSE_TASKS"),
    ("unready", "DELETE_READY_OF_RUNS"),
    ("over", "DELETE_TIMERS_OF_RUNS"),
    ("over", "DELETE_WAITS_OF_RUNS"),
    ("released", "OFFER_RELEASED"),
    ("ready", "INSERT_READY"),
    ("eager", "LEASE_TASKS"),
)


class Commit:
    """The job of `Store.commit`. May be run again from the start: what it holds is never changed by running it."""

    def __init__(
        self,
        texts: Mapping[str, str],
        dialect: Dialect,
        changes: Sequence[Change],
        *,
        lease_us: int,
    ) -> None:
        self._texts = texts
        self._dialect = dialect
        self._changes = sorted(changes, key=lambda change: change.run_id)
        self._lease_us = lease_us
        _check(self._changes)
        self._checks = [pack(rows) for rows in _claims(self._changes)]
        # Everything but the leases is written the same whoever loses, so it is made up outside the transaction.
        self._sections = {change.run_id: _sections(change) for change in self._changes}

    def job(self) -> Steps[Committed]:
        """Check, then write the winners."""
        if self._dialect.locks_rows:
            yield ((self._texts["LOCK_RUNS"], (self._checks[0],)),)
            yield ((self._texts["LOCK_TASKS"], (self._checks[1],)),)
            yield ((self._texts["LOCK_MESSAGES"], (self._checks[5],)),)
        row = yield ((self._texts["GUARD"], tuple(self._checks)),)
        assert row is not None
        now: int = row[0]
        taken = {RunId(new): RunId(old) for new, old in unpack(row[2])}
        losers = {RunId(r[0]) for r in unpack(row[1])} | taken.keys()
        self._settle_rivals(losers, taken)
        refused = {(run, place) for run, place in unpack(row[3])}
        winners = [change for change in self._changes if change.run_id not in losers]
        leases = {
            (change.run_id, grant.place): self._lease(change, grant, now)
            for change in winners
            for grant in change.eager
            if (change.run_id, grant.place) not in refused
        }
        if winners:
            yield self._writes(winners, leases)
        return Committed(now=now, losers=frozenset(losers), taken=taken, granted=frozenset(leases))

    def _settle_rivals(self, losers: set[RunId], taken: dict[RunId, RunId]) -> None:
        """Among changes that want the same message or key, the first run that may have it gets it."""
        messages: set[str] = set()
        keys: dict[tuple[str, str, str], RunId] = {}
        for change in self._changes:
            if change.run_id in losers:
                continue
            if not messages.isdisjoint(change.claims.messages):
                losers.add(change.run_id)
                continue
            new = change.new_run
            if new is not None and new.key is not None:
                first = keys.setdefault((new.namespace, new.workflow, new.key), change.run_id)
                if first != change.run_id:
                    losers.add(change.run_id)
                    taken[change.run_id] = first
                    continue
            messages.update(change.claims.messages)

    def _lease(self, change: Change, grant: EagerGrant, now: int) -> LeaseRow:
        task = next(task for task in change.ready if task.place == grant.place)
        return new_lease(task, grant.lease_id, grant.worker, now=now, lease_us=self._lease_us)

    def _writes(
        self, winners: Sequence[Change], leases: Mapping[tuple[RunId, Place], LeaseRow]
    ) -> list[Step]:
        sections: dict[str, Rows] = {}
        for change in winners:
            for name, rows in self._sections[change.run_id].items():
                sections.setdefault(name, []).extend(rows)
            self._lease_sections(change, leases, sections)
        large = sections.pop("large", [])
        params = {name: pack(rows) for name, rows in sections.items() if rows}
        steps = [(self._texts[text], (params[name],)) for name, text in _WRITES if name in params]
        return steps + [(self._texts["UPDATE_STATE"], tuple(row)) for row in large]

    def _lease_sections(
        self,
        change: Change,
        leases: Mapping[tuple[RunId, Place], LeaseRow],
        sections: dict[str, Rows],
    ) -> None:
        """Tasks created with their lease in one row; others are leased once they are up to date."""
        run_id = change.run_id
        created = set()
        for task in change.created:
            lease = leases.get((run_id, task.place))
            sections.setdefault("created", []).append(task_row(run_id, task) + lease_row(lease))
            created.add(task.place)
        for task in change.ready:
            lease = leases.get((run_id, task.place))
            if lease is None:
                sections.setdefault("ready", []).append(
                    [run_id, task.place, task.queue, task.name, task.priority]
                )
            elif task.place not in created:
                sections.setdefault("eager", []).append([run_id, task.place, *lease_row(lease)])


def _check(changes: Sequence[Change]) -> None:
    runs = {change.run_id for change in changes}
    if len(runs) != len(changes):
        raise InvariantViolated("a commit has two changes of one run")
    for change in changes:
        if (change.expected_seq == 0) != (change.new_run is not None):
            raise InvariantViolated(f"run {change.run_id}: new_run and expected_seq contradict")
        if not {grant.place for grant in change.eager} <= {task.place for task in change.ready}:
            raise InvariantViolated(f"run {change.run_id}: an eager grant of a task not offered")


def _claims(changes: Sequence[Change]) -> list[Rows]:
    """Parameters of GUARD, in order."""
    tasks = {
        (change.run_id, task.place): task
        for change in changes
        if change.eager
        for task in change.ready
    }
    return [
        [[c.run_id, c.expected_seq] for c in changes],
        [[c.run_id, *claim] for c in changes for claim in c.claims.leases],
        [[c.run_id, *claim] for c in changes for claim in c.claims.unleased],
        [[c.run_id, *claim] for c in changes for claim in c.claims.timers],
        [[c.run_id, *claim] for c in changes for claim in c.claims.waits],
        [[c.run_id, claim] for c in changes for claim in c.claims.messages],
        [
            [c.run_id, c.new_run.namespace, c.new_run.workflow, c.new_run.key]
            for c in changes
            if c.new_run is not None and c.new_run.key is not None
        ],
        [
            [
                c.run_id,
                grant.place,
                tasks[c.run_id, grant.place].queue,
                tasks[c.run_id, grant.place].priority,
            ]
            for c in changes
            for grant in c.eager
        ],
    ]


def _sections(change: Change) -> dict[str, Rows]:
    """Rows of one change that no lease decision alters, by section of `_WRITES`."""
    run_id = change.run_id
    state = state_row(change.snapshot)
    ended: list[Param] = [None, None, None]
    if change.settle is not None:
        error = change.settle.error
        ended = [
            change.settle.at,
            encode_output(change.settle.output),
            None if error is None else encode_output(error),
        ]
    rows: dict[str, Rows] = {
        "events": [event_row(run_id, event) for event in change.events],
        "payloads": [payload_row(run_id, payload) for payload in change.payloads],
    }
    new = change.new_run
    if new is not None:
        rows["new_states"] = [state]
        rows["runs"] = [
            [
                run_id,
                new.namespace,
                new.workflow,
                new.version,
                new.definition,
                new.key,
                state[3],
                state[4],
                new.created_at,
                *ended,
            ]
        ]
        if new.key is not None:
            rows["keys"] = [[new.namespace, new.workflow, new.key, run_id]]
    else:
        letters = len(change.snapshot.nodes) + len(change.snapshot.edges)
        rows["large" if letters > LARGE_LETTERS else "states"] = [[*state, change.expected_seq]]
        # What users see of a run changes only with one of these.
        if change.hold or change.close or change.settle or change.release_at is not None:
            rows["settled"] = [[run_id, state[3], state[4], *ended]]
    rows |= _work_sections(change)
    return rows


def _work_sections(change: Change) -> dict[str, Rows]:
    run_id, claims = change.run_id, change.claims
    rows: dict[str, Rows] = {}
    if change.updated:
        rows["updated"] = [
            [*task_row(run_id, task), int(ends_lease)] for task, ends_lease in change.updated
        ]
    rows["cancelled"] = [[run_id, place] for place in change.cancelled]
    # A task under a claimed lease has no ready row: the grant took it.
    leased = {place for place, _, _ in claims.leases}
    rows["withdrawn"] = [[run_id, place] for place in _places(change) if place not in leased]
    rows["cleared"] = [[run_id, place, kind] for place, kind in _cleared(change)]
    rows["timers"] = [timer_row(run_id, timer) for timer in change.timers]
    rows["closed_waits"] = [[run_id, place] for place in change.closed_waits]
    rows["waits"] = [wait_row(run_id, wait) for wait in change.waits]
    rows["messages"] = [[run_id, message] for message in claims.messages]
    if change.hold:
        rows["held"] = [[run_id]]
    if change.release_at is not None:
        rows["released"] = [[run_id, change.release_at]]
    if change.close:
        rows["closed"] = [[run_id]]
    over = change.close or change.settle is not None
    if over or change.hold:
        rows["unready"] = [[run_id]]
    if over:
        rows["over"] = [[run_id]]
    return rows


def _places(change: Change) -> Iterable[Place]:
    yield from change.cancelled
    for task, _ in change.updated:
        yield task.place


def _cleared(change: Change) -> Iterable[tuple[Place, TimerKind]]:
    """Timers to remove: those used up and those cleared, a whole place as each of its kinds."""
    for place, kind, _ in change.claims.timers:
        yield place, kind
    for place, wanted in change.cleared:
        for kind in (wanted,) if wanted is not None else tuple(TimerKind):
            yield place, kind

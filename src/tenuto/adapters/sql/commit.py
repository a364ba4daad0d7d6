"""One commit as a job: what is checked, who loses, which rows are written. Pure; the engine runs it.

Where every statement is a journey it is also made up as one group, for the case that nobody loses and nothing is
refused, as is usual: locks, the moment, checks, all writes (`Commit.at_once`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tenuto.adapters.sql.dialect import Dialect
from tenuto.adapters.sql.engine import AtOnce, Param, Row, Step, Steps
from tenuto.adapters.sql.posting import by_event_id, forgotten
from tenuto.adapters.sql.rows import (
    NO_LEASE,
    epoch_suffix,
    event_row,
    inner_range,
    lease_row,
    message_row,
    notice_row,
    pack,
    parts_range,
    payload_row,
    plain_task_row,
    state_row,
    task_row,
    timer_row,
    unpack,
    wait_row,
)
from tenuto.machine.codec import encode_output
from tenuto.machine.events import TimerKind
from tenuto.machine.snapshot import Task
from tenuto.model.errors import InvariantViolated
from tenuto.model.ids import Place, RunId
from tenuto.ports.store import Change, Committed, EagerGrant, NoticeKind

LARGE_LETTERS = 2_000
"""From here on a run's state is written by a statement of its own."""

_LAST_PLACE = "\U0010ffff"

Rows = list[list[Param]]

# What is checked; each has one set of rows. All together are GUARD, in this order.
CHECKS = (
    "MOVED_RUNS",
    "LOST_LEASES",
    "LEASED_MEANWHILE",
    "GONE_TIMERS",
    "GONE_WAITS",
    "GONE_MESSAGES",
    "GONE_NOTICES",
    "TAKEN_KEYS",
    "REFUSED_GRANTS",
)

# Order of writing: a statement and the sections that are its parameters; left out while the first has no rows. Rows of
# one section may go into several statements.
WRITES = (
    ("INSERT_KEYS", "keys"),
    ("INSERT_RUNS", "runs"),
    ("UPDATE_RUNS", "settled"),
    ("INSERT_STATES", "new_states"),
    ("UPDATE_STATES", "states"),
    ("INSERT_EVENTS", "events"),
    ("DROP_PAYLOADS", "dropped"),
    ("DROP_INNER_PAYLOADS", "dropped_inner"),
    ("COPY_PAYLOADS", "copied", "not_copied"),
    ("COPY_ITEMS", "copied", "not_copied"),
    ("INSERT_PAYLOADS", "payloads"),
    ("SHIFT_TASKS", "shifted"),
    ("INSERT_PLAIN_TASKS", "created_plain"),
    ("INSERT_TASKS", "created"),
    ("UPDATE_TASKS", "updated"),
    ("CANCEL_TASKS", "cancelled"),
    ("CANCEL_ITEM_CHILDREN", "items"),
    ("CANCEL_ITEMS", "items"),
    ("DELETE_READY", "withdrawn"),
    ("DELETE_READY_OF_ITEMS", "items"),
    ("DELETE_TIMERS", "cleared"),
    ("DELETE_TIMERS_OF_ITEMS", "items"),
    # What a closing run sets after that, it keeps: timers of its own, never those of before.
    ("DELETE_TIMERS_OF_RUNS", "closed"),
    ("DELETE_WAITS_OF_RUNS", "closed"),
    ("SHIFT_TIMERS", "shifted", "not_shifted"),
    ("INSERT_TIMERS", "timers"),
    ("DELETE_WAITS", "closed_waits"),
    ("INSERT_WAITS", "waits"),
    ("HINT_MESSAGES", "waits"),
    ("USE_MESSAGES", "messages"),
    ("POST_MESSAGES", "posts"),
    ("DELETE_NOTICES", "heard"),
    ("INSERT_NOTICES", "notices"),
    ("HOLD_TASKS", "held"),
    ("RELEASE_TASKS", "released"),
    ("CANCEL_CHILDREN", "closed"),
    ("CLOSE_TASKS", "closed"),
    ("TELL_CHILDREN", "told"),
    ("DELETE_READY_OF_RUNS", "unready"),
    ("DELETE_TIMERS_OF_RUNS", "over"),
    ("DELETE_WAITS_OF_RUNS", "over"),
    ("OFFER_RELEASED", "released"),
    ("INSERT_READY", "ready"),
    ("LEASE_TASKS", "eager"),
)
# Of these the second parameter is the moment in which leases begin.
LEASING = ("INSERT_PLAIN_TASKS", "INSERT_TASKS", "LEASE_TASKS")

Grants = Mapping[tuple[RunId, Place], EagerGrant]


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
        self.grants: Grants = {
            (change.run_id, grant.place): grant for change in changes for grant in change.eager
        }
        """Leases that it asks for."""
        self._claims = [pack(rows) if rows else "[]" for rows in _claims(self._changes)]
        self._locks = _locks(self._changes) if dialect.locks_rows else {}
        # Everything but the leases is written the same whoever loses, so it is made up outside the transaction.
        self._sections = {change.run_id: _sections(change) for change in self._changes}

    def job(self) -> Steps[Committed]:
        """Check, then write the winners."""
        locks = [(self._texts[text], (rows,)) for text, rows in self._locks.items()]
        row = yield (*locks, (self._texts["GUARD"], tuple(self._claims)))
        assert row is not None
        now: int = row[0]
        taken = {RunId(new): RunId(old) for new, old in unpack(row[2])}
        losers = {RunId(r[0]) for r in unpack(row[1])} | taken.keys()
        self._settle_rivals(losers, taken)
        refused = {(run, place) for run, place in unpack(row[3])}
        winners = [change for change in self._changes if change.run_id not in losers]
        grants = {
            key: grant
            for key, grant in self.grants.items()
            if key[0] not in losers and key not in refused
        }
        told = _told(winners)
        if winners:
            row = yield self._writes(winners, grants, now)
            if any(map(_tells_all, winners)):
                assert row is not None
                told += _children(row[0])
        return Committed(
            now=now,
            losers=frozenset(losers),
            taken=taken,
            granted=frozenset(grants),
            told=tuple(dict.fromkeys(told)),
        )

    def at_once(self) -> AtOnce[Committed] | None:
        """The same as one group that hopes for the usual case.

        None: it cannot be (a change loses by another one of this commit, several states are large), or an engine within
        this process has no use for it.
        """
        if not self._dialect.locks_rows:
            return None
        rivals: set[RunId] = set()
        self._settle_rivals(rivals, {})
        large = sum("large" in rows for rows in self._sections.values())
        if rivals or large > 1:
            return None
        claims = zip(CHECKS, self._claims, strict=True)
        group = (
            *((self._texts[text], (rows,)) for text, rows in self._locks.items()),
            (self._texts["MOMENT"], ()),
            *((self._texts[text], (rows,)) for text, rows in claims if rows != "[]"),
            *self._writes(self._changes, self.grants, None),
        )

        def read(row: Row) -> Committed:
            told = dict.fromkeys(_told(self._changes) + _children(row[1]))
            return Committed(now=row[0], granted=frozenset(self.grants), told=tuple(told))

        return AtOnce(group, read, self.job)

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

    def _writes(self, winners: Sequence[Change], grants: Grants, now: int | None) -> list[Step]:
        """In order; the last one answers who is told beside (OPEN_CHILDREN), if only the store knows that.

        Args:
            now: when leases begin; None: who carries it out puts that in.
        """
        sections: dict[str, Rows] = {}
        for change in winners:
            for name, rows in self._sections[change.run_id].items():
                sections.setdefault(name, []).extend(rows)
            self._lease_sections(change, grants, sections)
        large = sections.pop("large", [])
        notices = {tuple(row[:3]): row for row in sections.get("notices", ())}
        sections["notices"] = list(notices.values())
        posts = sections.get("posts", [])
        posts.sort(key=by_event_id)
        params = {name: pack(rows) for name, rows in sections.items() if rows}
        steps: list[Step] = []
        if posts:
            steps.append((self._texts["DELETE_OLD_MESSAGES"], (forgotten(len(posts)),)))
        for text, *names in WRITES:
            if names[0] in params:
                given: list[Param] = [params.get(name, "[]") for name in names]
                steps.append(
                    (self._texts[text], (*given, now) if text in LEASING else tuple(given))
                )
        steps += [(self._texts["UPDATE_STATE"], tuple(row)) for row in large]
        callers = [[change.run_id] for change in winners if _tells_all(change)]
        if callers:
            steps.append((self._texts["OPEN_CHILDREN"], (pack(callers),)))
        return steps

    def _lease_sections(self, change: Change, grants: Grants, sections: dict[str, Rows]) -> None:
        """Tasks created with their lease in one row; others are leased once they are up to date."""
        run_id = change.run_id
        created = set()
        for task in change.created:
            row = plain_task_row(run_id, task)
            section = "created_plain"
            if row is None:
                section, row = "created", task_row(run_id, task)
            grant = grants.get((run_id, task.place))
            lease = NO_LEASE if grant is None else self._lease(task, grant)
            sections.setdefault(section, []).append([*row, *lease])
            created.add(task.place)
        for task in change.ready:
            grant = grants.get((run_id, task.place))
            if grant is None:
                sections.setdefault("ready", []).append(
                    [run_id, task.place, task.queue, task.name, task.priority]
                )
            elif task.place not in created:
                lease = self._lease(task, grant)
                sections.setdefault("eager", []).append([run_id, task.place, *lease])

    def _lease(self, task: Task, grant: EagerGrant) -> Sequence[Param]:
        return lease_row(task, grant.lease_id, grant.worker, lease_us=self._lease_us)


def _told(changes: Sequence[Change]) -> list[RunId]:
    """To whom they write notices by name."""
    return [notice.run_id for change in changes for notice in change.notices]


def _children(answer: str | None) -> list[RunId]:
    """What OPEN_CHILDREN said."""
    return [RunId(child) for (child,) in unpack(answer)]


def _tells_all(change: Change) -> bool:
    """Whether notices go to children that only the store knows."""
    return bool(
        change.close
        or change.cancelled_items
        or change.terminate_children
        or change.tell_children is not None
    )


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
    """Rows of CHECKS, in order."""
    tasks = {
        (change.run_id, task.place): task
        for change in changes
        if change.eager
        for task in change.ready
    }
    free = {change.run_id: _surely_free(change) for change in changes if change.eager}
    return [
        [[c.run_id, c.expected_seq] for c in changes],
        [[c.run_id, *claim] for c in changes for claim in c.claims.leases],
        [[c.run_id, *claim] for c in changes for claim in c.claims.unleased],
        [[c.run_id, *claim] for c in changes for claim in c.claims.timers],
        [[c.run_id, *claim] for c in changes for claim in c.claims.waits],
        [[c.run_id, claim] for c in changes for claim in c.claims.messages],
        [[c.run_id, *claim] for c in changes for claim in c.claims.notices],
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
                int(grant.place not in free[c.run_id]),
            ]
            for c in changes
            for grant in c.eager
        ],
    ]


def _locks(changes: Sequence[Change]) -> dict[str, str]:
    """Statements that lock, in order, and their rows; those with something to lock."""
    claimed: Rows = [[c.run_id, *claim] for c in changes for claim in c.claims.notices]
    written: Rows = [notice_row(notice) for c in changes for notice in c.notices]
    waits: Rows = [[wait.event, wait.key] for c in changes for wait in c.waits]
    posts: Rows = [[post.event, post.key] for c in changes for post in c.posts]
    rows: dict[str, Rows] = {
        "LOCK_RUNS": [[c.run_id] for c in changes if c.expected_seq],
        "LOCK_TASKS": [row for c in changes for row in _touched_tasks(c)],
        "LOCK_MESSAGES": [[c.run_id, claim] for c in changes for claim in c.claims.messages],
        "LOCK_NOTICES": claimed + written,
        "LOCK_ADDRESSES": waits + posts,
    }
    return {text: pack(some) for text, some in rows.items() if some}


def _touched_tasks(change: Change) -> Rows:
    """Tasks that the change writes and others may write too: ranges of places."""
    places = {lease[0] for lease in change.claims.leases}
    places.update(place for place, _ in change.claims.unleased)
    places.update(task.place for task, _ in change.updated)
    places.update(task.place for task in change.ready)
    places.update(change.cancelled)
    places.difference_update(task.place for task in change.created)
    ranges: list[tuple[str, str]] = [(place, place) for place in places]
    ranges += [parts_range(place) for place in change.cancelled_items]
    if (
        change.close
        or change.hold
        or change.settle is not None
        or change.release_at is not None
        or change.shift is not None
    ):
        ranges.append(("", _LAST_PLACE))
    return [[change.run_id, *each] for each in sorted(ranges)]


def _surely_free(change: Change) -> set[Place]:
    """Tasks without a lease once this change is written, whatever the store holds now."""
    free = {task.place for task in change.created}
    return free | {task.place for task, ends_lease in change.updated if ends_lease}


def _sections(change: Change) -> dict[str, Rows]:
    """Rows of one change that no lease decision alters, by section of `WRITES`."""
    run_id, snapshot = change.run_id, change.snapshot
    state = state_row(snapshot)
    shown = _shown(change)
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
                *shown[:2],
                new.created_at,
                *shown[2:],
                *(new.parent or (None, None)),
                new.source,
            ]
        ]
        if new.key is not None:
            rows["keys"] = [[new.namespace, new.workflow, new.key, run_id]]
    else:
        letters = len(snapshot.nodes) + len(snapshot.edges)
        rows["large" if letters > LARGE_LETTERS else "states"] = [[*state, change.expected_seq]]
        # What users see of a run changes only with one of these.
        if (
            change.hold
            or change.close
            or change.settle
            or change.reopen
            or change.release_at is not None
        ):
            rows["settled"] = [[run_id, *shown]]
    rows.update(_work_sections(change))
    if _is_whole(change):
        rows.update(_whole_sections(change))
    return rows


def _shown(change: Change) -> list[Param]:
    """What users see of a run: state, paused (by itself or its parent, C6), ended_at, output, error, compensation."""
    snapshot, settle = change.snapshot, change.settle
    head: list[Param] = [snapshot.state, int(snapshot.paused or snapshot.parent_paused)]
    if settle is None:
        return [*head, None, None, None, snapshot.compensation]
    error = None if settle.error is None else encode_output(settle.error)
    return [*head, settle.at, encode_output(settle.output), error, settle.compensation]


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
    rows["posts"] = [message_row(message) for message in change.posts]
    rows["heard"] = [[run_id, *claim] for claim in claims.notices]
    rows["notices"] = [notice_row(notice) for notice in change.notices]
    if change.hold:
        rows["held"] = [[run_id]]
    if change.release_at is not None:
        rows["released"] = [[run_id, change.release_at]]
    if change.close:
        rows["closed"] = [[run_id]]
    if change.close or change.settle or change.hold:
        rows["unready"] = [[run_id]]
    if change.settle:
        rows["over"] = [[run_id]]
    return rows


def _is_whole(change: Change) -> bool:
    return bool(
        change.cancelled_items
        or change.terminate_children
        or change.tell_children is not None
        or change.dropped
        or change.shift is not None
        or change.copy is not None
    )


def _whole_sections(change: Change) -> dict[str, Rows]:
    """Orders on sets of rows that only the store knows."""
    run_id = change.run_id
    rows: dict[str, Rows] = {}
    if change.cancelled_items:
        rows["items"] = [[run_id, *parts_range(place)] for place in change.cancelled_items]
    told: Rows = []
    if change.terminate_children:
        told.append([run_id, NoticeKind.TERMINATE, "{}"])
    if change.tell_children is not None:
        told.append([run_id, NoticeKind.PAUSE, change.tell_children])
    rows["told"] = told
    if change.dropped:
        rows["dropped"] = [[run_id, place] for place in change.dropped]
        rows["dropped_inner"] = [
            [run_id, *inner, epoch_suffix(place)]
            for place in change.dropped
            for inner in (parts_range(place), inner_range(place))
        ]
    if change.shift is not None:
        rows["shifted"] = [[run_id, change.shift.by_us, change.shift.version]]
        rows["not_shifted"] = [[run_id, place] for place in change.shift.but]
    if change.copy is not None:
        source, but = change.copy
        rows["copied"] = [[run_id, source]]
        rows["not_copied"] = [[run_id, node] for node in but]
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

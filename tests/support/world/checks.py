"""What must hold of a run after every event: the machine's invariants, from SEMANTICS and not from its code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.support import oracle
from tests.support.oracle import FINAL
from tests.support.world.attempts import is_child_work
from tests.support.world.undoing import Undoing, is_given
from tests.support.world.watching import WatchedTurn

from tenuto.machine import actions as act
from tenuto.machine import codec, columns
from tenuto.machine.decide import decide, initial
from tenuto.machine.decision import Decision
from tenuto.machine.events import (
    AttemptFailed,
    AttemptSucceeded,
    ChildSettled,
    Event,
    RetryRequested,
    RunReplayed,
    TimerKind,
)
from tenuto.machine.fold import Ledger, Recorded
from tenuto.machine.snapshot import Snapshot, Task
from tenuto.machine.tokens import BACKS_MAX
from tenuto.model.definition import WORKER_TYPES, Foreach, NodeType
from tenuto.model.ids import RUN_PLACE, Place, parts_of
from tenuto.model.payload import PayloadKey, PayloadKind
from tenuto.model.states import (
    FINAL_RUN_STATES,
    FINAL_TASK_STATES,
    RunState,
    TaskState,
)

if TYPE_CHECKING:
    from tests.support.world.run import World

BEGUN_MAX = 1_000
"""Items begun in one decision."""


class Checking:
    """The memory of a run's checks.

    Attributes:
        reopened: tasks that a retry opened again.
        kept: letters of the nodes that the last retry leaves alone, by number.
        undoing: what has to be undone.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.reopened: set[Place] = set()
        self.kept: dict[int, str] = {}
        self.undoing = Undoing(world)
        self._began: set[tuple[int, Place]] = set()
        self._decided: set[tuple[int, int, tuple[int, ...]]] = set()
        self._accepted: Counter[tuple[Place, int]] = Counter()
        self._folded: Snapshot = initial(world.run_id, world.graph)
        self._folded_ledger = Ledger()

    # -- before anything is written -----------------------------------------------------------------------------

    def before_writing(
        self, before: Snapshot, found: Decision, event: Event, turn: WatchedTurn
    ) -> None:
        self._check_numbers(before, event)
        self._check_moves(turn, event)
        self._check_ends(before, found, event)
        if isinstance(event, AttemptSucceeded | AttemptFailed):
            self._accepted[event.place, event.attempt] += 1
            assert self._accepted[event.place, event.attempt] == 1, "I3: two outcomes of an attempt"
        begun = [a for a in found.actions if isinstance(a, act.CreateTask)]
        items = [a for a in begun if parts_of(a.task.place).index is not None]
        assert len(items) <= BEGUN_MAX + len(self.world.graph.definition.nodes), "too many items"
        self.undoing.note_handlers(found)
        if isinstance(event, RetryRequested):
            self._begin_retry(before)
        if isinstance(event, RetryRequested | RunReplayed):
            self._check_reset(before, event, turn)

    def _check_numbers(self, before: Snapshot, event: Event) -> None:
        world = self.world
        after = world.snapshot
        assert after.seq == before.seq + 1 == len(world.history) + 1, "I5: numbered without gaps"
        assert after.at == max(before.at, event.at)
        if before.state in FINAL_RUN_STATES:
            late = isinstance(event, AttemptSucceeded | ChildSettled | RetryRequested)
            assert late, f"I4: {event} after the end"
            if not isinstance(event, RetryRequested):
                same = replace(
                    after,
                    seq=before.seq,
                    at=before.at,
                    done=before.done,
                    children=before.children,
                )
                assert same == before, "I4: a final run changed"
        assert after.epoch == before.epoch + isinstance(event, RetryRequested), "R: epochs"

    def _check_ends(self, before: Snapshot, found: Decision, event: Event) -> None:
        """Every node that is final now and was not before ended in this decision, with this letter as its last."""
        if isinstance(event, RunReplayed):
            return
        world = self.world
        last = {node: letter.value for node, letter in found.ends}
        pairs = zip(before.nodes.decode(), world.letters, strict=True)
        for node, (was, now) in enumerate(pairs):
            if now in FINAL:
                name = world.graph.definition.nodes[node].id
                assert last.get(node, was if was in FINAL else None) == now, name

    def _check_moves(self, turn: WatchedTurn, event: Event) -> None:
        epoch = self.world.snapshot.epoch
        assert turn.backs <= BACKS_MAX, "T7"
        for place in turn.began:
            assert (epoch, place) not in self._began, f"{place} was activated twice"
            self._began.add((epoch, place))
        for number, passes in turn.decided:
            key = (epoch, number, passes)
            assert key not in self._decided, f"edge {key} was decided twice in a pass"
            self._decided.add(key)
        for node, place in turn.unsatisfied:
            name = self.world.graph.definition.nodes[node].id
            if place in turn.postponed or getattr(event, "skip", None) == name:
                continue
            told = [
                text.text or ""
                for key, text in turn.fresh.items()
                if parts_of(key.place).node == name and key.kind is PayloadKind.ERROR
            ]
            assert any('"join_unsatisfied"' in text for text in told), f"J2: {name}"

    # -- retry --------------------------------------------------------------------------------------------------

    def retried_first(self, snapshot: Snapshot | None = None) -> set[int]:
        """S0 (R1): unhandled dead nodes, and those cancelled by closing."""
        world = self.world
        snapshot = world.snapshot if snapshot is None else snapshot
        numbers, outs = world.graph.numbers, world.graph.outs
        found = {numbers[id] for place in snapshot.failures if (id := parts_of(place).node)}
        letters, edges = snapshot.nodes.decode(), snapshot.edges.decode()
        for node, letter in enumerate(letters):
            if letter == "c" and (not outs[node] or any(edges[n] == "-" for n in outs[node])):
                found.add(node)
        return {node for node in found if letters[node] in "xc"}

    def reached(self, first: set[int], edges: str) -> set[int]:
        """S (R1): what forward edges reach from S0, itself included.

        A loop with a back-edge source in S is open again, so its dead exits were decided too early (L4): what they
        lead to is in S as well.
        """
        graph = self.world.graph
        found, work = set(first), list(first)
        while work:
            while work:
                for number in graph.outs[work.pop()]:
                    edge = graph.definition.edges[number]
                    if edge.loop_max is None and edge.target not in found:
                        found.add(edge.target)
                        work.append(edge.target)
            for at, edge in enumerate(graph.definition.edges):
                dead = edge.loop_max is None and edges[at] == "d" and edge.target not in found
                if dead and self._is_open_again(at, found, edges):
                    found.add(edge.target)
                    work.append(edge.target)
        return found

    def _is_open_again(self, number: int, again: set[int], edges: str) -> bool:
        """Whether an edge leaves a loop that is not closed, now that what leaves S is undecided."""
        sources = [edge.source for edge in self.world.graph.definition.edges]
        letters = "".join("-" if s in again else x for s, x in zip(sources, edges, strict=True))
        while True:  # a back edge that is withheld again keeps the loop around it open
            held = "".join(
                "w"
                if x == "d"
                and self.world.graph.back_of[n] is not None
                and self._leaves_open(n, letters)
                else x
                for n, x in enumerate(letters)
            )
            if held == letters:
                return self._leaves_open(number, letters)
            letters = held

    def _begin_retry(self, before: Snapshot) -> None:
        assert before.state is not RunState.SUCCESS, "R1"
        assert before.compensation == "none", "R1: something was undone"
        assert not before.children, "R1: an open child"
        first = self.retried_first(before)
        assert first, "R1: there is nothing to retry"
        again = self.reached(first, before.edges.decode())
        self.kept = {
            node: letter for node, letter in enumerate(before.nodes.decode()) if node not in again
        }

    def _check_reset(
        self, before: Snapshot, event: RetryRequested | RunReplayed, turn: WatchedTurn
    ) -> None:
        """R1, R2: S is pending and its edges undecided; everything else is as it was, before J is applied."""
        graph = self.world.graph
        if isinstance(event, RunReplayed):
            source = self.world.family.worlds[event.source]
            before = source.snapshot
            first = self.retried_first(before) | {graph.numbers[event.node]}
        else:
            first = self.retried_first(before)
        old = before.edges.decode()
        again = self.reached(first, old)
        nodes, edges, passes = turn.after_reset
        expected = ["." if n in again else x for n, x in enumerate(before.nodes.decode())]
        assert nodes == "".join(expected), f"R1: S is {sorted(again)}: {nodes} {expected}"
        for number, edge in enumerate(graph.definition.edges):
            if edge.source in again:
                letter = "-"
            elif old[number] in "dw" and self._leaves_open(number, edges):
                letter = "w"
            else:
                letter = old[number]
            assert edges[number] == letter, f"R1: edge {number} is {edges[number]!r}"
        for at, loop in enumerate(graph.loops):
            now = 1 if loop.header in again else before.passes[at]
            assert passes[at] == now, f"R1: loop {at} is in pass {passes[at]}"

    def _leaves_open(self, number: int, edges: str) -> bool:
        """Whether an edge leaves a loop that is not closed; a back edge leaves those inside its own (L4)."""
        graph = self.world.graph
        edge = graph.definition.edges[number]
        own = graph.back_of[number]
        for at, loop in enumerate(graph.loops):
            inside = edge.source in loop.body and edge.target not in loop.body
            if own is not None:
                inner = loop.body < graph.loops[own].body
                inside = edge.source in loop.body and at != own and inner
            if inside and not oracle.loop_closed(graph, edges, at):
                return True
        return False

    def _check_kept(self) -> None:
        letters = self.world.letters
        graph = self.world.graph
        for node, letter in self.kept.items():
            # A back edge whose source runs again may repeat a body that the retry left alone (R1, L3).
            if not graph.loops_of[node]:
                name = graph.definition.nodes[node].id
                assert letters[node] == letter, f"R1: {name} is not in S and ran again"

    def was_reopened(self, task: Task) -> bool:
        return task.place in self.reopened

    # -- after everything is written ----------------------------------------------------------------------------

    def after_writing(self, before: Snapshot, event: Event, turn: WatchedTurn) -> None:
        self._check_fold()
        self.undoing.note_ends(event, turn)
        self._check_kept()
        self._check_lists(event, turn)
        self._check_state(event)
        self.undoing.check(before, event)
        self._check_children()

    def _check_fold(self) -> None:
        """I5, step by step: state and event through the codec, outcomes from the record, nothing else."""
        world = self.world
        at, parts = world.history[-1]
        event, outcomes = codec.decode_event(parts.kind, at, parts.place, parts.data)
        recorded = Recorded(outcomes)
        base = _through_codec(self._folded)
        assert base == self._folded
        found = decide(world.graph, base, self._folded_ledger.rows(), event, recorded)
        assert isinstance(found, Decision), found
        assert found.rejected is None
        recorded.finish()
        self._folded = found.snapshot
        self._folded_ledger.apply(found.actions)
        assert found.snapshot == world.snapshot, "I5"
        assert columns.encode_snapshot(found.snapshot) == columns.encode_snapshot(world.snapshot)
        assert without_keys(self._folded_ledger) == without_keys(world.ledger), "I5"

    def _check_state(self, event: Event) -> None:
        world = self.world
        letters, ledger = world.letters, world.ledger
        assert world.snapshot.live == sum(letter not in FINAL for letter in letters), "live"
        open_tasks = {p: t for p, t in ledger.tasks.items() if t.state not in FINAL_TASK_STATES}
        self._check_offers(open_tasks)
        if world.is_final:
            assert world.snapshot.live == 0, "a final run has nodes that are not"
            assert world.settled is not None
            assert world.snapshot.closing is None
            assert not open_tasks, sorted(open_tasks)
            assert not ledger.timers, sorted(ledger.timers)
            assert not ledger.waits
            assert not world.ready
            return
        assert world.settled is None
        if world.state is RunState.PENDING:
            assert set(letters) == {"."}
            assert not ledger.tasks
        elif world.state is RunState.RUNNING:
            self._check_running(open_tasks)

    def _check_offers(self, open_tasks: Mapping[Place, Task]) -> None:
        world = self.world
        for place, task in open_tasks.items():
            if is_child_work(self.world, task):
                assert not (task.held and task.child), task
                assert place not in world.ready, task
                assert (task.child is not None) == (task.state is TaskState.PENDING), task
                continue
            assert task.child is None, task
            assert task.held == world.is_held, f"C6: {task}"
            offered = place in world.ready or place in world.leases
            assert offered == (
                task.state is TaskState.PENDING and (not task.held or place in world.leases)
            ), task
        assert not (world.is_held and world.ready), "C6"

    def _check_running(self, open_tasks: Mapping[Place, Task]) -> None:
        world = self.world
        letters, ledger = world.letters, world.ledger
        assert world.snapshot.closing is None
        wrong = oracle.restless(world.graph, letters, world.edges)
        assert not wrong, wrong
        nodes = world.graph.definition.nodes
        active = {world.place(n.id): i for i, n in enumerate(nodes) if letters[i] == "a"}
        assert active or world.snapshot.children, "the run waits for nothing"
        for place, node in active.items():
            self._check_cause(place, node, open_tasks)
        for place in {*open_tasks, *ledger.waits}:
            assert parts_of(place).owner in active, f"I6: {place} belongs to no active node"
        for place, kind in ledger.timers:
            fits = kind is TimerKind.RUN or parts_of(place).owner in active
            assert fits, f"I6: timer {place} {kind}"
        timed = world.graph.definition.timeout_us is not None
        assert ((RUN_PLACE, TimerKind.RUN) in ledger.timers) == timed

    def _check_cause(self, place: Place, node: int, open_tasks: Mapping[Place, Task]) -> None:
        """Each active node waits for exactly one named thing, and has the clocks that bound it."""
        ledger = self.world.ledger
        timers = {kind for at, kind in ledger.timers if at == place}
        it = self.world.graph.definition.nodes[node]
        if isinstance(it.detail, Foreach) and node in self.world.snapshot.items:
            self._check_foreach(place, node, it.detail, timers, open_tasks)
            return
        if timers == {TimerKind.CONTINUE}:
            assert place not in open_tasks
            assert place not in ledger.waits
            return
        if it.type in WORKER_TYPES or it.type is NodeType.CALL:
            task = open_tasks[place]
            assert task.node == node
            self._check_clocks(task, timers)
        elif it.type is NodeType.WAIT:
            assert timers == {TimerKind.WAIT}
        else:
            assert it.type is NodeType.WAIT_FOR_EVENT, f"{place} is active and waits for nothing"
            assert place in ledger.waits
            assert timers <= {TimerKind.EVENT, TimerKind.HEARTBEAT}

    def _check_clocks(self, task: Task, timers: set[TimerKind]) -> None:
        expected = set()
        if task.total_until is not None and task.ending != "total_timeout":
            expected.add(TimerKind.TOTAL)
        if task.state is TaskState.RETRY:
            expected.add(TimerKind.BACKOFF)
        if task.child is not None and task.timeout_us is not None and not task.ending:
            expected.add(TimerKind.CHILD)
        if task.ending:
            assert task.child is not None, f"F6: {task}"
        assert timers == expected, f"I6: {task.place} has timers {timers}, not {expected}"

    def _check_foreach(
        self,
        place: Place,
        node: int,
        it: Foreach,
        timers: set[TimerKind],
        open_tasks: Mapping[Place, Task],
    ) -> None:
        """Closed counters: what they say is what the rows say; and somebody goes on with the list."""
        world = self.world
        items = world.snapshot.items[node]
        rows = {p: t for p, t in world.ledger.tasks.items() if parts_of(p).owner == place}
        pages = [t for p, t in rows.items() if parts_of(p).page is not None]
        mine = {i: t for p, t in rows.items() if (i := parts_of(p).index) is not None}
        working = [i for i, t in mine.items() if t.state not in FINAL_TASK_STATES]
        left_again = set(items.again)
        done = [
            i
            for i, t in mine.items()
            if (t.state is TaskState.SUCCESS or t.late) and i not in left_again
        ]
        failed = [i for i, t in mine.items() if t.state is TaskState.DEAD and i not in items.again]
        name = f"{place}: {items}"
        assert items.active == len(working), f"{name} but {sorted(working)} are open"
        assert items.active <= items.concurrency, name
        assert items.succeeded == len(done), f"{name} but {sorted(done)} succeeded"
        assert items.failed == len(failed), f"{name} but {sorted(failed)} are dead"
        assert items.next <= items.listed
        assert items.active + items.succeeded + items.failed + len(items.again) == items.next, name
        assert set(mine) >= set(range(items.next)) - set(items.again), name
        assert all(index < items.next for index in mine), name
        fetching = any(task.state not in FINAL_TASK_STATES for task in pages)
        assert items.fetching == fetching, f"{name}: {pages}"
        left = bool(items.again) or items.next < items.listed
        if left and items.active < items.concurrency:
            assert TimerKind.CONTINUE in timers, f"{name}: nobody goes on"
        assert TimerKind.CONTINUE not in timers or left, name
        assert working or fetching or TimerKind.CONTINUE in timers, f"{name} waits for nothing"
        if not items.complete and not fetching:
            assert it.source is not None, name
            assert items.listed - items.next + len(items.again) >= items.concurrency, name
        total = {TimerKind.TOTAL} if it.total_timeout_us is not None else set()
        assert timers - {TimerKind.CONTINUE} == total, f"I6: {place} has timers {timers}"
        for at, task in rows.items():
            if at in open_tasks:
                clocks = {kind for p, kind in world.ledger.timers if p == at}
                self._check_clocks(task, clocks)

    def _check_lists(self, event: Event, turn: WatchedTurn) -> None:
        """A foreach succeeds with all items done and no more failed than it tolerates; one more, and it is dead."""
        world = self.world
        for node, place, letter in turn.ended:
            items = world.snapshot.items.get(node)
            id = world.graph.definition.nodes[node].id
            if world.place(id) != place or world.letter(id) != letter or is_given(event, place):
                continue  # another pass began in the same decision
            if items is None or letter not in "sx":
                continue
            beyond = items.failed * (100 if items.percent else 1) > items.tolerate * (
                items.listed if items.percent else 1
            )
            told = world.newest(PayloadKey(place, PayloadKind.ERROR)) or ""
            if '"foreach_failed"' in told and letter == "x":
                assert beyond, f"{place}: {items} is dead of too many failures"
                assert items.complete or not items.percent, f"{place}: {items}"
            elif letter == "s":
                assert items.complete, f"{place}: {items}"
                assert items.succeeded + items.failed == items.listed, f"{place}: {items}"
                assert not beyond, f"{place}: {items} succeeded"

    # -- children -----------------------------------------------------------------------------------------------

    def _check_children(self) -> None:
        world = self.world
        assert world.snapshot.children == len(world.open_children()), "C1: children are counted"


def _through_codec(snapshot: Snapshot) -> Snapshot:
    return columns.decode_snapshot(
        snapshot.run_id,
        snapshot.seq,
        snapshot.at,
        snapshot.state.value,
        int(snapshot.paused),
        *columns.encode_snapshot(snapshot),
    )


def without_keys(ledger: Ledger) -> tuple[object, ...]:
    """Rows to compare; the key of a wait is unknown while folding."""
    waits = {place: replace(wait, key=None) for place, wait in ledger.waits.items()}
    return ledger.tasks, ledger.timers, waits

"""One run of the pure machine with a simulated world around it: store, leases, mailbox, clock, evaluator.

Whatever a test makes happen goes through `World.send`. After each accepted event the machine's invariants are checked
(I3-I7, I9, I13), the event is decided once more from encoded and decoded state (I5), and every move of a node or an
edge on the way has been compared with `oracle`. No CEL, no database, no real time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from unittest.mock import patch

from tests.support import oracle
from tests.support.oracle import FINAL, Say

from tenuto.machine import actions as act
from tenuto.machine import codec
from tenuto.machine import decide as decider
from tenuto.machine.clocks import AttemptEvent
from tenuto.machine.decide import decide, initial
from tenuto.machine.decision import Decision, Needs
from tenuto.machine.events import (
    AttemptFailed,
    AttemptSucceeded,
    CancelRequested,
    Deadline,
    DeadlinePassed,
    Event,
    EventReceived,
    LeaseExpired,
    PauseRequested,
    ResumeRequested,
    RunStarted,
    TimerFired,
    TimerKind,
)
from tenuto.machine.fold import Ledger, Recorded, fold
from tenuto.machine.snapshot import OpenedWait, Rows, Snapshot, Task, Timer
from tenuto.machine.tokens import BACKS_MAX
from tenuto.machine.turn import Turn
from tenuto.model.definition import WORKER_TYPES, NodeType, Work
from tenuto.model.expressions import (
    Evaluator,
    Expression,
    ExpressionKind,
    Fault,
    Message,
    Missing,
    Outcome,
    Root,
    Scope,
    Verdict,
)
from tenuto.model.graph import Graph
from tenuto.model.ids import RUN_PLACE, LeaseId, MessageId, Place, RunId, WorkerId
from tenuto.model.payload import JoinView, Output, PayloadKey, PayloadKind, Text
from tenuto.model.retry import LOST_MAX, Jitter, RetryPolicy
from tenuto.model.states import (
    FINAL_RUN_STATES,
    FINAL_TASK_STATES,
    TASK_MOVES,
    NodeLetter,
    RunState,
    TaskState,
)

RUN = RunId("01980000-0000-7000-8000-000000000001")
WORKER = WorkerId("worker-1")

Answer = bool | str | Fault | Callable[[Scope, int], "bool | str | Fault"]
"""What an expression yields: a verdict, a JSON text, a fault, or what a function of (scope, call from 1) says."""
Script = Mapping[str, Answer | Sequence[Answer]]
"""Expression text -> its answer, or answers call by call, the last one for ever."""


def text_of(text: str) -> Text:
    return Text(len(text.encode()), text)


# -- the evaluator ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Asked:
    """One evaluation that counted: its decision was accepted."""

    expression: Expression
    scope: Scope
    outcome: Outcome


class Table:
    """Answers from the script. Texts and mailbox addresses that it was not handed yet are `Missing` at first."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._calls = world.calls.copy()
        self.known: set[PayloadKey] = set()
        self.looked: dict[tuple[str, str], Message] = {}
        self.asked: list[Asked] = []

    def again(self) -> None:
        """The same decision starts once more; what it was handed stays known."""
        self._calls = self._world.calls.copy()
        self.asked = []

    def accept(self) -> None:
        self._world.calls = self._calls
        self._world.asked += self.asked

    def evaluate(self, expression: Expression, scope: Scope) -> Verdict | Text | Fault | Missing:
        lacking = tuple(
            key
            for key in dict.fromkeys(_needed(expression, scope))
            if key not in scope.fresh and key not in self.known
        )
        if lacking:
            return Missing(payloads=lacking)
        self._calls[expression.text] += 1
        answer = self._answer(expression, scope, self._calls[expression.text])
        outcome: Verdict | Text | Fault
        if isinstance(answer, Fault):
            outcome = answer
        elif expression.kind is ExpressionKind.CONDITION:
            assert isinstance(answer, bool), expression
            outcome = Verdict(answer)
        else:
            assert isinstance(answer, str), expression
            outcome = text_of(answer)
        self.asked.append(Asked(expression, scope, outcome))
        return outcome

    def mailbox(self, event: str, key: Text) -> Message | Missing:
        assert key.text is not None
        if (event, key.text) not in self.looked:
            return Missing(mailbox=((event, key.text),))
        return self.looked[event, key.text]

    def _answer(self, expression: Expression, scope: Scope, call: int) -> bool | str | Fault:
        script = self._world.script
        if expression.text in script:
            answer = script[expression.text]
            if isinstance(answer, Sequence) and not isinstance(answer, str):
                answer = answer[min(call, len(answer)) - 1]
            return answer(scope, call) if callable(answer) else answer
        if expression.kind is ExpressionKind.CONDITION:
            assert expression.text in ("true", "false"), f"not scripted: {expression.text!r}"
            return expression.text == "true"
        return (
            expression.text.strip('"') if expression.kind is ExpressionKind.KEY else expression.text
        )


def _needed(expression: Expression, scope: Scope) -> Iterator[PayloadKey]:
    views = {view.id: view for view in scope.nodes}
    for read in expression.reads:
        if read.root is Root.INPUT:
            yield scope.input
        elif read.root is Root.VARS:
            yield scope.vars
        elif read.root is Root.ERROR and scope.error is not None:
            yield scope.error
        elif read.root is Root.NODES and read.node in views:
            view = views[read.node]
            if read.field == "output":
                yield from keys_of(view.output)
            elif read.field == "error" and view.error is not None:
                yield view.error


def keys_of(output: Output) -> Iterator[PayloadKey]:
    """Payloads that an output consists of."""
    if isinstance(output, PayloadKey):
        yield output
    elif isinstance(output, JoinView):
        for _, part in output.entries:
            yield from keys_of(part)


# -- watching a decision ------------------------------------------------------------------------------------------


class _Edges(bytearray):
    """Edge letters that report every change of theirs to the turn."""

    turn: WatchedTurn

    def __setitem__(self, at: object, letter: object) -> None:
        assert isinstance(at, int)
        assert isinstance(letter, int)
        self.turn.edge_moves(at, chr(self[at]), chr(letter))
        super().__setitem__(at, letter)


class WatchedTurn(Turn):
    """The machine's own turn; every move of a node and an edge is checked on its way."""

    last: WatchedTurn

    def __init__(
        self, graph: Graph, snapshot: Snapshot, rows: Rows, at: int, evaluator: Evaluator
    ) -> None:
        super().__init__(graph, snapshot, rows, at, evaluator)
        letters = _Edges(self.edges)
        letters.turn = self
        self.edges = letters
        self.began: list[Place] = []
        self.decided: list[tuple[int, tuple[int, ...]]] = []
        self.unsatisfied: list[tuple[int, Place]] = []
        self.postponed: set[Place] = set()
        self._ranks: list[int] = []
        WatchedTurn.last = self

    def mark(self, node: int, letter: NodeLetter, view: JoinView | None = None) -> None:
        was, now = chr(self.nodes[node]), letter.value
        self._check_move(node, was, now)
        super().mark(node, letter, view)

    def _check_move(self, node: int, was: str, now: str) -> None:
        name = f"{self.place(node)}: {was!r} -> {now!r}"
        nodes, edges = self.nodes.decode(), self.edges.decode()
        if was == "." and now in "ak":
            said = oracle.say(self.graph, nodes, edges, node)
            started = self._is_started_by_back_edge(node)
            if now == "k":
                assert said is Say.SKIP, f"{name}, but J says {said.value}"
            else:
                assert started or said in (Say.ACT, Say.UNSATISFIED), f"{name}, but J says {said}"
                if said is Say.UNSATISFIED and not started:
                    self.unsatisfied.append((node, self.place(node)))
                self.began.append(self.place(node))
                rank = self.graph.rank[node]
                if not started:
                    assert not self._ranks or self._ranks[-1] < rank, f"{name}: T7, out of order"
                    self._ranks.append(rank)
                else:
                    self._ranks.clear()
            assert self.is_open(), f"{name} after the outcome was decided"
        elif was == "a":
            assert now in "sxc", name
        elif was in "sx" and now in "xa":
            # T6: the edges made it dead; T7: its end was postponed.
            assert all(self.edges[n] == ord("-") for n in self.graph.outs[node]), name
            if now == "a":
                self.postponed.add(self.place(node))
        else:
            reset = was in FINAL and now == "." and self.graph.loops_of[node]
            assert reset or (was == "." and now == "c"), name

    def _is_started_by_back_edge(self, node: int) -> bool:
        return any(
            loop.header == node and self.passes[at] > 1 for at, loop in enumerate(self.graph.loops)
        )

    def edge_moves(self, number: int, was: str, now: str) -> None:
        if now == "-":
            assert any(loop.body for loop in self.graph.loops), number
            return
        source = self.graph.definition.edges[number].source
        assert (was, now) in {("-", "t"), ("-", "d"), ("-", "w"), ("w", "d")}, (number, was, now)
        if was == "-":
            self.decided.append((number, self.passes_of(source)))
        else:
            self._ranks.clear()  # a loop closed: what it withheld may stand earlier in the order (L4)


# -- the world ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lease:
    place: Place
    attempt: int
    lease_id: LeaseId
    granted_at: int


@dataclass(slots=True)
class Posted:
    message_id: MessageId
    event: str
    key: str
    payload: str


@dataclass(slots=True, eq=False)
class World:
    """A run and all that is around it. Verbs make something happen; properties show letters.

    Attributes:
        script: what expressions yield.
        now: the clock, microseconds; turned by hand, and by `fire` to the timer's due time.
        draw: chance that events bring along.
        history: (at, parts) of the accepted events, as stored.
        asked: every evaluation of an accepted decision.
        settled: the SettleRun action, once final.
    """

    graph: Graph
    script: Script = field(default_factory=dict)
    now: int = 1_000_000_000
    draw: float = 0.5
    snapshot: Snapshot = field(init=False)
    ledger: Ledger = field(default_factory=Ledger)
    payloads: dict[tuple[PayloadKey, int], Text] = field(default_factory=dict)
    ready: set[Place] = field(default_factory=set)
    leases: dict[Place, Lease] = field(default_factory=dict)
    mailbox: list[Posted] = field(default_factory=list)
    history: list[tuple[int, codec.EventParts]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    settled: act.SettleRun | None = None
    decision: Decision = field(init=False)
    needs: int = 0
    _folded: Snapshot = field(init=False)
    _folded_ledger: Ledger = field(default_factory=Ledger)
    _began: set[Place] = field(default_factory=set)
    _decided: set[tuple[int, tuple[int, ...]]] = field(default_factory=set)
    _used: set[MessageId] = field(default_factory=set)
    _accepted: Counter[tuple[Place, int]] = field(default_factory=Counter)
    _numbers: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.snapshot = self._folded = initial(RUN, self.graph)
        self.payloads[PayloadKey(RUN_PLACE, PayloadKind.INPUT), 0] = text_of("{}")
        self.payloads[PayloadKey(RUN_PLACE, PayloadKind.VARS), 0] = text_of("{}")

    # -- looking ------------------------------------------------------------------------------------------------

    @property
    def letters(self) -> str:
        """One letter per node, in the order of their numbers."""
        return self.snapshot.nodes.decode()

    @property
    def edges(self) -> str:
        return self.snapshot.edges.decode()

    @property
    def state(self) -> RunState:
        return self.snapshot.state

    @property
    def is_final(self) -> bool:
        return self.snapshot.state in FINAL_RUN_STATES

    def letter(self, id: str) -> str:
        return self.letters[self.graph.numbers[id]]

    def place(self, name: str) -> Place:
        """Place of a node's current pass; a name with a dot is a place already."""
        if name not in self.graph.numbers:
            return Place(name)
        loops = self.graph.loops_of[self.graph.numbers[name]]
        return Place(name + "".join(f".{self.snapshot.passes[loop]}" for loop in loops))

    def task(self, name: str) -> Task:
        return self.ledger.tasks[self.place(name)]

    def timer(self, name: str, kind: TimerKind) -> Timer:
        return self.ledger.timers[self.place(name) if name else RUN_PLACE, kind]

    def payload(self, name: str, kind: PayloadKind) -> str | None:
        """Newest text under a place, or None."""
        return self._newest(PayloadKey(self.place(name) if name else RUN_PLACE, kind))

    def error(self, name: str) -> str:
        found = self.payload(name, PayloadKind.ERROR)
        assert found is not None, f"{name} has no error"
        return found

    def output(self) -> dict[str, object] | str | None:
        """The run's output: a JSON text, or a view as {id: JSON text, view or None}."""
        assert self.settled is not None
        return self.read(self.settled.output)

    def read(self, output: Output) -> dict[str, object] | str | None:
        if isinstance(output, PayloadKey):
            return self._newest(output)
        if isinstance(output, JoinView):
            return {upstream: self.read(part) for upstream, part in output.entries}
        return None

    def last_asked(self, where: str) -> Asked:
        """The newest evaluation of the expression at `where`."""
        return next(asked for asked in reversed(self.asked) if asked.expression.where == where)

    def _newest(self, key: PayloadKey) -> str | None:
        found = [(seq, text) for (at, seq), text in self.payloads.items() if at == key]
        return max(found, key=lambda pair: pair[0])[1].text if found else None

    # -- happening ----------------------------------------------------------------------------------------------

    def start(self) -> World:
        self.accept(RunStarted(at=self.now))
        return self

    def grant(self, name: str) -> Lease:
        """Lease a ready task to a worker."""
        place = self.place(name)
        assert place in self.ready, f"{place} is not ready: {sorted(self.ready)}"
        self.ready.discard(place)
        lease = Lease(
            place, self.ledger.tasks[place].attempt, LeaseId(self._name("lease")), self.now
        )
        self.leases[place] = lease
        return lease

    def release(self, name: str) -> None:
        """A draining worker gives its lease back."""
        lease = self.leases.pop(self.place(name))
        task = self.ledger.tasks[lease.place]
        if task.state is TaskState.PENDING and not task.held:
            self.ready.add(lease.place)

    def succeed(self, name: str, output: str = "{}") -> Decision:
        """A worker takes the task, if none has it, and reports success."""
        return self.accept(self.success_of(self._lease(name), output))

    def fail(
        self, name: str, code: str = "boom", *, retryable: bool = True, retry_after_us: int = 0
    ) -> Decision:
        """A worker takes the task, if none has it, and reports failure."""
        event = self.failure_of(self._lease(name), code)
        return self.accept(replace(event, retryable=retryable, retry_after_us=retry_after_us))

    def lose(self, name: str) -> Decision:
        """The worker that has the task is gone."""
        return self.accept(self.loss_of(self._lease(name)))

    def pass_deadline(self, name: str, deadline: Deadline) -> Decision:
        lease = None if deadline is Deadline.QUEUE else self._lease(name)
        return self.accept(self.deadline_of(self.place(name), deadline, lease))

    def fire(self, name: str, kind: TimerKind) -> Decision:
        """Turn the clock to the moment a timer is due, and fire it."""
        timer = self.timer(name, kind)
        self.now = max(self.now, timer.due_at)
        return self.accept(self.firing_of(timer))

    def go_on(self) -> int:
        """Fire the internal timers of T7 until none is left. Returns how many there were."""
        fired = 0
        while found := [t for t in self.ledger.timers.values() if t.kind is TimerKind.CONTINUE]:
            self.accept(self.firing_of(found[0]))
            fired += 1
        return fired

    def put_message(self, event: str, key: str = "k", payload: str = "{}") -> MessageId:
        """Store a message in the mailbox; nobody is told."""
        message = Posted(MessageId(self._name("message")), event, key, payload)
        self.mailbox.append(message)
        return message.message_id

    def post(self, event: str, key: str = "k", payload: str = "{}") -> Decision | None:
        """Store a message and hand it to the oldest open wait of its address, if there is one."""
        self.put_message(event, key, payload)
        matched = self.match()
        return self.accept(matched) if matched is not None else None

    def match(self) -> EventReceived | None:
        """The oldest unused message that an open wait waits for, as an event."""
        for message in self.mailbox:
            fitting = [
                wait
                for wait in self.ledger.waits.values()
                if (wait.event, wait.key) == (message.event, message.key)
            ]
            if fitting:
                wait = min(fitting, key=lambda w: (w.opened_at, w.place))
                return self.receipt_of(wait, message)
        return None

    def cancel(self, reason: str = "") -> Decision:
        return self.accept(CancelRequested(at=self.now, reason=reason))

    def pause(self) -> Decision:
        return self.accept(PauseRequested(at=self.now))

    def resume(self) -> Decision:
        return self.accept(ResumeRequested(at=self.now))

    # -- making events ------------------------------------------------------------------------------------------

    def success_of(self, lease: Lease, output: str = "{}") -> AttemptSucceeded:
        return AttemptSucceeded(
            at=self.now,
            place=lease.place,
            attempt=lease.attempt,
            lease_id=lease.lease_id,
            output=text_of(output),
            worker=WORKER,
            leased_at=lease.granted_at,
        )

    def failure_of(self, lease: Lease, code: str = "boom") -> AttemptFailed:
        return AttemptFailed(
            at=self.now,
            place=lease.place,
            attempt=lease.attempt,
            lease_id=lease.lease_id,
            code=code,
            error=text_of(f'{{"code":"{code}"}}'),
            draw=self.draw,
            worker=WORKER,
            leased_at=lease.granted_at,
        )

    def loss_of(self, lease: Lease) -> LeaseExpired:
        return LeaseExpired(
            at=self.now,
            place=lease.place,
            attempt=lease.attempt,
            lease_id=lease.lease_id,
            worker=WORKER,
            leased_at=lease.granted_at,
        )

    def deadline_of(self, place: Place, deadline: Deadline, lease: Lease | None) -> DeadlinePassed:
        return DeadlinePassed(
            at=self.now,
            place=place,
            attempt=self.ledger.tasks[place].attempt if lease is None else lease.attempt,
            deadline=deadline,
            lease_id=None if lease is None else lease.lease_id,
            draw=self.draw,
            worker=WORKER if lease is not None else WorkerId(""),
            leased_at=lease.granted_at if lease is not None else 0,
        )

    def firing_of(self, timer: Timer) -> TimerFired:
        return TimerFired(at=self.now, place=timer.place, kind=timer.kind, version=timer.version)

    def receipt_of(self, wait: OpenedWait, message: Posted) -> EventReceived:
        return EventReceived(
            at=self.now,
            place=wait.place,
            version=wait.version,
            message_id=message.message_id,
            payload=text_of(message.payload),
        )

    # -- one event ----------------------------------------------------------------------------------------------

    def accept(self, event: Event) -> Decision:
        """Send an event that must not be rejected."""
        decision = self.send(event)
        assert decision.rejected is None, f"{event} is rejected: {decision.rejected}"
        return decision

    def send(self, event: Event) -> Decision:
        """Decide an event, write what it orders, check everything."""
        table = Table(self)
        for _ in range(100):
            with patch.object(decider, "Turn", WatchedTurn):
                found = decide(self.graph, self.snapshot, self.ledger.rows(), event, table)
            if isinstance(found, Decision):
                break
            self._load(found, table)
        else:
            raise AssertionError("decide never has enough")
        self.decision = found
        if found.rejected is not None:
            assert found.snapshot is self.snapshot
            assert not found.actions
            assert not found.outcomes
            return found
        table.accept()
        turn = WatchedTurn.last
        before, self.snapshot = self.snapshot, found.snapshot
        self._check_numbers(before, event)
        self._check_moves(before, turn)
        self._check_ends(before, found)
        if isinstance(event, AttemptSucceeded | AttemptFailed):
            self._accepted[event.place, event.attempt] += 1
            assert self._accepted[event.place, event.attempt] == 1, "I3: two outcomes of an attempt"
        for action in found.actions:
            self._write(action, event)
        self.events.append(event)
        self.history.append((event.at, codec.encode_event(event, found.outcomes)))
        self._check_fold()
        self._check_state()
        return found

    def fold(self) -> tuple[Snapshot, Ledger]:
        """Fold the whole history from its stored form."""
        return fold(
            RUN,
            self.graph,
            (codec.decode_event(p.kind, at, p.place, p.data) for at, p in self.history),
        )

    def check_history(self) -> None:
        """I5: the whole history folds to exactly the stored state."""
        snapshot, ledger = self.fold()
        assert codec.encode_snapshot(snapshot) == codec.encode_snapshot(self.snapshot)
        assert snapshot == self.snapshot
        assert _without_keys(ledger) == _without_keys(self.ledger)

    def _load(self, needs: Needs, table: Table) -> None:
        """What a coordinator does with `Needs`: every text that is asked for must be stored."""
        assert needs.payloads or needs.mailbox
        self.needs += 1
        for key in needs.payloads:
            assert self._newest(key) is not None, f"{key} is asked for and was never put"
            assert key not in table.known, f"{key} is asked for twice"
            table.known.add(key)
        for address in needs.mailbox:
            assert address not in table.looked
            fitting = [m for m in self.mailbox if (m.event, m.key) == address]
            table.looked[address] = (
                Message(fitting[0].message_id, text_of(fitting[0].payload))
                if fitting
                else Message(None)
            )
        table.again()

    # -- writing, as the store does -----------------------------------------------------------------------------

    def _write(self, action: act.Action, event: Event) -> None:
        ledger, seq = self.ledger, self.snapshot.seq
        match action:
            case act.CreateTask(task=task):
                assert task.place not in ledger.tasks, f"{task.place} is created twice"
                assert (task.state, task.attempt, task.lost) == (TaskState.PENDING, 1, 0)
                assert task.input_seq == seq
                assert (PayloadKey(task.place, PayloadKind.INPUT), seq) in self.payloads
            case act.UpdateTask(task=task, ends_lease=ends_lease):
                self._check_update(ledger.tasks[task.place], task, event)
                if ends_lease:
                    self.leases.pop(task.place, None)
                self.ready.discard(task.place)
            case act.CancelTask(place=place):
                assert ledger.tasks[place].state not in FINAL_TASK_STATES, f"I4: {place}"
                self.ready.discard(place)
            case act.DispatchTask(task=task):
                assert ledger.tasks[task.place] == task
                assert task.state is TaskState.PENDING
                assert not task.held
                assert task.place not in self.leases, f"I2: {task.place} is leased"
                assert task.place not in self.ready, f"I6: {task.place} is ready twice"
                self.ready.add(task.place)
            case act.SetTimer(timer=timer):
                assert (timer.place, timer.kind) not in ledger.timers, f"I6: {timer}"
                assert timer.version == seq
                assert timer.due_at >= self.snapshot.at
                if timer.kind is TimerKind.BACKOFF:
                    self._check_backoff(timer, event)
            case act.OpenWait(wait=wait):
                assert wait.place not in ledger.waits, f"I6: {wait}"
                assert (wait.version, wait.opened_at) == (seq, self.snapshot.at)
            case act.UseMessage(message_id=message_id):
                assert message_id not in self._used, f"I8: {message_id} is used twice"
                self._used.add(message_id)
                found = [m for m in self.mailbox if m.message_id == message_id]
                assert found, f"{message_id} is not in the mailbox"
                self.mailbox.remove(found[0])
            case act.PutPayload(key=key, value=value):
                assert (key, seq) not in self.payloads, f"{key} is put twice by one event"
                assert value.text is not None
                assert value.size == len(value.text.encode())
                self.payloads[key, seq] = value
            case act.HoldTasks():
                self.ready.clear()
            case act.CloseRun():
                self.ready.clear()
            case act.SettleRun():
                self._settle(action)
            case act.ClearTimers() | act.CloseWait() | act.ReleaseTasks():
                pass
        ledger.apply([action])
        if isinstance(action, act.ReleaseTasks):
            self.ready |= {
                place
                for place, task in ledger.tasks.items()
                if task.state is TaskState.PENDING and place not in self.leases
            }

    def _settle(self, action: act.SettleRun) -> None:
        assert self.settled is None, "a run settles once"
        self.settled = action
        assert action.state is self.snapshot.state
        assert action.at == self.snapshot.at
        assert (action.output is None) or action.state is RunState.SUCCESS
        assert codec.decode_output(codec.encode_output(action.output)) == action.output
        for key in keys_of(action.output):
            assert self._newest(key) is not None, f"{key} of the run's output was never put"
        assert (action.error is None) == (
            action.state is RunState.SUCCESS or self._ended_as_cancelled()
        )
        if action.error is not None:
            assert self._newest(action.error) is not None

    def _ended_as_cancelled(self) -> bool:
        """An `end` with `as: cancelled` is no error."""
        return (
            self.snapshot.state is RunState.CANCELLED
            and not isinstance(self.events[-1] if self.events else None, CancelRequested)
            and any(
                node.type is NodeType.END and self.letter(node.id) == "s"
                for node in self.graph.definition.nodes
            )
        )

    # -- checking -----------------------------------------------------------------------------------------------

    def _check_numbers(self, before: Snapshot, event: Event) -> None:
        after = self.snapshot
        assert after.seq == before.seq + 1 == len(self.history) + 1, "I5: numbered without gaps"
        assert after.at == max(before.at, event.at)
        if before.state in FINAL_RUN_STATES:
            assert isinstance(event, AttemptSucceeded), f"I4: {event} after the end"
            same = replace(after, seq=before.seq, at=before.at)
            assert same == before, "I4: a final run changed"

    def _check_ends(self, before: Snapshot, found: Decision) -> None:
        """Every node that is final now and was not before ended in this decision, with this letter as its last."""
        last = {node: letter.value for node, letter in found.ends}
        for node, (was, now) in enumerate(zip(before.nodes.decode(), self.letters, strict=True)):
            if now in FINAL:
                assert last.get(node, was if was in FINAL else None) == now, self.place(
                    self.graph.definition.nodes[node].id
                )

    def _check_moves(self, before: Snapshot, turn: WatchedTurn) -> None:
        assert turn.backs <= BACKS_MAX, "T7"
        for place in turn.began:
            assert place not in self._began, f"{place} was activated twice"
            self._began.add(place)
        for decided in turn.decided:
            assert decided not in self._decided, f"edge {decided} was decided twice in a pass"
            self._decided.add(decided)
        for node, place in turn.unsatisfied:
            if place in turn.postponed:
                continue
            told = turn.fresh[PayloadKey(place, PayloadKind.ERROR)].text
            assert told is not None
            assert '"join_unsatisfied"' in told, f"J2: {self.graph.definition.nodes[node].id}"

    def _check_update(self, old: Task, new: Task, event: Event) -> None:
        assert new.attempt in (old.attempt, old.attempt + 1), f"I3: {old} -> {new}"
        assert new.lost in (old.lost, old.lost + 1)
        assert old.lost == new.lost or isinstance(event, LeaseExpired)
        assert new.lost <= LOST_MAX
        policy = self._policy(new)
        assert new.attempt - new.lost <= policy.max_attempts, f"I13: {new}"
        if old.state in FINAL_TASK_STATES:
            assert old.state is TaskState.CANCELLED, f"I4: {old} -> {new}"
            assert new == replace(old, ended_lease=new.ended_lease), f"I4: {old} -> {new}"
            return
        moves = {(m.source, m.event, m.target) for m in TASK_MOVES}
        assert (old.state, type(event).__name__, new.state) in moves, f"{old.state} -> {new.state}"

    def _policy(self, task: Task) -> RetryPolicy:
        detail = self.graph.definition.nodes[task.node].detail
        assert isinstance(detail, Work)
        return detail.retry

    def _check_backoff(self, timer: Timer, event: Event) -> None:
        """I13: never shorter than configured, never above the cap unless the other side asked for it."""
        assert isinstance(event, AttemptFailed | DeadlinePassed)
        task = self.ledger.tasks[timer.place]
        policy = self._policy(task)
        failures = task.attempt - 1 - task.lost
        whole = policy.initial_us
        for _ in range(failures - 1):
            whole = min(policy.max_us, int(whole * policy.factor))
        whole = min(policy.max_us, whole)
        low, high = {
            Jitter.NONE: (whole, whole),
            Jitter.EQUAL: (whole // 2, whole),
            Jitter.FULL: (0, whole),
        }[policy.jitter]
        asked = event.retry_after_us if isinstance(event, AttemptFailed) else 0
        delay = timer.due_at - self.snapshot.at
        assert max(low, asked) <= delay <= max(high, asked), f"I13: {delay} not in {low}..{high}"

    def _check_fold(self) -> None:
        """I5, step by step: state and event through the codec, outcomes from the record, nothing else."""
        at, parts = self.history[-1]
        event, outcomes = codec.decode_event(parts.kind, at, parts.place, parts.data)
        recorded = Recorded(outcomes)
        base = self._through_codec(self._folded)
        assert base == self._folded
        found = decide(self.graph, base, self._folded_ledger.rows(), event, recorded)
        assert isinstance(found, Decision)
        assert found.rejected is None
        recorded.finish()
        self._folded = found.snapshot
        self._folded_ledger.apply(found.actions)
        assert found.snapshot == self.snapshot, "I5"
        assert codec.encode_snapshot(found.snapshot) == codec.encode_snapshot(self.snapshot)
        assert _without_keys(self._folded_ledger) == _without_keys(self.ledger), "I5"

    @staticmethod
    def _through_codec(snapshot: Snapshot) -> Snapshot:
        return codec.decode_snapshot(
            snapshot.run_id,
            snapshot.seq,
            snapshot.at,
            snapshot.state.value,
            int(snapshot.paused),
            *codec.encode_snapshot(snapshot),
        )

    def _check_state(self) -> None:
        letters, ledger = self.letters, self.ledger
        assert self.snapshot.live == sum(letter not in FINAL for letter in letters), "live"
        open_tasks = {p: t for p, t in ledger.tasks.items() if t.state not in FINAL_TASK_STATES}
        if self.is_final:
            assert self.snapshot.live == 0, "a final run has nodes that are not"
            assert self.settled is not None
            assert not open_tasks
            assert not ledger.timers
            assert not ledger.waits
            assert not self.ready
            return
        assert self.settled is None
        if self.state is RunState.PENDING:
            assert set(letters) == {"."}
            assert not ledger.tasks
            return
        assert self.state is RunState.RUNNING
        wrong = oracle.restless(self.graph, letters, self.edges)
        assert not wrong, wrong
        active = {
            self.place(n.id): i
            for i, n in enumerate(self.graph.definition.nodes)
            if letters[i] == "a"
        }
        assert active, "the run waits for nothing"
        causes: set[Place] = set()
        for place, node in active.items():
            self._check_cause(place, node, open_tasks)
            causes.add(place)
        for place in {*open_tasks, *ledger.waits}:
            assert place in causes, f"I6: {place} belongs to no active node"
        for place, kind in ledger.timers:
            assert place in causes or kind is TimerKind.RUN, f"I6: timer {place} {kind}"
        for place, task in open_tasks.items():
            assert task.held == self.snapshot.paused
            offered = place in self.ready or place in self.leases
            assert offered == (
                task.state is TaskState.PENDING and (not task.held or place in self.leases)
            ), task
        assert not (self.snapshot.paused and self.ready), "C6"

    def _check_cause(self, place: Place, node: int, open_tasks: Mapping[Place, Task]) -> None:
        """Each active node waits for exactly one named thing, and has the clocks that bound it."""
        timers = {kind for at, kind in self.ledger.timers if at == place}
        if timers == {TimerKind.CONTINUE}:
            assert place not in open_tasks
            assert place not in self.ledger.waits
            return
        it = self.graph.definition.nodes[node]
        if it.type in WORKER_TYPES:
            task = open_tasks[place]
            assert task.node == node
            expected = {TimerKind.TOTAL} if task.total_until is not None else set()
            if task.state is TaskState.RETRY:
                expected.add(TimerKind.BACKOFF)
            assert timers == expected, f"I6: {place} has timers {timers}"
        elif it.type is NodeType.WAIT:
            assert timers == {TimerKind.WAIT}
        else:
            assert it.type is NodeType.WAIT_FOR_EVENT, f"{place} is active and waits for nothing"
            assert place in self.ledger.waits
            assert timers <= {TimerKind.EVENT}

    # -- small things -------------------------------------------------------------------------------------------

    def _lease(self, name: str) -> Lease:
        place = self.place(name)
        return self.leases[place] if place in self.leases else self.grant(name)

    def _name(self, kind: str) -> str:
        self._numbers[kind] += 1
        return f"{kind}-{self._numbers[kind]}"


def _without_keys(ledger: Ledger) -> tuple[object, ...]:
    """Rows to compare; the key of a wait is unknown while folding."""
    waits = {place: replace(wait, key=None) for place, wait in ledger.waits.items()}
    return ledger.tasks, ledger.timers, waits


def repeat_of(events: Iterable[Event]) -> list[AttemptEvent | TimerFired | EventReceived]:
    """Those events that must be rejected when they come a second time."""
    return [
        event
        for event in events
        if isinstance(
            event,
            AttemptSucceeded
            | AttemptFailed
            | LeaseExpired
            | DeadlinePassed
            | TimerFired
            | EventReceived,
        )
    ]

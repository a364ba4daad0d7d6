"""Random fates: what happens to a run and its children, in which order, and what disturbs them.

What attempts yield is a seed's; in which order things happen is a `random.Random`'s. So two runs of one seed meet the
same work in another order.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from zlib import crc32

from tests.support.flows import Taste
from tests.support.world import Answer, Lease, Notice, Script, World, repeat_of

from tenuto.machine.events import (
    CancelRequested,
    ChildSettled,
    Deadline,
    Event,
    Rejection,
    TimerKind,
)
from tenuto.machine.snapshot import Timer
from tenuto.model.expressions import Fault, Scope
from tenuto.model.graph import Graph
from tenuto.model.ids import LeaseId, Place, RunId, parts_of, with_epoch
from tenuto.model.instants import SECOND_US
from tenuto.model.states import RunState, TaskState
from tenuto.ports.store import NoticeKind

FAULT = Fault("expression_error", "no such key")
PAGES = 3
"""Pages of a paged list."""


def _roll(seed: int, text: str) -> int:
    """0..99, the same in every process and in every order."""
    return crc32(f"{seed}/{text}".encode()) % 100


class Answers(dict[str, Answer]):
    """Answers that depend on the expression and on which call of it this is, never on the order of events.

    What the first letter of an expression's text says: `w` a condition, `m` and `f` of an event, `r` of a retry rule,
    `l` a list, `v`, `x`, `s`, `o` values.
    """

    def __init__(self, seed: int, faults: int) -> None:
        super().__init__()
        self._seed, self._faults = seed, faults

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and text.lstrip("i0123456789")[:1] in set("wmfrlvxso")

    def __missing__(self, text: str) -> Answer:
        return partial(self._answer, text)

    def _answer(self, text: str, scope: Scope, call: int) -> bool | str | int | Fault:
        which = f"{scope.index}/{scope.iteration}" if scope.item is not None else str(call)
        rolled = _roll(self._seed, f"{text}/{which}")
        if rolled < self._faults:
            return FAULT
        match text.lstrip("i0123456789")[0]:
            case "w" | "m" | "r":
                return rolled % 2 == 0
            case "f":
                return rolled % 4 == 0
            case "l":
                return rolled % 6
            case _:
                return f'"{text}"'


def script_of(graph: Graph, seed: int, taste: Taste) -> Script:
    """Answers for a graph and all that it calls."""
    return Answers(seed, taste.faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """How often, in a hundred steps, something disturbs a run."""

    repeats: int = 15
    strays: int = 15
    losses: int = 10
    deadlines: int = 10
    pauses: int = 4
    cancels: int = 1
    late: int = 30
    failures: int = 30
    """Of a hundred attempts."""
    terminates: int = 0
    skips: int = 0
    retries: int = 0
    """Of a hundred runs that failed."""
    replays: int = 0


CALM = Trouble(repeats=0, strays=0, losses=0, deadlines=0, pauses=0, cancels=0, late=0)
STEPS_MAX = 4000
RETRIES_MAX = 3


def drive(world: World, rng: Random, seed: int, trouble: Trouble) -> World:
    """Carry a run and its children to their ends, in an order that `rng` chooses; what attempts yield is `seed`'s."""
    driver = _Driver(world, rng, seed, trouble)
    if trouble.pauses and driver.chance(trouble.pauses):
        world.pause()
    world.start()
    driver.to_the_end()
    for _ in range(RETRIES_MAX):
        if not driver.go_on_after_the_end():
            break
        driver.to_the_end()
    for one in world.family.worlds.values():
        one.check_history()
    return world


@dataclass(slots=True)
class _Driver:
    root: World
    rng: Random
    seed: int
    trouble: Trouble

    @property
    def worlds(self) -> list[World]:
        return list(self.root.family.worlds.values())

    def chance(self, percent: int) -> bool:
        return percent > 0 and self.rng.randrange(100) < percent

    def to_the_end(self) -> None:
        for _ in range(STEPS_MAX):
            if self.is_over():
                break
            self.step()
        letters = [f"{w.path}: {w.state} {w.letters}" for w in self.worlds if not w.is_final]
        assert self.is_over(), f"still {letters} after {STEPS_MAX} steps"
        for world in self.worlds:
            assert not world.open_children(), f"{world.path} is final and has an open child"
            self.disturb(world)
            self.late_success(world)

    def is_over(self) -> bool:
        return all(w.is_final for w in self.worlds) and not self.root.family.notices

    # -- steps --------------------------------------------------------------------------------------------------

    def step(self) -> None:
        trouble = self.trouble
        world = self.rng.choice(self.worlds)
        self.disturb(world)
        if self.chance(trouble.late):
            self.late_success(world)
        for chance, ask in (
            (trouble.cancels, self.cancel),
            (trouble.terminates, World.terminate),
            (trouble.skips, self.skip),
            (trouble.pauses, self.toggle),
        ):
            if not world.is_final and self.chance(chance):
                ask(world)
        if self.is_over():
            return
        self.root.now += self.rng.choice((0, 1, 1000))
        moves = [move for one in self.worlds for move in self.moves(one)]
        moves += [partial(self.deliver, n) for n in self.root.family.deliverable()] * 2
        if not moves:
            self.unblock()
            return
        self.rng.choice(moves)()

    def moves(self, world: World) -> list[Callable[[], object]]:
        found: list[Callable[[], object]] = []
        found += [partial(world.grant, p) for p in sorted(world.ready) if p not in world.leases]
        for place, lease in sorted(world.leases.items()):
            if world.ledger.tasks[place].state is TaskState.PENDING:
                found += [partial(self.report, world, lease)] * 2
                if self.chance(self.trouble.losses):
                    found.append(partial(world.lose, place))
                    found.append(partial(world.release, place))
                if self.chance(self.trouble.deadlines):
                    found.append(partial(self.deadline, world, lease))
            else:
                found.append(partial(world.lapse, place))
        due = [t for t in world.ledger.timers.values() if t.due_at <= world.now]
        found += [partial(self.fire, world, t) for t in due if self.may_fire(world, t)]
        matched = world.match()
        if matched is not None:
            found.append(partial(world.offer, matched))
        for wait in world.ledger.waits.values():
            found.append(partial(world.put_message, wait.event, wait.key or ""))
            if (wait.place, TimerKind.HEARTBEAT) in world.ledger.timers and self.chance(30):
                found.append(partial(world.heartbeat, wait.place))
        return found

    def may_fire(self, world: World, timer: Timer) -> bool:
        return timer.kind is not TimerKind.DRAIN or not world.leases

    def fire(self, world: World, timer: Timer) -> None:
        if timer.kind is TimerKind.DRAIN:
            world.drained()
        else:
            world.fire(timer.place, timer.kind)

    def deliver(self, notice: Notice) -> None:
        """A notice is decided; now and then it is read twice, and the second time changes nothing."""
        family = self.root.family
        family.deliver(notice)
        telling = notice.kind in (NoticeKind.START, NoticeKind.SETTLED)
        if telling and self.chance(self.trouble.repeats):
            parent = family.worlds.get(notice.target)
            if parent is not None and self.is_open(parent, notice.place, notice.sender):
                return  # it was re-opened by the first time
            written = dict(family.notices)
            again = family.deliver(notice)
            assert again is None or again.rejected is not None, notice
            family.notices.clear()
            family.notices.update(written)

    def is_open(self, parent: World, place: Place, child: RunId) -> bool:
        return parent.open_children().get(place) == child

    def unblock(self) -> None:
        """Nothing can happen by itself: the clock goes on, or a paused run is resumed."""
        timers = [
            (t.due_at, world.path, t.place, t)
            for world in self.worlds
            for t in world.ledger.timers.values()
            if self.may_fire(world, t)
        ]
        paused = [w for w in self.worlds if w.snapshot.paused and not w.is_final]
        free = [w for w in paused if not w.snapshot.parent_paused]
        if free and (not timers or self.chance(50)):
            self.rng.choice(free).resume(freeze=self.chance(30))
            return
        assert timers, f"nothing can happen any more: {[w.letters for w in self.worlds]}"
        self.root.now = max(self.root.now, min(timers)[0])

    # -- what somebody asks for ---------------------------------------------------------------------------------

    def cancel(self, world: World) -> None:
        """One that comes when the outcome is decided is refused."""
        if world.state is RunState.RUNNING:
            world.cancel("enough")
        else:
            assert world.send(CancelRequested(at=world.now)).rejected is not None

    def toggle(self, world: World) -> None:
        if not world.snapshot.paused:
            world.pause()
        elif not world.snapshot.parent_paused:
            world.resume(freeze=self.chance(30))

    def skip(self, world: World) -> None:
        active = [n.id for n in world.graph.definition.nodes if world.letter(n.id) == "a"]
        if world.state is RunState.RUNNING and active:
            world.skip(self.rng.choice(active), '"skipped"')

    def go_on_after_the_end(self) -> bool:
        """Retry or replay a run that is over. False: it stays so."""
        world = self.root
        if self.chance(self.trouble.retries):
            request = world.retry_request()
            if not world.allows_retry():
                assert world.send(request).rejected is Rejection.NOT_RETRYABLE
                return False
            if self.chance(30):
                self.skip_at_retry(world)
            else:
                world.accept(request)
            return True
        if self.chance(self.trouble.replays):
            return self.replay(world)
        return False

    def skip_at_retry(self, world: World) -> None:
        first = world.checking.retried_first()
        node = world.graph.definition.nodes[self.rng.choice(sorted(first))]
        decision = world.send(world.retry_request(node.id, '"skipped"'))
        if decision.rejected is not None:
            assert decision.rejected is Rejection.NOT_RETRYABLE
            world.retry()

    def replay(self, world: World) -> bool:
        """A new run that keeps a part of what this one did."""
        node = self.rng.choice(world.graph.definition.nodes)
        copy, event = world.copy_for(node.id, run_id=world.numbered(f"{world.run_id[:8]}-replay"))
        decision = copy.send(event)
        if decision.rejected is not None:
            del world.family.worlds[copy.run_id]
            return False
        self.root = copy
        return True

    # -- what workers do ----------------------------------------------------------------------------------------

    def report(self, world: World, lease: Lease) -> None:
        task = world.ledger.tasks[lease.place]
        plain = with_epoch(lease.place, 1)
        name = f"{world.path}/{plain}/{lease.attempt - task.lost}"
        if _roll(self.seed, name) < self.trouble.failures:
            retryable = _roll(self.seed, f"{name}/retryable") < 90
            after = 2 * SECOND_US if _roll(self.seed, f"{name}/after") < 20 else 0
            code = "bad" if _roll(self.seed, f"{name}/code") < 20 else "boom"
            event = world.failure_of(lease, code)
            world.draw = self.rng.randrange(100) / 100
            world.accept(replace(event, retryable=retryable, retry_after_us=after))
        else:
            world.accept(world.success_of(lease, self.output_of(world, lease)))

    def output_of(self, world: World, lease: Lease) -> str:
        """A page of a list where one is asked for; now and then what is none."""
        parts = parts_of(lease.place)
        if parts.page is None:
            return f'"{parts.owner}"'
        rolled = _roll(self.seed, f"{world.path}/{with_epoch(lease.place, 1)}")
        if rolled < 4:
            return '"no page"'
        following = f"{parts.page + 1}" if parts.page < rolled % PAGES else None
        return json.dumps({"items": list(range(rolled % 4)), "next": following})

    def deadline(self, world: World, lease: Lease) -> None:
        task = world.ledger.tasks[lease.place]
        if task.timeout_us is not None:
            world.accept(world.deadline_of(lease.place, Deadline.ATTEMPT, lease))
        elif task.heartbeat_us is not None:
            world.accept(world.deadline_of(lease.place, Deadline.HEARTBEAT, lease))

    # -- what changes nothing -----------------------------------------------------------------------------------

    def disturb(self, world: World) -> None:
        if self.chance(self.trouble.repeats) and (old := repeat_of(world.events)):
            event = self.rng.choice(old)
            if isinstance(event, ChildSettled) and self.is_open(world, event.place, event.child):
                return  # it was re-opened since
            before = world.snapshot
            assert world.send(replace(event, at=world.now)).rejected is not None, event
            assert world.snapshot is before
        if self.chance(self.trouble.strays):
            self.stray(world)
        if self.chance(self.trouble.deadlines):
            self.queue_deadline(world)

    def stray(self, world: World) -> None:
        """Reports and firings about what is not, not yet, or in another version."""
        nodes = world.graph.definition.nodes
        place = world.place(self.rng.choice(nodes).id)
        task = world.ledger.tasks.get(place)
        lease = Lease(
            place,
            task.attempt + 1 if task is not None else 1,
            LeaseId("lease-of-nobody"),
            world.now,
        )
        kind = self.rng.choice(tuple(TimerKind))
        timer = world.ledger.timers.get((place, kind))
        version = timer.version + 1 if timer is not None else world.snapshot.seq
        wait = world.ledger.waits.get(place)
        nobody = RunId("01980000-0000-7000-8000-00000000dead")
        events: list[Event] = [
            world.success_of(lease),
            world.failure_of(lease),
            world.loss_of(lease),
            world.firing_of(Timer(place, kind, world.now, version)),
            world.settled_event(place, nobody, RunState.SUCCESS, "1", "null"),
        ]
        if wait is not None:
            beat = replace(world.beat_of(wait), version=wait.version + 1)
            assert world.send(beat).rejected is not None
            message = world.mailbox[0] if world.mailbox else None
            if message is not None:
                late = replace(world.receipt_of(wait, message), version=wait.version + 1)
                assert world.send(late).rejected is not None
        for event in events:
            assert world.send(event).rejected is not None, event

    def queue_deadline(self, world: World) -> None:
        for place in sorted(world.ready - world.leases.keys()):
            task = world.ledger.tasks[place]
            if task.queue_until is not None:
                early = world.deadline_of(place, Deadline.QUEUE, None)
                if task.queue_until > max(world.now, world.snapshot.at):
                    assert world.send(early).rejected is not None
                elif not world.is_final:
                    world.accept(early)
                    return

    def late_success(self, world: World) -> None:
        """F8: a success under the live lease of a cancelled task changes neither node nor run."""
        for place, lease in sorted(world.leases.items()):
            task = world.ledger.tasks[place]
            if task.state is TaskState.CANCELLED and self.chance(max(self.trouble.late, 50)):
                letters, edges = world.letters, world.edges
                assert world.send(world.failure_of(lease)).rejected is not None
                assert world.send(world.loss_of(lease)).rejected is not None
                world.accept(world.success_of(lease))
                assert (world.letters, world.edges) == (letters, edges)
                assert place not in world.leases
                return

"""What goes wrong in a campaign: one kind of accident each, drawn by a seed, healed by itself after a while.

A fault returns what it did in words, and how to heal it, if that is not at once. `Faults` deals them out.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from tests.support.backing.proxy import Way
from tests.support.chaos.cluster import Cluster, Member, Server
from tests.support.chaos.liar import lie

from tenuto.ports.gateway import Verdict

Heal = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Accident:
    """What was done. `heals_after`: seconds until `heal` is to be called."""

    kind: str
    what: str
    heal: Heal | None = None
    heals_after: float = 0.0
    victim: str = ""
    """Whose name it is that must not have another accident meanwhile."""


@dataclass(slots=True)
class Scene:
    """The cluster as the faults see it: `busy` are the names of those that have an accident just now."""

    cluster: Cluster
    dice: random.Random
    lease_s: float
    busy: set[str] = field(default_factory=set)
    believed: list[Verdict] = field(default_factory=list)
    """What was said of late reports, other than that they are stale."""

    def server(self) -> Server | None:
        """A server that is well, if another one is too."""
        well = [each for each in self.cluster.servers if each.name not in self.busy]
        return self.dice.choice(well) if len(well) > 1 else None

    def worker(self) -> Member | None:
        """A worker that is well, if another one is too."""
        well = [each for each in self.cluster.workers if each.name not in self.busy]
        return self.dice.choice(well) if len(well) > 1 else None

    def about(self, low: float, high: float) -> float:
        return self.dice.uniform(low, high)


Fault = Callable[[Scene], Accident | None]


# -- processes --------------------------------------------------------------------------------------------------------


def kill_server(scene: Scene) -> Accident | None:
    server = scene.server()
    if server is None:
        return None
    server.kill()
    return Accident("kill_server", server.name, server.start, scene.about(0.2, 2), server.name)


def drain_server(scene: Scene) -> Accident | None:
    server = scene.server()
    if server is None:
        return None
    code = server.drain(15)
    return Accident(
        "drain_server", f"{server.name}, code {code}", server.start, scene.about(0, 1), server.name
    )


def freeze_server(scene: Scene) -> Accident | None:
    server = scene.server()
    if server is None:
        return None
    server.stop()
    for_s = scene.about(0.5, scene.lease_s * 1.5)
    return Accident(
        "freeze_server", f"{server.name} for {for_s:.1f} s", server.resume, for_s, server.name
    )


def kill_worker(scene: Scene) -> Accident | None:
    worker = scene.worker()
    if worker is None:
        return None
    worker.kill()
    return Accident("kill_worker", worker.name, worker.start, scene.about(0.2, 2), worker.name)


def kill_task_process(scene: Scene) -> Accident | None:
    worker = scene.worker()
    if worker is None or not worker.alive:
        return None
    below = task_processes(scene, worker)
    if not below:
        return None
    with suppress(ProcessLookupError):
        os.kill(scene.dice.choice(below), signal.SIGKILL)
    return Accident("kill_task_process", f"of {worker.name}")


def freeze_worker(scene: Scene) -> Accident | None:
    worker = scene.worker()
    if worker is None:
        return None
    worker.stop()
    for_s = scene.about(0.5, scene.lease_s * 1.7)
    return Accident(
        "freeze_worker", f"{worker.name} for {for_s:.1f} s", worker.resume, for_s, worker.name
    )


def drain_worker(scene: Scene) -> Accident | None:
    worker = scene.worker()
    if worker is None:
        return None
    code = worker.drain(15)
    return Accident(
        "drain_worker", f"{worker.name}, code {code}", worker.start, scene.about(0, 1), worker.name
    )


# -- PostgreSQL -------------------------------------------------------------------------------------------------------


def restart_postgres(scene: Scene) -> Accident | None:
    if "postgres" in scene.busy:
        return None
    mode = "immediate" if scene.dice.random() < 0.5 else "fast"
    scene.cluster.postgres.restart(mode)  # type: ignore[arg-type]
    return Accident("restart_postgres", mode)


def freeze_postgres(scene: Scene) -> Accident | None:
    if "postgres" in scene.busy:
        return None
    postgres = scene.cluster.postgres
    postgres.pause()
    return Accident("freeze_postgres", "", postgres.resume, scene.about(0.3, 2), "postgres")


def cut_database(scene: Scene) -> Accident | None:
    server = scene.server()
    if server is None or server.database is None:
        return None
    return Accident("cut_database", f"{server.database.cut()} links of {server.name}")


def cut_commit(scene: Scene) -> Accident | None:
    server = scene.server()
    if server is None or server.database is None:
        return None
    after = scene.dice.random() < 0.5
    times = scene.dice.randint(1, 3)
    server.database.cut_at_commit(after=after, times=times)
    how = "after" if after else "before"
    return Accident("cut_commit", f"{times} of {server.name}, {how} it arrived")


def lose_database(scene: Scene) -> Accident | None:
    """Packets to and from the database vanish."""
    server = scene.server()
    if server is None or server.database is None:
        return None
    way = scene.dice.choice([Way.UP, Way.DOWN, Way.BOTH])
    server.database.black_hole(way)
    for_s = scene.about(0.5, scene.lease_s)
    return Accident(
        "lose_database",
        f"{server.name} for {for_s:.1f} s",
        server.database.heal,
        for_s,
        server.name,
    )


def lose_notify(scene: Scene) -> Accident | None:
    """Notifications vanish; nothing else does."""
    server = scene.server()
    if server is None or server.listen is None:
        return None
    if scene.dice.random() < 0.5:
        return Accident("lose_notify", f"{server.listen.cut()} listeners of {server.name}")
    server.listen.black_hole(Way.DOWN)
    for_s = scene.about(1, 4)
    return Accident("lose_notify", f"{server.name} for {for_s:.1f} s", server.listen.heal, for_s)


# -- Redis ------------------------------------------------------------------------------------------------------------


def flush_redis(scene: Scene) -> Accident | None:
    if scene.cluster.redis is None or "redis" in scene.busy:
        return None
    scene.cluster.redis.flush()
    return Accident("flush_redis", "")


def restart_redis(scene: Scene) -> Accident | None:
    redis = scene.cluster.redis
    if redis is None or "redis" in scene.busy:
        return None
    redis.stop()
    return Accident("restart_redis", "empty", redis.start, scene.about(0, 3), "redis")


def freeze_redis(scene: Scene) -> Accident | None:
    redis = scene.cluster.redis
    if redis is None or "redis" in scene.busy:
        return None
    redis.pause()
    return Accident("freeze_redis", "", redis.resume, scene.about(0.3, 4), "redis")


def cut_redis(scene: Scene) -> Accident | None:
    server = scene.server()
    if server is None or server.redis is None:
        return None
    return Accident("cut_redis", f"{server.redis.cut()} links of {server.name}")


# -- workers' streams -------------------------------------------------------------------------------------------------


def cut_streams(scene: Scene) -> Accident | None:
    server = scene.server()
    if server is None or server.gate is None:
        return None
    return Accident("cut_streams", f"{server.gate.cut()} of {server.name}")


def lose_streams(scene: Scene) -> Accident | None:
    """Packets of workers vanish, one way or both."""
    server = scene.server()
    if server is None or server.gate is None:
        return None
    way = scene.dice.choice([Way.UP, Way.DOWN, Way.BOTH])
    server.gate.black_hole(way)
    for_s = scene.about(0.5, scene.lease_s * 1.5)
    return Accident(
        "lose_streams",
        f"{way.name} of {server.name} for {for_s:.1f} s",
        server.gate.heal,
        for_s,
        server.name,
    )


def report_late(scene: Scene) -> Accident | None:
    """What a worker gave back it reports after all: at once, or when somebody else has done it."""
    server = scene.server()
    if server is None or not server.alive:
        return None
    later_s = scene.dice.choice([0.0, 0.0, 1.0])
    said = lie(f"127.0.0.1:{server.grpc_port}", scene.cluster.plan.queues, later_s)
    scene.believed += [verdict for verdict in said if verdict is not Verdict.STALE]
    return Accident("report_late", f"{len(said)} tasks, after {later_s:g} s")


KINDS: tuple[Fault, ...] = (
    kill_server,
    drain_server,
    freeze_server,
    kill_worker,
    kill_task_process,
    freeze_worker,
    drain_worker,
    restart_postgres,
    freeze_postgres,
    cut_database,
    cut_commit,
    lose_database,
    lose_notify,
    flush_redis,
    restart_redis,
    freeze_redis,
    cut_redis,
    cut_streams,
    lose_streams,
    report_late,
)


class Faults:
    """Deals accidents: every kind once before any comes again, in an order of the seed's."""

    def __init__(self, cluster: Cluster, seed: int, lease_s: float) -> None:
        self.scene = Scene(cluster, random.Random(seed), lease_s)
        self.done: list[tuple[float, Accident]] = []
        self._began = time.monotonic()
        self._deck: list[Fault] = []
        self._healing: list[tuple[float, Accident]] = []

    def strike(self) -> Accident:
        """The next accident."""
        while True:
            if not self._deck:
                self._deck = list(KINDS)
                self.scene.dice.shuffle(self._deck)
            accident = self._deck.pop()(self.scene)
            if accident is not None:
                break
        now = time.monotonic()
        self.done.append((now - self._began, accident))
        if accident.heal is not None:
            self._healing.append((now + accident.heals_after, accident))
            if accident.victim:
                self.scene.busy.add(accident.victim)
        return accident

    def heal(self, *, all: bool = False) -> None:
        """Heal what is due, or everything."""
        now = time.monotonic()
        for at, accident in [*self._healing]:
            if all or at <= now:
                assert accident.heal is not None
                accident.heal()
                self._healing.remove((at, accident))
                self.scene.busy.discard(accident.victim)

    def pause_s(self) -> float:
        """Until the next accident."""
        return self.scene.about(1, 3)

    def counts(self) -> dict[str, int]:
        """How often each kind happened."""
        found: dict[str, int] = {}
        for _, accident in self.done:
            found[accident.kind] = found.get(accident.kind, 0) + 1
        return dict(sorted(found.items()))


def task_processes(scene: Scene, worker: Member) -> list[int]:
    """Processes below a worker that have executed tasks: their journals are named after them."""
    wrote = {int(path.name.partition("-")[0]) for path in scene.cluster.journal.glob("*.jsonl")}
    return sorted(wrote.intersection(worker.children()))

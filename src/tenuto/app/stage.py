"""What a test may put around the parts of an engine, and what it may then reach of them. No behaviour of its own.

`tenuto.testing` is its only user; the engine that it drives is the same as everybody's but for these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tenuto.adapters.sqlite.engine import SqliteEngine
from tenuto.coordinator.timers import Timers
from tenuto.ports.clock import Alarms, Clock
from tenuto.ports.executor import Executor
from tenuto.ports.gateway import TaskGateway
from tenuto.ports.store import Store
from tenuto.worker.runner import Runner


class Stage(Protocol):
    """Time and chance of an engine, and what stands between it and its worker.

    Attributes:
        clock: the store's time.
        alarms: what the worker counts leases and attempts on.
        seed: of every draw.
    """

    @property
    def clock(self) -> Clock: ...
    @property
    def alarms(self) -> Alarms: ...
    @property
    def seed(self) -> int: ...

    def names(self) -> tuple[str, ...]:
        """Tasks that the worker knows beside those of the registry; only ever more."""
        ...

    def gateway(self, gateway: TaskGateway) -> TaskGateway:
        """What the worker talks to."""
        ...

    def executors(self, executors: Mapping[str, Executor]) -> Mapping[str, Executor]:
        """What the worker works with."""
        ...

    def enter(self, parts: Parts) -> None:
        """The engine is built; called on its loop before anything runs."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Parts of a running engine; they belong to its loop."""

    database: SqliteEngine
    store: Store
    timers: Timers
    runner: Runner
    learn: Callable[[], None]
    """Look whether `Stage.names` has grown; the engine does by itself at each request from outside."""

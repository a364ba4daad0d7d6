"""What the SQL store asks of a database: run a job in one transaction. No SQL, no driver.

A job is a generator. It yields a group of steps (statement, parameters), which are carried out in order, and is sent
the first row of the last one, or None. So the same job may be driven by a thread or by an event loop, and an engine may
send a group together. Jobs have no effect but their steps, and may be driven again from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeVar

from tenuto.adapters.sql.dialect import Dialect

T = TypeVar("T")

Param = str | int | None
Row = Sequence[Any]
Step = tuple[str, tuple[Param, ...]]
Steps = Generator[Sequence[Step], Row | None, T]
Job = Callable[[], Steps[T]]


class SqlEngine(Protocol):
    """Runs jobs. Raises Unavailable (nothing was written) and InvariantViolated; nothing driver-typed escapes."""

    @property
    def dialect(self) -> Dialect: ...

    async def write(self, job: Job[T], *, durable: bool = True) -> T:
        """Run in a transaction; return after its commit. `durable` False: a power cut may lose it."""
        ...

    async def read(self, job: Job[T]) -> T:
        """Run in a transaction that sees all that was committed before the call."""
        ...

    def heard(self, now: int) -> None:
        """The database's time, as an answer that came just now said it; for a clock that goes by the database."""
        ...

    async def close(self) -> None: ...

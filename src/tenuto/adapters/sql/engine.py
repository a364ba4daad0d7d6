"""What the SQL store asks of a database: run a job in one transaction. No SQL, no driver.

A job is a generator. It yields a group of steps (statement, parameters), which are carried out in order, and is sent
the first row of the last one, or None. So the same job may be driven by a thread or by an event loop, and an engine may
send a group together. Jobs have no effect but their steps, and may be driven again from the start.

A job may say beforehand what it comes to if all is as hoped (`AtOnce`): locks, checks and writes as one group. Where a
statement is a journey to a server, an engine has that carried out as one call and one transaction; where something was
not as hoped the call has written nothing, and the job is driven as any other. So the group need not know what to do
then, only to notice. An engine within the process drives the job: it may not even look.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from tenuto.adapters.sql.dialect import Dialect

T = TypeVar("T")

Param = str | int | None
Row = Sequence[Any]
Step = tuple[str, tuple[Param, ...]]
Steps = Generator[Sequence[Step], Row | None, T]
Job = Callable[[], Steps[T]]


@dataclass(frozen=True, slots=True)
class AtOnce(Generic[T]):
    """A job that is done by one group of steps if all is as hoped.

    Attributes:
        group: steps in the order of a checked sequence (`adapters.sql.sequences`).
        read: the result, from the moment of the call and what its last statement answered.
        job: the long way, which settles everything. It may be driven whatever became of the group.
    """

    group: Sequence[Step]
    read: Callable[[Row], T]
    job: Job[T]

    def __call__(self) -> Steps[T]:
        return self.job()


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

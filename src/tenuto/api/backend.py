"""What REST needs of an engine, as one protocol. The composition root has the real one (`app.rest`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tenuto.coordinator.commands import Started, StartRequest
from tenuto.coordinator.mailbox import Message
from tenuto.coordinator.outlook import Outlook
from tenuto.dsl.compile import Loaded
from tenuto.model.graph import Graph
from tenuto.model.ids import RunId
from tenuto.ports.store import DefinitionRow, EventRow, NoteRow, RunRow
from tenuto.views.answers import Answers

T = TypeVar("T")


class Verbs(Protocol):
    """What may be asked for; `coordinator.commands.Commands` says what each does and raises."""

    async def deploy(self, graph: Graph, /) -> DefinitionRow: ...

    async def set_alias(self, name: str, alias: str, version: int, /) -> int | None: ...

    async def drop_alias(self, name: str, alias: str, /) -> None: ...

    async def delete_version(self, name: str, version: int, /) -> None: ...

    async def start(self, requests: Sequence[StartRequest], /) -> Sequence[Started]: ...

    async def cancel(self, run_id: RunId, reason: str = "", /) -> None: ...

    async def pause(self, run_id: RunId, /) -> None: ...

    async def resume(self, run_id: RunId, /, *, freeze_timers: bool = False) -> None: ...

    async def terminate(self, run_id: RunId, reason: str = "", /) -> None: ...

    async def skip(self, run_id: RunId, node: str, output: str, /) -> None: ...

    async def retry(
        self,
        run_id: RunId,
        /,
        *,
        skip: str | None = None,
        output: str | None = None,
        dry_run: bool = False,
    ) -> Outlook: ...

    async def replay(
        self,
        run_id: RunId,
        node: str,
        /,
        *,
        input: str | None = None,
        vars: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> tuple[RunId | None, Outlook]: ...

    async def heartbeat(self, event: str, key: str, /) -> int: ...

    async def send_event(
        self,
        event: str,
        key: str,
        payload: str,
        /,
        *,
        event_id: str | None = None,
        keep_us: int | None = None,
    ) -> bool: ...

    async def send_events(self, messages: Sequence[Message], /) -> Sequence[bool]: ...

    async def wait(self, run_id: RunId, /, *, fresh: bool = False) -> RunRow: ...

    def changes(self, wanted: Callable[[], bool], /) -> AsyncIterator[Sequence[RunId]]: ...

    def follow(self, run_id: RunId, /) -> AsyncIterator[EventRow | NoteRow]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What health says of the process.

    Attributes:
        database: the file's absolute path, `:memory:`, or a URL without its password.
        kind: what anybody may know of it; the same where who asks is trusted anyway.
    """

    version: str
    database: str
    kind: str
    pid: int
    started_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """How it stands with an engine, in words, each with its cause.

    Attributes:
        troubles: why no request should come here now.
        degraded: what does not work, and is made up for.
    """

    troubles: Sequence[str] = ()
    degraded: Sequence[str] = ()


class Backend(Protocol):
    """One engine, as REST sees it. All of it is used on one event loop."""

    @property
    def commands(self) -> Verbs: ...

    @property
    def about(self) -> About: ...

    @property
    def environment(self) -> Mapping[str, str]:
        """Where `TENUTO_VAR_<NAME>` is looked up."""
        ...

    async def readiness(self) -> Readiness:
        """How it stands beside what a read of the store shows."""
        ...

    async def read(self, verb: Callable[[Answers], Awaitable[T]]) -> T:
        """Run a reading verb where it holds nobody up, however much it has to work out."""
        ...

    async def glance(self, verb: Callable[[Answers], Awaitable[T]]) -> T:
        """Run a reading verb of a row or two, right here: crossing threads would cost more than the reading."""
        ...

    async def compile(self, text: str | bytes, file: str) -> Loaded:
        """Compile a definition, in a thread. `file` names it in findings."""
        ...

    def incident(self) -> str:
        """A new id, for what goes wrong unexpectedly: the answer and the log have it."""
        ...

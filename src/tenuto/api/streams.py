"""Server-sent events: what a run has been through and goes through, and which runs change.

No gap and no repeat: what is sent is always read from the store, in order, after what was sent before; news of commits
only say that there is something to read. So a slow client makes nothing grow: it is read for more slowly. Notes are the
exception: those of the past are read once, those that come are kept in a bounded queue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tenuto.api.backend import Backend
from tenuto.api.changes import Changes, encode
from tenuto.api.held import Held, beside
from tenuto.api.limits import Limits
from tenuto.model.errors import TenutoError
from tenuto.model.ids import RunId
from tenuto.model.states import FINAL_RUN_STATES
from tenuto.ports.store import NoteRow
from tenuto.runtime.logging import get_logger
from tenuto.views.documents import Document, note_document

HISTORY_PAGE = 500
NOTES_MAX = 1_000
RETRY_MS = 1_000
MERGE_S = 0.05
"""News of a run that come within it are told together."""

Emit = Callable[[bytes], Awaitable[None]]
Source = Callable[[Emit], Awaitable[None]]

_BEGIN = b"retry: %d\n\n" % RETRY_MS
_SILENCE = b": nothing new\n\n"
_log = get_logger("rest")


class EventStream(Response):
    """An answer that goes on until its source ends, the client goes, or the server stops. ASGI."""

    media_type = "text/event-stream"

    def __init__(self, held: Held, limits: Limits, source: Source) -> None:
        self.background = None
        self._held = held
        self._limits = limits
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        self._held.check()
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        slow = False

        async def emit(data: bytes) -> None:
            nonlocal slow
            slow = True
            async with asyncio.timeout(self._limits.send_s):
                await send({"type": "http.response.body", "body": data, "more_body": True})
            slow = False

        last = b""
        try:
            async with self._held.hold(receive):
                await self._source(emit)
        except TimeoutError:
            last = b": too slow; come back with Last-Event-ID\n\n"
            _log.info("slow_client_dropped", path=scope["path"])
        except TenutoError as error:
            last = f": {' '.join(str(error).split())}\n\n".encode()
        if self._held.stopping:
            last = b": the server stops\n\n"
        if slow:
            return  # it takes nothing: the server closes the connection
        await send({"type": "http.response.body", "body": last, "more_body": False})


class RunStream:
    """One run: `history` (with its number as id), `note`, `state`, and `end` once it is final.

    Args:
        last: number of the last event that the client has; 0 for none.
    """

    def __init__(self, backend: Backend, limits: Limits, run_id: RunId, last: int) -> None:
        self._backend = backend
        self._limits = limits
        self._run_id = run_id
        self._last = last
        self._resumes = last > 0
        self._subscribed = asyncio.Event()
        self._wake = asyncio.Event()
        self._ended = False
        self._notes: deque[NoteRow] = deque(maxlen=NOTES_MAX)
        self._said: set[tuple[object, ...]] = set()
        self._state: Document | None = None

    async def send(self, emit: Emit) -> None:
        """The source of the stream."""
        async with beside(self._pump(), "rest-follow"):
            await self._subscribed.wait()
            await emit(_BEGIN)
            await self._tell_state(emit)
            await self._tell_old_notes(emit)
            while not await self._tell_news(emit):
                await self._rest(emit)

    async def _pump(self) -> None:
        follow = self._backend.commands.follow(self._run_id)
        # Whoever waits for this goes on only when `follow` has begun: it does not pause before it has subscribed.
        self._subscribed.set()
        try:
            async with aclosing(cast("Any", follow)) as rows:
                async for row in rows:
                    if isinstance(row, NoteRow):
                        self._notes.append(row)
                    self._wake.set()
        except TenutoError:
            pass  # the engine ends, and the stream with it
        self._ended = True
        self._wake.set()

    async def _tell_news(self, emit: Emit) -> bool:
        """Send what is new. True: there will be no more."""
        self._wake.clear()
        ended = self._ended
        while rows := await self._read_history():
            parts = [encode("history", row, row["seq"]) for row in rows]
            self._last = cast("int", rows[-1]["seq"])
            await emit(b"".join(parts))
            if len(rows) < HISTORY_PAGE:
                break
        while self._notes:
            row = self._notes.popleft()
            document = note_document(row)
            if _name(document) not in self._said:
                await emit(encode("note", document))
        await self._tell_state(emit)
        if not ended:
            return False
        assert self._state is not None
        if self._state["state"] in FINAL_RUN_STATES:
            await emit(encode("end", self._state))
        else:
            await emit(b": the engine stops\n\n")
        return True

    async def _rest(self, emit: Emit) -> None:
        try:
            async with asyncio.timeout(self._limits.keep_alive_s):
                await self._wake.wait()
        except TimeoutError:
            await emit(_SILENCE)
            return
        if not self._ended:
            await asyncio.sleep(MERGE_S)  # many may follow a busy run, and each reads it

    async def _read_history(self) -> Sequence[Mapping[str, object]]:
        run_id, last = self._run_id, self._last
        page = await self._backend.read(
            lambda answers: answers.run_history(run_id, after=last, limit=HISTORY_PAGE)
        )
        return cast("Sequence[Mapping[str, object]]", page["items"])

    async def _tell_state(self, emit: Emit) -> None:
        run_id = self._run_id
        state = await self._backend.read(lambda answers: answers.get_run_row(run_id))
        if state != self._state:
            self._state = state
            await emit(encode("state", state))

    async def _tell_old_notes(self, emit: Emit) -> None:
        """What was said before; for a client that comes back, from the moment of its last event on."""
        run_id, last = self._run_id, self._last
        since = ""
        if self._resumes:
            [*newest] = cast(
                "Sequence[Mapping[str, str]]",
                (
                    await self._backend.read(
                        lambda answers: answers.run_history(run_id, after=last - 1, limit=1)
                    )
                )["items"],
            )
            since = newest[0]["at"] if newest else ""
        page = await self._backend.read(lambda answers: answers.run_notes(run_id, limit=NOTES_MAX))
        items = cast("Sequence[Document]", page["items"])
        self._said = {_name(note) for note in items}
        told = [encode("note", note) for note in items if cast("str", note["at"]) >= since]
        if told:
            await emit(b"".join(told))


def _name(note: Document) -> tuple[object, ...]:
    """What makes a note another one; of progress only the newest is kept, under one number."""
    return note["place"], note["attempt"], note["number"], note["text"]


class ChangesStream:
    """All runs: `run` for each that changed, as it is now."""

    def __init__(self, changes: Changes, limits: Limits) -> None:
        self._changes = changes
        self._limits = limits

    async def send(self, emit: Emit) -> None:
        """The source of the stream."""
        with self._changes.heard() as ear:
            # From here on nothing is missed: who lists the runs now has them all.
            await emit(_BEGIN)
            while True:
                try:
                    async with asyncio.timeout(self._limits.keep_alive_s):
                        data = await ear.take()
                except TimeoutError:
                    data = _SILENCE
                if data is None:
                    return
                await emit(data)

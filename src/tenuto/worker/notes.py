"""What attempts say while they run, on its way to the gateway: bounded, gathered, thread-safe. Sends nothing itself.

Executors write, from any thread, and never wait or fail for it; the runner takes what has gathered. Numbers count per
attempt, so that a note that is sent twice is kept once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic_ns

import orjson

from tenuto.model.ids import LeaseId
from tenuto.ports.gateway import Lease, Note, NoteKind

LINES_MAX = 1_000
"""Of one attempt."""
TEXT_MAX = 256 * 1024
"""Characters of one attempt, all lines together."""
LINE_MAX = 8 * 1024
"""Characters of one line; what is beyond is cut."""
TAKE_MAX = 500
"""Notes handed out at a time."""
PROGRESS = 0
"""The number of an attempt's progress."""


@dataclass(slots=True)
class _Page:
    """What one attempt has said so far."""

    lines: int = 0
    characters: int = 0
    full: bool = False
    progress: Note | None = None
    progress_at: int = 0


class Notebook:
    """Notes of the attempts of one worker. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pages: dict[LeaseId, _Page] = {}
        self._waiting: deque[tuple[Note, int]] = deque()
        self._woken = False
        self.on_first: Callable[[], None] | None = None
        """Called, in the writer's thread, when something gathers after nothing was there."""

    def add(self, lease: Lease, kind: NoteKind, text: str) -> None:
        """Note a text, line by line. Beyond the bounds of an attempt it is dropped, and the last line says so."""
        now = monotonic_ns() // 1_000
        with self._lock:
            page = self._pages.setdefault(lease.lease_id, _Page())
            for line in text.splitlines() or [""]:
                if page.full:
                    break
                self._put_line(page, lease, kind, _storable(_cut(line)), now)
            wake = self._gathered()
        if wake is not None:
            wake()

    def progress(
        self, lease: Lease, done: float, total: float | None = None, message: str = ""
    ) -> None:
        """Note how far the attempt has come; only the newest stands."""
        shown = _storable(_cut(message))
        text = orjson.dumps({"done": done, "total": total, "message": shown}).decode()
        with self._lock:
            page = self._pages.setdefault(lease.lease_id, _Page())
            page.progress = _note(lease, PROGRESS, NoteKind.PROGRESS, text)
            page.progress_at = monotonic_ns() // 1_000
            wake = self._gathered()
        if wake is not None:
            wake()

    def take(self) -> Sequence[Note]:
        """Hand out what has gathered, the oldest `TAKE_MAX` of it. Empty: nothing is there."""
        now = monotonic_ns() // 1_000
        found: list[Note] = []
        with self._lock:
            while self._waiting and len(found) < TAKE_MAX:
                note, at = self._waiting.popleft()
                found.append(replace(note, age_us=now - at))
            for page in self._pages.values():
                if page.progress is not None and len(found) < TAKE_MAX:
                    found.append(replace(page.progress, age_us=now - page.progress_at))
                    page.progress = None
            self._woken = bool(found)
        return _newest_progress(found)

    @property
    def has_notes(self) -> bool:
        """Whether something has gathered. May be late by a moment."""
        return self._woken

    def accept(self, notes: Sequence[Note]) -> None:
        """Take over what another process has gathered, in its order and within its bounds."""
        now = monotonic_ns() // 1_000
        with self._lock:
            self._waiting.extend((note, now - note.age_us) for note in notes)
            wake = self._gathered()
        if wake is not None:
            wake()

    def put_back(self, notes: Sequence[Note]) -> None:
        """Notes that could not be sent; the next `take` hands them out again."""
        now = monotonic_ns() // 1_000
        with self._lock:
            self._waiting.extendleft((note, now - note.age_us) for note in reversed(notes))

    def close(self, lease_id: LeaseId) -> None:
        """The attempt is over: its bounds are forgotten. What has gathered of it is still handed out."""
        with self._lock:
            page = self._pages.pop(lease_id, None)
            if page is not None and page.progress is not None:
                self._waiting.append((page.progress, page.progress_at))

    def _put_line(self, page: _Page, lease: Lease, kind: NoteKind, line: str, now: int) -> None:
        page.lines += 1
        page.characters += len(line)
        if page.lines >= LINES_MAX or page.characters > TEXT_MAX:
            page.full = True
            line = f"… more was dropped: an attempt may say {LINES_MAX:,} lines, {TEXT_MAX:,} characters"
        self._waiting.append((_note(lease, page.lines, kind, line), now))

    def _gathered(self) -> Callable[[], None] | None:
        """Whom to wake, once until the notebook was found empty."""
        if self._woken:
            return None
        self._woken = True
        return self.on_first


def _newest_progress(notes: Sequence[Note]) -> Sequence[Note]:
    """Without progress that a later note of the same attempt replaces."""
    newest = {
        (note.run_id, note.place, note.attempt): note for note in notes if note.number == PROGRESS
    }
    kept = newest.values()
    return [note for note in notes if note.number != PROGRESS or any(note is each for each in kept)]


def _note(lease: Lease, number: int, kind: NoteKind, text: str) -> Note:
    return Note(
        run_id=lease.run_id,
        place=lease.place,
        attempt=lease.attempt,
        number=number,
        kind=kind,
        text=text,
        age_us=0,
    )


def _cut(line: str) -> str:
    if len(line) <= LINE_MAX:
        return line
    return line[:LINE_MAX] + f"… {len(line) - LINE_MAX:,} characters more"


def _storable(text: str) -> str:
    """Text that can be stored anywhere: no NUL, no lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.unit.worker.noted import a_lease

from tenuto.model.errors import Unavailable
from tenuto.ports.gateway import Note, NoteKind
from tenuto.worker import noter
from tenuto.worker.noter import Noter
from tenuto.worker.notes import Notebook

LEASE = a_lease()


class Desk:
    """Takes notes, once it is open."""

    def __init__(self) -> None:
        self.open, self.asked = asyncio.Event(), asyncio.Event()
        self.calls = 0
        self.texts: list[str] = []
        self.troubles: list[Unavailable] = []
        self.notebook = Notebook()
        self.noter = Noter(self.notebook, self.take, self.troubles.append)

    async def take(self, notes: Sequence[Note]) -> None:
        self.calls += 1
        self.asked.set()
        await self.open.wait()
        self.texts += [note.text for note in notes]

    def say(self, text: str) -> None:
        self.notebook.add(LEASE, NoteKind.LOG, text)


async def test_what_gathers_is_handed_in_together(monkeypatch: pytest.MonkeyPatch) -> None:
    gathers, gathered = asyncio.Event(), asyncio.Event()

    async def gather(_: float) -> None:
        gathers.set()
        await gathered.wait()

    monkeypatch.setattr(asyncio, "sleep", gather)
    desk = Desk()
    desk.open.set()
    desk.noter.listen()
    running = asyncio.create_task(desk.noter.run())
    await asyncio.to_thread(desk.say, "one")
    await gathers.wait()
    desk.say("two")
    gathered.set()
    await desk.asked.wait()
    running.cancel()

    assert (desk.calls, desk.texts) == (1, ["one", "two"])


async def test_a_flush_waits_for_what_is_on_its_way_and_hands_in_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(noter, "FLUSH_S", 600)
    desk = Desk()
    desk.say("one")
    first = asyncio.create_task(desk.noter.flush())
    await desk.asked.wait()
    second = asyncio.create_task(desk.noter.flush())
    await asyncio.sleep(0)
    assert not second.done()
    desk.say("two")
    desk.open.set()
    await second
    await first

    assert desk.texts == ["one", "two"]


async def test_a_flush_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noter, "FLUSH_S", 0.01)
    desk = Desk()
    desk.say("one")

    await desk.noter.flush()

    assert desk.texts == []
    assert [note.text for note in desk.notebook.take()] == ["one"], "they are kept"


async def test_what_is_not_taken_is_kept_and_why_is_told() -> None:
    desk = Desk()

    async def refuse(_: Sequence[Note]) -> None:
        raise Unavailable("away")

    desk.say("one")
    await Noter(desk.notebook, refuse, desk.troubles.append).flush()

    assert [str(error) for error in desk.troubles] == ["away"]
    assert [note.text for note in desk.notebook.take()] == ["one"]


async def test_a_note_after_the_loop_has_closed_is_nobodys() -> None:
    desk = Desk()

    async def listen() -> None:
        desk.noter.listen()

    await asyncio.to_thread(asyncio.run, listen())
    desk.say("late")

    assert desk.notebook.has_notes

"""Passing on what processes print: all of it, in order, with the last lines kept."""

from __future__ import annotations

import asyncio
import os
import threading
import time

from tenuto.worker.relay import LINES, Relay, Tail


class Written:
    """What came through, by descriptor."""

    def __init__(self) -> None:
        self.text: dict[int, bytes] = {1: b"", 2: b""}

    def __call__(self, target: int, data: bytes) -> None:
        self.text[target] += data


def passed_on(*parts: bytes) -> tuple[Written, Tail]:
    written, tail = Written(), Tail()
    relay = Relay(written)
    ours, theirs = os.pipe()
    relay.add(ours, 2, tail)
    for part in parts:
        os.write(theirs, part)
    os.close(theirs)
    relay.close(20.0)
    return written, tail


def test_all_is_passed_on_as_it_is() -> None:
    written, tail = passed_on(b"one\ntw", b"o\n", b"\xff three")

    assert written.text == {1: b"", 2: b"one\ntwo\n\xff three"}
    assert tail.lines() == ["one", "two", "\\xff three"]


def test_the_last_lines_are_kept() -> None:
    _, tail = passed_on(b"".join(b"line %d\n" % number for number in range(100)))

    assert len(tail.lines()) == LINES
    assert tail.lines()[-1] == "line 99"


def test_a_line_without_an_end_is_kept_in_part() -> None:
    _, tail = passed_on(b"x" * 50_000)

    assert tail.lines() == ["x" * 400]


def test_several_pipes_share_a_thread() -> None:
    written = Written()
    relay = Relay(written)
    for target in (1, 2):
        ours, theirs = os.pipe()
        relay.add(ours, target, Tail())
        os.write(theirs, b"to %d" % target)
        os.close(theirs)
    relay.close(20.0)

    assert written.text == {1: b"to 1", 2: b"to 2"}


def test_one_that_was_never_used_is_closed_at_once() -> None:
    Relay().close(20.0)


async def test_the_end_of_the_pipes_is_waited_for_however_late_it_is_read() -> None:
    go = threading.Event()

    def slow(_: int, data: bytes) -> None:
        go.wait(20)

    relay, tail = Relay(slow), Tail()
    ours, theirs = os.pipe()
    relay.add(ours, 1, tail)
    os.write(theirs, b"last words")
    os.close(theirs)
    waiting = asyncio.create_task(tail.until_over(20.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    go.set()
    await waiting
    relay.close(20.0)

    assert tail.lines() == ["last words"]


async def test_pipes_that_somebody_holds_open_are_not_waited_for_for_ever() -> None:
    relay, tail = Relay(lambda *_: None), Tail()
    ours, theirs = os.pipe()
    relay.add(ours, 1, tail)
    begun = time.monotonic()
    await tail.until_over(0.05)

    assert time.monotonic() - begun >= 0.05
    async with asyncio.timeout(60):
        await tail.until_over(600, hurried=lambda: True)
    os.close(theirs)
    relay.close(20.0)

"""What a task process says: whole and in order, from any thread, also to a supervisor that is slow."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tenuto.worker.frames import Unpacker
from tenuto.worker.pipe import Pipe

LARGE = "x" * (1 << 20)
"""More than a socket takes that nobody reads."""


@pytest.fixture
def ends() -> Iterator[tuple[Pipe, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(30)
        yield Pipe(ours), theirs


def read(sock: socket.socket, count: int) -> list[dict[str, Any]]:
    unpacker, found = Unpacker(), list[dict[str, Any]]()
    while len(found) < count:
        found += unpacker.feed(sock.recv(1 << 16))
    return found


def test_what_is_offered_leaves_at_once(ends: tuple[Pipe, socket.socket]) -> None:
    pipe, theirs = ends

    assert pipe.offer({"n": 1})
    pipe.send({"n": 2})

    assert read(theirs, 2) == [{"n": 1}, {"n": 2}]


def test_an_offer_never_waits_and_what_is_left_of_it_leaves_whole_before_all_else(
    ends: tuple[Pipe, socket.socket],
) -> None:
    pipe, theirs = ends
    said = [{"n": n, "text": LARGE} for n in range(3)]

    assert [pipe.offer(each) for each in said] == [False] * 3
    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(pipe.send, {"n": 3})
        assert read(theirs, 4) == [*said, {"n": 3}]
        sending.result()


def test_what_is_left_of_an_offer_leaves_by_flush(ends: tuple[Pipe, socket.socket]) -> None:
    pipe, theirs = ends
    assert not pipe.offer({"text": LARGE})
    with ThreadPoolExecutor(1) as thread:
        flushing = thread.submit(pipe.flush)
        assert read(theirs, 1) == [{"text": LARGE}]
        flushing.result()

    assert pipe.offer({"n": 1})


def test_an_offer_does_not_wait_for_another_thread_that_does(
    ends: tuple[Pipe, socket.socket],
) -> None:
    pipe, theirs = ends
    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(pipe.send, {"text": LARGE})
        theirs.recv(1)  # so it is under way
        assert not pipe.offer({"n": 1})
        rest = Unpacker()
        rest.feed(b"\0")
        found = list[dict[str, Any]]()
        while not found:
            found += rest.feed(theirs.recv(1 << 16))
        sending.result()
        pipe.flush()
        while len(found) < 2:
            found += rest.feed(theirs.recv(1 << 16))

    assert found == [{"text": LARGE}, {"n": 1}]


def test_messages_of_many_threads_stay_whole_and_each_threads_in_order(
    ends: tuple[Pipe, socket.socket],
) -> None:
    pipe, theirs = ends
    begin = threading.Barrier(4)

    def say(thread: int) -> None:
        begin.wait()
        for n in range(100):
            message = {"thread": thread, "n": n, "text": "x" * (n * 100)}
            if thread % 2:
                pipe.send(message)
            elif not pipe.offer(message):
                pipe.flush()

    with ThreadPoolExecutor(4) as threads:
        said = [threads.submit(say, thread) for thread in range(4)]
        found = read(theirs, 400)
        for each in said:
            each.result()

    for thread in range(4):
        assert [each["n"] for each in found if each["thread"] == thread] == list(range(100))


def test_a_supervisor_that_is_gone_is_no_error(ends: tuple[Pipe, socket.socket]) -> None:
    pipe, theirs = ends
    theirs.close()

    pipe.send({"text": LARGE})
    assert pipe.offer({"n": 1})

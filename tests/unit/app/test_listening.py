"""Ports: taken, free, and whose."""

from __future__ import annotations

import os
import socket

import pytest
from tests.support.backing.ports import free_port

from tenuto.app.listening import bind, holder_of, next_free
from tenuto.model.errors import Conflict


def test_a_taken_port_says_by_whom_and_which_one_is_free() -> None:
    port = free_port()  # and the next one is nobody's
    with bind(port):
        with pytest.raises(Conflict) as caught:
            bind(port)

        message = str(caught.value)
        assert message.startswith(f"port {port} is in use by process {os.getpid()} (")
        free = int(message.rpartition(" ")[2])
        assert f"{free} is free: --port {free}" in message
        bind(free).close()


def test_a_port_that_nobody_has_has_no_holder() -> None:
    port = free_port()

    assert holder_of(port) is None
    assert next_free(port) == port


def test_a_socket_is_named_as_tcp_so_that_answers_are_not_held_back() -> None:
    with bind(0) as bound:
        assert bound.proto == socket.IPPROTO_TCP


def test_the_last_port_has_none_behind_it() -> None:
    assert next_free(65_536) is None

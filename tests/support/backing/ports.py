"""Free ports of the loopback: each is handed out once, and to one of the test processes that run at a time.

They lie below those that the kernel gives to whom asks for any (Linux: 32768 to 60999), so that neither such a server
nor an outgoing connection takes one while its owner is away: a test may stop its server and start it there again.
"""

from __future__ import annotations

import itertools
import os
import random
import socket
from collections.abc import Iterator

_FIRST, _LAST = 20_000, 32_767
_PROCESSES = 8  # pytest-xdist numbers its workers; more of them than this share, as two sessions do


def _own_ports() -> Iterator[int]:
    """This process's share in an order of its own, over and over. The odd ones stay free: who is refused a port is
    offered the next.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    share = range(_FIRST + 2 * (worker % _PROCESSES), _LAST, 2 * _PROCESSES)
    return itertools.cycle(random.SystemRandom().sample(share, len(share)))


_ports = _own_ports()


def free_port() -> int:
    """A port that was free a moment ago; who binds it tries another when somebody was quicker."""
    for port in itertools.islice(_ports, _LAST - _FIRST):
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no port from {_FIRST} to {_LAST} is free")

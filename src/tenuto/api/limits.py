"""How much one server takes: sizes, rates, connections that stay. No request is read here."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from time import monotonic

CLIENTS_MAX = 10_000
"""Addresses that are remembered; the one that was quiet longest is forgotten, and begins anew."""
HELD_MAX = 1_000
"""Streams and waits at a time: each costs some 30 KB and a socket, and a process has 1,024 files by default."""
WAIT_MAX_S = 60
KEEP_ALIVE_S = 15.0
SEND_MAX_S = 30.0
"""A client that takes nothing for so long is cut off: it can come back and go on where it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of one server. `body` in bytes; `keep_alive_s`: a stream's longest silence."""

    body: int = 4 * 1_048_576
    requests_per_second: int = 200
    burst: int = 400
    held: int = HELD_MAX
    keep_alive_s: float = KEEP_ALIVE_S
    send_s: float = SEND_MAX_S


class Rates:
    """A bucket of tokens for each client's address."""

    def __init__(
        self, per_second: int, burst: int, *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> int:
        """Take a token. 0: taken; else the whole seconds after which there is one again."""
        now = self._clock()
        tokens, at = self._buckets.get(client, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - at) * self._per_second)
        wait = 0
        if tokens >= 1:
            tokens -= 1
        else:
            wait = ceil((1 - tokens) / self._per_second)
        self._buckets[client] = (tokens, now)
        self._buckets.move_to_end(client)
        while len(self._buckets) > CLIENTS_MAX:
            self._buckets.popitem(last=False)
        return wait

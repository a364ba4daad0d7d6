"""What both ends of the workers' service agree on: version, limits, settings of connections, the loop. No messages."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from dataclasses import dataclass

from tenuto.model.errors import InvariantViolated
from tenuto.model.instants import SECOND_US
from tenuto.model.payload import PAYLOAD_MAX

PROTOCOL = 1
"""Of `worker.proto`; a server speaks to workers of the same number only."""

MESSAGE_MAX = PAYLOAD_MAX + 4 * 2**20
"""Bytes of one message. A result just above the payload limit still comes through, and gets its verdict."""
BATCH_BYTES = 2 * 2**20
"""Of the results or leases in one message, unless it is one alone."""
AROUND = 64 * 2**10
"""What is around one result or lease in its message."""
ITEM_MAX = MESSAGE_MAX - AROUND
REPORTS_MAX = 500
"""Results in one message."""
LEASE_WAIT_US = 3 * SECOND_US
"""Longest wait of a `lease` call, and a third of a lease: what is waited is counted against the lease."""
RENEWAL = "this stream is old: connect anew"
"""Why a worker is sent elsewhere now and then, though all is well: no news for anybody."""
WORKER_MAX = 200
"""Characters of a worker's id."""
ID_MAX = 1_000
"""Of any other name that a worker says."""
VERSION_MAX = 100
"""Of the version of its software."""
CAPACITY_MAX = 10_000
"""Leases of one worker, as in the setting `worker.slots`; so the leases in one message, too."""
NAMES_MAX = 20_000
"""Names of tasks and queues of one worker."""
LABELS_MAX = 64
LINES_MAX = 5_000
"""Lines in one note."""
CODE_MAX = 200
"""Characters of a failure's code, and of the name of a class of it; what is beyond is cut, as is that of the others."""
CLASSES_MAX = 16
TEXT_MAX = 16_384
"""Characters of a failure's message."""

# The length of a lease decides: a dead connection has to be noticed, and another found, while leases last. gRPC's
# own default is two hours, and a server that allows no more than a ping per five minutes.
_KEEPALIVE_MS = 3_000
_KEEPALIVE_TIMEOUT_MS = 2_500
_PING_MIN_MS = 1_000

Option = tuple[str, int | str]

_BOTH: tuple[Option, ...] = (
    ("grpc.max_receive_message_length", MESSAGE_MAX),
    ("grpc.max_send_message_length", MESSAGE_MAX),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Nothing compressed is taken in: a small message cannot unfold into a large one.
    ("grpc.compression_enabled_algorithms_bitset", 1),
)
SERVER_OPTIONS: tuple[Option, ...] = (
    *_BOTH,
    ("grpc.http2.min_ping_interval_without_data_ms", _PING_MIN_MS),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", _PING_MIN_MS),
    ("grpc.so_reuseport", 0),
    # A worker has one; or one connection, which costs little, could open streams by the thousand.
    ("grpc.max_concurrent_streams", 16),
)
CLIENT_OPTIONS: tuple[Option, ...] = (
    *_BOTH,
    # Or the back-off of an earlier connection to the same address would delay ours, which has one of its own.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Certificates as PEM. Of a server: its own, and with `ca` it asks workers for theirs. Of a worker: `ca` is what
    it trusts (None: what the machine trusts), and its own if it has one.
    """

    certificate: bytes | None = None
    key: bytes | None = None
    ca: bytes | None = None


class _Owner:
    """The one loop of this process that uses gRPC."""

    lock = threading.Lock()
    loop: weakref.ref[asyncio.AbstractEventLoop] | None = None


def claim_loop() -> None:
    """Make the running loop the one that uses gRPC, for as long as it lives.

    Raises:
        InvariantViolated: another living loop of this process does: two of them stall each other (grpc#25364).
    """
    # gRPC's core writes lines of its own to stderr, of connections that end as they should; it reads this once, at its
    # first use, which comes after this.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    loop = asyncio.get_running_loop()
    with _Owner.lock:
        owner = None if _Owner.loop is None else _Owner.loop()
        if owner is not None and owner is not loop and not owner.is_closed():
            raise InvariantViolated("two event loops of one process use gRPC")
        _Owner.loop = weakref.ref(loop)

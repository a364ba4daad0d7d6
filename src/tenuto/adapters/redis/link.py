"""Clients of one Redis, with every default that matters spelled out, and whether it is one that we can use.

redis-py 8 would raise at the hundredth connection, try ten times without a word, and break a blocking read by its own
timeout. So: nothing is tried again here but after a cluster's redirection, commands share a small pool that waits, each
reader has a connection of its own whose timeout lies beyond its block, and one that failed or was cancelled is closed,
never shared.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    ClusterError,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import (
    ConnectionError as LostConnectionError,
)
from redis.exceptions import (
    TimeoutError as SlowError,
)
from redis.maint_notifications import MaintNotificationsConfig

from tenuto.adapters.redis.address import Address
from tenuto.model.errors import InvalidInput, Unavailable

VERSION_MIN = (7, 0)
"""Before, XAUTOCLAIM answers nothing for deleted entries."""
COMMAND_S = 2.0
"""Longest wait for an answer: a black hole is noticed so soon."""
BLOCK_MS = 1_000
READ_S = BLOCK_MS / 1_000 + COMMAND_S
POOL = 4
CANCEL_S = 0.5
"""Until a task is cancelled once more; long enough to close a connection in peace."""

_AWAY = re.compile(r"Error -?\d+ connecting to \S+?\. (.+?)\.?$")

Client = Any
"""Redis or RedisCluster. redis-py types both by overloads that no common caller satisfies."""
FAULTS = (RedisError, OSError, RuntimeError)
"""What a client raises when Redis cannot be used. RuntimeError: uvloop's, for a write to a closed connection."""


class Link:
    """Connections to one Redis.

    Args:
        strict: refuse one that evicts keys; else say so in `warning`.
    """

    def __init__(self, address: Address, *, strict: bool | None = None) -> None:
        self.address = address
        self.warning: str | None = None
        self._strict = not address.loopback if strict is None else strict
        self._client: Client = None

    @property
    def commands(self) -> Client:
        """For short commands."""
        assert self._client is not None, "a link is opened first"
        return self._client

    async def open(self) -> None:
        """Connect and look at the server.

        Raises:
            InvalidInput: a server that must not be used: too old, or one that evicts keys.
            RedisError, OSError: not to be reached, wrong password.
        """
        await self.close()
        address = self.address
        if address.cluster:
            # Closed by `close` whatever becomes of it.
            self._client = RedisCluster(
                startup_nodes=[ClusterNode(host, port) for host, port in address.nodes],
                require_full_coverage=False,
                max_connections=POOL,
                retry=Retry(NoBackoff(), 1),  # once, at the node where a slot is now
                ssl=address.tls,
                **self._options(COMMAND_S),
            )
            await self._client.initialize()
            answer = await self._client.info(target_nodes="primaries")
            infos = list(answer.values()) if "redis_version" not in answer else [answer]
        else:
            self._client = Redis(
                connection_pool=BlockingConnectionPool(
                    max_connections=POOL, timeout=COMMAND_S, **self._plain_options(COMMAND_S)
                )
            )
            infos = [await self._client.info()]
        for info in infos:
            self._check(info)

    async def probe(self) -> None:
        """Before the start: end it where waiting cures nothing. One that is away is waited for later.

        Raises:
            InvalidInput: a server that must not be used.
            Unavailable: it refuses our password, or our commands.
        """
        try:
            await self.open()
        except (AuthenticationError, NoPermissionError) as error:
            raise Unavailable(complaint(error, self.address)) from None
        except FAULTS:
            return  # the dispatch says so, and tries again
        finally:
            await self.close()

    async def reader(self, key: str) -> Client:
        """A client with one connection of its own, to where this key is; the caller closes it."""
        options = self._plain_options(READ_S)
        if self.address.cluster:
            node = self.commands.get_node_from_key(key)
            if node is None:
                raise LostConnectionError(f"no node of the cluster has {key}")
            options |= {"host": node.host, "port": node.port}
        pool = BlockingConnectionPool(max_connections=1, timeout=COMMAND_S, **options)
        return Redis(connection_pool=pool)

    async def resolve(self) -> None:
        """Ask a cluster anew where its slots are."""
        if self.address.cluster:
            await self.commands.nodes_manager.initialize()

    def pipeline(self) -> Client:
        """Commands for one round trip; each has its own answer."""
        return self.commands.pipeline(transaction=False)

    async def close(self) -> None:
        """Let go of the connections for commands."""
        client, self._client = self._client, None
        if client is not None:
            try:
                await client.aclose()
                if not self.address.cluster:
                    await client.connection_pool.disconnect()
            except FAULTS:
                pass  # it was broken already

    def _options(self, timeout_s: float) -> dict[str, Any]:
        return {
            "protocol": 3,
            "legacy_responses": False,
            "decode_responses": True,
            "socket_timeout": timeout_s,
            "socket_connect_timeout": COMMAND_S,
            "socket_keepalive": True,
            "health_check_interval": 0,
            "client_name": "tenuto",
            **self.address.options,
        }

    def _plain_options(self, timeout_s: float) -> dict[str, Any]:
        address = self.address
        options = self._options(timeout_s) | {
            "retry": Retry(NoBackoff(), 0),
            "maint_notifications_config": MaintNotificationsConfig(enabled=False),
        }
        if address.path is not None:
            options |= {"connection_class": UnixDomainSocketConnection, "path": address.path}
            del options["socket_keepalive"], options["maint_notifications_config"]
            return options
        options["connection_class"] = SSLConnection if address.tls else Connection
        if address.nodes:
            options["host"], options["port"] = address.nodes[0]
        return options

    def _check(self, info: dict[str, Any]) -> None:
        text = str(info["redis_version"])
        version = tuple(int(part) for part in text.split(".")[:2])
        if version < VERSION_MIN:
            raise InvalidInput(
                f"{self.address} is Redis {text}; 7.0 or newer is needed, or any Valkey",
                path="redis.url",
            )
        policy = info.get("maxmemory_policy", "noeviction")
        self.warning = None
        if policy != "noeviction":
            text = (
                f"{self.address} has maxmemory-policy {policy}, by which it may drop whole streams; "
                "set it to noeviction"
            )
            if self._strict:
                raise InvalidInput(text, path="redis.url")
            self.warning = text


async def ended(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks until they are over: redis-py swallows a cancellation now and then."""
    for task in tasks:
        task.cancel()
    while tasks:
        _, tasks = await asyncio.wait(tasks, timeout=CANCEL_S)
        for task in tasks:
            task.cancel()


def complaint(error: BaseException, address: Address) -> str:
    """What is wrong, in one sentence."""
    match error:
        case InvalidInput():
            return str(error)
        case AuthenticationError():
            return f"{address} refuses our password"
        case NoPermissionError():
            return f"{address} does not let us do that: {error}"
        case OutOfMemoryError():
            return f"{address} has no memory left (maxmemory)"
        case ReadOnlyError():
            return f"{address} is a read-only replica"
        case MovedError() | ClusterError():
            return f"{address} does not serve all of its slots: {error}"
        case SlowError():
            return f"{address} does not answer"
        case _:
            told = str(error) or type(error).__name__
            if isinstance(error, ConnectionRefusedError) or "Connect call failed" in told:
                return f"nobody listens at {address}"
            if away := _AWAY.search(told):  # the library's words say the address once more
                return f"{address} cannot be reached: {away[1]}"
            return f"{address} cannot be used: {told}"


def is_of_key(error: BaseException) -> bool:
    """Whether an answer is about one key alone (it holds something else), not about the server."""
    return isinstance(error, ResponseError) and str(error).startswith("WRONGTYPE")


def is_no_group(error: BaseException) -> bool:
    """Whether a stream or its group is not there (any more)."""
    text = str(error)
    return isinstance(error, ResponseError) and (
        text.startswith(("NOGROUP", "UNBLOCKED")) or "key no longer exists" in text
    )

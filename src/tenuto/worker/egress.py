"""The way out for `http` nodes: pooled connections that are opened only to addresses that may be called.

The address is checked where the connection is made, after the name was resolved and for exactly the address that is
then used, so no second resolution can slip another one in. No proxies, none from the environment either.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Iterable

import httpcore2
import httpx2

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_CONNECTIONS_MAX = 100
"""Twice the slots of a worker: a connection that is being closed must not hold up a new one."""

# Where clouds answer with credentials to whoever asks. Link-local ones are covered by the rule for those.
_METADATA = frozenset(
    {ipaddress.ip_address("100.100.100.200"), ipaddress.ip_address("fd00:ec2::254")}
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class AddressBlocked(httpcore2.ConnectError):
    """The name stands for an address that must not be called."""


def refusal(address: _Address, *, private: bool) -> str | None:
    """Why `address` must not be called, or None. `private`: loopback and private networks may be.

    Link-local addresses (169.254.0.0/16, fe80::/10) and the metadata services of clouds never may.
    """
    inner = _embedded(address)
    if inner is not None:
        return refusal(inner, private=private)
    if address.is_link_local or address in _METADATA:
        return "is link-local or a cloud's metadata service"
    if address.is_multicast:
        return "is a multicast address"
    if not private and not address.is_global:
        return "is not a public address"
    return None


def _embedded(address: _Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 one leads to: mapped, 6to4, NAT64."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


class GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """Opens TCP connections for the pool, to checked addresses."""

    def __init__(self, *, private: bool) -> None:
        self._private = private
        self._plain = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Resolve once, check each address, connect to the first that answers.

        Raises httpcore2's ConnectError, ConnectTimeout; AddressBlocked when no address of the name is allowed.
        """
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._resolve(host, port)
                failure: httpcore2.ConnectError | None = None
                for address in addresses:
                    try:
                        return await self._plain.connect_tcp(
                            address, port, None, local_address, socket_options
                        )
                    except httpcore2.ConnectError as error:
                        failure = error
        except TimeoutError:
            raise httpcore2.ConnectTimeout from None
        raise failure or httpcore2.ConnectError("the name has no address")

    async def _resolve(self, host: str, port: int) -> list[str]:
        """Addresses that may be called, in the resolver's order."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                host, port, type=socket.SOCK_STREAM
            )
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError(str(error)) from error
        allowed: list[str] = []
        reason = ""
        for text in dict.fromkeys(str(entry[4][0]) for entry in found):
            refused = refusal(ipaddress.ip_address(text.partition("%")[0]), private=self._private)
            if refused is None:
                allowed.append(text)
            else:
                reason = f"{text} {refused}"
        if not allowed and reason:
            raise AddressBlocked(reason)
        return allowed


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Hands requests to pools over a guarded network. Raises httpcore2's errors."""

    def __init__(self, *, private: bool) -> None:
        self._network = GuardedNetwork(private=private)
        self._plain = self._pool(None)
        self._secure: httpcore2.AsyncConnectionPool | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; the response's body is a stream."""
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        pool = self._plain if request.url.scheme == "http" else await self._secure_pool()
        answer = await pool.handle_async_request(
            httpcore2.Request(
                method=request.method,
                url=httpcore2.URL(
                    scheme=request.url.raw_scheme,
                    host=request.url.raw_host,
                    port=request.url.port,
                    target=request.url.raw_path,
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        assert isinstance(answer.stream, AsyncIterable)
        return httpx2.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=_Body(answer),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._plain.aclose()
        if self._secure is not None:
            await self._secure.aclose()

    async def _secure_pool(self) -> httpcore2.AsyncConnectionPool:
        """The pool for https. Reading the system's certificates takes long, so it waits for the first use."""
        if self._secure is None:
            tls = await asyncio.to_thread(httpcore2.default_ssl_context)
            self._secure = self._secure or self._pool(tls)
        return self._secure

    def _pool(self, tls: ssl.SSLContext | None) -> httpcore2.AsyncConnectionPool:
        return httpcore2.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=_CONNECTIONS_MAX,
            max_keepalive_connections=_CONNECTIONS_MAX // 2,
            keepalive_expiry=5.0,
            network_backend=self._network,
        )


class _Body(httpx2.AsyncByteStream):
    """A response's body as it comes from the pool."""

    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._answer.aiter_stream():
            yield part

    async def aclose(self) -> None:
        await self._answer.aclose()

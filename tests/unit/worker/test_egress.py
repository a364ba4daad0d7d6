"""Which addresses may be called."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import Any

import httpcore2
import pytest

from tenuto.worker.egress import AddressBlocked, GuardedNetwork, refusal

METADATA = [
    "169.254.169.254",
    "169.254.0.1",
    "fe80::1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "fd00:ec2::254",
    "100.100.100.200",
    "::ffff:100.100.100.200",
    "224.0.0.1",
    "ff02::1",
]
PRIVATE = [
    "127.0.0.1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "0.0.0.0",
    "::1",
    "::",
    "fd12::1",
    "::ffff:127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "192.0.2.1",
]
PUBLIC = ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "::ffff:1.1.1.1"]


@pytest.mark.parametrize("text", METADATA)
@pytest.mark.parametrize("private", [True, False])
def test_link_local_and_metadata_addresses_are_never_called(text: str, private: bool) -> None:
    assert refusal(ipaddress.ip_address(text), private=private) is not None


@pytest.mark.parametrize("text", PRIVATE)
def test_private_addresses_may_be_called_only_where_that_is_allowed(text: str) -> None:
    address = ipaddress.ip_address(text)

    assert refusal(address, private=True) is None
    assert refusal(address, private=False) is not None


@pytest.mark.parametrize("text", PUBLIC)
@pytest.mark.parametrize("private", [True, False])
def test_public_addresses_may_be_called(text: str, private: bool) -> None:
    assert refusal(ipaddress.ip_address(text), private=private) is None


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "2852039166",
        "0xA9FEA9FE",
        "0251.0376.0251.0376",
        "169.254.43518",
        "fe80::1",
    ],
)
async def test_no_way_of_writing_a_forbidden_address_gets_through(host: str) -> None:
    with pytest.raises(AddressBlocked):
        await GuardedNetwork(private=True).connect_tcp(host, 80)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "0"])
async def test_no_way_of_writing_this_machine_gets_through_where_private_is_forbidden(
    host: str,
) -> None:
    with pytest.raises(AddressBlocked):
        await GuardedNetwork(private=False).connect_tcp(host, 80)


async def test_a_name_is_resolved_once_and_the_checked_address_is_the_one_that_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A resolver that flips its answer after the check changes nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    answers = ["127.0.0.1", "169.254.169.254"]
    asked: list[str] = []

    async def flipping(host: str, port: int, **options: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answers.pop(0), port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", flipping)
    with listener:
        port = listener.getsockname()[1]
        stream = await GuardedNetwork(private=True).connect_tcp("flips.example", port)
        await stream.aclose()

    assert asked == ["flips.example"]


async def test_of_several_addresses_forbidden_ones_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def two(host: str, port: int, **options: Any) -> list[Any]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, port))
            for text in ("169.254.169.254", "127.0.0.1")
        ]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two)

    assert await GuardedNetwork(private=True)._resolve("two.example", 80) == ["127.0.0.1"]


async def test_an_unknown_name_is_a_connect_error() -> None:
    with pytest.raises(httpcore2.ConnectError):
        await GuardedNetwork(private=True).connect_tcp("nowhere.invalid", 80)

"""Which servers are refused, how clients are made, and what a fault is called."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import (
    AuthenticationError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import (
    ConnectionError as LostConnectionError,
)
from redis.exceptions import (
    TimeoutError as SlowError,
)

from tenuto.adapters.redis.address import read_address
from tenuto.adapters.redis.link import (
    BLOCK_MS,
    READ_S,
    Link,
    complaint,
    is_no_group,
    is_of_key,
)
from tenuto.model.errors import InvalidInput

ADDRESS = read_address("redis://:geheim@cache:6379")


def info(**facts: Any) -> dict[str, Any]:
    return {"redis_version": "7.2.4", "maxmemory_policy": "noeviction"} | facts


@pytest.mark.parametrize("version", ["6.2.14", "5.0.1"])
def test_an_old_server_is_refused(version: str) -> None:
    """F14"""
    with pytest.raises(InvalidInput, match=r"7\.0 or newer"):
        Link(ADDRESS)._check(info(redis_version=version))


@pytest.mark.parametrize("version", ["7.0.0", "7.2.4", "8.2.1", "10.0"])
def test_a_newer_one_is_taken(version: str) -> None:
    Link(ADDRESS)._check(info(redis_version=version))


def test_one_that_evicts_is_refused_far_away_and_noted_near_by() -> None:
    """F6"""
    with pytest.raises(InvalidInput, match="allkeys-lru"):
        Link(ADDRESS)._check(info(maxmemory_policy="allkeys-lru"))
    near = Link(read_address("redis://127.0.0.1"))
    near._check(info(maxmemory_policy="allkeys-lru"))
    assert near.warning is not None
    assert "noeviction" in near.warning


@pytest.mark.parametrize(
    "url",
    ["redis://cache", "rediss://cache", "unix:///run/redis.sock", "redis+cluster://a:1,b:2"],
)
def test_every_default_that_matters_is_spelled_out(url: str) -> None:
    """F9, dependencies.md 13.7"""
    options = Link(read_address(url))._plain_options(READ_S)

    assert options["retry"].get_retries() == 0
    assert options["protocol"] == 3
    assert options["socket_timeout"] * 1_000 > BLOCK_MS
    assert options["socket_connect_timeout"] > 0


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (AuthenticationError("invalid username-password pair"), "refuses our password"),
        (OutOfMemoryError("command not allowed"), "no memory left"),
        (ReadOnlyError("You can't write"), "read-only replica"),
        (SlowError("Timeout reading"), "does not answer"),
        (LostConnectionError("Error 111"), "cannot be used: Error 111"),
        (OSError(), "cannot be used: OSError"),
        (
            LostConnectionError("Error 111 connecting to h:1. Connect call failed ('h', 1)."),
            "nobody listens at ",
        ),
        (ConnectionRefusedError(111, "refused"), "nobody listens at "),
        (
            LostConnectionError("Error -2 connecting to a.b:1. Name or service not known."),
            "cannot be reached: Name or service not known",
        ),
    ],
    ids=str,
)
def test_a_fault_is_one_sentence_without_the_password(error: Exception, words: str) -> None:
    said = complaint(error, ADDRESS)

    assert words in said
    assert "geheim" not in said


def test_faults_of_a_key_and_missing_groups_are_told_apart() -> None:
    assert is_of_key(ResponseError("WRONGTYPE Operation against a key"))
    assert not is_of_key(ResponseError("NOGROUP No such key"))
    assert is_no_group(ResponseError("NOGROUP No such key"))
    assert is_no_group(ResponseError("UNBLOCKED the stream key no longer exists"))
    assert not is_no_group(OutOfMemoryError("OOM"))

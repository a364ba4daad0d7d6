"""What both ends agree on fits together: pings that the other allows, leases that outlive a dead connection."""

from __future__ import annotations

import asyncio

import pytest

from tenuto.model.errors import InvariantViolated
from tenuto.rpc import wire


def test_a_client_pings_no_more_often_than_a_server_allows() -> None:
    """G2: a ping too many is answered by GOAWAY."""
    client, server = dict(wire.CLIENT_OPTIONS), dict(wire.SERVER_OPTIONS)

    allowed = server["grpc.http2.min_recv_ping_interval_without_data_ms"]
    assert int(client["grpc.keepalive_time_ms"]) > 2 * int(allowed)
    for options in (client, server):
        assert options["grpc.keepalive_permit_without_calls"] == 1
        assert options["grpc.http2.max_pings_without_data"] == 0


def test_a_dead_connection_is_noticed_and_replaced_within_a_lease() -> None:
    """G1."""
    client = dict(wire.CLIENT_OPTIONS)

    noticed_ms = int(client["grpc.keepalive_time_ms"]) + int(client["grpc.keepalive_timeout_ms"])

    assert noticed_ms < 6_000  # of a lease of 10 s


def test_both_sides_take_what_the_other_may_send() -> None:
    for options in (dict(wire.CLIENT_OPTIONS), dict(wire.SERVER_OPTIONS)):
        assert options["grpc.max_receive_message_length"] == wire.MESSAGE_MAX
        assert options["grpc.max_send_message_length"] == wire.MESSAGE_MAX
    assert wire.BATCH_BYTES < wire.ITEM_MAX < wire.MESSAGE_MAX


def test_one_loop_after_another_may_use_grpc_but_not_two_at_a_time() -> None:
    """G10."""

    async def claim() -> None:
        wire.claim_loop()
        wire.claim_loop()

    asyncio.run(claim())
    loop = asyncio.new_event_loop()
    loop.run_until_complete(claim())

    with pytest.raises(InvariantViolated):
        asyncio.run(claim())

    loop.close()
    asyncio.run(claim())

"""Tokens of clients, by a clock that the test turns."""

from __future__ import annotations

from tenuto.api.limits import CLIENTS_MAX, Rates


def test_a_burst_passes_and_then_one_request_for_each_token() -> None:
    now = 0.0
    rates = Rates(2, 3, clock=lambda: now)

    assert [rates.take("a") for _ in range(4)] == [0, 0, 0, 1]
    now = 0.5
    assert [rates.take("a") for _ in range(2)] == [0, 1]
    now = 100.0
    assert [rates.take("a") for _ in range(4)] == [0, 0, 0, 1]


def test_clients_do_not_share_their_tokens() -> None:
    rates = Rates(1, 1, clock=lambda: 0.0)

    assert [rates.take(client) for client in ("a", "b", "a")] == [0, 0, 1]


def test_a_slow_rate_tells_the_whole_wait() -> None:
    now = 0.0
    rates = Rates(1, 1, clock=lambda: now)
    rates.take("a")
    now = 0.25

    assert rates.take("a") == 1


def test_many_addresses_do_not_fill_the_memory() -> None:
    rates = Rates(1, 1, clock=lambda: 0.0)
    for number in range(CLIENTS_MAX + 10):
        rates.take(str(number))

    assert rates.take(str(CLIENTS_MAX + 9)) == 1
    assert rates.take("0") == 0  # was quiet longest, and begins anew

"""Where Redis is."""

from __future__ import annotations

import pytest

from tenuto.adapters.redis.address import read_address
from tenuto.model.errors import InvalidInput


@pytest.mark.parametrize(
    ("url", "shown", "loopback"),
    [
        ("redis://cache", "redis://cache:6379", False),
        ("redis://127.0.0.1:7000/3", "redis://127.0.0.1:7000/3", True),
        ("redis://[::1]:7000", "redis://[::1]:7000", True),
        ("rediss://localhost", "rediss://localhost:6379", True),
        ("redis+cluster://a:1,b:2,c", "redis+cluster://a:1,b:2,c:6379", False),
        ("rediss+cluster://a:1/0", "rediss+cluster://a:1", False),
        ("unix:///run/redis.sock?db=2", "unix:///run/redis.sock", True),
    ],
)
def test_every_form_is_read_and_shown(url: str, shown: str, loopback: bool) -> None:
    address = read_address(url)

    assert (str(address), address.loopback) == (shown, loopback)


def test_what_is_shown_has_no_password() -> None:
    address = read_address("redis://app:s%40cret@cache:6379/1")

    assert address.options == {"username": "app", "password": "s@cret", "db": 1}
    assert "cret" not in f"{address} {address!r}"


def test_tls_takes_its_files() -> None:
    address = read_address("rediss://:pw@cache?ssl_ca_certs=/ca.pem&ssl_check_hostname=false")

    assert address.options == {
        "password": "pw",
        "ssl_ca_certs": "/ca.pem",
        "ssl_check_hostname": False,
    }


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("cache:6379", "use redis://"),
        ("", "no scheme"),
        ("http://:geheim@cache", "use redis://"),
        ("redis://:geheim@a:1,b:2", "redis+cluster://"),
        ("redis://:geheim@cache/zero", "number of a database"),
        ("redis+cluster://:geheim@cache/1", "only number 0"),
        ("redis://:geheim@cache:port", "host:port"),
        ("redis://:geheim@cache?retry=1", "'retry'"),
        ("redis://:geheim@cache?ssl_ca_certs=/x", "'ssl_ca_certs'"),
        ("unix://", "no path"),
        ("redis://[::1", "cannot be read"),
    ],
)
def test_another_form_is_refused_in_words_without_the_password(url: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_address(url)

    assert caught.value.path == "redis.url"
    assert words in str(caught.value)
    assert "geheim" not in str(caught.value)

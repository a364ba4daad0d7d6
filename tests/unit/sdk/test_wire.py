"""Addresses."""

from __future__ import annotations

import pytest

from tenuto.model.errors import InvalidInput
from tenuto.sdk.wire import check_address, is_loopback


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
        ("http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080"),
        ("https://host/below/tenuto", "https://host/below/tenuto"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_an_address_is_taken_with_or_without_its_version(text: str, address: str) -> None:
    assert check_address(text) == address


@pytest.mark.parametrize(
    "text",
    ["", "127.0.0.1:8080", "ftp://h", "http://", "http://h:x", "http://h:99999", "http://h:0",
     "http://h?x=1", "http://h#x", "http://[::1", "http://256.1.1.1"],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^url: "):
        check_address(text)


@pytest.mark.parametrize(
    ("url", "near"),
    [
        ("http://127.0.0.1:1", True),
        ("http://127.9.9.9", True),
        ("http://localhost:1", True),
        ("http://[::1]:1", True),
        ("http://128.0.0.1", False),
        ("http://localhost.example", False),
    ],
)
def test_this_machine_is_known_by_its_names(url: str, near: bool) -> None:
    assert is_loopback(url) is near

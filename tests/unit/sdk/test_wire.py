"""Addresses."""

from __future__ import annotations

import pytest

from tenuto.model.errors import InvalidInput
from tenuto.sdk.wire import body_of, check_address, is_loopback, query


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


@pytest.mark.parametrize(
    ("params", "text"),
    [
        (None, ""),
        ({"cursor": None, "state": []}, ""),
        ({"limit": 5, "cursor": None, "state": ["failed", "running"]}, "?limit=5&state=failed&state=running"),
        ({"key": "a b&c=d/\u00e9+\udcff"}, "?key=a%20b%26c%3Dd%2F%C3%A9%2B%3F"),
        ({"after": 0}, "?after=0"),
    ],
)  # fmt: skip
def test_a_query_has_what_was_given(params: dict[str, object] | None, text: str) -> None:
    assert query(params) == text


def test_a_body_is_made_of_json_texts() -> None:
    assert body_of({"a": "1", 'b"': '{"c":[]}'}) == b'{"a":1,"b\\"":{"c":[]}}'
    assert body_of({}) == b"{}"

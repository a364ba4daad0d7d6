"""The header that tells who asks. What is asked of which route: tests/integration/test_access.py."""

from __future__ import annotations

import pytest

from tenuto.api.gate import bearer
from tenuto.model.errors import Denied


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (None, None),
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("  BEARER   abc  ", "abc"),
        ("Bearer", None),
        ("Bearer a b", "a b"),
    ],
)
def test_a_token_stands_behind_the_word_bearer(header: str | None, token: str | None) -> None:
    assert bearer(header) == token


@pytest.mark.parametrize("header", ["Basic YTpi", "abc", "Digest x", "", "Token abc"])
def test_another_way_to_say_who_asks_is_refused(header: str) -> None:
    with pytest.raises(Denied, match="read only as `Bearer TOKEN`"):
        bearer(header)

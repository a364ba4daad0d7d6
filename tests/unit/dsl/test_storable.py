"""Words that are stored and searched for: what every store can hold."""

from __future__ import annotations

import pytest

from tenuto.dsl.storable import check_priority, check_word
from tenuto.model.errors import InvalidInput


@pytest.mark.parametrize("word", ["", "a", "é😀", "x" * 512, " two words "])
def test_a_word_is_given_back_as_it_is(word: str) -> None:
    assert check_word(word, "key") == word


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("x" * 513, "key: 513 characters; the limit is 512"),
        ("a\0", "key: it holds a NUL character; take it out"),
        ("\ud800", "key: it holds half a character (a lone surrogate)"),
        (b"x", "key: b'x' is no text"),
        (5, "key: 5 is no text"),
        (None, "key: None is no text"),
    ],
)
def test_what_no_store_can_hold_is_refused(word: object, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_word(word, "key")

    assert str(caught.value) == says


@pytest.mark.parametrize("priority", range(10))
def test_a_priority_is_a_digit(priority: int) -> None:
    assert check_priority(priority) == priority


@pytest.mark.parametrize("priority", [-1, 10, True, 1.0, "1", None])
def test_what_is_no_priority_is_refused_with_the_range(priority: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_priority(priority)

    assert str(caught.value) == (
        f"priority: {priority!r} is no priority; give a whole number from 0 to 9, higher goes first"
    )

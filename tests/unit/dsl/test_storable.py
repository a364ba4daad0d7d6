"""Words that are stored and searched for: what every store can hold."""

from __future__ import annotations

import pytest

from tenuto.dsl.storable import check_word
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

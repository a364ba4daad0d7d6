"""Words of a user's that are stored beside a run and searched for: keys, ids, reasons. Not JSON values (`inputs`)."""

from __future__ import annotations

from tenuto.dsl.limits import WORD_MAX
from tenuto.model.errors import InvalidInput


def check_word(text: object, what: str, limit: int = WORD_MAX) -> str:
    """Give the word back if every store can hold it. `what` names it in errors, `limit` is in characters.

    Raises:
        InvalidInput: it is no text, too long, or holds NUL or half a character.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"{text!r:.60} is no text", path=what)
    if len(text) > limit:
        raise InvalidInput(f"{len(text):,} characters; the limit is {limit:,}", path=what)
    if "\0" in text:
        raise InvalidInput("it holds a NUL character; take it out", path=what)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput("it holds half a character (a lone surrogate)", path=what) from None
    return text

"""Words of a user's that are stored and searched for: keys, ids, reasons, aliases, priorities. Not JSON values
(`inputs`).
"""

from __future__ import annotations

import re

from tenuto.dsl.limits import WORD_MAX
from tenuto.model.definition import PRIORITY_MAX
from tenuto.model.errors import InvalidInput

_ALIAS = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}")
_ALIAS_SHOWN = 80


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


def check_alias(alias: object) -> str:
    """Give an alias of a workflow's version back if it is one: `order@stable` is never taken for a number.

    Raises:
        InvalidInput: it is no text, or of another form.
    """
    if not isinstance(alias, str) or not _ALIAS.fullmatch(alias):
        raise InvalidInput(
            f"{alias!r:.{_ALIAS_SHOWN}} is no alias; use at most 63 letters, digits, `_`, `.` and `-`, and begin with "
            "a letter, as in stable",
            path="alias",
        )
    return alias


def check_priority(priority: object, what: str = "priority") -> int:
    """Give a run's priority back if it is one (X1.3). `what` names it in errors.

    Raises:
        InvalidInput: it is no whole number from 0 to 9.
    """
    if type(priority) is not int or not 0 <= priority <= PRIORITY_MAX:
        raise InvalidInput(
            f"{priority!r:.40} is no priority; give a whole number from 0 to {PRIORITY_MAX}, higher goes first",
            path=what,
        )
    return priority

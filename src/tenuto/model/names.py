"""What things may be called, and how long an address may be: the same whether it is written, computed or sent."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

ADDRESS_MAX = 512
"""Characters of an event's key and id, and of an idempotency key."""

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
"""Of a workflow, a queue, an alias."""
TASK_NAME = re.compile(r"(?!(?:http|code)$)[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}")
EVENT_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,200}")


def node_meant(wrong: str, known: Iterable[str]) -> str:
    """A hint for a node that is not there: the one that was probably meant, else those there are."""
    ids = list(known)
    close = get_close_matches(wrong[:_MEANT_MAX], ids, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    more = f" and {len(ids) - _LISTED_MAX} more" if len(ids) > _LISTED_MAX else ""
    return f"there are {', '.join(ids[:_LISTED_MAX])}{more}" if ids else ""


_MEANT_MAX = 100
_LISTED_MAX = 12

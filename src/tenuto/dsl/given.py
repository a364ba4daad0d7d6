"""What a start leaves out, and how long an event is kept. Light: no schema is checked here (`inputs`)."""

from __future__ import annotations

import json
from datetime import timedelta

from tenuto.model.errors import InvalidInput
from tenuto.model.instants import parse_duration


def default_input(schema: str | None, value: object) -> object:
    """No input given means an empty object, unless the schema (JSON text) asks for something else."""
    if value is not None:
        return value
    wanted: object = json.loads(schema) if schema else None
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    return {} if kind is None or kind == "object" or "object" in kind else None


def read_keep(keep: object, what: str = "keep") -> int | None:
    """How long an event is kept: `1h30m` or a timedelta, in microseconds; None for None.

    Raises:
        InvalidInput: it is neither, or not above nothing.
    """
    if keep is None:
        return None
    try:
        length = (
            keep // timedelta(microseconds=1)
            if isinstance(keep, timedelta)
            else parse_duration(str(keep))
        )
    except ValueError as error:
        raise InvalidInput(str(error), path=what) from None
    if length <= 0:
        raise InvalidInput(f"{keep} is no time at all; write it like 1h", path=what)
    return length

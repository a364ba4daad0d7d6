"""What a start leaves out. Light: no schema is checked here (`inputs`)."""

from __future__ import annotations

import json


def default_input(schema: str | None, value: object) -> object:
    """No input given means an empty object, unless the schema (JSON text) asks for something else."""
    if value is not None:
        return value
    wanted: object = json.loads(schema) if schema else None
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    return {} if kind is None or kind == "object" or "object" in kind else None

"""What things may be called, and how long an address may be: the same whether it is written, computed or sent."""

from __future__ import annotations

import re

ADDRESS_MAX = 512
"""Characters of an event's key and id, and of an idempotency key."""

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
"""Of a workflow, a queue, an alias."""
TASK_NAME = re.compile(r"(?!(?:http|code)$)[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}")
EVENT_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,200}")

"""The bounds that the door checks, as one table that `docs/limits.md` shows. No check is made here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tenuto.model.definition import (
    CALL_DEPTH_MAX,
    CONCURRENCY_MAX,
    DEFINITION_MAX,
    ITEMS_MAX,
    NESTING_MAX,
    NODES_MAX,
    PRIORITY_MAX,
)
from tenuto.model.instants import DAY_US, DURATION_MAX_US
from tenuto.model.names import ADDRESS_MAX, NAME
from tenuto.model.payload import PAYLOAD_MAX
from tenuto.model.retry import LOST_MAX

ATTEMPTS_MAX = 1_000_000
FACTOR_MAX = 1_000
PASSES_MAX = 1_000_000
SCHEMA_MAX = 10_000
"""Values in an `input` schema: checking it costs up to 0.1 ms each."""
WORD_MAX = ADDRESS_MAX
"""Characters of an idempotency key, and of an event's key and id (`coordinator.mailbox`)."""
REASON_MAX = 2_000
JOIN_MAX = 10_000
BATCH_MAX = 10_000
RULES_MAX = 100
"""Rules of one `retry`."""
NAMES_MAX = 100
"""Failures that one rule names, or `give_up_on`."""

ID = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
WORKFLOW_NAME = re.compile(rf"{NAME.pattern}(?:@{NAME.pattern})?")
FAILURE_CODE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")

# CEL's own words and those that it keeps for itself: `nodes.in` could not be written (X7).
RESERVED = frozenset(
    {
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import"),
        *("in", "let", "loop", "namespace", "null", "package", "return", "true", "var", "void"),
        "while",
    }
)


@dataclass(frozen=True, slots=True)
class Limit:
    """A row: what is bounded, by how much, and what happens beyond it."""

    what: str
    bound: str
    beyond: str


LIMITS: tuple[Limit, ...] = (
    Limit("a definition's text", f"{DEFINITION_MAX:,} bytes of UTF-8", "`too_large`"),
    Limit("what YAML aliases add to it", f"{DEFINITION_MAX:,} characters", "`alias_bomb`"),
    Limit("nesting of values", f"{NESTING_MAX} levels", "`too_deep`"),
    Limit("nodes, those in `do` included", f"{NODES_MAX:,}", "`too_many_nodes`"),
    Limit("values in the `input` schema", f"{SCHEMA_MAX:,}", "`input_schema`"),
    Limit("whole numbers", "64 bits, signed", "`number_range`"),
    Limit("a duration", f"{DURATION_MAX_US // DAY_US:,}d", "`bad_duration`"),
    Limit("a node's id", f"`{ID.pattern}`, and no word of CEL", "`bad_id`"),
    Limit("the names of a workflow and of a queue", f"`{NAME.pattern}`", "`bad_value`"),
    Limit(
        "a task's name", "200 of letters, digits and `_.:/-`, not `http` or `code`", "`bad_value`"
    ),
    Limit("an event's name", "200 characters, none of control", "`bad_value`"),
    Limit("a failure's code", f"`{FAILURE_CODE.pattern}`", "`bad_value`"),
    Limit("`max_attempts`", f"1 to {ATTEMPTS_MAX:,}", "`bad_value`"),
    Limit("`factor`", f"1 to {FACTOR_MAX:,}", "`bad_value`"),
    Limit("`priority`, a node's and a run's", f"0 to {PRIORITY_MAX}", "`bad_value`; refused"),
    Limit("`rules` of one `retry`", f"{RULES_MAX}", "`bad_value`"),
    Limit("failures that a rule or `give_up_on` names", f"{NAMES_MAX}", "`bad_value`"),
    Limit("`loop: {max: …}` and its `keep`", f"1 to {PASSES_MAX:,}", "`bad_value`"),
    Limit(
        "`concurrency` of a foreach",
        f"1 to {CONCURRENCY_MAX:,}",
        "`bad_value`; a computed one: the node's failure `expression_error`",
    ),
    Limit("`batch`", f"1 to {BATCH_MAX:,}", "`bad_value`"),
    Limit("items of a foreach", f"{ITEMS_MAX:,}", "the node's failure `too_many_items`"),
    Limit("runs that call runs", f"{CALL_DEPTH_MAX} levels", "the call's failure `call_depth`"),
    Limit(
        "lost leases of one task",
        f"{LOST_MAX}",
        "the task is dead with `lease_lost`",
    ),
    Limit("an idempotency key, an event's key or id", f"{WORD_MAX} characters", "refused"),
    Limit("the reason of a cancel", f"{REASON_MAX:,} characters", "refused"),
    Limit(
        "a payload (input, output, error)",
        f"{PAYLOAD_MAX:,} bytes of JSON",
        "the node's failure `payload_too_large`; as a run's input, `start` refuses it",
    ),
)


def as_markdown() -> str:
    """The table for the docs."""
    rows = (f"| {row.what} | {row.bound} | {row.beyond} |" for row in LIMITS)
    return "\n".join(["| what | bound | beyond it |", "|---|---|---|", *rows])

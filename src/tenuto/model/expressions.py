"""Expressions as the graph holds them: text with the names that they read, and what evaluating yields. No evaluation.

The names are found at compile time and stored with the definition, so a stored graph loads without CEL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from tenuto.model.ids import MessageId
from tenuto.model.payload import Output, PayloadKey, Text


class ExpressionKind(StrEnum):
    """What evaluating must yield."""

    CONDITION = "condition"
    """Bare CEL; a bool (SEMANTICS X7)."""
    VALUE = "value"
    """A JSON tree as text whose strings may hold `${…}`; canonical JSON."""
    KEY = "key"
    """Like VALUE, and the result is a string or an integer; yields its plain text."""


class Root(StrEnum):
    """First name of a reference."""

    INPUT = "input"
    VARS = "vars"
    NODES = "nodes"
    ITERATION = "iteration"
    ERROR = "error"
    SECRETS = "secrets"


@dataclass(frozen=True, slots=True)
class Read:
    """One name that an expression reads: a root, and for `nodes` the node's id and field (`output`, `status`, …)."""

    root: Root
    node: str = ""
    field: str = ""


@dataclass(frozen=True, slots=True)
class Expression:
    """`text` is CEL (CONDITION) or JSON (VALUE, KEY). `where` names it for errors: `nodes.charge.request`."""

    kind: ExpressionKind
    text: str
    where: str
    reads: tuple[Read, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeView:
    """What an expression sees of one node (X2, X3). A node it may not see is absent from the scope."""

    id: str
    status: str
    attempts: int
    output: Output = None
    has_output: bool = False
    error: PayloadKey | None = None
    iteration: int | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """All that one evaluation may read. Keys name payloads of the run; None of `error` is JSON null (X4).

    `fresh`: payloads made by the decision under way, newer than anything stored under the same key.
    """

    input: PayloadKey
    vars: PayloadKey
    nodes: tuple[NodeView, ...] = ()
    iteration: int | None = None
    error: PayloadKey | None = None
    fresh: Mapping[PayloadKey, Text] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A condition held or not."""

    holds: bool


@dataclass(frozen=True, slots=True)
class Fault:
    """Evaluation failed: an error of the user's, as data."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Missing:
    """Texts that the evaluator lacks; load them and ask again. `mailbox` are (event name, key) look-ups."""

    payloads: tuple[PayloadKey, ...] = ()
    mailbox: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """The oldest unused message of a mailbox address, or none (`id` None)."""

    id: MessageId | None
    payload: Text = Text(0)


Outcome = Verdict | Text | Fault | Message
"""What evaluating yielded: a fact, recorded in the event's row (X8)."""


class Evaluator(Protocol):
    """Live it is CEL, folding it is the recorded list, in property tests a table."""

    def evaluate(self, expression: Expression, scope: Scope) -> Verdict | Text | Fault | Missing:
        """CONDITION yields Verdict, VALUE and KEY yield Text; or Fault; or Missing."""
        ...

    def mailbox(self, event: str, key: Text) -> Message | Missing:
        """The oldest unused message stored under (event, key) in the run's namespace."""
        ...


def reads_of(expressions: Sequence[Expression | None]) -> tuple[Read, ...]:
    """All reads of some expressions, each once, in order."""
    return tuple(dict.fromkeys(r for e in expressions if e is not None for r in e.reads))


@dataclass(frozen=True, slots=True)
class FoundRead:
    """A read with its place in the text (`offset` in code points) and whether a guard stands around it (X3).

    Guards: `has(…)`, `?.`, `[?…]`, `orValue`/`optional`, or standing in a branch of a test on `iteration`.
    """

    read: Read
    offset: int
    guarded: bool


@dataclass(frozen=True, slots=True)
class Parsed:
    """What parsing and checking found out. `result` is CEL's type name (`bool`, `dyn`, `int`, `string`, …)."""

    reads: tuple[FoundRead, ...]
    result: str
    divides_ints: tuple[int, ...] = ()
    """Offsets of divisions of two provable ints (warning of X8)."""


@dataclass(frozen=True, slots=True)
class ParseError:
    """The text is no expression. `later`: the name of a function or root that a later release brings (`not_yet`)."""

    offset: int
    message: str
    later: str | None = None
    suggestion: str | None = None


class Parser(Protocol):
    """Reads expression text at the definition's door; `adapters.cel` implements it."""

    def parse(self, text: str) -> Parsed | ParseError:
        """Parse and check one CEL expression."""
        ...

    def end_of(self, text: str, start: int) -> int | None:
        """Index of the `}` that ends the expression beginning at `start`, by CEL's own lexical rules (X7)."""
        ...

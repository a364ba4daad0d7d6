"""Expressions as the graph holds them: text with the names that they read, and what evaluating yields. No evaluation.

The names are found at compile time and stored with the definition, so a stored graph loads without CEL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from tenuto.model.ids import MessageId, Place
from tenuto.model.payload import ItemsView, Output, PayloadKey, Text
from tenuto.model.shapes import Checked, Shape


class ExpressionKind(StrEnum):
    """What evaluating must yield."""

    CONDITION = "condition"
    """Bare CEL; a bool (SEMANTICS X7)."""
    VALUE = "value"
    """A JSON tree as text whose strings may hold `${…}`; canonical JSON."""
    KEY = "key"
    """Like VALUE, and the result is a string or an integer; yields its plain text."""
    NAME = "name"
    """Like KEY, a string that names something: a task, a queue, a workflow, an event. Recorded whole: `Named`."""
    DURATION = "duration"
    """Like VALUE: a text like `1h30m` or a CEL duration, above nothing; yields `Number`, microseconds."""
    INSTANT = "instant"
    """Like VALUE: RFC 3339 with an offset, or a CEL timestamp; yields `Number`, microseconds since 1970."""
    COUNT = "count"
    """Like VALUE: a whole number, not below 0; yields `Number`."""
    TOLERANCE = "tolerance"
    """Like VALUE: a whole number, or a text like `5%`; yields `Number`."""
    ITEMS = "items"
    """Bare CEL; a list. Yields `Listed`."""
    EVENT_ERROR = "event_error"
    """No text of the user's: the error value that `event.error` stands for (`fail_when`). Yields Text."""


class Root(StrEnum):
    """First name of a reference."""

    INPUT = "input"
    VARS = "vars"
    NODES = "nodes"
    ITERATION = "iteration"
    ERROR = "error"
    SECRETS = "secrets"
    PARAMS = "params"
    """Of an inline graph."""
    ITEM = "item"
    INDEX = "index"
    EVENT = "event"
    """The message, in `match` and `fail_when`."""
    NODE = "node"
    """Of the reader itself: `entered_at`, `callback_key` (X6)."""
    OUTPUT = "output"
    """The child's, in `output` of a call."""
    CURSOR = "cursor"
    """Where the page before ended, null for the first: in `params` of a `source`."""


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
    callback_key: str | None = None
    items: ItemsView | None = None
    """Of a foreach, however it ended: what `failures` and `items` list."""
    passes: tuple[str, int, int] | None = None
    """What `iterations` lists: (prefix of the places, identity epoch, loops around the node)."""
    maybe: bool = False
    """Its output is there if its payload is: a pass that is over has no letter (C3)."""


@dataclass(frozen=True, slots=True)
class ItemRef:
    """Where `item` is found.

    Attributes:
        key: the payload that holds it.
        at: position in the list, None where the payload is the item itself. With `batch`: position of the first.
        batch: how many, as a list; 0: the one item.
        paged: the payload is a page, `{"items": [...]}`.
    """

    key: PayloadKey
    at: int | None
    batch: int = 0
    paged: bool = False


@dataclass(frozen=True, slots=True)
class Itself:
    """What the reader knows of itself (X6). `seed`: what `uuid('name')` is made of, with the name."""

    entered_at: int
    callback_key: str
    seed: str


@dataclass(frozen=True, slots=True)
class Scope:
    """All that one evaluation may read. Keys name payloads of the run; None of `error` is JSON null (X4).

    Attributes:
        fresh: payloads made by the decision under way, newer than anything stored under the same key.
        states: states of items' tasks as the decision under way left them, by place, newer than the stored ones.
        dropped: places of foreach nodes whose open items the decision under way has cancelled.
        forgotten: places of passes whose payloads it has dropped, stored or fresh, and those of inner passes with them.
        params, item, index, cursor: absent for None; but the cursor of a first page is JSON null. It is `next` of the
            page whose output the key names.
        event, output: texts on their way, absent for None.
    """

    input: PayloadKey
    vars: PayloadKey
    nodes: tuple[NodeView, ...] = ()
    iteration: int | None = None
    error: PayloadKey | None = None
    fresh: Mapping[PayloadKey, Text] = field(default_factory=dict)
    states: Mapping[Place, str] = field(default_factory=dict)
    dropped: frozenset[Place] = frozenset()
    forgotten: frozenset[Place] = frozenset()
    params: PayloadKey | None = None
    item: ItemRef | None = None
    index: int | None = None
    cursor: PayloadKey | None = None
    event: Text | None = None
    output: Text | None = None
    itself: Itself | None = None


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
    mailbox: tuple[tuple[str, str, MessageId | None], ...] = ()
    """(event name, key, after this message): see `Evaluator.mailbox`."""
    maybe: tuple[PayloadKey, ...] = ()
    """Like `payloads`, but there may be none."""
    items: tuple[Place, ...] = ()
    """Places of foreach nodes whose items' states and texts are wanted."""
    passes: tuple[tuple[str, int], ...] = ()
    """(prefix of the places, identity epoch) of nodes whose passes' texts are wanted."""
    callees: tuple[tuple[str, str], ...] = ()
    """(workflow as named, input text): see `Evaluator.callee`."""


@dataclass(frozen=True, slots=True)
class Message:
    """The oldest unused message of a mailbox address, or none (`id` None)."""

    id: MessageId | None
    payload: Text = Text(0)


@dataclass(frozen=True, slots=True)
class Named:
    """A name, whole."""

    text: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number; a time in microseconds. `percent`: of a tolerance."""

    value: int
    percent: bool = False


@dataclass(frozen=True, slots=True)
class Listed:
    """A list: its canonical text and how many items it has."""

    text: Text
    count: int


@dataclass(frozen=True, slots=True)
class Page:
    """What a page of a list holds: how many items, and whether there is another page."""

    count: int
    more: bool


@dataclass(frozen=True, slots=True)
class Callee:
    """The version that a call's name means now, and the child's input with its defaults filled in.

    `definition`: content hash. `vars`: the child's constants, canonical JSON.
    """

    workflow: str
    version: int
    definition: str
    input: Text
    vars: Text


Outcome = Verdict | Text | Fault | Message | Named | Number | Listed | Page | Callee
"""What evaluating yielded: a fact, recorded in the event's row (X8)."""


class Evaluator(Protocol):
    """Live it is CEL, folding it is the recorded list, in property tests a table."""

    def evaluate(
        self, expression: Expression, scope: Scope
    ) -> Verdict | Text | Named | Number | Listed | Fault | Missing:
        """By the expression's kind, as `ExpressionKind` says; or Fault; or Missing."""
        ...

    def mailbox(self, event: str, key: Text, after: MessageId | None = None) -> Message | Missing:
        """The oldest unused message stored under (event, key) in the run's namespace; the next one after `after`."""
        ...

    def page(self, output: PayloadKey, fresh: Mapping[PayloadKey, Text]) -> Page | Fault | Missing:
        """What the output of a `source` task holds; Fault `invalid_page`."""
        ...

    def callee(self, name: str, input: Text) -> Callee | Fault | Missing:
        """Which version a workflow's name means; Fault `unknown_workflow`, or `invalid_input` for its schema (F6)."""
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
    """The text is no expression."""

    offset: int
    message: str
    suggestion: str | None = None


class Parser(Protocol):
    """Reads expression text at the definition's door; `adapters.cel` implements it."""

    def parse(self, text: str) -> Parsed | ParseError:
        """Parse and check one CEL expression."""
        ...

    def end_of(self, text: str, start: int) -> int | None:
        """Index of the `}` that ends the expression beginning at `start`, by CEL's own lexical rules (X7)."""
        ...

    def check(
        self, texts: Sequence[str], known: Mapping[str, Shape]
    ) -> Sequence[Checked | ParseError]:
        """What is proven of expressions that read roots of these shapes; an answer for each text."""
        ...

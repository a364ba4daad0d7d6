"""Evaluates expressions over a run's payloads: the live `Evaluator` (SEMANTICS X1-X9, DESIGN section 4).

Total: whatever the user's text or data is, the answer is an outcome, a fault or what is missing. It loads nothing:
texts come from a mapping that the caller fills. Evaluation is bounded by size and count, never by time (X8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from tenuto.adapters.cel import complaints, engine, functions, kinds
from tenuto.adapters.cel.context import (
    BUILT_MAX,
    CONTEXT_MAX,
    Data,
    Seen,
    Sight,
    Stuck,
    follow,
    kind_of,
)
from tenuto.adapters.cel.payloads import Payloads
from tenuto.adapters.cel.program import Program, program_of
from tenuto.adapters.cel.template import Unfit, constant_of, template_of
from tenuto.model.expressions import (
    Callee,
    Expression,
    ExpressionKind,
    Fault,
    Listed,
    Message,
    Missing,
    Named,
    Number,
    Page,
    ParseError,
    Scope,
    Verdict,
)
from tenuto.model.ids import MessageId, Place
from tenuto.model.payload import PayloadKey, Text
from tenuto.ports.store import ItemRow, PayloadRow
from tenuto.runtime import results

EXPRESSION_ERROR = "expression_error"
INVALID_PAGE = "invalid_page"

_T = TypeVar("_T")
_SNIPPET_MAX = 120

_NUMBERS = frozenset(
    {
        ExpressionKind.DURATION,
        ExpressionKind.INSTANT,
        ExpressionKind.COUNT,
        ExpressionKind.TOLERANCE,
    }
)
_TIMES = frozenset({ExpressionKind.DURATION, ExpressionKind.INSTANT})

Evaluated = Verdict | Text | Named | Number | Listed


class CelEvaluator:
    """Implements `model.expressions.Evaluator` for the payloads of one run.

    All that is given is read, never changed, and may grow between calls; but a sequence, once given, stays as it is.
    Parsed payloads are kept as long as the evaluator: make one for each batch of decisions, not for the process.
    Compiled programs and the values of large texts are shared by the process.

    Args:
        texts: canonical JSON by key.
        messages: what the mailbox look-ups found, by (event name, key, after this message).
        items: of a foreach at a place, its items' rows in any order; an item that was never begun has none.
        passes: of a node, by (prefix of its places, epoch), what its passes left, in any order.
        callees: what a workflow's name and input were found to mean, by (name, input text).
        absent: keys that were looked for and are not there.
    """

    def __init__(
        self,
        texts: Mapping[PayloadKey, str],
        messages: Mapping[tuple[str, str, MessageId | None], Message] | None = None,
        *,
        items: Mapping[Place, Sequence[ItemRow]] | None = None,
        passes: Mapping[tuple[str, int], Sequence[PayloadRow]] | None = None,
        callees: Mapping[tuple[str, str], Callee | Fault] | None = None,
        absent: AbstractSet[PayloadKey] = frozenset(),
    ) -> None:
        self._payloads = Payloads(texts)
        self._messages = {} if messages is None else messages
        self._callees = {} if callees is None else callees
        rows = {} if items is None else items
        self._data = Data(self._payloads, rows, {} if passes is None else passes, absent)

    def evaluate(self, expression: Expression, scope: Scope) -> Evaluated | Fault | Missing:
        try:
            if expression.kind is ExpressionKind.CONDITION:
                return self._condition(expression, scope)
            if expression.kind is ExpressionKind.ITEMS:
                return self._items(expression, scope)
            if expression.kind is ExpressionKind.EVENT_ERROR:
                return self._event_error(expression, scope)
            return self._value(expression, scope)
        except _Failed as failed:
            return Fault(failed.code, _placed(failed, expression))

    def mailbox(self, event: str, key: Text, after: MessageId | None = None) -> Message | Missing:
        assert key.text is not None, "a key is asked for live, with its text"
        address = (event, key.text, after)
        found = self._messages.get(address)
        return Missing(mailbox=(address,)) if found is None else found

    def page(self, output: PayloadKey, fresh: Mapping[PayloadKey, Text]) -> Page | Fault | Missing:
        text = self._payloads.text(output, fresh)
        if text is None:
            return Missing(payloads=(output,))
        try:
            return kinds.page_of(self._payloads.value(text))
        except Unfit as unfit:
            return Fault(INVALID_PAGE, str(unfit))

    def callee(self, name: str, input: Text) -> Callee | Fault | Missing:
        assert input.text is not None, "a callee is asked for live, with its input"
        called = (name, input.text)
        found = self._callees.get(called)
        return Missing(callees=(called,)) if found is None else found

    def _condition(self, expression: Expression, scope: Scope) -> Verdict | Missing:
        holds = self._bare(expression, scope, "a condition")
        if isinstance(holds, Missing):
            return holds
        if holds is True or holds is False:
            return Verdict(holds)
        raise _Failed(f"the condition gave {kind_of(holds)}, not true or false")

    def _items(self, expression: Expression, scope: Scope) -> Listed | Missing:
        found = self._bare(expression, scope, "a list")
        if isinstance(found, Missing):
            return found
        items = _checked(kinds.list_of, found)
        return Listed(_text(items), len(items))

    def _bare(self, expression: Expression, scope: Scope, what: str) -> object | Missing:
        """The value of bare CEL."""
        program = program_of(expression.text)
        if isinstance(program, ParseError):
            raise _Failed(program.message)
        if program.secret is not None:
            raise _Failed(f"{what} cannot read a secret: only workers know it")
        sight = Sight(self._data, scope)
        seen = sight.seen(program)
        return sight.missing.told() if sight.missing else _run(program, seen, scope)

    def _event_error(self, expression: Expression, scope: Scope) -> Text:
        told = scope.event
        assert told is not None, "it is asked for where an event failed its wait"
        assert told.text is not None, "it is asked for live, with the event's text"
        return _text(kinds.event_error(self._payloads.value(told.text), node=expression.text))

    def _value(self, expression: Expression, scope: Scope) -> Text | Named | Number | Missing:
        if expression.kind is ExpressionKind.VALUE:
            constant = constant_of(expression.text)
            if constant is not None:
                return constant
        template = template_of(expression.text)
        if isinstance(template, str):
            raise _Failed(template)
        kind = expression.kind
        if template.secrets and kind is not ExpressionKind.VALUE:
            raise _Failed(f"a {kind} cannot hold a secret: only workers know it")
        sight = Sight(self._data, scope)
        seen = [sight.seen(program) for program in template.holes]
        if sight.missing:
            return sight.missing.told()
        values = [
            _run(program, part, scope, times=kind in _TIMES)
            for program, part in zip(template.holes, seen, strict=True)
        ]
        try:
            value = template.fill(values)
        except Unfit as unfit:
            raise _Failed(str(unfit)) from unfit
        if kind is ExpressionKind.KEY:
            key = _checked(kinds.key_of, value)
            return Text(len(key.encode()), key)
        key_of_node = expression.where.rpartition(".")[2]
        if kind is ExpressionKind.NAME:
            return _checked(partial(kinds.name_of, key=key_of_node), value)
        if kind in _NUMBERS:
            return _checked(partial(kinds.number_of, kind, key=key_of_node), value)
        return _text(value)


class _Failed(Exception):
    """Evaluation ends in a Fault. `text`: the expression at fault, where the whole text holds several."""

    def __init__(self, message: str, *, text: str = "", code: str = EXPRESSION_ERROR) -> None:
        self.code, self.text = code, text
        super().__init__(message)


def _checked(read: Callable[[object], _T], value: object) -> _T:
    """What a value stands for."""
    try:
        return read(value)
    except Unfit as unfit:
        raise _Failed(str(unfit)) from unfit


def _run(program: Program, seen: Seen, scope: Scope, *, times: bool = False) -> object:
    """One program's value. `times`: it may be a timestamp or a duration."""
    path = program.names.whole
    if path is not None:
        try:
            return follow(seen.names, path)
        except Stuck as stuck:
            raise _Failed(stuck.message, text=program.text) from stuck
    assert program.compiled is not None
    if seen.is_too_large():
        raise _Failed(
            f"the expression reads more than {CONTEXT_MAX // 1024} kB:"
            " name the fields that it needs, or do the work in a task",
            text=program.text,
        )
    if program.names.builds and seen.longest() > BUILT_MAX:
        raise _Failed(
            f"the expression reads a list of {seen.longest():,} elements:"
            f" `map`, `filter` and `sortBy` take {BUILT_MAX:,}, do the work in a task",
            text=program.text,
        )
    seed = "" if scope.itself is None else scope.itself.seed
    longest = BUILT_MAX if program.names.builds else functions.RANGE_MAX
    value = engine.run(program.compiled, seen.names, seed, longest)
    if isinstance(value, engine.Raised):
        explained = _explained(value.complaint, program, seen.names)
        raise _Failed(explained, text=program.text)
    if isinstance(value, bytearray) or (not times and isinstance(value, datetime | timedelta)):
        what = f"the expression gave {kind_of(value)}, which JSON cannot hold"
        raise _Failed(f"{what}: write string(…) around it", text=program.text)
    return value


def _explained(complaint: str, program: Program, names: Mapping[str, object]) -> str:
    """The complaint with the place in the data, where one of the program's paths leads nowhere."""
    message = complaints.run_error(complaint)
    if not complaints.is_about_access(complaint):
        return message
    for path in sorted(program.names.paths, key=lambda path: (path.guarded, path.offset)):
        try:
            follow(names, path)
        except Stuck as stuck:
            if not complaints.is_missing_key(complaint) or message.endswith(f": {stuck.key}"):
                return stuck.message
    return message


def _text(value: object) -> Text:
    """The canonical text of a value."""
    try:
        data = results.canonical_bytes(value, name="the result", cures=functions.CURES)
    except results.Refused as refused:
        too_large = refused.code == results.PAYLOAD_TOO_LARGE
        code = refused.code if too_large else EXPRESSION_ERROR
        raise _Failed(refused.message, code=code) from refused
    return Text(len(data), data.decode())


def _placed(failed: _Failed, expression: Expression) -> str:
    """A message with the place of the expression and its text."""
    text = failed.text.strip() or expression.text
    snippet = text if len(text) <= _SNIPPET_MAX else f"{text[:_SNIPPET_MAX]}…"
    where = f"{expression.where}: " if expression.where else ""
    return f"{failed} ({where}`{snippet}`)"

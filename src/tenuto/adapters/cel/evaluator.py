"""Evaluates expressions over a run's payloads: the live `Evaluator` (SEMANTICS X1-X9, DESIGN section 4).

Total: whatever the user's text or data is, the answer is an outcome, a fault or what is missing. It loads nothing:
texts come from a mapping that the caller fills. Evaluation is bounded by size and count, never by time (X8).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from tenuto.adapters.cel import complaints, engine
from tenuto.adapters.cel.context import CONTEXT_MAX, Payloads, Seen, Sight, Stuck, follow, kind_of
from tenuto.adapters.cel.program import Program, program_of
from tenuto.adapters.cel.template import Template, Unfit, template_of
from tenuto.model.expressions import (
    Expression,
    ExpressionKind,
    Fault,
    Message,
    Missing,
    ParseError,
    Scope,
    Verdict,
)
from tenuto.model.payload import PayloadKey, Text
from tenuto.runtime import results

EXPRESSION_ERROR = "expression_error"

_CURES: Mapping[str, str] = {
    "NaN": "test the operands first",
    "an infinity": "test the divisor first",
    "int": "use a double, or a string",
    "key": "write string(…) around the key",
    "bytearray": "write string(…) around it",
    "datetime": "write string(…) around it",
    "timedelta": "write string(…) around it",
}
_SNIPPET_MAX = 120


class CelEvaluator:
    """Implements `model.expressions.Evaluator` for the payloads of one run.

    `texts` holds canonical JSON by key and may grow between calls; `messages` is what the mailbox look-ups found, by
    (event name, key). Both are read, never changed. Parsed payloads are kept as long as the evaluator: make one for
    each batch of decisions, not for the process. Compiled programs are shared by the process.
    """

    def __init__(
        self,
        texts: Mapping[PayloadKey, str],
        messages: Mapping[tuple[str, str], Message] | None = None,
    ) -> None:
        self._payloads = Payloads(texts)
        self._messages = {} if messages is None else messages

    def evaluate(self, expression: Expression, scope: Scope) -> Verdict | Text | Fault | Missing:
        try:
            if expression.kind is ExpressionKind.CONDITION:
                return self._condition(expression, scope)
            return self._value(expression, scope)
        except _Failed as failed:
            return Fault(failed.code, _placed(failed, expression))

    def mailbox(self, event: str, key: Text) -> Message | Missing:
        assert key.text is not None, "a key is asked for live, with its text"
        address = (event, key.text)
        found = self._messages.get(address)
        return Missing(mailbox=(address,)) if found is None else found

    def _condition(self, expression: Expression, scope: Scope) -> Verdict | Missing:
        program = program_of(expression.text)
        if isinstance(program, ParseError):
            raise _Failed(program.message)
        if program.secret is not None:
            raise _Failed("a condition cannot read a secret: only workers know it")
        sight = Sight(self._payloads, scope)
        seen = sight.seen(program)
        if sight.missing:
            return Missing(tuple(sight.missing))
        holds = _run(program, seen)
        if holds is True or holds is False:
            return Verdict(holds)
        raise _Failed(f"the condition gave {kind_of(holds)}, not true or false")

    def _value(self, expression: Expression, scope: Scope) -> Text | Missing:
        template = template_of(expression.text)
        if isinstance(template, str):
            raise _Failed(template)
        sight = Sight(self._payloads, scope)
        seen = [sight.seen(program) for program in template.holes]
        if sight.missing:
            return Missing(tuple(sight.missing))
        values = [_run(*pair) for pair in zip(template.holes, seen, strict=True)]
        try:
            value = template.fill(values)
        except Unfit as unfit:
            raise _Failed(str(unfit)) from unfit
        if expression.kind is ExpressionKind.KEY:
            return _key(template, value)
        return _text(value)


class _Failed(Exception):
    """Evaluation ends in a Fault. `text`: the expression at fault, where the whole text holds several."""

    def __init__(self, message: str, *, text: str = "", code: str = EXPRESSION_ERROR) -> None:
        self.code, self.text = code, text
        super().__init__(message)


def _run(program: Program, seen: Seen) -> object:
    """One program's value."""
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
    value = engine.run(program.compiled, seen.names)
    if isinstance(value, engine.Raised):
        explained = _explained(value.complaint, program, seen.names)
        raise _Failed(explained, text=program.text)
    if isinstance(value, datetime | timedelta | bytearray):
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


def _key(template: Template, value: object) -> Text:
    """The plain text of a key."""
    if template.secrets:
        raise _Failed("a key cannot hold a secret: only workers know it")
    if isinstance(value, str):
        text = value
    elif isinstance(value, int) and not isinstance(value, bool):
        text = str(value)
    else:
        raise _Failed(f"the key is {kind_of(value)}: a string or an integer is needed")
    if "\0" in text:
        raise _Failed("the key holds a NUL character")
    return Text(len(text.encode()), text)


def _text(value: object) -> Text:
    """The canonical text of a value."""
    try:
        data = results.canonical_bytes(value, name="the result", cures=_CURES)
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

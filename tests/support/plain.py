"""The plainest evaluator: a value is its own text, a condition holds unless it says `false`. Reads nothing."""

from __future__ import annotations

from collections.abc import Mapping

from tenuto.model.expressions import (
    Expression,
    ExpressionKind,
    Fault,
    Message,
    Missing,
    Scope,
    Verdict,
)
from tenuto.model.payload import PayloadKey, Text


class PlainEvaluator:
    """A table would say no more. The mailbox is what it was given; other addresses are missing."""

    def __init__(
        self,
        texts: Mapping[PayloadKey, str] | None = None,
        messages: Mapping[tuple[str, str], Message] | None = None,
    ) -> None:
        self._messages = {} if messages is None else messages

    def evaluate(self, expression: Expression, scope: Scope) -> Verdict | Text | Fault | Missing:
        if expression.kind is ExpressionKind.CONDITION:
            return Verdict(expression.text != "false")
        text = expression.text
        if expression.kind is ExpressionKind.KEY:
            text = text.strip('"')
        return Text(len(text.encode()), text)

    def mailbox(self, event: str, key: Text) -> Message | Missing:
        assert key.text is not None
        address = (event, key.text)
        found = self._messages.get(address)
        return Missing(mailbox=(address,)) if found is None else found

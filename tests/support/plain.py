"""The plainest evaluator: a value is its own text, a condition holds unless it says `false`. Reads nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

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
    Scope,
    Verdict,
)
from tenuto.model.ids import MessageId
from tenuto.model.payload import PayloadKey, Text

Messages = Mapping[Any, Message]
"""By (event, key), or (event, key, after)."""


class PlainEvaluator:
    """A table would say no more. The mailbox is what it was given; other addresses are missing."""

    def __init__(
        self,
        texts: Mapping[PayloadKey, str] | None = None,
        messages: Messages | None = None,
        **known: Any,
    ) -> None:
        self._texts = {} if texts is None else texts
        self._messages = {} if messages is None else messages
        self._callees: Mapping[tuple[str, str], Callee | Fault] = known.get("callees", {})

    def evaluate(
        self, expression: Expression, scope: Scope
    ) -> Verdict | Text | Named | Number | Listed | Fault | Missing:
        text = expression.text
        match expression.kind:
            case ExpressionKind.CONDITION:
                return Verdict(text != "false")
            case ExpressionKind.KEY:
                text = text.strip('"')
            case ExpressionKind.NAME:
                return Named(text.strip('"'))
            case ExpressionKind.ITEMS:
                return Listed(_sized(text), len(json.loads(text)))
            case ExpressionKind.VALUE | ExpressionKind.EVENT_ERROR:
                pass
            case _:
                return Number(int(text))
        return _sized(text)

    def mailbox(self, event: str, key: Text, after: MessageId | None = None) -> Message | Missing:
        assert key.text is not None
        address = (event, key.text, after)
        found = self._messages.get(address)
        if found is None and after is None:
            found = self._messages.get(address[:2])
        return Missing(mailbox=(address,)) if found is None else found

    def page(self, output: PayloadKey, fresh: Mapping[PayloadKey, Text]) -> Page | Fault | Missing:
        text = fresh[output].text if output in fresh else self._texts.get(output)
        if text is None:
            return Missing((output,))
        page = json.loads(text)
        return Page(len(page["items"]), page.get("next") is not None)

    def callee(self, name: str, input: Text) -> Callee | Fault | Missing:
        assert input.text is not None
        asked = (name, input.text)
        found = self._callees.get(asked)
        return Missing(callees=(asked,)) if found is None else found


def _sized(text: str) -> Text:
    return Text(len(text.encode()), text)

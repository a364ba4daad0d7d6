"""What expressions yield in the simulated world: a script's answers, and the plain things `${item}` and `${index}`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    Outcome,
    Page,
    Root,
    Scope,
    Verdict,
)
from tenuto.model.ids import MessageId, Place
from tenuto.model.payload import ItemsView, JoinView, Output, PayloadKey, Text

if TYPE_CHECKING:
    from tests.support.world.run import World

Answer = bool | str | int | Fault | Callable[[Scope, int], "bool | str | int | Fault"]
"""What an expression yields: verdict, JSON text, number, fault, or what a function of (scope, call from 1) says."""
Script = Mapping[str, Answer | Sequence[Answer]]
"""Expression text -> its answer, or answers call by call, the last one for ever."""


def text_of(text: str) -> Text:
    return Text(len(text.encode()), text)


@dataclass(slots=True)
class Asked:
    """One evaluation that counted: its decision was accepted."""

    expression: Expression
    scope: Scope
    outcome: Outcome


class Table:
    """Answers from the script. Texts, messages, workflows that it was not handed yet are `Missing` at first."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._calls = world.calls.copy()
        self.known: set[PayloadKey] = set()
        self.looked: dict[tuple[str, str, MessageId | None], Message] = {}
        self.called: set[tuple[str, str]] = set()
        self.items: set[Place] = set()
        self.passes: set[tuple[str, int]] = set()
        self.places: set[Place] = set()
        self.asked: list[Asked] = []

    def again(self) -> None:
        """The same decision starts once more; what it was handed stays known."""
        self._calls = self._world.calls.copy()
        self.asked = []

    def accept(self) -> None:
        self._world.calls = self._calls
        self._world.asked += self.asked

    def evaluate(
        self, expression: Expression, scope: Scope
    ) -> Verdict | Text | Named | Number | Listed | Fault | Missing:
        lacking = self._lacking(expression, scope)
        if lacking != Missing():
            return lacking
        self._calls[expression.text] += 1
        answer = self._answer(expression, scope, self._calls[expression.text])
        outcome = answer if isinstance(answer, Fault) else _yielded(expression, answer)
        self.asked.append(Asked(expression, scope, outcome))
        return outcome

    def mailbox(self, event: str, key: Text, after: MessageId | None = None) -> Message | Missing:
        assert key.text is not None
        if (event, key.text, after) not in self.looked:
            return Missing(mailbox=((event, key.text, after),))
        return self.looked[event, key.text, after]

    def page(self, output: PayloadKey, fresh: Mapping[PayloadKey, Text]) -> Page | Fault | Missing:
        if output not in fresh and output not in self.known:
            return Missing(payloads=(output,))
        told = json.loads(self._text(output, fresh))
        if not isinstance(told, dict) or not isinstance(told.get("items"), list):
            return Fault("invalid_page", "a page is an object with `items`")
        return Page(len(told["items"]), told.get("next") is not None)

    def callee(self, name: str, input: Text) -> Callee | Fault | Missing:
        assert input.text is not None
        if (name, input.text) not in self.called:
            return Missing(callees=((name, input.text),))
        return self._world.family.callee(name, input)

    # -- what is lacking ----------------------------------------------------------------------------------------

    def _lacking(self, expression: Expression, scope: Scope) -> Missing:
        payloads: list[PayloadKey] = []
        maybe: list[PayloadKey] = []
        items: list[Place] = []
        passes: list[tuple[str, int]] = []
        for thing in _needed(expression, scope):
            if isinstance(thing, ItemsView):
                if thing.place not in self.items:
                    items.append(thing.place)
            elif isinstance(thing, tuple):
                if thing not in self.passes:
                    passes.append(thing)
            elif isinstance(thing, _Maybe):
                if thing.key not in scope.fresh and thing.key not in self.known:
                    maybe.append(thing.key)
            elif thing not in scope.fresh and thing not in self.known:
                payloads.append(thing)
        return Missing(
            payloads=tuple(dict.fromkeys(payloads)),
            maybe=tuple(dict.fromkeys(maybe)),
            items=tuple(dict.fromkeys(items)),
            passes=tuple(dict.fromkeys(passes)),
        )

    # -- answers ------------------------------------------------------------------------------------------------

    def _text(self, key: PayloadKey, fresh: Mapping[PayloadKey, Text]) -> str:
        text = fresh[key].text if key in fresh else self._world.newest(key)
        assert text is not None, f"{key} was never put"
        return text

    def _answer(self, expression: Expression, scope: Scope, call: int) -> bool | str | int | Fault:
        script = self._world.script
        if expression.text in script:
            answer = script[expression.text]
            if isinstance(answer, Sequence) and not isinstance(answer, str):
                answer = answer[min(call, len(answer)) - 1]
            return answer(scope, call) if callable(answer) else answer
        plain = expression.text.strip('"')
        match plain:
            case "${item}":
                return self.item(scope)
            case "${index}":
                return str(scope.index)
            case "${cursor}":
                return self._cursor(scope)
            case "${output}":
                assert scope.output is not None, "no `output` here"
                return scope.output.text or "null"
            case _:
                pass
        match expression.kind:
            case ExpressionKind.CONDITION:
                assert expression.text in ("true", "false"), f"not scripted: {expression.text!r}"
                return expression.text == "true"
            case ExpressionKind.KEY | ExpressionKind.NAME:
                return plain
            case ExpressionKind.EVENT_ERROR:
                return '{"code":"told","message":"the event says so"}'
            case _:
                return expression.text

    def item(self, scope: Scope) -> str:
        """The item that the scope points at, as JSON."""
        ref = scope.item
        assert ref is not None, "no `item` here"
        value = json.loads(self._text(ref.key, scope.fresh))
        if ref.at is not None:
            listed = value["items"] if ref.paged else value
            value = listed[ref.at : ref.at + ref.batch] if ref.batch else listed[ref.at]
        return compact(value)

    def _cursor(self, scope: Scope) -> str:
        cursor: PayloadKey | None = getattr(scope, "cursor", None)
        if cursor is None:
            return "null"
        return compact(json.loads(self._text(cursor, scope.fresh))["next"])


def compact(value: object) -> str:
    """A value as JSON without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _yielded(
    expression: Expression, answer: bool | str | int
) -> Verdict | Text | Named | Number | Listed:
    """An answer of the script in the form of the expression's kind."""
    match expression.kind:
        case ExpressionKind.CONDITION:
            assert isinstance(answer, bool), expression
            return Verdict(answer)
        case ExpressionKind.NAME:
            assert isinstance(answer, str), expression
            return Named(answer)
        case ExpressionKind.DURATION | ExpressionKind.INSTANT | ExpressionKind.COUNT:
            return Number(int(answer))
        case ExpressionKind.TOLERANCE:
            return Number(int(str(answer).removesuffix("%")), str(answer).endswith("%"))
        case ExpressionKind.ITEMS:
            items = list(range(answer)) if isinstance(answer, int) else json.loads(answer)
            return Listed(text_of(compact(items)), len(items))
        case _:
            assert isinstance(answer, str), expression
            return text_of(answer)


@dataclass(frozen=True, slots=True)
class _Maybe:
    key: PayloadKey


def _needed(
    expression: Expression, scope: Scope
) -> Iterator[PayloadKey | ItemsView | _Maybe | tuple[str, int]]:
    views = {view.id: view for view in scope.nodes}
    for read in expression.reads:
        if read.root is Root.INPUT:
            yield scope.input
        elif read.root is Root.VARS:
            yield scope.vars
        elif read.root is Root.ERROR and scope.error is not None:
            yield scope.error
        elif read.root is Root.PARAMS and scope.params is not None:
            yield scope.params
        elif read.root is Root.ITEM and scope.item is not None:
            yield scope.item.key
        elif read.root.value == "cursor" and getattr(scope, "cursor", None) is not None:
            yield getattr(scope, "cursor")  # noqa: B009
        elif read.root is Root.NODES and read.node in views:
            view = views[read.node]
            if read.field == "output":
                for part in parts_of_output(view.output):
                    yield _Maybe(part) if view.maybe and isinstance(part, PayloadKey) else part
            elif read.field == "error" and view.error is not None:
                yield _Maybe(view.error) if view.maybe else view.error
            elif read.field in ("failures", "items") and view.items is not None:
                yield view.items
            elif read.field == "iterations" and view.passes is not None:
                yield view.passes[:2]


def parts_of_output(output: Output) -> Iterator[PayloadKey | ItemsView]:
    """Payloads and foreach lists that an output consists of."""
    if isinstance(output, PayloadKey | ItemsView):
        yield output
    elif isinstance(output, JoinView):
        for _, part in output.entries:
            yield from parts_of_output(part)

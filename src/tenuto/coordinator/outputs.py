"""The text of an output: what a view names, put together (J4, C5). Pure; whoever asks loads the parts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import assert_never

from tenuto.model.errors import InvariantViolated
from tenuto.model.ids import Place
from tenuto.model.payload import ItemsView, JoinView, Output, PayloadKey
from tenuto.ports.store import ItemRow

NULL = "null"


def payloads_of(output: Output) -> Iterator[PayloadKey]:
    """The payloads that an output is made of; those of items are in their rows."""
    match output:
        case PayloadKey():
            yield output
        case JoinView():
            for _, part in output.entries:
                yield from payloads_of(part)
        case ItemsView() | None:
            return
        case _:
            assert_never(output)


def lists_of(output: Output) -> Iterator[Place]:
    """Places of the foreach nodes whose items an output is made of."""
    match output:
        case ItemsView():
            yield output.place
        case JoinView():
            for _, part in output.entries:
                yield from lists_of(part)
        case PayloadKey() | None:
            return
        case _:
            assert_never(output)


def text_of_output(
    output: Output,
    payload: Callable[[PayloadKey], str | None],
    items: Mapping[Place, Sequence[ItemRow]],
) -> str:
    """Canonical JSON. Raises InvariantViolated where a payload is not stored."""
    match output:
        case None:
            return NULL
        case PayloadKey():
            text = payload(output)
            if text is None:
                raise InvariantViolated(f"{output} is an output, and is not stored")
            return text
        case ItemsView():
            texts = [NULL] * output.total
            for row in items.get(output.place, ()):
                if row.output is not None and row.state == "success" and row.index < output.total:
                    texts[row.index] = row.output
            return f"[{','.join(texts)}]"
        case JoinView():
            parts = {name: text_of_output(part, payload, items) for name, part in output.entries}
            return "{" + ",".join(f"{_quoted(name)}:{parts[name]}" for name in sorted(parts)) + "}"
        case _:
            assert_never(output)


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)

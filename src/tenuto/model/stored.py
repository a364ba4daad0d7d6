"""The stored form of a graph, and the hash of what a definition means. No analysis: a stored graph loads by reading.

The text is JSON, `{"v": 1, "definition": …, "structure": …}`; expressions carry the names that they read, so loading
needs no CEL. `Definition.source` is not in it: the text that a user wrote is stored beside it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from tenuto.model.definition import (
    SEMANTICS_VERSION,
    Definition,
    Detail,
    Edge,
    End,
    Fail,
    Node,
    NodeType,
    On,
    SetValue,
    Wait,
    WaitForEvent,
    Work,
)
from tenuto.model.errors import InvariantViolated
from tenuto.model.expressions import Expression, ExpressionKind, Read, Root
from tenuto.model.graph import Graph, Loop, Structure, index
from tenuto.model.retry import Jitter, RetryPolicy

VERSION = 1


def encode_graph(graph: Graph) -> str:
    """Write a graph as ASCII JSON. The same graph gives the same text."""
    structure = {
        "order": graph.order,
        "loops": [
            [loop.header, sorted(loop.body), loop.back, loop.max, loop.parent, loop.exits]
            for loop in graph.loops
        ],
        "races": [[join, sorted(race)] for join, race in sorted(graph.races.items())],
    }
    definition = _definition(graph.definition, _expression)
    return _text({"v": VERSION, "definition": definition, "structure": structure})


def decode_graph(text: str) -> Graph:
    """Read what `encode_graph` wrote; `definition.source` is empty.

    Raises:
        InvariantViolated: not such a text, or of another version. We wrote it, so it is no user's fault.
    """
    try:
        stored = json.loads(text)
        version = stored["v"]
        if version != VERSION:
            raise InvariantViolated(f"a stored graph has version {version}, expected {VERSION}")
        return index(_read_definition(stored["definition"]), _read_structure(stored["structure"]))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise InvariantViolated(f"a stored graph cannot be read: {error!r}") from error


def content_hash(definition: Definition) -> str:
    """Name what a definition means: sha256, 64 hex digits.

    In: the name, every node and edge in order, texts of expressions, clocks, schema, constants, and the version of the
    rules. Out: source, description, and what is derived from an expression's text or place.
    """
    meaning = _definition(definition, lambda expression: [expression.kind, expression.text])
    del meaning["description"]
    text = _text({"semantics": SEMANTICS_VERSION, "definition": meaning})
    return hashlib.sha256(text.encode("ascii")).hexdigest()


# --- writing -----------------------------------------------------------------------------------------


class _Write:
    """Turns an expression into JSON; chosen by what the text is for."""

    def __call__(self, expression: Expression) -> list[Any]: ...


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))

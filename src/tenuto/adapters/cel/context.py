"""What one evaluation may see: the payloads and node facts that a program names, and nothing else (X2-X4).

Collects the texts that are lacking, so that all are asked for at once. No evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import orjson

from tenuto.adapters.cel.names import Path, Step
from tenuto.adapters.cel.program import Program, Trie
from tenuto.model.expressions import NodeView, Root, Scope
from tenuto.model.payload import JoinView, Output, PayloadKey

CONTEXT_MAX = 262_144
"""Bytes of JSON that an expression may work on; plain access is bounded by the payload's own limit only."""

_PLAIN = str.isidentifier


class Payloads:
    """Texts by key, each parsed once."""

    def __init__(self, texts: Mapping[PayloadKey, str]) -> None:
        self._texts = texts
        self._parsed: dict[str, object] = {}

    def text(self, key: PayloadKey, scope: Scope) -> str | None:
        """The text of a payload; what the decision under way made comes before what was loaded."""
        fresh = scope.fresh.get(key)
        return self._texts.get(key) if fresh is None or fresh.text is None else fresh.text

    def value(self, text: str) -> object:
        """The value of a text of ours, which passed the door of results once."""
        if text not in self._parsed:
            self._parsed[text] = orjson.loads(text)
        return self._parsed[text]


@dataclass(frozen=True, slots=True)
class Seen:
    """The root names of a program, pruned to the keys that it reads.

    `bound`: characters of the texts that they came from.
    """

    names: Mapping[str, object]
    bound: int

    def is_too_large(self) -> bool:
        """Whether there is more than `CONTEXT_MAX`; measured only where the texts leave it open."""
        return self.bound > CONTEXT_MAX and len(orjson.dumps(self.names)) > CONTEXT_MAX


class Sight:
    """One scope as the programs of one expression see it. `missing` fills while they are asked for."""

    def __init__(self, payloads: Payloads, scope: Scope) -> None:
        self._payloads, self._scope = payloads, scope
        self._views: dict[str, NodeView] | None = None
        self._size = 0
        self.missing: dict[PayloadKey, None] = {}

    def seen(self, program: Program) -> Seen:
        """What a program reads; of no use while anything is missing."""
        scope, self._size = self._scope, 0
        names: dict[str, object] = {}
        for root, wants in program.wants.items():
            match root:
                case Root.INPUT:
                    names["input"] = self._pruned(scope.input, wants)
                case Root.VARS:
                    names["vars"] = self._pruned(scope.vars, wants)
                case Root.NODES:
                    names["nodes"] = self._nodes(wants or {}, program.stand_ins)
                case Root.ERROR if scope.error is not None:
                    names["error"] = self._pruned(scope.error, wants)
                case Root.ERROR:
                    stands = ("error",) in program.stand_ins
                    names["error"] = _stand_in(("error",), program.stand_ins) if stands else None
                case Root.ITERATION:
                    if scope.iteration is not None:
                        names["iteration"] = scope.iteration
                case Root.SECRETS:
                    pass
        return Seen(names, self._size)

    def _nodes(self, wants: dict[str, Trie], stand_ins: frozenset[tuple[str, ...]]) -> object:
        if self._views is None:
            self._views = {view.id: view for view in self._scope.nodes}
        found: dict[str, object] = {}
        for id, fields in wants.items():
            view = self._views.get(id)
            if view is not None:
                found[id] = self._node(view, fields, stand_ins)
            elif ("nodes", id) in stand_ins:
                found[id] = _stand_in(("nodes", id), stand_ins)
        return found

    def _node(
        self, view: NodeView, wants: Trie, stand_ins: frozenset[tuple[str, ...]]
    ) -> dict[str, object]:
        found: dict[str, object] = _stand_in(("nodes", view.id), stand_ins) if stand_ins else {}
        found["status"], found["attempts"] = view.status, view.attempts
        if view.iteration is not None:
            found["iteration"] = view.iteration
        if view.has_output and (wants is None or "output" in wants):
            found["output"] = self._output(view.output, None if wants is None else wants["output"])
        if view.error is not None and (wants is None or "error" in wants):
            found["error"] = self._pruned(view.error, None if wants is None else wants["error"])
        return found

    def _output(self, output: Output, wants: Trie) -> object:
        if isinstance(output, JoinView):
            return {
                id: self._output(part, None if wants is None else wants[id])
                for id, part in output.entries
                if wants is None or id in wants
            }
        return None if output is None else self._pruned(output, wants)

    def _pruned(self, key: PayloadKey, wants: Trie) -> object:
        if wants is not None and not wants:
            return None  # only its existence is asked
        text = self._payloads.text(key, self._scope)
        if text is None:
            self.missing[key] = None
            return None
        self._size += len(text)
        return prune(self._payloads.value(text), wants)


def _stand_in(prefix: tuple[str, ...], stand_ins: frozenset[tuple[str, ...]]) -> dict[str, object]:
    """An object of nothing but what stands in below an absent thing."""
    return {keys[-1]: _stand_in(keys, stand_ins) for keys in stand_ins if keys[:-1] == prefix}


def prune(value: object, wants: Trie) -> object:
    """The part of a value that is read; what is kept whole is shared, never copied or changed."""
    if wants is None:
        return value
    if not wants:
        return None
    if type(value) is not dict:
        return value
    return {key: prune(value[key], deeper) for key, deeper in wants.items() if key in value}


class Stuck(Exception):
    """A path leads nowhere. `key`: the step that does not exist. `message` names the place."""

    def __init__(self, key: Step, message: str) -> None:
        self.key, self.message = key, message
        super().__init__(message)


_NO_ROOT: Final = {Root.ITERATION: "iteration is read outside a loop: it has no value"}


def follow(names: Mapping[str, object], path: Path) -> object:
    """The value at a path. Raises Stuck."""
    if path.root.value not in names:
        raise Stuck(path.root.value, _NO_ROOT.get(path.root, f"{path.root} has no value here"))
    value = names[path.root.value]
    for depth, step in enumerate(path.steps):
        if isinstance(value, dict):
            if step not in value:
                raise Stuck(step, _no_key(value, path, depth))
            value = value[step]
        elif isinstance(value, list) and isinstance(step, int):
            if not 0 <= step < len(value):
                where = shown(path, depth)
                raise Stuck(
                    step,
                    f"index {step} is outside the list {where}, which has {_count(len(value))}",
                )
            value = value[step]
        else:
            raise Stuck(step, _no_container(value, path, depth))
    return value


def shown(path: Path, depth: int | None = None) -> str:
    """A path as one would write it, up to `depth` steps."""
    text = str(path.root)
    for step in path.steps[:depth]:
        if isinstance(step, str) and _PLAIN(step) and step.isascii():
            text += f".{step}"
        else:
            text += f"[{step}]" if isinstance(step, int) else f'["{step}"]'
    return text


def _no_key(holder: dict[str, object], path: Path, depth: int) -> str:
    step, where = path.steps[depth], shown(path, depth)
    if path.root is Root.NODES and depth == 0:
        return f"no such key: {step} in nodes: that node has not ended, or not in this pass"
    if path.root is Root.NODES and depth == 1 and "status" in holder:
        return f"no such key: {step} in {where}, whose status is {holder['status']}"
    return f"no such key: {step} in {where}"


def _no_container(value: object, path: Path, depth: int) -> str:
    step, where = path.steps[depth], shown(path, depth)
    what = f"{where} is {kind_of(value)}, it has no {'element' if isinstance(step, int) else 'key'} {step}"
    if path.root is Root.ERROR and depth == 0 and value is None:
        return f"{what}: test `error != null` first"
    return what


def _count(number: int) -> str:
    return "1 element" if number == 1 else f"{number} elements"


def kind_of(value: object) -> str:
    """What a value is, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a bool"
        case int():
            return "an int"
        case float():
            return "a double"
        case str():
            return "a string"
        case list():
            return "a list"
        case dict():
            return "an object"
        case datetime():
            return "a timestamp"
        case timedelta():
            return "a duration"
        case bytes() | bytearray():
            return "bytes"
        case _:
            return f"a {type(value).__name__}"

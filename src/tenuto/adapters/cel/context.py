"""What one evaluation may see: the payloads and node facts that a program names, and nothing else (X2-X4).

Collects the texts that are lacking, so that all are asked for at once. No evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import orjson

from tenuto.adapters.cel.items import Items, passes
from tenuto.adapters.cel.names import LENGTH, Path, Step
from tenuto.adapters.cel.payloads import Payloads
from tenuto.adapters.cel.program import Program, Trie
from tenuto.model.expressions import ItemRef, Missing, NodeView, Root, Scope
from tenuto.model.ids import Place, parts_of
from tenuto.model.payload import ItemsView, JoinView, Output, PayloadKey, Text
from tenuto.model.states import NODE_STATUS, NodeLetter
from tenuto.ports.store import ItemRow, PayloadRow

CONTEXT_MAX = 262_144
"""Bytes of JSON that an expression may work on; plain access is bounded by the payload's own limit only."""

BUILT_MAX = 2_000
"""Elements of a list out of which a macro makes another one: the engine copies what it has for each element, which
takes 16 bytes times the square: 64 MB.
"""

_PLAIN = str.isidentifier
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ENDED = frozenset(
    NODE_STATUS[letter]
    for letter in NodeLetter
    if letter not in {NodeLetter.PENDING, NodeLetter.ACTIVE}
)


@dataclass(frozen=True, slots=True)
class Data:
    """Where a run's data is found: what the caller loaded, read and never changed. See `CelEvaluator`."""

    payloads: Payloads
    items: Mapping[Place, Sequence[ItemRow]] = field(default_factory=dict)
    passes: Mapping[tuple[str, int], Sequence[PayloadRow]] = field(default_factory=dict)
    absent: AbstractSet[PayloadKey] = frozenset()
    _tables: dict[Place, tuple[Sequence[ItemRow], Items]] = field(default_factory=dict)

    def items_of(self, place: Place) -> Items | None:
        """The items of a foreach, put in order once; None if they are not loaded."""
        rows = self.items.get(place)
        if rows is None:
            return None
        known = self._tables.get(place)
        if known is None or known[0] is not rows:
            known = self._tables[place] = (rows, Items(rows))
        return known[1]


@dataclass(slots=True)
class Lacks:
    """What is missing, each once and in the order of asking."""

    payloads: dict[PayloadKey, None] = field(default_factory=dict)
    maybe: dict[PayloadKey, None] = field(default_factory=dict)
    items: dict[Place, None] = field(default_factory=dict)
    passes: dict[tuple[str, int], None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.payloads or self.maybe or self.items or self.passes)

    def told(self) -> Missing:
        """As the caller hears it."""
        return Missing(
            payloads=tuple(self.payloads),
            maybe=tuple(self.maybe),
            items=tuple(self.items),
            passes=tuple(self.passes),
        )


@dataclass(frozen=True, slots=True)
class Seen:
    """The root names of a program, pruned to the keys that it reads.

    `bound`: characters of the texts that they came from. `kept`: the values of which everything is read.
    """

    names: Mapping[str, object]
    bound: int
    kept: Sequence[object] = ()

    def is_too_large(self) -> bool:
        """Whether more than `CONTEXT_MAX` is read; measured only where the texts leave it open."""
        if self.bound <= CONTEXT_MAX:
            return False
        size = 0
        for value in self.kept:
            size += len(orjson.dumps(value))
            if size > CONTEXT_MAX:
                return True
        return False

    def longest(self) -> int:
        """Elements of the longest list that is read whole, if there may be one longer than `BUILT_MAX`."""
        if self.bound <= 2 * BUILT_MAX:
            return 0
        longest, level = 0, list(self.kept)
        while level:
            lists = [value for value in level if type(value) is list]
            longest = max([longest, *map(len, lists)])
            dicts = [value for value in level if type(value) is dict]
            level = [part for value in lists for part in value]
            level.extend(part for value in dicts for part in value.values())
        return longest


class Sight:
    """One scope as the programs of one expression see it. `missing` fills while they are asked for."""

    def __init__(self, data: Data, scope: Scope) -> None:
        self._data, self._scope = data, scope
        self._views: dict[str, NodeView] | None = None
        self._size = 0
        self._kept: list[object] = []
        self.missing = Lacks()

    def seen(self, program: Program) -> Seen:
        """What a program reads; of no use while anything is missing."""
        self._size, self._kept = 0, []
        names: dict[str, object] = {}
        for root, wants in program.wants.items():
            self._look(root, wants, program.stand_ins, names)
        return Seen(names, self._size, self._kept)

    def _look(
        self,
        root: Root,
        wants: Trie,
        stand_ins: frozenset[tuple[str, ...]],
        names: dict[str, object],
    ) -> None:
        """Put what a root stands for among the names; one that has no value here stays out."""
        scope, name = self._scope, root.value
        match root:
            case Root.INPUT:
                names[name] = self._pruned(scope.input, wants)
            case Root.VARS:
                names[name] = self._pruned(scope.vars, wants)
            case Root.NODES:
                names[name] = self._nodes(wants or {}, stand_ins)
            case Root.ERROR if scope.error is not None:
                names[name] = self._pruned(scope.error, wants)
            case Root.ERROR:
                stands = (name,) in stand_ins
                names[name] = _stand_in((name,), stand_ins) if stands else None
            case Root.ITERATION if scope.iteration is not None:
                names[name] = scope.iteration
            case Root.INDEX if scope.index is not None:
                names[name] = scope.index
            case Root.PARAMS if scope.params is not None:
                names[name] = self._pruned(scope.params, wants)
            case Root.ITEM if scope.item is not None:
                names[name] = self._item(scope.item, wants)
            case Root.EVENT if scope.event is not None:
                names[name] = self._told(scope.event, wants)
            case Root.OUTPUT if scope.output is not None:
                names[name] = self._told(scope.output, wants)
            case Root.CURSOR:
                names[name] = self._cursor(wants)
            case Root.NODE if scope.itself is not None:
                entered_at = timedelta(microseconds=scope.itself.entered_at)
                names["node.entered_at"] = _EPOCH + entered_at
                names["node.callback_key"] = scope.itself.callback_key
            case _:
                pass

    def _nodes(self, wants: dict[str | int, Trie], stand_ins: frozenset[tuple[str, ...]]) -> object:
        if self._views is None:
            self._views = {view.id: view for view in self._scope.nodes}
        found: dict[str, object] = {}
        for id, fields in wants.items():
            assert isinstance(id, str), "nodes are read by name"
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
        has_output, has_error, status = view.has_output, view.error is not None, view.status
        if view.maybe:
            has_output = isinstance(view.output, PayloadKey) and self._is_there(view.output)
            has_error = view.error is not None and self._is_there(view.error)
            status = "success" if has_output else "dead" if has_error else status
        found["status"], found["attempts"] = status, view.attempts
        if view.iteration is not None:
            found["iteration"] = view.iteration
        if view.callback_key is not None:
            found["callback_key"] = view.callback_key
        if has_output and (wants is None or "output" in wants):
            found["output"] = self._output(view.output, _under(wants, "output"), view)
        if has_error and view.error is not None and (wants is None or "error" in wants):
            found["error"] = self._pruned(view.error, _under(wants, "error"))
        for name in ("failures", "items") if view.items is not None else ():
            if wants is None or name in wants:
                assert view.items is not None
                found[name] = self._items(view.items, name, _under(wants, name), view)
        if view.passes is not None and (wants is None or "iterations" in wants):
            found["iterations"] = self._passes(view, view.passes, _under(wants, "iterations"))
        return found

    def _output(self, output: Output, wants: Trie, view: NodeView) -> object:
        if isinstance(output, JoinView):
            return {
                id: self._output(part, _under(wants, id), view)
                for id, part in output.entries
                if wants is None or id in wants or LENGTH in wants
            }
        if isinstance(output, ItemsView):
            return self._items(output, "outputs", wants, view)
        return None if output is None else self._pruned(output, wants)

    def _items(self, items: ItemsView, name: str, wants: Trie, view: NodeView) -> object:
        """A list of a foreach: its `outputs`, `failures` or `items`."""
        if wants is not None and not wants:
            return None  # only its existence is asked
        table = self._data.items_of(items.place)
        if table is None:
            self.missing.items[items.place] = None
            return None
        seen = table.seen(items, self._scope, ended=view.status in _ENDED)
        parts: list[str] = getattr(seen, name)
        return self._listed(parts, wants)

    def _passes(self, view: NodeView, which: tuple[str, int, int], wants: Trie) -> object:
        if wants is not None and not wants:
            return None  # only its existence is asked
        prefix, epoch, loops = which
        rows = self._data.passes.get((prefix, epoch))
        if rows is None:
            self.missing.passes[prefix, epoch] = None
            return None
        parts = passes(prefix, loops, rows, self._scope, _last_pass(view))
        return self._listed(parts, wants)

    def _listed(self, parts: list[str], wants: Trie) -> object:
        """A list of these texts, of which only what is read is parsed."""
        if wants is None:
            return self._part(f"[{','.join(parts)}]", None)
        found: list[object] = [None] * len(parts)
        for step, deeper in wants.items():
            if isinstance(step, int) and 0 <= step < len(parts):
                found[step] = self._part(parts[step], deeper)
        return found

    def _item(self, item: ItemRef, wants: Trie) -> object:
        text = self._text(item.key)
        if text is None:
            return None
        self._size += len(text)
        value = self._data.payloads.value(text)
        if item.paged:
            assert isinstance(value, dict), "the page was found good"
            value = value["items"]
        if item.at is not None:
            assert isinstance(value, list), "the list was found good"
            value = value[item.at : item.at + item.batch] if item.batch else value[item.at]
        return prune(value, wants, self._kept)

    def _cursor(self, wants: Trie) -> object:
        """Where the page before ended; null for the first."""
        text = None if self._scope.cursor is None else self._text(self._scope.cursor)
        if text is None:
            return None
        self._size += len(text)
        page = self._data.payloads.value(text)
        return prune(page.get("next") if isinstance(page, dict) else None, wants, self._kept)

    def _told(self, text: Text, wants: Trie) -> object:
        assert text.text is not None, "an expression is asked for live, with its texts"
        return self._part(text.text, wants)

    def _pruned(self, key: PayloadKey, wants: Trie) -> object:
        if wants is not None and not wants:
            return None  # only its existence is asked
        text = self._text(key)
        return None if text is None else self._part(text, wants)

    def _part(self, text: str, wants: Trie) -> object:
        self._size += len(text)
        return prune(self._data.payloads.value(text), wants, self._kept)

    def _text(self, key: PayloadKey) -> str | None:
        text = self._data.payloads.text(key, self._scope.fresh)
        if text is None:
            self.missing.payloads[key] = None
        return text

    def _is_there(self, key: PayloadKey) -> bool:
        if self._data.payloads.text(key, self._scope.fresh) is not None:
            return True
        if key not in self._data.absent:
            self.missing.maybe[key] = None
        return False


def _last_pass(view: NodeView) -> tuple[int, ...] | None:
    """The iterations in which a node last ended, as far as it left anything."""
    left = view.output if isinstance(view.output, PayloadKey | ItemsView) else view.error
    return None if left is None else parts_of(left.place).passes


def _under(wants: Trie, key: str) -> Trie:
    """What is read below a key; of what only its length is wanted for, nothing."""
    return None if wants is None else wants.get(key, {})


def _stand_in(prefix: tuple[str, ...], stand_ins: frozenset[tuple[str, ...]]) -> dict[str, object]:
    """An object of nothing but what stands in below an absent thing."""
    return {keys[-1]: _stand_in(keys, stand_ins) for keys in stand_ins if keys[:-1] == prefix}


def prune(value: object, wants: Trie, kept: list[object] | None = None) -> object:
    """The part of a value that is read; what is kept whole is shared, never copied or changed.

    Elements and values that only count towards a size are null. `kept` takes what is kept whole.
    """
    if wants is None:
        if kept is not None:
            kept.append(value)
        return value
    if not wants:
        return None
    if type(value) is dict:
        found: dict[object, object] = dict.fromkeys(value) if LENGTH in wants else {}
        for key, deeper in wants.items():
            if key in value:
                found[key] = prune(value[key], deeper, kept)
        return found
    if type(value) is list:
        elements: list[object] = [None] * len(value)
        for step, deeper in wants.items():
            if isinstance(step, int) and 0 <= step < len(value):
                elements[step] = prune(value[step], deeper, kept)
        return elements
    if kept is not None:
        kept.append(value)
    return value


class Stuck(Exception):
    """A path leads nowhere. `key`: the step that does not exist. `message` names the place."""

    def __init__(self, key: Step, message: str) -> None:
        self.key, self.message = key, message
        super().__init__(message)


_NO_ROOT: Final = {
    Root.ITERATION: "iteration is read outside a loop: it has no value",
    Root.ITEM: "item is read outside a foreach: it has no value",
    Root.INDEX: "index is read outside a foreach: it has no value",
    Root.PARAMS: "params is read outside an inline graph: it has no value",
    Root.EVENT: "event is read outside `match` and `fail_when`: it has no value",
    Root.OUTPUT: "output is read outside the `output` of a call: it has no value",
    Root.NODE: "node is read where there is none: it has no value",
}


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

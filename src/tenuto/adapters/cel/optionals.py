"""Optionals stay where they are understood: found on the checked tree, before anything runs. No evaluation.

The engine cannot hand an optional to Python: inside a list that is an error, alone or inside a map it ends the process.
So one may not get where its type is lost: into `dyn(…)`, the value of a map, a mixed list or a function of ours.
"""

from __future__ import annotations

from collections.abc import Iterator

from tenuto.adapters.cel.syntax import Call, Many, Node, Tree, parts_of

_CONSUMERS = frozenset(
    {"orValue", "or", "value", "hasValue", "size", "type", "_==_", "_!=_", "_?._", "_[?_]", "@in", "optional.unwrap",
     "unwrapOpt"}
)  # fmt: skip
"""They take an optional and give something else."""
_PRODUCERS = frozenset({"_?._", "_[?_]", "optional.of", "optional.none", "optional.ofNonZeroValue"})
_OURS = frozenset({"json_encode", "json_text", "merge", "distinct", "unique"})
"""Functions of ours that take what may hold anything."""


def is_optional(node: Node, tree: Tree) -> bool:
    """Whether a part is an optional of something else."""
    return tree.optionals.get(node.id, False) or _is_untyped(node, tree)


def misplaced(tree: Tree) -> int | None:
    """Where the first optional stands that would be taken for a value, in code points; None if there is none."""
    for part in _misplaced(tree.root, tree):
        return tree.positions.get(part.id, 0)
    return None


def _is_untyped(node: Node, tree: Tree) -> bool:
    """Whether a part is an optional of which the checker does not know it: `input[?key]`."""
    return isinstance(node, Call) and node.function in _PRODUCERS and node.id not in tree.optionals


def _misplaced(node: Node, tree: Tree) -> Iterator[Node]:
    for at, part in enumerate(parts_of(node)):
        holds_one = part.id in tree.optionals or _is_untyped(part, tree)
        if holds_one and not _is_taken(node, at, part, tree):
            yield part
        yield from _misplaced(part, tree)


def _is_taken(holder: Node, at: int, part: Node, tree: Tree) -> bool:
    """Whether an optional, or what holds one, may stand there: it stays one, or is turned into a value."""
    known = part.id in tree.optionals
    stays = known and holder.id in tree.optionals
    match holder:
        case Call() if holder.function in _OURS:
            return False
        case Call() if holder.function == "first" and holder.target is None:
            return is_optional(part, tree)
        case Call():
            return stays or holder.function in _CONSUMERS
        case Many() if at in holder.optional:
            return is_optional(part, tree) or (stays and not holder.keyed)
        case Many():
            return stays and not holder.keyed
        case _:
            return known

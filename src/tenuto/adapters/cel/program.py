"""Expressions made ready to run, kept for the whole process in a bounded cache. No data, no scope."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from tenuto.adapters.cel import complaints, engine
from tenuto.adapters.cel.names import Misnamed, Names, Path, names_of
from tenuto.adapters.cel.syntax import decode
from tenuto.model.expressions import ParseError, Root

PROGRAMS_MAX = 4096
"""About 7.5 kB each: 30 MB at most."""

Trie = dict[str, "Trie"] | None
"""Which keys of an object are read. None: the whole value; {}: only that it exists."""


@dataclass(frozen=True, slots=True)
class Program:
    """A checked expression. `compiled` is None where it is plain access to data, which needs no engine.

    `wants` are the keys read under each root. `stand_ins` are (root, key, …) prefixes that stand as `{}` when
    absent or null, so that `has(nodes.a.output.x)` and `has(error.code)` are false, not an error (SEMANTICS X2).
    """

    text: str
    names: Names
    result: str
    wants: dict[Root, Trie]
    stand_ins: frozenset[tuple[str, ...]]
    compiled: engine.Compiled | None

    @property
    def secret(self) -> str | None:
        """NAME where the expression is `secrets.NAME`."""
        whole = self.names.whole
        return str(whole.steps[0]) if whole is not None and whole.root is Root.SECRETS else None


@lru_cache(maxsize=PROGRAMS_MAX)
def program_of(text: str) -> Program | ParseError:
    """Compile and check one expression; the error is as cheap to ask for again as the program."""
    compiled = engine.compile_text(text)
    if isinstance(compiled, engine.Uncompiled):
        return complaints.parse_error(text, compiled.complaint)
    try:
        names = names_of(decode(compiled.tree))
    except Misnamed as misnamed:
        return misnamed.error
    wants: dict[Root, Trie] = {}
    for path in names.paths:
        wants[path.root] = _added(wants.get(path.root, {}), _keys(path), only_tests=path.only_tests)
    needed = None if names.whole is not None else compiled
    return Program(text, names, compiled.result, wants, _stand_ins(names.paths), needed)


def _keys(path: Path) -> tuple[str, ...]:
    """The keys before the first index: of a list all elements are kept."""
    keys: list[str] = []
    for step in path.steps:
        if not isinstance(step, str):
            break
        keys.append(step)
    return tuple(keys)


def _added(trie: Trie, keys: tuple[str, ...], *, only_tests: bool) -> Trie:
    if trie is None:
        return None
    if not keys:
        return trie if only_tests else None
    first, rest = keys[0], keys[1:]
    return {**trie, first: _added(trie.get(first, {}), rest, only_tests=only_tests)}


def _stand_ins(paths: Iterable[Path]) -> frozenset[tuple[str, ...]]:
    """Prefixes below which a test stands and that are neither tested nor read themselves."""
    absent = (Root.NODES, Root.ERROR)
    with_keys = [((path.root.value, *_keys(path)), path) for path in paths if path.root in absent]
    wanted: set[tuple[str, ...]] = set()
    refused: set[tuple[str, ...]] = set()
    for keys, path in with_keys:
        refused.add(keys)
        refused.update(keys[: depth + 1] for depth in path.tests)
        for depth in path.tests:
            wanted.update(keys[:length] for length in range(1, depth + 1))
    return frozenset(wanted - refused)

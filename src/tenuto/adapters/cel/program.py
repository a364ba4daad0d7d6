"""Expressions made ready to run, kept for the whole process in a bounded cache. No data, no scope."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from tenuto.adapters.cel import complaints, engine
from tenuto.adapters.cel.names import LENGTH, Misnamed, Names, Path, Step, names_of
from tenuto.adapters.cel.optionals import misplaced
from tenuto.adapters.cel.respelling import RESPELLED, respell
from tenuto.adapters.cel.syntax import decode
from tenuto.model.expressions import ParseError, Root

PROGRAMS_MAX = 4096
"""About 7.5 kB each: 30 MB at most."""

Trie = dict[str | int, "Trie"] | None
"""Which keys of an object, or elements of a list, are read. None: the whole value; {}: only that it exists; one with
`LENGTH`: its size too.
"""


@dataclass(frozen=True, slots=True)
class Program:
    """A checked expression. `compiled` is None where it is plain access to data, which needs no engine.

    `wants` are the keys read under each root. `stand_ins` are (root, key, …) prefixes that stand as `{}` when
    absent or null, so that `has(nodes.a.output.x)` and `has(error.code)` are false, not an error (SEMANTICS X2).
    `result` is that of the text as written, which `compiled` may spell in another way.
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
    tree = decode(compiled.tree)
    offset = misplaced(tree)
    if offset is not None:
        message = "an optional is no value here: end it with `.orValue(…)`"
        return ParseError(offset, message)
    try:
        names = names_of(tree)
    except Misnamed as misnamed:
        return misnamed.error
    wants: dict[Root, Trie] = {}
    for path in names.paths:
        read = (*path.steps, LENGTH) if path.only_size else path.steps
        bare = path.only_tests or path.only_size
        wants[path.root] = _added(wants.get(path.root, {}), read, bare=bare)
    needed = _runnable(text, names, compiled) if names.whole is None else None
    if isinstance(needed, ParseError):
        return needed
    return Program(text, names, compiled.result, wants, _stand_ins(names.paths), needed)


def _runnable(text: str, names: Names, compiled: engine.Compiled) -> engine.Compiled | ParseError:
    """The expression as the engine can run it."""
    if not names.functions & RESPELLED:
        return compiled
    respelled = engine.compile_text(respell(text, names.firsts))
    if isinstance(respelled, engine.Uncompiled):
        return complaints.parse_error(text, respelled.complaint)
    left = names_of(decode(respelled.tree)).functions & RESPELLED
    if left:
        return ParseError(0, f"`{min(left)}` is written without a dot before it")
    return respelled


def _keys(path: Path) -> tuple[str, ...]:
    """The keys before the first index."""
    keys: list[str] = []
    for step in path.steps:
        if not isinstance(step, str):
            break
        keys.append(step)
    return tuple(keys)


def _added(trie: Trie, steps: tuple[Step, ...], *, bare: bool) -> Trie:
    """`bare`: of what is at the end nothing is read."""
    if trie is None:
        return None
    if not steps:
        return trie if bare else None
    first, rest = steps[0], steps[1:]
    return {**trie, first: _added(trie.get(first, {}), rest, bare=bare)}


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

"""Which names an expression reads, how deep, and whether a guard stands around each (SEMANTICS X2-X4, X9).

Works on the checked tree alone: no evaluation, no graph. A *path* is a root and the constant keys after it; variables
of macros are none. Guards are syntactic: `has()`, `?.`, `[?…]`, `orValue`, and standing beside a test (on `iteration`,
or of the same node's existence) in `? :`, `&&` or `||`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from tenuto.adapters.cel.optionals import is_optional
from tenuto.adapters.cel.syntax import Call, Comprehension, Constant, Many, Name, Node, Select, Tree
from tenuto.model.expressions import FoundRead, ParseError, Read, Root

NODE_FIELDS = (
    "output", "status", "attempts", "error", "iteration", "callback_key", "failures", "items", "iterations",
)  # fmt: skip
OWN_FIELDS = ("entered_at", "callback_key")
"""Of `node`, the reader itself."""
LENGTH = -1
"""A step that stands for the size of what is there, and for nothing of it."""
_SEEDED = "uuid"
"""The function that reads who calls it; as a step, that."""
_CHOICES = frozenset({"_?_:_", "_&&_", "_||_"})
_GUARDS = frozenset({"orValue", "or", "hasValue", "optMap", "optFlatMap"})
_ITERATION = "iteration"
_ROOTS = frozenset(Root)

Step = str | int


@dataclass(frozen=True, slots=True)
class Path:
    """A root and the constant keys after it. `tests`: how many keys deep existence is asked, by `has()` or `?.`.

    `only_tests`: the last key is asked for by `has()`, its value is not used. `only_size`: nor is it by `size()`.
    """

    root: Root
    steps: tuple[Step, ...]
    offset: int
    guarded: bool
    tests: frozenset[int] = frozenset()
    only_tests: bool = False
    only_size: bool = False

    @property
    def read(self) -> Read:
        """What the definition records of it."""
        if self.root is Root.NODES:
            named = [str(step) for step in self.steps[:2]]
            return Read(self.root, named[0], named[1] if len(named) > 1 else "")
        if self.root in {Root.SECRETS, Root.NODE}:
            return Read(self.root, field=str(self.steps[0]))
        return Read(self.root)


@dataclass(frozen=True, slots=True)
class Names:
    """All that an expression names. `whole` is set where it is one path without any test: plain data access.

    `functions`: what it calls, operators too, `.name` on a value. `firsts`: by the place of its `(`, which arguments of
    a call of `first` are optionals. `builds`: a macro of it makes a list.
    """

    paths: tuple[Path, ...]
    divides_ints: tuple[int, ...]
    whole: Path | None
    functions: frozenset[str] = frozenset()
    firsts: Mapping[int, tuple[bool, ...]] = field(default_factory=dict)
    builds: bool = False

    @property
    def reads(self) -> tuple[FoundRead, ...]:
        """As the parser reports them, in the order of the text."""
        found = [FoundRead(path.read, path.offset, path.guarded) for path in self.paths]
        return tuple(sorted(found, key=lambda read: read.offset))


class Misnamed(Exception):
    """A name that may not be read so; `error` says what and where."""

    def __init__(self, error: ParseError) -> None:
        self.error = error
        super().__init__(error.message)


def names_of(tree: Tree) -> Names:
    """Collect the names. Raises Misnamed."""
    walk = _Walk(tree)
    walk.visit(tree.root, frozenset(), guards=_NO_GUARD)
    paths = tuple(walk.paths)
    whole = None
    if len(paths) == 1 and not paths[0].tests and _is_access(tree.root):
        # What a node knows of itself is typed: it is no part of an object.
        whole = paths[0] if paths[0].root is not Root.NODE else None
    for path in paths:
        if path.root is Root.SECRETS and whole is None:
            raise Misnamed(
                ParseError(
                    path.offset,
                    "a secret stands alone, it cannot be computed with:"
                    f' write "text ${{secrets.{path.steps[0]}}} text"',
                )
            )
    divides_ints = tuple(sorted(walk.divides_ints))
    functions = frozenset(walk.functions)
    return Names(paths, divides_ints, whole, functions, walk.firsts, walk.builds)


@dataclass(frozen=True, slots=True)
class _Guards:
    """What holds around a place: `all` reads are guarded, or those of some `nodes`."""

    all: bool = False
    nodes: frozenset[str] = frozenset()

    def covers(self, root: Root, steps: tuple[Step, ...]) -> bool:
        return self.all or (root is Root.NODES and bool(steps) and steps[0] in self.nodes)


_NO_GUARD = _Guards()
_GUARDED = _Guards(all=True)


@dataclass(frozen=True, slots=True)
class _Chain:
    """A variable and the accesses after it."""

    name: Name
    steps: tuple[Step, ...]
    tests: frozenset[int]
    only_tests: bool


class _Walk:
    def __init__(self, tree: Tree) -> None:
        self._positions, self._ints = tree.positions, tree.ints
        self._tree = tree
        self.paths: list[Path] = []
        self.divides_ints: list[int] = []
        self.functions: set[str] = set()
        self.firsts: dict[int, tuple[bool, ...]] = {}
        self.builds = False

    def visit(self, node: Node, bound: frozenset[str], guards: _Guards) -> None:
        chain = _chain(node)
        if chain is not None:
            # What passed the check and is neither a variable nor a root is a type, such as `int`.
            if chain.name.name not in bound and _root_of(chain.name) in _ROOTS:
                self._add(chain, guards)
            return
        match node:
            case Select():
                self.visit(node.operand, bound, _GUARDED if node.tests else guards)
            case Call():
                self._call(node, bound, guards)
            case Many():
                for part in node.parts:
                    self.visit(part, bound, guards)
            case Comprehension():
                # What `map` and `filter` begin with is an empty list; of `cel.bind` it is the value.
                self.builds |= isinstance(node.outer[-1], Many) and len(node.outer) > 1
                for part in node.outer:
                    self.visit(part, bound, guards)
                for part in node.inner:
                    self.visit(part, bound | node.bound, guards)
            case Name() | Constant():
                pass

    def _call(self, node: Call, bound: frozenset[str], guards: _Guards) -> None:
        if node.function == "_/_" and all(part.id in self._ints for part in node.arguments):
            self.divides_ints.append(self._positions.get(node.id, 0))
        self.functions.add(node.function if node.target is None else f".{node.function}")
        if node.function == "size" and self._sized(node, bound, guards):
            return
        if node.function == "first" and node.target is None:
            held = tuple(is_optional(part, self._tree) for part in node.arguments)
            self.firsts[self._positions.get(node.id, 0)] = held
        if node.function == _SEEDED:
            offset = max(self._positions.get(node.id, 0) - len(_SEEDED), 0)
            self.paths.append(Path(Root.NODE, (_SEEDED,), offset, guards.all))
        if node.function in _CHOICES:
            for part in node.arguments:
                beside = _tests_in(_beside(node, part), bound)
                self.visit(part, bound, _both(guards, beside))
            return
        if node.target is not None:
            self.visit(node.target, bound, _GUARDED if node.function in _GUARDS else guards)
        optional = node.function in {"_?._", "_[?_]"}
        for part in node.arguments:
            self.visit(part, bound, _GUARDED if optional else guards)

    def _sized(self, call: Call, bound: frozenset[str], guards: _Guards) -> bool:
        """Whether a call of `size` is of plain data, of which nothing but the size is read then."""
        of = call.arguments[0] if call.target is None else call.target
        chain = _chain(of)
        if chain is None or chain.name.name in bound or chain.name.name not in _ROOTS:
            return False
        if chain.tests or (chain.name.name == Root.NODES and len(chain.steps) < 2):
            return False
        self._add(chain, guards, only_size=True)
        return True

    def _add(self, chain: _Chain, guards: _Guards, *, only_size: bool = False) -> None:
        offset = self._positions.get(chain.name.id, 0)
        root, steps = Root(_root_of(chain.name)), chain.steps
        if root is Root.NODE:
            # One name with a dot to the checker, which places it at the dot.
            offset = max(offset - len(Root.NODE), 0)
            steps = (chain.name.name.partition(".")[2], *steps)
        if root is Root.NODES:
            _check_node(steps, offset)
        elif root is Root.SECRETS and not (len(steps) == 1 and isinstance(steps[0], str)):
            raise Misnamed(ParseError(offset, "name one secret: write `secrets.NAME`"))
        guarded = bool(chain.tests) or guards.covers(root, steps)
        path = Path(root, steps, offset, guarded, chain.tests, chain.only_tests, only_size)
        self.paths.append(path)


def _root_of(name: Name) -> str:
    """The name, or what stands before its dot."""
    return name.name.partition(".")[0]


def _beside(choice: Call, part: Node) -> tuple[Node, ...]:
    """The parts of a `? :`, `&&` or `||` whose tests guard this one."""
    if choice.function == "_?_:_":
        return choice.arguments[:1] if part is not choice.arguments[0] else ()
    return tuple(other for other in choice.arguments if other is not part)


def _check_node(steps: tuple[Step, ...], offset: int) -> None:
    if not steps or not isinstance(steps[0], str):
        raise Misnamed(
            ParseError(
                offset,
                "`nodes` is read by the name of one node, written out: `nodes.NAME`;"
                " neither as a whole nor by a computed name",
            )
        )
    if len(steps) == 1 or steps[1] in NODE_FIELDS:
        return
    given = str(steps[1])
    close = get_close_matches(given, NODE_FIELDS, 1)
    suggestion = f"nodes.{steps[0]}.{close[0]}" if close else f"nodes.{steps[0]}.output.{given}"
    raise Misnamed(
        ParseError(
            offset,
            f"a node has no `{given}`; it has {', '.join(NODE_FIELDS)}",
            suggestion=suggestion,
        )
    )


def _chain(node: Node) -> _Chain | None:
    """Read a node as accesses by constant keys to one variable; None when it is anything else."""
    steps: list[Step] = []
    tested: list[bool] = []
    only_tests = isinstance(node, Select) and node.tests
    while True:
        if isinstance(node, Name):
            depth = len(steps)
            tests = frozenset(depth - index for index, test in enumerate(tested) if test)
            return _Chain(node, tuple(reversed(steps)), tests, only_tests)
        key, test, node_or_none = _access(node)
        if node_or_none is None or key is None:
            return None
        steps.append(key)
        tested.append(test)
        node = node_or_none


def _access(node: Node) -> tuple[Step | None, bool, Node | None]:
    """The key of one access, whether it asks for existence, and what it is an access to."""
    if isinstance(node, Select):
        return node.field, node.tests, node.operand
    if isinstance(node, Call) and node.function in {"_[_]", "_?._", "_[?_]"}:
        operand, key = node.arguments
        if isinstance(key, Constant):
            return key.value, node.function != "_[_]", operand
    return None, False, None


def _is_access(node: Node) -> bool:
    chain = _chain(node)
    return chain is not None and not chain.only_tests


def _tests_in(parts: tuple[Node, ...], bound: frozenset[str]) -> _Guards:
    """What the parts of a condition guard beside them."""
    nodes: set[str] = set()
    for part in parts:
        for chain in _chains(part):
            name = chain.name.name
            if name in bound:
                continue
            if name == Root.ITERATION or chain.steps[1:2] == (_ITERATION,):
                return _GUARDED
            if name == Root.NODES and chain.steps and chain.tests:
                nodes.add(str(chain.steps[0]))
    return _Guards(nodes=frozenset(nodes))


def _chains(node: Node) -> Iterator[_Chain]:
    """Every access chain inside a node."""
    chain = _chain(node)
    if chain is not None:
        yield chain
        return
    match node:
        case Select():
            yield from _chains(node.operand)
        case Call():
            if node.target is not None:
                yield from _chains(node.target)
            for part in node.arguments:
                yield from _chains(part)
        case Many():
            for part in node.parts:
                yield from _chains(part)
        case Comprehension():
            for part in (*node.outer, *node.inner):
                yield from _chains(part)
        case Name() | Constant():
            pass


def _both(outer: _Guards, inner: _Guards) -> _Guards:
    return _Guards(outer.all or inner.all, outer.nodes | inner.nodes)

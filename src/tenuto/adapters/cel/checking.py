"""What can be proven of an expression once the types of what it reads are known. Nothing is evaluated but constants.

The checker knows no objects with fields, so each path that an expression reads, and whose type is known, is declared
to it as one name with dots. What is not known stays `dyn`, and so does what is asked for by `has()` or `?.`. Only what
would surely fail, or surely never be equal, is a flaw; the rest is left to evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tenuto.adapters.cel import complaints, engine
from tenuto.adapters.cel.context import shown
from tenuto.adapters.cel.names import Path
from tenuto.adapters.cel.program import Program, program_of
from tenuto.adapters.cel.syntax import Call, Node, Tree, decode, parts_of
from tenuto.model.expressions import ParseError, Root
from tenuto.model.shapes import ANY, Checked, Flaw, FlawKind, Shape, ShapeKind

_EQUALITY = ("_==_", "_!=_", "@in")
_NUMBERS = frozenset({"int", "uint", "double"})
_TYPED = frozenset({Root.SECRETS, Root.NODE, Root.ITERATION, Root.INDEX})
"""Roots that are typed already, or checked elsewhere."""
_MACRO = re.compile(r"\.\s*(?:all|exists|exists_one|filter|map|sortBy|bind|optMap|optFlatMap)\s*\(")
"""Calls that name variables, which may hide a root."""

Declared = tuple[tuple[str, str], ...]


def check_all(texts: Sequence[str], known: Mapping[str, Shape]) -> tuple[Checked | ParseError, ...]:
    """Check many expressions that read the same. As `check`, one after the other, but an environment costs more than
    the checking: what is fine beside the others' declarations is checked in one.
    """
    declared: dict[str, Declared] = {}
    for text in texts:
        program = program_of(text)
        if not isinstance(program, ParseError):
            declared[text] = _declared(program.names.paths, known)
    shared = tuple(sorted({name for names in declared.values() for name in names}))
    found: dict[str, Checked | ParseError] = {}
    for text in texts:
        if text not in found:
            found[text] = _check(text, known, declared.get(text, ()), shared)
    return tuple(found[text] for text in texts)


def check(text: str, known: Mapping[str, Shape]) -> Checked | ParseError:
    """Check one expression. `known`: the shapes of roots; that of `nodes` has a field for each node."""
    (found,) = check_all((text,), known)
    return found


def _check(
    text: str, known: Mapping[str, Shape], declared: Declared, shared: Declared
) -> Checked | ParseError:
    program = program_of(text)
    if isinstance(program, ParseError):
        return program
    unknown = [flaw for path in program.names.paths if (flaw := _unknown_key(path, known))]
    if not declared:
        divisions = program.names.divides_ints
        return Checked(program.result, tuple(unknown), divisions, _constant(program))
    # The names of the others may stand in the way of one that asks for them, or has a variable called so.
    typed: engine.Compiled | engine.Uncompiled | None = None
    if not _MACRO.search(text):
        typed = engine.compile_text(text, shared)
    if not isinstance(typed, engine.Compiled):
        typed = engine.compile_text(text, declared)
    if isinstance(typed, engine.Uncompiled):
        flaw = _flaw(text, typed.complaint)
        flaws = [*unknown, *([flaw] if flaw is not None else [])]
        return Checked(program.result, tuple(flaws), program.names.divides_ints)
    divisions = program.names.divides_ints
    if "/" in text:
        divisions = tuple(sorted(_divisions(decode(typed.tree))))
    return Checked(typed.result, tuple(unknown), divisions, _constant(program))


def _declared(paths: tuple[Path, ...], known: Mapping[str, Shape]) -> Declared:
    """Names with dots, each with its type: the longest part of each path of which something is known."""
    found: dict[str, str] = {}
    asked: set[str] = set()
    for path in paths:
        names, shape = [path.root.value], known.get(path.root.value, ANY)
        if path.root in _TYPED:
            continue
        for step in path.steps:
            if (
                not isinstance(step, str)
                or not step.isidentifier()
                or shape.kind is not ShapeKind.OBJECT
            ):
                break
            names.append(step)
            shape = shape.fields.get(step, ANY)
        if path.tests or path.only_tests:
            asked.update(".".join(names[:length]) for length in range(1, len(names) + 1))
        elif shape.kind not in {ShapeKind.ANY, ShapeKind.OBJECT}:
            found[".".join(names)] = shape.signature
    return tuple(sorted((name, kind) for name, kind in found.items() if name not in asked))


def _unknown_key(path: Path, known: Mapping[str, Shape]) -> Flaw | None:
    """The first key that its object surely does not have."""
    if path.guarded or path.only_tests:
        return None
    shape = known.get(path.root.value, ANY)
    for depth, step in enumerate(path.steps):
        if isinstance(step, int):
            shape = shape.element or ANY
        elif shape.kind is ShapeKind.OBJECT and step in shape.fields:
            shape = shape.fields[step]
        elif shape.kind is ShapeKind.OBJECT and (shape.closed or (shape.fields and not shape.more)):
            code = FlawKind.UNKNOWN_KEY if shape.closed else FlawKind.UNDECLARED_KEY
            message = f"{shown(path, depth)} has no key {step}"
            return Flaw(code, path.offset, message, step, tuple(shape.fields))
        else:
            return None
    return None


def _flaw(text: str, complaint: str) -> Flaw | None:
    """What the typed check complains about, if evaluation would stumble over it too."""
    lacking = complaints.lacking_overload(complaint)
    if lacking is None:
        # Only without types does it compile: a name with dots met another use, which is no fault of the text.
        return None
    function, kinds = lacking
    if set(kinds) <= _NUMBERS:
        return None  # at run time numbers of all kinds are compared
    if function in _EQUALITY:
        error = complaints.parse_error(text, complaint)
        message = f"a value of type {' is never equal to one of type '.join(kinds)}"
        return Flaw(FlawKind.NEVER_EQUAL, error.offset, message)
    error = complaints.parse_error(text, complaint)
    return Flaw(FlawKind.TYPE_MISMATCH, error.offset, error.message)


def _divisions(tree: Tree) -> list[int]:
    found: list[int] = []
    level: list[Node] = [tree.root]
    while level:
        node = level.pop()
        level.extend(parts_of(node))
        is_division = isinstance(node, Call) and node.function == "_/_"
        if is_division and all(part.id in tree.ints for part in parts_of(node)):
            found.append(tree.positions.get(node.id, 0))
    return found


def _constant(program: Program) -> bool | None:
    if program.names.paths or program.compiled is None:
        return None
    value = engine.run(program.compiled, {})
    return value if isinstance(value, bool) else None

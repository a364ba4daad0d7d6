"""What is wrong with the code of a `code` node, found without running a line of it.

Python is parsed by this Python's own parser, JavaScript by QuickJS. What Monty lacks is a table here; a test holds it
against Monty itself.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from tenuto.dsl.findings import Findings
from tenuto.dsl.templates import Places
from tenuto.dsl.yaml import Scalar

LANGUAGES = ("python", "javascript", "cpython")

MODULES = frozenset(
    {
        *("asyncio", "base64", "binascii", "bisect", "collections", "copy", "csv", "dataclasses"),
        *("datetime", "decimal", "functools", "hashlib", "itertools", "json", "math", "os"),
        *("os.path", "pathlib", "posixpath", "random", "re", "sys", "time", "tomllib", "typing"),
        *("unicodedata", "__future__"),
    }
)
"""What Monty can import."""
BUILTINS = frozenset(
    {
        *("aiter", "anext", "ascii", "breakpoint", "bytearray", "callable", "classmethod"),
        *("compile", "delattr", "dir", "exit", "globals", "help", "input", "issubclass"),
        *("memoryview", "quit", "staticmethod", "super", "vars", "__import__", "ExceptionGroup"),
        *("BaseExceptionGroup", "ConnectionError", "EOFError", "IOError", "EnvironmentError"),
        *("GeneratorExit", "StopAsyncIteration", "SystemError", "UnicodeError", "Warning"),
        *("BrokenPipeError", "ChildProcessError", "InterruptedError", "ProcessLookupError"),
    }
)
"""Python's own names that Monty has not."""
assert set(dir(builtins)) >= BUILTINS
_EXCEPTIONS = frozenset(
    name
    for name, made in vars(builtins).items()
    if isinstance(made, type) and issubclass(made, BaseException)
)
CPYTHON = "write it without, or say `language: cpython`"
OUTSIDE = "put it into a task of app.py: code nodes have only Python's own modules"
"""The cure for a module that is not Python's own."""

_BREAK = re.compile(r"\r\n|\r|\n")
_TOO_DEEP = "it is nested too deeply"
_JAVASCRIPT_TIME_S = 1.0
_JAVASCRIPT_MEMORY = 64 * 2**20
_PLACE = re.compile(r"<input>:(\d+):(\d+)")
# Comments and texts of JavaScript, so far as they can be told without parsing it.
_NO_NAMES = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_MAIN = re.compile(r"(?<![\w$.])main(?![\w$])")


@dataclass(frozen=True, slots=True)
class _Spot:
    """A place in the code: line and column from 1, in code points."""

    line: int
    column: int


def check_code(language: str, tree: Scalar, findings: Findings) -> None:
    """Add a finding for each mistake in the text of `tree`."""
    assert isinstance(tree.value, str)
    code = _Code(tree, tree.value, findings)
    if language == "javascript":
        _check_javascript(code)
    else:
        _check_python(code, is_subset=language == "python")


class _Code:
    """The text of one node, and how its places are found in the file."""

    def __init__(self, tree: Scalar, text: str, findings: Findings) -> None:
        self.text = text
        self._tree = tree
        self._findings = findings
        self._lines = text.split("\n")

    def add(self, code: str, spot: _Spot, shown: str = "", **words: object) -> None:
        self._findings.add(code, self._offset(spot), shown or self.line(spot), **words)

    def line(self, spot: _Spot) -> str:
        """The code's line, from the place on."""
        if 0 < spot.line <= len(self._lines):
            return self._lines[spot.line - 1][spot.column - 1 :].strip()
        return ""

    def of(self, node: ast.AST) -> _Spot:
        """Where a part of Python stands; the parser counts bytes."""
        line: int = node.lineno  # type: ignore[attr-defined]
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        return _Spot(line, len(text.encode()[: node.col_offset].decode(errors="ignore")) + 1)  # type: ignore[attr-defined]

    def _offset(self, spot: _Spot) -> int:
        """The place in the file; where the style makes that unknowable, the value's own."""
        source, tree = self._findings.text, self._tree
        line = min(max(spot.line, 1), len(self._lines))
        column = min(max(spot.column, 1), len(self._lines[line - 1]) + 1)
        if tree.style != "|":
            before = sum(len(text) + 1 for text in self._lines[: line - 1])
            return Places(tree, source).offset(before + column - 1)
        starts = [found.end() for found in _BREAK.finditer(source, tree.start, tree.end)]
        bounds = [*starts[1:], tree.end]
        first = next((n for n, text in enumerate(self._lines) if text.strip()), None)
        if first is None or line > len(starts):
            return tree.start
        filled = source[starts[first] : bounds[first]].rstrip("\r\n")
        indent = len(filled) - len(self._lines[first])
        return starts[line - 1] + indent + column - 1


# -- Python ------------------------------------------------------------------------------------------------------------


def _check_python(code: _Code, *, is_subset: bool) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code.text)
            compile(
                tree, "<code>", "exec", dont_inherit=True
            )  # `return` outside a function, and the like
    except SyntaxError as error:
        spot = _Spot(error.lineno or 1, error.offset or 1)
        code.add("code_syntax", spot, language="Python", problem=error.msg)
        return
    except (ValueError, RecursionError, MemoryError) as error:
        problem = str(error) if isinstance(error, ValueError) else _TOO_DEEP
        code.add("code_syntax", _Spot(1, 1), language="Python", problem=problem)
        return
    _check_main(code, tree)
    if is_subset:
        try:
            _check_subset(code, tree)
        except RecursionError:
            code.add("code_syntax", _Spot(1, 1), language="Python", problem=_TOO_DEEP)


def _check_main(code: _Code, tree: ast.Module) -> None:
    cure = "define `def main(params): …`; what it returns is the node's output"
    found = [made for made in _top_names(tree.body) if made[0] == "main"]
    if not found:
        code.add("code_no_main", _Spot(1, 1), problem="the code has no `main`", cure=cure)
        return
    made = found[-1][1]
    if isinstance(made, ast.FunctionDef | ast.AsyncFunctionDef):
        taken = made.args
        positional = [*taken.posonlyargs, *taken.args]
        needed = len(positional) - len(taken.defaults)
        keywords = sum(default is None for default in taken.kw_defaults)
        if needed > 1 or keywords or not (positional or taken.vararg):
            problem = "`main` is called with one argument, the params"
            code.add("code_no_main", code.of(made), problem=problem, cure=cure)


def _top_names(body: list[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """Names that a module defines, with what defines them."""
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield statement.name, statement
            case ast.Import() | ast.ImportFrom():
                for alias in statement.names:
                    yield (alias.asname or alias.name).partition(".")[0], alias
            case _:
                for part in _shallow(statement):
                    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                        yield part.id, part
                for field in ("body", "orelse", "finalbody"):
                    yield from _top_names(getattr(statement, field, []))
                for handler in getattr(statement, "handlers", []):
                    yield from _top_names(handler.body)


def _shallow(statement: ast.stmt) -> Iterator[ast.AST]:
    """Parts of a statement that are no statements."""
    todo: list[ast.AST] = [statement]
    while todo:
        part = todo.pop()
        yield part
        todo += [
            child
            for child in ast.iter_child_nodes(part)
            if not isinstance(child, ast.stmt | ast.Lambda | ast.ExceptHandler)
        ]


_LACKS: dict[type[ast.AST], str] = {
    ast.Yield: "generators (`yield`)",
    ast.YieldFrom: "generators (`yield from`)",
    ast.AsyncFor: "`async for`",
    ast.AsyncWith: "`async with`",
    ast.Delete: "`del`",
    ast.TryStar: "`except*`",
}
for _later in ("TypeAlias", "TemplateStr"):  # of a later Python's parser
    if (_kind := getattr(ast, _later, None)) is not None:
        _LACKS[_kind] = "type aliases" if _later == "TypeAlias" else "template strings"


def _check_subset(code: _Code, tree: ast.Module) -> None:
    """What Monty has not: one finding each."""
    parts = list(ast.walk(tree))
    own = {
        part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }
    own |= {part.arg for part in parts if isinstance(part, ast.arg)}
    own |= {
        part.name
        for part in parts
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    own |= {
        (a.asname or a.name)
        for part in parts
        if isinstance(part, ast.Import | ast.ImportFrom)
        for a in part.names
    }
    guarded = {
        id(inner)
        for part in parts
        if isinstance(part, ast.Try)
        for statement in part.body
        for inner in ast.walk(statement)
    }
    for part in parts:
        if id(part) in guarded and isinstance(part, ast.Import | ast.ImportFrom):
            continue  # the code may be ready for its lack
        for what, at in _lacking(part, own):
            code.add("python_subset", code.of(at), what=what, cure=CPYTHON)
        for module, at in _unknown_modules(part):
            is_known = module.partition(".")[0] in sys.stdlib_module_names
            cure = CPYTHON if is_known else OUTSIDE
            code.add("python_subset", code.of(at), what=f"module `{module}`", cure=cure)


def _unknown_modules(part: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match part:
        case ast.Import():
            yield from ((a.name, a) for a in part.names if a.name not in MODULES)
        case ast.ImportFrom():
            name = "." * part.level + (part.module or "")
            if name not in MODULES:
                yield name, part
        case _:
            pass


def _lacking(part: ast.AST, own: set[str]) -> Iterator[tuple[str, ast.AST]]:
    if type(part) in _LACKS:
        yield _LACKS[type(part)], part
    match part:
        case ast.comprehension(is_async=1):
            yield "asynchronous comprehensions", part.target
        case ast.ImportFrom(level=0, module=name) if name in MODULES:
            if any(alias.name == "*" for alias in part.names):
                yield "`import *`", part
        case ast.ClassDef():
            if part.bases or part.keywords:
                yield "classes that inherit", part
            for inner in part.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield from (("decorated methods", made) for made in inner.decorator_list[:1])
                elif isinstance(inner, ast.ClassDef):
                    yield "classes inside classes", inner
        case ast.Name(id=name, ctx=ast.Load()) if name in BUILTINS and name not in own:
            yield f"`{name}`", part
        case ast.Call(func=ast.Name(id=name)) if name in _EXCEPTIONS - BUILTINS - own:
            if part.keywords or len(part.args) > 1 or any(map(_is_no_text, part.args)):
                yield "exceptions made of anything but one text", part


def _is_no_text(argument: ast.expr) -> bool:
    """Whether a value is seen not to be text."""
    if isinstance(argument, ast.Constant):
        return not isinstance(argument.value, str)
    return isinstance(argument, ast.Dict | ast.List | ast.Set | ast.Tuple)


# -- JavaScript --------------------------------------------------------------------------------------------------------


def _check_javascript(code: _Code) -> None:
    """QuickJS parses all of a script before it runs its first line, and that one throws."""
    quickjs = importlib.import_module("_quickjs")  # 8 MB that few definitions need
    context = quickjs.Context()
    context.set_memory_limit(_JAVASCRIPT_MEMORY)
    context.set_time_limit(_JAVASCRIPT_TIME_S)
    try:
        context.eval(f"throw 0;\n{code.text}")
    except quickjs.JSException as error:
        text = str(error)
    except (UnicodeError, ValueError) as error:
        text = f"SyntaxError: {error}"
    first = text.partition("\n")[0]
    if first.startswith("0"):
        if not _MAIN.search(_NO_NAMES.sub(" ", code.text)):
            cure = "define `function main(params) { … }`; what it returns is the node's output"
            code.add("code_no_main", _Spot(1, 1), problem="the code has no `main`", cure=cure)
        return
    place = _PLACE.search(text)
    spot = _Spot(int(place[1]) - 1, int(place[2])) if place else _Spot(1, 1)
    problem = first.removeprefix("SyntaxError: ")
    code.add("code_syntax", spot, language="JavaScript", problem=problem or "it cannot be read")

"""Python functions that nodes name or carry: under which name one is registered, and its source. Calls none."""

from __future__ import annotations

import ast
import builtins
import inspect
import symtable
import textwrap
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from tenuto.sdk.builder.origins import mistake
from tenuto.worker.registry import Registry, Task

MAIN = "main"
"""What the language servers call."""

registries: WeakSet[Registry] = WeakSet()
"""Those of all apps of this program."""


def registered(function: Callable[..., Any]) -> Task:
    """The task that a function is. Raises InvalidDefinition unless it has one name, in whatever apps."""
    found = {
        task.name: task
        for registry in registries
        for task in map(registry.get, registry.names())
        if task.function == function
    }
    shown = getattr(function, "__qualname__", repr(function))
    if len(found) == 1:
        return found.popitem()[1]
    if found:
        names = ", ".join(map(repr, sorted(found)))
        raise mistake(
            "bad_value",
            f"`task` cannot be the function {shown}: it is registered as {names}",
            "name one of them, as text",
            text=shown,
        )
    raise mistake(
        "bad_value",
        f"`task` cannot be the function {shown}: it is not registered",
        "put `@app.task` above it, or give the name that a worker registers as text",
        text=shown,
    )


def source_of(function: Callable[..., Any]) -> str:
    """The text of a function that stands alone, as the `main` of a code node. Its annotations are left out.

    Raises:
        InvalidDefinition: its text is not there, or it uses what is outside of it.
    """
    shown = getattr(function, "__qualname__", repr(function))
    if not inspect.isfunction(function) or function.__name__ == "<lambda>":
        raise _no_code(
            shown, "it is no function made by `def`", "write one, or give the code as text"
        )
    try:
        text = textwrap.dedent(inspect.getsource(function))
        [definition] = ast.parse(text).body
    except (OSError, SyntaxError, ValueError):
        raise _no_code(shown, "its source cannot be read", "give the code as text") from None
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    if definition.decorator_list:
        raise _no_code(shown, "it has a decorator", "take it off, or give the code as text")
    text = _with_plain_head(text, definition)
    used = sorted(_outer_names(symtable.symtable(text, "main", "exec")) - vars(builtins).keys())
    if used:
        names = ", ".join(f"`{name}`" for name in used)
        cure = "import it inside, or hand it in by `params`"
        raise _no_code(shown, f"it uses {names} of the outside", cure)
    return text


def _with_plain_head(text: str, definition: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The body as it stands under a head that says `main`, without annotations: these name outer things."""
    given = definition.args
    variable = [argument for argument in (given.vararg, given.kwarg) if argument is not None]
    for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs, *variable):
        argument.annotation = None
    is_async = isinstance(definition, ast.AsyncFunctionDef)
    head = f"{'async ' if is_async else ''}def {MAIN}({ast.unparse(given)}):\n"
    first = definition.body[0]
    lines = text.encode().splitlines(keepends=True)[first.lineno - 1 :]
    if lines[0][: first.col_offset].strip():  # it begins on the line of the head
        lines[0] = b"    " + lines[0][first.col_offset :]
    return head + b"".join(lines).decode()


def _outer_names(table: symtable.SymbolTable) -> set[str]:
    """Names that are read, and that no scope in the text has; not the function itself under its new name."""
    own = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned()}
    found = _global_names(table) - {MAIN}
    return found - (own - {MAIN})


def _global_names(table: symtable.SymbolTable) -> set[str]:
    is_module = table.get_type() == "module"
    found = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() or is_module)
    }
    return found.union(*map(_global_names, table.get_children()))


def _no_code(shown: str, problem: str, hint: str) -> Exception:
    return mistake("bad_value", f"`code` cannot be {shown}: {problem}", hint, text=shown)

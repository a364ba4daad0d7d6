"""Where a task's function stands, so that another process finds it again. Starts no process and calls no function.

A function never travels: the child imports the module whose import registered the task, and takes the task of that
name. Only where that import registers nothing (the app is made by a call) is the function looked up by its own name.
"""

from __future__ import annotations

import importlib
import importlib.util
import runpy
import sys
import types
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MAIN = "__main__"
MAIN_IN_CHILD = "__mp_main__"
"""The name under which a child imports the program, as `multiprocessing` does: main guards stay closed."""
_PACKAGE = __name__.partition(".")[0] + "."
_imported_main: list[types.ModuleType] = []


class _Importing:
    """What this process imports only to find a task; a program that starts engines meanwhile lacks its main guard."""

    what = ""
    refused = ""


class NotImportable(Exception):
    """Another process cannot get at the function; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Names, as they are in the process that runs the program: `home` is the module that registered the task."""

    home: str
    module: str
    qualname: str


@dataclass(frozen=True, slots=True)
class Module:
    """How to import a module. `file`: its source, empty where it has none. `runs_as`: the program's name under -m."""

    name: str
    file: str
    runs_as: str = ""


@dataclass(frozen=True, slots=True)
class Address:
    """All that a child needs to find a task. `plain`: under its name stands the function itself, not a wrapper."""

    task: str
    home: Module
    module: Module
    qualname: str
    plain: bool

    def document(self) -> dict[str, Any]:
        """As a JSON value."""
        return asdict(self)

    @classmethod
    def of(cls, document: dict[str, Any]) -> Address:
        """Read it back."""
        modules = {name: Module(**document[name]) for name in ("home", "module")}
        return cls(**{**document, **modules})


_registered: dict[tuple[str, Origin], Any] = {}
"""Tasks that want a process, by name and origin; in a child, imports fill it."""


def origin_of(bare: Callable[..., Any]) -> Origin:
    """Look at a function that is being registered as a task with a process of its own.

    Raises:
        NotImportable: no other process can find it, as far as can be known now.
    """
    qualname: str = getattr(bare, "__qualname__", "")
    module = _outside(getattr(bare, "__module__", None) or MAIN)
    if "<lambda>" in qualname:
        raise NotImportable("is a lambda, which another process cannot find; name it with `def`")
    if "<locals>" in qualname:
        raise NotImportable(
            "stands inside another function, where another process cannot find it;"
            " move it to the top level of its module"
        )
    alone = module == MAIN and not _Importing.what  # in a child the main module is none yet
    if alone and not _main().file and not _main().runs_as:
        raise NotImportable(
            "is made in an interactive session, where another process cannot find it;"
            " put it into a file"
        )
    if getattr(sys, "frozen", False) or not sys.executable:
        raise NotImportable("finds no Python to start a process with; leave process=True out")
    return Origin(home=_outside(_registrar()), module=module, qualname=qualname)


def remember(name: str, origin: Origin, task: object) -> None:
    """Note a registered task, for the case that this is the child that will look for it."""
    _registered[name, origin] = task


def address_of(name: str, origin: Origin, function: Callable[..., Any]) -> Address:
    """What to tell a child. Looks at modules as they are now, so after the program's imports."""
    return Address(
        task=name,
        home=_module(origin.home),
        module=_module(origin.module),
        qualname=origin.qualname,
        plain=_walk(sys.modules.get(origin.module), origin.qualname) is function,
    )


# -- in the child -----------------------------------------------------------------------------------------------------


def find(address: Address, register: Callable[[Callable[..., Any], str], Any]) -> Any:
    """Import what is needed and return the task; `register` makes one of a function that no import registers.

    Raises:
        NotImportable: the task is not there after the import.
        BaseException: whatever the import raised.
    """
    origin = Origin(address.home.name, address.module.name, address.qualname)
    _load_quietly(address.home)
    task = _registered.get((address.task, origin))
    if task is not None:
        return task
    module = _load_quietly(address.module)
    found = _walk(module, address.qualname)
    if not address.plain or found is None:
        raise NotImportable(
            f"task {address.task!r} is not there when a child process imports"
            f" {address.home.file or address.home.name}: register it at the top level of that"
            ' module, outside of functions and of `if __name__ == "__main__":`'
        )
    return register(found, address.task)


def refuse_while_importing() -> None:
    """For whatever starts something when it is created: in a child's import that would go on for ever.

    Raises:
        NotImportable: this process imports a program only to find a task in it.
    """
    if _Importing.what:
        _Importing.refused = (
            f"{_Importing.what} starts the engine when a child process imports it; put what starts"
            ' runs under `if __name__ == "__main__":`'
        )
        raise NotImportable(_Importing.refused)


def _load_quietly(module: Module) -> types.ModuleType:
    """Import a module that must not start anything."""
    _Importing.what = module.file or module.name
    try:
        return load(module)
    finally:
        _Importing.what = ""
        refused, _Importing.refused = _Importing.refused, ""
        if refused:  # however the module took it
            raise NotImportable(refused) from None


def load(module: Module) -> types.ModuleType:
    """Import a module as the program has it, also one that was loaded from a path under a name of its own."""
    if module.name == MAIN:
        return _load_main(module)
    try:
        loaded = importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module.name}.".startswith(f"{error.name}."):
            raise
    else:
        if not module.file or _file(loaded) == module.file:
            return loaded
    spec = importlib.util.spec_from_file_location(module.name, module.file or None)
    if spec is None or spec.loader is None:
        raise NotImportable(
            f"a child process finds no module {module.name!r}; functions with process=True must"
            " stand in a module that can be imported"
        )
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module.name] = loaded
    try:
        spec.loader.exec_module(loaded)
    except BaseException:
        del sys.modules[module.name]
        raise
    return loaded


def _load_main(module: Module) -> types.ModuleType:
    """The program, run once under another name; both names then are this module."""
    if _imported_main:
        return _imported_main[0]
    main = types.ModuleType(MAIN_IN_CHILD)
    if module.runs_as:
        found = runpy.run_module(module.runs_as, run_name=MAIN_IN_CHILD, alter_sys=True)
    else:
        found = runpy.run_path(module.file, run_name=MAIN_IN_CHILD)
    main.__dict__.update(found)
    sys.modules[MAIN] = sys.modules[MAIN_IN_CHILD] = main
    _imported_main.append(main)
    return main


# -- looking ----------------------------------------------------------------------------------------------------------


def _registrar() -> str:
    """The module whose code registers a task right now: the nearest caller that is not ours."""
    frame: types.FrameType | None = sys._getframe(1)  # noqa: SLF001 - the one way to ask
    while frame is not None:
        name = str(frame.f_globals.get("__name__", MAIN))
        if not f"{name}.".startswith(_PACKAGE):
            return name
        frame = frame.f_back
    return MAIN


def _outside(name: str) -> str:
    return MAIN if name == MAIN_IN_CHILD else name


def _module(name: str) -> Module:
    return _main() if name == MAIN else Module(name, _file(sys.modules.get(name)))


def _main() -> Module:
    main = sys.modules.get(MAIN)
    spec = getattr(main, "__spec__", None)
    file = _file(main)
    if not Path(file).is_file():
        file = ""  # `<stdin>` and the like
    return Module(MAIN, file, runs_as=spec.name if spec is not None else "")


def _file(module: types.ModuleType | None) -> str:
    file = getattr(module, "__file__", None)
    return str(Path(file).absolute()) if file else ""


def _walk(found: object, qualname: str) -> Any:
    """`A.b` in a module, or None."""
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found

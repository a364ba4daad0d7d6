"""Finding the user's `Tenuto` object: `--app`, the setting `app`, or `app.py` beside the file.

Imports the user's module into this process. Whatever goes wrong in it is the user's to mend, so it
becomes one message with the line of the user's own that raised, never our stack.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import sysconfig
import traceback
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from tenuto.model.errors import InvalidInput
from tenuto.settings import load

if TYPE_CHECKING:
    from collections.abc import Collection

    from tenuto.dsl.findings import Finding
    from tenuto.model.definition import Definition
    from tenuto.model.graph import Graph
    from tenuto.sdk.tenuto import Tenuto
    from tenuto.worker.registry import Registry

DEFAULT_ATTRIBUTE = "app"
_NAMED_MAX = 8


class BrokenApp(InvalidInput):
    """The user's module cannot be used."""


def find_app(given: str | None, file: Path | None) -> Tenuto | None:
    """Load the app that `app_name` finds; None if there is none."""
    name = app_name(given, file)
    return None if name is None else load_app(name)


def app_name(given: str | None, file: Path | None) -> str | None:
    """What `--app` says, else the settings, else `app.py` beside `file`; None if there is none.

    Raises InvalidInput for settings that are wrong.
    """
    if given is not None:
        return given
    settings = load()
    if settings.app:
        if settings.file is not None and str(settings.file.parent) not in sys.path:
            # Its folder is the project's: modules are found there from any folder below.
            sys.path.insert(0, str(settings.file.parent))
        return settings.app
    beside = beside_of(file)
    return str(beside) if beside.is_file() else None


def beside_of(file: Path | None) -> Path:
    """Where an app is looked for at last."""
    return (file.parent if file is not None else Path.cwd()) / "app.py"


def missing_tasks(
    definition: Definition,
    registry: Registry,
    app: str | None,
    file: Path | None,
    *,
    nodes: Collection[int] | None = None,
) -> str | None:
    """What to say if the app lacks tasks that a definition names, or None: a run will wait there, since nobody else has
    them.

    Args:
        definition: of the workflow.
        registry: the app's.
        nodes: numbers of those that are still to do; None: all.
        app: as `app_name` found it.
        file: of the definition, beside which an app was looked for.
    """
    from tenuto.model.works import works

    missing: dict[str, str] = {}
    for asked in works(definition, nodes):
        if asked.task is not None and registry.find(asked.task) is None:
            missing.setdefault(asked.task, asked.owner)
    if not missing:
        return None
    told = ", ".join(f"{name!r} ({owner})" for name, owner in list(missing.items())[:_NAMED_MAX])
    told = f"task{'s' if len(missing) > 1 else ''} {told}"
    if len(missing) > _NAMED_MAX:
        told += f" and {len(missing) - _NAMED_MAX} more"
    if app is None:
        where = f"beside {file}" if file is not None else f"in {Path.cwd()}"
        return f"nobody has the {told}: no app.py {where}; name your app with --app"
    names = registry.names()
    if not names:
        return f"the app {app} has no {told}; it has none: register with @app.task"
    close = get_close_matches(next(iter(missing)), names, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else "; it has"
    listed = ", ".join(names[:_NAMED_MAX]) + (", …" if len(names) > _NAMED_MAX else "")
    return f"the app {app} has no {told}{meant} {f'It has {listed}' if close else listed}"


def task_findings(graph: Graph, registry: Registry, file: str) -> tuple[Finding, ...]:
    """What is wrong with a definition by the functions of the app: their params, and what is read of their results.

    Args:
        file: what findings call it.
    """
    from tenuto.app.definitions import load_definition
    from tenuto.sdk.signatures import shapes_of

    source = graph.definition.source
    known = set(load_definition(source, file=file).findings)
    loaded = load_definition(source, file=file, tasks=shapes_of(registry))
    return tuple(finding for finding in loaded.findings if finding not in known)


def misfits(
    definition: Definition, registry: Registry, *, nodes: Collection[int] | None = None
) -> list[str]:
    """What to say of tasks whose params have names that their functions do not take, or lack some: they would fail."""
    from tenuto.model.works import works

    told = []
    for asked in works(definition, nodes):
        if asked.task is None:
            continue  # none of the app's, or computed (X1): known when it runs
        task = registry.find(asked.task)
        params = json.loads(asked.work.input.text)
        if task is None or not isinstance(params, dict):
            continue  # `${…}` may yield anything
        misfit = task.misfit_of_names(params)
        if misfit is not None:
            told.append(f"{asked.owner}: {misfit}")
    return told


def load_app(text: str) -> Tenuto:
    """Load `module:attribute` or `path.py[:attribute]`; the attribute defaults to `app`.

    Raises:
        BrokenApp: no such module or attribute, it is no `Tenuto`, or importing it raised.
    """
    from tenuto.sdk.tenuto import Tenuto

    target, attribute = split_name(text)
    module = _load_file(Path(target)) if target.endswith(".py") else _load_module(target)
    found: object = module
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise BrokenApp(_no_attribute(target, attribute, module))
        found = getattr(found, name)
    if not isinstance(found, Tenuto):
        kind = "class" if isinstance(found, type) else type(found).__name__
        raise BrokenApp(
            f"{target}:{attribute} is a {kind}, not a Tenuto; write `{attribute} = Tenuto()` in it"
        )
    if found.near.is_open:
        found.close()
        raise BrokenApp(
            f"the app {target} opens its database while it is imported; put what starts runs "
            'under `if __name__ == "__main__":`'
        )
    return found


def split_name(text: str) -> tuple[str, str]:
    """The module or file of `module:attribute`, and the attribute, which defaults to `app`."""
    target, _, attribute = text.rpartition(":")
    if not target:
        target, attribute = text, DEFAULT_ATTRIBUTE
    return target, attribute or DEFAULT_ATTRIBUTE


def _load_module(name: str) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    if not all(part.isidentifier() for part in name.split(".")):
        raise BrokenApp(f"{name!r} is no module; write module:app or path/to/file.py:app")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise BrokenApp(
                f"there is no module {name!r} here ({Path.cwd()}); write module:app or "
                "path/to/file.py:app"
            ) from None
        raise BrokenApp(_told(error, name)) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - it is the user's code
        raise BrokenApp(_told(error, name)) from None


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise BrokenApp(f"there is no file {path}")
    name = path.stem
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path.resolve()):
        return loaded
    if loaded is not None or name in sys.stdlib_module_names:
        name = f"tenuto_app_{name}"  # the file's own name belongs to another module
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - it is the user's code
        del sys.modules[name]
        raise BrokenApp(_told(error, str(path))) from None
    return module


def _told(error: BaseException, name: str) -> str:
    """One message with the user's own line, the innermost frame of it."""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename is not None:
        line = (error.text or "").strip()
        return (
            f"the app {name} has a syntax error: {error.msg}\n"
            f"  {error.filename}:{error.lineno}: {line}"
        )
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_own(frame.filename)]
    if not own:
        return f"the app {name} cannot be loaded: {what}"
    at = own[-1]
    return f"the app {name} cannot be loaded: {what}\n  {at.filename}:{at.lineno}: {at.line}"


def is_own(filename: str) -> bool:
    """Whether a frame is the user's: not the import system's, Python's, a package's or ours."""
    if filename.startswith("<"):
        return False
    path = Path(filename)
    ours = (Path(__file__).parents[1], Path(sysconfig.get_path("stdlib")))
    return "site-packages" not in path.parts and not any(
        path.is_relative_to(folder) for folder in ours
    )


def _no_attribute(target: str, attribute: str, module: ModuleType) -> str:
    from tenuto.sdk.tenuto import Tenuto

    apps = sorted(name for name, value in vars(module).items() if isinstance(value, Tenuto))
    names = [name for name in vars(module) if not name.startswith("_")]
    close = apps or get_close_matches(attribute, names, n=1)
    hint = (
        f"did you mean {target}:{close[0]}?" if close else f"write `{attribute} = Tenuto()` in it"
    )
    return f"{target} has no {attribute!r}; {hint}"

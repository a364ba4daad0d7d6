"""The user's own Python files, as far as they are loaded: which have changed, and whether they would load again.

A running process keeps its functions; `tenuto dev` starts anew when they change, and only if they load.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from tenuto.cli.apps import is_own, split_name
from tenuto.cli.workspace import Stamp, files_in, stamps_of

CHECK_S = 60
_CHECK = """
import sys
from tenuto.cli.apps import load_app
from tenuto.model.errors import TenutoError
sys.path[:] = sys.argv[2:]
try:
    load_app(sys.argv[1])
except TenutoError as error:
    sys.exit(str(error))
"""


class Sources:
    """Files of the modules that belong to an app: those in its folders or below. Made before the app is loaded, so that
    what is written while it loads is seen as changed.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folder.resolve() for folder in folders)
        self._seen: dict[Path, Stamp] = {}
        self._known: dict[str, Path | None] = {}
        self.any_changed()

    def any_changed(self) -> bool:
        """Whether any Python file there, loaded or not, was written, made or removed since this was last asked."""
        files = [path for folder in self._folders for path in files_in(folder, (".py",))]
        before, self._seen = self._seen, stamps_of(files)
        return before != self._seen

    def changed(self) -> list[Path]:
        """Loaded files that were written since this was last asked; those loaded meanwhile count from now on."""
        before, self._seen = self._seen, stamps_of(self._files())
        return sorted(
            path for path, stamp in self._seen.items() if before.get(path, stamp) != stamp
        )

    def _files(self) -> list[Path]:
        names = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        found = (self._locate(name) for name in names if isinstance(name, str))
        return [path for path in found if path is not None]

    def _locate(self, name: str) -> Path | None:
        """Where a module's file is, if it belongs to the app. Asked often, of thousands of modules."""
        if name not in self._known:
            path = Path(name).resolve() if name.endswith(".py") and is_own(name) else None
            ours = path is not None and any(path.is_relative_to(each) for each in self._folders)
            self._known[name] = path if ours else None
        return self._known[name]


def folder_of(app: str) -> Path | None:
    """Where the code of an app stands, as `load_app` will find it; None: nowhere. Imports nothing."""
    target, _ = split_name(app)
    if target.endswith(".py"):
        return Path(target).parent
    try:
        spec = PathFinder.find_spec(target.partition(".")[0], [str(Path.cwd()), *sys.path])
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    places = list(spec.submodule_search_locations or ())
    return Path(places[0]) if places else Path(spec.origin or "").parent


def trouble_loading(app: str) -> str | None:
    """Load the app in a process of its own; what is wrong with it, or None."""
    try:
        done = subprocess.run(  # noqa: S603 - this Python, our own text
            # No bytecode: it is told from the next writing by whole seconds only.
            [sys.executable, "-B", "-c", _CHECK, app, *sys.path],
            capture_output=True,
            text=True,
            timeout=CHECK_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"the app {app} is not loaded after {CHECK_S} s"
    if done.returncode == 0:
        return None
    return done.stderr.strip() or f"the app {app} ends the process with {done.returncode}"

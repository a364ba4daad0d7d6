"""The user's own Python files, as far as they are loaded: which have changed, and whether they would load again.

A running process keeps its functions; `tenuto dev` starts anew when they change, and only if they load.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tenuto.cli.apps import is_own
from tenuto.cli.workspace import Stamp, stamps_of

CHECK_S = 60
_CHECK = """
import sys
from tenuto.cli.apps import app_name, load_app
from tenuto.model.errors import TenutoError
sys.path[:] = sys.argv[2:]
try:
    load_app(sys.argv[1])
except TenutoError as error:
    sys.exit(str(error))
"""


class Sources:
    """Files of the modules that belong to an app: those in its folder or below."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._seen: dict[Path, Stamp] = {}
        self.changed()

    def changed(self) -> list[Path]:
        """Loaded files that were written since this was last asked; those loaded meanwhile count from now on."""
        before, self._seen = self._seen, stamps_of(self._files())
        return sorted(
            path for path, stamp in self._seen.items() if before.get(path, stamp) != stamp
        )

    @property
    def count(self) -> int:
        """Files that are watched."""
        return len(self._seen)

    def _files(self) -> list[Path]:
        found = []
        for module in list(sys.modules.values()):
            name = getattr(module, "__file__", None)
            if isinstance(name, str) and name.endswith(".py") and is_own(name):
                path = Path(name).resolve()
                if path.is_relative_to(self._folder):
                    found.append(path)
        return found


def trouble_loading(app: str) -> str | None:
    """Load the app in a process of its own; what is wrong with it, or None."""
    try:
        done = subprocess.run(  # noqa: S603 - this Python, our own text
            [sys.executable, "-c", _CHECK, app, *sys.path],
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

"""pytest's fixtures `tenuto_engine` and `tenuto_env`; a test that failed with them shows its runs.

Every pytest session of an environment that has Tenuto loads this module, so it imports nothing of Tenuto before a
fixture is used. It needs no other plugin, and runs under any. PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tenuto.sdk.tenuto import Tenuto
    from tenuto.testing.world import Engine

_ENGINES = pytest.StashKey[list["Engine"]]()
_FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one setting."""
    parser.addini(
        "tenuto_app",
        "the app of the fixtures tenuto_env and tenuto_engine: module:attribute or path.py[:attribute];"
        " by default `app` of tenuto.toml or [tool.tenuto]",
        default="",
    )


@pytest.fixture
def tenuto_engine(request: pytest.FixtureRequest) -> Iterator[Callable[..., Engine]]:
    """Open engines for this test: `tenuto_engine(app=None, **options)`, as `tenuto.testing.engine`, opened already."""
    from tenuto.testing import engine

    engines = request.node.stash.setdefault(_ENGINES, [])

    def make(app: Tenuto | None = None, **options: Any) -> Engine:
        made = engine(default_app(request.config) if app is None else app, **options)
        made.open()
        engines.append(made)
        closing.callback(lambda: made.close(check=not request.node.stash.get(_FAILED, False)))
        return made

    with ExitStack() as closing:
        yield make


@pytest.fixture
def tenuto_env(tenuto_engine: Callable[..., Engine]) -> Engine:
    """An open engine with the app of the setting `tenuto_app`."""
    return tenuto_engine()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Add the runs of a failed test's engines to its report."""
    outcome = yield
    report = outcome.get_result()
    engines = item.stash.get(_ENGINES, [])
    if report.when != "call" or not report.failed or not engines:
        return
    item.stash[_FAILED] = True
    for made in engines:
        try:
            text = made.describe()
        except Exception as error:  # noqa: BLE001 - the test's own failure is what counts
            text = f"the runs cannot be shown: {error}"
        report.sections.append(("tenuto runs", text))


def default_app(config: pytest.Config) -> Tenuto:
    """The app of the settings. Raises UsageError."""
    from tenuto.model.errors import TenutoError
    from tenuto.settings import load

    name = str(config.getini("tenuto_app"))
    if not name:
        try:
            name = load(folder=config.rootpath).app
        except TenutoError as error:
            raise pytest.UsageError(str(error)) from None
    if not name:
        raise pytest.UsageError(
            'tenuto_env needs to know the app: write tenuto_app = "app:app" into the pytest settings'
        )
    return load_app(name, config.rootpath)


def load_app(name: str, root: Path) -> Tenuto:
    """Import `module:attribute` or `path.py[:attribute]`, seen from `root`. Raises UsageError."""
    from tenuto.sdk.tenuto import Tenuto

    module_name, _, attribute = name.partition(":")
    folder = root
    if module_name.endswith(".py"):
        path = root / module_name
        folder, module_name = path.parent, path.stem
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.partition(".")[0]:
            raise  # what is missing is something that the user's module imports
        raise pytest.UsageError(
            f"tenuto_app = {name!r}: no module {module_name!r} in {folder} or on sys.path"
        ) from None
    app = getattr(module, attribute or "app", None)
    if not isinstance(app, Tenuto):
        found = [key for key, value in vars(module).items() if isinstance(value, Tenuto)]
        hint = f"; did you mean {module_name}:{found[0]}?" if found else ""
        raise pytest.UsageError(
            f"tenuto_app = {name!r}: {module_name} has no Tenuto app {attribute or 'app'!r}{hint}"
        )
    return app

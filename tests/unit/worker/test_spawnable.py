"""Where functions stand: what can be known at registration, and what a child finds by importing.

`find` is called here in the process that has registered, under module names of each test's own.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import process_tasks as tasks

from tenuto.worker.registry import InvalidTask, Registry, Task
from tenuto.worker.spawnable import (
    Address,
    Module,
    NotImportable,
    address_of,
    find,
    load,
    refuse_while_importing,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """On the path; what was imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def process_task(function: Callable[..., Any], name: str = "t") -> Task:
    registry = Registry()
    registry.add(function, name=name, process=True)
    return registry.get(name)


def address(task: Task) -> Address:
    assert task.origin is not None
    return address_of(task.name, task.origin, task.function)


def not_registered(function: Callable[..., Any], name: str) -> Any:
    return ("made", function, name)


def nobody(function: Callable[..., Any], name: str) -> Any:
    raise AssertionError("it is registered")


def test_a_lambda_is_refused_with_the_cure() -> None:
    with pytest.raises(InvalidTask, match=r"'t' has process=True, and is a lambda.*`def`"):
        process_task(lambda: 1)


def test_a_nested_function_is_refused_with_the_cure() -> None:
    def inner() -> int:
        return 1

    with pytest.raises(InvalidTask, match=r"inside another function.*top level"):
        process_task(inner)
    with pytest.raises(InvalidTask, match="inside another function"):
        process_task(functools.partial(inner))


def test_functions_in_threads_may_stand_anywhere() -> None:
    Registry().add(lambda: 1, name="t", process=False)


def test_an_address_survives_the_way_to_the_child() -> None:
    there = address(process_task(tasks.echo))

    assert Address.of(there.document()) == there
    assert there.plain
    assert there.module.file.endswith("process_tasks.py")


def test_methods_of_classes_are_plain_and_replaced_functions_are_not() -> None:
    assert address(process_task(tasks.Math.double)).plain
    assert not address(process_task(tasks.replaced)).plain
    assert not address(process_task(functools.partial(tasks.echo, value=1))).plain


def test_the_module_that_registers_is_imported_and_its_task_taken(folder: Path) -> None:
    (folder / "shop_app.py").write_text(
        "import functools\n"
        "from tenuto.worker.registry import Registry\n"
        "from tests.support.process_tasks import echo\n"
        "tasks = Registry()\n"
        "tasks.add(functools.partial(echo, value=7), name='seven', process=True)\n"
    )
    module = importlib.import_module("shop_app")
    task = module.tasks.get("seven")
    there = address(task)

    assert there.home.name == "shop_app"
    assert find(there, nobody) is task


def test_a_function_that_no_import_registers_is_looked_up_by_its_own_name() -> None:
    there = address(process_task(tasks.Math.double))
    elsewhere = Address.of(
        {**there.document(), "home": {"name": "json", "file": "", "runs_as": ""}}
    )

    assert find(elsewhere, not_registered) == ("made", tasks.Math.double, "t")


def test_a_function_that_is_not_there_any_more_says_where_it_should_be(folder: Path) -> None:
    (folder / "empty_app.py").write_text("")
    home = Module("empty_app", str(folder / "empty_app.py"))
    there = Address(task="gone", home=home, module=home, qualname="gone", plain=True)

    with pytest.raises(NotImportable, match=r"'gone' is not there.*empty_app\.py.*top level"):
        find(there, not_registered)


def test_a_module_that_was_loaded_from_a_path_is_found_under_its_made_up_name(
    tmp_path: Path,
) -> None:
    file = tmp_path / "json.py"
    file.write_text("def work(): return __name__\n")
    try:
        module = load(Module("tenuto_app_json", str(file)))
        assert module.work() == "tenuto_app_json"
        assert load(Module("tenuto_app_json", str(file))) is module
    finally:
        sys.modules.pop("tenuto_app_json", None)


def test_a_module_of_the_same_name_elsewhere_is_not_mistaken_for_it(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "twin_app.py").write_text("where = 'path'\n")
    other = tmp_path / "other" / "twin_app.py"
    other.parent.mkdir()
    other.write_text("where = 'other'\n")

    assert load(Module("twin_app", str(other))).where == "other"


def test_a_module_that_nobody_finds_says_so() -> None:
    with pytest.raises(NotImportable, match="finds no module 'not_there_at_all'"):
        load(Module("not_there_at_all", ""))


def test_what_a_module_lacks_is_not_taken_for_the_module(folder: Path) -> None:
    (folder / "lacks_app.py").write_text("import not_there_at_all\n")

    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        load(Module("lacks_app", str(folder / "lacks_app.py")))


def test_an_import_that_starts_something_is_refused_even_if_it_hides_the_refusal(
    folder: Path,
) -> None:
    file = folder / "unguarded_app.py"
    file.write_text(
        "from tenuto.worker.spawnable import refuse_while_importing\n"
        "try: refuse_while_importing()\n"
        "except Exception: raise SystemExit(1)\n"
    )
    home = Module("unguarded_app", str(file))
    there = Address(task="t", home=home, module=home, qualname="t", plain=True)

    with pytest.raises(NotImportable, match=r'unguarded_app\.py.*if __name__ == "__main__"'):
        find(there, not_registered)
    refuse_while_importing()  # a moment's, not for ever

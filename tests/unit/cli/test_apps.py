"""Finding and loading the user's app."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenuto.app.definitions import load_definition
from tenuto.cli.apps import BrokenApp, app_name, find_app, load_app, misfits, missing_tasks

GOOD = "from tenuto import Tenuto\napp = Tenuto()\nother = Tenuto()\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; what is imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def refusal(text: str) -> str:
    with pytest.raises(BrokenApp) as raised:
        load_app(text)
    assert raised.value.exit_code == 2
    return str(raised.value)


def test_an_app_is_a_module_or_a_file_with_an_attribute(folder: Path) -> None:
    (folder / "flows_a.py").write_text(GOOD)

    module, by_file, default = (
        load_app("flows_a:other"),
        load_app("flows_a.py:other"),
        load_app("flows_a"),
    )

    assert module is by_file
    assert default is not module


def test_a_file_may_import_its_neighbours_from_anywhere(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "beside_it.py").write_text("LIMIT = 3\n")
    (folder / "sub" / "flows_b.py").write_text(
        GOOD + "import beside_it\napp.limit = beside_it.LIMIT"
    )

    assert load_app("sub/flows_b.py").limit == 3  # type: ignore[attr-defined]


def test_a_file_named_like_a_library_module_does_not_replace_it(folder: Path) -> None:
    import json

    (folder / "json.py").write_text(GOOD)

    load_app("json.py")

    assert sys.modules["json"] is json


def test_the_app_beside_the_definition_is_found(folder: Path) -> None:
    (folder / "flows").mkdir()
    (folder / "flows" / "app.py").write_text(GOOD)

    assert find_app(None, Path("flows/order.yaml")) is not None
    assert find_app(None, Path("elsewhere.yaml")) is None


@pytest.mark.parametrize(
    ("file", "head"), [("pyproject.toml", "[tool.tenuto]\n"), ("tenuto.toml", "")]
)
def test_settings_name_the_app_relative_to_themselves(
    folder: Path, monkeypatch: pytest.MonkeyPatch, file: str, head: str
) -> None:
    (folder / file).write_text(f'{head}app = "src/flows_c.py:app"\n')
    (folder / "deep").mkdir()
    monkeypatch.chdir(folder / "deep")

    assert app_name(None, None) == f"{folder}/src/flows_c.py:app"


def test_a_module_of_the_settings_is_found_from_any_folder_below(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "tenuto.toml").write_text('app = "flows_below"\n')
    (folder / "flows_below.py").write_text(GOOD)
    (folder / "deep").mkdir()
    monkeypatch.chdir(folder / "deep")

    assert find_app(None, None) is not None


def test_the_environment_names_the_app_and_a_word_of_the_command_line_beats_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "tenuto.toml").write_text('app = "filed.py"\n')
    monkeypatch.setenv("TENUTO_APP", "named.py")

    assert app_name(None, Path("x.yaml")) == "named.py"
    assert app_name("given.py", Path("x.yaml")) == "given.py"


def test_a_missing_module_says_where_it_was_looked_for(folder: Path) -> None:
    assert refusal("no_such_app_module") == (
        f"there is no module 'no_such_app_module' here ({folder}); "
        "write module:app or path/to/file.py:app"
    )
    assert refusal("nowhere.py") == "there is no file nowhere.py"
    assert refusal("my-app:app") == (
        "'my-app' is no module; write module:app or path/to/file.py:app"
    )


def test_a_missing_attribute_names_the_app_that_is_there(folder: Path) -> None:
    (folder / "flows_d.py").write_text("from tenuto import Tenuto\nflows = Tenuto()\n")
    (folder / "flows_e.py").write_text("x = 1\n")

    assert refusal("flows_d") == "flows_d has no 'app'; did you mean flows_d:flows?"
    assert refusal("flows_e") == "flows_e has no 'app'; write `app = Tenuto()` in it"


def test_an_attribute_of_another_kind_is_refused(folder: Path) -> None:
    (folder / "flows_f.py").write_text("app = 5\n")

    assert refusal("flows_f") == (
        "flows_f:app is a int, not a Tenuto; write `app = Tenuto()` in it"
    )


@pytest.mark.parametrize(
    ("source", "said", "line"),
    [
        ("import json\n\njson.loads('{')\n", "JSONDecodeError: Expecting", "3: json.loads('{')"),
        ("def f():\n    raise KeyError('k')\nf()\n", "KeyError: 'k'", "2: raise KeyError('k')"),
        ("import no_such_library\n", "No module named 'no_such_library'", "1: import no_such"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3", "2: sys.exit(3)"),
        ("class B(BaseException): ...\nraise B(1)\n", "B: 1", "2: raise B(1)"),
        ("x = = 1\n", "has a syntax error: invalid syntax", "1: x = = 1"),
    ],
)
@pytest.mark.parametrize("word", ["flows_g.py", "flows_g"])
def test_an_error_of_the_users_module_shows_the_users_own_line(
    folder: Path, word: str, source: str, said: str, line: str
) -> None:
    (folder / "flows_g.py").write_text(source)

    told = refusal(word)

    assert said in told
    assert f"flows_g.py:{line}" in told.splitlines()[-1]
    assert len(told.splitlines()) == 2


def test_params_whose_names_do_not_fit_are_told_of_each_node(folder: Path) -> None:
    (folder / "flows_h.py").write_text(
        "from tenuto import Tenuto\napp = Tenuto()\n@app.task\ndef ship(order, fast=False): ...\n"
    )
    text = """
name: w
nodes:
  ok: {type: task, task: ship, params: {order: 1}}
  any: {type: task, task: ship, params: {order: "${input}"}}
  other: {type: task, task: elsewhere, params: {x: 1}}
  lacks: {type: task, task: ship, params: {fast: true}}
  typo: {type: task, task: ship, params: {order: 1, fsat: true}}
"""
    graph = load_definition(text, file="w.yaml").graph
    assert graph is not None

    told = misfits(graph.definition, load_app("flows_h").registry)

    assert told == [
        "node lacks: task ship(order, fast=False) needs 'order'",
        "node typo: task ship(order, fast=False) has no parameter 'fsat'; did you mean 'fast'?",
    ]


def test_tasks_are_missed_wherever_a_definition_names_them(folder: Path) -> None:
    (folder / "flows_i.py").write_text(
        "from tenuto import Tenuto\napp = Tenuto()\n@app.task\ndef ship(order): ...\n"
    )
    text = """
name: w
nodes:
  each:
    type: foreach
    over: input.list
    do: {type: task, task: ship, params: {order: "${item}"}}
    compensate:
      type: call
      do:
        nodes:
          back: {type: foreach, over: input.list, do: {type: task, task: shop, params: {ordre: 1}}}
          too: {type: task, task: ship}
  source: {type: foreach, source: {task: pages}, task: "${item.task}"}
on_failure: {type: task, task: ship, params: {}}
"""
    definition = load_definition(text, file="w.yaml").graph
    assert definition is not None
    whole, registry = definition.definition, load_app("flows_i").registry

    assert missing_tasks(whole, registry, "flows_i", None) == (
        "the app flows_i has no tasks 'shop' (node each.compensate/back), 'pages' (node source.source);"
        " did you mean 'ship'? It has ship"
    )
    assert misfits(whole, registry) == [
        "node each.compensate/too: task ship(order) needs 'order'",
        "on_failure: task ship(order) needs 'order'",
    ]
    assert missing_tasks(whole, registry, "flows_i", None, nodes=()) == (
        "the app flows_i has no task 'shop' (node each.compensate/back); did you mean 'ship'? It has ship"
    )

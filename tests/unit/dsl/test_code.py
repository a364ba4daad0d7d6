"""The table of what Monty lacks, against Monty itself; and that checking runs nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pydantic_monty import Monty, MontyError

from tenuto.adapters.cel import CelParser
from tenuto.dsl.code import BUILTINS, MODULES
from tenuto.dsl.compile import load
from tenuto.dsl.findings import Finding

PARSER = CelParser()

LACKS = [
    "def f():\n  yield 1",
    "def f():\n  yield from []",
    "async def f():\n  async for x in y: pass",
    "async def f():\n  async with x: pass",
    "async def f():\n  return [x async for x in y]",
    "def f():\n  x = [1]\n  del x[0]",
    "try: pass\nexcept* ValueError: pass",
    "class A(dict): pass",
    "class A(metaclass=type): pass",
    "class A:\n  @property\n  def x(self): pass",
    "class A:\n  class B: pass",
    "from json import *",
    "raise SystemExit(3)",
    "raise KeyError('a', 'b')",
    "raise ValueError({'a': 1})",
    "raise ImportError('a', name='b')",
]
HAS = [
    "class A:\n  x = 1\n  def f(self): return self.x",
    "from dataclasses import dataclass\n@dataclass\nclass A:\n  x: int",
    "def f(x):\n  match x:\n    case {'a': [1, *r]} if r: return r\n    case str(): return 1",
    "f = lambda *a, **k: (a, k)",
    "def f():\n  x = 1\n  def g():\n    nonlocal x\n    x = 2\n  return g",
    "async def f():\n  import asyncio\n  await asyncio.sleep(0)",
    "x = [y for y in range(3) if y]; z = {y: 1 for y in x}; s = {y for y in x}",
    "g = (y for y in [1])",
    "try: pass\nexcept (ValueError, TypeError) as e: raise\nelse: pass\nfinally: pass",
    "a, *b = [1, 2]; a += 1; (c := 3)",
    "x: int = 1\nassert x, 'y'",
    "assert True, 3",
    "ValueError(); KeyError('a'); OSError(f'{1}'); TypeError('a' + 'b'); ValueError(*['a'])",
    "def KeyError(a, b): pass\nKeyError(1, 2)",
    "def input(): pass\ninput()",
    "def deco(f): return f\n@deco\ndef f(): pass",
]


@pytest.fixture(scope="module")
def monty() -> Iterator[Monty]:
    with Monty(max_processes=1) as pool:
        yield pool


def takes(monty: Monty, code: str) -> bool:
    """Whether Monty runs it."""
    with monty.checkout(limits={"max_feed_duration_secs": 5.0}) as session:
        try:
            session.feed_run(code)
        except MontyError:
            return False
    return True


def findings(code: str, language: str = "python") -> Sequence[Finding]:
    node = {"type": "code", "language": language, "code": code + "\ndef main(params): pass\n"}
    text = f"name: w\nnodes:\n  a: {json.dumps(node)}\n"
    return load(text, file="w.yaml", parser=PARSER).findings


def codes(code: str, language: str = "python") -> list[str]:
    return [finding.code for finding in findings(code, language)]


@pytest.mark.parametrize("code", LACKS)
def test_what_monty_lacks_is_found(monty: Monty, code: str) -> None:
    assert not takes(monty, code), "Monty has learnt it: take it out of dsl.code"
    assert set(codes(code)) == {"python_subset"}
    assert codes(code, "cpython") == []


@pytest.mark.parametrize(
    ("code", "cure"),
    [
        ("import uuid", "say `language: cpython`"),
        ("import xml.dom", "say `language: cpython`"),
        ("import requests", "put it into a task"),
        ("from numpy.linalg import inv", "put it into a task"),
        ("from .mine import it", "put it into a task"),
    ],
)
def test_the_cure_for_a_module_is_where_the_module_is(code: str, cure: str) -> None:
    (finding,) = findings(code)

    assert cure in finding.hint


@pytest.mark.parametrize("code", HAS)
def test_what_monty_has_is_no_finding(monty: Monty, code: str) -> None:
    assert takes(monty, code)
    assert codes(code) == []


def test_the_modules_of_the_table_are_those_of_monty(monty: Monty) -> None:
    names = (sys.stdlib_module_names | {"os.path", "numpy"}) - {"antigravity", "this"}

    assert {name for name in names if takes(monty, f"import {name}")} == MODULES - {"__future__"}
    assert takes(monty, "from __future__ import annotations")


def test_the_names_of_the_table_are_unknown_to_monty(monty: Monty) -> None:
    assert [name for name in sorted(BUILTINS) if takes(monty, name)] == []


def test_an_import_that_the_code_guards_is_no_finding() -> None:
    assert codes("try:\n  import uuid\nexcept ImportError:\n  pass") == []


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("cpython", "open({path!r}, 'w')\ndef main(params): pass"),
        ("python", "open({path!r}, 'w')\ndef main(params): pass"),
        ("javascript", "throw {path!r}; function main() {{}}"),
        ("javascript", "}}); throw {path!r}; (function main() {{"),
    ],
)
def test_validating_runs_no_code(tmp_path: Path, language: str, code: str) -> None:
    path = tmp_path / "ran"
    node = {"type": "code", "language": language, "code": code.format(path=str(path))}
    text = f"name: w\nnodes:\n  a: {json.dumps(node)}\n"

    found = load(text, file="w.yaml", parser=PARSER).findings

    assert not path.exists()
    assert not any(str(path) in finding.message for finding in found)


@pytest.mark.parametrize("language", ["python", "cpython", "javascript"])
@pytest.mark.parametrize(
    "code", ["(" * 5_000, "-" * 200_000 + "1", "\0", "[" * 100_000, "1" + "+1" * 100_000, "\ud800"]
)
def test_code_of_any_shape_gives_findings_and_no_crash(language: str, code: str) -> None:
    node = {"type": "code", "language": language, "code": code}
    text = f"name: w\nnodes:\n  a: {json.dumps(node)}\n"

    assert load(text, file="w.yaml", parser=PARSER).graph is None

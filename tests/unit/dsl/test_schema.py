"""The JSON Schema of definitions says of keys what the loader says of them, and is published fresh."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.unit.dsl.cases import CASES, HERE
from tests.unit.dsl.nested_cases import NESTED
from tests.unit.dsl.type_cases import TYPED

from tenuto.adapters.cel import CelParser
from tenuto.dsl import keys, yaml
from tenuto.dsl.compile import load
from tenuto.dsl.findings import Findings, Severity
from tenuto.dsl.schema import FILE, definition_schema, schema_text
from tenuto.model.definition import NodeType

ROOT = Path(__file__).resolve().parents[3]
VALIDATOR = Draft202012Validator(definition_schema())
EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml"))
ALL = CASES + NESTED + TYPED

ABOUT_KEYS = {
    *("unknown_key", "missing_key", "key_not_allowed", "wrong_type", "bad_value", "duration_type"),
    *("bad_duration", "wait_form", "no_nodes", "unknown_type", "bad_id", "edge_form"),
    "handler_not_leaf",
}
"""Findings that the schema must have, too."""


def tree_of(text: str) -> Any:
    tree = yaml.read(text, Findings("a.yaml", text))
    return None if tree is None else yaml.to_json(tree)


def errors_of(text: str) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(tree_of(text))]


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(definition_schema())


def test_the_published_one_is_fresh() -> None:
    assert (ROOT / "docs" / FILE).read_text() == schema_text(), "run scripts/gen_schema.py"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_fits(path: Path) -> None:
    text = path.read_text()
    if "nodes" not in tree_of(text):
        pytest.skip("no definition")

    assert errors_of(text) == []


def test_every_definition_that_loads_fits() -> None:
    seen, bad = 0, []
    for code, marked in ALL:
        text = marked.replace(HERE, "")
        if len(text) > 20_000:
            continue
        loaded = load(text, file="a.yaml", parser=CelParser())
        if loaded.graph is not None:
            seen += 1
            bad += [(code, text, error) for error in errors_of(text)]
    assert bad == []
    assert seen > 15


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.name)
def test_every_definition_in_the_docs_fits(path: Path) -> None:
    for block in re.findall(r"^```yaml\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE):
        if load(block, file="a.yaml", parser=CelParser()).graph is not None:
            assert errors_of(block) == [], block


@pytest.mark.parametrize(
    ("code", "marked"),
    [case for case in ALL if case[0] in ABOUT_KEYS],
    ids=lambda value: value if value in ABOUT_KEYS else None,
)
def test_what_the_loader_says_of_keys_the_schema_says(code: str, marked: str) -> None:
    text = marked.replace(HERE, "")
    loaded = load(text, file="a.yaml", parser=CelParser())
    [finding, *_] = [f for f in loaded.findings if f.code == code]
    if finding.severity is Severity.WARNING or is_beyond(code, text, str(finding)):
        return

    assert errors_of(text), finding


def is_beyond(code: str, text: str, finding: str) -> bool:
    """What a schema cannot say: what an expression yields, and how long a duration is in all."""
    return (code == "duration_type" and "${" in text) or "limit of 3660d" in finding


def test_every_type_and_every_key_of_the_tables_stands_in_it() -> None:
    defs = json.loads(schema_text())["$defs"]

    for type in NodeType:
        assert set(defs[type]["properties"]) == {*keys.COMMON, *keys.OWN[type]}
    assert set(json.loads(schema_text())["properties"]) == set(keys.TOP)


def test_what_begins_with_x_is_free() -> None:
    assert errors_of("name: a\nx-mine: 1\nnodes: {a: {type: fork, x-mine: 1}}\n") == []

"""What the page on expressions says is so: its examples, and that no name and no function is left out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tenuto.adapters.cel import CelEvaluator
from tenuto.adapters.cel.complaints import _FUNCTIONS
from tenuto.adapters.cel.context import BUILT_MAX
from tenuto.adapters.cel.functions import MERGE_MAX, RANGE_MAX
from tenuto.adapters.cel.names import NODE_FIELDS, OWN_FIELDS
from tenuto.model.expressions import Expression, ExpressionKind, Itself, Root, Scope
from tenuto.model.ids import RUN_PLACE
from tenuto.model.payload import PayloadKey, PayloadKind, Text

PAGE = (Path(__file__).parents[4] / "docs" / "expressions.md").read_text()
EXAMPLES = re.findall(r"\| `([^|]*)` → `([^|]*)` \|$", PAGE.replace("\\|", "|"), re.MULTILINE)
SCOPE = Scope(
    PayloadKey(RUN_PLACE, PayloadKind.INPUT),
    PayloadKey(RUN_PLACE, PayloadKind.VARS),
    itself=Itself(0, "key", "seed"),
)


@pytest.mark.parametrize(("text", "value"), EXAMPLES)
def test_X6_an_example_gives_what_it_shows(text: str, value: str) -> None:
    expression = Expression(ExpressionKind.VALUE, json.dumps(f"${{{text}}}"), "here")

    found = CelEvaluator({}).evaluate(expression, SCOPE)

    assert isinstance(found, Text), found
    assert json.loads(found.text or "") == json.loads(value)
    assert type(json.loads(found.text or "")) is type(json.loads(value))


def test_each_table_of_functions_has_an_example_in_each_row() -> None:
    functions = PAGE[PAGE.index("## Functions") : PAGE.index("## Numbers")]
    rows = [line for line in functions.splitlines() if line.startswith("| `")]

    assert len(rows) == len(EXAMPLES) >= 60


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_each_function_stands_on_the_page(name: str) -> None:
    assert re.search(rf"`[^`]*\b{re.escape(name)}\b[^`]*`", PAGE)


@pytest.mark.parametrize("root", [root for root in Root if root is not Root.NODE])
def test_each_name_stands_on_the_page(root: Root) -> None:
    assert re.search(rf"^\|[^|]*`{root}\b", PAGE, re.MULTILINE)


def test_each_field_of_a_node_stands_on_the_page() -> None:
    for field in NODE_FIELDS:
        assert re.search(rf"^\| `nodes\.NAME\.[^|]*\b{field}`", PAGE, re.MULTILINE), field
    for field in OWN_FIELDS:
        assert f"| `node.{field}` |" in PAGE


def test_the_limits_are_those_of_the_code() -> None:
    for limit in (
        f"makes another of | {BUILT_MAX:,} |",
        f"`range` | {RANGE_MAX:,} |",
        f"up to {MERGE_MAX};",
    ):
        assert limit in PAGE

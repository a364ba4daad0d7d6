"""Every rule of the semantics that this release has is proven by a test named after it."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
RULES = {
    *(f"T{n}" for n in range(1, 8)),
    *(f"J{n}" for n in range(1, 5)),
    *("F1", "F2", "F3", "F4", "F5", "F7", "F8"),
    *(f"L{n}" for n in range(1, 6)),
    *("C1", "C2", "C5", "C6", "C7"),
    *("X2", "X3", "X4", "X5", "X7", "X8", "X9"),
    "D",
}


def test_every_rule_has_a_test_named_after_it() -> None:
    names = (
        name
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"def test_((?:[A-Z]\d?_)+)", path.read_text())
    )
    cited = {rule for name in names for rule in name.split("_")}

    assert RULES - cited == set()

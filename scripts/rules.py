"""Lists sentences of docs/rules.md that no test cites; exit 1 if there are any, or if one is cited that is not there.

A test cites with `@pytest.mark.rule("T1.1", …)`, on itself, its class or, as `pytestmark`, its module. Standard library
only; run it from anywhere.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "docs" / "rules.md"
TESTS = ROOT / "tests"
_SENTENCE = re.compile(r"^- \*\*([A-Z]\d+\.\d+)\*\* (.*(?:\n  .*)*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Citation:
    """One number in one mark."""

    rule: str
    file: Path
    line: int


def sentences(text: str) -> dict[str, str]:
    """Number -> sentence, in the order of the page."""
    return {number: " ".join(said.split()) for number, said in _SENTENCE.findall(text)}


def citations(file: Path, source: str) -> Iterator[Citation]:
    """What the marks of one file cite. Only marks that stand on a test, a class of tests or the module count."""
    tree = ast.parse(source, str(file))
    for node in ast.walk(tree):
        marks: list[ast.expr] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            marks = node.decorator_list
        elif isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
        ):
            marks = node.value.elts if isinstance(node.value, ast.List) else [node.value]
        for mark in marks:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.rule":
                for argument in mark.args:
                    yield Citation(str(ast.literal_eval(argument)), file, argument.lineno)


def report(rules: dict[str, str], cited: list[Citation]) -> list[str]:
    """What is wrong, a line each."""
    known = {citation.rule for citation in cited}
    lines = [
        f"{number} has no test: {said}" for number, said in rules.items() if number not in known
    ]
    lines += [
        f"{c.file}:{c.line} cites {c.rule}, which is not in {RULES.name}"
        for c in cited
        if c.rule not in rules
    ]
    return lines


def main() -> int:
    """Print what is wrong, or how many sentences are cited how often."""
    rules = sentences(RULES.read_text(encoding="utf-8"))
    cited = [
        citation
        for file in sorted(TESTS.rglob("test_*.py"))
        for citation in citations(file.relative_to(ROOT), file.read_text(encoding="utf-8"))
    ]
    wrong = report(rules, cited)
    for line in wrong:
        print(line)
    if not wrong:
        print(f"{len(rules)} sentences, cited {len(cited)} times")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

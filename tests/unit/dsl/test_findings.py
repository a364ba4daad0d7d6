"""Every finding: the smallest file that causes it, and the exact line and column that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit.dsl.cases import CASES, HERE
from tests.unit.dsl.nested_cases import NESTED
from tests.unit.dsl.type_cases import APP, TYPED

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import load
from tenuto.dsl.findings import (
    FINDINGS_MAX,
    KINDS,
    Finding,
    Findings,
    Severity,
    as_markdown,
)

PARSER = CelParser()
ALL = CASES + NESTED + TYPED
PAGES = Path(__file__).resolve().parents[3] / "docs"
DOCS = PAGES / "definition.md"
RULES = (PAGES / "rules.md").read_text()
BYTES = [
    (b"name: \xff\n", 1, 7),
    (b"\xef\xbb\xbfname: a\nx: \xe4", 2, 4),
    ("name: a".encode("utf-16"), 1, 1),
]


def place(text: str) -> tuple[str, int, int]:
    """Take the marker out; the line and column where it stood."""
    before = text[: text.index(HERE)]
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    return text.replace(HERE, ""), line, column


@pytest.mark.rule(
    "J3.4", "C3.1", "C4.1", "X1.1", "X7.5", "X8.4", "V1.1", "V1.2", "V1.3", "V2.1", "V3.1", "V4.1"
)
@pytest.mark.parametrize(
    ("code", "marked"), ALL, ids=[f"{n}-{code}" for n, (code, _) in enumerate(ALL)]
)
def test_the_smallest_file_gives_the_finding_at_its_place(code: str, marked: str) -> None:
    assert marked.count(HERE) == 1
    text, line, column = place(marked)

    loaded = load(text, file="a.yaml", parser=PARSER, tasks=APP)

    found = [finding for finding in loaded.findings if finding.code == code]
    assert [(f.line, f.column) for f in found] == [(line, column)], show(loaded.findings)
    assert found[0].severity is KINDS[code].severity
    assert found[0].hint
    assert (loaded.graph is None) == any(f.severity is Severity.ERROR for f in loaded.findings)
    if KINDS[code].severity is Severity.ERROR:
        others = {f.code for f in loaded.findings if f.severity is Severity.ERROR} - {code}
        assert others <= ALONG.get(code, set()), show(loaded.findings)


# Mistakes that a file cannot have alone.
ALONG = {
    "too_many_findings": {"bad_id"},
    "number_range": set(),
    "duplicate_key": set(),
}


@pytest.mark.parametrize(("data", "line", "column"), BYTES)
def test_bytes_that_are_no_text_give_the_finding_at_the_first_of_them(
    data: bytes, line: int, column: int
) -> None:
    loaded = load(data, file="a.yaml", parser=PARSER)

    assert [(f.code, f.line, f.column) for f in loaded.findings] == [("encoding", line, column)]
    assert loaded.graph is None


@pytest.mark.rule("V3.1", "V4.1")
def test_every_code_of_the_table_has_a_case() -> None:
    assert {code for code, _ in ALL} | {"encoding"} == set(KINDS)


@pytest.mark.rule("V1.3", "V3.1", "V4.1")
@pytest.mark.parametrize(
    ("sentences", "severity"), [("V1 V2 V3", Severity.ERROR), ("V4", Severity.WARNING)]
)
def test_the_codes_that_the_rules_name_are_findings_of_that_severity(
    sentences: str, severity: Severity
) -> None:
    """With the test above: each of them has a smallest file that gives it, at its place and with a hint."""
    named = {
        code
        for number in sentences.split()
        for said in re.findall(rf"^- \*\*{number}\.\d+\*\* (.*(?:\n  .*)*)", RULES, re.MULTILINE)
        for code in re.findall(r"`([a-z]+(?:_[a-z]+)+|cycle|unreachable)`", said)
    }

    assert len(named) > 6
    assert {code: KINDS[code].severity for code in named} == dict.fromkeys(named, severity)


def test_a_finding_is_one_line_and_its_hint() -> None:
    finding = Finding(
        code="unknown_key",
        severity=Severity.ERROR,
        file="order.yaml",
        line=12,
        column=7,
        text="tiemout",
        message="a task node has no key `tiemout`",
        hint="did you mean `timeout`?",
    )

    assert str(finding) == (
        "order.yaml:12:7: error unknown_key: a task node has no key `tiemout`\n"
        "    hint: did you mean `timeout`?"
    )
    assert finding.as_dict() == {
        "code": "unknown_key",
        "severity": "error",
        "file": "order.yaml",
        "line": 12,
        "column": 7,
        "text": "tiemout",
        "message": "a task node has no key `tiemout`",
        "hint": "did you mean `timeout`?",
    }


def test_findings_come_in_document_order_whoever_found_them() -> None:
    text = (
        "name: a\nnodes:\n"
        "  a: {type: task, task: t, params: {x: '${nodes.z.output}'}, timeout: 5}\n"
        "  b: {type: task, task: t, needs: a, tiemout: 1s}\n"
        "edges:\n  - b -> a\n"
    )

    codes = [f.code for f in load(text, file="a.yaml", parser=PARSER).findings]

    assert codes == ["unknown_reference", "duration_type", "unknown_key", "cycle"]


def test_columns_count_characters_not_bytes() -> None:
    text = "name: a\nx-ä: 1\nnodes: {a: {x-é: '😀', tpye: fork, type: fork}}\n"

    (finding,) = load(text, file="a.yaml", parser=PARSER).findings

    assert (finding.line, finding.column) == (3, text.splitlines()[2].index("tpye") + 1)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_end_counts_as_one_line(end: str) -> None:
    text = end.join(
        ["name: a", "# \u2028 no line end for an editor", "nodes: {a: {type: frok}}", ""]
    )

    (finding,) = load(text, file="a.yaml", parser=PARSER).findings

    assert (finding.code, finding.line, finding.column) == ("unknown_type", 3, 19)


def test_the_list_is_cut_where_it_helps_nobody() -> None:
    findings = Findings("a.yaml", "x\n" * 5_000)
    for n in range(5_000):
        findings.add("bad_alias", 2 * n, f"n{n}")

    found = findings.in_order()

    assert len(found) == FINDINGS_MAX + 1
    assert found[-1].code == "too_many_findings"


def test_the_same_mistake_behind_an_alias_is_told_once() -> None:
    text = "name: a\nnodes:\n  a: &a {type: fork, oops: 1}\n  b: *a\n"

    codes = [f.code for f in load(text, file="a.yaml", parser=PARSER).findings]

    assert codes == ["unknown_key"]


def test_suggestions_stop_when_the_file_is_full_of_mistakes() -> None:
    findings = Findings("a.yaml", "")
    names = [f"node_{n}" for n in range(10_000)]

    answers = [findings.suggest("nod_17", names) for _ in range(50)]

    assert answers[0] == "node_17"
    assert answers[-1] is None


@pytest.mark.rule("D1.5")
def test_the_table_in_the_docs_is_the_table() -> None:
    found = re.search(r"<!-- findings -->\n(.*?)\n<!-- end -->", DOCS.read_text(), re.DOTALL)

    assert found is not None
    assert as_markdown() == found[1], (
        "print it: python -c 'from tenuto.dsl.findings import as_markdown; print(as_markdown())'"
    )


def show(findings: tuple[Finding, ...]) -> str:
    return "\n".join(map(str, findings))

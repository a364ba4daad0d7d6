"""Typed reading of one mapping: the value, or None and one finding."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenuto.dsl.findings import Findings
from tenuto.dsl.section import Section
from tenuto.dsl.yaml import Fields, read
from tenuto.model.instants import SECOND_US

Reader = Callable[[Section], object]


def section_of(text: str) -> Section:
    findings = Findings("a.yaml", text)
    tree = read(text, findings)
    assert isinstance(tree, Fields)
    return Section(tree, findings, "this", at=0, name="this")


READERS: list[tuple[str, Reader, object, str]] = [
    ("k: a", lambda s: s.text("k", cure="c"), "a", "k: 1"),
    ("k: a", lambda s: s.choice("k", ("a", "b")), "a", "k: c"),
    ("k: true", lambda s: s.flag("k"), True, "k: yes"),
    ("k: 3", lambda s: s.integer("k", 1, 3), 3, "k: 4"),
    ("k: 3", lambda s: s.integer("k", 1, 3), 3, "k: true"),
    ("k: 3", lambda s: s.integer("k", 1, 3), 3, "k: 2.5"),
    ("k: 1.5", lambda s: s.number("k", 1, 3), 1.5, "k: 0.5"),
    ("k: 1s", lambda s: s.duration("k"), SECOND_US, "k: 0s"),
    ("k: 0s", lambda s: s.duration("k", zero=True), 0, "k: -1s"),
    ("k: 1970-01-01T00:00:01Z", lambda s: s.instant("k"), SECOND_US, "k: 1970-01-01"),
    ("k: 1970-01-01T00:00:01Z", lambda s: s.instant("k"), SECOND_US, "k: 12"),
]


@pytest.mark.parametrize(("good", "reader", "value", "bad"), READERS)
def test_a_right_value_is_read_and_a_wrong_one_is_told(
    good: str, reader: Reader, value: object, bad: str
) -> None:
    right, wrong = section_of(good), section_of(bad)

    assert reader(right) == value
    assert not right.findings.has_errors
    assert reader(wrong) is None
    assert len(wrong.findings.in_order()) == 1


@pytest.mark.parametrize("reader", [case[1] for case in READERS])
def test_an_absent_key_is_none_and_no_finding(reader: Reader) -> None:
    section = section_of("{}")

    assert reader(section) is None
    assert not section.findings.has_errors


def test_a_list_and_a_mapping_are_told_apart() -> None:
    section = section_of("{a: [1], b: {}}")

    assert section.items("a", "c") is not None
    assert section.items("b", "c") is None
    assert section.section("b", "b", "c") is not None
    assert section.section("a", "a", "c") is None
    assert [f.code for f in section.findings.in_order()] == ["wrong_type", "wrong_type"]


def test_an_empty_value_is_told_at_its_key() -> None:
    section = section_of("a: 1\nk:\n")

    assert section.duration("k") is None
    (finding,) = section.findings.in_order()
    assert (finding.code, finding.line, finding.column) == ("wrong_type", 2, 1)


def test_keys_are_allowed_elsewhere_free_or_unknown() -> None:
    section = section_of("{a: 1, b: 1, c: 1, x-d: 1, aa: 1}")

    section.check_keys(("a",), elsewhere={"c": "it stands there"})

    found = section.findings.in_order()
    assert [(f.code, f.text) for f in found] == [
        ("unknown_key", "b"),
        ("key_not_allowed", "c"),
        ("unknown_key", "aa"),
    ]
    assert found[2].hint == "did you mean `a`?"

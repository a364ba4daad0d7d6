"""The definition's door to CEL."""

from __future__ import annotations

import pytest

from tenuto.adapters.cel import CelParser
from tenuto.model.expressions import FoundRead, Parsed, ParseError, Parser, Read, Root


def test_a_good_text_gives_reads_type_and_divisions() -> None:
    parser: Parser = CelParser()

    assert parser.parse("nodes.a.?output.n.orValue(4 / 2) > input.x") == Parsed(
        reads=(
            FoundRead(Read(Root.NODES, "a", "output"), 0, guarded=True),
            FoundRead(Read(Root.INPUT), 35, guarded=False),
        ),
        result="bool",
        divides_ints=(28,),
    )


@pytest.mark.parametrize(
    "text", ["nope", "nodes", "nodes.a.outptu", "1 +", "'x' + secrets.A", "\0"]
)
def test_a_bad_text_gives_an_error(text: str) -> None:
    assert isinstance(CelParser().parse(text), ParseError)


def test_an_optional_result_is_anything() -> None:
    parsed = CelParser().parse("input.?a")

    assert isinstance(parsed, Parsed)
    assert parsed.result == "dyn"


def test_the_end_of_an_expression_is_found() -> None:
    assert CelParser().end_of("${ {'}': 1} }", 2) == 12

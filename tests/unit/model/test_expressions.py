from __future__ import annotations

from tenuto.model.expressions import Expression, ExpressionKind, Read, Root, reads_of


def reading(*reads: Read) -> Expression:
    return Expression(ExpressionKind.VALUE, "{}", "here", reads)


def test_reads_of_several_expressions_are_listed_once_in_order() -> None:
    a, b = Read(Root.NODES, "a", "output"), Read(Root.NODES, "b", "output")

    assert reads_of([reading(b, a), None, reading(a, Read(Root.INPUT))]) == (b, a, Read(Root.INPUT))


def test_nothing_is_read_where_there_is_no_expression() -> None:
    assert reads_of([None, reading()]) == ()

"""Functions that are run by another spelling than they are written in."""

from __future__ import annotations

import pytest

from tenuto.adapters.cel.respelling import respell


def squeezed(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("lists.range(3) + range(2)", "range(3) + range(2)"),
        ("input.l.distinct()", "input.l.unique()"),
        ("input.l . distinct ( )", "input.l . unique ( )"),
        ("json_encode(input.a)", "json_text([input.a\n])"),
        ("json_encode(json_encode({'a': [1, 2]}))", "json_text([json_text([{'a': [1, 2]}\n])\n])"),
        ("input.distinct + input.first", "input.distinct + input.first"),
        ("'first(1) lists.range(2) a.distinct()'", "'first(1) lists.range(2) a.distinct()'"),
        ("1 + 2 // lists.range(3)", "1 + 2 // lists.range(3)"),
        ("", ""),
    ],
)
def test_a_call_is_spelled_as_it_is_run_and_the_rest_stays(text: str, spelled: str) -> None:
    assert respell(text, {}) == spelled


@pytest.mark.parametrize(
    ("text", "optional", "spelled"),
    [
        ("first(a)", [True], "((a).optMap(_v, dyn(_v)).orValue(dyn(null)))"),
        (
            "first(a, f(b, [c, d]))",
            [True, False],
            "((a).optMap(_v,dyn(_v)).or(optional.of(dyn(f(b,[c,d])))).orValue(dyn(null)))",
        ),
    ],
)
def test_first_is_a_chain_of_optionals(text: str, optional: list[bool], spelled: str) -> None:
    assert squeezed(respell(text, {text.index("("): optional})) == squeezed(spelled)


def test_a_first_inside_another_is_spelled_too() -> None:
    text = "1 + first(first(a, b), c)"
    firsts = {9: [False, False], 15: [True, True]}

    spelled = squeezed(respell(text, firsts))

    assert spelled == squeezed(
        "1 + (optional.of(dyn(((a).optMap(_v, dyn(_v)).or((b).optMap(_v, dyn(_v)))"
        ".orValue(dyn(null))))).or(optional.of(dyn(c))).orValue(dyn(null)))"
    )


def test_comments_end_before_what_is_added() -> None:
    assert respell("json_encode(1 // one\n)", {}) == "json_text([1 // one\n\n])"
    assert respell("json_encode(// one\n1)", {}) == "json_text([// one\n1\n])"

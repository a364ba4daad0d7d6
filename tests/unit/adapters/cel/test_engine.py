"""What this project relies on, or changes, in the CEL engine."""

from __future__ import annotations

import math

import pytest

from tenuto.adapters.cel.engine import Compiled, Raised, Uncompiled, compile_text, run

DATA = {
    "input": {
        "n": 3,
        "d": 2.5,
        "zero": 0,
        "s": "hello",
        "big": 2**63,
        "list": [3, 1, 2],
        "many": list(range(200)),
        "nil": None,
        "größe": 1,
    },
    "iteration": 2,
    "error": None,
}


def value_of(text: str) -> object:
    compiled = compile_text(text)
    assert isinstance(compiled, Compiled), compiled
    return run(compiled, DATA)


@pytest.mark.rule("X6.1", "X8.4")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        # an integer and a double mix, either way round (SEMANTICS X8)
        ("input.n + input.d", 5.5),
        ("input.d + input.n", 5.5),
        ("input.n - input.d", 0.5),
        ("input.d - input.n", -0.5),
        ("input.n * input.d", 7.5),
        ("input.d * input.n", 7.5),
        ("input.n / 2.0", 1.5),
        ("7.5 / input.n", 2.5),
        ("1 + 0.5", 1.5),
        ("iteration * 1.5", 3.0),
        ("input.big * 0.5", float(2**62)),
        ("0.5 + input.big", float(2**63)),
        ("input.n / input.zero == 1 || true", True),
        ("1 / 0.0", math.inf),
        ("-1 / 0.0", -math.inf),
        ("1.5 / input.zero", math.inf),
        # two ints stay ints
        ("input.n / 2", 1),
        ("-input.n / 2", -1),
        ("input.n % 2", 1),
        ("input.n * 2", 6),
        # comparison mixes by itself where a type is not proven
        ("input.n < 3.5", True),
        ("input.n == 3.0", True),
        ("input.d > 2", True),
        ("input.n in [1, 3]", True),
        # strings
        ("'ab' + 'cd'", "abcd"),
        ("size('größe€')", 6),
        ("'Abc'.lowerAscii()", "abc"),
        ("'abc'.upperAscii()", "ABC"),
        ("' x '.trim()", "x"),
        ("'a,b'.split(',')", ["a", "b"]),
        ("['a', 'b'].join('-')", "a-b"),
        ("'hello'.replace('l', 'L')", "heLLo"),
        ("'hello'.substring(1, 3)", "el"),
        ("'hello'.indexOf('l')", 2),
        ("'hello'.lastIndexOf('l')", 3),
        ("'hello'.charAt(4)", "o"),
        ("'abc'.reverse()", "cba"),
        ("'%s is %d, %.1f'.format(['x', 3, 2.5])", "x is 3, 2.5"),
        ("'hello'.matches('^h.*o$')", True),
        ("'hello'.startsWith('he') && 'hello'.contains('ll') && 'hello'.endsWith('lo')", True),
        ("string(3) + string(true)", "3true"),
        ("int('42') + int(2.9)", 44),
        ("double('1.5')", 1.5),
        # optionals
        ("input.?n.orValue(0)", 3),
        ("input.?gone.orValue(0)", 0),
        ("input.?gone.?deeper.orValue('d')", "d"),
        ("input.?n", 3),
        ("input.?gone", None),
        ("input.?gone // with a comment", None),
        ("input.?n.hasValue()", True),
        ("input.?n.optMap(x, x + 1).orValue(0)", 4),
        ("optional.none()", None),
        ("[?input.?gone, 1]", [1]),
        ("{?'a': input.?gone, 'b': 1}", {"b": 1}),
        ("input[?'n'].orValue(0)", 3),
        ("has(input.gone)", False),
        ("has(input.nil)", True),
        # lists, maps, macros
        ("input.list.map(x, x * 2)", [6, 2, 4]),
        ("input.list.filter(x, x > 1)", [3, 2]),
        ("input.list.exists(x, x == 2) && input.list.all(x, x > 0)", True),
        ("[1, 2, 3].all(e, 6 / (2 - e) == 6)", False),
        ("size(input.list) + size({'a': 1})", 4),
        ("input['größe']", 1),
        ("error == null", True),
        ("true ? 1 : 1 / 0", 1),
        ("false && input.gone.x", False),
        ("input.gone.x || true", True),
        ("timestamp('2020-01-01T00:00:00Z') < timestamp('2021-01-01T00:00:00Z')", True),
        ("duration('90m') == duration('1.5h')", True),
        ("string(timestamp('2020-01-01T00:00:00Z'))", "2020-01-01T00:00:00Z"),
        ("dyn(1) == 1.0", True),
    ],
)
def test_an_expression_has_the_value_that_the_manual_promises(text: str, value: object) -> None:
    found = value_of(text)

    assert found == value
    assert type(found) is type(value)


def test_dividing_nothing_by_nothing_is_nan() -> None:
    assert math.isnan(value_of("input.zero / 0.0"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "input.gone",
        "input.n / input.zero",
        "9223372036854775807 + input.n",
        "input.n + 'a'",
        "input.list[9]",
        "input.s.x",
        "input.many.map(a, input.many.map(b, a))",
        "int('x')",
        "optional.none().value()",
        "[input.?gone]",
        "dyn(optional.of(1))",
    ],
)
def test_a_failure_is_a_value_not_an_exception(text: str) -> None:
    assert isinstance(value_of(text), Raised)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 +",
        "nope",
        "1 < 2.5",
        "'a' + 1",
        "(" * 40 + "1" + ")" * 40,
        "1" + " + 1" * 40,
        "input" + ".a" * 40,
        "x" * 100_001,
        "1 = 2",
        "\0",
        "'\ud800'",
        "{1.5: 2}",
    ],
)
def test_what_is_no_expression_is_a_value_too(text: str) -> None:
    assert isinstance(compile_text(text), Uncompiled)


def test_long_chains_of_conditions_compile() -> None:
    assert value_of(" && ".join(["true"] * 100)) is True
    assert value_of(" || ".join(["false"] * 100)) is False


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("true", "bool"),
        ("input.x", "dyn"),
        ("1", "int"),
        ("1.0", "double"),
        ("'a'", "string"),
        ("[1]", "list"),
        ("{'a': 1}", "map"),
        ("null", "null"),
        ("input.?x", "dyn"),
        ("input.x + 1", "dyn"),
        ("[1, 2].exists(x, x > 1)", "bool"),
    ],
)
def test_the_result_type_is_known_as_far_as_it_is_proven(text: str, result: str) -> None:
    compiled = compile_text(text)

    assert isinstance(compiled, Compiled)
    assert compiled.result == result

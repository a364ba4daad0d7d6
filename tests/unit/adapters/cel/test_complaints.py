"""The engine's complaints, in the user's words and with their place."""

from __future__ import annotations

import pytest

from tenuto.adapters.cel.complaints import parse_error, run_error
from tenuto.adapters.cel.engine import Compiled, Raised, Uncompiled, compile_text, run
from tenuto.model.expressions import ParseError


def error_of(text: str) -> ParseError:
    compiled = compile_text(text)
    assert isinstance(compiled, Uncompiled), compiled
    return parse_error(text, compiled.complaint)


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("", 0, "the expression is empty"),
        (" \n", 0, "the expression is empty"),
        ("1 +", 3, "the expression ends too early"),
        ("input.a ? 1", 11, "the expression ends too early: `:` is missing"),
        ("{1: 2,", 6, "the expression ends too early: `}` is missing"),
        ("'abc", 0, "the string has no end"),
        ("input.a = 1", 8, "unexpected `=`: compare with `==`"),
        ("input.a === 1", 10, "unexpected `=`: compare with `==`"),
        ("input.a & input.b", 8, "unexpected `&`: write `&&`"),
        ("input.a and input.b", 8, "unexpected `and`: write `&&`"),
        ("input.a or input.b", 8, "unexpected `or`: write `||`"),
        ("input.größe", 8, 'unexpected `ö`: a key with such letters is read as `["…"]`'),
        ("1 2", 2, "unexpected `2`"),
        ("if", 0, "`if` is a reserved word"),
        ("has(input)", 4, "`has()` asks for a key: write `has(input.name)`"),
        ("1 < 2.5", 2, "`<` cannot compare an int with a double here: write double(…)"),
        ("'a' + 1", 4, "`+` does not take string and int"),
        ("input.?a == 1", 9, "`==` does not take an optional: end it with `.orValue(…)`"),
        ("1 && true", 2, "`&&` needs true or false"),
        ("'a'.substring('b')", 13, "`substring` does not take string and string"),
        ("'€' +\n  qqq", 8, "unknown name `qqq`; an expression reads input, vars, nodes"),
        ("input.order-id", 12, 'a key with a hyphen is read as `["…"]`'),
        ("(" * 40 + "1" + ")" * 40, 0, "nested too deeply: at most 32 levels"),
        ("1" + " + 1" * 40, 0, "nested too deeply: at most 32 levels"),
        ("x" * 100_001, 0, "longer than 100,000 characters"),
        ("'\ud800'", 0, "lone surrogate"),
        ("{1.5: 2}", 0, "a map has keys of type double: keys are strings"),
        ("{null: 2}", 0, "a map has keys of type null: keys are strings"),
        ("{[1]: 2}", 0, "a map has keys of type list: keys are strings"),
    ],
)
def test_a_bad_text_is_explained_at_its_place(text: str, offset: int, message: str) -> None:
    error = error_of(text)

    assert message in error.message
    assert error.offset == offset


@pytest.mark.parametrize(
    ("text", "offset", "suggestion"),
    [
        ("inptu.a", 0, "input"),
        ("1 + var.a", 4, "vars"),
        ("node_s.a", 0, "nodes"),
        ("Input.a", 0, "input"),
        ("True", 0, "true"),
        ("input.a == None", 11, "null"),
        ("len(input.a)", 0, "size"),
        ("input.a.lower()", 8, "lowerAscii"),
        ("'a'.startswith('b')", 4, "startsWith"),
        ("steps.a", 0, "nodes"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(text: str, offset: int, suggestion: str) -> None:
    error = error_of(text)

    assert (error.offset, error.suggestion) == (offset, suggestion)


@pytest.mark.parametrize(("text", "suggestion"), [
    ("node.entered", "node.entered_at"), ("node.key", None), ("node", None), ("1 + node['entered_at']", None),
])  # fmt: skip
def test_what_the_reader_knows_of_itself_is_written_so(text: str, suggestion: str | None) -> None:
    error = error_of(text)

    assert "`node.entered_at`, `node.callback_key`" in error.message
    assert error.suggestion == suggestion


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("input.n / 0", "division by zero"),
        ("input.n % 0", "modulo by zero"),
        ("9223372036854775807 + input.n", "integer overflow"),
        ("input.n + 'a'", "`+` does not take int and string"),
        ("!input.n", "`!` needs true or false"),
        ("input.n ? 1 : 2", "`? :` needs true or false"),
        ("input.n && true", "`&&` needs true or false"),
        ("string(input.nil)", "`string` does not take null"),
        ("input.n.startsWith('x')", "`startsWith` does not take int and string"),
        ("input.many.map(a, input.many.map(b, a))", "more than 10,000 iterations"),
        ("[input.?gone]", "end it with `.orValue(…)`"),
        ("optional.none().value()", "use `orValue(…)`"),
        ("'x'.matches('[')", "invalid regular expression"),
        ("int('x')", "cannot convert string to int"),
        ("'abc'.charAt(9)", "`charAt`: <pos> is greater than <string>.size()"),
        ("input.gone", "no such key: gone"),
        ("input.many[999]", "index 999 is outside the list, which has 200 elements"),
        ("iteration", "`iteration` has no value here"),
        ("input.many.map(x, x.y)", "a key was read of what is no object"),
    ],
)
def test_a_failed_evaluation_is_explained(text: str, message: str) -> None:
    compiled = compile_text(text)
    assert isinstance(compiled, Compiled), compiled
    value = run(compiled, {"input": {"n": 1, "nil": None, "many": list(range(200))}})

    assert isinstance(value, Raised)
    assert message in run_error(value.complaint)

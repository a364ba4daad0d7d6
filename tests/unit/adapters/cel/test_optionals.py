"""An optional that came to Python alone or inside a map would end the process: it is refused before."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tenuto.adapters.cel.program import Program, program_of
from tenuto.model.expressions import ParseError

LOST = [
    ("{'a': input.?gone}", 11),
    ("{'a': optional.of(1)}", 17),
    ("[{'a': [input.?gone]}]", 7),
    ("{'a': dyn(input.?gone)}", 15),
    ("dyn(input.?gone)", 9),
    ("[input.?gone, 1]", 6),
    ("[input.?gone].map(v, {'a': v})", 27),
    ("[1].map(v, {'a': input.?gone})", 22),
    ("[dyn([input.?gone])].map(v, {'a': v})", 5),
    ("cel.bind(o, input.?gone, {'a': o})", 31),
    ("merge({'a': input.?gone}, {})", 6),
    ("merge({'a': [[input.?gone]]}, {})", 6),
    ("json_encode(input.?gone)", 17),
    ("json_encode([input.?gone])", 12),
    ("json_encode({'a': 1, 'b': input.?gone})", 31),
    ("first([input.?gone], 1)", 6),
    ("[input.?gone].distinct()", 0),
    ("'%s'.format([input.?gone])", 12),
    ("{'a': [input.?gone] + [input.?gone]}", 20),
    ("input.map(k, {'x': input[?k]})", 24),
    ("[input[?input.k]]", 6),
    ("cel.bind(o, input[?input.k], {'a': o})", 17),
    ("{?'a': optional.of(optional.of(1))}", 18),
    ("[true ? optional.of(1) : optional.none()].distinct()", 0),
]


@pytest.mark.parametrize(("text", "offset"), LOST)
def test_an_optional_that_loses_its_type_is_refused_where_it_stands(text: str, offset: int) -> None:
    error = program_of(text)

    assert isinstance(error, ParseError), error
    assert ".orValue(" in error.message
    assert error.offset == offset


@pytest.mark.parametrize(
    "text",
    [
        "input.?a",
        "input.?a.?b.orValue(1)",
        "{?'a': input.?gone, 'b': input.?gone.orValue(null)}",
        "[?input.?gone, 1]",
        "[input.?a, input.?b].filter(o, o.hasValue()).map(o, o.value())",
        "has(input.a) ? input.?a : optional.none()",
        "input.?a == optional.of(1)",
        "input.?a.optMap(v, {'a': v})",
        "input.?a.optFlatMap(v, v.?b)",
        "{'a': first(input.?a, input.?b)}",
        "optional.of(input.?a).value()",
        "[1].first().hasValue()",
        "input.?a.?b.or(input.?c)",
        "merge({'a': input.?a.orValue(1)}, {})",
        "input[?input.k]",
        "input[?input.k].orValue(1)",
        "first(input[?input.k], 1)",
    ],
)
def test_optionals_among_themselves_are_left_alone(text: str) -> None:
    assert isinstance(program_of(text), Program)


def test_no_text_with_optionals_ends_the_process() -> None:
    texts = [text for text, _ in LOST] + [
        "input.?gone", "[input.?gone]", "[[input.?gone]]", "optional.of(optional.of(1))", "[1].first()",
        "{?'a': optional.of([optional.of(1)])}", "json_text([1])", "json_text([optional.of(1)])",
        "[optional.of(1)].unique()", "input.?gone.optMap(v, {'a': optional.of(v)})", "true ? input.?gone : 1",
        "[true ? optional.of(1) : optional.none()].distinct()", "{'a': [1].first()}",
        "[[1].first()].map(x, {'a': x})", "optional.of({'a': optional.of(1)})",
        "[1, 2].map(x, optional.of(x)).map(y, {'a': y})", "[optional.of(1)].sortBy(x, {'a': x})",
        "{'a': {'b': optional.none()}}.a", "{'a': optional.none()}.a", "json_encode({'x': 1}.?x)",
        "cel.bind(o, [optional.of(1)], merge({'a': o}, {}))", "[{'a': 1}].map(m, m.?a)",
        "[{'a': 1}].map(m, {'x': m.?a})", "input.map(k, {'x': input[?k]})",
        "{?'a': input.?a.optMap(v, optional.of(v))}", "[?optional.of(optional.of(1))]", "[optional.none()]",
        "first(input[?input.a], 1)", "{'x': first(input[?input.a])}", "{'x': [1].last()}", "[optional.none()] + [1]",
        "cel.bind(o, true ? input[?input.a] : input[?input.b], {'a': o})", "dyn(input[?input.a])",
        "[1].map(x, input[?x]).map(y, {'a': y})", "optional.of(input[?input.a]).value()", "[[input[?input.a]]]",
    ]  # fmt: skip
    script = (
        "import sys\n"
        "from tenuto.adapters.cel import engine\n"
        "from tenuto.adapters.cel.program import Program, program_of\n"
        f"for text in {texts!r}:\n"
        "    program = program_of(text)\n"
        "    if isinstance(program, Program) and program.compiled is not None:\n"
        "        engine.run(program.compiled, {'input': {'a': 1}})\n"
        "print('whole')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr

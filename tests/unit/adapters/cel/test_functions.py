"""All functions that an expression may call (SEMANTICS X6): the library's, and ours."""

from __future__ import annotations

import base64
import hashlib
import uuid

import pytest

from tenuto.adapters.cel import engine
from tenuto.adapters.cel.functions import MERGE_MAX, RANGE_MAX, seeded
from tenuto.adapters.cel.program import Program, program_of
from tenuto.adapters.cel.respelling import FIRST_MAX

DATA = {
    "input": {
        "n": 3,
        "zero": 0,
        "half": 0.5,
        "big": 2**64 - 1,
        "nil": None,
        "yes": True,
        "text": "héllo",
        "list": [3, 1, 2, 1],
        "nested": [1, [2, [3, [4]]]],
        "objects": [{"n": 2, "s": "b"}, {"n": 1, "s": "a"}, {"n": 2, "s": "b"}],
        "object": {"b": 1, "a": [1.5, None]},
        "long": ["x" * 100] * 10_000,
    },
}
SEED = "018f0000-0000-7000-8000-000000000000/charge"


def value_of(text: str, seed: str = SEED) -> object:
    program = program_of(text)
    assert isinstance(program, Program), program
    assert program.compiled is not None
    return engine.run(program.compiled, DATA, seed)


def refusal(text: str) -> str:
    """Why a text does not compile, or does not evaluate."""
    program = program_of(text)
    if not isinstance(program, Program):
        return program.message
    assert program.compiled is not None
    found = engine.run(program.compiled, DATA)
    assert isinstance(found, engine.Raised), found
    return found.complaint


@pytest.mark.rule("X6.1")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        # the strings extension: the examples of its manual
        ("'hello'.charAt(4)", "o"),
        ("'hello'.charAt(5)", ""),
        ("'hello mellow'.indexOf('')", 0),
        ("'hello mellow'.indexOf('ello')", 1),
        ("'hello mellow'.indexOf('jello')", -1),
        ("'hello mellow'.indexOf('ello', 2)", 7),
        ("'hello mellow'.lastIndexOf('ello')", 7),
        ("'hello mellow'.lastIndexOf('ello', 6)", 1),
        ("['hello', 'mellow'].join()", "hellomellow"),
        ("['hello', 'mellow'].join(' ')", "hello mellow"),
        ("[].join('/')", ""),
        ("'TacoCat'.lowerAscii()", "tacocat"),
        ("'TacoCÆt Xii'.lowerAscii()", "tacocÆt xii"),
        ("'TacoCat'.upperAscii()", "TACOCAT"),
        ("'hello hello'.replace('he', 'we')", "wello wello"),
        ("'hello hello'.replace('he', 'we', 1)", "wello hello"),
        ("'hello hello'.replace('he', 'we', 0)", "hello hello"),
        ("'hello hello hello'.split(' ')", ["hello", "hello", "hello"]),
        ("'hello hello hello'.split(' ', 0)", []),
        ("'hello hello hello'.split(' ', 1)", ["hello hello hello"]),
        ("'hello hello hello'.split(' ', 2)", ["hello", "hello hello"]),
        ("'hello hello hello'.split(' ', -1)", ["hello", "hello", "hello"]),
        ("'tacocat'.substring(4)", "cat"),
        ("'tacocat'.substring(0, 4)", "taco"),
        ("'  \\ttrim\\n    '.trim()", "trim"),
        ("'gums'.reverse()", "smug"),
        ("'John Smith'.reverse()", "htimS nhoJ"),
        ("strings.quote('single-quote with \"double quote\"')", '"single-quote with \\"double quote\\""'),
        ("'a string: %s\\nan integer: %d'.format(['str', 42])", "a string: str\nan integer: 42"),
        ("'%.2f%%'.format([12.345])", "12.35%"),
        # the lists extension
        ("[1, 2, 3, 4].slice(1, 3)", [2, 3]),
        ("[1, 2, 3, 4].slice(2, 4)", [3, 4]),
        ("[1, [2, 3], [4]].flatten()", [1, 2, 3, 4]),
        ("input.nested.flatten()", [1, 2, [3, [4]]]),
        ("[1, [2, [3, [4]]]].flatten(2)", [1, 2, 3, [4]]),
        ("[3, 2, 1].sort()", [1, 2, 3]),
        ("['b', 'c', 'a'].sort()", ["a", "b", "c"]),
        ("input.objects.sortBy(o, o.n).map(o, o.s)", ["a", "b", "b"]),
        ("input.objects.sortBy(o, -o.n)[0].s", "b"),
        ("[1, 2, 2, 3, 3, 3].distinct()", [1, 2, 3]),
        ("['b', 'b', 'c', 'a', 'c'].distinct()", ["b", "c", "a"]),
        ("[1, 'b', 2, 'b'].distinct()", [1, "b", 2]),
        ("[1, true, 1.0, 'x', null, null].distinct()", [1, True, "x", None]),
        ("input.objects.distinct()", [{"n": 2, "s": "b"}, {"n": 1, "s": "a"}]),
        ("[[1], [1.0], [true]].distinct()", [[1], [True]]),
        ("[5, 3, 1].reverse()", [1, 3, 5]),
        ("lists.range(5)", [0, 1, 2, 3, 4]),
        ("lists.range(0)", []),
        # encoders and bindings
        ("base64.encode(b'hello')", "aGVsbG8="),
        ("string(base64.decode('aGVsbG8='))", "hello"),
        ("cel.bind(x, input.n, x * x)", 9),
        # the maths extension
        ("math.greatest(1, 3, 2) + math.least([5, 4])", 7),
        ("math.ceil(1.2) + math.floor(1.8) + math.round(1.5)", 5.0),
        ("math.abs(-2) + math.sign(-5)", 1),
        # optionals
        ("[?input.?gone, ?input.?n]", [3]),
        ("input.list.first().orValue(0) + input.list.last().orValue(0)", 4),
        ("optional.ofNonZeroValue(input.zero).orValue(7)", 7),
        ("[input.?n, input.?gone].filter(o, o.hasValue()).map(o, o.value())", [3]),
        # ours
        ("json_encode(input.object)", '{"a":[1.5,null],"b":1}'),
        ("json_encode(input.nil) + json_encode('a') + json_encode(true) + json_encode(1.0)", 'null"a"true1.0'),
        ("json_encode(input.big)", "18446744073709551615"),
        ("json_encode([1, {'b': 2, 'a': 1}])", '[1,{"a":1,"b":2}]'),
        ("json_decode('{\"a\": [1, 2.5, null]}')", {"a": [1, 2.5, None]}),
        ("json_decode(json_encode(input.object)) == input.object", True),
        ("json_decode('[1]')[0] + 1", 2),
        ("base64('hello') + base64(b'\\xff')", "aGVsbG8=/w=="),
        ("base64_decode('aMOp') + base64_decode('aGk')", "héhi"),
        ("sha256('hello')", hashlib.sha256(b"hello").hexdigest()),
        ("sha256(b'\\xff')", hashlib.sha256(b"\xff").hexdigest()),
        ("merge({'a': 1, 'b': 2}, {'b': 'x'})", {"a": 1, "b": "x"}),
        ("merge({}, input.object, {'c': null})", {"a": [1.5, None], "b": 1, "c": None}),
        ("merge({'a': {'x': 1}}, {'a': {'y': 2}})", {"a": {"y": 2}}),
        ("range(3) + range(2, 4) + range(9, 0, -4)", [0, 1, 2, 2, 3, 9, 5, 1]),
        ("range(input.n).map(i, i * i)", [0, 1, 4]),
        ("range(0)", []),
        (f"size(range({RANGE_MAX}))", RANGE_MAX),
    ],
)  # fmt: skip
def test_X6_a_function_does_what_its_manual_says(text: str, value: object) -> None:
    found = value_of(text)

    assert found == value
    assert type(found) is type(value)


@pytest.mark.rule("W5.2")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("first(input.?gone, input.?n)", 3),
        ("first(input.?n, input.?gone)", 3),
        ("first(input.?gone, input.?gone2)", None),
        ("first(input.?nil, input.?n)", None),
        ("first(input.?gone, 'none')", "none"),
        ("first(input.?gone, input.?text, 1 / input.zero)", "héllo"),
        ("first(input.?object, {}).b + 1", 2),
        ("first(input.?gone, {'a': {'b': 7}}).a.b", 7),
        ("first(first(input.?gone, input.?gone2), 5)", None),
        ("first(first(input.?gone, input.n), 5)", 3),
        ("first(input.?gone, '),') // a comment, with ) in it", "),"),
        ("first(input.?gone, // the first\n input.n, // the second\n 1)", 3),
        ("first ( input.?gone , [1, 2].map(x, first(input.?gone, x)) )", [1, 2]),
        ("json_encode(first(input.?gone, json_encode([1])))", '"[1]"'),
        ("[1, 2].exists(first, first == 2)", True),
        ("{'first': 1}.first", 1),
        (f"first({'input.?gone, ' * (FIRST_MAX - 1)} 1)", 1),
        ("input.list.distinct().map(distinct, distinct + 1)", [4, 2, 3]),
        ("'lists.range(3), first(1)'", "lists.range(3), first(1)"),
    ],
)
def test_X6_first_reads_the_branch_that_ran(text: str, value: object) -> None:
    assert value_of(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("range(300000)", "`range` gives 300,000 numbers: at most 200,000"),
        ("lists.range(2000000000)", "`range` gives 2,000,000,000 numbers"),
        ("range(1, 5, 0)", "a step of 0"),
        ("range(1.5)", "`range` does not take double"),
        ("range(input.half)", "No matching overloads"),
        ("json_decode('{\"a\":')", "`json_decode`: the text is no JSON"),
        ("json_decode('18446744073709551616')", "beyond 64 bits"),
        (f"json_decode('{'[' * 65}{']' * 65}')", "nested deeper than 64 levels"),
        ("json_encode(0.0 / 0.0)", "`json_encode`: the value is NaN"),
        ("json_encode([1.0 / 0.0])", "an infinity"),
        ("json_encode({'at': duration('1s')})", "`json_encode`: "),
        ("json_encode(b'a')", "`json_encode`: "),
        ("base64_decode('?')", "the text is no base64"),
        ("base64_decode('/w==')", "what was encoded is no text"),
        ("merge({'a': 1})", "`merge` does not take that number of arguments"),
        (f"merge({', '.join(['{}'] * (MERGE_MAX + 1))})", "`merge` does not take that number"),
        ("merge(input.object, input.list)", "No matching overloads"),
        ("sha256(1)", "`sha256` does not take int"),
        ("first()", "`first` does not take that number of arguments"),
        ("[1, 'a'].sort()", "list elements"),
        ("[3, 2].slice(1, 5)", ""),
    ],
)
def test_X6_what_a_function_does_not_take_is_said(text: str, message: str) -> None:
    assert message in refusal(text)


@pytest.mark.rule("X6.1")
def test_X6_uuid_is_made_of_the_node_and_the_name() -> None:
    made = value_of("uuid('order')")

    assert made == value_of("uuid('or' + 'der')") == seeded(SEED, "order")
    assert uuid.UUID(str(made)).version == 5
    others = {value_of("uuid('other')"), value_of("uuid('order')", f"{SEED}.2")}
    assert len(others | {made}) == 3


@pytest.mark.rule("X6.1")
def test_X6_uuid_is_the_same_for_ever() -> None:
    assert value_of("uuid('order')") == "3061b1f2-ab81-5fc7-87e2-d1bd8f7c05ee"


def test_uuid_has_no_value_where_no_node_reads_it() -> None:
    assert "`uuid` has no value here" in refusal("uuid('a')")


def test_distinct_is_as_long_as_its_list_not_its_square() -> None:
    values = [{"n": n} for n in range(40_000)]
    program = program_of("size(input.distinct())")
    assert isinstance(program, Program)
    assert program.compiled is not None

    assert engine.run(program.compiled, {"input": [*values, *values]}) == 40_000


def test_a_respelled_function_is_not_reached_by_another_way() -> None:
    for text in (".lists.range(3)", ".first(1, 2)", ".json_encode(1)"):
        assert "is written without a dot before it" in refusal(text)


def test_encoded_is_what_others_decode() -> None:
    assert (
        base64.b64decode(str(value_of("base64(json_encode(input.object))")))
        == b'{"a":[1.5,null],"b":1}'
    )

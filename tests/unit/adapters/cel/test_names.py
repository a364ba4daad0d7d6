"""Which names an expression reads, and how guarded (SEMANTICS X2-X4, X9)."""

from __future__ import annotations

import pytest

from tenuto.adapters.cel.engine import Compiled, compile_text
from tenuto.adapters.cel.names import Misnamed, Names, names_of
from tenuto.adapters.cel.syntax import decode
from tenuto.model.expressions import FoundRead, Read, Root


def names(text: str) -> Names:
    compiled = compile_text(text)
    assert isinstance(compiled, Compiled), compiled
    return names_of(decode(compiled.tree))


def said(text: str) -> list[str]:
    """Reads as `offset root/node/field`, with `!` where nothing guards."""
    return [
        f"{found.offset} {found.read.root}/{found.read.node}/{found.read.field}"
        + ("" if found.guarded else " !")
        for found in names(text).reads
    ]


@pytest.mark.rule("X3.5")
@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("1 + 1", []),
        ("input", ["0 input// !"]),
        ("input.a.b + vars.c", ["0 input// !", "12 vars// !"]),
        ("nodes.charge.output.x", ["0 nodes/charge/output !"]),
        ('nodes["charge"].output', ["0 nodes/charge/output !"]),
        ("nodes['charge']['status'] == 'dead'", ["0 nodes/charge/status !"]),
        ("nodes.x", ["0 nodes/x/ !"]),
        ("iteration > 1", ["0 iteration// !"]),
        ("error.code", ["0 error// !"]),
        ("secrets.TOKEN", ["0 secrets//TOKEN !"]),
        ("nodes.h.iteration", ["0 nodes/h/iteration !"]),
        ("nodes.a.attempts + nodes.a.attempts", ["0 nodes/a/attempts !", "19 nodes/a/attempts !"]),
        ("'€' == nodes.a.status", ["7 nodes/a/status !"]),
        ("1 ==\n nodes.a.attempts", ["6 nodes/a/attempts !"]),
        # variables of macros are no reads
        ("input.l.map(x, x.y)", ["0 input// !"]),
        ("input.l.map(nodes, nodes.y)", ["0 input// !"]),
        ("input.l.exists(e, e == nodes.a.output.k)", ["0 input// !", "23 nodes/a/output !"]),
        ("input.l.filter(x, x > 1).map(vars, vars)", ["0 input// !"]),
        ("input[vars.k]", ["0 input// !", "6 vars// !"]),
        ("nodes.a.output[iteration]", ["0 nodes/a/output !", "15 iteration// !"]),
        ("[nodes.a.output, {'k': nodes.b.output}]", ["1 nodes/a/output !", "23 nodes/b/output !"]),
        # guards
        ("has(nodes.a.output)", ["4 nodes/a/output"]),
        ("has(nodes.a.output.x.y)", ["4 nodes/a/output"]),
        ("nodes.a.?output", ["0 nodes/a/output"]),
        ("nodes.?a.output", ["0 nodes/a/output"]),
        ("nodes.a.?output.?x.orValue(1)", ["0 nodes/a/output"]),
        ("nodes[?'a'].?output", ["0 nodes/a/output"]),
        ("nodes.a.output[?'x']", ["0 nodes/a/output"]),
        ("nodes.a.output[0].?x", ["0 nodes/a/output"]),
        ("nodes.a.output[?vars.k]", ["0 nodes/a/output", "16 vars//"]),
        (
            "has(nodes.a.output) ? nodes.a.output : 0",
            ["4 nodes/a/output", "22 nodes/a/output"],
        ),
        (
            "has(nodes.a.output) ? nodes.b.output : 0",
            ["4 nodes/a/output", "22 nodes/b/output !"],
        ),
        (
            "has(nodes.a.output) && nodes.a.output.x > 1",
            ["4 nodes/a/output", "23 nodes/a/output"],
        ),
        (
            "!has(nodes.a.output) || nodes.a.output.x > 1",
            ["5 nodes/a/output", "24 nodes/a/output"],
        ),
        (
            "iteration == 1 ? 0 : nodes.c.output.count + 1",
            ["0 iteration// !", "21 nodes/c/output"],
        ),
        ("iteration > 1 && nodes.c.output.n > 2", ["0 iteration// !", "17 nodes/c/output"]),
        (
            "nodes.h.iteration > 1 ? nodes.c.output : 0",
            ["0 nodes/h/iteration !", "24 nodes/c/output"],
        ),
        ("nodes.c.output.n > 2 ? iteration : 0", ["0 nodes/c/output !", "23 iteration// !"]),
        ("nodes.a.output.x > 1 && input.y", ["0 nodes/a/output !", "24 input// !"]),
        ("int", []),
        ("type(input.x) == int", ["5 input// !"]),
        ("type(input.x) == google.protobuf.Timestamp", ["5 input// !"]),
    ],
)
def test_reads_are_found_with_place_and_guard(text: str, reads: list[str]) -> None:
    assert said(text) == reads


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("size(nodes) > 1", 5, "by the name of one node"),
        ("nodes[vars.name].output", 0, "by the name of one node"),
        ("'a' in nodes", 7, "by the name of one node"),
        ("nodes[0]", 0, "by the name of one node"),
        ("secrets", 0, "secrets.NAME"),
        ("secrets.A.b", 0, "secrets.NAME"),
        ("'Bearer ' + secrets.TOKEN", 12, 'write "text ${secrets.TOKEN} text"'),
        ("has(secrets.TOKEN)", 4, "a secret stands alone"),
        ("secrets.?TOKEN", 0, "a secret stands alone"),
        ("nodes.a.colour", 0, "a node has no `colour`"),
    ],
)
def test_names_that_may_not_be_read_so_are_refused(text: str, offset: int, message: str) -> None:
    with pytest.raises(Misnamed) as caught:
        names(text)

    assert caught.value.error.offset == offset
    assert message in caught.value.error.message


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("nodes.a.outputs.x", "nodes.a.output"),
        ("nodes.a.state", "nodes.a.status"),
        ("nodes.a.risk", "nodes.a.output.risk"),
    ],
)
def test_a_wrong_field_of_a_node_gets_a_suggestion(text: str, suggestion: str) -> None:
    with pytest.raises(Misnamed) as caught:
        names(text)

    assert caught.value.error.suggestion == suggestion


@pytest.mark.parametrize("field", ["callback_key", "iterations", "failures", "items"])
def test_X4_a_node_has_what_it_lists_and_where_it_is_called_back(field: str) -> None:
    read = Read(Root.NODES, "a", field)

    assert names(f"nodes.a.{field}").reads == (FoundRead(read, 0, False),)
    assert [found.read for found in names(f"size(nodes.a.{field}) > 1").reads] == [read]


def test_entered_at_is_the_readers_own() -> None:
    with pytest.raises(Misnamed):
        names("nodes.a.entered_at")


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("params.a + item.b", [(Read(Root.PARAMS), 0), (Read(Root.ITEM), 11)]),
        ("index + event.x", [(Read(Root.INDEX), 0), (Read(Root.EVENT), 8)]),
        ("output.x == cursor", [(Read(Root.OUTPUT), 0), (Read(Root.CURSOR), 12)]),
        ("1 + node.entered_at.getHours()", [(Read(Root.NODE, field="entered_at"), 4)]),
        ("node.callback_key", [(Read(Root.NODE, field="callback_key"), 0)]),
        ("'a' + uuid('x')", [(Read(Root.NODE, field="uuid"), 6)]),
        ("input.l.map(item, item.x)", [(Read(Root.INPUT), 0)]),
        ("input.l.map(index, index)", [(Read(Root.INPUT), 0)]),
    ],
)
def test_X4_X6_what_is_read_beside_input_and_nodes(
    text: str, reads: list[tuple[Read, int]]
) -> None:
    assert [(found.read, found.offset) for found in names(text).reads] == reads


@pytest.mark.parametrize(
    ("text", "steps", "only_size"),
    [
        ("size(input.l)", ("l",), True),
        ("nodes.a.output.size()", ("a", "output"), True),
        ("size(nodes.a)", ("a",), False),
        ("size(input.l.map(x, x))", ("l",), False),
    ],
)
def test_of_what_only_the_size_is_asked_nothing_else_is_read(
    text: str, steps: tuple[str, ...], only_size: bool
) -> None:
    (path,) = names(text).paths

    assert (path.steps, path.only_size) == (steps, only_size)


@pytest.mark.rule("X8.4")
@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("1 / 2", (2,)),
        ("'ü' == string(size(input.l) / 2)", (28,)),
        ("input.a / 2", ()),
        ("1.0 / 2.0", ()),
        ("iteration / 2 + 4 / 2", (10, 18)),
    ],
)
def test_divisions_of_two_proven_integers_are_marked(text: str, offsets: tuple[int, ...]) -> None:
    assert names(text).divides_ints == offsets


@pytest.mark.parametrize("text", ["input", "input.a['b'][0]", "nodes.a.output", "secrets.T"])
def test_plain_access_is_recognised(text: str) -> None:
    assert names(text).whole is not None


@pytest.mark.parametrize("text", ["input.?a", "has(input.a)", "input.a + 1", "input[vars.k]", "1"])
def test_anything_more_is_no_plain_access(text: str) -> None:
    assert names(text).whole is None

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from tests.support.graphs import condition, graph, key, value

from tenuto.model.definition import (
    Definition,
    Edge,
    Fail,
    Node,
    NodeType,
    On,
    Wait,
    WaitForEvent,
    Work,
)
from tenuto.model.graph import Graph, Structure, index
from tenuto.model.states import NODE_STATUS
from tenuto.views.picture import MARKS, STYLE, graph_svg

SVG = "{http://www.w3.org/2000/svg}"


def drawn(picture: Graph, **states: str) -> ET.Element:
    return ET.fromstring(graph_svg(picture, states=states))


def nodes(svg: ET.Element) -> dict[str, ET.Element]:
    return {
        g.attrib["data-node"]: g
        for g in svg.iter(f"{SVG}g")
        if g.attrib.get("class", "").split()[:1] == ["node"]
    }


def edges(svg: ET.Element) -> dict[tuple[str, str], ET.Element]:
    return {
        (g.attrib["data-from"], g.attrib["data-to"]): g
        for g in svg.iter(f"{SVG}g")
        if g.attrib.get("class", "").split()[:1] == ["edge"]
    }


def texts(element: ET.Element) -> list[str]:
    return [text.text or "" for text in element.iter(f"{SVG}text")]


def label(element: ET.Element) -> str:
    """The visible text of an edge; its whole text is in the tool tip."""
    return "".join(part for text in element.iter(f"{SVG}text") for part in [text[0].tail or ""])


ORDER = graph(
    "charge -> both; charge -> score; score -> both; both -> triage; triage -> approval when 'input.amount > 50';"
    "triage -> cool else; approval -> ship; cool -> ship; approval -failure-> refund; ship -always-> done",
    types={
        "charge": "http",
        "both": "join",
        "triage": "switch",
        "approval": "wait_for_event",
        "cool": "wait",
        "refund": "fail",
        "done": "end",
    },
)


def test_every_node_and_every_edge_is_drawn() -> None:
    svg = drawn(ORDER, charge="success", score="running")

    found = nodes(svg)
    assert list(found) == [node.id for node in ORDER.definition.nodes]
    assert {id: node.attrib["data-type"] for id, node in found.items()} == {
        node.id: node.type.value for node in ORDER.definition.nodes
    }
    assert found["charge"].attrib["data-state"] == "success"
    assert found["score"].attrib["aria-label"] == "score: task, running"
    assert found["ship"].attrib["data-state"] == "pending"
    assert len(edges(svg)) == len(ORDER.definition.edges)
    assert {node.attrib["tabindex"] for node in found.values()} == {"0"}


def test_edges_say_when_they_are_taken() -> None:
    found = edges(drawn(ORDER))

    assert label(found["triage", "approval"]) == "input.amount > 50"
    assert label(found["triage", "cool"]) == "else"
    assert label(found["approval", "refund"]) == "failure"
    assert label(found["ship", "done"]) == "always"
    assert found["approval", "refund"].attrib["data-on"] == "failure"
    assert texts(found["charge", "both"]) == []


def test_a_way_back_is_marked_and_says_how_often() -> None:
    looped = graph("a -> b; b -> b2 when 'x'; b2 -> a loop 3; b -> c else", types={"b": "switch"})
    back = edges(drawn(looped))["b2", "a"]

    assert back.attrib["class"] == "edge back"
    assert label(back) == "loop ≤ 3"


def test_an_edge_is_lit_only_where_it_was_followed_for_certain() -> None:
    found = edges(drawn(ORDER, charge="success", score="success", both="success", triage="success",
                        approval="dead", refund="active", cool="skipped"))  # fmt: skip

    lit = {pair for pair, edge in found.items() if "lit" in edge.attrib["class"].split()}
    assert lit == {
        ("charge", "both"), ("charge", "score"), ("score", "both"), ("both", "triage"), ("approval", "refund"),
    }  # fmt: skip


def test_shapes_tell_the_types_apart() -> None:
    found = nodes(drawn(ORDER))
    shapes = {}
    for id, node in found.items():
        shape = next(each for each in node if each.attrib.get("class") == "shape")
        corners = len(shape.attrib.get("points", "").split()) // 2
        shapes[id] = (shape.tag.removeprefix(SVG), corners, shape.attrib.get("rx"))

    assert shapes["triage"][:2] == ("polygon", 4)
    assert shapes["both"][:2] == ("polygon", 6)
    assert shapes["refund"][:2] == ("polygon", 8)
    assert shapes["score"] == ("rect", 0, "8")
    assert shapes["approval"] == ("rect", 0, "22")
    assert any(each.attrib.get("class") == "band" for each in found["charge"])
    assert not any(each.attrib.get("class") == "band" for each in found["score"])


@pytest.mark.parametrize(
    ("node", "second_line"),
    [
        (Node("n", NodeType.TASK, Work("stock.reserve", value("{}"))), "task stock.reserve"),
        (Node("n", NodeType.HTTP, Work("http", value('{"method": "PUT"}'))), "http PUT"),
        (Node("n", NodeType.HTTP, Work("http", value('{"method": "${input.m}"}'))), "http"),
        (Node("n", NodeType.CODE, Work("code", value('{"language": "python"}'))), "code python"),
        (Node("n", NodeType.WAIT, Wait(for_us=600_000_000)), "waits 10m00s"),
        (Node("n", NodeType.WAIT, Wait(until_at=0)), "waits until 1970-01-01 00:00"),
        (Node("n", NodeType.WAIT_FOR_EVENT, WaitForEvent("paid", key("1"))), "event paid"),
        (Node("n", NodeType.FAIL, Fail("no_stock")), "fail no_stock"),
        (Node("n", NodeType.JOIN, join=1), "join any"),
        (Node("n", NodeType.JOIN, join=2), "join 2"),
        (Node("n", NodeType.SET), "set"),
    ],
)  # fmt: skip
def test_the_second_line_says_what_a_node_does(node: Node, second_line: str) -> None:
    assert texts(nodes(drawn(of(node)))["n"])[1] == second_line


def of(*given: Node, edges: tuple[Edge, ...] = ()) -> Graph:
    """A graph of nodes as they are, however illegal."""
    return index(Definition("n", given, edges), Structure(tuple(range(len(given))), (), {}))


def test_whatever_is_written_in_a_definition_stays_text() -> None:
    bad = "<img src=x onerror=alert(1)>\"'&]]>\x00\ud800"
    nodes_given = (
        Node("a", NodeType.FAIL, Fail(bad)),
        Node("b", NodeType.FAIL, Fail(bad)),
    )
    svg = graph_svg(
        of(*nodes_given, edges=(Edge(0, 1, On.SUCCESS, condition(bad)),)), states={"a": bad}
    )

    parsed = ET.fromstring(svg.encode())
    assert not any(each.tag.lower().endswith(("img", "script")) for each in parsed.iter())
    assert not any(name.startswith("on") for each in parsed.iter() for name in each.attrib)
    assert nodes(parsed)["a"].attrib["data-state"] == bad.replace("\x00", "�").replace(
        "\ud800", "�"
    )


def test_long_texts_end_in_an_ellipsis_and_are_whole_in_the_tool_tip() -> None:
    id = "a_very_long_name_" * 6
    found = nodes(drawn(graph(id)))[id]

    shown = texts(found)[0]
    assert shown.endswith("…")
    assert len(shown) <= 26
    assert id in (found.findtext(f"{SVG}title") or "")


def test_wide_characters_take_the_room_of_two() -> None:
    narrow = nodes(drawn(of(Node("n", NodeType.FAIL, Fail("x" * 12)))))["n"]
    wide = nodes(drawn(of(Node("n", NodeType.FAIL, Fail("注" * 12)))))["n"]

    def width(node: ET.Element) -> float:
        polygon = next(each for each in node if each.attrib.get("class") == "shape")
        xs = [float(x) for x in polygon.attrib["points"].split()[::2]]
        return max(xs) - min(xs)

    assert width(wide) > width(narrow) + 12 * 5


def test_the_same_graph_and_states_give_the_same_text() -> None:
    assert graph_svg(ORDER, states={"ship": "dead"}) == graph_svg(ORDER, states={"ship": "dead"})


def test_a_picture_has_no_script_no_inline_style_and_no_link() -> None:
    for each in drawn(ORDER).iter():
        assert each.tag in {
            f"{SVG}{name}"
            for name in ("svg", "style", "g", "path", "rect", "polygon", "text", "title")
        }
        assert "style" not in each.attrib
        assert not any("href" in name for name in each.attrib)


def test_every_state_has_its_mark_and_one_mark_is_like_no_other_ones() -> None:
    shown = {"running", "ready", "retry", "waiting", "interrupted", *NODE_STATUS.values()}

    assert shown <= MARKS.keys()
    assert len({MARKS[state] for state in shown}) == len(shown)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_of_states_can_be_read_on_paper_and_in_badges(scheme: str) -> None:
    """WCAG AA: 4.5 to 1, also on a badge's ground, which holds 11 % of the colour."""
    light, dark = STYLE.split("@media (prefers-color-scheme:dark)")
    names = _colours(light) | (_colours(dark.split("}}")[0]) if scheme == "dark" else {})

    for name, colour in names.items():
        if not name.startswith(("s-", "ink", "soft")):
            continue
        for ground in ("paper", "ground"):
            assert _contrast(colour, names[ground]) >= 4.5, (name, ground)
        mixed = tuple(0.11 * a + 0.89 * b for a, b in zip(colour, names["paper"], strict=True))
        assert _contrast(colour, mixed) >= 4.5, name


Colour = tuple[float, ...]


def _colours(css: str) -> dict[str, Colour]:
    found: dict[str, Colour] = {}
    for name, digits in re.findall(r"--([\w-]+):#([0-9a-f]{3,6})\b", css):
        long = digits if len(digits) == 6 else "".join(d * 2 for d in digits)
        found[name] = tuple(int(long[at : at + 2], 16) / 255 for at in (0, 2, 4))
    return found


def _contrast(one: Colour, two: Colour) -> float:
    def luminance(colour: Colour) -> float:
        r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)

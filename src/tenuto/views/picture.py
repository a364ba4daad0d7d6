"""A graph as SVG text: boxes by type, edges by condition, states by colour, mark and name. Draws; `layout` places.

The same graph and states give the same text. Colours come from `STYLE`, in the picture itself so that it stands alone;
a page that has that style sheet of its own may drop the picture's. No script, no inline style, no link to anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from unicodedata import category, east_asian_width

from tenuto.model.definition import Edge, Node, On
from tenuto.model.graph import Graph
from tenuto.views.family import ItemCounts
from tenuto.views.layout import Box, Link, Point, Wire, lay_out
from tenuto.views.report import NodeLine
from tenuto.views.words import edge_words, graph_inside, node_words

TITLE_MAX, DETAIL_MAX, LABEL_MAX = 26, 30, 28
"""Longest texts, in narrow characters; what is longer ends with `…` and is whole in the tool tip."""
_TITLE_EM, _DETAIL_EM, _LABEL_EM = 7.6, 5.9, 5.9
_MARK = 22.0
_COUNTED_EM = 27
"""Characters for which a foreach has room, so that its counters fit wherever the picture is painted later."""
BAR_INSET = 8.0
"""From the sides of a foreach's box to its bar, which `graph.js` paints too."""

MARKS: Mapping[str, str] = {
    "pending": "M8 8m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
    "active": "M8 8m-6 0a6 6 0 1 0 12 0a6 6 0 1 0 -12 0M8 8m-1.5 0a1.5 1.5 0 1 0 3 0a1.5 1.5 0 1 0 -3 0",
    "ready": "M8 2a6 6 0 1 0 0 12a6 6 0 1 0 0 -12M5.2 8h.1M8 8h.1M10.8 8h.1",
    "running": "M5 2.8v10.4l8.2 -5.2z",
    "retry": "M12.8 5.4a5.6 5.6 0 1 0 .8 3.4M13.4 2v3.8h-3.8",
    "waiting": "M8 2a6 6 0 1 0 0 12a6 6 0 1 0 0 -12M8 4.6v3.6l2.4 1.6",
    "interrupted": "M8 2.2v6.6M8 12.8h.1",
    "success": "M2.8 8.6l3.6 3.8l6.8 -8.4",
    "dead": "M3.6 3.6l8.8 8.8M12.4 3.6l-8.8 8.8",
    "failed": "M3.6 3.6l8.8 8.8M12.4 3.6l-8.8 8.8",
    "timed_out": "M8 2a6 6 0 1 0 0 12a6 6 0 1 0 0 -12M8 4.6v3.6l-2.4 1.6M2.6 13.4l10.8 -10.8",
    "skipped": "M3 4l4.6 4l-4.6 4M8.4 4l4.6 4l-4.6 4",
    "cancelled": "M8 2a6 6 0 1 0 0 12a6 6 0 1 0 0 -12M3.8 3.8l8.4 8.4",
    "paused": "M5.4 3v10M10.6 3v10",
    "closing": "M3 3h10v10h-10z",
    "lost": "M8 2.2v6.6M8 12.8h.1",
}
"""State of a node or a run -> the path of its mark in a box of 16 by 16, drawn with a stroke."""

STYLE = """
.tenuto{--ink:#1b2330;--soft:#566072;--line:#c3cad6;--wire:#8893a5;--paper:#fff;--ground:#f6f7f9;
--s-pending:#5c6577;--s-ready:#3f6296;--s-running:#1f5fd0;--s-waiting:#8a5a00;--s-retry:#b04a0a;
--s-success:#177a46;--s-dead:#c0303c;--s-off:#5c6577;--s-paused:#7446b8}
@media (prefers-color-scheme:dark){.tenuto{--ink:#e7eaf0;--soft:#9fa9b9;--line:#3a4352;--wire:#6c788b;
--paper:#1b212b;--ground:#12161d;--s-pending:#93a0b4;--s-ready:#a3bce0;--s-running:#72aeff;--s-waiting:#e2b455;
--s-retry:#f39a5e;--s-success:#53c98c;--s-dead:#ff8088;--s-off:#93a0b4;--s-paused:#bd9ff7}}
.graph{font:12px ui-sans-serif,system-ui,-apple-system,"Segoe UI",sans-serif;background:var(--ground);color:var(--ink)}
.graph .title{font:600 12.5px ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:var(--ink)}
.graph .detail{font-size:11px;fill:var(--soft)}
.graph .shape{fill:var(--paper);stroke:var(--line);stroke-width:1.5}
.graph .sheet{fill:var(--ground);stroke:var(--line);stroke-width:1.5}
.graph .band{fill:none;stroke:var(--line);stroke-width:1.5}
.graph .mark{fill:none;stroke:currentColor;stroke-width:2;stroke-linecap:round;stroke-linejoin:round}
.graph .way{fill:none;stroke:var(--wire);stroke-width:1.5}
.graph .head{fill:var(--wire);stroke:none}
.graph .edge[data-on=failure] .way{stroke-dasharray:6 4}
.graph .edge[data-on=always] .way{stroke-dasharray:10 3 2 3}
.graph .edge.back .way{stroke-dasharray:1.5 4;stroke-linecap:round;stroke-width:2}
.graph .edge.lit .way{stroke:var(--ink);stroke-width:2}
.graph .edge.lit .head{fill:var(--ink)}
.graph .track{fill:var(--line)}
.graph .bar{fill:currentColor}
.graph .bar.bad{fill:var(--s-dead)}
.graph .node[data-undo=undone] .title{text-decoration:line-through}
.graph .label{font-size:11px;fill:var(--soft);paint-order:stroke;stroke:var(--ground);
stroke-width:5px;stroke-linejoin:round}
.graph .node{color:var(--s-pending);outline:none}
.graph .node[data-state=ready],.graph .node[data-state=active]{color:var(--s-ready)}
.graph .node[data-state=running]{color:var(--s-running)}
.graph .node[data-state=waiting],.graph .node[data-state=interrupted]{color:var(--s-waiting)}
.graph .node[data-state=retry]{color:var(--s-retry)}
.graph .node[data-state=success]{color:var(--s-success)}
.graph .node[data-state=dead]{color:var(--s-dead)}
.graph .node[data-state=skipped],.graph .node[data-state=cancelled]{color:var(--s-off)}
.graph .node:not([data-state=pending],[data-state=skipped]) :is(.shape,.band){stroke:currentColor}
.graph .node:is([data-state=running],[data-state=dead],[data-state=waiting],[data-state=retry])
.shape{stroke-width:2.25}
.graph .node[data-state=skipped] :is(.shape,.band){stroke-dasharray:4 4}
.graph .node[data-state=skipped] .title,.graph .node[data-state=cancelled] .title{fill:var(--soft)}
.graph .node:is([data-state=running],[data-state=success],[data-state=dead],[data-state=waiting],[data-state=retry])
.shape{fill:color-mix(in srgb,currentColor 9%,var(--paper))}
.graph .node:focus-visible .shape,.graph .node.chosen .shape{stroke:var(--s-running);stroke-width:3.5}
@media (prefers-reduced-motion:no-preference){
.graph .node[data-state=running] .mark{animation:beat 1.6s ease-in-out infinite}
@keyframes beat{50%{opacity:.35}}}
"""
"""How a picture looks, light and dark. Its variables (`--s-…` by state) serve a page's other parts too."""


def run_svg(graph: Graph, lines: Sequence[NodeLine]) -> str:
    """Draw the graph of a run as it stands. `lines`: of its report."""
    return graph_svg(
        graph,
        states={line.id: line.state for line in lines},
        items={line.id: line.items for line in lines if line.items is not None},
        undo={line.id: line.undo for line in lines if line.undo},
    )


def graph_svg(
    graph: Graph,
    *,
    states: Mapping[str, str] | None = None,
    items: Mapping[str, ItemCounts] | None = None,
    undo: Mapping[str, str] | None = None,
) -> str:
    """Draw a graph; deterministic.

    Args:
        states: node id -> state as in a report's nodes; absent ones are `pending`.
        items: node id -> how far a foreach is.
        undo: node id -> what became of undoing its work.

    Returns:
        An SVG document. A node is `g.node[data-node][data-state][data-type]` (`[data-undo]` too), of a foreach with a
        `rect.track` and its `rect.bar`s; an edge
        `g.edge[data-from][data-to][data-on]` (`.back` for a loop's way back, `.lit` where it was certainly followed).
    """
    definition = graph.definition
    known = states or {}
    counted, undone = items or {}, undo or {}
    faces = [
        _Face(
            node,
            counted.get(node.id),
            undone.get(node.id, ""),
            inside=graph_inside(graph, node.detail),
        )
        for node in definition.nodes
    ]
    labels = [edge_words(edge) for edge in definition.edges]
    layout = lay_out(
        [face.size for face in faces],
        [
            Link(
                edge.source,
                edge.target,
                back=edge.loop_max is not None,
                label=_width(_short(label, LABEL_MAX), _LABEL_EM),
            )
            for edge, label in zip(definition.edges, labels, strict=True)
        ],
        graph.order,
    )
    width, height = _number(layout.width), _number(layout.height)
    name = _attribute(f"workflow {definition.name}")
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="tenuto graph" role="group" aria-label="{name}"'
            f' width="{width}" height="{height}" viewBox="0 0 {width} {height}"><style>{STYLE}</style>'
            '<g class="edges">'
        )
    ]
    edges = [
        _edge(definition.nodes, edge, label, wire, known)
        for edge, label, wire in zip(definition.edges, labels, layout.wires, strict=True)
    ]
    parts += sorted(edges, key=lambda text: " lit" in text[:24])  # the last are above the others
    parts.append('</g><g class="nodes">')
    for face, box in zip(faces, layout.boxes, strict=True):
        parts.append(face.drawn(box, known.get(face.node.id, "pending")))
    parts.append("</g></svg>\n")
    return "\n".join(parts)


class _Face:
    """What stands in a node's box, and how much room it takes."""

    def __init__(
        self,
        node: Node,
        items: ItemCounts | None = None,
        undo: str = "",
        *,
        inside: Graph | None = None,
    ) -> None:
        self.node, self.inside = node, inside
        self.type = str(node.type)
        self.items, self.undo = items, undo
        self.detail = node_words(node) if items is None else f"foreach {items.text}"
        self.title_shown = _short(node.id, TITLE_MAX)
        self.detail_shown = _short(self.detail, DETAIL_MAX)
        self.text = max(_width(self.title_shown, _TITLE_EM), _width(self.detail_shown, _DETAIL_EM))
        content = self.text + _MARK
        match self.type:
            case "switch":  # two lines of text in a rhombus of this height leave 0.56 of its width
                self.size = (max(120.0, content / 0.56 + 8), 72.0)
            case "join" | "fork":
                self.size = (max(96.0, content + 44), 44.0)
            case "foreach":
                self.text = max(self.text, _COUNTED_EM * _DETAIL_EM)
                self.size = (self.text + _MARK + 28, 52.0)
            case "wait" | "wait_for_event" | "end":
                self.size = (max(96.0, content + 40), 44.0)
            case _:
                self.size = (max(96.0, content + 28), 44.0)

    def drawn(self, box: Box, state: str) -> str:
        name = _attribute(self.node.id)
        left = box.x - (self.text + _MARK) / 2
        said = f"{self.node.id}: {self.detail}, {state}"
        if self.inside is not None:
            said += f", {len(self.inside.definition.nodes)} nodes inside"
        undo = f' data-undo="{_attribute(self.undo)}"' if self.undo else ""
        words = left + _MARK
        return (
            f'<g class="node" data-node="{name}" data-state="{_attribute(state)}" data-type="{self.type}"{undo} '
            f'tabindex="0" role="button" aria-label="{_attribute(said)}">'
            f"<title>{_text(f'{self.node.id} · {self.detail}')}</title>"
            f"{self._sheet(box)}{_shape(self.type, box)}{_progress(box, self.items) if self.type == 'foreach' else ''}"
            f'<path class="mark" transform="translate({_number(left)} {_number(box.y - 8)})" '
            f'd="{MARKS.get(state, MARKS["active"])}"/>'
            f'<text class="title" x="{_number(words)}" y="{_number(box.y - 3)}">{_text(self.title_shown)}</text>'
            f'<text class="detail" x="{_number(words)}" y="{_number(box.y + 13)}">{_text(self.detail_shown)}</text>'
            "</g>"
        )

    def _sheet(self, box: Box) -> str:
        """The mark of a node with a graph inside: the edge of a second sheet below it."""
        if self.inside is None:
            return ""
        left, top = box.x - box.width / 2 + 5, box.y - box.height / 2 + 5
        return _rectangle(left, top, box.width, box.height, 8, "sheet")


# -- shapes ----------------------------------------------------------------------------------------


def _shape(type: str, box: Box) -> str:
    left, top = box.x - box.width / 2, box.y - box.height / 2
    right, bottom = left + box.width, top + box.height
    match type:
        case "switch":
            return _polygon((box.x, top), (right, box.y), (box.x, bottom), (left, box.y))
        case "join" | "fork":
            cut = 14
            return _polygon(
                (left + cut, top),
                (right - cut, top),
                (right, box.y),
                (right - cut, bottom),
                (left + cut, bottom),
                (left, box.y),
            )
        case "fail":
            cut = 10
            return _polygon(
                (left + cut, top),
                (right - cut, top),
                (right, top + cut),
                (right, bottom - cut),
                (right - cut, bottom),
                (left + cut, bottom),
                (left, bottom - cut),
                (left, top + cut),
            )
        case "wait" | "wait_for_event":
            return _rectangle(left, top, box.width, box.height, box.height / 2)
        case "end":
            return _rectangle(left, top, box.width, box.height, box.height / 2) + _rectangle(
                left + 4, top + 4, box.width - 8, box.height - 8, box.height / 2 - 4, "band"
            )
        case "set":
            return _rectangle(left, top, box.width, box.height, 0)
        case "foreach":  # two bands: many of one kind
            bands = "".join(
                f'<path class="band" d="M{_number(left + at)} {_number(top)}V{_number(bottom)}"/>'
                for at in (5, 9)
            )
            return _rectangle(left, top, box.width, box.height, 8) + bands
        case "call":  # a frame in a frame: a run in a run
            return _rectangle(left, top, box.width, box.height, 8) + _rectangle(
                left + 4, top + 4, box.width - 8, box.height - 8, 4, "band"
            )
        case "http" | "code":  # a band at the left tells them from a task
            band = f'<path class="band" d="M{_number(left + 6)} {_number(top)}V{_number(bottom)}"/>'
            return _rectangle(left, top, box.width, box.height, 4) + band
        case _:
            return _rectangle(left, top, box.width, box.height, 8)


def _progress(box: Box, items: ItemCounts | None) -> str:
    """The bar of a foreach: what succeeded, then what failed, on a track of its whole list."""
    left, top = box.x - box.width / 2 + 2 * BAR_INSET, box.y + box.height / 2 - 7
    whole = box.width - 3 * BAR_INSET
    total = items.total if items is not None else 0
    good = whole * items.succeeded / total if items is not None and total else 0.0
    bad = whole * items.failed / total if items is not None and total else 0.0
    return (
        _rectangle(left, top, whole, 3, 1.5, "track")
        + _rectangle(left, top, good, 3, 1.5, "bar good")
        + _rectangle(left + good, top, bad, 3, 1.5, "bar bad")
    )


def _rectangle(
    x: float, y: float, width: float, height: float, radius: float, kind: str = "shape"
) -> str:
    return (
        f'<rect class="{kind}" x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" '
        f'height="{_number(height)}" rx="{_number(radius)}"/>'
    )


def _polygon(*points: Point) -> str:
    return f'<polygon class="shape" points="{" ".join(map(_pair, points))}"/>'


# -- edges -----------------------------------------------------------------------------------------


def _edge(
    nodes: Sequence[Node], edge: Edge, label: str, wire: Wire, states: Mapping[str, str]
) -> str:
    source, target = nodes[edge.source].id, nodes[edge.target].id
    kinds = ["edge"]
    if edge.loop_max is not None:
        kinds.append("back")
    if _followed(edge, states.get(source, "pending"), states.get(target, "pending")):
        kinds.append("lit")
    way = _lane(wire.points) if wire.aside else _curves(wire.points)
    shown = ""
    if wire.label is not None:
        x, y = wire.label
        anchor = "start" if wire.aside else "middle"
        shown = (
            f'<text class="label" x="{_number(x)}" y="{_number(y + 4)}" text-anchor="{anchor}">'
            f"<title>{_text(label)}</title>{_text(_short(label, LABEL_MAX))}</text>"
        )
    return (
        f'<g class="{" ".join(kinds)}" data-from="{_attribute(source)}" data-to="{_attribute(target)}" '
        f'data-on="{edge.on}"><path class="way" d="{way}"/>{_head(wire)}{shown}</g>'
    )


def _followed(edge: Edge, source: str, target: str) -> bool:
    """Whether an edge was followed, as far as the states of its ends tell: conditions are not known here."""
    if edge.when is not None or edge.otherwise or edge.loop_max is not None:
        return False
    ends = {On.SUCCESS: {"success"}, On.FAILURE: {"dead"}, On.ALWAYS: {"success", "dead"}}
    return source in ends[edge.on] and target not in {"pending", "skipped", "cancelled"}


def _curves(points: Sequence[Point]) -> str:
    parts = [f"M{_pair(points[0])}"]
    for number, ((x0, y0), (x1, y1)) in enumerate(pairwise(points)):
        if number % 2:
            parts.append(f"L{_pair((x1, y1))}")
            continue
        half = (y0 + y1) / 2
        parts.append(f"C{_pair((x0, half))} {_pair((x1, half))} {_pair((x1, y1))}")
    return "".join(parts)


def _lane(points: Sequence[Point]) -> str:
    """A way of right angles with round corners."""
    parts = [f"M{_pair(points[0])}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        parts.append(
            f"L{_pair(_towards(corner, before))}Q{_pair(corner)} {_pair(_towards(corner, after))}"
        )
    return "".join([*parts, f"L{_pair(points[-1])}"])


def _towards(corner: Point, other: Point) -> Point:
    (x, y), (x1, y1) = corner, other
    length = max(abs(x1 - x), abs(y1 - y))
    share = min(8.0, length / 2) / length if length else 0.0
    return x + (x1 - x) * share, y + (y1 - y) * share


def _head(wire: Wire) -> str:
    x, y = wire.points[-1]
    sideways = wire.aside and wire.points[-2][1] == y
    wings = "l8 -4v8z" if sideways else "l-4 -8h8z"
    return f'<path class="head" d="M{_pair((x, y))}{wings}"/>'


# -- text ------------------------------------------------------------------------------------------


def _cells(text: str) -> int:
    """Width in narrow characters: those of East Asia take two, marks that combine none."""
    return sum(
        0 if category(each) in ("Mn", "Me", "Cf") else 2 if east_asian_width(each) in "WF" else 1
        for each in text
    )


def _width(text: str, em: float) -> float:
    return _cells(text) * em


def _short(text: str, most: int) -> str:
    if _cells(text) <= most:
        return text
    kept, cells = "", 0
    for each in text[:most]:
        cells += _cells(each)
        if cells >= most:
            break
        kept += each
    return kept + "…"


def _clean(text: str) -> str:
    """Without what XML cannot hold."""
    return "".join(
        each
        if each in "\t\n"
        or (each >= " " and not "\ud800" <= each <= "\udfff" and each not in "\ufffe\uffff")
        else "\ufffd"
        for each in text
    )


def _text(text: str) -> str:
    return escape(_clean(text), quote=False)


def _attribute(text: str) -> str:
    return escape(_clean(text))


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _pair(point: Point) -> str:
    return f"{_number(point[0])} {_number(point[1])}"

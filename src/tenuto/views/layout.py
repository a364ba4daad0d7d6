"""Where the boxes and wires of a layered graph go: rows from top to bottom. Geometry only: no text, no SVG, no states.

Four steps, each deterministic: rows by longest path over the forward links; links over several rows get a place to pass
in each (a slot); the order within rows by medians; coordinates by least squares under a minimal distance. Back links,
and those that would need too many slots, run aside, in lanes at the right of what they pass.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

MARGIN = 16.0
BOX_SPACE = 28.0
PASS_SPACE = 16.0
GAP = 40.0
LABEL_HEIGHT = 18.0
LABEL_PAD = 8.0
LABEL_ROWS_MAX = 6
LANE = 18.0
LOOSE_PER_ROW = 8
SLOTS_MAX = 20_000
"""Passing places of all links together; more would cost seconds and show a grey area."""
_SWEEPS, _SWEEPS_LARGE, _LARGE = 10, 2, 4_000

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Link:
    """An edge to be drawn between two box numbers. `label`: width of its label, 0 for none."""

    source: int
    target: int
    back: bool = False
    label: float = 0.0


@dataclass(frozen=True, slots=True)
class Box:
    """A box by its centre and size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Wire:
    """The way of a link.

    `points`: from source to target; unless `aside`, pairs: a curve between the two of a pair, a straight line to the
    next. `label`: the middle of its label's left edge if `aside`, else of the label; None without one.
    """

    points: tuple[Point, ...]
    aside: bool = False
    label: Point | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """Boxes in the order of the sizes, wires in the order of the links; everything within width × height."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]


@dataclass(slots=True)
class _Sheet:
    """What the steps hand on. Slots below `len(sizes)` are boxes, the others passing places."""

    sizes: Sequence[tuple[float, float]]
    links: Sequence[Link]
    row: list[int]
    rows: list[list[int]]
    ways: list[list[int]]
    """Slots of a link from source to target; empty if it runs aside."""
    ups: list[list[int]] = field(default_factory=list)
    downs: list[list[int]] = field(default_factory=list)
    x: list[float] = field(default_factory=list)

    def half(self, slot: int) -> float:
        return self.sizes[slot][0] / 2 if slot < len(self.sizes) else 0.0

    def space(self, left: int, right: int) -> float:
        """Least distance of the centres of two neighbours in a row."""
        boxes = len(self.sizes)
        gap = BOX_SPACE if left < boxes and right < boxes else PASS_SPACE
        return self.half(left) + gap + self.half(right)


def lay_out(
    sizes: Sequence[tuple[float, float]], links: Sequence[Link], order: Sequence[int]
) -> Layout:
    """Place boxes of the given (width, height) and route the links.

    Args:
        order: box numbers in a topological order of the links that are not `back`.
    Cost: 1,000 boxes in well under a second, 10,000 in a few.
    """
    sheet = _rows(sizes, links, order)
    _untangle(sheet)
    _spread(sheet)
    return _draw(sheet)


# -- rows ------------------------------------------------------------------------------------------


def _rows(
    sizes: Sequence[tuple[float, float]], links: Sequence[Link], order: Sequence[int]
) -> _Sheet:
    count = len(sizes)
    ins: list[list[int]] = [[] for _ in range(count)]
    outs: list[list[int]] = [[] for _ in range(count)]
    for link in links:
        if not link.back:
            ins[link.target].append(link.source)
            outs[link.source].append(link.target)
    row = [0] * count
    for box in order:
        row[box] = max((row[source] + 1 for source in ins[box]), default=0)
    for box in reversed(order):
        if not ins[box] and outs[box]:
            row[box] = min(row[target] for target in outs[box]) - 1
    linked = [box for box in order if ins[box] or outs[box]]
    below = max((row[box] + 1 for box in linked), default=0)
    loose = [box for box in range(count) if not (ins[box] or outs[box])]
    for position, box in enumerate(loose):
        row[box] = below + position // LOOSE_PER_ROW
    rows: list[list[int]] = [[] for _ in range(max(row, default=-1) + 1)]
    for box in range(count):
        rows[row[box]].append(box)
    sheet = _Sheet(sizes, links, row, rows, [[] for _ in links])
    spans = [(row[link.target] - row[link.source], n) for n, link in enumerate(links)]
    slots = 0
    for span, number in sorted(spans):
        link = links[number]
        if link.back or slots + span - 1 > SLOTS_MAX:
            continue
        slots += span - 1
        way = [link.source]
        for at in range(row[link.source] + 1, row[link.target]):
            way.append(len(row))
            rows[at].append(len(row))
            row.append(at)
        sheet.ways[number] = [*way, link.target]
    sheet.ups = [[] for _ in row]
    sheet.downs = [[] for _ in row]
    for way in sheet.ways:
        for upper, lower in pairwise(way):
            sheet.downs[upper].append(lower)
            sheet.ups[lower].append(upper)
    return sheet


# -- order within rows -----------------------------------------------------------------------------


def _untangle(sheet: _Sheet) -> None:
    """Order rows by medians, down and up in turn, and keep the order with the fewest crossings."""
    rows, position = sheet.rows, [0] * len(sheet.row)
    _number(rows, position)
    best, fewest = [list(row) for row in rows], inf
    for sweep in range(_SWEEPS if len(position) <= _LARGE else _SWEEPS_LARGE):
        down = sweep % 2 == 0
        nears = sheet.ups if down else sheet.downs
        for row in rows[1:] if down else reversed(rows[:-1]):
            _sort_row(row, nears, position)
        if len(position) <= _LARGE:
            _swap_neighbours(sheet, position)
        crossings = sum(_crossings(row, sheet.downs, position) for row in rows)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
        if fewest == 0:
            break
    sheet.rows = best


def _number(rows: Sequence[Sequence[int]], position: list[int]) -> None:
    for row in rows:
        for at, slot in enumerate(row):
            position[slot] = at


def _sort_row(row: list[int], nears: Sequence[Sequence[int]], position: list[int]) -> None:
    """Sort by the median of the neighbours; a slot without neighbours keeps its place."""
    wanted = {slot: _median(sorted(position[near] for near in nears[slot])) for slot in row}
    moving = iter(sorted((s for s in row if wanted[s] >= 0), key=wanted.__getitem__))
    row[:] = [next(moving) if wanted[slot] >= 0 else slot for slot in row]
    for at, slot in enumerate(row):
        position[slot] = at


def _median(places: Sequence[int]) -> float:
    if not places:
        return -1.0
    middle = len(places) // 2
    if len(places) % 2:
        return float(places[middle])
    return (places[middle - 1] + places[middle]) / 2


def _swap_neighbours(sheet: _Sheet, position: list[int]) -> None:
    """One pass that swaps two neighbours where fewer links cross then: what medians leave behind."""
    for row in sheet.rows:
        for at in range(len(row) - 1):
            left, right = row[at], row[at + 1]
            kept = swapped = 0
            for nears in (sheet.ups, sheet.downs):
                one = sorted(position[near] for near in nears[left])
                two = sorted(position[near] for near in nears[right])
                kept += sum(len(one) - bisect_right(one, place) for place in two)
                swapped += sum(len(two) - bisect_right(two, place) for place in one)
            if swapped < kept:
                row[at], row[at + 1] = right, left
                position[left], position[right] = at + 1, at


def _crossings(row: Sequence[int], downs: Sequence[Sequence[int]], position: Sequence[int]) -> int:
    """Crossings below a row: pairs of links whose ends stand in the other order (a Fenwick tree of ends)."""
    ends = [end for slot in row for end in sorted(position[lower] for lower in downs[slot])]
    size = max(ends, default=0) + 1
    tree = [0] * (size + 1)
    crossings = 0
    for seen, end in enumerate(ends):
        at, before = end + 1, 0
        while at:
            before += tree[at]
            at &= at - 1
        crossings += seen - before
        at = end + 1
        while at <= size:
            tree[at] += 1
            at += at & -at
    return crossings


# -- coordinates -----------------------------------------------------------------------------------


def _spread(sheet: _Sheet) -> None:
    """Give every slot its x: near the middle of its neighbours, never nearer than allowed to the next one."""
    sheet.x = [0.0] * len(sheet.row)
    for row in sheet.rows:
        at = 0.0
        for number, slot in enumerate(row):
            at += sheet.space(row[number - 1], slot) if number else 0.0
            sheet.x[slot] = at
        for slot in row:
            sheet.x[slot] -= at / 2
    large = len(sheet.row) > _LARGE
    for sweep in range(4 if large else 12):
        for row in sheet.rows if sweep % 2 == 0 else reversed(sheet.rows):
            _settle(sheet, row, both=sweep > 1, down=sweep % 2 == 0)
    left = min((sheet.x[slot] - sheet.half(slot) for row in sheet.rows for slot in row), default=0)
    sheet.x = [x - left + MARGIN for x in sheet.x]


def _settle(sheet: _Sheet, row: Sequence[int], *, both: bool, down: bool) -> None:
    """The least-squares places of a row's slots, with order and distances kept (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []  # (weight, mean of wanted - offset, slots)
    offset, before = 0.0, -1
    offsets = []
    for slot in row:
        offset += sheet.space(before, slot) if before >= 0 else 0.0
        offsets.append(offset)
        before = slot
        wanted, weight = _wanted(sheet, slot, both=both, down=down)
        blocks.append((weight, wanted - offset, 1))
        while len(blocks) > 1 and blocks[-2][1] > blocks[-1][1]:
            (w2, m2, n2), (w1, m1, n1) = blocks.pop(), blocks.pop()
            blocks.append((w1 + w2, (w1 * m1 + w2 * m2) / (w1 + w2), n1 + n2))
    at = 0
    for _, mean, slots in blocks:
        for slot, shift in zip(row[at : at + slots], offsets[at : at + slots], strict=True):
            sheet.x[slot] = mean + shift
        at += slots


def _wanted(sheet: _Sheet, slot: int, *, both: bool, down: bool) -> tuple[float, float]:
    """Where a slot would like to be, and how much. Long links pull harder, so that they are straight."""
    boxes = len(sheet.sizes)
    nears = sheet.ups[slot] if down else sheet.downs[slot]
    if both or not nears:
        nears = [*sheet.ups[slot], *sheet.downs[slot]]
    if not nears:
        return sheet.x[slot], 0.1
    total = weights = 0.0
    for near in nears:
        weight = (4.0 if near >= boxes else 1.0) * (2.0 if slot >= boxes else 1.0)
        total += weight * sheet.x[near]
        weights += weight
    return total / weights, weights


# -- wires -----------------------------------------------------------------------------------------


def _draw(sheet: _Sheet) -> Layout:
    boxes = len(sheet.sizes)
    heights = [max((sheet.sizes[s][1] for s in row if s < boxes), default=0) for row in sheet.rows]
    gaps, labels = _label_gaps(sheet)
    tops, at = [], MARGIN + (LANE if any(link.back for link in sheet.links) else 0)
    for height, gap in zip(heights, gaps, strict=True):
        tops.append(at)
        at += height + gap
    placed = tuple(
        Box(sheet.x[n], tops[sheet.row[n]] + heights[sheet.row[n]] / 2, *sheet.sizes[n])
        for n in range(boxes)
    )
    rights = [
        max((sheet.x[slot] + sheet.half(slot) for slot in row), default=MARGIN)
        for row in sheet.rows
    ]
    wires: list[Wire] = [Wire(())] * len(sheet.links)
    for number, way in enumerate(sheet.ways):
        if not way:
            continue
        points: list[Point] = []
        for upper, lower in pairwise(way):
            row = sheet.row[lower]
            bottom = (
                placed[upper].y + placed[upper].height / 2
                if upper < boxes
                else tops[row - 1] + heights[row - 1]
            )
            top = placed[lower].y - placed[lower].height / 2 if lower < boxes else tops[row]
            points += [(sheet.x[upper], bottom), (sheet.x[lower], top)]
        label = None
        if number in labels:
            upper_row = sheet.row[way[0]]
            share, count = labels[number]
            y = tops[upper_row + 1] - gaps[upper_row] * (1 - (share + 1) / (count + 1))
            label = (along(points[0], points[1], y), y)
            for row in (upper_row, upper_row + 1):
                rights[row] = max(rights[row], label[0] + sheet.links[number].label / 2)
        wires[number] = Wire(tuple(points), label=label)
    _route_aside(sheet, placed, tops, heights, rights, wires)
    lowest = tops[-1] + heights[-1] if tops else 0.0
    left = min(
        (
            w.label[0] - link.label / 2
            for w, link in zip(wires, sheet.links, strict=True)
            if w.label and not w.aside
        ),
        default=MARGIN,
    )
    drawn = Layout(
        max(rights, default=0) + MARGIN,
        lowest + MARGIN + (LANE if any(wire.aside for wire in wires) else 0),
        placed,
        tuple(wires),
    )
    return drawn if left >= MARGIN / 2 else _shifted(drawn, MARGIN / 2 - left)


def _label_gaps(sheet: _Sheet) -> tuple[list[float], dict[int, tuple[int, int]]]:
    """Height of the gap below each row, and for each labelled link (line, lines) of its label in there."""
    by_row: dict[int, list[int]] = {}
    for number, way in enumerate(sheet.ways):
        if way and sheet.links[number].label:
            by_row.setdefault(sheet.row[way[0]], []).append(number)
    gaps = [GAP] * len(sheet.rows)
    lines: dict[int, tuple[int, int]] = {}
    for row, numbers in by_row.items():
        for count in range(1, LABEL_ROWS_MAX + 1):
            found = _fit_labels(sheet, numbers, count, last=count == LABEL_ROWS_MAX)
            if found is not None:
                lines.update({number: (line, count) for number, line in found.items()})
                gaps[row] = GAP + LABEL_HEIGHT * count
                break
    return gaps, lines


def _fit_labels(
    sheet: _Sheet, numbers: Sequence[int], count: int, *, last: bool
) -> dict[int, int] | None:
    """Link -> line, so that labels on `count` lines don't touch; None if they would. `last`: any, then."""
    ends = {n: (sheet.x[sheet.ways[n][0]], sheet.x[sheet.ways[n][1]]) for n in numbers}
    taken: list[list[tuple[float, float]]] = [[] for _ in range(count)]
    found: dict[int, int] = {}
    for number in sorted(numbers, key=lambda n: (ends[n][1], n)):
        start, end = ends[number]
        half = (sheet.links[number].label + LABEL_PAD) / 2
        for line in range(count):
            x = along((start, 0.0), (end, 1.0), (line + 1) / (count + 1))
            if all(x + half <= low or x - half >= high for low, high in taken[line]):
                taken[line].append((x - half, x + half))
                found[number] = line
                break
        else:
            if not last:
                return None
            found[number] = len(found) % count
    return found


def along(start: Point, end: Point, y: float) -> float:
    """The x at height `y` of the curve between two points that leaves and arrives upright."""
    (x0, y0), (x1, y1) = start, end
    wanted = (y - y0) / (y1 - y0) if y1 != y0 else 0.5
    low, high = 0.0, 1.0
    for _ in range(24):
        t = (low + high) / 2
        if 1.5 * t * (1 - t) + t**3 < wanted:
            low = t
        else:
            high = t
    return x0 + (x1 - x0) * (3 * low**2 - 2 * low**3)


def _route_aside(
    sheet: _Sheet,
    boxes: Sequence[Box],
    tops: Sequence[float],
    heights: Sequence[float],
    rights: list[float],
    wires: list[Wire],
) -> None:
    """Lanes at the right, the shortest innermost: one for each target of back links, one for all that are too long."""
    groups: dict[int, list[int]] = {}
    for number, way in enumerate(sheet.ways):
        if not way:
            link = sheet.links[number]
            groups.setdefault(link.target if link.back else -1, []).append(number)
    for key in sorted(groups, key=lambda key: (max(_span(sheet, n) for n in groups[key]), key)):
        numbers = groups[key]
        ends = [
            sheet.row[box]
            for n in numbers
            for box in (sheet.links[n].source, sheet.links[n].target)
        ]
        touched = range(max(0, min(ends) - 1), min(len(rights), max(ends) + 2))
        lane = max(rights[row] for row in touched) + LANE
        labels: dict[float, int] = {}
        for number in numbers:
            link = sheet.links[number]
            from_row, to_row = sheet.row[link.source], sheet.row[link.target]
            below, above = tops[from_row] + heights[from_row] + 10, tops[to_row] - 16
            out = _to_lane(sheet, link.source, boxes[link.source], lane, side=1, edge=below)
            into = _to_lane(sheet, link.target, boxes[link.target], lane, side=-1, edge=above)
            middle, label = (out[-1][1] + into[-1][1]) / 2, None
            if link.label:
                label = (lane + 6, middle + LABEL_HEIGHT * labels.get(middle, 0))
                labels[middle] = labels.get(middle, 0) + 1
            wires[number] = Wire((*out, *reversed(into)), aside=True, label=label)
        wide = max(sheet.links[number].label for number in numbers)
        for row in touched:
            rights[row] = max(rights[row], lane + (6 + wide if wide else 0))


def _to_lane(
    sheet: _Sheet, slot: int, box: Box, lane: float, *, side: int, edge: float
) -> tuple[Point, ...]:
    """From a box to a lane: straight from the last box of a row, else through the gap at height `edge`."""
    if sheet.rows[sheet.row[slot]][-1] == slot:
        y = box.y + side * box.height / 5
        return (box.x + box.width / 2, y), (lane, y)
    return (box.x, box.y + side * box.height / 2), (box.x, edge), (lane, edge)


def _span(sheet: _Sheet, number: int) -> int:
    link = sheet.links[number]
    return abs(sheet.row[link.source] - sheet.row[link.target])


def _shifted(drawn: Layout, by: float) -> Layout:
    """The same, farther right: a label at the left edge needs the room."""
    return Layout(
        drawn.width + by,
        drawn.height,
        tuple(Box(box.x + by, box.y, box.width, box.height) for box in drawn.boxes),
        tuple(
            Wire(
                tuple((x + by, y) for x, y in wire.points),
                wire.aside,
                None if wire.label is None else (wire.label[0] + by, wire.label[1]),
            )
            for wire in drawn.wires
        ),
    )

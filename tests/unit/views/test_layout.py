from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenuto.views.layout import BOX_SPACE, SLOTS_MAX, Box, Layout, Link, along, lay_out

SIZE = (100.0, 40.0)


def laid(count: int, edges: Sequence[tuple[int, int]], *more: Link) -> Layout:
    return lay_out([SIZE] * count, [*(Link(a, b) for a, b in edges), *more], range(count))


def apart(one: Box, two: Box) -> bool:
    return (
        abs(one.x - two.x) >= (one.width + two.width) / 2 - 1e-6
        or abs(one.y - two.y) >= (one.height + two.height) / 2 - 1e-6
    )


@st.composite
def drawings(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[Link]]:
    count = draw(st.integers(1, 14))
    sizes = draw(
        st.lists(st.tuples(st.floats(60, 240), st.floats(30, 80)), min_size=count, max_size=count)
    )
    pairs = draw(
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=30)
    )
    label = st.sampled_from([0.0, 40.0, 170.0])
    return sizes, [Link(a, b, back=b <= a, label=draw(label)) for a, b in pairs]


@settings(max_examples=80)
@given(drawings())
def test_boxes_never_overlap_and_everything_is_on_the_sheet(
    drawing: tuple[list[tuple[float, float]], list[Link]],
) -> None:
    sizes, links = drawing
    layout = lay_out(sizes, links, range(len(sizes)))

    assert [(box.width, box.height) for box in layout.boxes] == sizes
    assert all(apart(one, two) for one, two in combinations(layout.boxes, 2))
    for box in layout.boxes:
        assert box.width / 2 <= box.x <= layout.width - box.width / 2
        assert box.height / 2 <= box.y <= layout.height - box.height / 2
    for link, wire in zip(links, layout.wires, strict=True):
        assert all(0 <= x <= layout.width and 0 <= y <= layout.height for x, y in wire.points)
        assert (wire.label is None) == (link.label == 0)
        if wire.label is not None:
            left = wire.label[0] - (0 if wire.aside else link.label / 2)
            assert left >= 0
            assert left + link.label <= layout.width


@settings(max_examples=80)
@given(drawings())
def test_a_wire_begins_at_its_source_and_ends_at_its_target(
    drawing: tuple[list[tuple[float, float]], list[Link]],
) -> None:
    sizes, links = drawing
    layout = lay_out(sizes, links, range(len(sizes)))

    for link, wire in zip(links, layout.wires, strict=True):
        for box, (x, y) in (
            (layout.boxes[link.source], wire.points[0]),
            (layout.boxes[link.target], wire.points[-1]),
        ):
            assert abs(x - box.x) <= box.width / 2 + 1e-6
            assert abs(y - box.y) <= box.height / 2 + 1e-6


@settings(max_examples=80)
@given(drawings())
def test_the_same_graph_is_laid_out_the_same(
    drawing: tuple[list[tuple[float, float]], list[Link]],
) -> None:
    sizes, links = drawing

    assert lay_out(sizes, links, range(len(sizes))) == lay_out(sizes, links, range(len(sizes)))


@settings(max_examples=80)
@given(drawings())
def test_no_curve_runs_through_a_box(
    drawing: tuple[list[tuple[float, float]], list[Link]],
) -> None:
    """Between rows there are only wires: a curve is within the gap, a straight line in a place of its own."""
    sizes, links = drawing
    layout = lay_out(sizes, links, range(len(sizes)))

    for link, wire in zip(links, layout.wires, strict=True):
        if wire.aside:
            continue
        others = [box for n, box in enumerate(layout.boxes) if n not in (link.source, link.target)]
        for number, ((x0, y0), (x1, y1)) in enumerate(pairwise(wire.points)):
            if number % 2 == 0:
                continue
            assert x0 == x1
            for box in others:
                crosses = y0 < box.y + box.height / 2 and y1 > box.y - box.height / 2
                assert not (crosses and abs(box.x - x0) < box.width / 2)


def test_rows_follow_the_longest_way() -> None:
    layout = laid(4, [(0, 1), (1, 2), (0, 3), (2, 3)])

    assert [box.y for box in layout.boxes] == sorted(box.y for box in layout.boxes)
    assert len({box.y for box in layout.boxes}) == 4


def test_a_root_stands_right_above_what_it_leads_to() -> None:
    layout = laid(4, [(0, 1), (1, 2), (3, 2)])

    assert layout.boxes[3].y == layout.boxes[1].y


def test_a_diamond_is_symmetric() -> None:
    top, left, right, bottom = laid(4, [(0, 1), (0, 2), (1, 3), (2, 3)]).boxes

    assert top.x == pytest.approx(bottom.x)
    assert top.x - left.x == pytest.approx(right.x - top.x)
    assert right.x - left.x == pytest.approx(SIZE[0] + BOX_SPACE)


def test_links_that_need_not_cross_do_not() -> None:
    """Three children in one order, their ends in another: the medians turn them round."""
    boxes = laid(6, [(0, 5), (1, 4), (2, 3)]).boxes

    assert [boxes[n].x for n in (0, 1, 2)] == pytest.approx([boxes[n].x for n in (5, 4, 3)])


def test_a_loop_runs_aside_of_every_box_that_it_passes() -> None:
    layout = laid(3, [(0, 1), (1, 2)], Link(2, 0, back=True, label=50))
    wire = layout.wires[2]

    assert wire.aside
    assert max(x for x, _ in wire.points) > max(box.x + box.width / 2 for box in layout.boxes)
    assert wire.points[0][1] > wire.points[-1][1]


def test_boxes_without_links_stand_in_rows_of_their_own() -> None:
    layout = laid(20, [(0, 1)])

    assert max(sum(box.y == y for box in layout.boxes) for y in {b.y for b in layout.boxes}) <= 8


def test_labels_of_one_gap_do_not_touch() -> None:
    links = [Link(0, n, label=120) for n in range(1, 6)]
    layout = lay_out([SIZE] * 6, links, range(6))

    places = [wire.label for wire in layout.wires]
    for one, two in combinations(places, 2):
        assert one is not None
        assert two is not None
        assert abs(one[0] - two[0]) >= 120 or abs(one[1] - two[1]) >= 15


def test_a_point_along_a_curve_is_between_its_ends() -> None:
    assert along((0, 0), (10, 100), 0) == pytest.approx(0, abs=0.01)
    assert along((0, 0), (10, 100), 50) == pytest.approx(5, abs=0.01)
    assert along((0, 0), (10, 100), 100) == pytest.approx(10, abs=0.01)


def test_links_beyond_all_measure_run_aside_and_none_is_lost() -> None:
    """Every box to every later one: passing places for all would be a hundred times as many as the bound."""
    count = 400
    edges = [(a, b) for a in range(count) for b in range(a + 1, count)]
    layout = laid(count, edges)

    aside = sum(wire.aside for wire in layout.wires)
    assert 0 < aside < len(edges)
    assert sum(len(w.points) // 2 - 1 for w in layout.wires if not w.aside) <= SLOTS_MAX
    assert all(wire.points for wire in layout.wires)


def test_nothing_at_all_is_laid_out_too() -> None:
    assert lay_out([], [], []).boxes == ()


@pytest.mark.parametrize("shape", ["chain", "fan", "mesh", "lonely"])
def test_ten_thousand_boxes_are_placed(shape: str) -> None:
    """The largest definition; what is not about linear would end in the time-out of the test."""
    count = 10_000
    edges = {
        "chain": [(n, n + 1) for n in range(count - 1)],
        "fan": [(0, n) for n in range(1, count)],
        "mesh": sorted(
            {(n // 3, n) for n in range(1, count)} | {(n, n + 7) for n in range(count - 7)}
        ),
        "lonely": [],
    }[shape]
    layout = laid(count, edges)

    assert len({(box.x, box.y) for box in layout.boxes}) == count
    assert all(wire.points for wire in layout.wires)

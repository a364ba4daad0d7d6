"""Graphs as text: everything that they show, aligned."""

from __future__ import annotations

from tests.unit.views.whole import WHOLE, graph_of

from tenuto.views.graph_text import graph_text

TEXT = """\
order: 8 nodes, 9 edges

1  pay    http POST
     ↶ undone by http DELETE (also when only started)
     → each
     → plain
2  each   foreach input.list: call do
     │ 1  first  task t
     │      → out    item.n > 1
     │ 2  out    task ${item.task}
     → both
   plain  foreach pages of pages: task t, optional
     → both
3  both   set, join any, cancels the losers
     → ask
4  ask    event ${vars.event}
     → again  failure · error.code == 'timeout'
     → stop   failure · else
     → other
5  again  waits 10m00s
     ↩ ask    loop ≤ 3
   other  call billing@stable, goes on
   stop   fail no_stock

after a failure: emit order.failed
"""


def test_a_graph_as_text_shows_layers_conditions_loops_and_what_stands_inside() -> None:
    graph = graph_of(WHOLE)

    assert graph_text(graph) == TEXT


def test_the_same_graph_gives_the_same_text() -> None:
    assert graph_text(graph_of(WHOLE)) == graph_text(graph_of(WHOLE))

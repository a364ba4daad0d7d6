"""A workflow with everything that a picture shows."""

from __future__ import annotations

from tenuto.app.definitions import load_definition
from tenuto.model.graph import Graph


def graph_of(text: str) -> Graph:
    loaded = load_definition(text, file="a.yaml")
    assert loaded.graph is not None, loaded.findings
    return loaded.graph


WHOLE = """
name: order
input: {type: object}
nodes:
  pay:
    type: http
    request: {method: POST, url: "http://h/"}
    compensate: {type: http, request: {method: DELETE, url: "http://h/"}, when: started}
  each:
    type: foreach
    needs: pay
    over: input.list
    do:
      nodes:
        in: {type: task, task: t}
        out: {type: task, task: "${item.task}"}
      edges: [{from: in, to: out, when: "item.n > 1"}]
  plain: {type: foreach, needs: pay, source: {task: pages}, task: t, optional: true}
  both: {type: set, needs: [each, plain], join: any, cancel_losers: true, values: {}}
  ask: {type: wait_for_event, event: "${vars.event}", timeout: 1h}
  again: {type: wait, for: 10m}
  other: {type: call, call: billing@stable, wait: false}
  stop: {type: fail, code: no_stock}
edges:
  - both -> ask
  - {from: ask, to: again, on: failure, when: "error.code == 'timeout'"}
  - {from: ask, to: stop, on: failure, else: true}
  - {from: again, to: ask, loop: {max: 3}}
  - ask -> other
vars: {event: paid}
on_failure: {type: emit, event: order.failed, key: k}
""".replace("        in:", "        first:").replace("from: in,", "from: first,")

"""A workflow whose loop has three passes, for tests of `iterations` at every door."""

from __future__ import annotations

LOOP = """
name: loop
nodes:
  count: {type: set, values: {n: "${iteration}"}}
  more: {type: switch}
  done: {type: set, values: {n: 0}}
edges:
  - {from: count, to: more}
  - {from: more, to: count, when: "iteration < 3", loop: {max: 3}}
  - {from: more, to: done, else: true}
"""

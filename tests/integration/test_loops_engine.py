"""Loops on the engine: what is kept of many passes (SEMANTICS L5)."""

from __future__ import annotations

import pytest
from tests.support.driver import engine_with

pytestmark = pytest.mark.usefixtures("remembered")


@pytest.mark.parametrize("passes", [5, 100, 101, 250])
def test_L5_T7_what_is_kept_does_not_depend_on_how_many_passes_one_decision_took(
    passes: int,
) -> None:
    text = f"""
name: kept
nodes:
  h: {{type: set, values: {{n: "${{iteration}}"}}}}
  s: {{type: switch}}
  z: {{type: set, values: {{seen: "${{nodes.h.iterations.map(i, i.iteration)}}"}}}}
edges:
  - h -> s
  - {{from: s, to: h, when: "iteration < {passes}", loop: {{max: 1000, keep: 2}}}}
  - {{from: s, to: z, else: true}}
output: "${{nodes.z.output.seen}}"
"""
    with engine_with() as driver:
        run = driver.run(text)

        assert driver.output(run) == [passes - 2, passes - 1, passes]
        driver.check(run.run_id)

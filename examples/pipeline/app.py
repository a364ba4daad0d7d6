"""The one task of the pipeline: joins texts, and fails by a seed."""

from __future__ import annotations

import random

from tenuto import TaskError, Tenuto, current

app = Tenuto()


@app.task
def step(seed: int, chance: float, parts: list[str]) -> dict[str, str]:
    """Put the parts together under the node's name. Whether it fails depends on seed, node and attempt alone."""
    here = current()
    if random.Random(f"{seed} {here.node} {here.attempt}").random() < chance:
        raise TaskError("unlucky", f"attempt {here.attempt} of {here.node} drew a bad number")
    return {"text": f"{here.node}({', '.join(parts)})"}

"""Whatever is done to a definition, loading gives a graph or findings, within two seconds, and never a traceback."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import load

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "mutate.py"
SEEDS = range(10)
EACH = 100


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutate", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutate"] = module
    spec.loader.exec_module(module)
    return module


mutate = _script()


def test_the_texts_that_are_broken_are_whole_before() -> None:
    sources = mutate.sources()

    assert len(sources) >= 5
    for data in sources:
        loaded = load(data, file="a.yaml", parser=CelParser())
        assert loaded.graph is not None, loaded.findings


@pytest.mark.parametrize("seed", SEEDS)
def test_a_broken_definition_loads_or_is_told_what_is_wrong(seed: int) -> None:
    """Catalogue I-14."""
    parser = CelParser()
    bad = []
    verdicts = set()
    for data in mutate.mutations(mutate.sources(), EACH, seed):
        outcome = mutate.outcome_of(data, parser)
        verdicts.add(outcome.verdict)
        if not outcome.is_good:
            bad.append((data, outcome))

    assert bad == []
    assert verdicts == {"graph", "findings"}  # the edits are neither all harmless nor all fatal

"""The waiting verbs of tests are what the coroutines generate."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

from tenuto.testing import Engine, Run

ROOT = Path(__file__).resolve().parents[3]


def test_the_waiting_verbs_are_generated_anew() -> None:
    script = (
        "import sys; sys.path.insert(0, 'scripts'); import gen_sync;"
        " print(gen_sync.generate(gen_sync.TESTING), end='')"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )

    fresh = done.stdout
    assert (ROOT / "src/tenuto/testing/sync.py").read_text() == fresh, "run scripts/gen_sync.py"


def test_every_coroutine_verb_has_its_waiting_twin_with_the_same_parameters() -> None:
    for owner in (Engine, Run):
        verbs = inspect.getmembers(owner, inspect.iscoroutinefunction)
        verbs = [(name, method) for name, method in verbs if name.startswith("a")]

        assert len(verbs) > 10
        for name, method in verbs:
            twin = getattr(owner, name.removeprefix("a"))
            ours, theirs = inspect.signature(twin), inspect.signature(method)

            assert list(ours.parameters) == list(theirs.parameters), name
            assert [p.default for p in ours.parameters.values()] == [
                p.default for p in theirs.parameters.values()
            ], name

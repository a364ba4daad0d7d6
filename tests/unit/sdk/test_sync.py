"""The waiting verbs are what the coroutines generate."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

from tenuto.sdk.run import Run
from tenuto.sdk.tenuto import Tenuto

ROOT = Path(__file__).resolve().parents[3]


def test_the_waiting_verbs_are_generated_anew() -> None:
    script = "import sys; sys.path.insert(0, 'scripts'); import gen_sync; print(gen_sync.generate(), end='')"

    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )

    fresh = done.stdout
    assert (ROOT / "src/tenuto/sdk/sync.py").read_text() == fresh, "run scripts/gen_sync.py"


def test_every_coroutine_verb_has_its_waiting_twin_with_the_same_parameters() -> None:
    for owner in (Tenuto, Run):
        for name, method in inspect.getmembers(owner, inspect.iscoroutinefunction):
            if name.startswith("_"):
                continue
            twin = getattr(owner, name.removeprefix("a"))

            assert inspect.signature(twin) == inspect.signature(method), name

"""docs/settings.md says what the table of settings says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_reference_is_what_the_table_generates() -> None:
    script = "import sys; sys.path.insert(0, 'scripts'); import gen_settings; print(gen_settings.generate(), end='')"

    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert (ROOT / "docs" / "settings.md").read_text() == done.stdout, "run scripts/gen_settings.py"

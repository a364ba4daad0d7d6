"""docs/cli.md says what the commands say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_reference_is_what_the_commands_generate() -> None:
    script = "import sys; sys.path.insert(0, 'scripts'); import gen_cli; print(gen_cli.generate(), end='')"

    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert (ROOT / "docs" / "cli.md").read_text() == done.stdout, "run scripts/gen_cli.py"

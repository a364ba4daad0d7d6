"""Writes requirements/*.txt: every package of every environment, pinned with its hashes.

The pins hold for Python 3.11 and newer on every platform. What is written names no registry, no
index and no path of this machine. Needs `uv` on PATH (or in .venv), which is not a requirement of
the project itself.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

from environment import ROOT

PROJECT = "pyproject.toml"
TARGETS = {
    "runtime.txt": (PROJECT,),
    "cluster.txt": (PROJECT, "--extra", "cluster"),
    "build.txt": ("--group", "build"),
    "dev.txt": (PROJECT, "--extra", "cluster", "--group", "dev"),
}
HEADER = "# Written by `make pins` from pyproject.toml. Change that, not this.\n"

_UNWANTED = re.compile(r"^(#|-{1,2}(index|extra|find|trusted|no-index)|\s*$)")


def cleaned(text: str) -> str:
    """The pins and hashes of a resolver's answer, and nothing else of it."""
    lines = (line for line in text.splitlines() if not _UNWANTED.match(line))
    return HEADER + "\n".join(lines) + "\n"


def main() -> int:
    """Resolve each target; a second argument-free run changes nothing unless a range did."""
    uv = shutil.which("uv") or shutil.which("uv", path=str(ROOT / ".venv" / "bin"))
    if uv is None:
        print("pins: needs uv (pip install uv)", file=sys.stderr)
        return 1
    for name, selection in TARGETS.items():
        target = ROOT / "requirements" / name
        flags = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-header"]
        plain = ["--no-annotate", "--no-emit-index-url", "--quiet", "--output-file", str(target)]
        upgrade = ["--upgrade"] if "--upgrade" in sys.argv else []
        command = [uv, "pip", "compile", *selection, *flags, *plain, *upgrade]
        # The resolver reads the present pins from its output file and keeps them where they fit.
        subprocess.run(command, cwd=ROOT, check=True)
        target.write_text(cleaned(target.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What a language server is told when it starts. Values only; where they come from is the caller's business."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

RESTRICTED, OFF = "restricted", "off"
"""How `language: cpython` runs: as a process with limits, or not at all."""

ROOT = Path(__file__).resolve().parents[2]
"""Where the package `tenuto` lies, for children that look nowhere else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Limits of one execution, and how many run at a time in each language.

    Attributes:
        folder: a private directory of this server's, removed with it.
        memory, output: bytes.
    """

    folder: Path
    processes: int = 2
    memory: int = 128 * 2**20
    time_us: int = 10_000_000
    output: int = 2**20
    cpython: str = RESTRICTED


def child(module: str, *words: object) -> list[str]:
    """The command line of a child: a bare interpreter that runs `main` of one of our modules."""
    return [sys.executable, "-I", "-S", "-c", _BARE.format(module), str(ROOT), *map(str, words)]


_BARE = """
import sys
tenuto = type(sys)("tenuto")
tenuto.__path__ = [sys.argv.pop(1) + "/tenuto"]
sys.modules["tenuto"] = tenuto
from {} import main
main(*sys.argv[1:])
"""
# The package's own module would load what no child needs, and every millisecond counts for `cpython`.

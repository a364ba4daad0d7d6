"""What becomes a worker of Monty's: a process that ties its life to its parent's, shuts itself in, and starts Monty in
its own place. Standard library only.
"""

from __future__ import annotations

import os

from tenuto.languages import jail

FILES_MAX = 1_048_576


def main(parent: str, binary: str, *words: str) -> None:
    """`parent`: the server's process id. `binary`: Monty's program. `words`: what Monty is told."""
    jail.end_with(int(parent))
    jail.limit(memory=None, cpu_s=None, files=FILES_MAX)
    jail.lock(network=False, programs=True)
    os.execv(binary, [binary, *words])  # noqa: S606 - no shell is meant

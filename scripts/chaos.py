"""Chaos with real processes: runs, accidents, an auditor, and the figures of recovery. `make chaos` is its long form.

    python scripts/chaos.py --minutes 5 --runs 2000 --mode both --seed 7

A seed deals the same accidents in the same order; moments differ, for these are real processes. Exit code 1 when a
promise was broken; logs and journals stay in the folder that is printed.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.chaos.campaign import Campaign, conduct  # noqa: E402
from tests.support.chaos.recovery import measure, table  # noqa: E402


def main() -> int:
    """Conduct campaigns, then measure recovery."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2_000, help="of ten steps each, per mode")
    parser.add_argument("--minutes", type=float, default=4.0, help="of accidents, per mode")
    parser.add_argument("--mode", choices=["database", "redis", "both"], default="both")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(100_000))
    parser.add_argument("--no-recovery", action="store_true", help="leave the figures out")
    parser.add_argument("--only-recovery", action="store_true", help="the figures alone")
    wanted = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tenuto-chaos-"))
    print(f"seed {wanted.seed}; logs and journals: {folder}", flush=True)
    is_well = True
    for mode in ("database", "redis") if wanted.mode == "both" else (wanted.mode,):
        if not wanted.only_recovery:
            campaign = Campaign(
                mode=mode, seed=wanted.seed, runs=wanted.runs, seconds=wanted.minutes * 60
            )
            outcome = conduct(campaign, folder / mode, lambda line: print(line, flush=True))
            print(outcome, flush=True)
            is_well &= not outcome.problems
        if not wanted.no_recovery:
            figures = measure(mode, folder / f"recovery-{mode}")
            print(table(figures), flush=True)
            is_well &= all(figure.is_within for figure in figures)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())

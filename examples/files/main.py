"""Makes a thousand files, and looks at them twice: one by one, and in batches of fifty.

    python examples/files/main.py [--count N] [--broken N]
    python examples/files/main.py --make FOLDER [--count N] [--broken N] [--words N]

Exit code: that of `tenuto run`.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TENUTO = (sys.executable, "-m", "tenuto")
WORDS = "adagio allegro andante cantabile dolce largo legato presto rubato sostenuto tenuto vivace"


def main() -> int:
    """Make the files, and look at them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="how many files")
    parser.add_argument("--broken", type=int, default=3, help="how many of them are no UTF-8")
    parser.add_argument("--words", type=int, default=30, help="how many words a file has, about")
    parser.add_argument("--make", type=Path, metavar="FOLDER", help="only make them, there")
    wanted = parser.parse_args()
    if wanted.make is not None:
        make(wanted.make, wanted.count, wanted.broken, wanted.words)
        print(f"{wanted.count} files in {wanted.make}")
        return 0
    with tempfile.TemporaryDirectory(prefix="tenuto-files-") as folder:
        make(Path(folder) / "texts", wanted.count, wanted.broken, wanted.words)
        codes = [run(name, Path(folder)) for name in ("files.yaml", "batched.yaml")]
    return max(codes)


def make(folder: Path, count: int, broken: int, words: int) -> None:
    """Texts in lines of ten words, always the same; the last ones are broken."""
    folder.mkdir(parents=True, exist_ok=True)
    dice = random.Random(count)
    for number in range(count):
        chosen = dice.choices(WORDS.split(), k=dice.randint(words // 2, words * 3 // 2))
        lines = (" ".join(chosen[at : at + 10]) for at in range(0, len(chosen), 10))
        end = b"\xff" if number >= count - broken else b""
        (folder / f"{number:04}.txt").write_bytes("\n".join(lines).encode() + end)


def run(name: str, folder: Path) -> int:
    """Run one of the two definitions, and show what came out; its exit code."""
    done = subprocess.run(
        [
            *TENUTO,
            *("run", str(HERE / name), "--set", f"folder={folder / 'texts'}"),
            *("--database", str(folder / "files.db"), "-o", "json"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    report = json.loads(done.stdout)
    took = report["lasted_us"] / 1_000_000
    print(f"{name}: {report['state']} after {took:.1f} s")
    print(json.dumps(report["output"] or report["error"], indent=2))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())

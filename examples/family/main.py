"""The whole example by one command: serves the family, says which invoice is stable, and runs the parent.

    python examples/family/main.py [--report long] [--closed]

Exit code: the parent's, as `tenuto run wait` gives it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
TENUTO = (sys.executable, "-m", "tenuto")
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
LINES = [{"what": "tea", "cents": 300}, {"what": "cake", "cents": 450}]


def main() -> int:
    """Run one parent; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", choices=("short", "long"), default="short")
    parser.add_argument("--closed", action="store_true", help="the site takes nothing today")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenuto-family-") as folder:
        site = Path(folder) / "site"
        site.mkdir()
        if wanted.closed:
            (site / "closed").touch()
        given = {"customer": "Ada", "lines": LINES, "report": wanted.report, "folder": str(site)}
        with engine(Path(folder)) as url:
            at = ("--url", url)
            ask("workflow", "alias", "invoice", "stable", "1", *at)
            started = ask("run", "start", "family", "-i", json.dumps(given), *at, "-o", "json")
            run_id = json.loads(started)["run_id"]
            code = subprocess.run([*TENUTO, "run", "wait", run_id, *at], check=False).returncode
            print(ask("run", "show", run_id, *at))
            print(ask("run", "list", "--children", *at))
    return code


def ask(*words: str) -> str:
    """What one command prints."""
    return subprocess.run([*TENUTO, *words], check=True, stdout=subprocess.PIPE, text=True).stdout


@contextmanager
def engine(folder: Path) -> Iterator[str]:
    """`tenuto dev` with all five definitions; yields its address."""
    command = [*TENUTO, "dev", str(HERE), "--port", "0", "--no-watch"]
    database = ("--database", str(folder / "family.db"))
    with subprocess.Popen([*command, *database], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            said = (ADDRESS.search(line) for line in server.stderr)
            address = next((found[0] for found in said if found), None)
            if address is None:
                raise SystemExit("tenuto dev has ended")
            yield address
        finally:
            server.terminate()
            server.stderr.read()


if __name__ == "__main__":
    sys.exit(main())

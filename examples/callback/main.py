"""The whole example by one command: starts Tenuto with REST and the press, orders a book, waits for it on the shelf.

    python examples/callback/main.py [--book NAME] [--copies N]

Exit code: that of the run that orders, as `tenuto run wait` gives it.
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


def main() -> int:
    """Order one book; the exit code of its run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--book", default="Tenuto", help="with `jam` or `silence` in it, it fails")
    parser.add_argument("--copies", type=int, default=100, help="more than 1,000 are refused")
    wanted = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="tenuto-callback-") as folder,
        engine(Path(folder)) as tenuto,
        press() as address,
    ):
        return order(tenuto, address, wanted.book, wanted.copies)


def order(tenuto: str, press: str, book: str, copies: int) -> int:
    """Start both runs: the one that waits for the book, and the one that orders it."""
    at = ("--url", tenuto, "-o", "json")
    shelf = ask("run", "start", "shelf", "--set", f"book={book}", *at)
    constants = {"press": press, "tenuto": tenuto, "patience": "2s"}
    given = [f"--var={name}={value}" for name, value in constants.items()]
    wanted = json.dumps({"book": book, "copies": copies})
    ordered = ask("run", "start", "callback", "-i", wanted, *given, *at)
    code = wait(ordered, tenuto)
    return max(code, wait(shelf, tenuto)) if code == 0 else code


def wait(run_id: str, tenuto: str) -> int:
    """Wait for a run, and show what became of it; its exit code."""
    code = subprocess.run([*TENUTO, "run", "wait", run_id, "--url", tenuto], check=False).returncode
    subprocess.run([*TENUTO, "run", "show", run_id, "--url", tenuto], check=True)
    return code


def ask(*words: str) -> str:
    """Start a run; its id."""
    done = subprocess.run([*TENUTO, *words], check=True, stdout=subprocess.PIPE, text=True)
    return str(json.loads(done.stdout)["run_id"])


@contextmanager
def engine(folder: Path) -> Iterator[str]:
    """`tenuto dev` with both definitions; yields its address."""
    command = [*TENUTO, "dev", str(HERE), "--port", "0", "--no-watch"]
    database = ("--database", str(folder / "callback.db"))
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


@contextmanager
def press() -> Iterator[str]:
    """The service in a process of its own; yields its address. It ends when we do, whatever ends us."""
    command = [sys.executable, str(HERE / "service.py"), "--port", "0", "--with-parent"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as service:
        assert service.stdin is not None
        assert service.stdout is not None
        try:
            yield service.stdout.readline().strip().removeprefix("listening on ")
        finally:
            service.stdin.close()


if __name__ == "__main__":
    sys.exit(main())

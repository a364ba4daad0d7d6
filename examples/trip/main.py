"""The whole example by one command: starts the agency, books a trip, shows what came of it.

    python examples/trip/main.py [--cars] [--stuck flights]

Exit code: 0, also where the trip failed and was undone; else that of `tenuto run`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

HERE = Path(__file__).resolve().parent
TENUTO = (sys.executable, "-m", "tenuto")


def main() -> int:
    """Book one trip; 0 if the run came to its end, well or not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cars", action="store_true", help="there is a car, and so a trip")
    parser.add_argument("--stuck", default="", help="what can't be cancelled: hotels or flights")
    wanted = parser.parse_args()
    words = [] if wanted.cars else ["--no-cars"]
    words += ["--stuck", wanted.stuck] if wanted.stuck else []
    with tempfile.TemporaryDirectory(prefix="tenuto-trip-") as folder, agency(words) as address:
        run = [*TENUTO, "run", str(HERE / "trip.yaml"), "--set", "traveller=Ada"]
        run += ["--var", f"agency={address}", "--database", str(Path(folder) / "trip.db")]
        code = subprocess.run(run, check=False).returncode
        with urlopen(f"{address}/journal", timeout=10) as answer:
            done = json.load(answer)
    print("\nWhat the agency did:")
    for entry in done:
        print(f"  {entry['what']} {entry['id'] or entry['for']['text']}")
    return 0 if code in (0, 1) else code


@contextmanager
def agency(words: list[str]) -> Iterator[str]:
    """The service in a process of its own; yields its address. It ends when we do, whatever ends us."""
    command = [sys.executable, str(HERE / "service.py"), "--port", "0", "--with-parent", *words]
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

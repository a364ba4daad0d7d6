"""Makes a virtual environment with the pinned requirements and the project itself in it.

Needs nothing but the standard library and a Python that can make virtual environments. It is
repeatable: an environment that already fits its inputs is left alone within a few milliseconds,
one that does not (new pins, another Python, an install that was broken off) is brought up to date.
It is not a resolver: `scripts/pin.py` writes the pins.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements" / "dev.txt"
INPUTS = (REQUIREMENTS, ROOT / "pyproject.toml", Path(__file__))
STAMP = "tenuto-stamp"

_VERSION = "import sys; print(sys.version)"


def python_of(home: Path) -> Path:
    """The interpreter of the environment at `home`."""
    return home / "bin" / "python"


def version_of(python: Path | str) -> str | None:
    """The full version text of an interpreter, or None if it does not run."""
    try:
        done = subprocess.run(
            [python, "-c", _VERSION], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def fingerprint(version: str) -> str:
    """What the environment was made from: the Python, this checkout, the pins, the project file."""
    digest = hashlib.sha256(f"{version}\n{ROOT}\n".encode())
    for path in INPUTS:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def pinned_names(text: str) -> list[str]:
    """The packages that a requirements file pins."""
    return [
        line.partition("==")[0]
        for line in text.splitlines()
        if "==" in line[:80] and line[0] not in " #"
    ]


def prepare(home: Path, python: Path | str) -> bool:
    """Bring the environment at `home` up to date, with `python` if it has to be made anew.

    Returns:
        Whether there was anything to do.

    Raises:
        subprocess.CalledProcessError: pip failed; it has printed why.
    """
    version = version_of(python_of(home))
    if version is None:
        if home.exists():
            shutil.rmtree(home)
        print(f"setup: making {home.name} with Python {sys.version.split()[0]}", flush=True)
        subprocess.run([python, "-m", "venv", home], check=True)
        version = version_of(python_of(home))
    stamp = home / STAMP
    wanted = fingerprint(str(version))
    if stamp.exists() and stamp.read_text() == wanted:
        return False
    stamp.unlink(missing_ok=True)
    count = len(pinned_names(REQUIREMENTS.read_text()))
    print(f"setup: installing {count} packages; the first time takes a minute or so", flush=True)
    pip = [str(python_of(home)), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    # Wheels only: a package that would have to be compiled here is said at once, by name.
    pinned = ["--require-hashes", "--only-binary", ":all:", "--requirement", str(REQUIREMENTS)]
    subprocess.run([*pip, *pinned], check=True, cwd=ROOT)
    # The build backend is among the pins, so that this step fetches nothing.
    project = ["--no-deps", "--no-build-isolation", "--no-index", "--editable", str(ROOT)]
    subprocess.run([*pip, *project], check=True, cwd=ROOT)
    stamp.write_text(wanted)
    return True


def main() -> int:
    """Prepare `.venv` with the Python that runs this script."""
    home = ROOT / ".venv"
    try:
        changed = prepare(home, sys.executable)
    except subprocess.CalledProcessError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    if changed:
        print(f"setup: .venv is ready ({version_of(python_of(home))})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

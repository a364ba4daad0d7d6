"""Runs the unit, property and conformance tests on the newest Python of this machine.

A candidate is run, not only found: a version manager's shim may exist and fail. Without a Python
newer than the base one there is nothing to do, which is said and is no failure. A newer one on
which the pinned requirements can't be installed is said too, and the next one is tried; if none
is left, that is a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import environment

HOME = environment.ROOT / ".venv-newest"
SUITES = (
    "tests/unit",
    "tests/property",
    "tests/conformance",
    # Minutes of waiting for servers that are made to fail: the same on every Python.
    "--ignore=tests/conformance/dispatch/test_redis_faults.py",
    "--ignore=tests/conformance/gateway/test_faults.py",
)
OLDEST, NEWEST = 11, 30  # minor versions looked for

# Only finished, ordinary builds count: the pins are wheels for those.
_PROBE = (
    "import sys, sysconfig, venv, ensurepip; v = sys.version_info;"
    "assert v.releaselevel == 'final' and not sysconfig.get_config_var('Py_GIL_DISABLED');"
    "print(v.major, v.minor, v.micro)"
)

Version = tuple[int, ...]


def places() -> list[Path]:
    """The folders in which interpreters are looked for, in order."""
    listed = [Path(part) for part in os.environ.get("PATH", "").split(os.pathsep) if part]
    # A version manager keeps what its shims stand for beside them.
    managers = [Path.home() / ".pyenv", *(part.parent for part in listed if part.name == "shims")]
    managed = [folder for home in managers for folder in sorted(home.glob("versions/*/bin"))]
    return [*dict.fromkeys([*listed, *managed, Path("/usr/bin"), Path("/usr/local/bin")])]


def probe(candidate: Path) -> Version | None:
    """The version of a candidate, or None if it does not really work."""
    try:
        done = subprocess.run(
            [candidate, "-c", _PROBE], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return tuple(int(part) for part in done.stdout.split())


def newer_than(base: Version, folders: list[Path]) -> list[tuple[Version, Path]]:
    """Working interpreters of a newer minor version than `base`, newest first, one per version."""
    found: dict[Version, Path] = {}
    for minor in range(NEWEST, max(OLDEST, base[1]), -1):
        for folder in folders:
            candidate = folder / f"python3.{minor}"
            if not candidate.exists():
                continue
            version = probe(candidate)
            if version is None:
                print(f"newest-python: {candidate} is there but does not work: passed over")
            elif version[:2] > base[:2]:
                found.setdefault(version, candidate)
    return sorted(found.items(), reverse=True)


def main() -> int:
    """Find, prepare, run; the exit code is pytest's."""
    base = sys.version_info[:3]
    candidates = newer_than(base, places())
    if not candidates:
        print(f"newest-python: nothing newer than {'.'.join(map(str, base))} here: nothing to do")
        return 0
    for version, python in candidates:
        name = ".".join(map(str, version))
        made_with = environment.version_of(environment.python_of(HOME))
        if made_with is not None and not made_with.startswith(f"{name} "):
            shutil.rmtree(HOME)
        try:
            environment.prepare(HOME, python)
        except subprocess.CalledProcessError as error:
            print(f"newest-python: the requirements can't be installed on {name}: {error}")
            continue
        print(f"newest-python: using {python} ({name})", flush=True)
        pytest = [str(environment.python_of(HOME)), "-m", "pytest", "-q", "-n", "2", *SUITES]
        return subprocess.run(pytest, cwd=environment.ROOT, check=False).returncode
    return 1


if __name__ == "__main__":
    sys.exit(main())

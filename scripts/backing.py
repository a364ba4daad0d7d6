"""Sees to it that the services of the tests are there; installs Debian's where it may.

PostgreSQL 18 and Valkey come with requirements/dev.txt. What does not: the oldest PostgreSQL that is promised, Redis
itself, PgBouncer. The tests start them on free ports and end them; nothing is left running here either.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

POLICY = Path("/usr/sbin/policy-rc.d")
# Another apt that is at work, as after a boot, is waited for; a download that breaks off is tried again.
APT = ("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=60", "-o", "Acquire::Retries=3")
INSTALL = (*APT, "install", "-y", "--no-install-recommends")
UPDATE = (*APT, "update")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A program, the package that has it, and the folders where it is looked for."""

    program: str
    package: str
    places: str

    def is_there(self) -> bool:
        return shutil.which(self.program, path=self.places) is not None


ANYWHERE = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])
WANTED = (
    Wanted(
        "postgres", "postgresql-15", "/usr/lib/postgresql/15/bin"
    ),  # another on PATH is not this one
    Wanted("redis-server", "redis-server", ANYWHERE),
    Wanted("pgbouncer", "pgbouncer", ANYWHERE),
)


def missing() -> list[Wanted]:
    """What is not there."""
    return [one for one in WANTED if not one.is_there()]


def run(command: tuple[str, ...]) -> bool:
    """Run a command of the package manager, without questions."""
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return (
        subprocess.run(command, env=quiet, stdout=subprocess.DEVNULL, check=False).returncode == 0
    )


@contextmanager
def nothing_started() -> Iterator[None]:
    """Debian starts what it installs. The tests want the programs only: the policy says so for that long."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)


def install(packages: tuple[str, ...]) -> None:
    """Install Debian packages, with fresh lists when the present ones don't do."""
    with nothing_started():
        if not run((*INSTALL, *packages)):
            run(UPDATE)
            run((*INSTALL, *packages))


def main() -> int:
    """Exit code 0: all of it is there."""
    packages = tuple(one.package for one in missing())
    if packages and shutil.which("apt-get") and os.geteuid() == 0:
        print(f"backing: installing {', '.join(packages)}; this takes a minute", flush=True)
        install(packages)
    if left := missing():
        programs = ", ".join(f"{one.program} ({one.package})" for one in left)
        words = " ".join(one.package for one in left)
        print(
            f"backing: not here: {programs}; install them (Debian, Ubuntu: apt-get install {words})"
            " and run this again",
            file=sys.stderr,
        )
        return 1
    print("backing: PostgreSQL 15, redis-server, pgbouncer")
    return 0


if __name__ == "__main__":
    sys.exit(main())

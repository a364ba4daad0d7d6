"""`import tenuto`: what it offers, and that it loads nothing for it."""

from __future__ import annotations

import subprocess
import sys

import tenuto
from tenuto.model import errors


def test_every_public_name_is_there_and_shown() -> None:
    assert dir(tenuto) == sorted(tenuto.__all__)
    assert all(getattr(tenuto, name) is not None for name in tenuto.__all__)


def test_the_errors_a_user_catches_are_the_engines() -> None:
    for name in (
        "TenutoError",
        "InvalidInput",
        "InvalidDefinition",
        "NotFound",
        "Conflict",
        "Denied",
    ):
        assert getattr(tenuto, name) is getattr(errors, name)
    assert tenuto.Unavailable is errors.Unavailable
    assert issubclass(tenuto.RunFailed, tenuto.TenutoError)


def test_looking_at_the_names_loads_no_engine() -> None:
    text = "import sys, tenuto; dir(tenuto); print([m for m in sys.modules if m.startswith('tenuto.sdk')])"

    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"

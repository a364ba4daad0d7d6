"""The command line run in this process: as `Tenuto` of `command`, a hundred times quicker, without signals."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from unittest.mock import patch

from tests.support.command import ALONE, Tenuto

from tenuto.cli import main


class Inside(Tenuto):
    """The command in a folder."""

    def __call__(
        self, *words: str, env: Mapping[str, str] | None = None, input: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        out, err = io.StringIO(), io.StringIO()
        with (
            chdir(self.folder),
            patch.dict(os.environ, {**ALONE, **(env or {})}),
            patch("sys.stdin", io.StringIO(input or "")),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            code = main.run(list(words))
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

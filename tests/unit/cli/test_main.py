"""What `tenuto` answers to a line that it cannot take: one error, with the command whose help is meant."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tenuto.cli.main import run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["run", "start", "x", "--key"],
            "'--key' requires an argument; see `tenuto run start --help`",
        ),
        (["runs", "start", "x", "--key"], "requires an argument; see `tenuto run start --help`"),
        (["run", "x.yaml", "--input"], "requires an argument; see `tenuto run FILE --help`"),
        (["dev", "--app"], "requires an argument; see `tenuto dev --help`"),
        (["ls"], "'ls'. Did you mean `tenuto run list`? See `tenuto --help`"),
        (["stop"], "'stop'. Did you mean `tenuto run cancel`? See `tenuto --help`"),
        (["run", "stop"], "did you mean `tenuto run cancel`?"),
        (["run", "signup"], "a deployed workflow is started with `tenuto run start signup`"),
        (["run", "no such/thing"], "is no .yaml, .yml or .json file, and not there either"),
        (["worker", "--slots", "0"], "'--slots': give 1 or more; see `tenuto worker start --help`"),
        (["dev", "--port", "99999"], "'--port': give 65535 or less; see `tenuto dev --help`"),
        (["dev", "--port", "1.5"], "'--port': give a whole number; see `tenuto dev --help`"),
        (
            ["token", "create", "--scope", "admin", "--expires", "1h", "--queues", "mail"],
            "--queues: belongs to --scope worker; an admin's token is for everything",
        ),
        (["workflow"], "error: `tenuto workflow` needs one of these words after it"),
    ],
)
def test_a_line_that_cannot_be_taken_is_one_error_with_its_cure(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2

    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: ")
    assert last.endswith(said)


@pytest.mark.parametrize(
    "words",
    [
        [],
        *(
            [name]
            for name in ("run", "workflow", "event", "task", "worker", "db", "token", "config")
        ),
    ],
)
def test_no_verb_in_a_list_of_them_is_cut(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert run([*words, "--help"]) == 0

    _usage, *lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines if line.endswith("...")]


@pytest.mark.parametrize(
    ("place", "code"),
    [("main._is_gone", 130), ("main._leave_stderr", 130), ("main.sys.exit", 0)],
)
def test_ctrl_c_when_the_command_is_over_ends_it_without_a_traceback(place: str, code: int) -> None:
    lines = (
        "import os, signal",
        "from tenuto.cli import main",
        f"{place} = lambda *_: os.kill(os.getpid(), signal.SIGINT)",
        "main.main(['version'])",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (code, "")

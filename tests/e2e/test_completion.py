"""The completion that bash really does: the script is loaded and asked for words, as a press of Tab does."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.support.command import COMMAND, HANG_S, Tenuto

ASK = """
source ./completion.sh
COMP_WORDS=({words})
COMP_CWORD={last}
_tenuto_completion tenuto
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(tenuto: Tenuto, *words: str) -> list[str]:
    (tenuto.folder / "completion.sh").write_text(tenuto("completion", "bash").stdout)
    script = ASK.format(words=shlex.join(words), last=len(words) - 1)
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=tenuto.folder,
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"},
        timeout=HANG_S,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["tenuto", "val"], {"validate"}),
        (["tenuto", "config", ""], {"show"}),
        (["tenuto", "run", "ver"], {"verify"}),
        (["tenuto", "run", "list", "--st"], {"--state"}),
        (["tenuto", "run", "list", "-o", "j"], {"json", "jsonl"}),
        (["tenuto", "run", "greet.yaml", "--inp"], {"--input"}),
        (["tenuto", "completion", ""], {"bash", "zsh", "fish"}),
        (["tenuto", "config", "show", "--so"], {"--sources"}),
        (["tenuto", "run", "gre"], set()),
    ],
)
def test_bash_completes_verbs_and_options(
    tenuto: Tenuto, words: list[str], offered: set[str]
) -> None:
    assert set(completed(tenuto, *words)) == offered


def test_every_verb_is_offered_and_no_placeholder(tenuto: Tenuto) -> None:
    assert {"run", "event", "config", "init", "completion"} <= set(completed(tenuto, "tenuto", ""))
    assert "list" in completed(tenuto, "tenuto", "run", "")
    assert "FILE" not in completed(tenuto, "tenuto", "run", "")


def test_completion_works_beside_broken_settings(tenuto: Tenuto) -> None:
    script = tenuto("completion", "bash").stdout
    tenuto.write(tenuto_toml="[dev\n")

    assert tenuto("completion", "bash").stdout == script
    assert completed(tenuto, "tenuto", "doc") == ["doctor"]


@pytest.mark.parametrize(
    ("shell", "word"), [("zsh", "#compdef tenuto"), ("fish", "complete --command tenuto")]
)
def test_other_shells_get_their_script(tenuto: Tenuto, shell: str, word: str) -> None:
    done = tenuto("completion", shell)

    assert done.returncode == 0
    assert word in done.stdout


def test_a_shell_that_asks_opens_no_database(tenuto: Tenuto) -> None:
    completed(tenuto, "tenuto", "run", "show", "")

    assert not (tenuto.folder / ".tenuto").exists()
    assert not Path(tenuto.folder, "tenuto.db").exists()

"""A thousand real files, one by one and in batches; a few broken ones are tolerated, more are not."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.command import HANG_S, Tenuto, json_of
from tests.support.examples import EXAMPLES, states

FILES = EXAMPLES / "files" / "files.yaml"
BATCHED = EXAMPLES / "files" / "batched.yaml"


def make(folder: Path, *words: str) -> Path:
    """The example's own files."""
    texts = folder / "texts"
    made = [sys.executable, str(EXAMPLES / "files" / "main.py"), "--make", str(texts), *words]
    subprocess.run(made, check=True, capture_output=True, timeout=HANG_S)
    return texts


def expected(texts: Path) -> dict[str, Any]:
    """What is in them, counted without Tenuto."""
    words, digests = 0, ""
    good = 0
    for path in sorted(texts.iterdir()):
        data = path.read_bytes()
        if not data.endswith(b"\xff"):
            good += 1
            words += len(data.split())
            digests += hashlib.sha256(data).hexdigest()
    digest = hashlib.sha256(digests.encode()).hexdigest()[:16]
    return {"files": good, "words": words, "digest": digest}


def test_a_thousand_files_are_looked_at_and_a_few_broken_ones_tolerated(
    tenuto: Tenuto, tmp_path: Path
) -> None:
    texts = make(tmp_path)
    report = json_of(tenuto("run", str(FILES), "--set", f"folder={texts}", "-o", "json"))

    broken = [f"{number:04}.txt: not_utf8" for number in (997, 998, 999)]
    assert report["state"] == "success"
    assert report["output"] == {**expected(texts), "broken": broken}
    [each] = [node["items"] for node in report["nodes"] if node["id"] == "each"]
    assert (each["total"], each["succeeded"], each["failed"]) == (1000, 997, 3)
    failed = [step for step in report["timeline"] if step["code"] == "not_utf8"]
    assert [step["attempt"] for step in failed] == [1, 1, 1]  # it says `retryable=False`
    assert tenuto("run", "verify", report["run_id"]).returncode == 0


def test_batches_give_the_same_with_one_task_for_fifty_files(
    tenuto: Tenuto, tmp_path: Path
) -> None:
    texts = make(tmp_path, "--count", "230", "--broken", "1")
    report = json_of(tenuto("run", str(BATCHED), "--set", f"folder={texts}", "-o", "json"))

    assert report["output"] == expected(texts)
    [each] = [node["items"] for node in report["nodes"] if node["id"] == "each"]
    assert (each["total"], each["succeeded"]) == (5, 5)


def test_one_broken_file_more_than_is_tolerated_fails_the_run(
    tenuto: Tenuto, tmp_path: Path
) -> None:
    texts = make(tmp_path, "--count", "200", "--broken", "3")  # 1 % of 200 is two
    done = tenuto("run", str(FILES), "--set", f"folder={texts}", "-o", "json")

    report = json_of(done)
    assert (done.returncode, report["state"]) == (1, "failed")
    assert (report["error"]["code"], report["error"]["node"]) == ("foreach_failed", "each")
    assert report["error"]["details"]["failed"] == 3
    assert states(report)["total"] != "success"
    assert tenuto("run", "verify", report["run_id"]).returncode == 0


def test_the_whole_example_runs_by_one_command(tenuto: Tenuto) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "files" / "main.py"), "--count", "60", "--broken", "0"],
        cwd=tenuto.folder,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "files.yaml: success after" in done.stdout
    assert "batched.yaml: success after" in done.stdout
    assert done.stdout.count('"files": 60') == 2
    assert list(tenuto.folder.iterdir()) == []  # nothing is left behind

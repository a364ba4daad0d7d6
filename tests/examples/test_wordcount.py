"""Map and reduce over the pieces of real files, which a source hands out in pages."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.command import Tenuto, json_of
from tests.support.examples import definition

WORDS = ["largo", "presto", "élan", "vivace", "tenuto"]


def make(folder: Path, files: int, lines: int) -> Counter[str]:
    """Texts; what is in them."""
    folder.mkdir()
    dice = random.Random(7)
    total: Counter[str] = Counter()
    for number in range(files):
        chosen = [dice.choices(WORDS, k=dice.randint(1, 12)) for _ in range(lines)]
        for line in chosen:
            total.update(line)
        (folder / f"{number}.txt").write_text("\n".join(map(" ".join, chosen)), encoding="utf-8")
    (folder / "empty.txt").touch()
    return total


def count(tenuto: Tenuto, folder: Path, **constants: int) -> Any:
    words = ["run", str(definition("wordcount")), "--set", f"folder={folder}", "-o", "json"]
    for name, value in constants.items():
        words += ["--var", f"{name}={value}"]
    return json_of(tenuto(*words))


def test_all_words_are_counted_once_however_the_files_are_cut(
    tenuto: Tenuto, tmp_path: Path
) -> None:
    total = make(tmp_path / "texts", files=3, lines=120)
    report = count(tenuto, tmp_path / "texts", piece=500, page=7)

    first = sorted(total.items(), key=lambda entry: (-entry[1], entry[0]))
    assert report["state"] == "success"
    assert report["output"] | {"pieces": 0} == {
        "pieces": 0,
        "words": total.total(),
        "different": 5,
        "top": [{"word": word, "count": number} for word, number in first],
    }
    [items] = [node["items"] for node in report["nodes"] if node["id"] == "map"]
    assert items["total"] == items["succeeded"] == report["output"]["pieces"]
    pages = {step["place"] for step in report["timeline"] if step["place"].startswith("map[p")}
    assert len(pages) == -(-items["total"] // 7)
    assert tenuto("run", "verify", report["run_id"]).returncode == 0


def test_an_empty_folder_has_no_words(tenuto: Tenuto, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    report = count(tenuto, tmp_path / "texts")

    assert report["output"] == {"pieces": 0, "words": 0, "different": 0, "top": []}


def test_what_the_map_gave_is_handed_on_by_reference(tenuto: Tenuto, tmp_path: Path) -> None:
    make(tmp_path / "texts", files=2, lines=60)
    report = count(tenuto, tmp_path / "texts", piece=500)
    kept = json.loads(tenuto("run", "export", report["run_id"]).stdout)

    outputs = [row["place"] for row in kept["payloads"] if row["kind"] == "output"]
    assert "map" not in outputs  # only its items have some
    assert {f"map[{n}]" for n in range(report["output"]["pieces"])} <= set(outputs)

"""A loop with data from pass to pass: sums, counters, a computed task and a computed pause, a bounded trail."""

from __future__ import annotations

import json
from typing import Any

from tests.support.command import Tenuto, json_of
from tests.support.examples import definition

ENTRIES = [
    *(("deposit", 10_000), ("withdrawal", 2_500), ("fee", 100)),
    *(("withdrawal", 9_000), ("fee", 100), ("deposit", 5_000)),
]


def book(tenuto: Tenuto, entries: list[tuple[str, int]], **more: object) -> Any:
    given = {"entries": [{"kind": kind, "cents": cents} for kind, cents in entries], **more}
    run = ["run", str(definition("ledger")), "--input", json.dumps(given), "-o", "json"]
    return json_of(tenuto(*run))


def test_each_pass_goes_on_with_the_sums_of_the_one_before(tenuto: Tenuto) -> None:
    report = book(tenuto, ENTRIES)

    assert report["state"] == "success"
    assert report["output"] == {
        "balance": 3_300,
        "lowest": -1_700,
        "fees": 2,
        "entries": 6,
        "last": [  # `keep: 3`: the last pass and the three before it
            {"entry": 3, "balance": 7_400},
            {"entry": 4, "balance": -1_600},
            {"entry": 5, "balance": -1_700},
            {"entry": 6, "balance": 3_300},
        ],
    }
    pauses = [step for step in report["timeline"] if step["node"] == "pause"]
    assert [step["place"] for step in pauses] == [f"pause.{number}" for number in range(1, 6)]
    assert all(step["duration_us"] >= 20_000 for step in pauses)
    assert tenuto("run", "verify", report["run_id"]).returncode == 0


def test_one_entry_is_one_pass(tenuto: Tenuto) -> None:
    report = book(tenuto, [("fee", 100)], pause_ms=1)

    assert report["output"] == {
        "balance": -100,
        "lowest": -100,
        "fees": 1,
        "entries": 1,
        "last": [{"entry": 1, "balance": -100}],
    }


def test_of_older_passes_only_the_fact_is_kept(tenuto: Tenuto) -> None:
    report = book(tenuto, [("deposit", 1)] * 40, pause_ms=1)
    kept = json.loads(tenuto("run", "export", report["run_id"]).stdout)

    assert report["output"]["balance"] == 40
    outputs = {row["place"] for row in kept["payloads"] if row["kind"] == "output"}
    assert {place for place in outputs if place.startswith("sums.")} == {
        *("sums.37", "sums.38", "sums.39", "sums.40")
    }
    assert len([step for step in report["timeline"] if step["node"] == "book"]) == 40

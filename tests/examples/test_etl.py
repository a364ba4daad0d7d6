"""Real CSV files in and out, and what is said about files that are none."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from tests.support.command import Tenuto, json_of
from tests.support.examples import EXAMPLES, attempts, definition, states

HEADER = "date,country,product,quantity,price\n"


def words(source: Path, target: Path) -> list[str]:
    given = json.dumps({"source": str(source), "target": str(target)})
    return ["run", str(definition("etl")), "--input", given, "-o", "json"]


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_sales_are_cleaned_and_summed_into_two_files(tenuto: Tenuto, tmp_path: Path) -> None:
    report = json_of(tenuto(*words(EXAMPLES / "etl" / "sales.csv", tmp_path / "out")))

    assert report["state"] == "success"
    assert report["output"] == {
        "files": [str(tmp_path / "out" / f"by_{name}.csv") for name in ("country", "product")],
        # Dropped: no country, a negative quantity, and one that is no number.
        "rows": {"read": 12, "kept": 9, "dropped": 3},
    }
    assert rows(tmp_path / "out" / "by_country.csv") == [
        ["country", "quantity", "revenue"],
        ["IT", "7", "202.50"],
        ["FR", "17", "186.00"],
        ["DE", "12", "133.60"],
        ["AT", "12", "51.00"],
    ]
    assert rows(tmp_path / "out" / "by_product.csv") == [
        ["product", "quantity", "revenue"],
        ["metronome", "9", "224.10"],
        ["music stand", "3", "117.00"],
        ["rosin", "20", "85.00"],
        ["tuning fork", "10", "75.00"],
        ["strings, steel", "6", "72.00"],
    ]
    assert tenuto("run", "verify", report["run_id"]).returncode == 0


def test_a_second_run_replaces_the_files_whole(tenuto: Tenuto, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text(HEADER + "2026-01-01,CH,Bell,1,100\n2026-01-01,LI,Bell,1,1\n")
    (tmp_path / "two.csv").write_text(HEADER + "2026-01-02,AT,Bell,2,0.05\n")
    for name in ("one.csv", "two.csv"):
        assert tenuto(*words(tmp_path / name, tmp_path / "out")).returncode == 0

    assert (
        tmp_path / "out" / "by_country.csv"
    ).read_bytes() == b"country,quantity,revenue\nAT,2,0.10\n"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "by_country.csv",
        "by_product.csv",
    ]


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (b"date,land,product,quantity\n", "bad_columns", "lacks country, price"),
        (b"", "bad_columns", "lacks date, country, product, quantity, price"),
        (HEADER.encode() + b"2026-01-03,DE,M\xe9tronome,1,2\n", "not_utf8", "is no UTF-8"),
        (HEADER.encode() + b"2026-01-03,DE\n", "bad_row", "line 2 has 2 fields, not 5"),
        (None, "no_such_file", "is no file"),
    ],
)
def test_a_broken_source_fails_at_once_and_says_why(
    tenuto: Tenuto, tmp_path: Path, content: bytes | None, code: str, message: str
) -> None:
    source = tmp_path / "sales.csv"
    if content is not None:
        source.write_bytes(content)

    done = tenuto(*words(source, tmp_path / "out"))

    report = json_of(done)
    assert (done.returncode, report["state"]) == (1, "failed")
    assert (report["error"]["code"], report["error"]["node"]) == (code, "extract")
    assert report["error"]["message"] == f"{source} {message}"
    assert attempts(report, "extract") == [("failed", code)]  # no second try can help
    assert states(report)["load"] != "success"
    assert not (tmp_path / "out").exists()

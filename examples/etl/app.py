"""The tasks of the ETL example. Each may be repeated: reading changes nothing, writing replaces whole files."""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from tenuto import TaskError, Tenuto

app = Tenuto()

COLUMNS = ("date", "country", "product", "quantity", "price")


@app.task(name="etl.extract")
def extract(source: str) -> dict[str, Any]:
    """Read the CSV as it is: a list of rows, all values text."""
    path = Path(source)
    if not path.is_file():
        raise broken("no_such_file", f"{source} is no file")
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            names = reader.fieldnames or ()
            missing = [name for name in COLUMNS if name not in names]
            if missing:
                raise broken("bad_columns", f"{source} lacks {', '.join(missing)}")
            rows = []
            for row in reader:
                fields = sum(value is not None for value in row.values())
                if fields != len(names):
                    where = f"line {reader.line_num} has {fields} fields, not {len(names)}"
                    raise broken("bad_row", f"{source} {where}")
                rows.append({name: row[name] for name in COLUMNS})
    except UnicodeDecodeError:
        raise broken("not_utf8", f"{source} is no UTF-8") from None
    return {"rows": rows}


def broken(code: str, message: str) -> TaskError:
    """A source that no further attempt can read, so none is made."""
    return TaskError(code, message, retryable=False)


@app.task(name="etl.clean")
def clean(rows: list[dict[str, str]]) -> dict[str, Any]:
    """Drop what is no sale, and say how much that was. Money is whole cents from here on."""
    kept: list[dict[str, Any]] = []
    for row in rows:
        try:
            quantity = int(row["quantity"])
            cents = int(Decimal(row["price"]) * 100)
        except (ValueError, InvalidOperation):
            continue
        if quantity > 0 and row["country"].strip():
            kept.append(
                {
                    "country": row["country"].strip().upper(),
                    "product": row["product"].strip().lower(),
                    "quantity": quantity,
                    "cents": quantity * cents,
                }
            )
    return {"rows": kept, "dropped": len(rows) - len(kept)}


@app.task(name="etl.total")
def total(rows: list[dict[str, Any]], by: str) -> dict[str, Any]:
    """Sum quantity and money for each value of a column, largest first."""
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        sums[row[by]][0] += row["quantity"]
        sums[row[by]][1] += row["cents"]
    ordered = sorted(sums.items(), key=lambda entry: (-entry[1][1], entry[0]))
    return {"rows": [{by: name, "quantity": q, "cents": c} for name, (q, c) in ordered]}


@app.task(name="etl.load")
def load(target: str, tables: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    """Write one CSV a table. Readers see the old file or the new one, never half of it."""
    folder = Path(target)
    folder.mkdir(parents=True, exist_ok=True)
    files: list[str] = []
    for name, rows in sorted(tables.items()):
        path = folder / f"by_{name}.csv"
        partial = path.with_suffix(".partial")
        with partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow((name, "quantity", "revenue"))
            for row in rows:
                whole, part = divmod(row["cents"], 100)
                writer.writerow((row[name], row["quantity"], f"{whole}.{part:02d}"))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        files.append(str(path))
    return {"files": files}

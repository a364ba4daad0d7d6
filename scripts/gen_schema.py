"""Writes docs/definition.schema.json from the tables of the loader; tests/unit/dsl/test_schema.py keeps it fresh."""

from __future__ import annotations

from pathlib import Path

from tenuto.dsl.schema import FILE, schema_text

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / FILE

if __name__ == "__main__":
    TARGET.write_text(schema_text())

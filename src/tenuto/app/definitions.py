"""Definitions compiled with the engine's own expression parser. Opens no database."""

from __future__ import annotations

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import Loaded, load


def load_definition(text: str | bytes, *, file: str) -> Loaded:
    """Compile a definition. `file` names it in findings."""
    return load(text, file=file, parser=CelParser())

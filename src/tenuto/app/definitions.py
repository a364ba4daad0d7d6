"""Definitions compiled with the engine's own expression parser. Opens no database."""

from __future__ import annotations

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import Loaded, load
from tenuto.model.shapes import TaskShapes


def load_definition(text: str | bytes, *, file: str, tasks: TaskShapes | None = None) -> Loaded:
    """Compile a definition. `file` names it in findings; `tasks` are those of the app that will run it, if known."""
    return load(text, file=file, parser=CelParser(), tasks=tasks)

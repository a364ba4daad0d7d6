"""The last step of the poll example."""

from __future__ import annotations

from tenuto import Tenuto

app = Tenuto()


@app.task
async def report(export: str, rows: int, looks: int) -> str:
    """Say what came out."""
    return f"{export} has {rows} rows, and was looked at {looks} times"

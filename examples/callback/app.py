"""The task of the callback example."""

from __future__ import annotations

from tenuto import Tenuto

app = Tenuto()


@app.task(name="shelves.place")
async def place(book: str, copies: int) -> str:
    """Put the copies of a book on a shelf."""
    return f"{copies} copies of {book} on shelf {len(book) % 7 + 1}"

"""The tasks of the ledger: one for each kind of entry. Each yields how the balance changes."""

from __future__ import annotations

from tenuto import Tenuto

app = Tenuto()


@app.task(name="ledger.deposit")
async def deposit(cents: int) -> dict[str, int]:
    """Money that comes in."""
    return {"change": cents}


@app.task(name="ledger.withdrawal")
async def withdrawal(cents: int) -> dict[str, int]:
    """Money that goes out."""
    return {"change": -cents}


@app.task(name="ledger.fee")
async def fee(cents: int) -> dict[str, int]:
    """What the bank takes."""
    return {"change": -cents}

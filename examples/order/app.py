"""The tasks of the order example: what runs in this process, next to the engine."""

from __future__ import annotations

import asyncio
import hashlib

from tenuto import Tenuto, current

app = Tenuto()


@app.task(name="stock.reserve")
def reserve(order: str) -> dict[str, object]:
    """Take the goods from the stock. A plain function: it runs in a thread and may block."""
    shelf = int(hashlib.sha256(order.encode()).hexdigest(), 16) % 40 + 1
    current().logger.info("goods_reserved", order=order, shelf=shelf)
    return {"order": order, "shelf": shelf}


@app.task(name="parcels.ship")
async def ship(order: str, shelf: int) -> dict[str, str]:
    """Hand the parcel to a carrier. The same attempt key gives the same parcel, however often it is asked."""
    await asyncio.sleep(0.05)
    number = hashlib.sha256(current().idempotency_key.encode()).hexdigest()[:8]
    return {"parcel": f"parcel-{number}", "from": f"shelf {shelf}", "for": order}

"""The few tasks of the pattern examples: what matters there is which node runs, when, and beside what."""

from __future__ import annotations

import asyncio

from tenuto import Context, Tenuto

app = Tenuto()
_at_work: set[str] = set()


@app.task
async def step(here: Context) -> str:
    """Some work: says which node it was done for."""
    return here.node


@app.task
async def alone(name: str) -> dict[str, object]:
    """Work that minds company: takes a moment, and says who else was at work meanwhile."""
    _at_work.add(name)
    try:
        met = set(_at_work)
        await asyncio.sleep(0.05)
        met |= _at_work
    finally:
        _at_work.discard(name)
    return {"name": name, "met": sorted(met - {name})}


@app.task
async def weigh(parcel: str) -> str:
    """Work that is chosen by its name."""
    return f"{parcel} weighed"


@app.task
async def label(parcel: str) -> str:
    """Work that is chosen by its name."""
    return f"{parcel} labelled"


@app.task(name="inbox.look")
async def look(cursor: int | None) -> dict[str, object]:
    """What has come in since the last look: two letters each time, and after the third look no more is expected."""
    seen = 0 if cursor is None else cursor
    letters = [f"letter {seen + 1}", f"letter {seen + 2}"]
    return {"items": letters, "next": seen + 2 if seen < 4 else None}

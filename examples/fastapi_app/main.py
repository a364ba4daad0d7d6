"""A web application with Tenuto inside: requests start runs, and a restart of the application carries them on.

uvicorn --app-dir examples/fastapi_app main:web
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from tenuto import InvalidInput, NotFound, RunFailed, Tenuto

LEAVE = Path(__file__).with_name("leave.yaml")
tenuto = Tenuto()  # .tenuto/tenuto.db, or the setting `database`


@tenuto.task
def balance(person: str) -> int:
    """Days that are left. A `def` runs in a thread, so it may ask a database."""
    return 25 if person else 0


@tenuto.task
async def book(person: str, days: int) -> str:
    """An `async def` runs on this application's loop, and may use its clients."""
    return f"{days} days for {person}"


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Open the engine with the application, and with it whatever the last one left unfinished."""
    async with tenuto:
        await tenuto.aopen()
        yield


web = FastAPI(title="Leaves", lifespan=lifespan)


class Leave(BaseModel):
    """What somebody asks for. `request_id`: the same one again is the same run."""

    request_id: str
    person: str
    days: int


class Decision(BaseModel):
    """What the boss says."""

    approved: bool


@web.post("/leaves", status_code=202)
async def ask(leave: Leave) -> dict[str, str]:
    """Start a run. It is on the disk when this answers."""
    given = {"person": leave.person, "days": leave.days}
    try:
        run = await tenuto.astart(LEAVE, given, key=leave.request_id)
    except InvalidInput as error:
        raise HTTPException(422, str(error)) from None
    return {"run": run.id}


@web.get("/leaves/{run_id}")
async def look(run_id: str) -> dict[str, Any]:
    """How far it is, and what came of it."""
    try:
        run = await tenuto.aget_run(run_id)
    except NotFound as error:
        raise HTTPException(404, str(error)) from None
    state = await run.astatus()
    if state not in ("success", "failed", "cancelled", "timed_out"):
        return {"state": state}
    try:
        return {"state": state, "result": await run.aresult()}
    except RunFailed as error:
        return {"state": state, "code": error.code, "message": error.message}


@web.post("/people/{person}/decision", status_code=202)
async def decide(person: str, decision: Decision) -> None:
    """Send the event that the run waits for; if it comes early, it is kept."""
    await tenuto.asend_event("leave.decided", person, decision.model_dump())

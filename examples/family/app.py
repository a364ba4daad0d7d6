"""The tasks of the family: what the parent and its children call."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import BaseModel

from tenuto import TaskError, Tenuto, current

app = Tenuto()


class Line(BaseModel):
    """One line of an invoice."""

    what: str
    cents: int


@app.task(name="invoice.number")
async def number(customer: str) -> str:
    """The same attempt key gives the same number, however often it is asked."""
    key = hashlib.sha256(current().idempotency_key.encode()).hexdigest()
    return f"{customer[:3].upper()}-{key[:6]}"


@app.task(name="invoice.total")
async def total(lines: list[Line]) -> int:
    """The sum in cents."""
    return sum(line.cents for line in lines)


@app.task(name="archive.keep")
async def keep(invoice: str) -> dict[str, str]:
    """Put it away."""
    return {"kept": invoice}


@app.task(name="site.login")
def login(folder: str) -> int:
    """A new session. Each is a file of this folder, as a site would keep it."""
    sessions = Path(folder) / "sessions"
    sessions.mkdir(parents=True, exist_ok=True)
    number = len(list(sessions.iterdir())) + 1
    (sessions / str(number)).touch()
    return number


@app.task(name="site.send")
def send(folder: str, session: int, text: str) -> str:
    """Upload a report. The first session is always over too soon, so another login is needed."""
    if session == 1 or (Path(folder) / "closed").exists():
        raise TaskError("session_over", f"session {session} is over")
    path = Path(folder) / "report.txt"
    path.write_text(text + "\n", encoding="utf-8")
    return path.name


@app.task(name="site.logout")
async def logout(session: int) -> None:
    """End a session."""
    current().logger.info("logged_out", session=session)

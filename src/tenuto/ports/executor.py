"""How a worker does one kind of work."""

from __future__ import annotations

from typing import Protocol

from tenuto.ports.gateway import Lease, Result


class Executor(Protocol):
    """Runs one attempt. Never raises for the work's own fault: that is a `Failed`.

    Cancelling the call stops the work as far as it can be stopped.
    """

    async def execute(self, lease: Lease) -> Result: ...

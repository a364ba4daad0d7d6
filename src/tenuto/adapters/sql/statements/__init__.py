"""Every SQL text of the engine, by concern. Texts only: what a statement guarantees stands above it.

One text serves both engines: sets come as one JSON parameter, what differs is a fragment (`adapters.sql.dialect`).
"""

from tenuto.adapters.sql.statements import (
    changes,
    due,
    guard,
    leases,
    load,
    mailbox,
    notes,
    reads,
    ready,
    registry,
    wholes,
)

__all__ = [
    "changes",
    "due",
    "guard",
    "leases",
    "load",
    "mailbox",
    "notes",
    "reads",
    "ready",
    "registry",
    "wholes",
]

"""Testing workflows: the real engine in memory with a clock that is turned by hand, and mocks for what nodes do.

The public names, loaded lazily: pytest imports this package in every session. Not a place for code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenuto.model.failures import Failure
    from tenuto.testing.faults import (
        Call,
        Mock,
        hangs,
        lost,
        raises,
        real,
        response,
        returns,
    )
    from tenuto.testing.runs import Node, NotFinished, Run, RunCheck
    from tenuto.testing.settling import StillRunning
    from tenuto.testing.world import Engine, NothingDue, UnusedMocks, engine

__all__ = [
    "Call",
    "Engine",
    "Failure",
    "Mock",
    "Node",
    "NotFinished",
    "NothingDue",
    "Run",
    "RunCheck",
    "StillRunning",
    "UnusedMocks",
    "engine",
    "hangs",
    "lost",
    "raises",
    "real",
    "response",
    "returns",
]

_HOMES = {
    "Failure": "tenuto.model.failures",
    "Node": "tenuto.testing.runs",
    "NotFinished": "tenuto.testing.runs",
    "Run": "tenuto.testing.runs",
    "RunCheck": "tenuto.testing.runs",
    "StillRunning": "tenuto.testing.settling",
    "Engine": "tenuto.testing.world",
    "NothingDue": "tenuto.testing.world",
    "UnusedMocks": "tenuto.testing.world",
    "engine": "tenuto.testing.world",
}


def __getattr__(name: str) -> object:
    """Load a public name from its home on first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'tenuto.testing' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "tenuto.testing.faults")), name)


def __dir__() -> list[str]:
    """The public names, loaded or not, for completion."""
    return sorted(__all__)

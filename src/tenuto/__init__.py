"""Tenuto: workflows in YAML, executed durably.

The public names, loaded lazily so that `import tenuto` costs nothing. Not a place for code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenuto.model.version import VERSION as __version__  # noqa: N811 - a dunder by convention

if TYPE_CHECKING:
    from tenuto.model.errors import (
        Conflict,
        Denied,
        InvalidDefinition,
        InvalidInput,
        NotFound,
        TenutoError,
        Unavailable,
    )
    from tenuto.sdk.builder.graph import Graph
    from tenuto.sdk.builder.steps import Step
    from tenuto.sdk.builder.workflow import Workflow
    from tenuto.sdk.failures import RunFailed
    from tenuto.sdk.run import Run
    from tenuto.sdk.tenuto import Tenuto
    from tenuto.worker.context import Context, current
    from tenuto.worker.registry import InvalidTask, TaskError

__all__ = [
    "Conflict",
    "Context",
    "Denied",
    "Graph",
    "InvalidDefinition",
    "InvalidInput",
    "InvalidTask",
    "NotFound",
    "Run",
    "RunFailed",
    "Step",
    "TaskError",
    "Tenuto",
    "TenutoError",
    "Unavailable",
    "Workflow",
    "__version__",
    "current",
]

_HOMES = {
    "Conflict": "tenuto.model.errors",
    "Context": "tenuto.worker.context",
    "Denied": "tenuto.model.errors",
    "Graph": "tenuto.sdk.builder.graph",
    "InvalidDefinition": "tenuto.model.errors",
    "InvalidInput": "tenuto.model.errors",
    "InvalidTask": "tenuto.worker.registry",
    "NotFound": "tenuto.model.errors",
    "Run": "tenuto.sdk.run",
    "RunFailed": "tenuto.sdk.failures",
    "Step": "tenuto.sdk.builder.steps",
    "TaskError": "tenuto.worker.registry",
    "Tenuto": "tenuto.sdk.tenuto",
    "TenutoError": "tenuto.model.errors",
    "Unavailable": "tenuto.model.errors",
    "Workflow": "tenuto.sdk.builder.workflow",
    "current": "tenuto.worker.context",
}


def __getattr__(name: str) -> object:
    """Load a public name from its home on first use (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tenuto' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    """The public names, loaded or not, for completion."""
    return sorted(__all__)

"""Tenuto: workflows in YAML, executed durably.

The public names, loaded lazily so that `import tenuto` costs nothing. Not a place for code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenuto.model.version import VERSION as __version__  # noqa: N811 - a dunder by convention

if TYPE_CHECKING:
    from tenuto.sdk.failures import RunFailed
    from tenuto.sdk.tenuto import Run, Tenuto
    from tenuto.worker.context import Context, current
    from tenuto.worker.registry import TaskError

__all__ = ["Context", "Run", "RunFailed", "TaskError", "Tenuto", "__version__", "current"]

_HOMES = {
    "Context": "tenuto.worker.context",
    "Run": "tenuto.sdk.tenuto",
    "RunFailed": "tenuto.sdk.failures",
    "TaskError": "tenuto.worker.registry",
    "Tenuto": "tenuto.sdk.tenuto",
    "current": "tenuto.worker.context",
}


def __getattr__(name: str) -> object:
    """Load a public name from its home on first use (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tenuto' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)

"""What a task process of `tenuto worker` begins with: it finds the app as every command does, and serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tenuto.worker.process import serve

if TYPE_CHECKING:
    from tenuto.worker.registry import Registry


def main(parent: int) -> None:
    """Serve the supervisor. `parent`: the launcher's process."""
    serve(parent, _load)


def _load(order: dict[str, Any]) -> Registry:
    from tenuto.cli.apps import load_app

    return load_app(order["app"]).registry

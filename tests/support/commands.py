"""The command lines of a cluster's processes: those that compose.yaml, the Dockerfile and the systemd units have, and
with which our own clusters are started. What else a process needs to know comes by its environment.
"""

from __future__ import annotations

UPGRADE = ("db", "upgrade")
SERVER = ("server",)


def worker(app: str) -> tuple[str, ...]:
    """A worker for the tasks of an app."""
    return ("worker", "--app", app)


def language_server(address: str) -> tuple[str, ...]:
    """A language server that listens at host:port."""
    return ("language-server", "--listen", address)


def token(scope: str, *, name: str, expires: str) -> tuple[str, ...]:
    """What prints a token."""
    return ("token", "create", "--scope", scope, "--name", name, "--expires", expires)

"""Free ports of the loopback."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port that was free a moment ago; who binds it tries another when somebody was quicker."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port

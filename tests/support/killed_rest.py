"""A server that kills itself with SIGKILL at the start of a run: `killed_rest.py FILE before|after|never`.

Prints its port. Before: the start has not been asked for; after: it is committed, and nobody has the answer.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence

from tenuto.app.embedded import Engine
from tenuto.app.listening import bind
from tenuto.app.rest import RestService
from tenuto.coordinator.commands import Started, StartRequest

FILE, MOMENT = sys.argv[1:]


def main() -> None:
    bound = bind(0)
    up = threading.Event()
    engine = Engine(
        FILE,
        services=lambda made: [
            RestService(made, bound, database=FILE, environment={}, listening=up.set)
        ],
    )
    engine.start()
    up.wait()
    start = engine.commands.start

    async def killed(requests: Sequence[StartRequest]) -> Sequence[Started]:
        if MOMENT == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        started = await start(requests)
        if MOMENT == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return started

    engine.commands.start = killed  # type: ignore[method-assign]
    print(bound.getsockname()[1], flush=True)
    sys.stdin.read()
    engine.stop(grace_s=0)


main()

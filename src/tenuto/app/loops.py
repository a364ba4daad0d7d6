"""What long-lived processes have in common: uvloop where it is installed, for a third less CPU per message; a collector
that does not look through everything that was loaded, again and again.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

YOUNG_MAX = 20_000
"""Objects made between two looks for cycles. Python's 700 are made for every other event."""

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def loop_factory() -> LoopFactory | None:
    """What makes the loop; None for asyncio's own."""
    try:
        import uvloop
    except ImportError:  # not everywhere, and nothing depends on it
        return None
    return uvloop.new_event_loop


def settle() -> None:
    """Call it once all is loaded: that stays, and need not be looked at again (ADR 0008)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, 20, 20)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, on the fastest loop there is."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)

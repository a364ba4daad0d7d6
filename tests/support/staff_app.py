"""An app of tasks for workers: those of `process_tasks`, each as it is and, as `own_…`, in a process of its own."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.support import process_tasks as tasks

from tenuto import Tenuto, current

app = Tenuto()


def heeds(fifo: str) -> str:
    """A `def` that looks whether it is still wanted; in a process of its own it is interrupted, too."""
    tasks.tell(fifo)
    try:
        while not current().cancelled:
            time.sleep(0.01)
    finally:
        Path(f"{fifo}.proof").write_text("stopped")
    return "stopped"


async def aheeds(fifo: str) -> None:
    """An `async def` that is told."""
    await tasks.acleans_up(fifo, f"{fifo}.proof")


def dies_once(fifo: str) -> list[int]:
    """Ends its process in the first attempt that runs anywhere."""
    proof = Path(f"{fifo}.died")
    if not proof.exists():
        proof.write_text("")
        os._exit(7)
    return [os.getpid(), current().attempt]


def last_words(code: int) -> None:
    """Prints, and ends its process."""
    print("goodbye")
    os._exit(code)


def unstorable() -> object:
    """What not even the SDK can turn into JSON."""
    return object()


for function in (
    tasks.echo,
    tasks.pid_of,
    tasks.who,
    tasks.fails,
    tasks.breaks,
    tasks.leaves,
    tasks.dies,
    tasks.is_killed,
    tasks.spins,
    tasks.holds_the_interpreter,
    tasks.ignores_terminate,
    tasks.begets,
    tasks.waits,
    tasks.beats,
    tasks.says,
    tasks.environment,
    tasks.anap,
    heeds,
    aheeds,
    dies_once,
    last_words,
    unstorable,
):
    app.task(function)
    app.task(name=f"own_{function.__name__}", process=True)(function)

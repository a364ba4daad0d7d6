"""Runs of the pure machine with a simulated world around them: store, leases, mailbox, clock, evaluator, children.

Whatever a test makes happen goes through `World.send`. After each accepted event the machine's invariants are checked
(I3-I7, I9, I13, and those of closing, children and foreach in `checks`), the event is decided once more from encoded
and decoded state (I5), and every move of a node or an edge on the way has been compared with `oracle`. A run's children
are runs of their own in the same `Family`, if the test lets them begin. No CEL, no database, no real time.
"""

from tests.support.world.answers import Answer, Asked, Script, Table, text_of
from tests.support.world.events import WORKER
from tests.support.world.family import Family, Lease, Notice, Posted
from tests.support.world.looking import RUN
from tests.support.world.run import World, repeat_of
from tests.support.world.watching import WatchedTurn

__all__ = [
    "RUN",
    "WORKER",
    "Answer",
    "Asked",
    "Family",
    "Lease",
    "Notice",
    "Posted",
    "Script",
    "Table",
    "WatchedTurn",
    "World",
    "repeat_of",
    "text_of",
]

"""Who of several coordinators goes first where all find the same work due. Saves work done twice; decides no right.

Whatever is due is found by every coordinator over the store, and each may decide it: the commit lets one of them win.
So that they do not all try at once, each takes at once only what is its own - runs that it decided last, and what its
own commits have just brought about - and leaves the rest to others for a moment that differs from run to run and from
process to process. Who is alone on its store takes everything at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TypeVar
from zlib import crc32

from tenuto.coordinator.setting import Setting
from tenuto.model.ids import RunId

GRACE_US = 200_000
"""Longest moment: some ten times what a coordinator needs from finding to commit. Nobody may be there to use it."""
EXPECTED_MAX = 10_000
"""Ids that this process has brought about, the oldest first out: they are met within the moment."""

T = TypeVar("T")


class Sharing:
    """What is left to others, and since when.

    Args:
        remembers: whether this process decided the run last.
    """

    def __init__(self, setting: Setting, remembers: Callable[[RunId], bool]) -> None:
        self._sole = setting.sole
        self._clock = setting.clock
        self._salt = crc32(setting.incarnation.encode())
        self._remembers = remembers
        self._expected: OrderedDict[str, None] = OrderedDict()
        self._seen: dict[object, int] = {}
        self._left: dict[object, int] = {}
        self._again_at: int | None = None

    def expect(self, ids: Iterable[str]) -> None:
        """These messages, or what is told to these runs, come of this process."""
        if self._sole:
            return
        for each in ids:
            self._expected[each] = None
            self._expected.move_to_end(each)
        while len(self._expected) > EXPECTED_MAX:
            self._expected.popitem(last=False)

    def begin(self) -> None:
        """A new look at all that is due."""
        self._left, self._again_at = {}, None

    def mine(self, found: Iterable[T], about: Callable[[T], tuple[RunId, object, str]]) -> list[T]:
        """What to take now. `about`: the run, what names the thing, and the id by which it is expected.

        Between `begin` and `end`; the rest is looked at again at the moment that `end` says.
        """
        if self._sole:
            return list(found)
        now = self._clock.now()
        taken = []
        for each in found:
            run_id, name, expected = about(each)
            if self._remembers(run_id) or expected in self._expected:
                taken.append(each)
                continue
            first = self._seen.get(name, now)
            until = first + (crc32(run_id.encode(), self._salt) % GRACE_US)
            if until <= now:
                taken.append(each)
                continue
            self._left[name] = first
            if self._again_at is None or until < self._again_at:
                self._again_at = until
        return taken

    def end(self) -> int | None:
        """When to look again at what was left to others; None: nothing was."""
        self._seen = self._left
        return self._again_at

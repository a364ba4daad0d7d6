"""Texts of payloads and what they parse to. The values of large texts are shared by the process, within a bound."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Final

import orjson

from tenuto.model.payload import PayloadKey, Text

LARGE = 16_384
"""Characters from which a parsed value is worth keeping beyond its evaluator: the list of a foreach is read once for
each of its items.
"""
KEPT_MAX = 4_194_304
"""Characters of all texts whose values are kept; parsed they take about ten times that, twenty at worst."""


class _Shared:
    """The values of the large texts used last."""

    def __init__(self, limit: int) -> None:
        self._limit, self._size = limit, 0
        self._values: OrderedDict[str, object] = OrderedDict()
        self._lock = Lock()

    def value(self, text: str) -> object:
        with self._lock:
            if text in self._values:
                self._values.move_to_end(text)
                return self._values[text]
        value: object = orjson.loads(text)
        with self._lock:
            if text not in self._values:
                self._values[text] = value
                self._size += len(text)
            while self._size > self._limit and len(self._values) > 1:
                old, _ = self._values.popitem(last=False)
                self._size -= len(old)
        return value


_SHARED: Final = _Shared(KEPT_MAX)


class Payloads:
    """Texts by key, each parsed once."""

    def __init__(self, texts: Mapping[PayloadKey, str]) -> None:
        self._texts = texts
        self._parsed: dict[str, object] = {}

    def text(self, key: PayloadKey, fresh: Mapping[PayloadKey, Text]) -> str | None:
        """The text of a payload; what the decision under way made (`fresh`) comes before what was loaded."""
        made = fresh.get(key)
        return self._texts.get(key) if made is None or made.text is None else made.text

    def value(self, text: str) -> object:
        """The value of a text of ours, which passed the door of results once. Not to be changed: it is shared."""
        # By this evaluator's own text first: an equal one of another would be compared letter by letter each time.
        if text not in self._parsed:
            self._parsed[text] = _SHARED.value(text) if len(text) >= LARGE else orjson.loads(text)
        return self._parsed[text]

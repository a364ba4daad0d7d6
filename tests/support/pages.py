"""Pages of the docs as a reader follows them: their blocks, and whether what a command printed is what the page shows.

A page shows one run of its commands; times, ids and process numbers are others each time. So a line that is shown
stands for every line that differs in those only, and an id is the same one wherever the page names it. `…` stands for
any lines, and lines between may be left out without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMES = r"([\w/.-]+\.(?:py|yaml|toml))"
NAMED_ABOVE = re.compile(rf"`{NAMES}`[^`\n]*:\n\n$")
NAMED_INSIDE = re.compile(rf"# {NAMES}\n")
GAP = "…"

_DURATION = r"(?:\d+(?:\.\d+)?(?:µs|ms|d|h|m|s))+"
_VARIES = re.compile(
    r"(?P<uuid>\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b)"
    r"|(?P<instant>\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)"
    r"|(?P<time>\b\d\d:\d\d:\d\d(?:\.\d+)?\b)"
    r"|(?P<folder>/home/[\w/-]+(?=/\.tenuto/))"
    r"|(?P<pid>(?<=\"pid\":)\d+)"
    r"|(?P<short>\b(?=[a-f]*\d)[0-9a-f]{8}\b)"
    rf"|(?P<duration>\b{_DURATION}\b)"
    r"|(?P<space>\s+)"
)
_PATTERNS = {
    "uuid": r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})",
    "short": r"([0-9a-f]{8})",
    "folder": r"/[\w/-]+",
    "pid": r"(\d+)",
    "instant": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z",
    "time": r"\d\d:\d\d:\d\d(?:\.\d+)?",
    "duration": _DURATION,
    "space": r"\s+",
}
_BOUND = ("uuid", "short", "pid")


@dataclass(frozen=True)
class Block:
    """A code block: its language, its text, the file that it is if the page says so, and where it ends."""

    language: str
    text: str
    name: str | None
    start: int
    end: int


def blocks(text: str) -> Iterator[Block]:
    """A page's code blocks in order."""
    for found in FENCED.finditer(text):
        named = NAMED_INSIDE.match(found[2]) or NAMED_ABOVE.search(text[: found.start()])
        yield Block(found[1], found[2], named[1] if named else None, found.start(), found.end())


def typed(block: Block) -> Iterator[tuple[str, list[str]]]:
    """(command, lines shown below it) of a console block; a command of "" for lines that stand before any."""
    command, shown = "", list[str]()
    for line in block.text.splitlines():
        if line.startswith("$ "):
            if command or shown:
                yield command, shown
            command, shown = line[2:], []
        else:
            shown.append(line)
    yield command, shown


@dataclass
class Meant:
    """What the ids of a page stand for in this reading of it."""

    ids: dict[str, str] = field(default_factory=dict)

    def said(self, command: str) -> str:
        """A command with the ids of this reading."""
        for shown, real in sorted(self.ids.items(), key=lambda pair: -len(pair[0])):
            command = command.replace(shown, real)
        return command

    def missing(self, shown: list[str], printed: str) -> str | None:
        """The first line shown that was not printed, in their order; None: all were, and the ids on the way are learnt.
        What lacks a line teaches nothing: when it is looked at again, another line may be the one that was meant.
        """
        before = dict(self.ids)
        lines = iter(printed.splitlines())
        for line in shown:
            if line.strip() in ("", GAP):
                continue
            if not any(self._is(line, each) for each in lines):
                self.ids = before
                return line
        return None

    def _is(self, shown: str, printed: str) -> bool:
        names: list[str] = []

        def turned(found: re.Match[str]) -> str:
            kind = str(found.lastgroup)
            if kind in _BOUND:
                if found[0] in self.ids:
                    return re.escape(self.ids[found[0]])
                names.append(found[0])
            return _PATTERNS[kind]

        pattern, at = "", 0
        for found in _VARIES.finditer(shown.rstrip()):
            pattern += re.escape(shown[at : found.start()]) + turned(found)
            at = found.end()
        pattern += re.escape(shown.rstrip()[at:])
        match = re.match(pattern, printed)
        if match is None:
            return False
        for name, real in zip(names, match.groups(), strict=True):
            self.ids[name] = real
            if "-" in name:
                self.ids[name[-8:]] = real[-8:]
        return True

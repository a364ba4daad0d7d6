"""Rows of statements as functions of the server: one round trip instead of one for each.

A function is made from the texts of a sequence and named by their hash, so another release has others, and the plans of
its statements are kept as those of prepared statements are. A statement whose first parameter is null is left out.
Where functions may not be made, statements are sent one by one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import asyncpg

from tenuto.adapters.postgres.connecting import Link
from tenuto.adapters.sql.engine import Param, Step

PLANS_MAX = 1_000
"""Rows of statements of which it is remembered how they are called."""
_PARAM = re.compile(r"\$(\d+)")
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('tenuto/' || current_schema(), 0))"


@dataclass(frozen=True)
class Routine:
    """One sequence. `offsets`: parameters before those of each statement, then the number of all."""

    texts: tuple[str, ...]
    offsets: tuple[int, ...]

    @cached_property
    def name(self) -> str:
        """Of the function."""
        return "tenuto_" + hashlib.sha256("\0".join(self.texts).encode()).hexdigest()[:24]

    @cached_property
    def call(self) -> str:
        """The statement that calls it; all columns of its answer."""
        args = ", ".join(f"${n}" for n in range(1, self.offsets[-1] + 1))
        return f"SELECT * FROM {self.name}({args})"


def routine(texts: Sequence[str]) -> Routine:
    """The routine of a sequence."""
    offsets = [0]
    for text in texts:
        offsets.append(offsets[-1] + max((int(n) for n in _PARAM.findall(text)), default=0))
    return Routine(tuple(texts), tuple(offsets))


class Routines:
    """Which steps are called together."""

    def __init__(self, routines: Sequence[Routine]) -> None:
        self._plans: dict[tuple[str, ...], list[tuple[Routine | None, list[int]]]] = {}
        self._places: dict[str, list[tuple[Routine, int]]] = {}
        for each in routines:
            for n, text in enumerate(each.texts):
                self._places.setdefault(text, []).append((each, n))

    def folded(self, group: Sequence[Step]) -> Iterator[Step]:
        """The same steps with those that belong together as one."""
        texts = tuple(text for text, _ in group)
        plan = self._plans.get(texts)
        if plan is None:
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()
            plan = self._plans[texts] = self._plan(texts)
        at = 0
        for found, places in plan:
            if found is None:
                yield group[at]
                at += 1
                continue
            params: list[Param] = [None] * found.offsets[-1]
            for n, place in enumerate(places):
                given = group[at + n][1]
                params[found.offsets[place] : found.offsets[place] + len(given)] = given
            yield found.call, tuple(params)
            at += len(places)

    def _plan(self, texts: Sequence[str]) -> list[tuple[Routine | None, list[int]]]:
        """What is called for these, in order: a routine with the places of its statements, or None for one alone."""
        plan: list[tuple[Routine | None, list[int]]] = []
        at = 0
        while at < len(texts):
            best: tuple[Routine | None, list[int]] = None, [0]
            for each, first in self._places.get(texts[at], ()):
                places = _follow(each, first, texts, at)
                if len(places) > len(best[1]):
                    best = each, places
            plan.append(best)
            at += len(best[1])
        return plan


def _follow(found: Routine, first: int, texts: Sequence[str], at: int) -> list[int]:
    """Places in the sequence of the statements from `at` on, as far as they are in its order."""
    places, place = [first], first
    for text in texts[at + 1 :]:
        try:
            place = found.texts.index(text, place + 1)
        except ValueError:
            break
        places.append(place)
    return places


async def make(link: Link, routines: Sequence[Routine]) -> bool:
    """Make those that are not there. False: this user may not. Raises other errors of the driver."""
    raw = link.raw
    names = [each.name for each in routines]
    there = {
        row[0]
        for row in await raw.fetch(
            "SELECT proname FROM pg_proc WHERE proname = ANY($1) "
            "AND pronamespace = to_regnamespace(current_schema())",
            names,
        )
    }
    missing = [each for each in routines if each.name not in there]
    if not missing:
        return True
    await raw.execute(link.begin)
    try:
        await raw.execute(_LOCK)
        for each in missing:
            await raw.execute(await _definition(link, each))
        await raw.execute("COMMIT")
    except asyncpg.InsufficientPrivilegeError:
        return False
    finally:
        if not raw.is_closed() and raw.is_in_transaction():
            await raw.execute("ROLLBACK")
    return True


async def _definition(link: Link, each: Routine) -> str:
    """Its text, with the types that the server takes its parameters and columns for."""
    types: list[str] = []
    lines: list[str] = []
    columns: list[str] = []
    last = len(each.texts) - 1
    for n, text in enumerate(each.texts):
        statement = await link.raw.prepare(text)
        types += [kind.name for kind in statement.get_parameters()]
        answer = statement.get_attributes()
        moved = _moved(text.strip(), each.offsets[n])
        if n == last and answer:
            columns = [f"c{k} {column.type.name}" for k, column in enumerate(answer)]
            moved = f"RETURN QUERY {moved}"
        elif answer:
            moved = f"SELECT * INTO ignored FROM ({moved}) AS ignored_row"
        lines.append(f"IF ${each.offsets[n] + 1} IS NOT NULL THEN {moved}; END IF;")
    returns = f"TABLE ({', '.join(columns)})" if columns else "void"
    body = "\n".join(lines)
    return (
        f"CREATE OR REPLACE FUNCTION {each.name}({', '.join(types)}) RETURNS {returns} "
        "LANGUAGE plpgsql AS $tenuto$\n#variable_conflict use_column\nDECLARE ignored record;\n"
        f"BEGIN\n{body}\nEND $tenuto$"
    )


def _moved(text: str, offset: int) -> str:
    return _PARAM.sub(lambda found: f"${int(found[1]) + offset}", text)

"""Rows of statements as functions of the server: one round trip instead of one for each.

A function is made from the texts of a sequence and named by their hash, so another release has others, and the plans of
its statements are kept as those of prepared statements are. A statement whose first parameter is null is left out; one
without parameters has one that says whether it is wanted. Where functions may not be made or called, statements are
sent one by one; so they are while functions that have vanished are made anew (`mending`).

The function of a checked sequence answers a row, the moment and what its last statement says, or none: then a check
found something, and nothing is written, for all writes stand behind all checks. Called outside a transaction it is one
of its own. Each of its statements sees what was committed before that statement began, as if it had been sent by
itself: so a check sees what was left by whoever held a lock that was waited for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import asyncpg

from tenuto.adapters.postgres.address import Address
from tenuto.adapters.postgres.connecting import Link
from tenuto.adapters.postgres.opening import patiently
from tenuto.adapters.sql.engine import Param, Step
from tenuto.adapters.sql.sequences import Checked

PLANS_MAX = 1_000
"""Rows of statements of which it is remembered how they are called."""
AT_ONCE = "tenuto_at_once_"
_FORM = "2"
"""Of what is made from the texts; functions of another form have other names."""
_PARAM = re.compile(r"\$(\d+)")
_THERE = """
SELECT proname, has_function_privilege(oid, 'EXECUTE') FROM pg_proc
WHERE proname = ANY($1) AND pronamespace = to_regnamespace(current_schema())
"""
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('tenuto/' || current_schema(), 0))"


@dataclass(frozen=True)
class Routine:
    """One sequence.

    Attributes:
        offsets: parameters before those of each statement, then the number of all.
        checked: it goes on only if all is as hoped.
    """

    texts: tuple[str, ...]
    offsets: tuple[int, ...]
    checked: Checked | None = None

    @cached_property
    def name(self) -> str:
        """Of the function; one that may be a whole transaction is known by it."""
        made_of = hashlib.sha256("\0".join((_FORM, *self.texts)).encode()).hexdigest()[:24]
        return f"tenuto_{made_of}" if self.checked is None else f"{AT_ONCE}{made_of}"

    @cached_property
    def call(self) -> str:
        """The statement that calls it; all columns of its answer."""
        args = ", ".join(f"${n}" for n in range(1, self.offsets[-1] + 1))
        return f"SELECT * FROM {self.name}({args})"


def routine(sequence: Sequence[str] | Checked) -> Routine:
    """The routine of a sequence."""
    checked = sequence if isinstance(sequence, Checked) else None
    texts = tuple(sequence.texts if isinstance(sequence, Checked) else sequence)
    offsets = [0]
    for text in texts:
        offsets.append(offsets[-1] + max((int(n) for n in _PARAM.findall(text)), default=1))
    return Routine(texts, tuple(offsets), checked)


class Routines:
    """Which steps are called together."""

    def __init__(self, routines: Sequence[Routine]) -> None:
        self.all = tuple(routines)
        self._plans: dict[tuple[str, ...], list[tuple[Routine | None, list[int]]]] = {}
        self._places: dict[str, list[tuple[Routine, int]]] = {}
        self._checked = [each for each in routines if each.checked is not None]
        self._wholes: dict[tuple[str, ...], tuple[Routine, list[int]] | None] = {}
        for each in routines:
            if each.checked is None:
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
            yield group[at] if found is None else _called(found, places, group[at:])
            at += len(places)

    def at_once(self, group: Sequence[Step]) -> Step | None:
        """All of a group, by the function of its checked sequence; None: there is no such function."""
        texts = tuple(text for text, _ in group)
        if texts not in self._wholes:
            if len(self._wholes) >= PLANS_MAX:
                self._wholes.clear()
            self._wholes[texts] = self._whole(texts)
        whole = self._wholes[texts]
        return None if whole is None else _called(*whole, group)

    def _whole(self, texts: Sequence[str]) -> tuple[Routine, list[int]] | None:
        """The checked sequence of which all these are part, and their places."""
        for each in self._checked:
            if texts[0] in each.texts:
                places = _follow(each, each.texts.index(texts[0]), texts, 0)
                if len(places) == len(texts):
                    return each, places
        return None

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


def _called(found: Routine, places: Sequence[int], group: Sequence[Step]) -> Step:
    """The call of a routine for the first steps of a group, one for each place."""
    params: list[Param] = [None] * found.offsets[-1]
    for place, (_, given) in zip(places, group, strict=False):
        offset = found.offsets[place]
        params[offset : offset + max(len(given), 1)] = given or (1,)
    return found.call, tuple(params)


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
    """Make those that are not there. False: this user may not, or may not call those that another one made.

    Waits for another process that makes them just now, however slowly. Raises other errors of the driver.
    """
    return await patiently(lambda: _make(link, routines))


async def _make(link: Link, routines: Sequence[Routine]) -> bool:
    raw = link.raw
    await raw.execute(link.begin)  # through a pooler the schema is known within a transaction only
    try:
        there = await _there(link, routines)
        if missing := [each for each in routines if each.name not in there]:
            await raw.execute(_LOCK)
            # Another process has made them meanwhile, perhaps as another user.
            there = await _there(link, routines)
            for each in missing:
                if each.name not in there:
                    await raw.execute(await _definition(link, each))
            there = await _there(link, routines)
        await raw.execute("COMMIT")
    except asyncpg.InsufficientPrivilegeError:
        return False
    finally:
        if not raw.is_closed() and raw.is_in_transaction():
            await raw.execute("ROLLBACK")
    return all(there.values())


async def _there(link: Link, routines: Sequence[Routine]) -> dict[str, bool]:
    """The names of those that are there, and whether this user may call them."""
    rows = await link.raw.fetch(_THERE, [each.name for each in routines])
    return {row[0]: row[1] for row in rows if row[1] is not None}  # null: it is being dropped


def refused(address: Address) -> str:
    """What somebody should know where `make` says no."""
    return (
        f"{address.shown} lets this user make or call no functions, so commits take longer: "
        f"GRANT CREATE ON SCHEMA {address.schema}; where another user made them, "
        f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {address.schema}"
    )


async def _definition(link: Link, each: Routine) -> str:
    """Its text, with the types that the server takes its parameters and columns for."""
    types: list[str] = []
    lines: list[str] = []
    columns: list[str] = []
    last = len(each.texts) - 1
    checked = each.checked
    for n, text in enumerate(each.texts):
        statement = await link.raw.prepare(text)
        types += [kind.name for kind in statement.get_parameters()] or ["int4"]
        answer = [column.type.name for column in statement.get_attributes()]
        moved = _moved(text.strip(), each.offsets[n])
        if checked is not None and text in checked.checks:
            moved = f"IF EXISTS ({moved}) THEN RETURN; END IF"
        elif checked is not None and (text == checked.moment or n == last):
            # These are the columns of the answer.
            moved = f"SELECT * INTO c{len(columns)} FROM ({moved}) AS answered"
            columns += answer
        elif checked is not None and text in checked.timed:
            moved = _moved(text.strip(), each.offsets[n], moment=checked.timed[text])
        elif n == last and answer:
            columns = answer
            moved = f"RETURN QUERY {moved}"
        elif answer:
            moved = f"SELECT * INTO ignored FROM ({moved}) AS ignored_row"
        lines.append(f"IF ${each.offsets[n] + 1} IS NOT NULL THEN {moved}; END IF;")
    if checked is not None:
        lines.append("RETURN NEXT;")
    named = ", ".join(f"c{n} {kind}" for n, kind in enumerate(columns))
    body = "\n".join(lines)
    return (
        f"CREATE OR REPLACE FUNCTION {each.name}({', '.join(types)}) "
        f"RETURNS {f'TABLE ({named})' if named else 'void'} "
        "LANGUAGE plpgsql AS $tenuto$\n#variable_conflict use_column\nDECLARE ignored record;\n"
        f"BEGIN\n{body}\nEND $tenuto$"
    )


def _moved(text: str, offset: int, *, moment: int | None = None) -> str:
    """With other numbers for its parameters; of one its function knows better: the moment."""

    def put(found: re.Match[str]) -> str:
        number = int(found[1])
        return "c0" if number == moment else f"${number + offset}"

    return _PARAM.sub(put, text)

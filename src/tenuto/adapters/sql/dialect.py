"""Where two SQL engines differ, as named fragments. No statements: those are filled with these at start.

Fragments in use (DESIGN section 5): `each_N` reads set-valued parameter N, one JSON text, as rows with a column
`value`; `pack(` … `)` makes one JSON text of many rows, so that a result crosses the driver in one step.
"""

from __future__ import annotations

from dataclasses import dataclass

PARAMS_MAX = 12
"""Parameters that a statement may read as sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One engine's spelling.

    Attributes:
        now: the database's time in microseconds, inside a statement.
        each: rows of the JSON array in a parameter; `{}` is the parameter.
        pack, packed: around a column list, inside SELECT: all rows as one JSON array of arrays.
        least, greatest: of several values.
        for_update, skip_locked: row locks; empty where there is one writer.
    """

    now: str
    each: str
    pack: str
    packed: str
    least: str
    greatest: str
    for_update: str
    skip_locked: str

    @property
    def locks_rows(self) -> bool:
        """Whether rows must be locked before they are checked."""
        return bool(self.for_update)

    def fill(self, text: str) -> str:
        """Put the fragments into a statement's text. Never anything that comes from data."""
        return text.format(
            now=self.now,
            pack=self.pack,
            packed=self.packed,
            least=self.least,
            greatest=self.greatest,
            for_update=self.for_update,
            skip_locked=self.skip_locked,
            **{f"each_{n}": self.each.format(f"${n}") for n in range(1, PARAMS_MAX + 1)},
        )


SQLITE = Dialect(
    now="$now",
    # LIMIT keeps the planner from merging the subquery, so a row's text is made once, not for each of its columns: an
    # UPDATE of 17 columns took 8.5 µs a row instead of 13.8 (bench/store_commit.py).
    each="(SELECT value FROM json_each({}) LIMIT -1)",
    pack="json_group_array(json_array(",
    packed="))",
    least="min",
    greatest="max",
    for_update="",
    skip_locked="",
)

"""Where the SQL engines differ, as named fragments. No statements: those are filled with these at start.

Fragments in use (DESIGN section 5): `each_N` reads set-valued parameter N, one JSON text, as rows with a column
`value`, an array; `texts_N` the same where the values are texts; `within_N[column]`, `among_N[column]` and
`since_N[column]` say again what follows of a condition on runs, so that a partitioned engine need not look at the
others; `pack(` … `)` makes one JSON text of many rows, so that a result crosses the driver in one step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

PARAMS_MAX = 12
"""Parameters that a statement may read as sets."""


@dataclass(frozen=True, slots=True)
class _Bounds:
    """`{within_1[t.run_id]}`: a fragment with the column put in."""

    text: str
    param: str

    def __getitem__(self, told: str) -> str:
        column, _, item = told.partition(",")
        return self.text.format(param=self.param, column=column, item=item or "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One engine's spelling.

    Attributes:
        now: the database's time in microseconds, inside a statement.
        each: rows of the JSON array in a parameter; `{}` is the parameter.
        texts: the same, of a JSON array of texts.
        within: `AND …`: a column lies between the first item of the first row and that of the last one; the rows are
            sorted by it. Says nothing new; empty where nothing is partitioned.
        among: the same for an array of texts.
        since: `AND …`: a column of run ids is not older than the run in the first row: children of runs.
        in_, _in: `column {in_}SELECT …{_in}`: among the rows of one column.
        is_so, only, span: after `(a, b) IN (SELECT …)` about `{each_N}`: only those rows of a table are looked at
            whose column is the first item of a row (`{only_1[column,2]}`: the third), or lies between the second
            items. No join with the set, so no plan that reads a whole table because it was found empty once.
        apart: at the end of a subquery that is to be asked for each row, whatever the planner thinks.
        asked, _asked: `{asked[table AS x]}condition{_asked[x]}` after FROM: the rows `x` of a table by a condition on
            those before it, looked up for each of them, whatever the planner thinks.
        pack, packed: around a column list, inside SELECT: all rows as one JSON array of arrays.
        cut: rows `p` with a column `value`: a text's parts between the places where `"queue":` stands in it.
        position: of a second text in a first one, from 1; 0 if it is not in it. Small and capital letters differ.
        least, greatest: of several values.
        for_update, skip_locked: row locks; empty where there is one writer.
        lock_shared, lock_alone, locked: around a text that is no row: a lock until the end of the transaction, with
            others of the first kind or with nobody.
    """

    now: str
    each: str
    texts: str
    within: str
    among: str
    since: str
    in_: str
    _in: str
    is_so: str
    only: str
    span: str
    apart: str
    asked: str
    _asked: str
    pack: str
    packed: str
    cut: str
    position: str
    least: str
    greatest: str
    for_update: str
    skip_locked: str
    lock_shared: str
    lock_alone: str
    locked: str

    @property
    def locks_rows(self) -> bool:
        """Whether rows must be locked before they are checked."""
        return bool(self.for_update)

    def fill(self, text: str) -> str:
        """Put the fragments into a statement's text. Never anything that comes from data."""
        numbered: dict[str, object] = {}
        for n in range(1, PARAMS_MAX + 1):
            numbered[f"each_{n}"] = self.each.replace("{}", f"${n}")
            numbered[f"texts_{n}"] = self.texts.replace("{}", f"${n}")
            numbered[f"within_{n}"] = _Bounds(self.within, f"${n}")
            numbered[f"among_{n}"] = _Bounds(self.among, f"${n}")
            numbered[f"since_{n}"] = _Bounds(self.since, f"${n}")
            each = self.each.replace("{}", f"${n}")
            numbered[f"only_{n}"] = _Bounds(self.only, each)
            numbered[f"span_{n}"] = _Bounds(self.span, each)
        return text.format(
            now=self.now,
            in_=self.in_,
            _in=self._in,
            is_so=self.is_so,
            apart=self.apart,
            asked=_Bounds(self.asked, ""),
            _asked=_Bounds(self._asked, ""),
            pack=self.pack,
            packed=self.packed,
            cut=_Bounds(self.cut, ""),
            position=self.position,
            least=self.least,
            greatest=self.greatest,
            for_update=self.for_update,
            skip_locked=self.skip_locked,
            lock_shared=self.lock_shared,
            lock_alone=self.lock_alone,
            locked=self.locked,
            **numbered,
        )


def _few(function: str) -> str:
    """Rows of a set that the planner takes for one row, by two limits that it knows nothing of and that limit nothing.

    It would count on a hundred; then, while a table was found empty, it reads the whole index of it for each row of the
    set rather than look the rows up, and keeps that plan when the table has grown.
    """
    limit = "LIMIT jsonb_array_length(CAST({} AS jsonb))"
    return (
        "(SELECT value FROM (SELECT value FROM "
        + function
        + "(CAST({} AS jsonb)) "
        + limit
        + ") AS given "
        + limit
        + ")"
    )


SQLITE = Dialect(
    now="$now",
    # LIMIT keeps the planner from merging the subquery, so a row's text is made once, not for each of its columns: an
    # UPDATE of 17 columns took 8.5 µs a row instead of 13.8 (bench/store_commit.py).
    each="(SELECT value FROM json_each({}) LIMIT -1)",
    texts="(SELECT value FROM json_each({}) LIMIT -1)",
    within="",
    among="",
    since="",
    in_="IN (",
    _in=")",
    is_so="",
    only="",
    span="",
    apart="",
    asked="CROSS JOIN {column} ON ",
    _asked="",
    pack="json_group_array(json_array(",
    packed="))",
    # As JSON its quotes are escaped, and those within its strings twice: none of these is taken for the key.
    cut="""json_each('[' || replace(json_quote({column}), '\\"queue\\":', '","') || ']') AS p""",
    position="instr",
    least="min",
    greatest="max",
    for_update="",
    skip_locked="",
    lock_shared="(",
    lock_alone="(",
    locked=")",
)

POSTGRES = Dialect(
    # A subquery of its own is asked once a statement; the bare function, being volatile, could be no index condition.
    now="(SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT))",
    each=_few("jsonb_array_elements"),
    texts=_few("jsonb_array_elements_text"),
    # Of parameters only, so that a plan made once leaves partitions out when it starts; by the partitions' operators,
    # of which no index knows: a range of an index would be read for them, 340 ms for 100 runs instead of some few.
    within=(
        "AND {column} ~>=~ (CAST({param} AS jsonb)->0->>0)"
        " AND {column} ~<=~ (CAST({param} AS jsonb)->-1->>0)"
    ),
    among=(
        "AND {column} ~>=~ (CAST({param} AS jsonb)->>0)"
        " AND {column} ~<=~ (CAST({param} AS jsonb)->>-1)"
    ),
    # The first 13 characters are the millisecond: a child's id is drawn after its parent's.
    since="AND {column} ~>=~ left(CAST({param} AS jsonb)->0->>0, 13)",
    in_="= ANY(ARRAY(",
    _in="))",
    is_so="IS TRUE",
    only="AND {column} = ANY(ARRAY(SELECT w.value->>{item} FROM {param} AS w))",
    span=(
        "AND {column} >= (SELECT min(w.value->>1) FROM {param} AS w)"
        " AND {column} <= (SELECT max(w.value->>1) FROM {param} AS w)"
    ),
    apart="OFFSET 0",
    # Its conditions are parameters, so all of them are for one index; a join may be made on some of them alone.
    asked="CROSS JOIN LATERAL (SELECT * FROM {column} WHERE ",
    _asked=" OFFSET 0) AS {column}",
    pack="json_agg(json_build_array(",
    packed="))",
    cut="""string_to_table({column}, '"queue":') AS p(value)""",
    position="strpos",
    least="LEAST",
    greatest="GREATEST",
    for_update="FOR NO KEY UPDATE",
    skip_locked="SKIP LOCKED",
    lock_shared="pg_advisory_xact_lock_shared(hashtextextended(",
    lock_alone="pg_advisory_xact_lock(hashtextextended(",
    locked=", 7))",
)


def turned(dialect: Dialect) -> Dialect:
    """PostgreSQL's spelling for tests that turn the clock by hand: the time is a setting of the connection."""
    return replace(dialect, now="(SELECT CAST(current_setting('tenuto.now') AS BIGINT))")

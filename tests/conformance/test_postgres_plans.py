"""Every statement of the store on PostgreSQL: which partitions its plan looks at, and by which indexes.

Plans are made as they are kept: once, for any parameters (`force_generic_plan`), on tables of which nothing is known.
All texts are taken from the store itself, so a new one is here before anybody thinks of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.backing.postgres import in_a_thread, start_postgres
from tests.support.shared_store import ShelvedDatabase

from tenuto.adapters.postgres import opening, partitions
from tenuto.adapters.postgres.address import read_address
from tenuto.adapters.postgres.connecting import Link
from tenuto.adapters.postgres.engine import PostgresEngine
from tenuto.adapters.sql.commit import CHECKS
from tenuto.adapters.sql.reads import SqlReads
from tenuto.adapters.sql.store import SqlStore
from tenuto.model.ids import RunId, first_run_id

PARTITIONED = re.compile(r"_p\d{8}$")
TIMES = [1_750_000_000_000_000 + n * partitions.SPAN_US for n in range(-1, 4)]

UNBOUND = {
    "DUE": "what is due lies in any partition: tops of indexes",
    "PULSE": "the same",
    "ABANDONED": "the same",
    "LEASES_OF": "a worker's leases lie in any partition: an index of live ones",
    "CANDIDATES": "ready rows say which runs, one by one",
    "ASIDE": "the same",
    "RUNS": "a page of all runs, by an index",
    "TOP_RUNS": "the same",
    "CHILD_RUNS": "the same",
    "REPLAYS": "the same",
    "RUN_IDS": "part of an id is looked for",
    "COUNTS": "all runs",
    "TASKS": "tasks of all runs",
    "OPEN_TASKS": "the same",
    "DEAD_TASKS": "the same",
    "VERSION_USERS": "open runs of any age",
    "COPY_PAYLOADS": "the source is in the rows' second column: each look-up prunes by itself",
    "COPY_ITEMS": "the same",
}
"""Statements that are not about named runs, and why."""


NEWER = {"LOAD", "LAST_CHILDREN"}
"""Children are looked for, too, by their parent: they are never older."""


def a_run(at: int) -> RunId:
    return RunId(first_run_id(at) + "-7000-8000-000000000000")


@pytest.fixture(scope="module", params=[15, 18])
def planned(request: pytest.FixtureRequest) -> Iterator[ShelvedDatabase]:
    # No autovacuum: it would look at the tables at a moment of its own, and plans would be others from then on.
    server = start_postgres(request.param, options={"autovacuum": "off"})
    database = ShelvedDatabase(server, moments=TIMES, span_us=partitions.SPAN_US)
    yield database
    database.close()


def texts_of_the_store() -> dict[str, str]:
    """Every text, filled for PostgreSQL; checks also as the one call of a commit asks them."""
    engine = PostgresEngine(read_address("postgresql://nobody/nothing"), name="", draw=lambda: 0.5)
    store, reads = SqlStore(engine), SqlReads(engine)
    asked = {f"EXISTS {name}": f"SELECT EXISTS ({store._text[name]})" for name in CHECKS}
    return {**store._text, **reads._text, **asked, "CANDIDATES": store._grant_text(2)}


TEXTS = texts_of_the_store()


def arguments(text: str, first: str, last: str) -> list[str]:
    """Something for each parameter: sets of rows or texts about two runs, a run where a text is wanted, or a number."""
    found: dict[int, str] = {}
    for n in {int(n) for n in re.findall(r"\$(\d+)", text)}:
        rows = [[run, "a", "1", "1", "1", "1", "1"] for run in (first, last)]
        if f"jsonb_array_elements(CAST(${n} AS jsonb))" in text:
            found[n] = f"'{json.dumps(rows)}'"
        elif f"jsonb_array_elements_text(CAST(${n} AS jsonb))" in text:
            found[n] = f"'{json.dumps([first, last])}'"
        else:
            found[n] = ""
    return [found[n] for n in sorted(found)]


async def explained(link: Link, text: str, first: str, last: str) -> dict[str, Any]:
    raw = link.raw
    await raw.execute(f"SET plan_cache_mode = force_generic_plan; PREPARE it AS {text}")
    types = await raw.fetchval(
        "SELECT parameter_types FROM pg_prepared_statements WHERE name = 'it'"
    )
    given = [
        argument or ("1" if kind in ("bigint", "integer", "smallint") else f"'{first}'")
        for argument, kind in zip(arguments(text, first, last), types, strict=True)
    ]
    call = f"EXECUTE it({', '.join(given)})" if given else "EXECUTE it"
    plan = json.loads(await raw.fetchval(f"EXPLAIN (FORMAT JSON) {call}"))
    await raw.execute("DEALLOCATE it")
    whole: dict[str, Any] = plan[0]["Plan"]
    return whole


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def visited(plan: dict[str, Any]) -> set[str]:
    """Partitions that its scans would open, by their suffix."""
    return {
        node["Relation Name"].rpartition("_")[2]
        for node in nodes(plan)
        if "Scan" in node["Node Type"] and PARTITIONED.search(node.get("Relation Name", ""))
    }


@pytest.mark.parametrize("name", sorted(TEXTS.keys() - UNBOUND.keys()))
async def test_a_statement_looks_only_at_the_partitions_of_its_runs(
    planned: ShelvedDatabase, name: str
) -> None:
    async with opening.linked(planned.address, name="tests") as link:
        spans = {
            suffix: (a, b)
            for suffix, a, b in [
                (p.suffix, p.first, p.end) for p in await partitions.list_all(link)
            ]
        }
        own = [s for s, (a, b) in spans.items() for at in TIMES[1:2] if a <= a_run(at) < b]
        both = [s for s, (a, b) in spans.items() if b > a_run(TIMES[1]) and a <= a_run(TIMES[2])]
        alone = await explained(link, TEXTS[name], a_run(TIMES[1]), a_run(TIMES[1]))
        batch = await explained(link, TEXTS[name], a_run(TIMES[1]), a_run(TIMES[2]))

    assert len(spans) > len(both) > len(own) == 1
    if name in NEWER:
        own = both = [s for s, (_, b) in spans.items() if b > a_run(TIMES[1])]
    assert visited(alone) <= {f"p{suffix}" for suffix in own}
    assert visited(batch) <= {f"p{suffix}" for suffix in both}


TOPS = {
    "DUE": "what is due is the top of an index, or all of a small partial one",
    "PULSE": "the same",
    "SURVEY": "the same",
    "WORKERS": "all workers",
}
WORK = {"ready", "timers", "waits", "mailbox", "notices", "run_keys"}


@pytest.mark.parametrize("name", sorted(TEXTS.keys() - UNBOUND.keys() - NEWER))
async def test_rows_of_named_runs_are_looked_up_by_their_keys(
    planned: ShelvedDatabase, name: str
) -> None:
    """Never by a range of an index that the bounds would allow: all rows of all runs between the first and the last."""
    async with opening.linked(planned.address, name="tests") as link:
        plan = await explained(link, TEXTS[name], a_run(TIMES[1]), a_run(TIMES[2]))
    ranges = [
        node
        for node in nodes(plan)
        if "Scan" in node["Node Type"]
        and PARTITIONED.search(node.get("Relation Name", ""))
        and "run_id = " not in node.get("Index Cond", "")
    ]
    assert [(node["Relation Name"], node.get("Index Cond")) for node in ranges] == []


@pytest.mark.parametrize("name", sorted(TEXTS.keys() - TOPS.keys()))
async def test_a_small_table_is_never_read_whole_though_it_was_found_empty(
    emptied: ShelvedDatabase, name: str
) -> None:
    """The trap: a plan made while a table is known to be empty is kept when it has grown (performance.md section 5)."""
    async with opening.linked(emptied.address, name="tests") as link:
        plan = await explained(link, TEXTS[name], a_run(TIMES[1]), a_run(TIMES[1]))
    whole = [
        node
        for node in nodes(plan)
        if "Scan" in node["Node Type"]
        and node.get("Relation Name") in WORK
        and "Index Cond" not in node
    ]
    assert [(node["Relation Name"], node.get("Index Name")) for node in whole] == []


LEADING = {"mailbox_by_address": 3, "waits_by_address": 3}
"""How many columns of an index must be given before it is quicker than all of it; of others the first."""
WIDER = {
    "AWAITED": "all waits of a namespace, counted by their addresses",
    "VERSION_USERS": "notices of a kind: they wait for moments, and no index is worth their while",
}
"""Statements that want what they read, and why."""


@pytest.mark.parametrize("name", sorted(TEXTS.keys() - WIDER.keys()))
async def test_an_index_is_entered_by_its_first_columns_though_it_was_found_empty(
    emptied: ShelvedDatabase, name: str
) -> None:
    """A condition on later columns reads all of an index, and so does one on the namespace that all rows have."""
    async with opening.linked(emptied.address, name="tests") as link:
        plan = await explained(link, TEXTS[name], a_run(TIMES[1]), a_run(TIMES[1]))
        whole = []
        for node in nodes(plan):
            index, condition = node.get("Index Name"), node.get("Index Cond", "")
            if node.get("Relation Name") not in WORK or index is None:
                continue
            if name in TOPS and not condition:
                continue
            columns = await link.raw.fetchval(
                "SELECT array_agg(attname ORDER BY attnum) FROM pg_attribute "
                "WHERE attrelid = to_regclass($1)",
                index,
            )
            needed = columns[: LEADING.get(index, 1)]
            if not all(re.search(rf"\b{column}\b", condition) for column in needed):
                whole.append((index, condition))
    assert whole == []


OFFERED = """
WITH offered AS (
  INSERT INTO ready (run_id, place, queue, name, priority, since)
  SELECT $1 || n, 'a', 'queue', 'name', n % 5, n FROM generate_series(1, 10000) AS n
  RETURNING *
)
INSERT INTO tasks (
  run_id, place, node, name, queue, priority, state, attempt, lost, input_seq, held
)
SELECT run_id, place, 0, name, queue, priority, 'pending', 1, 0, 1, 0 FROM offered
"""


@pytest.mark.parametrize("known", ["nothing", "empty"])
async def test_candidates_come_sorted_out_of_their_index_before_it_is_known_how_many_there_are(
    planned: ShelvedDatabase, known: str
) -> None:
    """Sorted, the queue would be read whole for each grant: 300 ms for 20,000 rows instead of one."""
    grown = ShelvedDatabase(planned.server, moments=TIMES, span_us=partitions.SPAN_US)
    async with opening.linked(grown.address, name="tests") as link:
        await link.raw.execute("ALTER TABLE ready SET (autovacuum_enabled = off)")
        if known == "empty":
            await link.raw.execute("VACUUM ANALYZE")
        await link.raw.execute(OFFERED, a_run(TIMES[1]))
        plan = await explained(link, TEXTS["CANDIDATES"], a_run(TIMES[1]), a_run(TIMES[1]))

    locked = [node for node in nodes(plan) if node["Node Type"] == "LockRows"]
    assert len(locked) == 2
    for branch in locked:
        assert "Sort" not in {node["Node Type"] for node in nodes(branch)}
        ready = [node for node in nodes(branch) if node.get("Relation Name") == "ready"]
        assert [node["Index Name"] for node in ready] == ["ready_by_queue"]


@pytest.fixture(scope="module")
def emptied(planned: ShelvedDatabase) -> ShelvedDatabase:
    """A database of its own, for whatever order the tests come in: its statistics say that everything is empty."""
    made = ShelvedDatabase(planned.server, moments=TIMES, span_us=partitions.SPAN_US)

    async def analyze() -> None:
        async with opening.linked(made.address, name="tests") as link:
            await link.raw.execute("VACUUM ANALYZE")

    in_a_thread(analyze)
    return made

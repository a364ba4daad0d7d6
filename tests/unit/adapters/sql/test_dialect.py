"""Fragments put into statements."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tenuto.adapters.sql import statements
from tenuto.adapters.sql.dialect import POSTGRES, SQLITE, Dialect, turned

TEXTS = {
    f"{module}.{name}": text
    for module in statements.__all__
    for name, text in vars(getattr(statements, module)).items()
    if name.isupper() and name not in {"BRANCH", "CANDIDATES"}
}


def test_a_set_valued_parameter_is_read_by_its_number() -> None:
    filled = SQLITE.fill("SELECT w.value FROM {each_3} AS w WHERE {now} > $1")

    each = "(SELECT value FROM json_each($3) LIMIT -1)"
    assert filled == f"SELECT w.value FROM {each} AS w WHERE $now > $1"


def test_rows_are_locked_only_where_there_are_several_writers() -> None:
    assert POSTGRES.locks_rows
    assert not SQLITE.locks_rows


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("dialect", [SQLITE, POSTGRES], ids=["sqlite", "postgres"])
def test_every_statement_is_filled_without_rest(name: str, dialect: Dialect) -> None:
    filled = dialect.fill(TEXTS[name])

    assert "{" not in filled.replace("'{}'", "")
    if dialect is POSTGRES:
        for foreign in ("json_each", "json_group_array", "$now"):
            assert foreign not in filled


def test_a_bound_has_its_column_and_its_parameter() -> None:
    assert SQLITE.fill("WHERE a = 1 {within_2[t.run_id]}") == "WHERE a = 1 "
    bound = POSTGRES.fill("{within_2[t.run_id]}")
    assert bound.startswith("AND t.run_id ~>=~ (CAST($2 AS jsonb)->0->>0) AND t.run_id ~<=~ ")
    assert "w.value->>2 FROM" in POSTGRES.fill("{only_1[a.key,2]}")


def test_rows_that_are_asked_for_by_those_before_are_a_join_or_a_subquery_for_each() -> None:
    asked = "SELECT a.k FROM {texts_1} AS w {asked[waits AS a]}a.k = w.value{_asked[a]}"
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE waits (k TEXT)")
        connection.execute("INSERT INTO waits VALUES ('1'), ('2'), ('2')")
        rows = connection.execute(SQLITE.fill(asked), {"1": '["2", "3"]'}).fetchall()

    assert rows == [("2",), ("2",)]
    assert POSTGRES.fill(asked).endswith(
        "CROSS JOIN LATERAL (SELECT * FROM waits AS a WHERE a.k = w.value OFFSET 0) AS a"
    )


def test_a_text_is_cut_at_the_key_but_not_where_a_string_speaks_of_it() -> None:
    graph = r'{"queue":"a","text":"\"queue\":\\","x":[{"queue":["name"]}]}'
    text = SQLITE.fill("SELECT p.value FROM (SELECT $1 AS g) AS d CROSS JOIN {cut[d.g]}")
    with closing(sqlite3.connect(":memory:")) as connection:
        rows = connection.execute(text, {"1": graph}).fetchall()

    assert [value for (value,) in rows] == graph.split('"queue":')
    assert "string_to_table(d.graph, " in POSTGRES.fill("{cut[d.graph]}")


def test_the_time_of_tests_is_a_setting_of_the_connection() -> None:
    assert "clock_timestamp" in POSTGRES.fill("{now}")
    assert "tenuto.now" in turned(POSTGRES).fill("{now}")


def test_packed_rows_cross_as_one_json_text() -> None:
    text = SQLITE.fill("SELECT {pack}w.value->>0, w.value->>1{packed} FROM {each_1} AS w")
    with closing(sqlite3.connect(":memory:")) as connection:
        row = connection.execute(text, {"1": '[[1,"a"],[2,null]]'}).fetchone()

    assert row == ('[[1,"a"],[2,null]]',)

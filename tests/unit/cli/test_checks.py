"""What is made of a look at a database. Looks at real ones: tests/integration."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenuto.cli.checks import Grade, of_database
from tenuto.cli.look import now_us
from tenuto.ports.database import Looked
from tenuto.settings import Database

WELL = Looked(
    version="18.0",
    number=180_000,
    due=(),
    until=now_us() + 30 * 86_400_000_000,
    covered=True,
    connections=(100, 1),
    durable=True,
    fixed=False,
    almighty=False,
    pooled=False,
    hears=True,
    offset_us=0,
    round_trip_us=1_000,
)


@pytest.mark.parametrize(
    ("looked", "grade", "cure"),
    [
        (WELL, Grade.OK, ""),
        (replace(WELL, covered=False), Grade.ERROR, "tenuto db upgrade"),
        (replace(WELL, until=None, covered=False), Grade.ERROR, "tenuto db upgrade"),
        (replace(WELL, until=1, covered=False), Grade.ERROR, "tenuto db upgrade"),
        (replace(WELL, until=now_us() + 3_600_000_000), Grade.WARNING, "a server makes more"),
    ],
)
def test_partitions_are_well_only_where_runs_of_now_have_one(
    looked: Looked, grade: Grade, cure: str
) -> None:
    [found] = [each for each in of_database(Database(url="x"), looked) if each.name == "partitions"]
    assert (found.grade, found.cure.startswith(cure)) == (grade, True)

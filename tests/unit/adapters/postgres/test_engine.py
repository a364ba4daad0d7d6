import pytest

from tenuto.adapters.postgres.engine import refuse_unsorted
from tenuto.adapters.sql.dialect import POSTGRES
from tenuto.model.errors import InvariantViolated

TEXT = POSTGRES.fill("SELECT 1 FROM {each_1} AS w, tasks AS t WHERE true {within_1[t.run_id]}")


@pytest.mark.parametrize("rows", ["[]", '[["a"]]', '[["a", 2], ["a", 1], ["b"]]', None])
def test_rows_sorted_by_run_pass(rows: str | None) -> None:
    refuse_unsorted(TEXT, (rows,))


def test_rows_in_another_order_are_refused() -> None:
    with pytest.raises(InvariantViolated, match="not sorted by run"):
        refuse_unsorted(TEXT, ('[["b"], ["a"]]',))


def test_a_set_without_bounds_may_come_in_any_order() -> None:
    refuse_unsorted(POSTGRES.fill("SELECT 1 FROM {each_1} AS w"), ('[["b"], ["a"]]',))

"""The functions of a server that runs are gone: dropped, or its database was restored from before this release."""

from __future__ import annotations

import pytest
from tests.support.backing.postgres import Postgres
from tests.support.shared_store import ShelvedDatabase
from tests.support.store import LEASE_US, a_change, a_start, a_task, commit, new_run_id, seq_of

from tenuto.adapters.postgres import opening
from tenuto.adapters.postgres.routines import make
from tenuto.adapters.sql.store import SqlStore
from tenuto.model.errors import Unavailable

DROP = """
DO $$
DECLARE called text;
BEGIN
  FOR called IN SELECT CAST(CAST(oid AS regprocedure) AS text) FROM pg_proc WHERE proname LIKE '{}%' LOOP
    EXECUTE 'DROP FUNCTION ' || called;
  END LOOP;
END $$
"""


@pytest.mark.parametrize("which", ["tenuto\\_at\\_once\\_", "tenuto\\_"])
async def test_a_commit_without_its_function_is_unavailable_and_blames_no_run(
    server: Postgres, which: str
) -> None:
    """Anything else than Unavailable would put each run into quarantine that something is decided of."""
    database = ShelvedDatabase(server)
    engine = await database.open(pool=2)
    store, run = SqlStore(engine), new_run_id()
    try:
        await commit(store, a_start(run, a_task()))
        async with opening.linked(database.address, name="tests") as link:
            await link.raw.execute(DROP.format(which))
            for _ in range(3):
                with pytest.raises(Unavailable, match="lacks functions that this process made"):
                    await store.commit([a_change(run, 1)], lease_us=LEASE_US)
            assert await make(link, engine.sequences())
        await commit(store, a_change(run, 1))
        assert await seq_of(store, run) == 2
    finally:
        await engine.close()

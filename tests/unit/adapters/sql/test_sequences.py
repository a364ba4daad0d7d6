import pytest
from tests.support.store import LEASE_US, a_change, a_task, new_run_id

from tenuto.adapters.sql import statements as s
from tenuto.adapters.sql.commit import Commit
from tenuto.adapters.sql.dialect import POSTGRES, SQLITE
from tenuto.adapters.sql.sequences import sequences
from tenuto.model.ids import Place

TEXTS = {
    name: POSTGRES.fill(text)
    for module in (s.guard, s.changes, s.mailbox, s.wholes)
    for name, text in vars(module).items()
    if name.isupper()
}


def test_they_are_filled() -> None:
    for dialect in (SQLITE, POSTGRES):
        assert not any("{each" in text for texts in sequences(dialect) for text in texts)


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"updated": ((a_task(), True),), "created": (a_task("b"),), "ready": (a_task("b"),)},
        {"close": True, "cancelled": (Place("a"),)},
        {"hold": True, "notices": (), "cleared": ((Place("a"), None),)},
    ],
)
def test_what_a_commit_sends_is_in_their_order(columns: dict[str, object]) -> None:
    commit = Commit(TEXTS, POSTGRES, [a_change(new_run_id(), 1, **columns)], lease_us=LEASE_US)
    steps = commit.job()
    groups = [next(steps), steps.send((1, None, None, None))]
    steps.close()
    known = sequences(POSTGRES)
    for group in groups:
        texts = [text for text, _ in group if text != TEXTS["OPEN_CHILDREN"]]
        assert any(_is_within(texts, sequence) for sequence in known)


def _is_within(texts: list[str], sequence: tuple[str, ...]) -> bool:
    rest = iter(sequence)
    return all(text in rest for text in texts)

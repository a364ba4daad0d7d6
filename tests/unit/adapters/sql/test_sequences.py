import pytest
from tests.support.store import (
    LEASE_US,
    a_change,
    a_message,
    a_settlement,
    a_snapshot,
    a_task,
    new_run_id,
)

from tenuto.adapters.sql import statements as s
from tenuto.adapters.sql.commit import CHECKS, LARGE_LETTERS, Commit
from tenuto.adapters.sql.dialect import POSTGRES, SQLITE
from tenuto.adapters.sql.posting import Posting
from tenuto.adapters.sql.sequences import sequences, whole_commit, whole_post
from tenuto.model.ids import Place

RUN = new_run_id()
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
        {"posts": (a_message("m"),), "close": True, "settle": a_settlement(RUN, 1).settle},
        {"snapshot": a_snapshot(RUN, 2, nodes=b"." * LARGE_LETTERS), "close": True},
    ],
)
def test_what_a_commit_sends_is_in_their_order(columns: dict[str, object]) -> None:
    commit = Commit(TEXTS, POSTGRES, [a_change(RUN, 1, **columns)], lease_us=LEASE_US)
    steps = commit.job()
    groups = [next(steps), steps.send((1, None, None, None))]
    steps.close()
    known = sequences(POSTGRES)
    for group in groups:
        assert any(_is_within([text for text, _ in group], sequence) for sequence in known)

    hoped = commit.at_once()
    assert hoped is not None
    assert _is_within([text for text, _ in hoped.group], whole_commit(POSTGRES).texts)


def test_what_a_post_sends_is_in_their_order() -> None:
    posting = Posting(TEXTS, POSTGRES, [a_message("m1"), a_message("m2")])
    [group] = [list(next(posting.job()))]
    hoped = posting.at_once()

    assert any(
        _is_within([text for text, _ in group], sequence) for sequence in sequences(POSTGRES)
    )
    assert hoped is not None
    assert tuple(text for text, _ in hoped.group) == whole_post(POSTGRES).texts


def test_a_whole_commit_writes_after_its_last_check() -> None:
    """And checks after its last lock."""
    whole = whole_commit(POSTGRES)
    checks = [n for n, text in enumerate(whole.texts) if text in whole.checks]

    assert checks == list(range(checks[0], checks[0] + len(CHECKS)))
    assert whole.texts[checks[0] - 1] == whole.moment
    assert all(POSTGRES.for_update in text for text in whole.texts[: checks[0] - 2])
    assert not any("FOR NO KEY UPDATE\n) AS" in text for text in whole.texts[checks[0] :])
    assert all("$2" in text for text in whole.timed)


def _is_within(texts: list[str], sequence: tuple[str, ...]) -> bool:
    rest = iter(sequence)
    return all(text in rest for text in texts)

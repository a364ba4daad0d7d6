"""Messages as a job: the order of locks and rows, and which were new."""

from __future__ import annotations

import orjson
import pytest
from tests.support.store import a_message

from tenuto.adapters.sql.dialect import POSTGRES, SQLITE, Dialect
from tenuto.adapters.sql.engine import Step
from tenuto.adapters.sql.posting import FORGOTTEN_MIN, Posting, forgotten
from tenuto.model.errors import InvalidInput
from tenuto.ports.store import NewMessage


class Names(dict[str, str]):
    """Texts that are their own names."""

    def __missing__(self, name: str) -> str:
        return name


def group_of(dialect: Dialect, *messages: NewMessage) -> list[Step]:
    steps = Posting(Names(), dialect, messages).job()
    group = list(next(steps))
    steps.close()
    return group


def test_addresses_are_locked_before_anything_is_written() -> None:
    writes = ["DELETE_OLD_MESSAGES", "POST_MESSAGES", "STORED_MESSAGES"]
    messages = [a_message("m1", key="b"), a_message("m2", key="a")]

    group = group_of(POSTGRES, *messages)

    assert [text for text, _ in group] == ["LOCK_ADDRESSES_TOGETHER", *writes]
    assert orjson.loads(str(group[0][1][0])) == [["approved", "b"], ["approved", "a"]]
    assert [text for text, _ in group_of(SQLITE, *messages)] == writes


def test_rows_are_inserted_in_the_order_of_their_event_ids() -> None:
    """So that two posts with the same ids in other orders do not wait for each other. Of one id the first counts."""
    messages = [
        a_message("m1", event_id="b"),
        a_message("m2", event_id="a"),
        a_message("m3", event_id="b"),
        a_message("m4"),
        a_message("m5", event_id="z", namespace="a"),
    ]

    rows = orjson.loads(str(dict(group_of(SQLITE, *messages))["POST_MESSAGES"][0]))

    assert [row[0] for row in rows] == ["m5", "m4", "m2", "m1", "m3"]


def test_more_is_forgotten_than_comes() -> None:
    assert forgotten(1) == FORGOTTEN_MIN
    assert forgotten(500) > 500
    many = [a_message(f"m{n}") for n in range(500)]
    assert dict(group_of(SQLITE, *many))["DELETE_OLD_MESSAGES"] == (forgotten(500),)


def test_the_answer_is_as_they_were_given() -> None:
    messages = [a_message("m2", event_id="z"), a_message("m1", event_id="a"), a_message("m3")]
    steps = Posting(Names(), SQLITE, messages).job()
    next(steps)

    with pytest.raises(StopIteration) as end:
        steps.send(('[["m3"],["m2"]]',))

    assert end.value.value == [True, False, True]


def test_where_journeys_count_it_is_one_call() -> None:
    posting = Posting(Names(), POSTGRES, [a_message("m1"), a_message("m2")])
    hoped = posting.at_once()

    assert hoped is not None
    texts = [text for text, _ in hoped.group]
    assert texts[:2] == ["LOCK_ADDRESSES_TOGETHER", "MOMENT"]
    assert hoped.read((1, '[["m2"]]')) == [False, True]
    assert hoped.read((1, None)) == [False, False]
    assert Posting(Names(), SQLITE, [a_message()]).at_once() is None


@pytest.mark.parametrize("name", ["event", "key", "event_id"])
@pytest.mark.parametrize("text", ["a\0b", "half \ud800"])
def test_what_no_database_takes_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Posting(Names(), SQLITE, [a_message(), a_message("m2", **{name: text})])
    assert refused.value.path == name

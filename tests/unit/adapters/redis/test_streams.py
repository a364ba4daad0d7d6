"""Names of streams and what an entry says. The scripts are tried by tests/conformance/dispatch."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.adapters.redis.streams import Slot, fields_of, read_entry, slot_of, stream_of
from tenuto.model.ids import Place, RunId
from tenuto.ports.dispatch import Hint


def a_hint(run: str = "run-1", priority: int = 0) -> Hint:
    return Hint(
        run_id=RunId(run), place=Place("a[1]"), queue="mail", name="send", priority=priority
    )


def test_all_streams_of_a_slot_share_one_hash_tag_highest_priority_first() -> None:
    """Catalogue F20."""
    streams = Slot("mail", 2).streams

    assert len(set(streams)) == 10
    assert streams[0] == "tasks.{mail.2}.9"
    assert streams[-1] == "tasks.{mail.2}"
    assert {stream.split("{")[1].split("}")[0] for stream in streams} == {"mail.2"}


@pytest.mark.parametrize(("priority", "stream"), [(0, ""), (9, ".9"), (12, ".9"), (-1, "")])
def test_a_hint_goes_to_the_stream_of_its_priority(priority: int, stream: str) -> None:
    assert stream_of(a_hint(priority=priority), 1) == f"tasks.{{mail.0}}{stream}"


def test_runs_spread_over_shards_the_same_way_everywhere() -> None:
    shards = [slot_of(a_hint(f"run-{n}"), 4).shard for n in range(100)]

    assert set(shards) == {0, 1, 2, 3}
    assert shards == [slot_of(a_hint(f"run-{n}"), 4).shard for n in range(100)]


def test_an_entry_says_all_that_a_hint_says() -> None:
    hint = a_hint(priority=3)

    assert read_entry("mail", 3, fields_of(hint)) == hint


@pytest.mark.parametrize(
    "fields", [(), ("run", "r"), ("run", "r", "place"), ("what", "ever"), None], ids=str
)
def test_an_entry_that_says_less_is_none(fields: Any) -> None:
    assert read_entry("mail", 0, fields or ()) is None

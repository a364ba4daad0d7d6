"""What a message may be, before it is stored."""

from __future__ import annotations

import pytest

from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.coordinator.mailbox import KEEP_US, new_message
from tenuto.model.errors import InvalidInput
from tenuto.model.names import ADDRESS_MAX
from tenuto.model.payload import PAYLOAD_MAX

IDS = Uuid7Ids()


def test_a_message_within_its_bounds_is_kept_for_seven_days() -> None:
    longest = "x" * ADDRESS_MAX
    message = new_message(
        IDS, longest, longest, "x" * PAYLOAD_MAX, event_id=longest, namespace="default"
    )

    assert message.keep_us == KEEP_US == 7 * 86_400 * 1_000_000
    assert message.id != new_message(IDS, "e", "", "1", event_id=None, namespace="default").id


@pytest.mark.parametrize(
    ("event", "key", "event_id", "payload", "path"),
    [
        ("", "k", None, "1", "event"),
        ("x" * (ADDRESS_MAX + 1), "k", None, "1", "event"),
        ("e", "x" * (ADDRESS_MAX + 1), None, "1", "key"),
        ("e", "k", "x" * (ADDRESS_MAX + 1), "1", "event_id"),
        ("e", "k", None, "é" * (PAYLOAD_MAX // 2 + 1), "payload"),
    ],
)
def test_a_message_beyond_its_bounds_is_refused_by_name(
    event: str, key: str, event_id: str | None, payload: str, path: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        new_message(IDS, event, key, payload, event_id=event_id, namespace="default")

    assert refused.value.path == path


def test_a_message_may_be_kept_shorter_but_not_for_no_time() -> None:
    assert (
        new_message(IDS, "e", "", "1", event_id=None, namespace="default", keep_us=5).keep_us == 5
    )
    with pytest.raises(InvalidInput) as refused:
        new_message(IDS, "e", "", "1", event_id=None, namespace="default", keep_us=0)

    assert refused.value.path == "keep"

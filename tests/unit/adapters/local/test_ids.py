"""Fresh names."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from tenuto.adapters.local.ids import Uuid7Ids

AT = 1_750_000_000_123_456


def test_a_run_id_is_a_uuid7_of_the_given_time() -> None:
    run_id = Uuid7Ids().run_id(AT)
    uuid = UUID(run_id)

    assert len(run_id) == 36
    assert uuid.version == 7
    assert uuid.int >> 80 == AT // 1_000


def test_run_ids_grow_within_a_millisecond_and_when_time_lies_back() -> None:
    ids = Uuid7Ids()
    drawn = [ids.run_id(at) for at in (AT, AT, AT + 1, AT - 9_000_000, AT, AT + 5_000)]

    assert drawn == sorted(set(drawn))
    assert all(UUID(run_id).version == 7 for run_id in drawn)


def test_threads_never_draw_the_same_run_id() -> None:
    ids = Uuid7Ids()
    with ThreadPoolExecutor(4) as pool:
        drawn = list(pool.map(lambda _: ids.run_id(AT), range(4_000)))

    assert len(set(drawn)) == 4_000


def test_leases_and_messages_get_names_of_their_own() -> None:
    ids = Uuid7Ids()

    assert len({ids.lease_id() for _ in range(1_000)}) == 1_000
    messages = [ids.message_id() for _ in range(1_000)]
    assert messages == sorted(set(messages))


def test_a_restarted_worker_is_another_one() -> None:
    ids = Uuid7Ids()
    first, second = ids.worker_id("shop"), ids.worker_id("shop")

    assert first != second
    assert first.startswith("shop-")

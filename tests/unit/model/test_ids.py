from __future__ import annotations

import pytest

from tenuto.model.ids import RUN_PLACE, Place, RunId, first_run_id, place_of, split_task_id, task_id

RUN = RunId("01890a5d-ac96-774b-bcce-b302099a8057")


@pytest.mark.rule("L3.4", "R3.1")
def test_a_place_holds_an_iteration_for_each_enclosing_loop() -> None:
    assert place_of("a") == "a"
    assert place_of("a", (2,)) == "a.2"
    assert place_of("a", (2, 13)) == "a.2.13"


@pytest.mark.rule("L3.4")
def test_a_place_holds_the_epoch_only_after_a_retry() -> None:
    assert place_of("a", (1,), epoch=1) == "a.1"
    assert place_of("a", (1,), epoch=2) == "a.1~2"


@pytest.mark.rule("L3.4")
def test_different_places_have_different_names() -> None:
    names = [
        place_of(node, passes, epoch)
        for node in ("a", "b")
        for passes in ((), (1,), (1, 1), (11,))
        for epoch in (1, 2, 11)
    ]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("place", [Place("a"), Place("a.1.2~3"), RUN_PLACE])
def test_a_task_id_is_taken_apart_as_it_was_put_together(place: Place) -> None:
    assert (RUN, place) == split_task_id(task_id(RUN, place))


def test_a_text_without_a_slash_is_no_task_id() -> None:
    with pytest.raises(ValueError, match="'nothing' is not a task id"):
        split_task_id("nothing")


def test_the_first_id_of_a_moment_divides_earlier_runs_from_later_ones() -> None:
    """The run ids are of the moments 1750000000000 ms and one later."""
    at = 1_750_000_000_000_000

    assert first_run_id(at) > "01977420-dbff-7fff-bfff-ffffffffffff"
    assert first_run_id(at) < "01977420-dc00-7000-8000-000000000000"
    assert first_run_id(at + 999) == first_run_id(at) < first_run_id(at + 1_000)
    assert first_run_id(-5) == "00000000-0000"

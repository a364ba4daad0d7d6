"""The control-flow patterns of examples/patterns, each on the real engine: what a pattern promises is what happens.

One engine has them all; its clock stands still until a test turns it, so orders and lengths of time are exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.examples import EXAMPLES, ROOT, load_app

from tenuto import TaskError
from tenuto.app.definitions import load_definition
from tenuto.testing import Engine, Run, engine

FOLDER = EXAMPLES / "patterns"
FILES = sorted(FOLDER.glob("*.yaml"))
ENDS_WHAT_RUNS = {20, 43}
"""Their purpose is what `end_while_parallel` warns of."""


@pytest.fixture(scope="module")
def shared() -> Iterator[Engine]:
    with engine(load_app("patterns")) as env:
        yield env


class Play:
    """Plays patterns in an engine that has seen others."""

    def __init__(self, env: Engine) -> None:
        self.env = env

    def begin(self, number: int, **given: object) -> Run:
        return self.env.start(path_of(number), given)

    def end(self, number: int, **given: object) -> Run:
        """Its run, after its end."""
        run = self.begin(number, **given)
        self.env.run_to_end(run)
        return run

    def lasts(self, run: Run) -> float:
        """Seconds from now to its end."""
        return self.env.run_to_end(run).total_seconds()

    def below(self, run: Run) -> list[list[str]]:
        """The paths of the runs that it called, and of those that they called, in the order of their texts."""
        called = run.children()
        return sorted(
            [
                *(child.path() for child in called),
                *(path for child in called for path in self.below(child)),
            ]
        )

    def send(self, event: str, key: int, payload: object = None) -> None:
        self.env.send_event(event, str(key), payload)


@pytest.fixture
def play(shared: Engine) -> Play:
    return Play(shared)


def path_of(number: int) -> Path:
    [path] = FOLDER.glob(f"{number:02}-*.yaml")
    return path


def states(run: Run, *ids: str) -> list[str]:
    nodes = run.nodes()
    return [nodes[id].state for id in ids]


def starts(path: list[str], *ids: str) -> bool:
    """Whether these ended before anything else."""
    return path[: len(ids)] == list(ids)


# -- the files and the page ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_pattern_has_no_findings_but_those_it_is_about(path: Path) -> None:
    loaded = load_definition(path.read_text(), file=path.name)
    number = int(path.name[:2])

    assert loaded.graph is not None, [str(finding) for finding in loaded.findings]
    assert loaded.graph.definition.name == f"pattern-{path.stem}"
    assert path.read_text().startswith(f"# {number}, ")
    codes = {"end_while_parallel"} if number in ENDS_WHAT_RUNS else set()
    assert {finding.code for finding in loaded.findings} == codes


def test_each_of_the_43_has_a_file_and_a_row_of_the_page() -> None:
    page = (ROOT / "docs" / "patterns.md").read_text()
    row = re.compile(
        r"^\| (\d+) \|.* \| (\w+) \| \[\d\d\]\(\.\./examples/patterns/([\w-]+\.yaml)\) \|$",
        re.MULTILINE,
    )
    numbers, hows, names = zip(*row.findall(page), strict=True)

    assert [int(number) for number in numbers] == list(range(1, 44))
    assert list(names) == [path.name for path in FILES]
    assert set(hows) == {"direct", "detour"}
    assert f"{hows.count('direct')} are direct, {hows.count('detour')} take a detour" in page


# -- basic ------------------------------------------------------------------------------------------------------------


def test_1_a_sequence_keeps_its_order(play: Play) -> None:
    assert play.end(1).path() == ["pick", "pack", "send"]


def test_2_a_split_begins_all_branches(play: Play) -> None:
    play.env.assert_path(play.end(2), ["order", "split", {"bill", "pack"}])


def test_3_a_synchronization_waits_for_the_slowest(play: Play) -> None:
    run = play.begin(3)
    assert states(run, "bill", "pack", "send") == ["success", "waiting", "pending"]

    assert play.lasts(run) == 1
    assert run.path() == ["bill", "pack", "send"]


@pytest.mark.parametrize(("weight", "way"), [(0.5, "letter"), (20, "parcel"), (20.5, "truck")])
def test_4_exactly_one_branch_is_chosen(play: Play, weight: float, way: str) -> None:
    run = play.end(4, weight=weight)

    assert run.path() == ["triage", way]
    assert sorted(states(run, "letter", "parcel", "truck")) == ["skipped", "skipped", "success"]


@pytest.mark.parametrize(("weight", "way"), [(1, "letter"), (30, "truck")])
def test_5_a_merge_goes_on_after_the_one_that_ran(play: Play, weight: float, way: str) -> None:
    run = play.end(5, weight=weight)

    assert run.path() == ["triage", way, "notify"]
    assert run.node("notify").output == {"sent_by": way}


# -- branching and synchronization ------------------------------------------------------------------------------------

CASES = [(False, False), (True, False), (False, True), (True, True)]
"""Of injured and stolen."""


@pytest.mark.parametrize(("injured", "stolen"), CASES)
def test_6_any_number_of_branches_is_chosen(play: Play, injured: bool, stolen: bool) -> None:
    run = play.end(6, injured=injured, stolen=stolen)

    taken = {True: "success", False: "skipped"}
    assert states(run, "doctor", "police", "file") == [taken[injured], taken[stolen], "success"]


@pytest.mark.parametrize(("injured", "stolen"), CASES)
def test_7_a_merge_waits_for_what_was_chosen_alone(play: Play, injured: bool, stolen: bool) -> None:
    run = play.begin(7, injured=injured, stolen=stolen)

    assert play.lasts(run) == (2 if stolen else 1 if injured else 0)
    assert run.path()[-1] == "close"
    assert run.path().count("close") == 1


def test_8_what_comes_next_runs_once_for_each_branch(play: Play) -> None:
    run = play.begin(8)
    play.env.advance("1s")
    assert run.path() == ["north", "after_north"]  # the first does not wait for the second

    assert play.lasts(run) == 1
    assert run.result() == {"after_north": "north", "after_south": "south"}
    assert play.below(run) == [["check", "enter"]] * 2


def test_9_the_first_goes_on_and_the_others_run_to_their_end(play: Play) -> None:
    run = play.begin(9)
    play.env.advance("1s")
    assert states(run, "answer", "archive") == ["success", "waiting"]

    assert play.lasts(run) == 1
    assert run.path() == ["cache", "found", "answer", "archive"]


@pytest.mark.parametrize("begin", ["draft", "review"])
def test_10_a_cycle_is_entered_at_either_step(play: Play, begin: str) -> None:
    path = play.end(10, begin=begin).path()

    steps = [step for step in path if step in ("draft", "review", "print")]
    rounds = ["draft", "review", "draft", "review", "draft", "review"]
    assert steps == [*rounds[begin == "review" :][: len(steps) - 1], "print"]
    assert len(steps) > 4
    assert steps[-2] == "review"


def test_11_the_run_ends_when_nothing_is_left(play: Play) -> None:
    run = play.begin(11)
    assert (run.status(), states(run, "quick")) == ("running", ["success"])

    assert play.lasts(run) == 1
    run.assert_success()


# -- multiple instances -----------------------------------------------------------------------------------------------


def test_12_nobody_waits_for_the_instances(play: Play) -> None:
    run = play.begin(12, cars=["A", "B", "C"])
    run.assert_success()
    fines = [play.env.get_run(id) for id in run.result()]
    assert [fine.status() for fine in fines] == ["running"] * 3

    play.env.advance("2s")
    assert [fine.result() for fine in fines] == [{"fine": {"car": car}} for car in "ABC"]


def test_13_all_instances_of_a_fixed_list_are_done_first(play: Play) -> None:
    run = play.end(13)

    assert run.path() == ["sign", "publish"]
    assert run.result() == [{"by": "chair"}, {"by": "treasurer"}, {"by": "secretary"}]


@pytest.mark.parametrize("parts", [[], ["wing"], ["a", "b", "c", "d", "e"]])
def test_14_the_input_says_how_many_instances(play: Play, parts: list[str]) -> None:
    company = False
    while not company:
        run = play.end(14, parts=parts)

        assert run.result() == parts
        assert run.path() == ["inspect", "fly"]
        met = [done["met"] for done in run.node("inspect").output]
        assert all(len(others) < 4 for others in met)  # never all five at once
        company = any(met)
        if len(parts) < 2:
            assert not company
            break
        # `alone`, on which others below rely, does see company; but it looks for 50 ms, and a machine may stall for
        # longer between two starts: then once more.


def test_15_the_list_grows_while_instances_are_at_work(play: Play) -> None:
    before = len(play.env.calls())
    run = play.end(15)

    begun = [call.task for call in play.env.calls()[before:]]
    assert run.result() == [f"letter {number}" for number in range(1, 7)]
    assert begun.count("inbox.look") == 3
    assert "alone" in begun[: len(begun) - begun[::-1].index("inbox.look")]
    assert run.path() == ["answer", "home"]


# -- the world decides ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "then"), [("call.picked_up", "talk"), ("call.hung_up", "forget"), (None, "record")]
)
def test_16_the_first_thing_that_happens_withdraws_the_others(
    play: Play, event: str | None, then: str
) -> None:
    run = play.begin(16, call=1600)
    run.assert_waiting("picked_up")
    run.assert_waiting("hung_up")
    if event is not None:
        play.send(event, 1600)
    play.env.run_to_end(run)

    chosen = states(run, "picked_up", "hung_up", "rang_out")
    assert sorted(chosen) == ["cancelled", "cancelled", "success"]
    assert run.path()[-1] == then


def test_17_steps_are_in_order_and_never_at_the_same_time(play: Play) -> None:
    run = play.end(17)

    assert [(done["name"], done["met"]) for done in run.result()] == [
        ("weigh", []),
        ("label", []),
        ("photo", []),
    ]
    assert run.path().index("weigh") < run.path().index("label")
    assert play.below(run) == [["take", "work", "give"]] * 3


def test_18_a_change_is_possible_until_the_order_is_packed(play: Play) -> None:
    run = play.begin(18, order=1800)
    play.send("order.change", 1800, {"size": "L"})
    play.send("order.change", 1800, {"size": "M"})
    run.assert_waiting("change")
    play.send("order.packed", 1800)
    run.assert_success(["L", "M"])

    assert run.path().count("note") == 2
    play.send("order.change", 1800, {"size": "S"})
    assert run.result() == ["L", "M"]


def test_18_after_the_milestone_no_change_is_waited_for(play: Play) -> None:
    run = play.begin(18, order=1801)
    play.send("order.packed", 1801)
    run.assert_success([])

    assert states(run, "change", "note", "send") == ["cancelled", "skipped", "success"]


# -- cancellation -----------------------------------------------------------------------------------------------------


def test_19_one_step_is_withdrawn_and_the_run_goes_on(play: Play) -> None:
    run = play.begin(19, paper=1900)
    run.assert_waiting("review")
    play.send("review.withdrawn", 1900)
    run.assert_success({"file": "file"})
    assert states(run, "review") == ["cancelled"]


def test_19_a_step_that_nobody_withdraws_is_done(play: Play) -> None:
    assert play.end(19, paper=1901).path() == ["submit", "review", "either", "file"]


def test_20_the_whole_run_is_withdrawn_from_inside(play: Play) -> None:
    run = play.begin(20, loan=2000)
    play.env.advance("20s")
    play.send("loan.withdrawn", 2000)

    assert run.status() == "cancelled"
    assert states(run, "check", "value", "grant") == ["success", "cancelled", "cancelled"]


def test_20_the_whole_run_is_withdrawn_from_outside(play: Play) -> None:
    run = play.begin(20, loan=2001)
    run.cancel()

    assert run.status() == "cancelled"
    assert set(states(run, "check", "value", "withdrawn")) == {"cancelled"}


# -- loops and recursion ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 3])
def test_21_a_condition_stands_before_the_work_or_after_it(play: Play, count: int) -> None:
    path = play.end(21, count=count).path()

    assert path.count("wash") == count
    assert path.count("rinse") == max(1, count)
    assert path[-1] == "put_away"


def test_22_a_workflow_calls_itself(play: Play) -> None:
    run = play.end(22, n=5)

    assert run.result() == 120
    assert play.below(run) == [["small", "one"], *[["small", "rest"]] * 3]


# -- triggers ---------------------------------------------------------------------------------------------------------


def test_23_a_signal_counts_only_while_it_is_waited_for(play: Play) -> None:
    run = play.begin(23, door=2300)
    play.send("bell.rang", 2300, {"at": play.env.now.isoformat()})
    play.env.advance("2s")
    run.assert_waiting("bell")  # it rang when nobody listened

    play.send("bell.rang", 2300, {"at": play.env.now.isoformat()})
    run.assert_success({"open": "open"})


def test_24_a_signal_is_kept_until_it_is_waited_for(play: Play) -> None:
    run = play.begin(24, box=2400)
    play.send("letter.came", 2400)

    assert play.lasts(run) == 1
    assert run.path() == ["sleep", "letter", "read"]


# -- regions and instances that are withdrawn -------------------------------------------------------------------------


def test_25_a_region_is_withdrawn_and_the_rest_goes_on(play: Play) -> None:
    run = play.begin(25, order=2500)
    play.env.advance("15s")
    play.send("order.recalled", 2500)
    assert states(run, "pick", "pack", "load") == ["success", "cancelled", "cancelled"]
    run.assert_waiting("bill")

    assert play.lasts(run) == 25
    assert run.path()[-2:] == ["bill", "close"]


def test_26_instances_that_have_ended_stay_and_the_others_are_withdrawn(play: Play) -> None:
    run = play.begin(26, survey=2600, takes=["1s", "10s", "20s", "30s"])
    play.env.advance("5s")
    play.send("survey.stopped", 2600)

    run.assert_success(["success", "cancelled", "cancelled", "cancelled"])
    assert states(run, "ask", "report") == ["cancelled", "success"]


def test_27_instances_are_completed_before_they_are_done(play: Play) -> None:
    run = play.begin(27, survey=2700, takes=["1s", "10s", "20s", "30s"])
    play.env.advance("5s")
    play.send("survey.closed", 2700)

    run.assert_success(["answered", "gone", "gone", "gone"])
    assert states(run, "ask", "grace") == ["success", "cancelled"]


def test_27_instances_that_all_end_need_no_word(play: Play) -> None:
    run = play.end(27, survey=2701, takes=["1s", "2s"])

    run.assert_success(["answered", "answered"])
    assert states(run, "closed") == ["cancelled"]


def test_27_instances_are_completed_by_hand(play: Play) -> None:
    run = play.begin(27, survey=2702, takes=["1s", "10s"])
    play.env.advance("5s")
    run.skip("ask", ["answered", "by phone"])

    run.assert_success(["answered", "by phone"])
    assert {child.status() for child in run.children()} == {"success", "cancelled"}


# -- discriminators and partial joins ---------------------------------------------------------------------------------


def test_28_a_round_goes_on_with_the_first_and_ends_with_the_last(play: Play) -> None:
    run = play.begin(28)

    assert play.lasts(run) == 3 * 2  # each round lasts as long as its slowest branch
    assert play.below(run) == [["near", "first", "alarm", "far"]] * 3
    assert run.path() == ["round", "again"] * 3 + ["home"]


def test_29_the_first_withdraws_the_others(play: Play) -> None:
    run = play.begin(29)

    assert play.lasts(run) == 1
    assert run.path() == ["cache", "found", "answer"]
    assert states(run, "archive", "read") == ["cancelled", "cancelled"]


def test_30_some_go_on_and_the_others_run_to_their_end(play: Play) -> None:
    run = play.begin(30)
    play.env.advance("2s")
    assert states(run, "approve", "eve") == ["success", "waiting"]

    assert play.lasts(run) == 1
    assert run.path() == ["ann", "bob", "enough", "approve", "eve"]


def test_31_a_round_goes_on_with_some_and_ends_with_the_last(play: Play) -> None:
    run = play.begin(31)

    assert play.lasts(run) == 2 * 3
    assert play.below(run) == [["ann", "bob", "enough", "approve", "eve"]] * 2


def test_32_some_withdraw_the_others(play: Play) -> None:
    run = play.begin(32)

    assert play.lasts(run) == 2
    assert states(run, "ann", "bob", "eve", "approve") == ["success"] * 2 + ["cancelled", "success"]


def test_33_arrivals_are_kept_and_paired(play: Play) -> None:
    run = play.begin(33)

    assert play.lasts(run) == 3
    kept, made = zip(*run.result(), strict=True)
    assert sorted(kept) == [
        "goods 0",
        "goods 1",
        "goods 2",
    ]  # there from the beginning, in any order
    assert made == ("papers 0", "papers 1", "papers 2")
    assert run.path().count("parcel") == 3


def test_34_some_instances_go_on_and_the_others_run_to_their_end(play: Play) -> None:
    run = play.begin(34, needed=2, takes=["3s", "1s", "4s", "2s"])
    play.env.advance("2s")
    assert states(run, "decide", "vote") == ["success", "running"]

    assert play.lasts(run) == 2
    assert sorted(run.result()) == [1, 3]
    assert play.below(run).count(["think", "done"]) == 4


def test_35_some_instances_withdraw_the_others(play: Play) -> None:
    run = play.begin(35, needed=2, takes=["3s", "1s", "4s", "2s"])

    assert play.lasts(run) == 2
    assert sorted(run.result()["votes"]) == [1, 3]
    assert run.result()["items"] == ["cancelled", "success", "cancelled", "success"]


def test_36_what_instances_yield_says_when_it_is_enough(play: Play) -> None:
    run = play.begin(36, wanted=30)

    assert play.lasts(run) == 2  # two at a time
    assert run.result()["total"] == 30
    assert states(run, "collect", "buy") == ["cancelled", "success"]
    assert run.result()["items"].count("success") in (3, 4)


def test_36_what_is_never_enough_ends_with_the_list(play: Play) -> None:
    run = play.end(36, wanted=1_000)

    assert run.result() == {"total": None, "items": ["success"] * 6}
    assert states(run, "enough", "buy") == ["cancelled", "success"]


@pytest.mark.parametrize(("injured", "stolen"), CASES)
def test_37_merges_need_not_match_splits(play: Play, injured: bool, stolen: bool) -> None:
    run = play.begin(37, injured=injured, stolen=stolen)

    lawyer = 1 if injured or stolen else 0
    assert play.lasts(run) == (2 if stolen else 1 if injured else 0) + lawyer
    assert run.path().count("close") == 1
    assert run.path()[-1] == "close"
    assert states(run, "insurer", "lawyer") == ["success", "success" if lawyer else "skipped"]


@pytest.mark.parametrize("appeals", [False, True])
def test_38_a_merge_waits_for_a_loop_that_may_still_lead_to_it(play: Play, appeals: bool) -> None:
    run = play.begin(38, passes=3, appeals=appeals)
    play.env.advance("2s")
    assert states(run, "pay", "close") == ["success", "pending"]

    assert play.lasts(run) == (2 if appeals else 1)
    assert run.path().count("verdict") == 3
    assert run.path().count("close") == 1


# -- mutual exclusion -------------------------------------------------------------------------------------------------


def test_39_one_at_a_time_is_in_the_section(play: Play) -> None:
    run = play.end(39)

    assert [done["met"] for done in run.result()] == [[], [], []]
    assert play.below(run) == [["prepare", "take", "print", "give"]] * 3


def test_39_a_failure_inside_leaves_the_section_free() -> None:
    def jam(params: Mapping[str, object]) -> object:
        if params["name"] == "invoices":
            raise TaskError("paper_jam", retryable=False)
        return params["name"]

    with engine(load_app("patterns")) as env:
        env.mock(task="alone", calls=jam)
        run = env.start(path_of(39))

        run.assert_success([None, "labels", "letters"])


def test_40_each_step_once_in_the_order_of_the_list(play: Play) -> None:
    before = len(play.env.calls())
    run = play.end(40, order=["label", "weigh"])

    assert run.result() == ["A-7 labelled", "A-7 weighed"]
    assert [call.task for call in play.env.calls()[before:]] == ["label", "weigh", "step"]


def test_41_two_arrivals_of_a_branch_go_on_as_one(play: Play) -> None:
    run = play.begin(41, pairs=2)
    play.env.advance("2s")
    assert len([path for path in play.below(run) if path == ["sew", "made"]]) == 2

    assert play.lasts(run) == 2
    assert [sorted(shoes) for shoes in run.result()] == [[0, 1], [2, 3]]


def test_42_one_thread_becomes_many(play: Play) -> None:
    run = play.end(42, copies=3)

    assert run.result() == [1, 2, 3]
    assert play.below(run) == [["print", "sign", "send"]] * 3


def test_43_the_end_ends_the_run_whatever_is_left(play: Play) -> None:
    run = play.begin(43)

    assert play.env.run_to_end(run) == timedelta(seconds=1)
    run.assert_success("here")
    assert states(run, "search_there", "tell") == ["cancelled", "cancelled"]

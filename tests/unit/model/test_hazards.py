from __future__ import annotations

from typing import Any

import pytest
from tests.support.graphs import definition

from tenuto.model.structure import Problem, analyse


def found(text: str, code: str, **more: Any) -> list[Problem]:
    analysis = analyse(definition(text, **more))
    assert analysis.is_legal, analysis.problems
    return [p for p in analysis.problems if p.code == code]


def cuts(text: str, **more: Any) -> list[Problem]:
    return found(text, "failure_cuts_join", **more)


def ends(text: str, **more: Any) -> list[Problem]:
    return found(text, "end_while_parallel", **more)


# --- race_leak ---------------------------------------------------------------------------------------


@pytest.mark.rule("J3.4")
def test_a_leak_names_node_path_and_join() -> None:
    text = "s -> a; s -> b; a -> j; b -> j; a -failure-> x; x -> y"
    (problem,) = found(text, "race_leak", join={"j": 1})

    assert problem.warning
    assert problem.edges == (4,)
    assert problem.nodes == (1, 3)
    assert problem.message.startswith(
        "`a → x → y` gets past the join `j`, so `a` isn't in its race"
    )
    assert "lead `y` to `j`" in problem.hint


def test_a_branch_that_comes_back_to_the_join_does_not_leak() -> None:
    text = "s -> a; s -> b; a -> j; b -> j; a -failure-> x; x -> j"

    assert found(text, "race_leak", join={"j": 1}) == []
    assert found("s -> a; s -> b; a -> j; b -> j; a -failure-> x", "race_leak") == []


def test_repeating_the_loop_around_the_join_leaks() -> None:
    text = (
        "h -> a when 'x'; h -> b else; a -> j; a -failure-> h loop 3; b -> j; j -> s; "
        "s -> h when 'y' loop 3; s -> out else"
    )
    (problem,) = found(text, "race_leak", types={"h": "switch", "s": "switch"}, join={"j": 1})

    assert problem.message.startswith("`a → h` gets past the join `j`")


def test_repeating_a_loop_before_the_join_does_not_leak() -> None:
    text = "h -> x; x -> j when 'y'; x -> h when 'z' loop 3; x -> b else; b -> j; x -failure-> out"
    problems = found(text, "race_leak", types={"x": "switch"}, join={"j": 1})

    assert problems == []
    text = "h -> x when 'y'; h -> b else; x -> h when 'z' loop 3; x -> j else; b -> j; x -failure-> out"
    problems = found(text, "race_leak", types={"h": "switch", "x": "switch"}, join={"j": 1})
    assert [p.edges for p in problems] == [(5,)]


# --- failure_cuts_join -------------------------------------------------------------------------------


@pytest.mark.rule("V4.1")
def test_a_handled_failure_that_skips_a_join_is_named() -> None:
    (problem,) = cuts("pay -> ship; reserve -> ship; pay -failure-> notify")

    assert problem.warning
    assert problem.nodes == (1, 0)
    assert problem.edges == (1,)
    assert problem.message == "`ship` is skipped when `pay` fails, even if `reserve` succeeds"


def test_a_repaired_failure_cuts_nothing() -> None:
    assert cuts("try -> merge; other -> merge; try -failure-> repair; repair -> merge") == []


def test_a_failure_that_leads_to_every_in_edge_cuts_nothing() -> None:
    assert cuts("f -> a; f -> b; a -> m; b -> m; f -failure-> x") == []


def test_an_always_edge_to_elsewhere_cuts_like_a_failure_edge() -> None:
    assert len(cuts("a -> m; b -> m; a -always-> log")) == 1
    assert cuts("a -> m; b -> m; a -always-> log; log -> m") == []


def test_an_unhandled_optional_or_raced_failure_cuts_nothing() -> None:
    race = "s -> a; s -> b; a -> j; b -> j; a -> m; x -> m; m -> j; a -failure-> r; r -> j"

    assert cuts("a -> m; b -> m") == []
    assert cuts("a -> m; b -> m; a -always-> log", optional=["a"]) == []
    assert len(cuts(race)) == 1
    assert cuts(race, join={"j": 1}) == []


def test_leading_to_a_join_ends_at_an_any_join() -> None:
    text = "s -> a; s -> b; a -> j; b -> j; j -> m; c -> m; a -failure-> x"

    assert len(cuts(text)) == 2
    assert cuts(text, join={"j": 1}) == []


def test_a_failing_any_join_cuts_what_it_leads_to() -> None:
    text = "a -> j; b -> j; j -> m; c -> m; j -failure-> x"

    assert [p.nodes for p in cuts(text, join={"j": 2})] == [(3, 1)]


def test_branches_of_a_switch_do_not_cut_each_other() -> None:
    text = "s -> a when 'x'; s -> b else; a -> m; b -> m; a -failure-> out"

    assert cuts(text, types={"s": "switch"}) == []
    assert len(cuts("s -> a; s -> b; a -> m; b -> m; a -failure-> out")) == 1


def test_a_switch_may_lead_to_the_join_itself() -> None:
    text = "s -> a when 'x'; s -> m else; a -> m; a -failure-> out"

    assert cuts(text, types={"s": "switch"}) == []
    assert len(cuts("s -> a; s -> m; a -> m; a -failure-> out")) == 1


def test_success_and_failure_branches_do_not_cut_each_other() -> None:
    text = "t -> a; t -failure-> r; a -> m; r -> m; a -failure-> out"

    assert cuts(text) == []


def test_a_branch_with_a_second_way_in_is_not_taken_for_exclusive() -> None:
    text = "s -> a when 'x'; s -> b else; z -> b; a -> m; b -> m; a -failure-> out"

    assert len(cuts(text, types={"s": "switch"})) == 1


def test_failure_edges_of_a_switch_are_taken_together_so_they_may_cut() -> None:
    text = "s -> z else; s -failure-> a; s -failure-> b; a -> m; b -> m; a -failure-> out"

    assert len(cuts(text, types={"s": "switch"})) == 1


def test_of_failure_edges_one_is_else_so_they_exclude_each_other() -> None:
    text = "s -> z; s -failure-> a when 'x'; s -failure-> b{}; a -> m; b -> m; a -failure-> out"

    assert cuts(text.format(" else")) == []
    assert len(cuts(text.format(" when 'y'"))) == 1


def test_a_search_too_long_leaves_the_warning_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenuto.model.hazards.SEARCH_MAX", 0)

    assert cuts("pay -> ship; reserve -> ship; pay -failure-> notify") == []


# --- end_while_parallel --------------------------------------------------------------------------------


def test_an_end_beside_a_running_branch_is_named_with_that_branch() -> None:
    (problem,) = ends("s -> a; s -> b; a -> e", types={"e": "end"})

    assert problem.warning
    assert problem.nodes == (3, 2)
    assert problem.message.startswith("`e` ends the run while `b` may still be running after `s`")


def test_an_end_beside_another_root_is_named() -> None:
    (problem,) = ends("a -> e; b -> c", types={"e": "end"})

    assert "`b` may still be running from the start" in problem.message


def test_an_end_behind_a_full_join_is_no_hazard() -> None:
    assert ends("s -> a; s -> b; a -> m; b -> m; m -> e", types={"e": "end"}) == []
    assert ends("a -> m; b -> m; m -> e", types={"e": "end"}) == []


def test_an_end_behind_a_switch_is_no_hazard() -> None:
    text = "s -> a when 'x'; s -> e else"

    assert ends(text, types={"s": "switch", "e": "end"}) == []


def test_a_failure_branch_alone_is_no_hazard() -> None:
    assert ends("a -> b; a -failure-> e", types={"e": "end"}) == []
    assert ends("a -> e; a -failure-> x; a -failure-> y", types={"e": "end"}) == []
    assert len(ends("a -> b; a -failure-> e; a -always-> c", types={"e": "end"})) == 1


def test_an_end_on_one_of_two_failures_that_exclude_each_other_is_no_hazard() -> None:
    text = "a -failure-> b when 'x'; a -failure-> e{}"

    assert ends(text.format(" else"), types={"e": "end"}) == []
    assert len(ends(text.format(" when 'y'"), types={"e": "end"})) == 1


def test_losers_of_an_any_join_run_on_unless_cancelled() -> None:
    text = "s -> a; s -> b; a -> j; b -> j; j -> e"
    more = {"types": {"e": "end"}, "join": {"j": 1}}

    assert len(ends(text, **more)) == 1
    assert ends(text, cancel_losers=["j"], **more) == []


def test_a_side_branch_on_the_way_to_the_join_is_a_hazard_too() -> None:
    text = "s -> a; s -> b; a -> m; b -> m; b -> log; m -> e"
    (problem,) = ends(text, types={"e": "end"})

    assert "`log` may still be running after `b`" in problem.message


def test_a_hazard_above_counts_for_every_end_below() -> None:
    text = "s -> a; s -> b; a -> c; c -> e when 'x'; c -> f else"

    assert len(ends(text, types={"c": "switch", "e": "end", "f": "end"})) == 2

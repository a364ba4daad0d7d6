import pytest

from tenuto.adapters.postgres.routines import AT_ONCE, Routine, Routines, routine
from tenuto.adapters.sql.dialect import POSTGRES
from tenuto.adapters.sql.engine import Step
from tenuto.adapters.sql.sequences import Checked, sequences, whole_commit, whole_post

FUNC_MAX_ARGS = 100
"""PostgreSQL's, unless it was built with another."""

LOCK, GUARD = "SELECT $1", "SELECT $1, $2"
WRITES = ("INSERT $1", "UPDATE $1, $2", "DELETE $1", "UPDATE $1, $2", "LEASE $1")
CHECK, WRITE = routine((LOCK, GUARD)), routine(WRITES)
ROUTINES = Routines((CHECK, WRITE))
NOW = "SELECT now()"
WHOLE = routine(
    Checked(
        texts=(LOCK, NOW, "SELECT 1 WHERE $1", *WRITES),
        moment=NOW,
        checks=frozenset({"SELECT 1 WHERE $1"}),
        timed={"UPDATE $1, $2": 2},
    )
)


def folded(*group: Step) -> list[Step]:
    return list(ROUTINES.folded(group))


def test_steps_in_their_order_are_one_call_and_the_others_are_left_out() -> None:
    assert folded(("INSERT $1", ("a",)), ("DELETE $1", ("b",)), ("LEASE $1", ("c",))) == [
        (WRITE.call, ("a", None, None, "b", None, None, "c"))
    ]


def test_a_step_that_comes_twice_in_a_sequence_has_two_places() -> None:
    twice = ("UPDATE $1, $2", ("a", "b"))
    assert folded(twice, ("DELETE $1", ("c",)), twice) == [
        (WRITE.call, (None, "a", "b", "c", "a", "b", None))
    ]


def test_one_step_alone_is_sent_as_it_is() -> None:
    assert folded(("DELETE $1", ("a",))) == [("DELETE $1", ("a",))]


def test_what_belongs_to_no_sequence_stays_in_its_place() -> None:
    group: list[Step] = [("OTHER", ()), ("INSERT $1", ("a",)), ("DELETE $1", ("b",)), ("LAST", ())]
    sent = folded(*group)
    assert [text for text, _ in sent] == ["OTHER", WRITE.call, "LAST"]


def test_steps_in_another_order_are_not_called_together() -> None:
    group: list[Step] = [("LEASE $1", ("a",)), ("INSERT $1", ("b",))]
    assert folded(*group) == group


def test_parameters_keep_their_number_whatever_is_missing() -> None:
    assert folded((LOCK, ("a",)), (GUARD, ("b", 3))) == [(CHECK.call, ("a", "b", 3))]


def test_the_name_is_of_the_texts() -> None:
    assert CHECK.name == routine((LOCK, GUARD)).name
    assert CHECK.name != routine((GUARD, LOCK)).name
    assert len(CHECK.name) < 64


def test_without_routines_nothing_changes() -> None:
    group: list[Step] = [(LOCK, ("a",)), (GUARD, ("b", 3))]
    assert list(Routines(()).folded(group)) == group


def test_a_statement_without_parameters_has_one_that_says_whether_it_is_wanted() -> None:
    both = routine(("DELETE old", "INSERT $1"))
    sent = list(Routines((both,)).folded([("DELETE old", ()), ("INSERT $1", ("a",))]))
    assert sent == [(both.call, (1, "a"))]


def test_all_of_a_hoped_for_group_is_one_call() -> None:
    group: list[Step] = [
        (LOCK, ("a",)),
        (NOW, ()),
        ("SELECT 1 WHERE $1", ("b",)),
        ("UPDATE $1, $2", ("c", None)),
        ("UPDATE $1, $2", ("d", None)),
    ]
    routines = Routines((CHECK, WRITE, WHOLE))

    for _ in range(2):  # as it is remembered, too
        assert routines.at_once(group) == (
            WHOLE.call,
            ("a", 1, "b", None, "c", None, None, "d", None, None),
        )


def test_without_its_function_there_is_no_such_call() -> None:
    assert ROUTINES.at_once([(NOW, ())]) is None
    assert Routines((WHOLE,)).at_once([(NOW, ()), ("OTHER $1", ("a",))]) is None


def test_of_several_whole_ones_that_is_called_which_has_all_the_steps() -> None:
    other = routine(Checked(texts=(NOW, "POST $1"), moment=NOW, checks=frozenset(), timed={}))
    for routines in (Routines((WHOLE, other)), Routines((other, WHOLE))):
        assert routines.at_once([(NOW, ()), ("POST $1", ("a",))]) == (other.call, (1, "a"))
        assert routines.at_once([(NOW, ()), ("LEASE $1", ("a",))]) == (
            WHOLE.call,
            (None, 1, None, None, None, None, None, None, None, "a"),
        )


def test_an_ordinary_group_never_calls_what_may_leave_it_out() -> None:
    group: list[Step] = [("INSERT $1", ("a",)), ("LEASE $1", ("b",))]
    assert list(Routines((WHOLE,)).folded(group)) == group


def test_a_call_that_is_a_whole_commit_is_known_by_its_name() -> None:
    """The tests' proxy cuts connections at it."""
    assert WHOLE.call.startswith(f"SELECT * FROM {AT_ONCE}")
    assert len(WHOLE.name) < 64


@pytest.mark.parametrize(
    "called",
    [
        pytest.param(routine(whole_commit(POSTGRES)), id="whole_commit"),
        pytest.param(routine(whole_post(POSTGRES)), id="whole_post"),
        *(
            pytest.param(routine(texts), id=f"sequence-{n}")
            for n, texts in enumerate(sequences(POSTGRES))
        ),
    ],
)
def test_a_function_has_no_more_parameters_than_postgresql_takes(called: Routine) -> None:
    number = called.offsets[-1]
    assert number <= FUNC_MAX_ARGS, (
        f"this sequence wants {number} parameters, and a function of PostgreSQL's takes {FUNC_MAX_ARGS}: no server "
        "could be opened. Pass several as one jsonb, or leave a statement out of the sequence (adapters.sql.sequences)."
    )

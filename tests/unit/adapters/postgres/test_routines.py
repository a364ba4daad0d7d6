from tenuto.adapters.postgres.routines import Routines, routine
from tenuto.adapters.sql.engine import Step

LOCK, GUARD = "SELECT $1", "SELECT $1, $2"
WRITES = ("INSERT $1", "UPDATE $1, $2", "DELETE $1", "UPDATE $1, $2", "LEASE $1")
CHECK, WRITE = routine((LOCK, GUARD)), routine(WRITES)
ROUTINES = Routines((CHECK, WRITE))


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

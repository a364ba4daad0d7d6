"""Which door a command takes, for every situation there is; over real locks and real servers."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.rest import ECHO, Server, serving
from tests.support.scripted import answer, scripted

from tenuto.adapters.sqlite.lock import FileLock, announce
from tenuto.cli import door
from tenuto.cli.door import ask, changing, find_door, holds_nothing, server_for
from tenuto.model.errors import Conflict, InvalidInput, NotFound, Unavailable
from tenuto.settings import Database

FILE = Path(".tenuto/tenuto.db")
ELSEWHERE = "http://127.0.0.1:9"
PID = str(os.getpid())
NO_PID = 2**31 - 1
"""Above all that a kernel gives: that of a process that has gone may be somebody else's already."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project whose `tenuto dev` would have a port on which nobody listens."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("TENUTO_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TENUTO_DEV__PORT", "1")
    FILE.parent.mkdir()
    return tmp_path


@pytest.fixture
def file() -> Path:
    """A database file; nobody reads it."""
    FILE.write_bytes(b"")
    return FILE


@pytest.fixture
def held(file: Path) -> Iterator[FileLock]:
    """An engine has it open."""
    lock = FileLock(file)
    yield lock
    lock.release()


def test_a_url_on_the_command_line_is_the_server() -> None:
    assert find_door(ELSEWHERE, None) == door.Server(ELSEWHERE, named=True)


def test_a_url_and_a_database_contradict_each_other() -> None:
    with pytest.raises(InvalidInput, match="--url: a server has its own database"):
        find_door(ELSEWHERE, "x.db")


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is no address of a server"):
        find_door("localhost", None)


def test_the_setting_names_the_server(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setenv("TENUTO_URL", f"{ELSEWHERE}/")

    assert find_door(None, None) == door.Server(ELSEWHERE)


def test_a_url_on_the_command_line_goes_before_the_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TENUTO_URL", "http://127.0.0.1:8")

    assert find_door(ELSEWHERE, None) == door.Server(ELSEWHERE, named=True)


def test_a_database_on_the_command_line_goes_before_a_server_of_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TENUTO_URL", ELSEWHERE)

    assert find_door(None, "x.db") == door.File(Database(Path("x.db")), named=True)


def test_an_engine_that_has_the_file_and_serves_is_asked(held: FileLock) -> None:
    announce(FILE, ELSEWHERE)

    found = find_door(None, None)

    reading = door.File(Database(FILE), named=False, pid=PID, url=ELSEWHERE)
    assert found == door.Server(ELSEWHERE, instead=reading)


def test_of_an_engine_that_serves_no_more_the_file_is_read(held: FileLock) -> None:
    announce(FILE, ELSEWHERE)
    announce(FILE, "")

    assert find_door(None, None) == door.File(Database(FILE), named=False, pid=PID)


def test_of_an_engine_that_does_not_serve_the_file_is_read(held: FileLock) -> None:
    assert find_door(None, None) == door.File(Database(FILE), named=False, pid=PID)


def test_what_a_dead_engine_noted_is_no_server(file: Path) -> None:
    lock = FileLock(file)
    announce(file, ELSEWHERE)
    lock.release()

    assert find_door(None, None) == door.File(Database(FILE), named=False)


def test_what_a_later_engine_notes_replaces_what_the_one_before_did(file: Path) -> None:
    lock = FileLock(file)
    announce(file, ELSEWHERE)
    lock.release()
    lock = FileLock(file)

    assert find_door(None, None) == door.File(Database(FILE), named=False, pid=PID)
    lock.release()


def test_where_there_is_a_file_no_server_is_guessed(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    with serving() as server:
        monkeypatch.setenv("TENUTO_DEV__PORT", str(server.port))

        assert find_door(None, None) == door.File(Database(FILE), named=False)


def test_where_there_is_no_file_a_tenuto_at_the_port_of_dev_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(door, "PROBE_S", 30.0)  # on a busy machine its first answer takes a while
    with serving() as server:
        monkeypatch.setenv("TENUTO_DEV__PORT", str(server.port))

        assert find_door(None, None) == door.Server(server.url, guessed=True)


def test_where_there_is_no_file_another_product_at_that_port_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with scripted(lambda asked, before: answer(200, {}), health={"up": True}) as site:
        monkeypatch.setenv("TENUTO_DEV__PORT", site.url.rpartition(":")[2])

        assert find_door(None, None) == door.File(Database(FILE), named=False)


def test_where_there_is_no_file_somebody_deaf_at_that_port_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        monkeypatch.setenv("TENUTO_DEV__PORT", str(deaf.getsockname()[1]))

        assert find_door(None, None) == door.File(Database(FILE), named=False)


def test_where_there_is_nothing_the_file_is_missing() -> None:
    found = find_door(None, None)

    assert found == door.File(Database(FILE), named=False)
    assert isinstance(found, door.File)
    assert found.is_missing


def test_a_file_that_was_named_must_be_there_and_the_default_one_need_not() -> None:
    assert holds_nothing(find_door(None, None))
    with pytest.raises(NotFound, match=r"no database 'nowhere/x\.db'"):
        holds_nothing(find_door(None, "nowhere/x.db"))


def note_of(pid: int) -> None:
    """What an engine of that process has left in the lock."""
    FILE.with_name(FILE.name + ".lock").write_text(f"{pid}\n{ELSEWHERE}\n")


def test_a_server_that_starts_anew_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    note_of(os.getppid())
    taken: list[FileLock] = []

    def begin(_: float) -> None:
        """The next process takes the file, and some time later says where it serves."""
        if taken:
            announce(file, ELSEWHERE)
        else:
            taken.append(FileLock(file))

    monkeypatch.setattr(door, "sleep", begin)
    monkeypatch.setattr(door, "ANEW_S", 600.0)  # it ends by what comes, not by the time

    found = find_door(None, None)

    assert isinstance(found, door.Server)
    assert found.url == ELSEWHERE
    taken[0].release()


def test_a_server_that_does_not_come_back_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    note_of(os.getppid())
    monkeypatch.setattr(door, "ANEW_S", 0.01)

    assert find_door(None, None) == door.File(Database(FILE), named=False)


def test_a_server_that_died_without_a_word_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    note_of(NO_PID)
    monkeypatch.setattr(door, "sleep", lambda _: pytest.fail("it waits"))

    assert find_door(None, None) == door.File(Database(FILE), named=False)


def test_memory_is_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENUTO_DATABASE", ":memory:")

    assert find_door(None, None) == door.File(Database(None), named=False)


# -- changing ------------------------------------------------------------------------------------------------------


def test_a_named_file_is_read_and_changed_through_its_engine(held: FileLock) -> None:
    announce(FILE, ELSEWHERE)

    found = find_door(None, str(FILE))

    assert found == door.File(Database(FILE), named=True, pid=PID, url=ELSEWHERE)
    assert changing(found) == door.Server(ELSEWHERE)
    assert server_for(found, "tenuto dev") == door.Server(ELSEWHERE)


def test_a_file_that_nobody_drives_may_be_changed(file: Path) -> None:
    found = find_door(None, None)

    assert changing(found) is found


def test_a_file_whose_engine_takes_no_requests_may_not_be_changed(held: FileLock) -> None:
    with pytest.raises(Conflict) as raised:
        changing(find_door(None, None))

    assert str(raised.value) == (
        f"process {PID} has {FILE} open and takes no requests; stop it (Ctrl-C), then try again"
    )


def test_what_needs_a_server_names_the_command_that_starts_one(file: Path) -> None:
    with pytest.raises(Unavailable) as raised:
        server_for(find_door(None, None), "tenuto dev a.yaml", instead=", or wait")
    with pytest.raises(Unavailable) as named:
        server_for(find_door(None, "x.db"), "tenuto dev")

    assert str(raised.value) == (
        f"no server has {FILE} open; start one with `tenuto dev a.yaml`, or wait"
    )
    assert str(named.value) == (
        "no server has x.db open; start one with `tenuto dev --database x.db`"
    )


def test_what_needs_a_server_says_who_is_in_its_way(held: FileLock) -> None:
    with pytest.raises(Unavailable) as raised:
        server_for(find_door(None, None), "tenuto dev")

    assert str(raised.value) == (
        f"process {PID} has {FILE} open and takes no requests; when it has ended, start a server "
        "with `tenuto dev`"
    )


# -- asking --------------------------------------------------------------------------------------------------------


@pytest.fixture
def served(folder: Path) -> Iterator[Server]:
    """A real engine on the project's file, whose server is noted in the lock."""
    with serving(FILE) as made:
        made.deploy(ECHO)
        made.wait(made.start("echo", {"n": 1}))
        yield made


def names(found: door.Door) -> list[str]:
    page = ask(found, lambda source: source.list_workflows())
    return [str(each["name"]) for each in page["items"]]


def test_a_file_and_its_server_answer_the_same(served: Server) -> None:
    by_file = find_door(None, None)
    announce(FILE, served.url)
    by_server = find_door(None, None)

    assert isinstance(by_file, door.File)
    assert isinstance(by_server, door.Server)
    for verb in (
        lambda source: source.list_runs(),
        lambda source: source.get_workflow("echo"),
        lambda source: source.list_workers(),
    ):
        before, answered, after = (ask(each, verb) for each in (by_file, by_server, by_file))
        while before != after:  # the worker was heard of meanwhile
            before, answered, after = (ask(each, verb) for each in (by_file, by_server, by_file))
        assert answered == before


def test_where_the_server_of_an_engine_is_silent_its_file_is_read(served: Server) -> None:
    announce(FILE, "http://127.0.0.1:1")

    assert names(find_door(None, None)) == ["echo"]


def test_where_a_named_server_is_silent_no_other_database_is_read(served: Server) -> None:
    with pytest.raises(Unavailable, match="nobody listens at"):
        names(find_door("http://127.0.0.1:1", None))

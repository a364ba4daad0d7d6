"""The door of a process, and the token that it shows: from settings and files. Catalogue L15, S10, S19, S24, S55."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tenuto.adapters.jwt import peek
from tenuto.app.access import create_token, door_of, is_loopback, must_be_guarded, token_of
from tenuto.model.errors import Denied, InvalidInput
from tenuto.ports.access import Scope
from tenuto.settings.tree import Auth

OLD, NEW, OTHER = "old-" * 8, "new-" * 8, "other-" * 8
HOUR = 3_600_000_000


def token(secret: str, scope: Scope = Scope.ADMIN) -> str:
    return create_token(Auth(secret=secret), scope, lasts_us=HOUR)


def test_without_a_secret_there_is_no_door() -> None:
    assert door_of(Auth()) is None


def test_the_first_of_two_secrets_signs_and_both_are_believed() -> None:
    door = door_of(Auth(secret=f"{NEW}, {OLD}"))
    assert door is not None

    ours = create_token(Auth(secret=f"{NEW},{OLD}"), Scope.WORKER, lasts_us=HOUR, queues=["a"])

    assert door(ours).scope == "worker"
    assert (door(token(OLD)).scope, door(token(NEW)).scope) == ("admin", "admin")
    only_new = door_of(Auth(secret=NEW))
    assert only_new is not None
    assert only_new(ours).queues == frozenset({"a"})
    with pytest.raises(Denied):
        door(token(OTHER))


def test_secrets_change_in_their_file_without_a_restart(tmp_path: Path) -> None:
    """Catalogue L15."""
    file = tmp_path / "secrets"
    file.write_text(f"{OLD}\n")
    door = door_of(Auth(secret_file=str(file)))
    assert door is not None
    with pytest.raises(Denied):
        door(token(NEW))

    file.write_text(f"{NEW}\n\n  {OLD}\n")
    assert (door(token(NEW)).scope, door(token(OLD)).scope) == ("admin", "admin")

    file.write_text(f"{NEW}\n")
    assert door(token(NEW)).scope == "admin"
    with pytest.raises(Denied):
        door(token(OLD))


def _gone(file: Path) -> None:
    file.unlink()


def _short(file: Path) -> None:
    file.write_text("short\n")


def _empty(file: Path) -> None:
    file.write_text("\n \n")


def _binary(file: Path) -> None:
    file.write_bytes(b"\xff" * 40)


def _open(file: Path) -> None:
    file.write_text(f"{OLD}\n")
    file.chmod(0o666)


WRONG: list[tuple[Callable[[Path], None], str]] = [
    (_gone, "cannot be read: No such file or directory"),
    (_short, "holds a secret that is too short; give 32 bytes or more, such as `openssl rand"),
    (_empty, "is empty; put a secret there, such as `openssl rand -hex 32` prints"),
    (_binary, "is not text"),
    (_open, "anybody may write"),
]


@pytest.mark.parametrize(("spoil", "said"), WRONG)
def test_a_file_that_cannot_be_stops_the_start_and_no_more_than_that(
    tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    file = tmp_path / "secrets"
    file.write_text(f"{OLD}\n")
    running = door_of(Auth(secret_file=str(file)))
    assert running is not None

    spoil(file)

    with pytest.raises(InvalidInput) as raised:
        door_of(Auth(secret_file=str(file)))
    assert said in str(raised.value)
    assert running(token(OLD)).scope == "admin", "who is in stays in"


def test_a_secret_stands_in_one_place_only(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInput, match=r"auth\.secret_file: there is auth\.secret, too; keep one"
    ):
        door_of(Auth(secret=OLD, secret_file=str(tmp_path)))
    with pytest.raises(
        InvalidInput, match=r"auth\.token_file: there is auth\.token, too; keep one"
    ):
        token_of(Auth(token="a", token_file="b"))


def test_no_secret_no_token() -> None:
    with pytest.raises(InvalidInput, match="no secret to sign it with; set TENUTO_AUTH_SECRET"):
        create_token(Auth(), Scope.ADMIN, lasts_us=HOUR)


def test_a_created_token_says_who_for_what_and_until_when() -> None:
    made = create_token(Auth(secret=OLD), Scope.WORKER, lasts_us=HOUR, name="x", queues=["b", "a"])

    said = peek(made)

    assert (said.scope, said.name, said.queues) == (Scope.WORKER, "x", frozenset({"a", "b"}))


def test_a_token_is_shown_as_it_stands_and_a_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    shown = token_of(Auth(token_file=str(file)))

    assert (token_of(Auth())(), token_of(Auth(token=" t "))(), shown()) == (None, "t", "one")
    file.write_text("two")
    assert shown() == "two"
    file.write_text("two\nthree\n")
    with pytest.raises(InvalidInput, match="holds 2 tokens; put one there"):
        shown()
    file.unlink()
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        shown()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "LocalHost"])
def test_a_loopback_address_needs_no_secret(host: str) -> None:
    assert is_loopback(host)
    must_be_guarded([("--host", host)], guarded=False)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "192.168.1.1", "example.com", "fe80::1%eth0", "128.0.0.1"]
)
def test_any_other_address_needs_one(host: str) -> None:
    must_be_guarded([("--host", host)], guarded=True)
    with pytest.raises(InvalidInput) as raised:
        must_be_guarded([("--grpc-host", host)], guarded=False)

    assert str(raised.value) == (
        f"--grpc-host: {host} can be reached by others, and there is no secret to tell them apart "
        "by; set TENUTO_AUTH_SECRET (32 bytes or more, such as `openssl rand -hex 32` prints), or "
        "listen on 127.0.0.1"
    )

"""Each kind of setting: what it reads from a file and from text, what it refuses in which words, how it is shown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.settings.kinds import (
    Choice,
    Kind,
    Secret,
    Size,
    Span,
    Switch,
    Text,
    Url,
    Whole,
    Wrong,
    check_address,
    check_addresses,
    check_host,
    check_place,
    check_postgres,
    check_prefix,
    check_queues,
    check_redis,
    check_worker,
)

PORT = Whole(0, 65_535)
MEMORY = Size(1024, 2**30)
DRAIN = Span("0s", "1h")
LEVEL = Choice("debug", "info", "warning", "error")
ADDRESS = Text(check_address)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (PORT, "8080", 8080),
        (PORT, "0", 0),
        (Whole(-5, 5), "-5", -5),
        (Switch(), "true", True),
        (Switch(), "1", True),
        (Switch(), "YES", True),
        (Switch(), "False", False),
        (Switch(), "0", False),
        (Switch(), "no", False),
        (MEMORY, "128MiB", 134_217_728),
        (MEMORY, "64KB", 64_000),
        (MEMORY, "64kb", 64_000),
        (MEMORY, "64 KiB", 65_536),
        (MEMORY, "2048", 2_048),
        (MEMORY, "2048B", 2_048),
        (MEMORY, "1GiB", 2**30),
        (DRAIN, "10s", 10_000_000),
        (DRAIN, "1m30s", 90_000_000),
        (DRAIN, "0s", 0),
        (LEVEL, "warning", "warning"),
        (Url(), "https://h:8080/x", "https://h:8080/x"),
        (ADDRESS, "127.0.0.1:7070", "127.0.0.1:7070"),
    ],
)
def test_text_is_read(kind: Kind[Any], text: str, value: object) -> None:
    read = kind.of_text(text)

    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (PORT, 8080, 8080),
        (Switch(), False, False),
        (MEMORY, 2048, 2048),
        (MEMORY, "64KB", 64_000),
        (DRAIN, "500ms", 500_000),
        (LEVEL, "debug", "debug"),
        (Text(), "app.py", "app.py"),
    ],
)
def test_values_of_a_file_are_read(kind: Kind[Any], given: object, value: object) -> None:
    read = kind.of_file(given)

    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (PORT, "eighty", "'eighty' is no whole number; give one from 0 to 65535"),
        (PORT, "80.5", "'80.5' is no whole number; give one from 0 to 65535"),
        (PORT, "٣", "'٣' is no whole number; give one from 0 to 65535"),
        (PORT, "-1", "-1 is out of bounds; give one from 0 to 65535"),
        (PORT, "65536", "65536 is out of bounds; give one from 0 to 65535"),
        (PORT, "9" * 5000, f"'{'9' * 58}… is no whole number; give one from 0 to 65535"),
        (Switch(), "on", "'on' is neither true nor false; give true, 1, yes, false, 0 or no"),
        (MEMORY, "lots", "'lots' is no size; write it like 64KB, 128MiB or 1048576"),
        (MEMORY, "1.5MiB", "'1.5MiB' is no size; write it like 64KB, 128MiB or 1048576"),
        (MEMORY, "5 parsecs", "'5 parsecs' is no size; write it like 64KB, 128MiB or 1048576"),
        (MEMORY, "1B", "'1B' is out of bounds; give one from 1KiB to 1GiB"),
        (MEMORY, "2GiB", "'2GiB' is out of bounds; give one from 1KiB to 1GiB"),
        (DRAIN, "10", "'10' has no unit; write it like 10s"),
        (DRAIN, "soon", "'soon' is not a duration; write it like 500ms, 10s, 1h30m or 2d"),
        (DRAIN, "2h", "'2h' is out of bounds; give one from 0s to 1h"),
        (DRAIN, "9999d", "'9999d' is longer than the limit of 3660d"),
        (LEVEL, "warn", "'warn' is no choice; did you mean warning? It is one of debug, info, warning, error"),
        (LEVEL, "zzz", "'zzz' is no choice; give one of debug, info, warning, error"),
        (LEVEL, "", "'' is no choice; give one of debug, info, warning, error"),
        (Url(), "h:8080", "'h:8080' is no address of a server; write it like http://127.0.0.1:8080"),
        (Url(), "http://", "'http://' is no address of a server; write it like http://127.0.0.1:8080"),
        (Url(), "http://[::1", "'http://[::1' is no address of a server; write it like http://127.0.0.1:8080"),
        (Url(), "http://h:x", "'http://h:x' is no address of a server; write it like http://127.0.0.1:8080"),
        (ADDRESS, "7070", "'7070' is no host:port; write it like 127.0.0.1:50061"),
        (ADDRESS, "h:70000", "'h:70000' is no host:port; write it like 127.0.0.1:50061"),
        (ADDRESS, "http://h:1", "'http://h:1' is no host:port; write it like 127.0.0.1:50061"),
        (Text(), "a\0b", "it holds a NUL character"),
    ],
)  # fmt: skip
def test_text_that_cannot_be_is_refused(kind: Kind[Any], text: str, said: str) -> None:
    with pytest.raises(Wrong) as raised:
        kind.of_text(text)

    assert str(raised.value) == said


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (PORT, "8080", "'8080' is text; write 8080 without quotes"),
        (PORT, True, "true is no whole number; give one from 0 to 65535"),
        (PORT, 80.5, "80.5 is no whole number; give one from 0 to 65535"),
        (PORT, 65_536, "65536 is out of bounds; give one from 0 to 65535"),
        (PORT, {"a": 1}, "a table is no whole number; give one from 0 to 65535"),
        (PORT, [1], "a list is no whole number; give one from 0 to 65535"),
        (Switch(), "true", "'true' is neither true nor false; give one of these without quotes"),
        (Switch(), 1, "1 is neither true nor false; give one of these"),
        (MEMORY, True, "true is no size; write it like 64KB, 128MiB or 1048576"),
        (MEMORY, 12, "12 is out of bounds; give one from 1KiB to 1GiB"),
        (DRAIN, 10, '10 has no unit; write it like "10s"'),
        (DRAIN, 1.5, "1.5 is not a duration; write it like 500ms, 10s, 1h30m or 2d"),
        (LEVEL, 3, '3 is no text; give "debug" or "info" or "warning" or "error"'),
        (Text(told="`module:name`"), 5, "5 is no text; give `module:name` in quotes"),
    ],
)
def test_values_of_a_file_that_cannot_be_are_refused(
    kind: Kind[Any], given: object, said: str
) -> None:
    with pytest.raises(Wrong) as raised:
        kind.of_file(given)

    assert str(raised.value) == said


@given(st.integers(1024, 2**30))
def test_a_size_is_shown_as_it_can_be_read(value: int) -> None:
    assert MEMORY.of_text(MEMORY.show(value)) == value


@given(st.integers(0, 3_600_000))
def test_a_duration_is_shown_as_it_can_be_read(ms: int) -> None:
    assert DRAIN.of_text(DRAIN.show(ms * 1_000)) == ms * 1_000


def test_a_password_in_an_address_is_not_shown() -> None:
    assert Url().show("http://ann:secret@h:8080/x") == "http://ann:***@h:8080/x"
    assert Url().show("http://h:8080/a@b:c@d") == "http://h:8080/a@b:c@d"


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "0.0.0.0", "::", "::1", "fe80::1%eth0", "localhost", "a-b.example.com"]
)
def test_a_host_is_a_name_or_an_address(text: str) -> None:
    assert Text(check_host).of_text(text) == text


@pytest.mark.parametrize("text", ["http://h", "h:80", "a b", "-h", "/tmp/x", "[::1]", "ü"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(Wrong, match=r"is no host; write it like 127\.0\.0\.1"):
        Text(check_host).of_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "redis://h",
        "redis://:pw@h:6379/0",
        "rediss://u:pw@h:6379",
        "unix:///run/redis.sock",
        "redis+cluster://a:1,b:2,[::1]:3",
    ],
)
def test_a_redis_has_an_address(text: str) -> None:
    assert Url(check_redis).of_text(text) == text


@pytest.mark.parametrize(
    "text", ["h:6379", "http://u:canary@h", "redis://", "unix://", "redis://[x", "redis://h:0"]
)
def test_another_address_is_no_redis(text: str) -> None:
    with pytest.raises(Wrong, match="is no address of a Redis; write it like redis://") as raised:
        Url(check_redis).of_text(text)

    assert "canary" not in str(raised.value)


@pytest.mark.parametrize("text", ["a.db", "sqlite:///a.db", ":memory:", "postgresql://u:canary@h"])
def test_a_way_past_pgbouncer_is_a_postgresql_url(text: str) -> None:
    with pytest.raises(Wrong) as raised:
        Url(check_postgres).of_text(text)

    assert "postgresql://user" in str(raised.value)
    assert "canary" not in str(raised.value)


def test_several_addresses_have_commas_between() -> None:
    kind = Text(check_addresses)

    assert kind.of_text("a:1, b:2") == "a:1, b:2"
    with pytest.raises(Wrong, match=r"'b' is no host:port; write it like 127\.0\.0\.1:50051"):
        kind.of_text("a:1,b")


@pytest.mark.parametrize("given", [7, ["canary"], {"canary": 1}, "canary", "canary,canary", "x\0"])
def test_a_wrong_secret_is_refused_unseen(given: object) -> None:
    with pytest.raises(Wrong) as raised:
        Secret(32).of_file(given)

    assert "canary" not in str(raised.value)


def test_a_secret_is_long_enough_and_shown_as_stars() -> None:
    kind = Secret(32)
    two = f"{'a' * 32},{'ü' * 16}"

    assert (kind.of_text(two), kind.show(two), kind.show("")) == (two, "***", "")
    with pytest.raises(Wrong, match="too short; give 32 bytes or more, such as `openssl rand -hex"):
        kind.of_text(f"{'a' * 32},{'b' * 31}")


@pytest.mark.parametrize("text", ["default", "a,b", "a, b", "*", "mail_2.x-y"])
def test_queues_are_names_with_commas_between_or_every_one(text: str) -> None:
    assert Text(check_queues).of_text(text) == text


@pytest.mark.parametrize("text", [",", "a,,b", "a b", "-x", "a;b", "a" * 101])
def test_what_names_no_queue_is_refused(text: str) -> None:
    with pytest.raises(Wrong, match=r"names no queue; write it like default,mail"):
        Text(check_queues).of_text(text)


@pytest.mark.parametrize(("text", "good"), [("web-1", True), ("a b", False), ("a\nb", False)])
def test_a_worker_has_a_name_that_stands_in_a_line(text: str, good: bool) -> None:
    if good:
        assert Text(check_worker).of_text(text) == text
    else:
        with pytest.raises(Wrong, match="is no name"):
            Text(check_worker).of_text(text)


@pytest.mark.parametrize("text", ["h:1", "unix:/run/tenuto/socket"])
def test_a_language_server_is_at_an_address_or_a_socket(text: str) -> None:
    assert Text(check_place).of_text(text) == text


@pytest.mark.parametrize("text", ["unix:", "unix:relative", "/run/socket", "h"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(Wrong, match="is no host:port"):
        Text(check_place).of_text(text)


@pytest.mark.parametrize("text", ["", "prod:", "team-1.eu_"])
def test_a_prefix_of_keys(text: str) -> None:
    assert Text(check_prefix).of_text(text) == text


@pytest.mark.parametrize("text", ["{prod}", "a b", "x" * 101, "é:"])
def test_no_prefix_of_keys(text: str) -> None:
    with pytest.raises(Wrong, match="is no prefix"):
        Text(check_prefix).of_text(text)

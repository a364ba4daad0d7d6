"""What is wrong when a server starts: one line with cause and cure, no password, nothing started.

Catalogue S10, S24, S55, S56, L2, L3, L13, L14.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.backing.fixtures import postgres, redis  # noqa: F401 - fixtures
from tests.support.backing.postgres import Postgres
from tests.support.backing.redis import start_redis
from tests.support.cluster import upgraded
from tests.support.inside import Inside

USAGE, NOT_FOUND, CONFLICT, DENIED, UNAVAILABLE = 2, 3, 4, 5, 6
LONG = "s" * 32
CANARY = "canary-password"


@pytest.fixture
def tenuto(tmp_path: Path) -> Inside:
    return Inside(tmp_path)


@pytest.fixture(scope="module")
def dsn(postgres: Postgres) -> Iterator[str]:  # noqa: F811
    made = upgraded(postgres)
    yield made
    postgres.drop_database(made)


class Mistake(NamedTuple):
    what: str
    words: tuple[str, ...]
    said: str
    code: int = USAGE
    env: tuple[tuple[str, str], ...] = ()
    database: Callable[[str], str] = str


def other_password(dsn: str) -> str:
    scheme, rest = dsn.split("://")
    user, place = rest.split("@")
    return f"{scheme}://{user.split(':')[0]}:{CANARY}@{place}"


def no_password(dsn: str) -> str:
    return f"postgresql://tenuto@{dsn.split('@')[1]}"


def other_database(dsn: str) -> str:
    return dsn.rpartition("/")[0] + "/nowhere"


def other_user(dsn: str) -> str:
    return f"postgresql://nobody:{CANARY}@{dsn.split('@')[1]}"


SECRET = ("TENUTO_AUTH_SECRET", LONG)
TABLE = [
    Mistake("a file for a database", (), ".tenuto/tenuto.db is a file, which one process drives alone: `tenuto dev` "
            "does that; a server needs postgresql://user@host/name", database=lambda _: ".tenuto/tenuto.db"),
    Mistake("memory for a database", (), ":memory: is a file, which one process drives alone",
            database=lambda _: ":memory:"),
    Mistake("half a URL", (), "postgresql://u:***@h names no database; write it like postgresql://",
            database=lambda _: f"postgresql://u:{CANARY}@h"),
    Mistake("nobody listens there", (), "postgresql://127.0.0.1:1/x cannot be reached: nobody listens",
            UNAVAILABLE,            database=lambda _: f"postgresql://u:{CANARY}@127.0.0.1:1/x"),
    Mistake("an unknown host", (), "postgresql://no.such.host.invalid/x", UNAVAILABLE,
            database=lambda _: f"postgresql://u:{CANARY}@no.such.host.invalid/x"),
    Mistake("a wrong password", (), "refuses the password given for the user 'tenuto'; give the right user and "
            "password in the URL", UNAVAILABLE, database=other_password),
    Mistake("no password", (), "wants a password of the user 'tenuto', and none was given; give one in the URL",
            UNAVAILABLE, database=no_password),
    Mistake("an unknown user", (), "refuses the password given for the user 'nobody'", UNAVAILABLE,
            database=other_user),
    Mistake("an unknown database", (), "does not exist; make it with `createdb`", UNAVAILABLE,
            database=other_database),
    Mistake("others reach REST, no secret", ("--host", "0.0.0.0"), "--host: 0.0.0.0 can be reached by others, and "
            "there is no secret to tell them apart by; set TENUTO_AUTH_SECRET (32 bytes or more"),
    Mistake("others reach REST by IPv6, no secret", ("--host", "::"), "--host: :: can be reached by others"),
    Mistake("others reach the workers' service", ("--grpc-host", "0.0.0.0"), "--grpc-host: 0.0.0.0 can be reached by"),
    Mistake("no address of this machine", ("--host", "203.0.113.7"), "203.0.113.7 is no address of this machine",
            env=(SECRET,)),
    Mistake("an unknown name", ("--host", "no.such.host.invalid"), "no.such.host.invalid cannot be looked up",
            env=(SECRET,)),
    Mistake("no host at all", ("--host", "http://x"), "--host: 'http://x' is no host; write it like 127.0.0.1"),
    Mistake("a short secret", (), "TENUTO_AUTH_SECRET: it is too short; give 32 bytes or more",
            env=(("TENUTO_AUTH_SECRET", CANARY),)),
    Mistake("one of two secrets is short", (), "TENUTO_AUTH_SECRET: it is too short",
            env=(("TENUTO_AUTH_SECRET", f"{LONG},{CANARY}"),)),
    Mistake("a secret in two places", (), "auth.secret_file: there is auth.secret, too; keep one of them",
            env=(SECRET, ("TENUTO_AUTH_SECRET_FILE", "x"))),
    Mistake("a secret's file that is not there", (), "auth.secret_file: none.txt cannot be read: No such file",
            env=(("TENUTO_AUTH_SECRET_FILE", "none.txt"),)),
    Mistake("a secret's file that holds nothing", (), "auth.secret_file: empty.txt is empty; put a secret there",
            env=(("TENUTO_AUTH_SECRET_FILE", "empty.txt"),)),
    Mistake("Redis without its address", ("--dispatch", "redis"), "dispatch: dispatch by Redis needs its address; set "
            "redis.url (--redis, TENUTO_REDIS__URL)"),
    Mistake("no kind of dispatch", ("--dispatch", "kafka"), "--dispatch: 'kafka' is no choice; give one of auto"),
    Mistake("a Redis that is none", ("--redis", f"http://u:{CANARY}@h"), "error: --redis: 'http://u:***@h' is no "
            "address of a Redis; write it like"),
    Mistake("an unknown setting", (), "TENUTO_SERVER__PROT: there is no such variable; did you mean TENUTO_SERVER__P",
            env=(("TENUTO_SERVER__PROT", "1"),)),
    Mistake("a port that is none", ("--port", "70000"), "'--port': give 65535 or less"),
    Mistake("a lease that is too short", (), "TENUTO_SERVER__LEASE: '1s' is out of bounds; give one from 2s to 10m",
            env=(("TENUTO_SERVER__LEASE", "1s"),)),
]  # fmt: skip


@pytest.mark.parametrize("mistake", TABLE, ids=lambda mistake: mistake.what)
def test_a_server_that_cannot_start_says_why_in_one_line(
    tenuto: Inside, dsn: str, mistake: Mistake
) -> None:
    tenuto.write(empty_txt="\n")
    free = ("--port", "0", "--grpc-port", "0")
    env = {"TENUTO_DATABASE": mistake.database(dsn), **dict(mistake.env)}

    done = tenuto("server", *free, *mistake.words, env=env)

    assert mistake.said in done.stderr
    assert (done.returncode, done.stdout) == (mistake.code, ""), done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert CANARY not in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tenuto.folder / ".tenuto").exists()


@pytest.mark.parametrize("option", ["--port", "--grpc-port"])
def test_a_port_that_is_taken_is_named_with_its_holder_and_a_free_one(
    tenuto: Inside, dsn: str, option: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ports = {"--port": "0", "--grpc-port": "0", option: port}

        done = tenuto(
            "server", "--database", dsn, *[word for pair in ports.items() for word in pair]
        )

    assert done.returncode == CONFLICT
    assert done.stderr.startswith(f"error: port {port} is in use by process ")
    assert f" is free: {option} " in done.stderr


def test_a_schema_that_is_not_this_releases_is_refused_with_the_cure(
    tenuto: Inside,
    postgres: Postgres,  # noqa: F811
) -> None:
    empty, newer = postgres.create_database(), upgraded(postgres)
    name = newer.rpartition("/")[2]
    postgres.execute("INSERT INTO schema_migrations VALUES (9999, 'later', 'x', 0)", name)

    none = tenuto("server", "--database", empty, "--port", "0", "--grpc-port", "0")
    late = tenuto("server", "--database", newer, "--port", "0", "--grpc-port", "0", "--upgrade")

    assert (none.returncode, late.returncode) == (NOT_FOUND, CONFLICT)
    assert none.stderr.endswith(" has no tables of Tenuto yet; make them: tenuto db upgrade\n")
    assert "newer" in late.stderr
    for done in (none, late):
        assert len(done.stderr.splitlines()) == 1
    for url in (empty, newer):
        postgres.drop_database(url)


def test_a_redis_that_refuses_us_ends_the_start(tenuto: Inside, dsn: str) -> None:
    guarded = start_redis(password="right")
    try:
        wrong = guarded.url.replace("right", CANARY)
        done = tenuto(
            "server", "--database", dsn, "--port", "0", "--grpc-port", "0", "--redis", wrong
        )
    finally:
        guarded.close()

    assert (done.returncode, len(done.stderr.splitlines())) == (UNAVAILABLE, 1), done.stderr
    assert "refuses our password" in done.stderr
    assert CANARY not in done.stderr


def test_the_database_verbs_say_what_they_would_do_and_did(
    tenuto: Inside,
    postgres: Postgres,  # noqa: F811
) -> None:
    """Catalogue L14."""
    env = {"TENUTO_DATABASE": postgres.create_database()}
    shown = "postgresql://tenuto:***@"

    before = tenuto("db", "check", env=env)
    preview = tenuto("db", "upgrade", "--dry-run", env=env)
    still = tenuto("db", "current", env=env)
    done = tenuto("db", "upgrade", env=env)
    again = tenuto("db", "upgrade", env=env)
    after = tenuto("db", "check", env=env)
    listed = tenuto("db", "partitions", env=env)
    held = listed.stdout.splitlines()[-1].split()[0]
    looked = tenuto("db", "drop", held, "--dry-run", env=env)
    unknown = tenuto("db", "drop", "19990101", env=env)

    assert (before.returncode, "error    schema       lacks 0001_" in before.stdout) == (1, True)
    assert preview.stdout.startswith("0001_")
    assert "to apply; nothing was changed" in preview.stderr
    assert still.stdout == "0\n"
    assert (done.stdout, done.returncode) == (preview.stdout, 0)
    assert done.stderr.startswith(shown)
    assert (again.stdout, again.stderr.endswith("the schema is up to date\n")) == ("", True)
    assert (after.returncode, "ok       schema       up to date" in after.stdout) == (0, True)
    assert len(listed.stdout.splitlines()) >= 4
    assert looked.stderr.startswith(
        f"error: partition {held} is needed: runs of now, or of later, go there until"
    )
    assert (unknown.returncode, "list them: tenuto db partitions" in unknown.stderr) == (
        NOT_FOUND,
        True,
    )
    postgres.drop_database(env["TENUTO_DATABASE"])


def test_the_database_verbs_leave_a_file_to_its_engine(tenuto: Inside) -> None:
    for words in (("upgrade",), ("current",), ("check",), ("partitions",), ("drop", "x")):
        done = tenuto("db", *words)
        said = done.stderr + done.stdout
        assert (done.returncode, "an engine brings it up when it opens it" in said) == (USAGE, True)


def test_tokens_are_made_and_read(tenuto: Inside) -> None:
    env = {"TENUTO_AUTH_SECRET": LONG}
    made = tenuto("token", "create", "--scope", "worker", "--expires", "30d", "--queues", "b,a",
                  "--name", "shop", env=env)  # fmt: skip
    token = made.stdout.strip()

    shown = tenuto("token", "show", token)
    typed = tenuto("token", "show", "-", "-o", "json", input=made.stdout)

    assert (made.returncode, made.stderr, len(made.stdout.splitlines())) == (0, "", 1)
    assert "scope    worker\nname     shop\nqueues   a, b\n" in shown.stdout
    assert '"expired": false' in typed.stdout
    for words, said, code in [
        (
            ("create", "--scope", "admin", "--expires", "1h"),
            "there is no secret to sign it with; set",
            USAGE,
        ),
        (("create", "--scope", "root", "--expires", "1h"), "'root' is not one of", USAGE),
        (("create", "--scope", "admin"), "Missing option '--expires'", USAGE),
        (
            ("create", "--scope", "admin", "--expires", "soon"),
            "--expires: 'soon' is not a duration",
            USAGE,
        ),
        (
            ("create", "--scope", "admin", "--expires", "1s"),
            "--expires: 1s is out of bounds",
            USAGE,
        ),
        (
            ("create", "--scope", "worker", "--expires", "1h", "--queues", "a,,b"),
            "holds an empty name",
            USAGE,
        ),
        (("show", "hunter2"), "the token cannot be read: it is no JSON web token", DENIED),
    ]:
        done = tenuto("token", *words)
        assert (said in done.stderr, done.returncode) == (True, code), done.stderr
        assert "hunter2" not in done.stderr


def test_settings_and_doctor_show_no_secret(tenuto: Inside, dsn: str) -> None:
    env = {
        "TENUTO_AUTH_SECRET": f"{CANARY}{LONG}",
        "TENUTO_TOKEN": CANARY,
        "TENUTO_DATABASE": other_password(dsn),
        "TENUTO_REDIS__URL": f"redis://:{CANARY}@127.0.0.1:1/0",
        "TENUTO_URL": f"http://u:{CANARY}@127.0.0.1:1",
    }

    shown = tenuto("config", "show", "--sources", env=env)
    found = tenuto("doctor", env=env)

    assert (shown.returncode, found.returncode) == (0, 1)
    assert CANARY not in shown.stdout + shown.stderr + found.stdout + found.stderr
    for name in ("database", "redis", "server", "token"):
        assert f"  {name} " in found.stdout


def test_doctor_looks_at_a_whole_cluster(tenuto: Inside, dsn: str, redis: object) -> None:  # noqa: F811
    env = {"TENUTO_DATABASE": dsn, "TENUTO_REDIS__URL": redis.url}  # type: ignore[attr-defined]

    found = tenuto("doctor", env=env)

    assert found.returncode == 0, found.stdout
    flat = " ".join(found.stdout.split())
    for line in ("version PostgreSQL", "schema up to date", "news NOTIFY arrives",
                 "clock this machine is", "redis redis://"):  # fmt: skip
        assert line in flat


def test_a_folder_with_a_secret_that_anybody_may_write_is_no_place_for_it(
    tenuto: Inside, dsn: str
) -> None:
    file: Path = tenuto.folder / "secret"
    file.write_text(LONG)
    file.chmod(0o666)

    done = tenuto("server", "--database", dsn, env={"TENUTO_AUTH_SECRET_FILE": "secret"})

    assert (done.returncode, "anybody may write secret" in done.stderr) == (USAGE, True)

"""Commands and programs on a PostgreSQL database without a server: the whole system in one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.backing.fixtures import postgres  # noqa: F401 - a fixture
from tests.support.backing.postgres import Postgres
from tests.support.cluster import Serving, upgraded
from tests.support.command import APP, APPROVAL, GREET, json_of
from tests.support.command import Tenuto as Command
from tests.support.inside import Inside

from tenuto import Denied, Tenuto
from tenuto.app.access import create_token
from tenuto.model.errors import Unavailable
from tenuto.ports.access import Scope
from tenuto.settings.tree import Auth

SECRET = "s" * 32


@pytest.fixture
def dsn(postgres: Postgres) -> Iterator[str]:  # noqa: F811
    made = upgraded(postgres)
    yield made
    postgres.drop_database(made)


@pytest.fixture
def tenuto(tmp_path: Path) -> Inside:
    made = Inside(tmp_path)
    made.write(app_py=APP, greet_yaml=GREET, approval_yaml=APPROVAL)
    return made


def test_run_file_drives_its_run_there_and_the_others_read_it(tenuto: Inside, dsn: str) -> None:
    env = {"TENUTO_DATABASE": dsn}
    run = Command(tenuto.folder)  # it takes descriptors of its process
    first = run("run", "greet.yaml", "--set", "name=Ann", "--key", "K", "-o", "json", env=env)
    again = run("run", "greet.yaml", "--set", "name=Bob", "--key", "K", "-o", "json", env=env)
    run_id = json_of(first)["run_id"]

    assert (first.returncode, json_of(first)["state"]) == (0, "success")
    assert (again.returncode, json_of(again)["run_id"]) == (0, run_id)
    listed = tenuto("run", "list", "-o", "json", env=env)
    assert [row["run_id"] for row in json_of(listed)] == [run_id]
    for verb in ("show", "verify", "logs"):
        assert tenuto("run", verb, run_id, env=env).returncode == 0
    assert tenuto("run", "cancel", run_id, env=env).returncode == 4
    assert tenuto("workflow", "list", env=env).returncode == 0


def test_an_event_waits_there_for_who_wants_it(tenuto: Inside, dsn: str) -> None:
    env = {"TENUTO_DATABASE": dsn}
    sent = tenuto(
        "event", "send", "order.approved", "--key", "7", "--payload", "{}", "--id", "1", env=env
    )
    twice = tenuto(
        "event", "send", "order.approved", "--key", "7", "--payload", "{}", "--id", "1", env=env
    )

    assert (sent.returncode, "it is kept for 7 days" in sent.stderr) == (0, True)
    assert "dropped" in twice.stdout
    done = Command(tenuto.folder)("run", "approval.yaml", "--set", "id=7", "-o", "json", env=env)
    assert (done.returncode, json_of(done)["state"]) == (0, "success"), done.stderr


def test_what_needs_a_server_names_the_cure(tenuto: Inside, dsn: str) -> None:
    done = tenuto("run", "start", "greet", "--database", dsn)

    assert done.returncode == 6
    assert "this needs a server of postgresql://tenuto:***@" in done.stderr
    assert "name one with --url or TENUTO_URL, or start one with `tenuto server`" in done.stderr


def test_a_program_is_the_whole_system(tmp_path: Path, dsn: str) -> None:
    app = Tenuto(dsn)

    @app.task
    def double(n: int) -> int:
        return 2 * n

    try:
        assert app.enqueue(double, n=21).result() == 42
    finally:
        app.close()


def test_a_program_shows_a_server_its_token(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = create_token(Auth(secret=SECRET), Scope.ADMIN, lasts_us=3_600_000_000)
    definition = 'name: two\nnodes:\n  a: {type: set, values: {n: "${1 + 1}"}}\noutput: "${nodes.a.output.n}"\n'
    (tmp_path / "two.yaml").write_text(definition)
    with Serving(tmp_path, "--database", dsn, env={"TENUTO_AUTH_SECRET": SECRET}) as server:
        app = Tenuto(server.url)
        with pytest.raises(Denied, match="this needs a token; set TENUTO_TOKEN"):
            app.start(tmp_path / "two.yaml")
        app.close()

        monkeypatch.setenv("TENUTO_TOKEN", token)
        app = Tenuto(server.url)
        assert app.start(tmp_path / "two.yaml").result() == 2
        app.close()


def test_a_database_that_is_away_is_told_as_such() -> None:
    app = Tenuto("postgresql://u:canary@127.0.0.1:1/x")

    with pytest.raises(Unavailable, match="nobody listens there") as raised:
        app.open()

    assert "canary" not in str(raised.value)

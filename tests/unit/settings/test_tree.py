"""The table of settings itself: its names, and the defaults that people rely on."""

from __future__ import annotations

import pytest

from tenuto.settings import SETTINGS, Settings
from tenuto.settings.tree import Auth, Postgres, Redis


def test_a_row_has_its_name_in_every_source() -> None:
    rows = {row.name: row for row in SETTINGS}

    assert len(rows) == len(SETTINGS)
    assert (rows["worker.drain"].variable, rows["worker.drain"].option) == (
        "TENUTO_WORKER__DRAIN", "--drain",
    )  # fmt: skip
    assert (rows["app"].variable, rows["app"].option) == ("TENUTO_APP", "--app")


def test_tokens_and_secrets_have_the_short_names_that_people_expect() -> None:
    rows = {row.name: row.variable for row in SETTINGS}

    assert [rows[f"auth.{key}"] for key in ("secret", "secret_file", "token", "token_file")] == [
        "TENUTO_AUTH_SECRET", "TENUTO_AUTH_SECRET_FILE", "TENUTO_TOKEN", "TENUTO_TOKEN_FILE",
    ]  # fmt: skip
    assert {row.option for row in SETTINGS if row.name == "server.grpc_port"} == {"--grpc-port"}


def test_what_may_hold_a_password_stands_in_no_traceback() -> None:
    settings = Settings(
        database="postgresql://u:canary@h/d",
        url="http://u:canary@h",
        auth=Auth(secret="canary" * 6, token="canary"),
        redis=Redis(url="redis://:canary@h"),
        postgres=Postgres(listen_url="postgresql://u:canary@h/d"),
    )

    assert "canary" not in repr(settings)
    assert "canary" not in str(settings.sources())


def test_every_setting_says_what_it_is_in_one_sentence() -> None:
    assert [row.name for row in SETTINGS if not row.doc.endswith(".") or "\n" in row.doc] == []


@pytest.mark.rule("D1.2")
def test_the_defaults_are_those_of_one_machine() -> None:
    assert [(name, value) for name, value, _ in Settings().sources()] == [
        ("app", ""),
        ("database", ".tenuto/tenuto.db"),
        ("dispatch", "auto"),
        ("url", ""),
        ("dev.port", "8080"),
        ("dev.watch", "true"),
        ("server.host", "127.0.0.1"),
        ("server.port", "8080"),
        ("server.grpc_host", "127.0.0.1"),
        ("server.grpc_port", "50051"),
        ("server.drain", "10s"),
        ("server.lease", "10s"),
        ("server.reflection", "false"),
        ("postgres.listen_url", ""),
        ("postgres.pool", "10"),
        ("redis.url", ""),
        ("redis.prefix", ""),
        ("auth.secret", ""),
        ("auth.secret_file", ""),
        ("auth.token", ""),
        ("auth.token_file", ""),
        ("worker.server", "127.0.0.1:50051"),
        ("worker.queues", "default"),
        ("worker.name", ""),
        ("worker.slots", "50"),
        ("worker.threads", "16"),
        ("worker.processes", "2"),
        ("worker.drain", "10s"),
        ("worker.task_processes", "0"),
        ("worker.grace", "30s"),
        ("languages.processes", "2"),
        ("languages.memory", "128MiB"),
        ("languages.time", "10s"),
        ("languages.output", "1MiB"),
        ("languages.cpython", "restricted"),
        ("languages.server", ""),
        ("api.body", "4MiB"),
        ("api.requests_per_second", "200"),
        ("api.burst", "400"),
        ("log.level", "info"),
        ("log.format", "text"),
    ]

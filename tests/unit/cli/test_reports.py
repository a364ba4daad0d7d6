"""A run's document back as a report."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.rest import AWAIT, ECHO, Server, serving

from tenuto.cli.reports import report_of
from tenuto.views.answers import Answers
from tenuto.views.report import Report, report_json


@pytest.fixture(scope="module")
def server() -> Any:
    with serving() as made:
        made.deploy(ECHO)
        made.deploy(AWAIT)
        yield made


def report(server: Server, run_id: str) -> Report:
    answers = Answers(reads=server.engine.reads, now=lambda: 0, database="my file.db")
    return server.engine.call(answers.report(run_id)).result(30)


def test_what_has_ended_is_shown_as_its_file_would_show_it(server: Server) -> None:
    run_id = server.start("echo", {"n": 1}, key="k")
    server.wait(run_id)
    near = report(server, run_id)

    far = report_of(report_json(near))

    assert far.nodes[0].id == near.nodes[0].id == "say"
    assert (far.state, far.key, far.output) == ("success", "k", {"n": 1, "greeting": "hello"})
    assert abs(far.lasted_us - near.lasted_us) < 1_000, "instants have milliseconds"
    assert (far.input, far.vars) == (near.input, near.vars)
    assert report_json(far)["nodes"] == report_json(near)["nodes"]
    assert report_json(far)["timeline"] == report_json(near)["timeline"]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("", "tenuto event send order.approved --key 7 --payload '{…}'"),
        (
            " --url http://h",
            "tenuto event send order.approved --key 7 --payload '{…}' --url http://h",
        ),
    ],
)
def test_commands_name_the_server_and_not_its_file(
    server: Server, words: str, command: str
) -> None:
    run_id = server.start("approval", {"order": "7"})
    near = report(server, run_id)
    assert near.waits[0].command.endswith("--database 'my file.db'")

    [waiting] = report_of(report_json(near), words).waits

    assert waiting.command == command
    assert waiting.waits_for == "event order.approved key 7"
    server.post(f"/v1/runs/{run_id}/cancel", {})

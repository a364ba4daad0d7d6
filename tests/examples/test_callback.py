"""The press is called, and calls back over REST: in time, with an error, never; and another run hears of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.dev import Dev
from tests.support.examples import EXAMPLES, attempts, states
from tests.support.services import service


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """One server for all tests here; each has runs of its own."""
    with Dev(
        tmp_path_factory.mktemp("server"), str(EXAMPLES / "callback"), "--no-watch"
    ) as running:
        yield running


@pytest.fixture(scope="module")
def press() -> Iterator[str]:
    with service("callback") as url:
        yield url


@pytest.fixture
def slow_press(tmp_path: Path) -> Iterator[str]:
    """One that gives many signs of life for one order, far closer together than anybody's patience."""
    text = (EXAMPLES / "callback" / "service.py").read_text()
    for old, new in (("SHEET_S = 0.1\n", "SHEET_S = 0.3\n"), (" else 3):\n", " else 20):\n")):
        assert text.count(old) == 1
        text = text.replace(old, new)
    (tmp_path / "service.py").write_text(text)
    with service(str(tmp_path)) as url:
        yield url


def start(server: Dev, workflow: str, given: dict[str, object], **constants: str) -> str:
    body = {"workflow": workflow, "input": given, "vars": constants}
    answer = server.ask("POST", "/v1/runs", json=body)
    assert answer.is_success, answer.text
    run_id: str = answer.json()["run_id"]
    return run_id


def ended(server: Dev, run_id: str) -> dict[str, Any]:
    assert server.ask("GET", f"/v1/runs/{run_id}/wait?timeout=30").is_success
    report: dict[str, Any] = server.ask("GET", f"/v1/runs/{run_id}").json()
    return report


def order(server: Dev, press: str, book: str, copies: int = 7, patience: str = "30s") -> Any:
    given: dict[str, object] = {"book": book, "copies": copies}
    constants = {"press": press, "tenuto": server.url, "patience": patience}
    return ended(server, start(server, "callback", given, **constants))


def test_the_press_calls_back_and_the_run_that_waits_for_the_book_goes_on(
    server: Dev, press: str
) -> None:
    shelf = start(server, "shelf", {"book": "Emma"})
    report = order(server, press, "Emma")

    assert report["state"] == "success"
    assert report["output"]["copies"] == 7
    assert report["output"]["job"].startswith("job-")
    # The rule for http.5xx: the press warms up at the first try.
    assert attempts(report, "order") == [("failed", "http.503"), ("success", None)]
    assert ended(server, shelf)["output"] == "7 copies of Emma on shelf 5"


def test_the_order_of_telling_and_waiting_does_not_matter(server: Dev, press: str) -> None:
    order(server, press, "Persuasion")

    assert ended(server, start(server, "shelf", {"book": "Persuasion"}))["state"] == "success"


def test_an_event_with_an_error_is_the_failure_of_the_wait(server: Dev, press: str) -> None:
    report = order(server, press, "a jam session")

    assert report["state"] == "failed"
    assert report["error"]["code"] == "not_printed"
    assert report["error"]["message"] == "a jam session: paper_jam: the paper is stuck"
    assert states(report)["printed"] == "dead"


def test_a_press_that_gives_no_sign_of_life_is_given_up(server: Dev, press: str) -> None:
    report = order(server, press, "silence", patience="200ms")

    assert report["state"] == "failed"
    assert report["error"]["message"].startswith("silence: heartbeat_timeout: ")


def test_signs_of_life_keep_the_wait_open(server: Dev, slow_press: str) -> None:
    # Six seconds of them: longer than the patience, which a machine that stands still for a while does not use up.
    report = order(server, slow_press, "Sanditon", patience="5s")

    assert report["state"] == "success"
    [printed] = [step for step in report["timeline"] if step["node"] == "printed"]
    assert printed["duration_us"] > 5_000_000


def test_an_answer_that_no_rule_names_is_final(server: Dev, press: str) -> None:
    report = order(server, press, "War and Peace", copies=5000)

    assert attempts(report, "order") == [("failed", "http.422")]
    assert (report["state"], report["error"]["code"]) == ("failed", "http.422")

"""A parent and its children on a server: an alias, a computed name, a scope that is tried again, one let go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.dev import Dev
from tests.support.examples import EXAMPLES, states

LINES = [{"what": "tea", "cents": 300}, {"what": "cake", "cents": 450}]
CHEAP = """
name: invoice
input: {type: object, required: [customer, lines]}
nodes: {gift: {type: set, values: {total: 1}}}
output: {number: "GIFT", total: "${nodes.gift.output.total}"}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """One server for all tests here; each has runs of its own."""
    with Dev(tmp_path_factory.mktemp("server"), str(EXAMPLES / "family"), "--no-watch") as running:
        yield running


def stable(server: Dev, version: int) -> None:
    body = {"version": version}
    answer = server.ask("PUT", "/v1/workflows/invoice/aliases/stable", json=body)
    assert answer.is_success, answer.text


def start(server: Dev, folder: Path, **more: object) -> str:
    given = {"customer": "Ada", "lines": LINES, "folder": str(folder), **more}
    answer = server.ask("POST", "/v1/runs", json={"workflow": "family", "input": given})
    assert answer.is_success, answer.text
    run_id: str = answer.json()["run_id"]
    return run_id


def ended(server: Dev, run_id: str) -> dict[str, Any]:
    assert server.ask("GET", f"/v1/runs/{run_id}/wait?timeout=30").is_success
    report: dict[str, Any] = server.ask("GET", f"/v1/runs/{run_id}").json()
    return report


def children(server: Dev, run_id: str) -> list[tuple[str, str]]:
    """(workflow, state) of a run's children that are waited for or not, once they all have ended."""
    path = f"/v1/runs/{run_id}/children"
    found = server.until_document(path, lambda page: all(run["ended_at"] for run in page["items"]))
    return sorted((child["workflow"], child["state"]) for child in found["items"])


def test_all_children_do_their_part_and_the_scope_is_tried_again_as_a_whole(
    server: Dev, tmp_path: Path
) -> None:
    stable(server, 1)
    report = ended(server, start(server, tmp_path / "site"))

    assert report["state"] == "success"
    output = report["output"]
    assert (output["invoice"]["cents"], output["file"]) == (750, "report.txt")
    assert output["invoice"]["number"].startswith("ADA-")
    assert (tmp_path / "site" / "report.txt").read_text() == "Ada owes 750 cents\n"
    # The first session is over too soon; the second try of the scope has one of its own.
    assert sorted(path.name for path in (tmp_path / "site" / "sessions").iterdir()) == ["1", "2"]
    assert children(server, report["run_id"]) == [
        *(("archive", "success"), ("family", "failed"), ("family", "success")),
        *(("invoice", "success"), ("report.short", "success")),
    ]  # a graph in `do` is of its workflow, and each try of it a run of its own


def test_a_child_that_is_not_waited_for_outlives_its_parent(server: Dev, tmp_path: Path) -> None:
    stable(server, 1)
    run_id = start(server, tmp_path / "site")
    output = ended(server, run_id)["output"]
    archive = ended(server, output["archive"])

    assert (archive["workflow"], archive["state"]) == ("archive", "success")
    assert archive["output"] == {"kept": output["invoice"]["number"]}
    assert archive["parent"]["run_id"] == run_id  # who started it


def test_a_scope_that_fails_for_good_takes_one_failure_edge(server: Dev, tmp_path: Path) -> None:
    stable(server, 1)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "closed").touch()
    report = ended(server, start(server, tmp_path / "site", report="long"))

    assert report["state"] == "success"
    assert (report["output"]["file"], report["output"]["by_hand"]) == (
        None,
        "child_failed: session 3 is over",
    )
    assert states(report)["upload"] == "dead"
    assert ("report.long", "success") in children(server, report["run_id"])
    assert children(server, report["run_id"]).count(("family", "failed")) == 3  # its retry


def test_the_alias_decides_which_version_is_called(server: Dev, tmp_path: Path) -> None:
    stable(server, 1)
    assert server.ask("POST", "/v1/workflows", json={"source": CHEAP}).is_success
    first = ended(server, start(server, tmp_path / "one"))
    stable(server, 2)
    second = ended(server, start(server, tmp_path / "two"))

    assert [run["output"]["invoice"]["cents"] for run in (first, second)] == [750, 1]


def test_without_the_alias_the_call_is_dead_and_says_so(server: Dev, tmp_path: Path) -> None:
    server.ask("DELETE", "/v1/workflows/invoice/aliases/stable")
    report = ended(server, start(server, tmp_path / "site"))

    assert report["state"] == "failed"
    assert (report["error"]["code"], report["error"]["node"]) == ("unknown_workflow", "invoice")

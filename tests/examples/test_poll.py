"""The loop that polls: as often as needed, with data from pass to pass, and not for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.command import Tenuto, json_of
from tests.support.examples import attempts, definition, edited, payment_service, states


@pytest.mark.parametrize("looks", [1, 3])
def test_it_looks_until_the_export_is_ready(tenuto: Tenuto, tmp_path: Path, looks: int) -> None:
    with payment_service(tmp_path, "--looks", str(looks)) as service:
        report = json_of(
            tenuto("run", str(definition("poll")), "--var", f"service={service.url}", "-o", "json")
        )

    assert report["state"] == "success"
    assert report["output"] == {"report": f"export-1 has 3 rows, and was looked at {looks} times"}
    places = [step["place"] for step in report["timeline"] if step["node"] == "look"]
    assert places == [f"look.{number}" for number in range(1, looks + 1)]
    assert len(attempts(report, "again")) == looks - 1
    [counter] = [node for node in report["nodes"] if node["id"] == "counter"]
    assert counter["iteration"] == looks
    verified = tenuto("run", "verify", report["run_id"])
    assert verified.returncode == 0, verified.stderr


def test_an_export_that_is_never_ready_exhausts_the_loop(tenuto: Tenuto, tmp_path: Path) -> None:
    impatient = edited("poll", tmp_path, {"max: 40": "max: 4", "for: 250ms": "for: 10ms"})
    with payment_service(tmp_path, "--looks", "1000") as service:
        done = tenuto("run", str(impatient), "--var", f"service={service.url}", "-o", "json")

    report = json_of(done)
    assert (done.returncode, report["state"]) == (1, "failed")
    assert report["error"]["code"] == "loop_exhausted"
    assert report["error"]["node"] == "again"  # where the edge goes back (L2)
    assert len([step for step in report["timeline"] if step["node"] == "look"]) == 4
    assert states(report)["fetch"] != "success"
    assert tenuto("run", "verify", report["run_id"]).returncode == 0

"""The order against the real payment service in its own process, with its seeded 5xx and hangs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import HANG_S, Tenuto, json_of, read_until
from tests.support.examples import (
    EXAMPLES,
    PaymentService,
    attempts,
    definition,
    edited,
    payment_service,
    states,
)

ORDER = "A-7"


def words(service: PaymentService, amount: float, file: Path | None = None) -> list[str]:
    """The command line of one order; amounts above 5000 need an approval."""
    order = json.dumps({"order_id": ORDER, "amount": amount})
    return [
        *("run", str(file or definition("order")), "--input", order),
        *("--var", f"payments={service.url}", "-o", "json"),
    ]


def patient(folder: Path, time: str, more: dict[str, str] | None = None) -> Path:
    """The example with this time for each payment: one that is answered is no timeout on a slow machine or disk."""
    charge, refund = '"${input.amount}"}\n    timeout: ', 'body.id}"}\n    timeout: '
    changes = {f"{text}1s\n": f"{text}{time}\n" for text in (charge, refund)}
    return edited("order", folder, {**changes, **(more or {})})


def run_approved(
    tenuto: Tenuto, service: PaymentService, background: list[subprocess.Popen[str]], file: Path
) -> dict[str, Any]:
    """An order that needs the approval, which is sent as an event by another process while it waits."""
    process = tenuto.start(*words(service, 9000, file))
    background.append(process)
    read_until(process, ["waits for event"])
    assert tenuto("event", "send", "order.approved", "--key", ORDER).returncode == 0
    out, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, err
    report: dict[str, Any] = json.loads(out)
    return report


def assert_charged_once(service: PaymentService, run_id: str) -> None:
    """One effect, under the key of the run's own task."""
    [charge] = service.effects("/charges")
    assert charge["key"] == f"{run_id}/charge"
    assert charge["for"]["order"] == ORDER


def assert_verified(tenuto: Tenuto, run_id: str) -> None:
    done = tenuto("run", "verify", run_id)
    assert (done.returncode, done.stdout[:3]) == (0, "ok:"), done.stderr


@pytest.mark.parametrize(
    ("seed", "codes"),
    [
        (1, ["http.500"]),  # refused
        (2, ["http.503"]),  # busy, with Retry-After
        (8, ["http.500"]),  # done, though the answer says otherwise
        (35, ["http.500", "timeout"]),  # done, the answer says otherwise; then no answer at all
    ],
)
def test_a_charge_that_goes_wrong_is_tried_again_and_made_once(
    tenuto: Tenuto,
    background: list[subprocess.Popen[str]],
    tmp_path: Path,
    seed: int,
    codes: list[str],
) -> None:
    file = patient(tmp_path, "3s" if "timeout" in codes else "30s")
    with payment_service(tmp_path, "--seed", str(seed)) as service:
        report = run_approved(tenuto, service, background, file)

        assert report["state"] == "success"
        assert report["output"]["charge"] == "charge-1"
        assert report["output"]["parcel"].startswith("parcel-")
        assert attempts(report, "charge") == [
            *(("failed", code) for code in codes),
            ("success", None),
        ]
        assert_charged_once(service, report["run_id"])
        assert service.asked() == {f"/charges {report['run_id']}/charge": len(codes) + 1}
        assert {node: state for node, state in states(report).items() if state != "success"} == {
            "cool_off": "skipped",
            "refund": "skipped",
        }
        assert_verified(tenuto, report["run_id"])


def test_a_small_order_cools_off_and_needs_no_approval(tenuto: Tenuto, tmp_path: Path) -> None:
    with payment_service(tmp_path, "--seed", "1") as service:
        report = json_of(tenuto(*words(service, 100, patient(tmp_path, "30s"))))

        assert report["state"] == "success"
        assert states(report)["approval"] == "skipped"
        [wait] = [step for step in report["timeline"] if step["node"] == "cool_off"]
        assert (wait["what"], wait["result"]) == ("wait", "success")
        assert wait["duration_us"] >= 2_000_000
        assert_charged_once(service, report["run_id"])
        assert_verified(tenuto, report["run_id"])


def test_without_an_approval_in_time_the_charge_is_refunded(tenuto: Tenuto, tmp_path: Path) -> None:
    hasty = patient(tmp_path, "30s", {"timeout: 2d": "timeout: 200ms"})
    with payment_service(tmp_path, "--seed", "1") as service:
        report = json_of(tenuto(*words(service, 9000, hasty)))

        # The failure edge caught it: the order ends well, though without a parcel.
        assert report["state"] == "success"
        assert report["output"] == {"charge": "charge-1", "parcel": None}
        assert {node: states(report)[node] for node in ("approval", "refund", "ship")} == {
            "approval": "dead",
            "refund": "success",
            "ship": "skipped",
        }
        assert attempts(report, "approval") == [("failed", "timeout")]
        assert len(attempts(report, "refund")) == 2  # this seed's first refund goes wrong too
        [refund] = service.effects("/refunds")
        assert refund["for"] == {"charge": "charge-1"}
        assert_charged_once(service, report["run_id"])
        assert_verified(tenuto, report["run_id"])


def test_a_payment_that_never_succeeds_fails_the_run_with_its_code(
    tenuto: Tenuto, tmp_path: Path
) -> None:
    quick = patient(tmp_path, "30s", {"initial: 200ms": "initial: 20ms"})
    with payment_service(tmp_path, "--down") as service:
        done = tenuto(*words(service, 9000, quick))
        report = json_of(done)

        assert done.returncode == 1
        assert report["state"] == "failed"
        assert (report["error"]["code"], report["error"]["node"]) == ("http.500", "charge")
        assert attempts(report, "charge") == [("failed", "http.500")] * 6
        assert set(states(report).values()) <= {"dead", "skipped", "cancelled", "pending"}
        assert service.effects("/charges") == []
        assert_verified(tenuto, report["run_id"])


@pytest.mark.parametrize("moment", ["never answers", "waits for event"])
def test_kill_9_in_the_middle_and_carry_on_charges_once(
    tenuto: Tenuto, background: list[subprocess.Popen[str]], tmp_path: Path, moment: str
) -> None:
    # Killed while the first charge hangs: however late, it is not over by itself. Else its time has to run out.
    file = patient(tmp_path, "60s" if moment == "never answers" else "3s")
    with payment_service(tmp_path, "--seed", "19") as service:
        process = tenuto.start(*words(service, 9000, file))
        background.append(process)
        if moment == "never answers":  # the money is taken, and the engine will never hear of it
            service.wait_for(moment)
        else:
            read_until(process, [moment])
        process.kill()
        process.communicate()
        [left] = json_of(tenuto("run", "list", "-o", "json"))
        assert left["state"] == "running"

        assert tenuto("event", "send", "order.approved", "--key", ORDER).returncode == 0
        report = json_of(tenuto("run", str(file), "--carry-on", left["run_id"], "-o", "json"))

        assert (report["run_id"], report["state"]) == (left["run_id"], "success")
        assert attempts(report, "charge")[-1] == ("success", None)
        assert len(attempts(report, "charge")) == 2
        assert len(attempts(report, "ship")) == 1
        assert_charged_once(service, left["run_id"])
        assert service.asked() == {f"/charges {left['run_id']}/charge": 2}
        assert_verified(tenuto, left["run_id"])


def test_the_whole_example_runs_by_one_command(tenuto: Tenuto) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "order" / "main.py")],
        cwd=tenuto.folder,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0].startswith("The payment service listens at "), "not held back by a pipe"
    assert any("charge 1 failed" in line and line.endswith("http.500") for line in lines)
    assert any("charge 3 success" in line for line in lines)
    assert "charge-1, asked for 3 times with the key" in lines[-1]
    assert list(tenuto.folder.iterdir()) == []  # nothing is left behind

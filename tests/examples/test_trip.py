"""The saga against the real agency in its own process: nothing is booked, or all of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.command import HANG_S, Tenuto, json_of
from tests.support.examples import EXAMPLES, attempts, definition, states
from tests.support.services import service


@dataclass
class Agency:
    """examples/trip/service.py at work."""

    url: str
    journal: Path

    def did(self) -> list[str]:
        """Everything that it did, in order: what, and to which booking."""
        if not self.journal.exists():
            return []
        lines = [json.loads(line) for line in self.journal.read_text().splitlines()]
        return [f"{line['what']} {line['id'] or line['for']['to']}" for line in lines]


@contextmanager
def agency(folder: Path, *words: str) -> Iterator[Agency]:
    journal = folder / "journal.jsonl"
    with service("trip", "--journal", str(journal), *words) as url:
        yield Agency(url, journal)


def words(agency: Agency) -> list[str]:
    run = ["run", str(definition("trip")), "--set", "traveller=Ada", "-o", "json"]
    return [*run, "--var", f"agency={agency.url}"]


def test_a_trip_is_booked_whole(tenuto: Tenuto, tmp_path: Path) -> None:
    with agency(tmp_path) as desk:
        report = json_of(tenuto(*words(desk)))

        assert report["state"] == "success"
        assert report["output"] == {"hotel": "hotel-1", "flight": "flight-2", "car": "car-3"}
        assert report["compensation"] == "none"
        # Every first try meets a busy desk, and is made again under the same key.
        assert attempts(report, "car") == [("failed", "http.503"), ("success", None)]
        assert desk.did() == ["booked hotel-1", "booked flight-2", "booked car-3"]
        assert tenuto("run", "verify", report["run_id"]).returncode == 0


def test_C3_without_a_car_flight_and_hotel_are_given_back_last_first(
    tenuto: Tenuto, tmp_path: Path
) -> None:
    with agency(tmp_path, "--no-cars") as desk:
        done = tenuto(*words(desk))

        report = json_of(done)
        assert (done.returncode, report["state"]) == (1, "failed")
        assert (report["error"]["code"], report["error"]["node"]) == ("http.409", "car")
        assert attempts(report, "car") == [("failed", "http.409")]  # given up at once
        assert report["compensation"] == "complete"
        assert report["output"] is None
        assert states(report) == {"hotel": "success", "flight": "success", "car": "dead"}
        assert desk.did() == [
            *("booked hotel-1", "booked flight-2"),
            *("cancelled flight-2", "cancelled hotel-1"),
            "told Ada",  # C4: when the undoing is over
        ]
        assert tenuto("run", "verify", report["run_id"]).returncode == 0


def test_C3_what_cannot_be_undone_is_recorded_and_the_rest_is_undone(
    tenuto: Tenuto, tmp_path: Path
) -> None:
    with agency(tmp_path, "--no-cars", "--stuck", "flights") as desk:
        report = json_of(tenuto(*words(desk)))

        assert report["state"] == "failed"
        assert report["error"]["node"] == "car"  # the outcome is still what it was
        assert report["compensation"] == "partial"
        undone = [step["result"] for step in report["timeline"] if step["place"] == "flight!undo"]
        assert undone == ["failed"] * 4  # its own retries
        assert desk.did()[2:] == ["cancelled hotel-1", "told Ada"]
        assert tenuto("run", "verify", report["run_id"]).returncode == 0


def test_the_whole_example_runs_by_one_command(tenuto: Tenuto) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "trip" / "main.py")],
        cwd=tenuto.folder,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-5:] == [
        "  booked hotel-1",
        "  booked flight-2",
        "  cancelled flight-2",
        "  cancelled hotel-1",
        "  told No trip to Lisbon: car said http.409",
    ]
    assert list(tenuto.folder.iterdir()) == []  # nothing is left behind

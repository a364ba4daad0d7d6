"""The table of settings itself: its names, and the defaults that people rely on."""

from __future__ import annotations

import pytest

from tenuto.settings import SETTINGS, Settings


def test_a_row_has_its_name_in_every_source() -> None:
    rows = {row.name: row for row in SETTINGS}

    assert len(rows) == len(SETTINGS)
    assert (rows["worker.drain"].variable, rows["worker.drain"].option) == (
        "TENUTO_WORKER__DRAIN", "--drain",
    )  # fmt: skip
    assert (rows["app"].variable, rows["app"].option) == ("TENUTO_APP", "--app")


def test_every_setting_says_what_it_is_in_one_sentence() -> None:
    assert [row.name for row in SETTINGS if not row.doc.endswith(".") or "\n" in row.doc] == []


@pytest.mark.rule("D1.2")
def test_the_defaults_are_those_of_one_machine() -> None:
    assert [(name, value) for name, value, _ in Settings().sources()] == [
        ("app", ""),
        ("database", ".tenuto/tenuto.db"),
        ("url", ""),
        ("dev.port", "8080"),
        ("dev.watch", "true"),
        ("worker.slots", "50"),
        ("worker.threads", "16"),
        ("worker.processes", "2"),
        ("worker.drain", "10s"),
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

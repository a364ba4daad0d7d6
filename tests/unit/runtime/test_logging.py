"""Logs are structured, go where they are told, and leave the host program's own settings alone."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from tenuto.runtime.logging import _Shape, configure, get_logger


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """The engine's logger as it was."""
    root = logging.getLogger("tenuto")
    kept = (root.handlers[:], root.level, root.propagate, _Shape.as_json, _Shape.console)
    yield
    root.handlers[:], root.propagate = kept[0], kept[2]
    root.setLevel(kept[1])
    _Shape.as_json, _Shape.console = kept[3], kept[4]


def test_as_json_each_line_is_one_object_with_context_level_and_time() -> None:
    out = io.StringIO()
    configure(as_json=True, stream=out)
    get_logger("worker", worker="w-1").warning("lease_ran_out", attempt=2)

    line = json.loads(out.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "lease_ran_out", "level": "warning", "worker": "w-1", "attempt": 2}


def test_for_people_a_line_has_the_event_and_its_context() -> None:
    out = io.StringIO()
    configure(as_json=False, stream=out)
    get_logger("worker").info("lease_ran_out", attempt=2)

    assert "lease_ran_out" in out.getvalue()
    assert "attempt=2" in out.getvalue()
    assert "\x1b" not in out.getvalue()  # no colours where nobody sees them


def test_what_is_below_the_level_is_not_written() -> None:
    out = io.StringIO()
    configure(as_json=True, level="warning", stream=out)
    get_logger().info("quiet")

    assert out.getvalue() == ""


def test_an_exception_is_part_of_its_line() -> None:
    out = io.StringIO()
    configure(as_json=True, stream=out)
    try:
        raise ValueError("odd")
    except ValueError:
        get_logger().exception("executor_failed")

    [line] = out.getvalue().splitlines()
    assert "ValueError: odd" in json.loads(line)["exception"]


def test_for_people_an_exception_follows_its_line() -> None:
    out = io.StringIO()
    configure(as_json=False, stream=out)
    try:
        raise ValueError("odd")
    except ValueError:
        get_logger().exception("executor_failed")

    assert out.getvalue().count("ValueError: odd") == 1


def test_configuring_again_replaces_the_earlier_choice() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure(as_json=True, stream=first)
    configure(as_json=True, stream=second)
    get_logger().info("once")

    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


def test_an_unknown_level_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="use debug, info"):
        configure(as_json=True, level="loud")


def test_unconfigured_lines_go_to_the_host_programs_logging(
    caplog: pytest.LogCaptureFixture,
) -> None:
    get_logger("worker").warning("lease_ran_out", attempt=2)

    assert caplog.messages == ["event='lease_ran_out' attempt=2 level='warning'"]


def test_the_host_programs_structlog_is_not_touched() -> None:
    before = structlog.get_config()
    configure(as_json=True, stream=io.StringIO())
    get_logger().info("anything")

    assert structlog.get_config() == before

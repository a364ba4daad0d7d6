"""Structured logs on stderr: events in `snake_case`, past tense, with bound context. Never payloads, never headers.

Everything goes through the standard library's logger `tenuto`, so a program that embeds the engine decides itself where
logs go; structlog's own global configuration belongs to that program and is not touched. `configure` is for the CLI.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

ROOT = "tenuto"

Logger = structlog.stdlib.BoundLogger

_plain = structlog.processors.KeyValueRenderer(key_order=["event"])
_json = structlog.processors.JSONRenderer(sort_keys=True)
_stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)


class _Shape:
    """How a line looks; one for the process, since a process has one stderr."""

    as_json = False
    console: structlog.dev.ConsoleRenderer | None = None


def _render(
    logger: Any, method: str, event: MutableMapping[str, Any]
) -> tuple[tuple[str], dict[str, Any]]:
    """Turn an event into the line that the handler writes, a traceback included; the record has the event itself as
    `tenuto`, for handlers that write lines of their own.
    """
    fields = dict(event)
    if _Shape.console is not None:
        line = _Shape.console(logger, method, _stamp(logger, method, event))
    else:
        event = structlog.processors.format_exc_info(logger, method, event)
        if _Shape.as_json:
            line = str(_json(logger, method, _stamp(logger, method, event)))
        else:
            line = _plain(logger, method, event)
    if "exception" in event:
        fields["exception"] = event["exception"]
    fields.pop("exc_info", None)
    return (line,), {
        "exc_info": False,
        "extra": {"tenuto": fields},
    }  # or the standard library would add the traceback again


def get_logger(name: str = ROOT, **bound: object) -> Logger:
    """A logger under `tenuto`, with context bound to each of its lines."""
    path = name if name == ROOT or name.startswith(f"{ROOT}.") else f"{ROOT}.{name}"
    logger: Logger = structlog.wrap_logger(
        logging.getLogger(path),
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            _render,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    return logger.bind(**bound) if bound else logger


def configure(*, as_json: bool, level: str = "info", stream: TextIO | None = None) -> None:
    """Send the engine's logs to `stream` (stderr): one JSON object a line, or coloured lines for people.

    Calling it again replaces the earlier choice.

    Raises:
        ValueError: `level` is not one of debug, info, warning, error, critical.
    """
    numbers = logging.getLevelNamesMapping()
    if level.upper() not in numbers:
        raise ValueError(f"{level!r} is no log level; use debug, info, warning, error or critical")
    target = sys.stderr if stream is None else stream
    _Shape.as_json = as_json
    _Shape.console = (
        None
        if as_json
        else structlog.dev.ConsoleRenderer(
            colors=target.isatty(),
            pad_event_to=24,
            # The default shows the values of variables: payloads, headers.
            exception_formatter=structlog.dev.plain_traceback,
        )
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(logging.Formatter("%(message)s"))
    root = logging.getLogger(ROOT)
    root.handlers[:] = [handler]
    root.setLevel(numbers[level.upper()])
    root.propagate = False

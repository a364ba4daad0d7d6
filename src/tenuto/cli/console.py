"""Where answers and notes go: answers to stdout, everything else to stderr. Decides nothing about their looks."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import localtime, strftime
from typing import Any, TextIO, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenuto.cli.render import clean
from tenuto.model.errors import Unavailable
from tenuto.views.timeline import label_of

WIDTH_ELSEWHERE = 200
"""Columns where there is no terminal: enough that tables keep their lines."""
PLAIN_FROM = 200
"""Rows of a table that is drawn."""
SAID_MAX = 1_000
"""Different lines of trouble remembered, so that one that comes again is not said again."""


PRINTED = "tenuto.code"
"""The logger of what code nodes print."""
_USERS = ("tenuto.task", PRINTED)
"""Loggers whose lines are the user's: as they are, and as often as they come."""
_WORDS = {
    "app_not_loaded": "the app cannot be loaded any more",
    "app_not_reloaded": "the app cannot be loaded anew, so the old one works on",
    "app_reloaded": "the app was loaded anew",
    "attempt_failed": "failed",
    "attempt_waits_for_earlier_one": "an attempt waits until the one before has ended",
    "call_failed": "a worker's call failed inside, which is a bug",
    "changes_not_told": "pages and watchers were not told what changed",
    "child_died": "a task's process died",
    "child_makes_no_sense": "a task's process sent what makes no sense, and was killed",
    "children_crashed": "the keeper of task processes crashed",
    "children_left_behind": "task processes were left behind",
    "clock_set_back": "the clock of the database was set back",
    "database_away": "the database cannot be used",
    "database_back": "the database is there again",
    "database_noted": "about the database",
    "database_replaced": "another database answers",
    "dispatch_failed": "dispatch by Redis failed inside, which is a bug",
    "engine_crashed": "the engine crashed",
    "executor_failed": "an attempt could not be carried out",
    "exit_in_user_task_ignored": "a task tried to end the process, which goes on",
    "functions_back": "the functions of the database are there again",
    "functions_gone": "functions of the database have gone",
    "functions_not_made": "the functions of the database cannot be made yet",
    "functions_refused": "the functions of the database may not be made",
    "gateway_available": "the engine is there again",
    "gateway_unavailable": "the engine is unavailable just now; trying again",
    "http_server_said": "the HTTP server says",
    "idle_child_died": "an idle process for tasks died",
    "language_server_away": "no language server answers; code nodes wait for it, up to 30 s each",
    "language_server_back": "the language server is there again",
    "job_failed": "a job of the database failed inside, which is a bug",
    "language_server_died": "the server that runs code died; the next code starts another",
    "lease_ran_out": "its lease ran out, so the engine may have started it again",
    "leases_left_to_recovery": "attempts under way are left to the next engine",
    "loop_failed": "a part of the server failed inside, which is a bug; it tries again",
    "news_lost": "nothing is heard of other servers, which costs up to a second",
    "news_failed": "what was heard of other servers could not be used; it is tried again",
    "partitions_delayed": "partitions are made later",
    "partitions_made": "partitions were made",
    "partitions_not_made": "partitions cannot be made",
    "protocol_broken": "a worker does not keep to the protocol, and was sent away",
    "redis_in_use": "tasks go by Redis",
    "redis_may_lose_streams": "Redis may lose what it is given, which costs time",
    "redis_not_used": "Redis cannot be used",
    "request_failed": "a request failed",
    "run_quarantined": "a run is quarantined, and goes on once it is resumed",
    "secrets_not_read": "the secrets cannot be read anew",
    "secrets_read": "the secrets were read anew",
    "server_connected": "connected",
    "server_left": "the server asks to go elsewhere",
    "server_lost": "no connection to a server; trying again",
    "server_said": "the server says",
    "server_unreachable": "still no connection to a server",
    "serving": "serving",
    "slow_client_dropped": "a client that read too slowly was dropped",
    "stopped": "stopped",
    "stopping": "stopping",
    "stream_failed": "a worker's stream failed inside, which is a bug",
    "task_missing": "a task is missing",
    "task_process_died": "a task process died, and what it was doing is handed out again",
    "work_could_not_be_stopped": "a task does not stop: its thread goes on, unheeded",
    "worker_connected": "a worker has come",
    "worker_gone": "a worker has gone",
    "worker_left_unnoticed": "the worker could not say that it leaves; its attempts are handed out again later",
    "worker_not_registered": "the engine could not be told which tasks there are; trying again",
    "worker_refused": "a worker was refused",
    "workers_served": "workers are let in",
}
"""Events of the engine's log -> what they say to people."""


class _Out:
    """The streams of answers and of notes; None for plain stdout and stderr. `lost`: whoever read it has left."""

    stream: TextIO | None = None
    notes: TextIO | None = None
    lost = False


class _Heedless:
    """A stream whose loss (a reader who has left, a full disk) stops nothing: progress is not the run."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or do not."""
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, or do not."""
        with suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Answers(Console):
    """Leaves it to us what a lost reader means: rich would end the process."""

    def on_broken_pipe(self) -> None:
        """Nobody reads any more, which is no error."""
        _silence(self.file.fileno())


def say(text: object) -> None:
    """One line of an answer.

    Raises:
        Unavailable: it cannot be written. A reader who has left is no error.
    """
    stream = _answering()
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except BrokenPipeError:
        _Out.lost = True
        _silence(stream.fileno())
    except OSError as error:
        _silence(stream.fileno())
        raise Unavailable(f"standard output cannot be written: {error.strerror}") from None


def is_unheard() -> bool:
    """Whether whoever read the answers has left: reason enough to stop what has no end."""
    return _Out.lost


def note(text: object) -> None:
    """One line beside the answer."""
    stream = _Heedless(_Out.notes or sys.stderr)
    stream.write(f"{text}\n")
    stream.flush()


def answers() -> Console:
    """For tables on stdout: as wide as the terminal, and never cut where there is none."""
    stream = _answering()
    width = None if stream.isatty() else WIDTH_ELSEWHERE
    return _Answers(file=stream, highlight=False, width=width)


def show_table(table: Table) -> None:
    """A table on stdout. A long one is lined up without regard to the terminal's width: that takes no time."""
    if table.row_count <= PLAIN_FROM:
        answers().print(table)
        return
    columns = [
        [str(column.header), *(str(getattr(cell, "plain", cell)) for cell in column.cells)]
        for column in table.columns
    ]
    widths = [max(map(len, cells)) for cells in columns]
    rows = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in zip(*columns, strict=True))
    say("\n".join(rows))


def notes() -> Console:
    """For progress on stderr."""
    stream = cast("TextIO", _Heedless(_Out.notes or sys.stderr))
    return Console(file=stream, highlight=False, soft_wrap=True)


@contextmanager
def progress(text: str, console: Console | None = None) -> Iterator[Callable[[int], None]]:
    """A line on a terminal that counts while something takes its time; nothing elsewhere. `text` holds `{}`."""
    console = console or notes()
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(text.format(0)) as status:
        yield lambda count: status.update(text.format(count))


def _answering() -> TextIO:
    """The stream of answers, after what the user's code has printed so far."""
    if _Out.stream is None:
        return sys.stdout
    with suppress(AttributeError, OSError, ValueError):  # lost: the end of the process tells
        sys.stdout.flush()
    return _Out.stream


def _silence(number: int) -> None:
    """Let what is written to a file descriptor vanish; or Python would try again at its end."""
    plug = os.open(os.devnull, os.O_RDWR)
    if plug != number:
        os.dup2(plug, number)
        os.close(plug)


@contextmanager
def kept_streams() -> Iterator[None]:
    """Around the loading of a user's code: whatever it does to stdout and stderr, answers and notes still come out.

    What it closed is plugged afterwards, or the next file to be opened, perhaps the database, would be written to as if
    it were the terminal.
    """
    if _Out.stream is None:
        _Out.stream = _own(sys.stdout)
    if _Out.notes is None:
        _Out.notes = _own(sys.stderr)
    yield
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            _silence(number)


def reserve_stdout() -> None:
    """From here on only `say` writes to stdout; what the user's tasks print goes to stderr. Once per process."""
    if _Out.stream is None:
        sys.stdout.flush()
        _Out.stream = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
        os.dup2(2, 1)


def _own(stream: TextIO) -> TextIO:
    stream.flush()
    return os.fdopen(
        os.dup(stream.fileno()), "w", encoding=stream.encoding, errors="backslashreplace"
    )


class Trouble(logging.Handler):
    """Shows the engine's warnings beside the progress, each once, and what tasks log.

    With `as_json` each line is one JSON object instead of words.
    """

    def __init__(self, console: Console, *, as_json: bool = False) -> None:
        super().__init__()
        self._console = console
        self._as_json = as_json
        self._said: set[str] = set()

    def install(self, level: str = "info") -> None:
        """Take over the engine's logger. Tasks are shown from `level` on; the engine's own lines below a warning only
        for `debug`, since the progress says what it does.
        """
        if self._as_json:
            from tenuto.runtime.logging import configure

            configure(as_json=True)
        root = logging.getLogger("tenuto")
        root.handlers[:] = [self]
        tasks = logging.getLevelNamesMapping()[level.upper()]
        for name in _USERS:
            logging.getLogger(name).setLevel(tasks)
        root.setLevel(tasks if tasks == logging.DEBUG else max(tasks, logging.WARNING))

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line above the live view."""
        fields = dict(getattr(record, "tenuto", None) or {"event": record.getMessage()})
        if record.name not in _USERS:
            put_in_words(fields)
            text = f"{record.name} {fields}"  # without the time of a line
            if text in self._said or len(self._said) >= SAID_MAX:
                return
            self._said.add(text)
        if self._as_json:
            self._console.print(Text(record.getMessage()))
            return
        style = "yellow" if record.levelno >= logging.WARNING else "dim"
        at = strftime("%H:%M:%S", localtime(record.created))
        if record.name == PRINTED:
            fields["event"] = fields.pop("text", "")
        for line in log_lines(fields, at):
            # Styled text: a `style` of print would also tint the live view below the line.
            self._console.print(Text(line, style=style))


class Lines(logging.Handler):
    """Shows all that a server or a worker logs, a line each, as long as it runs."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def install(self, level: str, *, as_json: bool) -> None:
        """Take over the engine's logger from `level` on. With `as_json` each line is one JSON object."""
        from tenuto.runtime.logging import configure

        configure(as_json=True, level=level)
        if not as_json:
            logging.getLogger("tenuto").handlers[:] = [self]

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line, and below it what has several."""
        fields = dict(getattr(record, "tenuto", None) or {"event": record.getMessage()})
        below = [str(line) for line in fields.pop("last_lines", ())]
        if record.name == PRINTED:
            fields["event"] = fields.pop("text", "")
        else:
            first, *more = str(fields.get("reason", "")).splitlines() or [""]
            if more:
                fields["reason"], below = first, [*more, *below]
            put_in_words(fields)
        if below:
            fields["exception"] = "\n".join([*below, str(fields.get("exception", ""))])
        style = "yellow" if record.levelno >= logging.WARNING else ""
        at = strftime("%H:%M:%S", localtime(record.created))
        for line in log_lines(fields, at, with_run=True):
            self._console.print(Text(line, style=style))


def put_in_words(fields: dict[str, object]) -> None:
    """Say an event of the engine's in words, with its reason behind a colon. JSON keeps the event's name."""
    words = _WORDS.get(str(fields.get("event")))
    if words is not None:
        reason = fields.pop("reason", None) or fields.pop("text", None)
        fields["event"] = words if reason is None else f"{words}: {reason}"


def log_lines(fields: dict[str, object], at: str, *, with_run: bool = False) -> list[str]:
    """A log event for people: when, which attempt, what, then `name=value`; a traceback below it. `with_run`: there
    are other runs beside it.
    """
    trouble = str(fields.pop("exception", "")).splitlines()
    level, task = fields.pop("level", ""), str(fields.pop("task_id", ""))
    words = [at]
    if task:
        run = fields.pop("run_id", None) or task.partition("/")[0]
        attempt = fields.pop("attempt", 1)
        words.append(label_of(task.partition("/")[2]))
        if attempt != 1:
            words.append(f"(attempt {attempt})")
        if with_run:
            words[-1] += ":"
            fields["run"] = run
    if level in ("warning", "error", "critical"):
        words.append(f"{level}:")
    words.append(str(fields.pop("event", "")))
    words += [f"{name}={_plainly(value)}" for name, value in fields.items()]
    return [clean(" ".join(words)), *(f"  {clean(line)}" for line in trouble)]


def _plainly(value: object) -> str:
    """Text as it is, unless it has gaps."""
    return value if isinstance(value, str) and value and " " not in value else repr(value)

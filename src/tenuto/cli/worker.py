"""`tenuto worker`: one worker of a cluster, from its first lines to its exit code. What it does is `app.worker`'s."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from time import strftime
from typing import TYPE_CHECKING

from tenuto.cli.apps import app_name
from tenuto.cli.console import Lines, note, notes
from tenuto.model.errors import InvalidInput, TenutoError
from tenuto.model.instants import format_duration
from tenuto.runtime.logging import get_logger
from tenuto.settings import load

if TYPE_CHECKING:
    from tenuto.app import worker
    from tenuto.worker.handle import Known

ENTRY = "tenuto.cli.task_process:main"
_NAMED_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The command line, as given; None is not given."""

    app: str | None = None
    queues: str | None = None
    server: str | None = None
    processes: int | None = None
    slots: int | None = None
    name: str | None = None
    grace: str | None = None
    languages: str | None = None
    http: bool = True
    code: bool = True


def work(wanted: Wanted) -> int:
    """Work until told to stop; 0 once drained.

    Raises:
        InvalidInput: settings, or an app that cannot be loaded.
        Unavailable: the servers refuse this worker, or its own launcher has died.
    """
    from tenuto.app.worker import Wanted as Given
    from tenuto.app.worker import Worker

    settings = load(
        {
            "worker.queues": wanted.queues,
            "worker.server": wanted.server,
            "worker.task_processes": wanted.processes,
            "worker.slots": wanted.slots,
            "worker.name": wanted.name,
            "worker.grace": wanted.grace,
            "languages.server": wanted.languages,
        }
    )
    app = app_name(wanted.app, None)
    if app is None:
        raise InvalidInput(
            "a worker needs to know where your tasks are; name your app with -A module:app, or set"
            " `app` in tenuto.toml"
        )
    as_json = settings.log.format == "json"
    Lines(notes()).install(settings.log.level, as_json=as_json)
    given = Given(app=app, entry=ENTRY, settings=settings, http=wanted.http, code=wanted.code)
    try:
        Worker(given, teller := _Teller(as_json=as_json)).run()
    except OSError as error:
        raise TenutoError(f"a worker cannot be started: {error.strerror or error}") from None
    teller.stopped()
    return 0


class _Teller:
    """Says how it goes, on stderr: words with their time, or events as the log has them."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._grace = ""

    def _tell(self, event: str, *lines: str, **fields: object) -> None:
        if self._as_json:
            get_logger("worker").info(event, **fields)
            return
        at = strftime("%H:%M:%S")
        for line in lines:
            note(f"{at} {line}")

    def stopped(self) -> None:
        """It has drained."""
        self._tell("stopped", "stopped")

    def loading(self, wanted: worker.Wanted) -> None:
        """Loading the app takes long."""
        self._tell(
            "app_loading",
            f"the app {wanted.app} is still being imported; what it does meanwhile takes its time",
            app=wanted.app,
        )

    def started(self, wanted: worker.Wanted, name: str, tasks: Sequence[Known]) -> None:
        """At most six lines, whatever there is."""
        setting = wanted.settings
        self._grace = format_duration(setting.worker.grace_us)
        count = wanted.processes
        processes = f"{count} task {'process' if count == 1 else 'processes'}"
        lines = [
            f"worker {name} (process {os.getpid()}): {setting.worker.slots} slots in {processes}",
            f"servers {', '.join(wanted.servers)}; queues {', '.join(wanted.queues)}",
        ]
        names = [each.name for each in tasks]
        more = ", …" if len(names) > _NAMED_MAX else ""
        listed = ", ".join(names[:_NAMED_MAX])
        if names:
            lines.append(
                f"app {wanted.app}: {len(names)} task{'' if len(names) == 1 else 's'}: {listed}{more}"
            )
        else:
            lines.append(f"app {wanted.app}: no tasks yet: register with @app.task")
        where = setting.languages.server or "by a language server of its own"
        lines.append(f"http {_on(wanted.http)}; code {f'on, {where}' if wanted.code else 'off'}")
        self._tell(
            "worker_started",
            *lines,
            worker=name,
            process=os.getpid(),
            slots=setting.worker.slots,
            processes=count,
            servers=wanted.servers,
            queues=wanted.queues,
            app=wanted.app,
            tasks=len(names),
            http=wanted.http,
            code=wanted.code,
        )

    def connected(self, server: str) -> None:
        """A server has this worker now, for the first time."""
        self._tell("connected", f"connected to {server}" if server else "connected", server=server)

    def stopping(self, *, at_once: bool) -> None:
        """A signal came."""
        text = f"stopping: tasks under way have {self._grace}; the same again gives them back"
        text = "giving back what has not ended" if at_once else text
        self._tell("stopping", text, at_once=at_once)


def _on(is_on: bool) -> str:
    return "on" if is_on else "off"

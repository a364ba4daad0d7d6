"""`tenuto run list|show|cancel|pause|resume`: reading the local file, engine running or not; asking
something of a run, where none is.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tenuto.cli.console import answers, note, say
from tenuto.cli.look import now_us, read
from tenuto.cli.render import cures, detail_view, run_json, runs_table
from tenuto.model.errors import InvalidInput, NotFound, Unavailable
from tenuto.model.ids import RunId
from tenuto.model.states import RunState
from tenuto.ports.reads import RunFilter
from tenuto.settings import Database, parse_database
from tenuto.views.cures import go_on_command
from tenuto.views.look import History, find_run, look, plain
from tenuto.views.report import Report, report_json, shown_state
from tenuto.views.timeline import step_json

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from tenuto.coordinator.commands import Commands
    from tenuto.ports.reads import Reads
    from tenuto.ports.store import RunRow

STATES = ("pending", "running", "paused", *list(RunState)[2:])
"""As people see them."""
START_HINT = "start one with `tenuto run FILE`"


def list_runs(
    url: str | None, *, workflow: str | None, states: tuple[str, ...], limit: int, output: str
) -> int:
    """Print runs, newest first. An empty list is no error."""
    for state in states:
        if state not in STATES:
            raise InvalidInput(
                f"there is no state {state!r}; there are {', '.join(STATES)}", path="--state"
            )
    if workflow is not None:
        workflow = plain(workflow)
    database = parse_database(url)
    rows: Sequence[RunRow] = ()
    if database.path is not None and database.path.exists():
        wanted = RunFilter(workflow=workflow, states=states, limit=limit)
        rows = read(database, lambda reads: _page(reads, wanted))
    if output == "json":
        say(json.dumps([run_json(row) for row in rows], ensure_ascii=False))
    elif output == "jsonl":
        for row in rows:
            say(json.dumps(run_json(row), ensure_ascii=False))
    elif rows:
        answers().print(runs_table(rows, now_us()))
        if len(rows) == limit:
            note(f"the newest {limit}; --limit shows more")
    else:
        filtered = " of that kind" if workflow is not None or states else ""
        note(f"no runs{filtered} in {database}; {START_HINT}")
    return 0


async def _page(reads: Reads, wanted: RunFilter) -> Sequence[RunRow]:
    """Runs by the state that people see: a paused one is not listed as running, one that failed
    while it was paused not as paused.
    """
    found: list[RunRow] = []
    while page := await reads.list_runs(wanted):
        found += [
            row
            for row in page
            if not wanted.states or shown_state(row.state, paused=row.paused) in wanted.states
        ]
        if len(found) >= wanted.limit or len(page) < wanted.limit:
            break
        wanted = replace(wanted, before=page[-1].run_id)
    return found[: wanted.limit]


def show_run(url: str | None, text: str, *, output: str) -> int:
    """Print all about one run. The exit code says whether it could be shown, not how it ended."""
    database = parse_database(url)
    report = read_run(database, text, named=url is not None)
    if output == "table":
        console = answers()
        console.print(detail_view(report))
        for lead, command in cures(report):
            console.print(f"\n{lead}", markup=False)
            console.print(f"  {command}", markup=False, soft_wrap=True)
    elif output == "json":
        say(json.dumps(report_json(report), ensure_ascii=False))
    else:
        for step in report.timeline:
            say(json.dumps(step_json(step, report.created_at)))
        say(json.dumps(report_json(report), ensure_ascii=False))
    return 0


def read_run(database: Database, text: str, *, named: bool) -> Report:
    """Everything about the run that `text` means. Raises NotFound."""

    async def gather(reads: Reads) -> Report:
        run_id = await find_run(reads, text)
        shown = str(database) if named else ""
        report, _, _ = await look(
            reads, run_id, now=now_us(), database=shown, history=History(), engine=engine
        )
        return report

    must_exist(database, text)
    engine = _engine_of(database)
    return read(database, gather)


def _engine_of(database: Database) -> str | None:
    from tenuto.app.files import engine_of

    assert database.path is not None
    try:
        return engine_of(database.path)
    except Unavailable:
        return ""  # somebody else's file: it can be read, its lock cannot


def cancel_run(url: str | None, text: str, reason: str) -> int:
    """Cancel an unfinished run of a file that no engine has open."""
    from tenuto.dsl.limits import REASON_MAX
    from tenuto.dsl.storable import check_word

    check_word(reason, "--reason", REASON_MAX)
    run_id = _command(url, text, lambda commands, run_id: commands.cancel(run_id, reason))
    say(f"run {run_id} cancelled")
    return 0


def pause_run(url: str | None, text: str) -> int:
    """Pause an unfinished run of a file that no engine has open."""
    run_id = _command(url, text, lambda commands, run_id: commands.pause(run_id))
    say(f"run {run_id} paused")
    return 0


def resume_run(url: str | None, text: str) -> int:
    """Lift the pause or the quarantine of a run of a file that no engine has open; nothing of it
    is driven.
    """
    run_id = _command(url, text, lambda commands, run_id: commands.resume(run_id))
    say(f"run {run_id} resumed")
    database = "" if url is None else str(parse_database(url))
    note(f"no engine drives it; carry it on with:\n  {go_on_command(run_id, database)}")
    return 0


def _command(
    url: str | None, text: str, ask: Callable[[Commands, RunId], Coroutine[Any, Any, None]]
) -> RunId:
    """Ask something of a run; an engine drives nothing meanwhile."""
    from tenuto.app.embedded import Engine

    database = parse_database(url)
    must_exist(database, text)
    run_id: RunId = read(database, lambda reads: find_run(reads, text))
    engine = Engine(database.place, focus=True)
    engine.start()
    try:
        engine.call(ask(engine.commands, run_id)).result()
    finally:
        engine.stop(grace_s=1.0)
    return run_id


def must_exist(database: Database, run: str) -> None:
    """Raise NotFound when there is no file that could hold the run."""
    if database.path is None or not database.path.exists():
        raise NotFound("run", run, f"there is no file {database}; {START_HINT}")

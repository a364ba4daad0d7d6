"""`tenuto run list|show|cancel`: reading the local file, engine running or not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tenuto.cli.console import answers, note, say
from tenuto.cli.look import History, find_run, look, now_us, read
from tenuto.cli.render import detail_view, run_json, runs_table
from tenuto.cli.report import Report, report_json, step_json
from tenuto.model.errors import InvalidInput, NotFound
from tenuto.model.ids import RunId
from tenuto.model.states import RunState
from tenuto.ports.reads import RunFilter
from tenuto.settings import Database, parse_database

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenuto.ports.reads import Reads
    from tenuto.ports.store import RunRow

START_HINT = "start one with `tenuto run FILE`"


def list_runs(
    url: str | None, *, workflow: str | None, states: tuple[str, ...], limit: int, output: str
) -> int:
    """Print runs, newest first. An empty list is no error."""
    for state in states:
        if state not in {*RunState}:
            raise InvalidInput(
                f"there is no state {state!r}; there are {', '.join(RunState)}", path="--state"
            )
    database = parse_database(url)
    rows: Sequence[RunRow] = ()
    if database.path is not None and database.path.exists():
        wanted = RunFilter(workflow=workflow, states=states, limit=limit)
        rows = read(database, lambda reads: reads.list_runs(wanted))
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


def show_run(url: str | None, text: str, *, output: str) -> int:
    """Print all about one run. The exit code says whether it could be shown, not how it ended."""
    database = parse_database(url)
    report = read_run(database, text, named=url is not None)
    if output == "table":
        answers().print(detail_view(report))
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
        report, _, _ = await look(reads, run_id, now=now_us(), database=shown, history=History())
        return report

    must_exist(database, text)
    return read(database, gather)


def cancel_run(url: str | None, text: str, reason: str) -> int:
    """Cancel an unfinished run of a file that no engine has open."""
    from tenuto.app.embedded import Engine

    database = parse_database(url)
    must_exist(database, text)
    run_id: RunId = read(database, lambda reads: find_run(reads, text))
    engine = Engine(database.place, focus=True)
    engine.start()
    try:
        engine.call(engine.commands.cancel(run_id, reason)).result()
    finally:
        engine.stop(grace_s=1.0)
    say(f"run {run_id} cancelled")
    return 0


def must_exist(database: Database, run: str) -> None:
    """Raise NotFound when there is no file that could hold the run."""
    if database.path is None or not database.path.exists():
        raise NotFound("run", run, f"there is no file {database}; {START_HINT}")

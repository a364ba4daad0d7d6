"""`tenuto run verify`: folds a run's history, in this process, and compares it with what the
engine stored.

Reads only; the process that decided the run is another one. Source: DESIGN section 4, "History".
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from tenuto.cli.console import note, say
from tenuto.cli.look import read
from tenuto.cli.runs import must_exist
from tenuto.model.errors import InvalidInput
from tenuto.model.ids import RunId
from tenuto.ports.reads import Reads, RunFilter
from tenuto.settings import parse_database
from tenuto.views.look import find_run
from tenuto.views.verify import Checked, check_run, checked_json

_RUNS_PAGE = 500


def verify(url: str | None, text: str | None, *, every: bool, output: str) -> int:
    """Verify one run, or every run of the file. Exit code 1 when one differs."""
    if every == (text is not None):
        raise InvalidInput("give the ID of one run, or --all")
    database = parse_database(url)
    must_exist(database, text or "--all")
    checked = read(database, lambda reads: _check_all(reads, text))
    if output == "table":
        for each in checked:
            line = str(each) if text is not None else f"{each.run_id}  {each}"
            (note if each.differences else say)(line)
        if every and not checked:
            say("this file holds no runs")
    elif output == "json":
        made = [checked_json(each) for each in checked]
        say(json.dumps(made[0] if text is not None else made))
    else:
        for each in checked:
            say(json.dumps(checked_json(each)))
    return 1 if any(each.differences for each in checked) else 0


async def _check_all(reads: Reads, text: str | None) -> Sequence[Checked]:
    if text is not None:
        return [await check_run(reads, await find_run(reads, text))]
    checked: list[Checked] = []
    before: RunId | None = None
    while rows := await reads.list_runs(RunFilter(before=before, limit=_RUNS_PAGE)):
        checked += [await check_run(reads, row.run_id) for row in rows]
        before = rows[-1].run_id
    return checked

"""`tenuto run watch|wait|logs`: what goes on with runs that somebody else drives, by a server's stream or by looking at
the file again and again. Stops nothing: Ctrl-C ends the watching only.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from tenuto.cli.console import is_unheard, note, notes, say
from tenuto.cli.door import Door, File, Server, ask, must_exist
from tenuto.cli.interrupts import Interrupts
from tenuto.cli.render import cures, end_text, short_id, value_text
from tenuto.cli.runs import look_at
from tenuto.cli.screen import REDRAW_S, Screen
from tenuto.cli.tables import note_line
from tenuto.model.errors import TenutoError, Unavailable
from tenuto.model.states import FINAL_RUN_STATES, RunState
from tenuto.views.answers import Answers
from tenuto.views.report import Report, report_json, waits_told

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from tenuto.cli.door import Source

Document = dict[str, Any]
_T = TypeVar("_T")

POLL_S = 0.2
"""How often a file is looked at."""
NEWS_S = 5.0
"""And how often a server is asked where its stream says nothing: ages and due times go on."""
TELL_S = 5.0
"""After which somebody who waits is told what for."""
BLIND_MAX = 10
"""How often in a row a server may fail to show a run whose stream goes on."""
TIMED_OUT = 124


class _Stopped(Exception):
    """Somebody pressed Ctrl-C, or ended the command otherwise. `code`: to exit with."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(code)


def watch_run(door: Door, text: str, *, output: str) -> int:
    """Show a run until its end; exit code 0 when it succeeded, else 1."""
    if isinstance(door, File):
        must_exist(door, text)
    words = door.words if isinstance(door, Server) and output == "table" else ""

    async def watch(source: Source) -> Report:
        report, document = await look_at(source, text, words)
        _say_undriven(report)
        screen = Screen(notes(), output)
        with screen.live() as live:

            async def show() -> bool:
                nonlocal report, document
                report, document = await look_at(source, report.run_id, words)
                screen.show(report, live)
                return report.is_final or report.quarantine is not None

            await _each_change(source, report.run_id, show)
        screen.tell(report, document)
        return report

    try:
        report = _until_interrupt(door, watch, output)
    except _Stopped as stopped:
        note("no longer watching; the run goes on")
        return stopped.code
    return 0 if report.state == RunState.SUCCESS else 1


def wait_for(door: Door, texts: Sequence[str], *, timeout_s: float | None, output: str) -> int:
    """Wait until all runs have ended; 0 when all succeeded, 1 when one did not, 124 when the time is up."""
    if isinstance(door, File):
        must_exist(door, texts[0])

    async def wait(source: Source) -> list[Document]:
        ended: list[Document] = []
        clock = asyncio.get_running_loop().time
        until = None if timeout_s is None else clock() + timeout_s
        for text in texts:
            left = None if until is None else max(0.0, until - clock())
            ended.append(await _end_of(source, text, left, telling=output == "table"))
        return ended

    try:
        reports = _until_interrupt(door, wait, output)
    except _Stopped as stopped:
        note("no longer waiting; the runs go on")
        return stopped.code
    if output == "json":
        say(json.dumps(reports[0] if len(reports) == 1 else reports, ensure_ascii=False))
    for report in reports:
        if output == "jsonl":
            say(json.dumps(report, ensure_ascii=False))
        elif output == "table":
            say(f"run {report['run_id']} {end_text(report['state'], report['error'])}")
            if report["state"] == RunState.SUCCESS:
                say(f"output:\n{value_text(report['output'])}")
    states = [report["state"] for report in reports]
    if any(state in FINAL_RUN_STATES and state != RunState.SUCCESS for state in states):
        return 1
    if any(report["quarantine"] for report in reports):
        note("a quarantined run goes on only when it is resumed")
        return 1
    if all(state == RunState.SUCCESS for state in states):
        return 0
    note("the time is up; the runs go on")
    for report in reports:
        _tell_waits(report)
    return TIMED_OUT


def show_logs(door: Door, text: str, *, node: str | None, follow: bool, output: str) -> int:
    """Print what attempts said; with `follow` also what they go on to say, until the run ends."""
    if isinstance(door, File):
        must_exist(door, text)

    async def show(source: Source) -> bool:
        told: set[tuple[object, ...]] = set()
        report, _ = await look_at(source, text)
        await _tell_notes(source, report.run_id, node, told, output)

        async def more() -> bool:
            now, _ = await look_at(source, report.run_id)
            await _tell_notes(source, report.run_id, node, told, output)
            return now.is_final or is_unheard()

        if follow and not report.is_final:
            await _each_change(source, report.run_id, more)
        return bool(told)

    try:
        found = _until_interrupt(door, show, output)
    except _Stopped as stopped:
        return stopped.code
    if not found and output == "table":
        where = f" of {node}" if node is not None else ""
        note(f"nothing{where} has been said: no print, no log, no progress")
    return 0


async def _tell_notes(
    source: Source, run_id: str, node: str | None, told: set[tuple[object, ...]], output: str
) -> None:
    page: Document = await source.run_notes(run_id, node=node)
    for each in page["items"]:
        # An attempt's progress keeps its number; its text is what is new.
        told_as = (each["place"], each["attempt"], each["number"], each["text"])
        if told_as not in told:
            told.add(told_as)
            say(note_line(each) if output == "table" else json.dumps(each, ensure_ascii=False))


async def _end_of(source: Source, text: str, left: float | None, *, telling: bool) -> Document:
    """The run at its end, or when the time is up. `telling`: say what it waits for, once that takes a while."""
    if not isinstance(source, Answers):
        if telling and (left is None or left > TELL_S):
            early = await source.wait_run(text, TELL_S)
            if early["state"] in FINAL_RUN_STATES or early["quarantine"] is not None:
                return early
            _tell_waits(early)
            left = None if left is None else left - TELL_S
        return await source.wait_run(text, left)
    report = await source.report(text)
    _say_undriven(report)
    looks = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(left):
            while not report.is_final and report.quarantine is None:
                looks += 1
                if telling and looks == int(TELL_S / POLL_S):
                    _tell_waits(report_json(report))
                await asyncio.sleep(POLL_S)
                report = await source.report(report.run_id)
    return report_json(report)


def _tell_waits(report: Document) -> None:
    if told := waits_told(report):
        note(f"run {short_id(report['run_id'])}: {told}")


def _say_undriven(report: Report) -> None:
    """A run that nobody drives may be watched for ever."""
    if not report.is_final:
        if report.engine is None:
            note("no engine drives it, so nothing happens until one does")
        for lead, command in cures(replace(report, nodes=())):
            note(f"{lead}\n  {command}")


async def _each_change(
    source: Source, run_id: str, look: Callable[[], Coroutine[Any, Any, bool]]
) -> None:
    """Call `look` now, and whenever there may be something new, until it says that it has seen all."""
    if isinstance(source, Answers):
        while not await look():  # noqa: ASYNC110 - a file tells nobody
            await asyncio.sleep(POLL_S)
        return
    news = asyncio.Event()
    failed: list[TenutoError] = []

    async def pump() -> None:
        try:
            async for _ in source.follow_run(run_id):
                news.set()
        except TenutoError as error:
            failed.append(error)
        news.set()

    blind = 0

    async def sight() -> bool:
        """As `look`; while the server is away the stream, which tries again for longer, decides."""
        nonlocal blind
        try:
            done = await look()
        except Unavailable:
            blind += 1
            if blind > BLIND_MAX:
                raise
            return False
        blind = 0
        return done

    async with asyncio.TaskGroup() as group:
        pumping = group.create_task(pump(), name="follow-run")
        try:
            while not failed and not await sight():
                with suppress(TimeoutError):
                    async with asyncio.timeout(NEWS_S):
                        await news.wait()
                news.clear()
                await asyncio.sleep(REDRAW_S)
        except TenutoError as error:
            failed.append(error)
        finally:
            pumping.cancel()
    if failed:
        raise failed[0]


def _until_interrupt(
    door: Door, verb: Callable[[Source], Coroutine[Any, Any, _T]], output: str
) -> _T:
    """Run a verb that takes its time. Raises _Stopped when somebody pressed Ctrl-C."""

    async def guarded(source: Source) -> _T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def stop() -> None:
            loop.call_soon_threadsafe(task.cancel)

        with Interrupts(stop) as interrupts:
            try:
                return await verb(source)
            except asyncio.CancelledError:
                if interrupts.code is None:
                    raise
                raise _Stopped(interrupts.code) from None

    return ask(door, guarded, output=output)

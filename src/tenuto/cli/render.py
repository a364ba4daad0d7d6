"""How a run looks in a terminal: a live list of nodes, the timeline, the outcome. Pure: data in, renderables out.
Lists are `tables`.

Whatever a user's data put into a text is made harmless first: control characters never reach a
terminal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tenuto.cli.apps import is_own
from tenuto.model.instants import format_duration, format_instant
from tenuto.views.cures import resume_command
from tenuto.views.report import NodeLine, Report
from tenuto.views.timeline import Step, label_of

VALUE_MAX = 4_000
"""Characters of an output shown; `-o json` has all."""
FRAMES_MAX = 3
"""Innermost frames of a traceback shown."""
ID_SHOWN = 8
"""Characters of a run id's end shown where many are; commands take them."""
BRANCHES_MAX = 12
_DRAWN = re.compile(r"once-[0-9a-f]{24}")

_STYLES = {
    "success": "green",
    "dead": "red",
    "failed": "red",
    "timed_out": "red",
    "lost": "yellow",
    "interrupted": "yellow",
    "retry": "yellow",
    "paused": "yellow",
    "cancelled": "yellow",
    "running": "cyan",
    "closing": "cyan",
    "ready": "blue",
    "waiting": "blue",
    "skipped": "dim",
    "pending": "dim",
}
_MARKS = {
    "success": "✓",
    "dead": "✗",
    "failed": "✗",
    "lost": "✗",
    "interrupted": "?",
    "retry": "↻",
    "cancelled": "–",
    "running": "●",
    "ready": "○",
    "waiting": "…",
    "skipped": "–",
}
_ORDER = ("running", "interrupted", "retry", "ready", "waiting", "active", "dead")
"""What is shown first where not all nodes fit."""


def clean(value: object) -> str:
    """Text without control characters: a line break or an escape sequence in data cannot forge a
    line.
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "replace").decode()
        for char in str(value)
    )


def styled(state: str) -> Text:
    """A state in its colour."""
    return Text(state, style=_STYLES.get(state, ""))


def failure_text(error: object, *, at_node: bool = False) -> str:
    """An error payload `{code, message, …}` in one line; empty for none. `at_node`: the node is known."""
    if not isinstance(error, dict):
        return "" if error is None else clean(error)
    code, message = clean(error.get("code", "")), clean(error.get("message", ""))
    node = error.get("node")
    said = f"{code}: {message}" if message and message != code else code
    return f"{said} (node {clean(node)})" if node and not at_node else said


def end_text(state: str, error: object) -> str:
    """How a run ended, in a few words: its state, and why, which does not say the state again."""
    if error is None:
        return state
    why = failure_text(error)
    return (
        why if why == state or why.startswith((f"{state}: ", f"{state} (")) else f"{state}: {why}"
    )


def shown_key(key: str | None) -> str:
    """The key of a run, unless it is one that a client drew to make its request safe to repeat."""
    return "" if key is None or _DRAWN.fullmatch(key) else clean(key)


def short_id(run_id: str) -> str:
    """The end of a run id: its random part, unlike its start, differs between runs of one
    moment.
    """
    return run_id[-ID_SHOWN:]


# -- live ------------------------------------------------------------------------------------------


def live_view(report: Report, height: int) -> RenderableType:
    """A list of nodes with what each does, at most `height` lines; nodes under way first if not
    all fit.
    """
    head = Text.assemble(
        (clean(report.workflow), "bold"),
        "  ",
        (short_id(report.run_id), "dim"),
        "  ",
        styled(report.state),
        f"  {format_duration(report.lasted_us)}",
    )
    lines = _fitting(report.nodes, max(1, height - 3))
    rows = [
        (
            Text(_MARKS.get(line.state, "·")),
            Text(_named(line), style=_STYLES.get(line.state, "")),
            styled(line.state),
            _attempt_text(line),
            _note(line, report.now),
        )
        for line in lines
    ]
    shown = [Text(" ") + line for line in _lined_up(rows, gap=1)]
    for line in shown:
        line.no_wrap, line.overflow = True, "ellipsis"
    hidden = len(report.nodes) - len(lines)
    if hidden:
        shown.append(Text(f"   and {hidden} more nodes: {_counts(report.nodes)}", "dim"))
    return Group(head, *shown)


def _lined_up(rows: Sequence[Sequence[Text]], *, gap: int) -> list[Text]:
    """Rows as lines with columns, as wide as they need: a table would squeeze its columns, the ids
    too, where a last one is long.
    """
    widths = [max(row[at].cell_len for row in rows) for at in range(len(rows[0]))] if rows else []
    lines = []
    for row in rows:
        line = Text()
        for cell, width in zip(row, widths, strict=True):
            line.append_text(cell)
            line.append(" " * (width - cell.cell_len + gap))
        line.rstrip()
        lines.append(line)
    return lines


def _fitting(lines: Sequence[NodeLine], most: int) -> Sequence[NodeLine]:
    if len(lines) <= most:
        return lines
    by_need = sorted(
        range(len(lines)),
        key=lambda at: (
            _ORDER.index(lines[at].state) if lines[at].state in _ORDER else len(_ORDER),
            at,
        ),
    )
    return [lines[at] for at in sorted(by_need[:most])]


def _counts(lines: Sequence[NodeLine]) -> str:
    counts: dict[str, int] = {}
    for line in lines:
        counts[line.state] = counts.get(line.state, 0) + 1
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def _named(line: NodeLine) -> str:
    if line.place:
        return label_of(line.place)
    return line.id if line.iteration is None else f"{line.id} #{line.iteration}"


def _attempt_text(line: NodeLine) -> Text:
    if not line.attempts or (line.attempts == 1 and line.attempts_max <= 1):
        return Text("")
    return Text(f"attempt {line.attempts}/{max(line.attempts, line.attempts_max)}", style="dim")


def _note(line: NodeLine, now: int) -> Text:
    if line.waits_for:
        after = "" if line.error is None else f" after {failure_text(line.error, at_node=True)}"
        return Text(f"waits for {clean(line.waits_for)}{after}")
    if line.took and line.state == "success":
        return Text(f"→ {', '.join(line.took)}", style="dim")
    if line.error is not None:
        return Text(failure_text(line.error, at_node=True), style="red")
    if line.since is not None:
        return Text(format_duration(max(0, now - line.since)), style="dim")
    return Text("")


# -- plain log -------------------------------------------------------------------------------------


def step_line(step: Step, origin: int) -> str:
    """One line of the plain log: when it happened, where, what."""
    at = step.ended_at if step.ended_at is not None else step.started_at
    return f"{_offset(at, origin):>8}  {clean(label_of(step.place)) or 'run'}  {_said(step)}"


def wait_line(line: NodeLine, now: int, origin: int) -> str:
    """The plain log's word that a node began to wait for something; the command that ends the wait
    has a line of its own.
    """
    said = f"{_offset(now, origin):>8}  {_named(line)}  waits for {clean(line.waits_for)}"
    return f"{said}; send it with:\n  {line.command}" if line.command else said


def cures(report: Report, words: str = "") -> list[tuple[str, str]]:
    """What to do about what a run waits for: a sentence, and the command to copy, each once.

    `words`: what commands must say of the server that they are for; those of the report say it already.
    """
    found: dict[str, str] = {}
    if report.quarantine is not None:
        found[resume_command(report.run_id, report.database) + words] = (
            "nothing of it is handed out until it is resumed:"
        )
    elif report.state == "paused":
        found[resume_command(report.run_id, report.database) + words] = (
            "it is paused; resume it with:"
        )
    for line in report.waits:
        if line.command and line.command not in found:
            found[line.command] = f"{_named(line)} waits for an event; send it with:"
    if report.go_on:
        found[report.go_on] = "no engine drives it; carry it on with:"
    return [(lead, command) for command, lead in found.items()]


def _said(step: Step) -> str:
    lasted = (
        f" after {format_duration(step.ended_at - step.started_at)}"
        if step.started_at is not None and step.ended_at is not None
        else ""
    )
    code = f": {clean(step.code)}" if step.code else ""
    if step.message:
        code += f": {clean(step.message)}"
    match step.what:
        case "attempt":
            return f"attempt {step.attempt} {step.result}{lasted}{code}"
        case "event":
            if step.result == "success" and step.started_at == step.ended_at:
                return "event was there already"
            return (
                f"event received{lasted}" if step.result == "success" else f"no event{lasted}{code}"
            )
        case "wait":
            return f"waited{lasted}{code}"
        case _:
            return step.result


def _offset(at: int | None, origin: int) -> str:
    return "" if at is None else f"+{(at - origin) / 1_000_000:.3f}s"


# -- the end of a run ------------------------------------------------------------------------------


def outcome_view(report: Report) -> RenderableType:
    """The timeline, then how the run stands, with its output or error."""
    parts: list[RenderableType] = []
    if report.timeline:
        parts += [timeline_view(report), Text()]
    if branches := _branches(report):
        parts.append(Text(branches, style="dim"))
    parts.append(outcome_line(report))
    parts += _value_lines(report)
    return Group(*parts)


def detail_view(report: Report) -> RenderableType:
    """All of `run show`: the run, its nodes, what it waits for, its timeline and outcome."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("run", report.run_id)
    facts.add_row("workflow", f"{clean(report.workflow)} version {report.version}")
    facts.add_row("state", styled(report.state))
    if key := shown_key(report.key):
        facts.add_row("key", key)
    facts.add_row("started", format_instant(report.created_at))
    if report.ended_at is not None:
        facts.add_row("ended", format_instant(report.ended_at))
    facts.add_row("lasted", format_duration(report.lasted_us))
    if report.engine is None:
        facts.add_row("engine", Text("none has the file open", style="yellow"))
    elif report.engine:
        facts.add_row("engine", f"process {clean(report.engine)} has the file open")
    if report.quarantine is not None:
        facts.add_row("quarantine", Text(clean(report.quarantine), style="red"))
    parts: list[RenderableType] = [facts, Text(), nodes_table(report)]
    if report.timeline:
        parts += [Text(), timeline_view(report)]
    parts += [Text(), outcome_line(report), *_value_lines(report)]
    return Group(*parts)


def nodes_table(report: Report) -> Table:
    """Each node with its state and what it waits for or failed with."""
    table = _table("node", "type", "state", "attempts", "")
    for line in report.nodes:
        table.add_row(
            _named(line),
            line.type,
            styled(line.state),
            str(line.attempts or ""),
            _note(line, report.now),
        )
    return table


def timeline_view(report: Report) -> RenderableType:
    """Attempts and waits in the order of their start; what a failure said stands below it."""
    names = ("start", "node", "attempt", "result", "took", "code")
    rows = [_cells(step, report.created_at) for step in report.timeline]
    head, *lines = _lined_up([[Text(name, style="dim") for name in names], *rows], gap=2)
    told = [head]
    for step, line in zip(report.timeline, lines, strict=True):
        told.append(line)
        if step.message:
            said = f"{'':{rows[0][0].cell_len}}    {clean(step.message)}"
            told.append(Text(said, style="dim", no_wrap=True, overflow="ellipsis"))
    return Group(*told)


def _cells(step: Step, origin: int) -> tuple[Text, ...]:
    took = (
        format_duration(step.ended_at - step.started_at)
        if step.started_at is not None and step.ended_at is not None and step.what != "run"
        else ""
    )
    if step.what == "event" and step.result == "success" and step.started_at == step.ended_at:
        took = "(early)"  # it was there before the wait
    what = str(step.attempt) if step.attempt is not None else step.what
    return (
        Text(_offset(step.started_at, origin)),
        Text(clean(label_of(step.place)) or "(run)"),
        Text(what if step.what != "run" else ""),
        styled(step.result),
        Text(took),
        Text(clean(step.code or "")),
    )


def _branches(report: Report) -> str:
    """Which way the run went where it had a choice."""
    went = [f"{_named(line)} → {', '.join(line.took)}" for line in report.nodes if line.took]
    skipped = [line.id for line in report.nodes if line.state == "skipped"]
    parts = []
    if went:
        parts.append("; ".join(_few(went)))
    if skipped:
        parts.append("skipped: " + ", ".join(_few(skipped)))
    return "; ".join(parts)


def _few(texts: list[str]) -> list[str]:
    more = len(texts) - BRANCHES_MAX
    return texts if more <= 0 else [*texts[:BRANCHES_MAX], f"and {more} more"]


def outcome_line(report: Report) -> Text:
    """How the run stands, in one line."""
    return Text.assemble(
        ("run ", ""),
        (report.run_id, "bold"),
        " ",
        styled(report.state),
        f" after {format_duration(report.lasted_us)}",
    )


def _value_lines(report: Report) -> list[RenderableType]:
    lines: list[RenderableType] = []
    if report.error is not None:
        said = failure_text(report.error)
        again = f"{report.state}: "
        if said != report.state:
            told = (
                f"reason: {said.removeprefix(again)}"
                if said.startswith(again)
                else f"error: {said}"
            )
            lines.append(Text(told, style="red"))
        lines += [Text(line, style="dim") for line in own_frames(report.error)]
        others = report.error.get("others") if isinstance(report.error, dict) else None
        if isinstance(others, list):
            lines += [Text(f"       {failure_text(other)}", style="red") for other in others]
    if report.state == "success":
        lines.append(Text("output:"))
        lines.append(Text(value_text(report.output)))
    return lines


def own_frames(error: object) -> list[str]:
    """The innermost frames of the user's own code in a failure's traceback, as Python shows them;
    files below the working directory by their path from there.
    """
    details = error.get("details") if isinstance(error, dict) else None
    lines = details.get("traceback") if isinstance(details, dict) else None
    if not isinstance(lines, list):
        return []
    frames: list[list[str]] = []
    for line in map(str, lines):
        if line.startswith('  File "'):
            frames.append([line])
        elif frames and line.strip(" ~^"):  # not the marks below the code
            frames[-1].append(line)
    own = [frame for frame in frames if is_own(frame[0].split('"')[1])]
    here = f"{Path.cwd()}/"
    return [
        clean(line.replace(f'"{here}', '"', 1))
        for frame in (own or frames)[-FRAMES_MAX:]
        for line in frame
    ]


def value_text(value: object) -> str:
    """A JSON value for reading: indented, cut at VALUE_MAX."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    text = "\n".join(clean(line) for line in text.split("\n"))
    if len(text) <= VALUE_MAX:
        return text
    return f"{text[:VALUE_MAX]}\n… {len(text) - VALUE_MAX} characters more; -o json prints all"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("state", "attempts"))
    return table

"""How a run looks in a terminal: a live list of nodes, the timeline, the outcome. Pure: data in, renderables out.
Lists are `tables`.

Whatever a user's data put into a text is made harmless first: control characters never reach a
terminal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tenuto.cli.apps import is_own
from tenuto.model.instants import format_duration, format_instant
from tenuto.views.cures import go_on_command, resume_command
from tenuto.views.family import ItemCounts
from tenuto.views.report import RESUMED, NodeLine, Report
from tenuto.views.timeline import Step, label_of

VALUE_MAX = 4_000
"""Characters of an output shown; `-o json` has all."""
FRAMES_MAX = 3
"""Innermost frames of a traceback shown."""
ID_SHOWN = 8
"""Characters of a run id's end shown where many are; commands take them."""
BRANCHES_MAX = 12
CHILDREN_MAX = 5
"""Open children that a live view shows."""
BAR_WIDTH = 20
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
OWN = "embedded-"
"""What the name of an engine's own worker begins with."""
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
    details = error.get("details")
    if isinstance(details, dict) and isinstance(details.get("cause"), dict):
        item = f"item {details['index']}: " if code == "foreach_failed" else ""
        # What a child failed of, or the first item of a foreach.
        said += f": {item}{failure_text(details['cause'], at_node=bool(item))}"
    if node == "output" and code == "expression_error" and not at_node:
        return f"{said} (`output` of the workflow)"
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
            Text(named(line), style=_STYLES.get(line.state, "")),
            styled(line.state),
            _attempt_text(line),
            _note(line, report.now),
        )
        for line in lines
    ]
    shown = [Text(" ") + line for line in _lined_up(rows, gap=1)]
    shown += _open_children(report, room=height - 3 - len(lines))
    for line in shown:
        line.no_wrap, line.overflow = True, "ellipsis"
    hidden = len(report.nodes) - len(lines)
    if hidden:
        shown.append(Text(f"   and {hidden} more nodes: {_counts(report.nodes)}", "dim"))
    return Group(head, *shown)


def _open_children(report: Report, *, room: int) -> list[Text]:
    """A few of the runs that this one has called and that go on, indented; no more than there is room for."""
    open_ = [child for child in report.children.newest if child.ended_at is None]
    most = max(1, min(CHILDREN_MAX, room))
    lines = []
    for child in reversed(open_[:most]):
        lasted = format_duration(max(0, report.now - child.created_at))
        waits = f"  waits for {clean(child.waits_for)}" if child.waits_for else ""
        lines.append(
            Text.assemble(
                "     ↳ ",
                clean(child.label),
                "  ",
                (short_id(child.run_id), "dim"),
                "  ",
                styled(child.state),
                (f"  {lasted}", "dim"),
                waits,
            )
        )
    left = max(len(open_), report.children.open) - len(lines)
    if left > 0:
        lines.append(Text(f"     ↳ and {left:,} more children under way", "dim"))
    return lines


def bar(items: ItemCounts) -> Text:
    """How far a foreach is: what succeeded, what failed, what is left; and in figures."""
    total = max(1, items.total)
    good = BAR_WIDTH * items.succeeded // total
    bad = -(-BAR_WIDTH * items.failed // total)
    left = max(0, BAR_WIDTH - good - bad)
    return Text.assemble(
        ("█" * good, "green"), ("█" * bad, "red"), ("░" * left, "dim"), f" {items.text}"
    )


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


def named(line: NodeLine) -> str:
    """A node as people read it, with its pass."""
    if line.place:
        return label_of(line.place)
    return line.id if line.iteration is None else f"{line.id} #{line.iteration}"


def _attempt_text(line: NodeLine) -> Text:
    if not line.attempts or (line.attempts == 1 and line.attempts_max <= 1):
        return Text("")
    return Text(f"attempt {line.attempts}/{max(line.attempts, line.attempts_max)}", style="dim")


def _note(line: NodeLine, now: int) -> Text:
    found = _plain_note(line, now)
    if line.given:
        given = Text("given by hand", style="dim")
        return Text.assemble(given, "  ", found) if found.plain else given
    if line.items is not None:
        return bar(line.items) + Text("  ") + found if found.plain else bar(line.items)
    if line.undo:
        why = failure_text(line.undo_error, at_node=True)
        told = f"undo: {line.undo}{f', {why}' if why else ''}"
        found = Text.assemble(told, "  ", found) if found.plain else Text(told)
    if line.child and line.state in ("running", "dead", "cancelled") and not line.waits_for:
        found = Text.assemble((f"run {short_id(line.child)}  ", "dim"), found)
    return found


def _plain_note(line: NodeLine, now: int) -> Text:
    if line.waits_for:
        after = "" if line.error is None else f" after {failure_text(line.error, at_node=True)}"
        told = Text(f"waits for {clean(line.waits_for)}{after}")
        if line.child and line.since is not None:
            told.append(f"  {format_duration(max(0, now - line.since))}", style="dim")
        return told
    if line.took and line.state == "success":
        return Text(f"→ {', '.join(line.took)}", style="dim")
    if line.error is not None:
        return Text(failure_text(line.error, at_node=True), style="red")
    if line.since is not None:
        return Text(format_duration(max(0, now - line.since)), style="dim")
    return Text("")


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
        mine = report.held_by in ("", report.run_id)
        held_by = report.run_id if mine else report.held_by
        found[resume_command(held_by, report.database) + words] = (
            "it is paused; resume it with:"
            if mine
            else f"it is paused with the run that called it, {short_id(held_by)}; resume that one:"
        )
    for line in report.waits:
        if line.command and line.command not in found:
            found[line.command] = f"{named(line)} {_wait_lead(line.waits_for)}"
    for child in report.children.newest:
        if child.command and child.command not in found:
            run = f"run {short_id(child.run_id)} of {clean(child.label)}"
            found[child.command] = f"{run} {_wait_lead(child.waits_for)}"
    if report.go_on:
        found[report.go_on] = "no engine drives it; carry it on with:"
    return [(lead, command) for command, lead in found.items()]


def _wait_lead(waits_for: str) -> str:
    return (
        "is paused; resume it with:"
        if waits_for == RESUMED
        else "waits for an event; send it with:"
    )


def offset(at: int | None, origin: int) -> str:
    """An instant counted from the run's start."""
    # A child's moment is known to the millisecond only.
    return "" if at is None else f"+{max(0, at - origin) / 1_000_000:.3f}s"


# -- the end of a run ------------------------------------------------------------------------------


def outcome_view(report: Report) -> RenderableType:
    """The timeline, then how the run stands, with its output or error."""
    parts: list[RenderableType] = []
    if report.timeline:
        parts += [timeline_view(report), Text()]
    if branches := _branches(report):
        parts.append(Text(branches, style="dim"))
    parts.append(outcome_line(report))
    if undone := undone_text(report):
        parts.append(Text(undone))
    parts += _value_lines(report)
    parts += [Text(line, style="dim") for line in _left_behind(report)]
    return Group(*parts)


def undone_text(report: Report) -> str:
    """What became of undoing, in one line; empty where nothing was to undo."""
    if report.compensation == "complete":
        return "undone: complete"
    if report.compensation != "partial":
        return ""
    left = [line for line in report.nodes if line.undo and line.undo != "undone"]
    return ": ".join(filter(None, ("undone in part", ", ".join(map(_not_undone, left)))))


def _not_undone(line: NodeLine) -> str:
    error = line.undo_error
    code = error.get("code") if isinstance(error, dict) else None
    return f"{line.id} ({clean(code or line.undo)})"


def _left_behind(report: Report) -> list[str]:
    """Runs that this one started without waiting for them, and that have not ended yet."""
    left = [child for child in report.children.newest if child.ended_at is None]
    if not report.is_final or not left:
        return []
    lines = ["runs that it started and that have not ended; each is carried on with:"]
    lines += [f"  {go_on_command(child.run_id, report.database)}" for child in left[:CHILDREN_MAX]]
    more = len(left) - CHILDREN_MAX
    return lines if more <= 0 else [*lines, f"  and {more} more"]


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
    for name, told in _relations(report):
        facts.add_row(name, told)
    parts: list[RenderableType] = [facts, Text(), nodes_table(report)]
    if report.children.newest:
        parts += [Text(), children_table(report)]
    if report.timeline:
        parts += [Text(), timeline_view(report)]
    parts += [Text(), outcome_line(report), *_value_lines(report)]
    return Group(*parts)


def _relations(report: Report) -> Iterator[tuple[str, str]]:
    """What a run has to do with others, and how it closes."""
    if report.parent is not None:
        yield "called by", f"run {report.parent[0]}, {clean(label_of(report.parent[1]))}"
    if report.source is not None:
        yield "replays", f"run {report.source}"
    if report.priority:
        yield "priority", str(report.priority)
    if report.epoch > 1:
        yield "retried", f"{report.epoch - 1} times" if report.epoch > 2 else "once"
    if report.closing is not None:
        yield "closing", f"as {report.closing.outcome}: {clean(report.closing.text)}"
    if report.compensation != "none":
        yield "undoing", _COMPENSATION[report.compensation]


_COMPENSATION = {
    "complete": "all that was due is undone",
    "partial": "not all that was due could be undone; its nodes say why",
}


def children_table(report: Report) -> RenderableType:
    """The newest runs that a run has called, newest first."""
    table = _table("child", "called by", "workflow", "state", "")
    for child in report.children.newest:
        ended = child.ended_at if child.ended_at is not None else report.now
        lasted = format_duration(max(0, ended - child.created_at))
        waits = f"waits for {clean(child.waits_for)}" if child.waits_for else lasted
        table.add_row(
            short_id(child.run_id),
            clean(child.label),
            f"{clean(child.workflow)} v{child.version}",
            styled(child.state),
            waits,
        )
    if not report.children.more:
        return table
    more = f"and others; `tenuto run list --parent {short_id(report.run_id)}` lists all"
    return Group(table, Text(more, style="dim"))


def nodes_table(report: Report) -> Table:
    """Each node with its state and what it waits for or failed with."""
    table = _table("node", "type", "state", "attempts", "")
    for line in report.nodes:
        table.add_row(
            named(line),
            line.type,
            styled(line.state),
            str(line.attempts or ""),
            _note(line, report.now),
        )
    return table


def timeline_view(report: Report) -> RenderableType:
    """Attempts and waits in the order of their start; what a failure said stands below it."""
    # In one process there is one worker, which says nothing.
    apart = any(step.worker and not step.worker.startswith(OWN) for step in report.timeline)
    names = ("start", "node", "attempt", "result", "took", *(["worker"] if apart else []), "code")
    rows = [_cells(step, report.created_at, apart=apart) for step in report.timeline]
    head, *lines = _lined_up([[Text(name, style="dim") for name in names], *rows], gap=2)
    told = [head]
    for step, line in zip(report.timeline, lines, strict=True):
        told.append(line)
        if step.message:
            said = f"{'':{rows[0][0].cell_len}}    {clean(step.message)}"
            told.append(Text(said, style="dim", no_wrap=True, overflow="ellipsis"))
    return Group(*told)


def _cells(step: Step, origin: int, *, apart: bool) -> tuple[Text, ...]:
    took = (
        format_duration(step.ended_at - step.started_at)
        if step.started_at is not None and step.ended_at is not None and step.what != "run"
        else ""
    )
    if step.what == "event" and step.result == "success" and step.started_at == step.ended_at:
        took = "(early)"  # it was there before the wait
    what = str(step.attempt) if step.attempt is not None and not step.child else step.what
    return (
        Text(offset(step.started_at, origin)),
        Text(clean(label_of(step.place)) or "(run)"),
        Text(what if step.what != "run" else ""),
        styled(step.result),
        Text(took),
        *([Text(clean(step.worker))] if apart else []),
        Text(clean(step.code or "")),
    )


def _branches(report: Report) -> str:
    """Which way the run went where it had a choice."""
    went = [f"{named(line)} → {', '.join(line.took)}" for line in report.nodes if line.took]
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
    if isinstance(details, dict) and isinstance(details.get("cause"), dict):
        return own_frames(details["cause"])
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

"""Lists in a terminal: runs, workflows, tasks, workers, awaited events, what attempts said. Pure: documents in,
renderables out.

As wide as 80 columns need: what its author made as long as he liked is cut, ids are shown by their end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from tenuto.cli.render import clean, failure_text, short_id, shown_key, styled
from tenuto.model.instants import format_duration, parse_instant
from tenuto.views.timeline import label_of

Document = Mapping[str, Any]


def runs_table(runs: Iterable[Document], now: int) -> Table:
    """Runs, newest first."""
    table = _table("run", "workflow~", "state", "key~", "age", "lasted")
    for run in runs:
        created, ended = parse_instant(run["created_at"]), run["ended_at"]
        table.add_row(
            short_id(run["run_id"]),
            _in_one_line(f"{clean(run['workflow'])} v{run['version']}"),
            styled(run["state"]) + Text(" quarantined" if run["quarantine"] else "", style="red"),
            _in_one_line(shown_key(run["key"])),
            _age(run["created_at"], now),
            "" if ended is None else format_duration(parse_instant(ended) - created),
        )
    return table


def workflows_table(workflows: Iterable[Document], now: int) -> Table:
    """Names with their newest versions."""
    table = _table("workflow~", "version", "versions", "hash", "age")
    for each in workflows:
        table.add_row(
            _in_one_line(clean(each["name"])),
            str(each["version"]),
            str(each["versions"]),
            each["hash"][:12],
            _age(each["created_at"], now),
        )
    return table


def versions_table(versions: Iterable[Document], now: int) -> Table:
    """Versions of one name, newest first."""
    table = _table("version", "hash", "age")
    for each in versions:
        table.add_row(str(each["version"]), each["hash"][:12], _age(each["created_at"], now))
    return table


def nodes_and_edges(version: Document) -> Sequence[Table]:
    """What a version consists of."""
    nodes, edges = _table("node~", "type"), _table("from~", "to~", "on", "when~")
    for node in version["nodes"]:
        nodes.add_row(_in_one_line(clean(node["id"])), node["type"])
    for edge in version["edges"]:
        edges.add_row(
            _in_one_line(clean(edge["from"])),
            _in_one_line(clean(edge["to"])),
            edge["on"],
            _in_one_line(condition_of(edge)),
        )
    return (nodes, edges) if version["edges"] else (nodes,)


def condition_of(edge: Document) -> str:
    """When an edge is taken, as people read it."""
    parts = [clean(edge["when"])] if edge["when"] else []
    if edge["else"]:
        parts.append("else")
    if edge["loop"]:
        parts.append(f"loop, at most {edge['loop']} times")
    return "; ".join(parts)


def tasks_table(tasks: Iterable[Document]) -> Table:
    """Tasks, those of the newest runs first."""
    table = _table("run", "node~", "task~", "queue~", "state", "attempt", "~")
    for task in tasks:
        trouble = failure_text(task["error"], at_node=True)
        table.add_row(
            short_id(task["run_id"]),
            _in_one_line(clean(label_of(task["place"]))),
            _in_one_line(clean(task["name"])),
            _in_one_line(clean(task["queue"])),
            styled(task["state"]),
            str(task["attempt"]),
            _in_one_line(trouble or clean(task["worker"] or "")),
        )
    return table


def workers_table(workers: Iterable[Document], now: int) -> Table:
    """Workers as last heard of."""
    table = _table("worker~", "busy", "queues~", "tasks~", "version", "seen")
    for worker in workers:
        queues = ", ".join(worker["queues"])
        table.add_row(
            _in_one_line(clean(worker["id"])),
            f"{worker['busy']}/{worker['capacity']}",
            _in_one_line("all" if queues == "*" else clean(queues)),
            _in_one_line(clean(", ".join(worker["names"]))),
            clean(worker["version"]),
            f"{_age(worker['seen_at'], now)} ago",
        )
    return table


def awaited_table(awaited: Iterable[Document]) -> Table:
    """Addresses that open waits wait for."""
    table = _table("event~", "key~", "waits")
    for each in awaited:
        table.add_row(
            _in_one_line(clean(each["event"])),
            _in_one_line(clean(each["key"])),
            str(each["waits"]),
        )
    return table


def note_line(note: Document) -> str:
    """One line that an attempt said: when, where, what."""
    at = note["at"][11:23]
    attempt = f" (attempt {note['attempt']})" if note["attempt"] != 1 else ""
    text = _progress(note["text"]) if note["kind"] == "progress" else note["text"]
    return f"{at}  {clean(label_of(note['place']))}{attempt}  {clean(text)}"


def _progress(text: str) -> str:
    try:
        said = json.loads(text)
        done, total, message = said["done"], said.get("total"), said.get("message") or ""
    except (ValueError, KeyError, TypeError, AttributeError):
        return text
    share = _amount(done) if total is None else f"{_amount(done)} of {_amount(total)}"
    return f"progress: {share} {message}".rstrip()


def _amount(number: object) -> str:
    """Whole numbers in full, others as short as they are."""
    if isinstance(number, float):
        return str(int(number)) if number.is_integer() else f"{number:.12g}"
    return str(number)


def _age(instant: str, now: int) -> str:
    return format_duration(max(0, now - parse_instant(instant)))


def _in_one_line(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")


def _table(*columns: str) -> Table:
    """`~` after a column's name: as long as its author made it."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        free = column.endswith("~")
        table.add_column(
            column.removesuffix("~"), overflow="ellipsis" if free else "fold", no_wrap=not free
        )
    return table

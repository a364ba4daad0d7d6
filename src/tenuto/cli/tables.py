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
PLAN_MAX = 40
"""Nodes of a plan that are listed."""
READY = "ready"
_NAME_MAX = 40
_VALUE_MAX = 200


def runs_table(runs: Iterable[Document], now: int) -> Table:
    """Runs, newest first."""
    shown = list(runs)
    called = any(run["parent"] for run in shown)
    more = ("called by~",) if called else ()
    table = _table("run", "workflow~", "state", "key~", "age", "lasted", *more)
    for run in shown:
        created, ended = parse_instant(run["created_at"]), run["ended_at"]
        table.add_row(
            short_id(run["run_id"]),
            _in_one_line(f"{clean(run['workflow'])} v{run['version']}"),
            styled(run["state"]) + Text(" quarantined" if run["quarantine"] else "", style="red"),
            _in_one_line(shown_key(run["key"])),
            _age(run["created_at"], now),
            "" if ended is None else format_duration(parse_instant(ended) - created),
            *([_in_one_line(parent_text(run["parent"]))] if called else []),
        )
    return table


def parent_text(parent: Document | None) -> str:
    """Who called a run: its parent's id and node, with the item."""
    if parent is None:
        return ""
    item = "" if parent["item"] is None else f"[{parent['item']}]"
    return f"{short_id(parent['run_id'])} {clean(parent['node'])}{item}"


def items_table(items: Iterable[Document]) -> Table:
    """Items of a foreach, in order."""
    shown = list(items)
    called = any(item["child"] is not None for item in shown)
    table = _table("item", "state", "attempt", *(("run",) if called else ()), "output~")
    for item in shown:
        child = "" if item["child"] is None else short_id(item["child"])
        table.add_row(
            str(item["index"]),
            styled(task_word(item["state"])),
            begun_attempt(item),
            *([child] if called else []),
            _in_one_line(failure_text(item["error"], at_node=True) or _short(item["output"])),
        )
    return table


def iterations_table(passes: Iterable[Document]) -> Table:
    """Passes of a node in loops, oldest first."""
    table = _table("iteration", "state", "attempt", "output~")
    for each in passes:
        state = each["state"] or ("success" if each["error"] is None else "dead")
        table.add_row(
            ".".join(map(str, each["iterations"])),
            styled(state),
            "" if each["attempt"] is None else str(each["attempt"]),
            _in_one_line(failure_text(each["error"], at_node=True) or _short(each["output"])),
        )
    return table


def inside_lines(node: Document) -> Sequence[str]:
    """What a node's document tells of what is nested in it: items, child, undoing."""
    lines = []
    if (items := node["items"]) is not None:
        counts = [
            f"{items[name]:,} {name}"
            for name in ("succeeded", "failed", "active", "cancelled")
            if items[name]
        ]
        whole = f"{items['total']:,} in all"
        lines.append(f"items: {', '.join([whole, *counts])}")
    if node["child"] is not None:
        lines.append(f"its run: {node['child']}")
    if node["undo"] is not None:
        why = failure_text(node["undo_error"], at_node=True)
        lines.append(f"its undoing: {node['undo']}{f': {why}' if why else ''}")
    return lines


def plan_lines(plan: Document) -> Sequence[str]:
    """What a retry or a replay does, for people: each node that is done again, and what is kept."""
    nodes = [node for node in plan["nodes"] if node != plan["skipped"]]
    lines = []
    if plan["skipped"] is not None:
        lines.append(f"taken as done: {clean(plan['skipped'])}")
    if nodes:
        lines.append("done again, where their turn comes:")
        width = min(max(len(clean(node)) for node in nodes), _NAME_MAX)
        shown = nodes[:PLAN_MAX]
        lines += [f"  {clean(node):{width}}  {_again(plan, node)}".rstrip() for node in shown]
        if len(nodes) > PLAN_MAX:
            lines.append(f"  and {len(nodes) - PLAN_MAX} more nodes; -o json has all")
    if plan["kept"]:
        names = [clean(node) for node in plan["kept"][:PLAN_MAX]]
        left = len(plan["kept"]) - len(names)
        lines.append(f"kept: {', '.join(names)}{f' and {left} more' if left else ''}")
    lines += [
        f"note: {clean(node)} has read the input that is another one now, and is kept"
        for node in plan["changed"]
    ]
    lines += [
        f"note: who was told the callback_key of {clean(node)} answers the old run, not the new one"
        for node in plan["called"]
    ]
    return lines


def _again(plan: Document, node: str) -> str:
    """How one node is done again."""
    if node in plan["items"]:
        count, of = plan["items"][node], plan.get("listed", {}).get(node)
        whole = "its items" if of is None else f"its {of:,} item{'' if of == 1 else 's'}"
        return f"{count:,} of {whole}" if count != 1 else f"one of {whole}"
    if node in plan["inside"]:
        return "its run goes on"
    parts = []
    if node in plan["repeated"]:
        parts.append("a second time: it had succeeded")
    elif node in plan.get("unbegun", ()):
        parts.append("it had not begun")
    elif node in plan["first"]:
        parts.append("it failed or was cut short")
    if node in plan["anew"] and node not in plan.get("unbegun", ()):
        parts.append("as a whole")
    return ", ".join(parts)


def _short(value: object) -> str:
    if value is None:
        return ""
    text = json.dumps(value, ensure_ascii=False)
    return clean(text if len(text) <= _VALUE_MAX else f"{text[: _VALUE_MAX - 1]}…")


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
    table = _table("version", "hash", "age", "aliases~")
    for each in versions:
        table.add_row(
            str(each["version"]),
            each["hash"][:12],
            _age(each["created_at"], now),
            _in_one_line(clean(", ".join(each["aliases"]))),
        )
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


def begun_attempt(task: Document) -> str:
    """The attempt that is or was at work; nothing for one that nobody has yet."""
    return "" if task["attempt"] is None or task["state"] == "pending" else str(task["attempt"])


def task_word(state: str) -> str:
    """A task's state in the word that a run's nodes have for it, too."""
    return READY if state == "pending" else state


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
            styled(task_word(task["state"])),
            begun_attempt(task),
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
            f"{_age(worker['seen_at'], now)} ago" + (", lost" if worker["lost"] else ""),
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

"""Commands to copy: what ends a wait, a pause, or a run's standing still. Text only, nothing is run."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tenuto.model.definition import Definition, NodeType
from tenuto.model.expressions import Root
from tenuto.model.works import own_expressions

_FIELD = re.compile(r"\bnodes\.\??(\w+)\.\??output\.\??([A-Za-z_]\w*)")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_.:/@%+=,-]+")


def send_command(event: str, key: str, database: str, *, payload: str = "") -> str:
    """The command that sends what a wait waits for. `payload`: what it looks like, with `…` where
    values stand; empty where nobody reads it.
    """
    more = f" --payload {quoted(payload)}" if payload else ""
    return f"tenuto event send {quoted(event)} --key {quoted(key)}{more}{_on(database)}"


def go_on_command(run_id: str, database: str, *, file: str = "", app: str = "") -> str:
    """The command that carries a run on."""
    named = f" {quoted(file)}" if file else ""
    more = f" --app {quoted(app)}" if app else ""
    return f"tenuto run{named} --carry-on {run_id}{more}{_on(database)}"


def resume_command(run_id: str, database: str) -> str:
    """The command that ends a pause, or a quarantine."""
    return f"tenuto run resume {run_id}{_on(database)}"


def _on(database: str) -> str:
    return f" --database {quoted(database)}" if database else ""


def payload_hints(definition: Definition) -> Mapping[str, str]:
    """Node -> what the payload of its event looks like: the fields that expressions read of its
    output. Nodes that nobody reads are absent.
    """
    waits = {node.id for node in definition.nodes if node.type is NodeType.WAIT_FOR_EVENT}
    if not waits:
        return {}
    names: dict[str, dict[str, None]] = {}
    for expression in own_expressions(definition):
        for read in expression.reads:
            if read.root is Root.NODES and read.node in waits and read.field == "output":
                names.setdefault(read.node, {})
        for node, name in _FIELD.findall(expression.text):
            if node in names:
                names[node][name] = None
    return {
        node: "{" + ", ".join(f'"{name}": …' for name in found) + "}" if found else "{…}"
        for node, found in names.items()
    }


def quoted(text: str) -> str:
    """A word as a shell takes it."""
    if _PLAIN_WORD.fullmatch(text):
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"

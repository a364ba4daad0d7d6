"""The plain log of a run: a line for each step as it ends, where there is no terminal to draw on."""

from __future__ import annotations

from tenuto.cli.render import clean, named, offset, short_id
from tenuto.model.instants import format_duration
from tenuto.views.family import ChildLine
from tenuto.views.report import NodeLine
from tenuto.views.timeline import Step, label_of

_NO_EVENT = ("timeout", "heartbeat_timeout", "total_timeout")


def step_line(step: Step, origin: int) -> str:
    """One line of the plain log: when it happened, where, what."""
    at = step.ended_at if step.ended_at is not None else step.started_at
    return f"{offset(at, origin):>8}  {clean(label_of(step.place)) or 'run'}  {_said(step)}"


def wait_line(line: NodeLine, now: int, origin: int) -> str:
    """The plain log's word that a node began to wait for something; the command that ends the wait
    has a line of its own.
    """
    said = f"{offset(now, origin):>8}  {named(line)}  waits for {clean(line.waits_for)}"
    return f"{said}; send it with:\n  {line.command}" if line.command else said


def child_line(child: ChildLine, now: int, origin: int) -> str:
    """The plain log's word that a child waits for something, and how to end that."""
    run = f"run {short_id(child.run_id)} of {clean(child.label)}"
    said = f"{offset(now, origin):>8}  {run}  waits for {clean(child.waits_for)}"
    return f"{said}; send it with:\n  {child.command}"


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
        case "child":
            return f"run {short_id(step.child)} {step.result}{lasted}{code}"
        case "items":
            if step.result == "lost":
                return clean(step.message)
            return f"{step.result}{lasted}{code}"
        case "event":
            if step.result == "success" and step.started_at == step.ended_at:
                return "event was there already"
            if step.result == "success":
                return f"event received{lasted}"
            if step.code in _NO_EVENT:
                return f"no event{lasted}{code}"
            return f"event received{lasted}, failed{code}"
        case "wait":
            return f"waited{lasted}{code}"
        case _:
            return step.result

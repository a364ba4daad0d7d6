"""REST, the command line and the SDK offer the same: one table, and each side is held to its column.

`PARITY` is to be extended wherever a verb is added: (method, path) -> the verb of `views.answers.Answers` or
`coordinator.commands.Commands` behind it, the words of the command line, the method of `sdk.remote.Remote`. None: there
is none, for the reason that stands beside it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

import typer

from tenuto.api.app import describe
from tenuto.cli.commands import app
from tenuto.coordinator.commands import Commands
from tenuto.sdk.remote import Remote
from tenuto.sdk.run import Run
from tenuto.sdk.tenuto import Tenuto
from tenuto.views.answers import Answers


class Row(NamedTuple):
    """What stands behind a route and beside it."""

    verb: str | None
    command: str | None
    method: str | None


PARITY: dict[tuple[str, str], Row] = {
    ("GET", "/healthz"): Row(None, None, None),  # for whoever watches the process
    ("GET", "/readyz"): Row(None, None, None),  # the same
    ("GET", "/v1/health"): Row(None, None, "health"),
    ("POST", "/v1/workflows"): Row("deploy", "workflow deploy", "deploy"),
    ("POST", "/v1/workflows/validate"): Row(None, "validate", "validate"),  # compiling needs no engine
    ("GET", "/v1/workflows"): Row("list_workflows", "workflow list", "list_workflows"),
    ("GET", "/v1/workflows/{name}"): Row("get_workflow", "workflow show", "get_workflow"),
    ("GET", "/v1/workflows/{name}/versions"): Row("list_versions", "workflow show", "list_versions"),
    ("GET", "/v1/workflows/{name}/versions/{version}"): Row("get_version", "workflow show", "get_version"),
    ("GET", "/v1/workflows/{name}/versions/{version}/graph.svg"): Row("find_version", None, None),  # for eyes
    ("DELETE", "/v1/workflows/{name}/versions/{version}"): Row("delete_version", "workflow delete", "delete_version"),
    ("GET", "/v1/workflows/{name}/diff"): Row("diff_versions", "workflow diff", "diff_versions"),
    ("GET", "/v1/workflows/{name}/aliases"): Row("list_aliases", "workflow show", "list_aliases"),
    ("GET", "/v1/workflows/{name}/aliases/{alias}"): Row("get_alias", "workflow show", "get_alias"),
    ("PUT", "/v1/workflows/{name}/aliases/{alias}"): Row("set_alias", "workflow alias", "set_alias"),
    ("DELETE", "/v1/workflows/{name}/aliases/{alias}"): Row("drop_alias", "workflow alias", "drop_alias"),
    ("GET", "/v1/schema/definition.json"): Row(None, "schema", None),  # for editors; no engine is needed
    ("POST", "/v1/runs"): Row("start", "run start", "start_run"),
    ("POST", "/v1/workflows/{name}/runs"): Row("start", None, "start_runs"),  # `run start` starts one
    ("GET", "/v1/runs"): Row("list_runs", "run list", "list_runs"),
    ("GET", "/v1/runs/counts"): Row("count_runs", None, "count_runs"),  # for a page that shows a list
    ("GET", "/v1/runs/events"): Row("changes", None, None),  # for a page that shows a list
    ("GET", "/v1/runs/{run_id}"): Row("get_run", "run show", "get_run"),
    ("GET", "/v1/runs/{run_id}/events"): Row("follow", "run watch", "follow_run"),
    ("POST", "/v1/runs/{run_id}/cancel"): Row("cancel", "run cancel", "cancel_run"),
    ("POST", "/v1/runs/{run_id}/pause"): Row("pause", "run pause", "pause_run"),
    ("POST", "/v1/runs/{run_id}/resume"): Row("resume", "run resume", "resume_run"),
    ("POST", "/v1/runs/{run_id}/terminate"): Row("terminate", "run terminate", "terminate_run"),
    ("POST", "/v1/runs/{run_id}/retry"): Row("retry", "run retry", "retry_run"),
    ("POST", "/v1/runs/{run_id}/replay"): Row("replay", "run replay", "replay_run"),
    ("POST", "/v1/runs/{run_id}/nodes/{node}/skip"): Row("skip", "run skip", "skip_node"),
    ("GET", "/v1/runs/{run_id}/children"): Row("list_children", "run list", "list_children"),
    ("GET", "/v1/runs/{run_id}/nodes/{node}/items"): Row("list_items", "run items", "list_items"),
    ("GET", "/v1/runs/{run_id}/nodes/{node}/iterations"): Row("list_iterations", "run iterations", "list_iterations"),
    ("GET", "/v1/runs/{run_id}/wait"): Row("wait", "run wait", "wait_run"),
    ("GET", "/v1/runs/{run_id}/history"): Row("run_history", "run export", "run_history"),
    ("GET", "/v1/runs/{run_id}/nodes/{node}"): Row("run_node", "run show", "run_node"),
    ("GET", "/v1/runs/{run_id}/notes"): Row("run_notes", "run logs", "run_notes"),
    ("GET", "/v1/runs/{run_id}/export"): Row("export_run", "run export", "export_run"),
    ("GET", "/v1/runs/{run_id}/verify"): Row("verify_run", "run verify", "verify_run"),
    ("GET", "/v1/runs/{run_id}/graph.svg"): Row("run_graph", None, None),  # for eyes
    ("POST", "/v1/events"): Row("send_event", "event send", "send_event"),
    ("POST", "/v1/events/batch"): Row("send_events", None, "send_events"),  # `event send` sends one
    ("POST", "/v1/events/heartbeat"): Row("heartbeat", "event heartbeat", "heartbeat"),
    ("GET", "/v1/events/awaited"): Row("list_awaited", "event list", "list_awaited"),
    ("GET", "/v1/tasks"): Row("list_tasks", "task list", "list_tasks"),
    ("GET", "/v1/workers"): Row("list_workers", "worker list", "list_workers"),
}  # fmt: skip

INSIDE = {
    "find": "names a run for the other verbs",
    "found": "the same",
    "report": "what `get_run` is made of",
    "get_run_row": "the answer of commands",
    "begin_run": "`get_run` in two parts, for who has waited for the end",
    "finish_run": "the second of them",
    "locate_version": "`find_version` without its text, for starts",
    "get_run_rows": "what the stream of all runs tells",
    "wait_all": "`wait` of several: a client waits for each",
}
"""Verbs without a route, and why."""

TOGETHER = {"run": ("start_run", "wait_run")}
"""Methods of the client that are several in one."""


def test_every_route_stands_in_the_table_and_every_row_is_a_route() -> None:
    routes = {
        (method.upper(), path)
        for path, methods in describe()["paths"].items()
        for method in methods
    }

    assert routes == set(PARITY)


def test_every_verb_has_a_route_or_a_reason() -> None:
    verbs = {
        name
        for owner in (Answers, Commands)
        for name, member in vars(owner).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }
    routed = {row.verb for row in PARITY.values() if row.verb is not None}

    assert verbs - routed == set(INSIDE)
    assert routed <= verbs


# -- the command line and the SDK ------------------------------------------------------------------------------------

HERE = {
    "run FILE": "an engine of this process",
    "dev": "the server itself",
    "server": "one of several",
    "worker start": "another process",
    "language-server": "another one",
    "db upgrade": "the database itself, before a server starts",
    "db current": "the same",
    "db check": "the same",
    "db partitions": "for whoever keeps the database",
    "db drop": "the same",
    "token create": "for whoever has the secret",
    "token show": "the token itself",
    "deploy": "`workflow deploy`, said shorter",
    "init": "files of this machine",
    "graph": "a file of this machine, or the text that `workflow show` prints",
    "doctor": "this machine",
    "completion": "this shell",
    "config show": "settings of this folder",
    "version": "this program",
}
"""Commands without a route, and why."""

SDK = {
    (Tenuto, "open"): "health",
    (Tenuto, "deploy"): "deploy",
    (Tenuto, "versions"): "list_versions",
    (Tenuto, "aliases"): "list_aliases",
    (Tenuto, "set_alias"): "set_alias",
    (Tenuto, "drop_alias"): "drop_alias",
    (Tenuto, "delete_version"): "delete_version",
    (Tenuto, "start"): "start_run",
    (Tenuto, "start_many"): "start_runs",
    (Tenuto, "run"): "run",
    (Tenuto, "enqueue"): "start_run",
    (Tenuto, "send_event"): "send_event",
    (Tenuto, "heartbeat"): "heartbeat",
    (Tenuto, "retry"): "retry_run",
    (Tenuto, "replay"): "replay_run",
    (Tenuto, "get_run"): "get_run",
    (Tenuto, "results"): "wait_run",
    (Run, "result"): "wait_run",
    (Run, "status"): "get_run",
    (Run, "cancel"): "cancel_run",
    (Run, "pause"): "pause_run",
    (Run, "resume"): "resume_run",
    (Run, "terminate"): "terminate_run",
    (Run, "skip"): "skip_node",
    (Run, "retry"): "retry_run",
    (Run, "replay"): "replay_run",
    (Run, "plan_replay"): "replay_run",
    (Run, "children"): "list_children",
    (Run, "items"): "list_items",
    (Run, "iterations"): "list_iterations",
}
"""Verbs of a program -> the method of `Remote` behind them where a server has the engine."""


def test_every_command_has_a_route_or_a_reason() -> None:
    commands = set(_commands(typer.main.get_command(app), ()))
    routed = {row.command for row in PARITY.values() if row.command is not None}

    assert commands - routed == set(HERE)
    assert routed <= commands


def test_every_method_of_the_client_has_a_route_and_every_route_with_one_has_it() -> None:
    routed = {row.method for row in PARITY.values()} - {None}

    assert _methods(Remote) - {"close"} - set(TOGETHER) == routed
    assert {each for parts in TOGETHER.values() for each in parts} <= routed


def test_the_clients_reading_verbs_take_what_the_engines_take() -> None:
    for name in _methods(Remote) & _methods(Answers):
        assert _parameters(Remote, name) == _parameters(Answers, name), name


def test_every_verb_of_a_program_works_over_a_server_too() -> None:
    verbs = {
        (owner, name.removeprefix("a"))
        for owner in (Tenuto, Run)
        for name in _methods(owner)
        if name.startswith("a") and name != "aclose"
    }

    assert set(SDK) == verbs
    assert set(SDK.values()) <= _methods(Remote)


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(path)
        return
    for name, each in inner.items():
        yield from _commands(each, (*path, name))


def _methods(owner: type) -> set[str]:
    return {
        name
        for name, member in vars(owner).items()
        if (inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member))
        and not name.startswith("_")
    }


def _parameters(owner: type, name: str) -> list[tuple[str, object]]:
    found = inspect.signature(getattr(owner, name)).parameters.values()
    return [(each.name, each.default) for each in found]

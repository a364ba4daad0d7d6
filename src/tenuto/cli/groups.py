"""The verbs and options of `tenuto workflow|task|worker|event` and `tenuto deploy`, as typer reads them. What a verb
does lives in the module it loads.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tenuto.cli.options import (
    Database,
    Every,
    Format,
    Limit,
    Output,
    Url,
    examples,
    group,
    state_option,
)

workflows = group("Look at deployed workflows and their versions; deploy.")
tasks = group("Look at tasks, those that are dead above all.")
workers = group("Look at who executes tasks.")
events = group("Send what `wait_for_event` nodes wait for; see who waits.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A workflow's name.")]
Files = Annotated[
    list[str], typer.Argument(metavar="FILE…", help="Definitions; - is standard input.")
]


@workflows.command("deploy", epilog=examples("tenuto workflow deploy order.yaml"))
def deploy(
    files: Files, url: Url = None, database: Database = None, output: Output = Format.TABLE
) -> None:
    """Store definitions on a server. Each changed one is a new version; all of them, or none."""
    from tenuto.cli.door import find_door
    from tenuto.cli.starting import deploy_files

    raise typer.Exit(deploy_files(find_door(url, database), files, output=output))


@workflows.command("list", epilog=examples("tenuto workflow list"))
def workflow_list(
    limit: Limit = 50,
    every: Every = False,
    url: Url = None,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """List the deployed workflows with their newest versions."""
    from tenuto.cli.door import find_door
    from tenuto.cli.workflows import list_workflows

    door = find_door(url, database)
    raise typer.Exit(list_workflows(door, limit=limit, every=every, output=output))


@workflows.command(
    "show",
    epilog=examples(
        "tenuto workflow show order", "tenuto workflow show order --version 2 --source"
    ),
)
def workflow_show(
    name: Name,
    version: Annotated[
        int | None,
        typer.Option(
            "--version", metavar="N", min=1, help="Default: the newest.", show_default=False
        ),
    ] = None,
    source: Annotated[
        bool, typer.Option("--source", help="Only the text, as it was deployed.")
    ] = False,
    url: Url = None,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """Show a version: input, vars, nodes, edges. And the versions before it."""
    from tenuto.cli.door import find_door
    from tenuto.cli.workflows import show_workflow

    door = find_door(url, database)
    raise typer.Exit(show_workflow(door, name, version=version, source=source, output=output))


@workflows.command(
    "diff", epilog=examples("tenuto workflow diff order", "tenuto workflow diff order 2 5")
)
def workflow_diff(
    name: Name,
    old: Annotated[
        int | None, typer.Argument(metavar="[A]", min=1, help="Default: the one before B.")
    ] = None,
    new: Annotated[
        int | None, typer.Argument(metavar="[B]", min=1, help="Default: the newest.")
    ] = None,
    url: Url = None,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """Show what changed from version A to B: lines, nodes, edges."""
    from tenuto.cli.door import find_door
    from tenuto.cli.workflows import diff_workflow

    raise typer.Exit(diff_workflow(find_door(url, database), name, old, new, output=output))


@tasks.command(
    "list", epilog=examples("tenuto task list --state dead", "tenuto task list --queue warehouse")
)
def task_list(
    state: Annotated[
        list[str] | None,
        state_option("pending, running, retry, success, dead, cancelled"),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", metavar="NAME", help="Only of this queue.", show_default=False),
    ] = None,
    limit: Limit = 50,
    every: Every = False,
    url: Url = None,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """List tasks, those of the newest runs first."""
    from tenuto.cli.door import find_door
    from tenuto.cli.tasks import list_tasks

    raise typer.Exit(
        list_tasks(
            find_door(url, database),
            states=tuple(state or ()),
            queue=queue,
            limit=limit,
            every=every,
            output=output,
        )
    )


@workers.command("list", epilog=examples("tenuto worker list"))
def worker_list(url: Url = None, database: Database = None, output: Output = Format.TABLE) -> None:
    """List workers as last heard of: how busy, which queues and tasks."""
    from tenuto.cli.door import find_door
    from tenuto.cli.workers import list_workers

    raise typer.Exit(list_workers(find_door(url, database), output=output))


@events.command(
    "send",
    epilog=examples("""tenuto event send order.approved --key 7 --payload '{"by": "ann"}'"""),
)
def event_send(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The event's name.")],
    key: Annotated[str, typer.Option("--key", metavar="KEY", help="What the wait's key yields.")],
    payload: Annotated[
        str, typer.Option("--payload", metavar="JSON|@FILE|-", help="What the wait yields.")
    ] = "null",
    id: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="ID", help="A second event with this id is dropped.", show_default=False
        ),
    ] = None,
    url: Url = None,
    database: Database = None,
) -> None:
    """Put an event into the mailbox. Works while an engine runs and while none does."""
    from tenuto.cli.door import find_door
    from tenuto.cli.events import send_event

    door = find_door(url, database)
    raise typer.Exit(send_event(door, name, key=key, payload=payload, event_id=id))


@events.command(
    "list", epilog=examples("tenuto event list", "tenuto event list --event order.approved")
)
def event_list(
    event: Annotated[
        str | None,
        typer.Option("--event", metavar="NAME", help="Only this event.", show_default=False),
    ] = None,
    url: Url = None,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """List what runs wait for: event, key, how many."""
    from tenuto.cli.door import find_door
    from tenuto.cli.events import list_events

    raise typer.Exit(list_events(find_door(url, database), event=event, output=output))

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
    WorkerGroup,
    examples,
    group,
    state_option,
)

workflows = group("Deployed workflows and their versions. Look at them, compare, name, delete.")
tasks = group("Look at tasks, those that are dead above all.")
workers = group("Execute tasks for a server; look at who does.", WorkerGroup)
events = group("Send what `wait_for_event` nodes wait for; see who waits.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A workflow's name.")]
Files = Annotated[
    list[str], typer.Argument(metavar="FILE…", help="Definitions; - is standard input.")
]


@workflows.command("deploy", epilog=examples("tenuto workflow deploy order.yaml --alias stable"))
def deploy(
    files: Files,
    alias: Annotated[
        list[str] | None,
        typer.Option(
            "--alias",
            metavar="ALIAS",
            help="Let NAME@ALIAS mean this version from now on. May be given several times.",
            show_default=False,
        ),
    ] = None,
    url: Url = None,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """Store definitions on a server. Each changed one is a new version; all of them, or none."""
    from tenuto.cli.door import find_door
    from tenuto.cli.starting import deploy_files

    door = find_door(url, database)
    raise typer.Exit(deploy_files(door, files, aliases=tuple(alias or ()), output=output))


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
    epilog=examples("tenuto workflow show order", "tenuto workflow show order@2 --source"),
)
def workflow_show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A workflow's name; NAME@VERSION and NAME@ALIAS say which version."
        ),
    ],
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
    """Show a version: input, vars, nodes, edges. And the versions before it, and the aliases."""
    from tenuto.cli.door import find_door
    from tenuto.cli.workflows import show_workflow

    door = find_door(url, database)
    raise typer.Exit(show_workflow(door, name, version=version, source=source, output=output))


@workflows.command(
    "diff",
    epilog=examples(
        "tenuto workflow diff order",
        "tenuto workflow diff order@stable order@5 --graph",
        "tenuto workflow diff order.yaml",
    ),
)
def workflow_diff(
    old: Annotated[
        str,
        typer.Argument(
            metavar="OLD",
            help="NAME, NAME@VERSION, NAME@ALIAS or a FILE. Alone it is the newer one.",
        ),
    ],
    new: Annotated[str | None, typer.Argument(metavar="[NEW]", help="The same.")] = None,
    graph: Annotated[
        bool, typer.Option("--graph", help="Nodes and edges, and what of them changed.")
    ] = False,
    url: Url = None,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """Show what changed between two versions or files."""
    from tenuto.cli.door import find_door
    from tenuto.cli.versions import diff_workflow

    raise typer.Exit(
        diff_workflow(lambda: find_door(url, database), old, new, graph=graph, output=output)
    )


@workflows.command(
    "alias",
    epilog=examples(
        "tenuto workflow alias order stable 3", "tenuto workflow alias order stable --drop"
    ),
)
def workflow_alias(
    name: Name,
    alias: Annotated[str, typer.Argument(metavar="ALIAS", help="Such as stable.")],
    version: Annotated[
        str | None, typer.Argument(metavar="[VERSION]", help="What it is to mean, by its number.")
    ] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Let it mean nothing.")] = False,
    url: Url = None,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """Let NAME@ALIAS mean a version, for starts and calls from now on. Runs that have begun keep theirs."""
    from tenuto.cli.door import find_door
    from tenuto.cli.versions import drop_alias, read_version, set_alias

    act = drop_alias if drop else set_alias
    number = None if version is None else read_version(version, "VERSION")
    raise typer.Exit(act(find_door(url, database), name, alias, number, output=output))


@workflows.command("delete", epilog=examples("tenuto workflow delete order@2"))
def workflow_delete(
    version: Annotated[
        str, typer.Argument(metavar="NAME@VERSION", help="The version, by its number.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = None,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """Delete a version. Refused while a run of it is not over, or an alias means it."""
    from tenuto.cli.door import find_door
    from tenuto.cli.versions import delete_version

    raise typer.Exit(delete_version(find_door(url, database), version, sure=yes, output=output))


@tasks.command(
    "list", epilog=examples("tenuto task list --state dead", "tenuto task list --queue warehouse")
)
def task_list(
    state: Annotated[
        list[str] | None,
        state_option("ready, running, retry, success, dead, cancelled"),
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


AppName = Annotated[
    str | None,
    typer.Option(
        "--app",
        "-A",
        metavar="MODULE[:NAME]",
        help="Where your tasks are: module:name or path.py[:name]. Default: the setting app, else app.py here.",
        show_default=False,
    ),
]
Queues = Annotated[
    str | None,
    typer.Option(
        "--queues",
        "-Q",
        metavar="A[,B]",
        help="Queues to work for; * is every one. Default: worker.queues, else default.",
        show_default=False,
    ),
]
Servers = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="HOST:PORT[,…]",
        help="Servers; it is connected to one of them. Default: worker.server, else 127.0.0.1:50051.",
        show_default=False,
    ),
]


@workers.command(
    "start",
    epilog=examples(
        "tenuto worker -A shop.tasks:app",
        "tenuto worker -A app.py --queues default,mail --server db1:50051,db2:50051",
        "tenuto worker --no-http --no-code --processes 4",
    ),
)
def worker_start(
    *,
    app_name: AppName = None,
    queues: Queues = None,
    server: Servers = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            metavar="N",
            min=1,
            max=256,
            help="Processes that run functions. Default: worker.task_processes (not worker.processes: those are for"
            " tasks with process=True), else one a core.",
            show_default=False,
        ),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(
            "--slots",
            metavar="N",
            min=1,
            max=10_000,
            help="Tasks at the same time, over all processes. Default: worker.slots, else 50.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="For people. Default: the host's.", show_default=False
        ),
    ] = None,
    grace: Annotated[
        str | None,
        typer.Option(
            "--grace",
            metavar="TIME",
            help="How long tasks may go on after SIGTERM or Ctrl-C. Default: worker.grace (not worker.drain: that is of"
            " `dev` and `run`), else 30s.",
            show_default=False,
        ),
    ] = None,
    http: Annotated[
        bool, typer.Option("--http/--no-http", help="Whether it runs http nodes.")
    ] = True,
    code: Annotated[
        bool, typer.Option("--code/--no-code", help="Whether it runs code nodes.")
    ] = True,
    languages: Annotated[
        str | None,
        typer.Option(
            "--languages",
            metavar="HOST:PORT|unix:PATH",
            help="A language server for code nodes. Default: languages.server, else one of its own.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Execute the tasks of an app for servers. Until SIGTERM or Ctrl-C; `tenuto worker` is the same.

    SIGHUP loads the app anew. The token that servers ask for is TENUTO_TOKEN, or the file TENUTO_TOKEN_FILE.
    """
    from tenuto.cli.worker import Wanted, work

    wanted = Wanted(
        app=app_name,
        queues=queues,
        server=server,
        processes=processes,
        slots=slots,
        name=name,
        grace=grace,
        http=http,
        code=code,
        languages=languages,
    )
    raise typer.Exit(work(wanted))


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
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep",
            metavar="TIME",
            help="How long it waits for a wait, such as 1h. Default: 7d.",
            show_default=False,
        ),
    ] = None,
    url: Url = None,
    database: Database = None,
) -> None:
    """Put an event into the mailbox. Works while an engine runs and while none does."""
    from tenuto.cli.door import find_door
    from tenuto.cli.events import send_event

    door = find_door(url, database)
    raise typer.Exit(send_event(door, name, key=key, payload=payload, event_id=id, keep=keep))


@events.command("heartbeat", epilog=examples("tenuto event heartbeat job.done --key 7"))
def event_heartbeat(
    name: Annotated[str, typer.Argument(metavar="EVENT", help="The event's name.")],
    key: Annotated[str, typer.Option("--key", metavar="KEY", help="What the wait's key yields.")],
    url: Url = None,
    database: Database = None,
) -> None:
    """Show a sign of life to those who wait for an event. Their heartbeat_timeout counts anew."""
    from tenuto.cli.door import find_door
    from tenuto.cli.events import send_heartbeat

    raise typer.Exit(send_heartbeat(find_door(url, database), name, key=key))


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

"""The verbs and options of `tenuto run`, as typer reads them. What a verb does lives in the module it loads."""

from __future__ import annotations

from typing import Annotated

import typer

from tenuto.cli.options import (
    Database,
    DryRun,
    Every,
    FileCommand,
    Format,
    Given,
    GivenOutput,
    Key,
    Limit,
    NodeWord,
    Output,
    Printed,
    Priority,
    Reason,
    RunGroup,
    RunWord,
    Sets,
    Timeout,
    Url,
    Vars,
    Yes,
    app_option,
    examples,
    group,
    state_option,
)

runs = group(
    "Run a workflow from FILE; start and look at runs. `tenuto run FILE --help` lists its options.",
    RunGroup,
)


@runs.command(
    "FILE",
    cls=FileCommand,
    epilog=examples(
        "tenuto run order.yaml --set order_id=7 --set amount=9.5",
        "tenuto run order.yaml --input @order.json --key order-7",
        "tenuto run --carry-on 1f3a9c2e",
    ),
)
def run_file(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="A .yaml, .yml or .json definition; - is stdin. May be left out with --carry-on.",
            show_default=False,
        ),
    ] = None,
    *,
    app_name: Annotated[str | None, app_option("FILE")] = None,
    input: Given = None,
    sets: Sets = None,
    vars: Vars = None,
    key: Key = None,
    priority: Priority = None,
    database: Database = None,
    carry_on: Annotated[
        str | None,
        typer.Option(
            "--carry-on",
            metavar="ID",
            help="Drive this unfinished run instead of starting one; it keeps the version of its "
            "definition with which it began.",
            show_default=False,
        ),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Start one run of FILE and drive it to its end. Stores the definition first."""
    from tenuto.cli.drive import Wanted, drive

    wanted = Wanted(
        file=file,
        app=app_name,
        input=input,
        sets=tuple(sets or ()),
        vars=tuple(vars or ()),
        key=key,
        priority=priority,
        database=database,
        carry_on=carry_on,
        output=output,
    )
    raise typer.Exit(drive(wanted))


@runs.command(
    "start",
    epilog=examples(
        "tenuto run start order --set order_id=7 --set amount=9.5",
        "tenuto run start order@stable --input @order.json",
        "tenuto run start order.yaml --input @order.json --wait --timeout 1m",
    ),
)
def run_start(
    workflow: Annotated[
        str,
        typer.Argument(
            metavar="WORKFLOW|FILE",
            help="A deployed name (NAME@VERSION and NAME@ALIAS say which version), or a file, which "
            "is deployed first.",
        ),
    ],
    *,
    version: Annotated[
        int | None,
        typer.Option(
            "--version", metavar="N", min=1, help="Of WORKFLOW; the newest.", show_default=False
        ),
    ] = None,
    input: Given = None,
    sets: Sets = None,
    vars: Vars = None,
    key: Key = None,
    priority: Priority = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for its end; 0 or 1 says how.")
    ] = False,
    timeout: Timeout = None,
    url: Url = None,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """Start a run on a server, which carries it to its end."""
    from tenuto.cli.arguments import read_timeout
    from tenuto.cli.door import find_door
    from tenuto.cli.starting import start_run

    raise typer.Exit(
        start_run(
            find_door(url, database),
            workflow,
            version=version,
            input=input,
            sets=tuple(sets or ()),
            vars=tuple(vars or ()),
            key=key,
            priority=priority,
            wait=wait,
            timeout_s=read_timeout(timeout),
            output=output,
        )
    )


@runs.command(
    "list",
    epilog=examples(
        "tenuto run list --state failed --since 2h",
        "tenuto run list --workflow order --all -o jsonl",
        "tenuto run list --parent 1f3a9c2e",
    ),
)
def run_list(
    *,
    workflow: Annotated[
        str | None,
        typer.Option("--workflow", metavar="NAME", help="Only of this.", show_default=False),
    ] = None,
    state: Annotated[
        list[str] | None,
        state_option("pending, running, paused, closing, success, failed, cancelled, timed_out"),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="Only with this key.", show_default=False),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Only those begun since: 2h ago, or an instant such as 2026-12-24T18:00:00Z.",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="TIME", help="Only those begun before.", show_default=False
        ),
    ] = None,
    parent: Annotated[
        str | None,
        typer.Option(
            "--parent",
            metavar="ID",
            help="Only those that this run has called.",
            show_default=False,
        ),
    ] = None,
    children: Annotated[
        bool, typer.Option("--children", help="Those that another run has called, too.")
    ] = False,
    limit: Limit = 50,
    every: Every = False,
    url: Url = None,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """List runs, newest first. Without those that another run has called."""
    from tenuto.cli.arguments import read_moment
    from tenuto.cli.door import find_door
    from tenuto.cli.look import now_us
    from tenuto.cli.runs import list_runs

    now = now_us()
    begun = read_moment(since, "--since", now), read_moment(until, "--until", now)
    raise typer.Exit(
        list_runs(
            find_door(url, database),
            workflow=workflow,
            states=tuple(state or ()),
            key=key,
            since=begun[0],
            until=begun[1],
            parent=parent,
            children=children,
            limit=limit,
            every=every,
            output=output,
        )
    )


@runs.command(
    "show", epilog=examples("tenuto run show 1f3a9c2e", "tenuto run show 1f3a9c2e --node charge")
)
def run_show(
    id: RunWord,
    node: Annotated[
        str | None,
        typer.Option(
            "--node",
            metavar="NODE",
            help="Only this node: input, output, error, attempts, what they said.",
            show_default=False,
        ),
    ] = None,
    url: Url = None,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """Show one run: nodes, what it waits for, timeline, outcome."""
    from tenuto.cli.door import find_door
    from tenuto.cli.runs import show_node, show_run

    door = find_door(url, database)
    if node is not None:
        raise typer.Exit(show_node(door, id, node, output=output))
    raise typer.Exit(show_run(door, id, output=output))


@runs.command("watch", epilog=examples("tenuto run watch 1f3a9c2e"))
def run_watch(
    id: RunWord, url: Url = None, database: Database = None, output: Output = Format.TABLE
) -> None:
    """Show a run as it goes on, until its end. Ctrl-C ends the watching, not the run."""
    from tenuto.cli.door import find_door
    from tenuto.cli.watch import watch_run

    raise typer.Exit(watch_run(find_door(url, database), id, output=output))


@runs.command("wait", epilog=examples("tenuto run wait 1f3a9c2e 7be01d44 --timeout 30s"))
def run_wait(
    ids: Annotated[
        list[str], typer.Argument(metavar="ID…", help="Ids of runs, or their beginnings or ends.")
    ],
    timeout: Timeout = None,
    url: Url = None,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """Wait until runs have ended. Exit code 0 when all succeeded, 1 when one did not."""
    from tenuto.cli.arguments import read_timeout
    from tenuto.cli.door import find_door
    from tenuto.cli.watch import wait_for

    timeout_s = read_timeout(timeout)
    raise typer.Exit(wait_for(find_door(url, database), ids, timeout_s=timeout_s, output=output))


@runs.command(
    "logs", epilog=examples("tenuto run logs 1f3a9c2e", "tenuto run logs 1f3a9c2e --node score -f")
)
def run_logs(
    id: RunWord,
    node: Annotated[
        str | None,
        typer.Option("--node", metavar="NODE", help="Only of this node.", show_default=False),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the run ends.")
    ] = False,
    url: Url = None,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """Print what attempts said: prints, log lines, progress."""
    from tenuto.cli.door import find_door
    from tenuto.cli.watch import show_logs

    door = find_door(url, database)
    raise typer.Exit(show_logs(door, id, node=node, follow=follow, output=output))


@runs.command(
    "items",
    epilog=examples(
        "tenuto run items 1f3a9c2e each", "tenuto run items 1f3a9c2e each --state dead"
    ),
)
def run_items(
    id: RunWord,
    node: NodeWord,
    state: Annotated[
        list[str] | None, state_option("pending, running, retry, success, dead, cancelled")
    ] = None,
    limit: Limit = 50,
    every: Every = False,
    url: Url = None,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """List the items of a foreach that have begun. State, output or error, the run that does it."""
    from tenuto.cli.door import find_door
    from tenuto.cli.items import list_items

    raise typer.Exit(
        list_items(
            find_door(url, database),
            id,
            node,
            states=tuple(state or ()),
            limit=limit,
            every=every,
            output=output,
        )
    )


@runs.command("iterations", epilog=examples("tenuto run iterations 1f3a9c2e poll"))
def run_iterations(
    id: RunWord,
    node: NodeWord,
    limit: Limit = 50,
    every: Every = False,
    url: Url = None,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """List the passes of a node in a loop, oldest first. As far as the loop keeps them."""
    from tenuto.cli.door import find_door
    from tenuto.cli.items import list_iterations

    door = find_door(url, database)
    raise typer.Exit(list_iterations(door, id, node, limit=limit, every=every, output=output))


@runs.command("cancel", epilog=examples("tenuto run cancel 1f3a9c2e --reason 'ordered twice'"))
def run_cancel(
    id: RunWord, reason: Reason = "", url: Url = None, database: Database = None
) -> None:
    """Cancel an unfinished run. Of a server, or of a file that no engine has open."""
    from tenuto.cli.acts import cancel_run
    from tenuto.cli.door import find_door

    raise typer.Exit(cancel_run(find_door(url, database), id, reason))


@runs.command("terminate", epilog=examples("tenuto run terminate 1f3a9c2e --reason 'it hangs'"))
def run_terminate(
    id: RunWord, reason: Reason = "", url: Url = None, database: Database = None
) -> None:
    """End a run at once, and the runs that it has called. Undoes nothing, runs no on_failure."""
    from tenuto.cli.acts import terminate_run
    from tenuto.cli.door import find_door

    raise typer.Exit(terminate_run(find_door(url, database), id, reason))


@runs.command("pause", epilog=examples("tenuto run pause 1f3a9c2e"))
def run_pause(id: RunWord, url: Url = None, database: Database = None) -> None:
    """Hand out no more attempts of a run. Nothing else stops: those under way may end, waits and time-outs pass, events
    are taken, nodes that need no worker (set, switch, wait, emit, call) go on, and the run may end.

    Of a server, or of a file that no engine has open.
    """
    from tenuto.cli.acts import pause_run
    from tenuto.cli.door import find_door

    raise typer.Exit(pause_run(find_door(url, database), id))


@runs.command("resume", epilog=examples("tenuto run resume 1f3a9c2e"))
def run_resume(
    id: RunWord,
    freeze_timers: Annotated[
        bool,
        typer.Option(
            "--freeze-timers",
            help=(
                "Waits and deadlines that have not passed yet move by the time that it was paused; what fell due "
                "during the pause has happened. `until` does not move."
            ),
        ),
    ] = False,
    url: Url = None,
    database: Database = None,
) -> None:
    """Let a paused or quarantined run go on. Where no engine drives it, `tenuto run --carry-on` does then."""
    from tenuto.cli.acts import resume_run
    from tenuto.cli.door import find_door

    raise typer.Exit(resume_run(find_door(url, database), id, freeze_timers=freeze_timers))


@runs.command(
    "skip", epilog=examples("""tenuto run skip 1f3a9c2e charge --output '{"receipt": "by hand"}'""")
)
def run_skip(
    id: RunWord,
    node: NodeWord,
    given: GivenOutput = None,
    url: Url = None,
    database: Database = None,
) -> None:
    """Take a node as done, with an output. One that is under way, or one that failed the run, which then goes on."""
    from tenuto.cli.acts import skip_node
    from tenuto.cli.door import find_door

    raise typer.Exit(skip_node(find_door(url, database), id, node, given))


@runs.command(
    "retry",
    epilog=examples(
        "tenuto run retry 1f3a9c2e --dry-run",
        "tenuto run retry 1f3a9c2e --skip notify --output null --yes",
    ),
)
def run_retry(
    id: RunWord,
    skip: Annotated[
        str | None,
        typer.Option(
            "--skip",
            metavar="NODE",
            help="Take this node as done instead of running it again.",
            show_default=False,
        ),
    ] = None,
    given: GivenOutput = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    url: Url = None,
    database: Database = None,
    output: Printed = Format.TABLE,
) -> None:
    """Go on with a run that failed, was cancelled or timed out. Does again what failed and all that follows from it."""
    from tenuto.cli.acts import retry_run
    from tenuto.cli.door import find_door

    raise typer.Exit(
        retry_run(
            find_door(url, database),
            id,
            skip=skip,
            output=given,
            dry_run=dry_run,
            sure=yes,
            format=output,
        )
    )


@runs.command(
    "replay",
    epilog=examples(
        "tenuto run replay 1f3a9c2e --from score --dry-run",
        "tenuto run replay 1f3a9c2e --from score --input @other.json --yes",
    ),
)
def run_replay(
    id: RunWord,
    *,
    node: Annotated[str, typer.Option("--from", metavar="NODE", help="The node to begin with.")],
    input: Given = None,
    vars: Vars = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    url: Url = None,
    database: Database = None,
    output: Printed = Format.TABLE,
) -> None:
    """Start a new run that keeps what another one did before a node. Of the same version; the old one stays."""
    from tenuto.cli.acts import replay_run
    from tenuto.cli.door import find_door

    raise typer.Exit(
        replay_run(
            find_door(url, database),
            id,
            node,
            input=input,
            vars=tuple(vars or ()),
            dry_run=dry_run,
            sure=yes,
            format=output,
        )
    )


@runs.command("verify", epilog=examples("tenuto run verify 1f3a9c2e", "tenuto run verify --all"))
def run_verify(
    id: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="A run's id, or its beginning or end."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Verify every run there is.")] = False,
    url: Url = None,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """Fold a run's history and compare it with what is stored."""
    from tenuto.cli.door import find_door
    from tenuto.cli.verify import verify

    raise typer.Exit(verify(find_door(url, database), id, every=every, output=output))


@runs.command("export", epilog=examples("tenuto run export 1f3a9c2e --to run.json"))
def run_export(
    id: RunWord,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="FILE", help="Default: stdout.", show_default=False),
    ] = None,
    url: Url = None,
    database: Database = None,
) -> None:
    """Write all that is kept of a run as one JSON document. Definition, history, payloads, logs."""
    from tenuto.cli.door import find_door
    from tenuto.cli.runs import export_run

    raise typer.Exit(export_run(find_door(url, database), id, to=to))

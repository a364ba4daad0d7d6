"""The verbs and options of `tenuto server|db|token`, as typer reads them. Each lives in the module that it loads."""

from __future__ import annotations

from typing import Annotated

import typer

from tenuto.cli.options import Verdict, Yes, examples, group
from tenuto.ports.access import Scope

databases = group("The schema of a PostgreSQL database. Bring it up, look at it, drop what is old.")
tokens = group("Tokens for clients and workers. Make them, read them.")

Shared = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="postgresql://… Default: TENUTO_DATABASE.",
        show_default=False,
    ),
]
Printed = Annotated[
    Verdict, typer.Option("--output", "-o", metavar="text|json", help="How to print it.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only say what would be done; change nothing.")
]


def _address(name: str, what: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        name,
        metavar="HOST",
        help=f"Address of {what}. Beyond loopback: with TENUTO_AUTH_SECRET. Default: 127.0.0.1.",
        show_default=False,
    )
    return option


def _port(name: str, what: str, usual: int) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        name,
        metavar="N",
        min=0,
        max=65_535,
        help=f"Port of {what}; 0 takes a free one. Default: {usual}.",
        show_default=False,
    )
    return option


def server(
    *,
    database: Shared = None,
    host: Annotated[str | None, _address("--host", "REST and the page")] = None,
    port: Annotated[int | None, _port("--port", "REST and the page", 8080)] = None,
    grpc_host: Annotated[str | None, _address("--grpc-host", "the workers' service")] = None,
    grpc_port: Annotated[int | None, _port("--grpc-port", "the workers' service", 50_051)] = None,
    redis: Annotated[
        str | None,
        typer.Option(
            "--redis",
            metavar="URL",
            help="redis://… for dispatch. Default: TENUTO_REDIS__URL, or none.",
            show_default=False,
        ),
    ] = None,
    dispatch: Annotated[
        str | None,
        typer.Option(
            "--dispatch",
            metavar="auto|database|redis",
            help="How ready tasks reach servers. Default: by Redis when redis.url is set.",
            show_default=False,
        ),
    ] = None,
    upgrade: Annotated[
        bool,
        typer.Option("--upgrade", help="Bring the schema up first, as `tenuto db upgrade` does."),
    ] = False,
) -> None:
    """Drive a PostgreSQL database, beside others. Serves REST, the page, and workers; SIGTERM drains it.

    Any number of servers may share a database; each does whatever comes to it, and none is special. Tasks are executed
    by `tenuto worker`.
    """
    from tenuto.cli.server import serve

    flags = {
        "database": database,
        "redis.url": redis,
        "dispatch": dispatch,
        "server.host": host,
        "server.port": port,
        "server.grpc_host": grpc_host,
        "server.grpc_port": grpc_port,
    }
    raise typer.Exit(serve(flags, upgrade=upgrade))


@databases.command("upgrade", epilog=examples("tenuto db upgrade --dry-run", "tenuto db upgrade"))
def db_upgrade(database: Shared = None, dry_run: DryRun = False) -> None:
    """Bring the schema up. Safe beside running servers, and when several do it at once."""
    from tenuto.cli.db import upgrade

    raise typer.Exit(upgrade(database, dry_run=dry_run))


@databases.command("current")
def db_current(database: Shared = None) -> None:
    """Print the schema's version. 0: there is none yet."""
    from tenuto.cli.db import current

    raise typer.Exit(current(database))


@databases.command("check")
def db_check(database: Shared = None, output: Printed = Verdict.TEXT) -> None:
    """Say whether a server would start. Connection, version, schema, partitions, news, connections, clock."""
    from tenuto.cli.db import check

    raise typer.Exit(check(database, as_json=output is Verdict.JSON))


@databases.command("partitions")
def db_partitions(database: Shared = None) -> None:
    """List the partitions. Each holds all that is known of the runs of a span of time."""
    from tenuto.cli.db import partitions

    raise typer.Exit(partitions(database))


@databases.command("drop", epilog=examples("tenuto db drop 20260105 --dry-run"))
def db_drop(
    partition: Annotated[
        str, typer.Argument(metavar="PARTITION", help="As `db partitions` lists it.")
    ],
    database: Shared = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Drop a partition for good, with all its runs.

    Refused for one of now or later, and while a run in it, its parent or a child of it is not over.
    """
    from tenuto.cli.db import drop

    raise typer.Exit(drop(database, partition, dry_run=dry_run, sure=yes))


@tokens.command(
    "create",
    epilog=examples(
        "tenuto token create --scope admin --expires 12h --name ann",
        "tenuto token create --scope worker --expires 30d --queues mail,default",
    ),
)
def token_create(
    scope: Annotated[
        Scope, typer.Option("--scope", metavar="admin|worker", help="What it is for.")
    ],
    *,
    expires: Annotated[
        str, typer.Option("--expires", metavar="DURATION", help="How long it holds: 12h, 30d.")
    ],
    queues: Annotated[
        str,
        typer.Option(
            "--queues",
            metavar="A,B",
            help="The only queues a worker with it may work for. Default: all.",
            show_default=False,
        ),
    ] = "",
    name: Annotated[
        str,
        typer.Option("--name", metavar="NAME", help="Whose it is, for logs.", show_default=False),
    ] = "",
) -> None:
    """Print a token, and nothing else. Signed with TENUTO_AUTH_SECRET as the servers have it."""
    from tenuto.cli.token import print_token

    raise typer.Exit(print_token(scope, expires=expires, name=name, queues=queues))


@tokens.command("show")
def token_show(
    token: Annotated[
        str, typer.Argument(metavar="TOKEN", help="The token; - reads it from standard input.")
    ],
    output: Printed = Verdict.TEXT,
) -> None:
    """Say what a token is for and until when. Needs no secret, so it does not say whether a server believes it."""
    from tenuto.cli.token import show_token

    raise typer.Exit(show_token(token, as_json=output is Verdict.JSON))

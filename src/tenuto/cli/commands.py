"""The verbs and options of `tenuto`, as typer reads them. What a verb does lives in the module it
loads.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup


class Format(StrEnum):
    """How answers are printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


class Verdict(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"


class Shell(StrEnum):
    """Shells that can be taught the command's words."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class RunGroup(TyperGroup):
    """`tenuto run WORD`: a word that names a subcommand is one, anything else is a FILE to run."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Send everything but a subcommand's name or a call for help to the command `FILE`."""
        known = [*self.commands, "--help", "-h"]
        if args and args[0] not in known:
            args = ["FILE", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Offer the subcommands; for a file's name the shell does it better."""
        return [item for item in super().shell_complete(ctx, incomplete) if item.value != "FILE"]


class FileCommand(TyperCommand):
    """`tenuto run FILE`: its own name stands for its argument."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Name the argument once."""
        return ["[OPTIONS]"]


HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    name="tenuto",
    help="Workflows in YAML, carried to their end without losing a step.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=HELP,
)
runs = typer.Typer(
    cls=RunGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run a workflow from FILE; look at runs. `tenuto run FILE --help` lists its options.",
    context_settings=HELP,
)
events = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Send what `wait_for_event` nodes wait for.",
    context_settings=HELP,
)
config = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look at settings: tenuto.toml, TENUTO_… and what they come to.",
    context_settings=HELP,
)
app.add_typer(runs, name="run")
app.add_typer(events, name="event")
app.add_typer(config, name="config")


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def tenuto(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Workflows in YAML, carried to their end without losing a step."""


Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="PATH|URL",
        help="The SQLite file. Default: $TENUTO_DATABASE, else tenuto.toml, else .tenuto/tenuto.db.",
        show_default=False,
    ),
]
Output = Annotated[
    Format,
    typer.Option("--output", "-o", metavar="table|json|jsonl", help="How to print the answer."),
]
RunWord = Annotated[str, typer.Argument(metavar="ID", help="A run's id, or its beginning or end.")]


@runs.command("FILE", cls=FileCommand)
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
    app_name: Annotated[
        str | None,
        typer.Option(
            "--app",
            "-A",
            metavar="MODULE[:NAME]",
            help="Where your tasks are: module:name or path.py[:name]. Default: $TENUTO_APP, else "
            "tenuto.toml, else app.py beside FILE.",
            show_default=False,
        ),
    ] = None,
    input: Annotated[
        str | None,
        typer.Option(
            "--input", "-i", metavar="JSON|@FILE|-", help="The run's input.", show_default=False
        ),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="One field of the input.", show_default=False
        ),
    ] = None,
    vars: Annotated[
        list[str] | None,
        typer.Option(
            "--var", metavar="NAME=VALUE", help="Override one of vars.", show_default=False
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY",
            help="Idempotency key: the same key is the same run.",
            show_default=False,
        ),
    ] = None,
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
    """Store the definition in FILE, start one run of it and drive it to its end."""
    from tenuto.cli.drive import Wanted, drive

    wanted = Wanted(
        file=file,
        app=app_name,
        input=input,
        sets=tuple(sets or ()),
        vars=tuple(vars or ()),
        key=key,
        database=database,
        carry_on=carry_on,
        output=output,
    )
    raise typer.Exit(drive(wanted))


@runs.command("list")
def run_list(
    workflow: Annotated[
        str | None,
        typer.Option("--workflow", metavar="NAME", help="Only of this.", show_default=False),
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help="Only in this state: pending, running, paused, closing, success, failed, "
            "cancelled, timed_out. May be given several times.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=1000, help="At most so many.")
    ] = 50,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """List runs, newest first."""
    from tenuto.cli.runs import list_runs

    raise typer.Exit(
        list_runs(
            database, workflow=workflow, states=tuple(state or ()), limit=limit, output=output
        )
    )


@runs.command("show")
def run_show(id: RunWord, database: Database = None, output: Output = Format.TABLE) -> None:
    """Show one run: nodes, what it waits for, timeline, outcome."""
    from tenuto.cli.runs import show_run

    raise typer.Exit(show_run(database, id, output=output))


@runs.command("verify")
def run_verify(
    id: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="A run's id, or its beginning or end."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Verify every run of the file.")] = False,
    database: Database = None,
    output: Output = Format.TABLE,
) -> None:
    """Fold a run's history and compare it with what is stored."""
    from tenuto.cli.verify import verify

    raise typer.Exit(verify(database, id, every=every, output=output))


@runs.command("cancel")
def run_cancel(
    id: RunWord,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Noted in its history.")
    ] = "",
    database: Database = None,
) -> None:
    """Cancel an unfinished run that no engine is driving."""
    from tenuto.cli.runs import cancel_run

    raise typer.Exit(cancel_run(database, id, reason))


@runs.command("pause")
def run_pause(id: RunWord, database: Database = None) -> None:
    """Hand out no more tasks of an unfinished run that no engine is driving."""
    from tenuto.cli.runs import pause_run

    raise typer.Exit(pause_run(database, id))


@runs.command("resume")
def run_resume(id: RunWord, database: Database = None) -> None:
    """Let a paused or quarantined run go on; `tenuto run --carry-on` then drives it."""
    from tenuto.cli.runs import resume_run

    raise typer.Exit(resume_run(database, id))


@app.command()
def validate(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE…", help="Definitions; - is standard input.")
    ],
    output: Annotated[
        Verdict, typer.Option("--output", "-o", metavar="text|json", help="How to print findings.")
    ] = Verdict.TEXT,
) -> None:
    """Check definitions and print all findings."""
    from tenuto.cli.definitions import validate_files

    raise typer.Exit(validate_files(files, as_json=output is Verdict.JSON))


@events.command("send")
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
    database: Database = None,
) -> None:
    """Put an event into the mailbox; works while an engine runs and while none does."""
    from tenuto.cli.events import send_event

    raise typer.Exit(send_event(database, name, key=key, payload=payload, event_id=id))


@app.command()
def doctor(
    database: Database = None,
    output: Annotated[
        Verdict,
        typer.Option("--output", "-o", metavar="text|json", help="How to print the checks."),
    ] = Verdict.TEXT,
) -> None:
    """Check Python, SQLite, the disk and the database file; say what to do about trouble."""
    from tenuto.cli.doctor import examine

    raise typer.Exit(examine(database, as_json=output is Verdict.JSON))


@config.command("show")
def config_show(
    sources: Annotated[
        bool, typer.Option("--sources", help="Say where each value is from.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Print every setting with its value here; secrets by name only."""
    from tenuto.cli.config import show_settings

    raise typer.Exit(show_settings(sources=sources, output=output))


@app.command()
def init(
    folder: Annotated[
        str, typer.Argument(metavar="[FOLDER]", help="Where; it is made if it is not there.")
    ] = ".",
) -> None:
    """Make a small project: two tasks, a workflow, a test, settings. Writes over nothing."""
    from tenuto.cli.init import make_project

    raise typer.Exit(make_project(folder))


@app.command()
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Your shell.")],
) -> None:
    """Print a script that completes verbs and options; load it in your shell's start file.

    bash: eval "$(tenuto completion bash)" in ~/.bashrc. zsh: the same with zsh, after compinit. fish: tenuto
    completion fish > ~/.config/fish/completions/tenuto.fish.
    """
    from tenuto.cli.completion import print_script

    raise typer.Exit(print_script(shell))


@app.command()
def version() -> None:
    """Print the version; so does `tenuto --version`."""
    from tenuto.model.version import VERSION

    print(f"tenuto {VERSION}")  # noqa: T201 - the answer

"""The verbs and options of `tenuto`, as typer reads them. What a verb does lives in the module it
loads.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tenuto.cli.groups import deploy, events, tasks, workers, workflows
from tenuto.cli.operating import databases, server, tokens
from tenuto.cli.options import (
    HELP,
    Database,
    Format,
    Output,
    Top,
    Url,
    Verdict,
    app_option,
    examples,
    group,
)
from tenuto.cli.run_group import runs


class GraphForm(StrEnum):
    """How a graph is drawn."""

    TEXT = "text"
    MERMAID = "mermaid"
    SVG = "svg"


class Shell(StrEnum):
    """Shells that can be taught the command's words."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


app = typer.Typer(
    name="tenuto",
    cls=Top,
    help="Workflows in YAML, carried to their end without losing a step.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=HELP,
)
config = group("Look at settings. Where each is from, and what it comes to.")
app.add_typer(runs, name="run")
app.add_typer(workflows, name="workflow")
app.add_typer(events, name="event")
app.add_typer(tasks, name="task")
app.add_typer(workers, name="worker")
app.add_typer(databases, name="db")
app.add_typer(tokens, name="token")
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


app.command(
    "server",
    epilog=examples(
        "tenuto server --database postgresql://tenuto@localhost/tenuto",
        "tenuto server --host 0.0.0.0 --grpc-host 0.0.0.0",
    ),
)(server)
app.command("deploy", epilog=examples("tenuto deploy order.yaml"))(deploy)


@app.command(epilog=examples("tenuto dev", "tenuto dev examples/order --port 9000"))
def dev(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILES]",
            help="Definitions, or folders of them. Default: this folder.",
            show_default=False,
        ),
    ] = None,
    *,
    app_name: Annotated[str | None, app_option("the definitions")] = None,
    database: Database = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="N",
            min=0,
            max=65_535,
            help="Port of the page and of REST; 0 takes a free one. Default: 8080.",
            show_default=False,
        ),
    ] = None,
    watch: Annotated[
        bool | None,
        typer.Option(
            "--watch/--no-watch",
            help="Whether changed files become new versions at once. Default: they do.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve the page and REST here, and drive all runs. Ctrl-C ends it."""
    from tenuto.cli.dev import Wanted, serve

    wanted = Wanted(
        files=tuple(files or ()), app=app_name, database=database, port=port, watch=watch
    )
    raise typer.Exit(serve(wanted))


@app.command()
def validate(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE…", help="Definitions; - is standard input.")
    ],
    app_name: Annotated[
        str | None,
        typer.Option(
            "--app",
            "-A",
            metavar="MODULE[:NAME]",
            help="Check params and outputs of its tasks, too: module:name or path.py[:name].",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Verdict, typer.Option("--output", "-o", metavar="text|json", help="How to print findings.")
    ] = Verdict.TEXT,
) -> None:
    """Check definitions and print all findings. Loads an app only where `--app` names one; `run` and `dev` do."""
    from tenuto.cli.definitions import validate_files

    raise typer.Exit(validate_files(files, app=app_name, as_json=output is Verdict.JSON))


@app.command()
def schema() -> None:
    """Print the JSON Schema of definitions, which editors read."""
    from tenuto.cli.definitions import print_schema

    raise typer.Exit(print_schema())


@app.command(
    epilog=examples("tenuto graph order.yaml", "tenuto graph order@stable --format svg -o a.svg")
)
def graph(
    workflow: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME[@REF]",
            help="A definition, - for standard input, or a deployed workflow.",
        ),
    ],
    *,
    form: Annotated[
        GraphForm,
        typer.Option("--format", "-f", metavar="text|mermaid|svg", help="How to draw it."),
    ] = GraphForm.TEXT,
    target: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="OUT", help="A file to write it to.", show_default=False
        ),
    ] = None,
    url: Url = None,
    database: Database = None,
) -> None:
    """Draw a workflow's graph. Findings are printed if the file has errors."""
    from tenuto.cli.drawing import draw

    raise typer.Exit(draw(workflow, form=str(form), target=target, url=url, database=database))


@app.command()
def doctor(
    database: Database = None,
    output: Annotated[
        Verdict,
        typer.Option("--output", "-o", metavar="text|json", help="How to print the checks."),
    ] = Verdict.TEXT,
) -> None:
    """Look for trouble, on this machine and in a cluster. Says what to do about it."""
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
    """Make a small project. Two tasks, a workflow, a test, settings; writes over nothing."""
    from tenuto.cli.init import make_project

    raise typer.Exit(make_project(folder))


@app.command()
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Your shell.")],
) -> None:
    """Print a script that completes verbs and options. Load it in your shell's start file.

    bash: eval "$(tenuto completion bash)" in ~/.bashrc. zsh: the same with zsh, after compinit. fish: tenuto
    completion fish > ~/.config/fish/completions/tenuto.fish.
    """
    from tenuto.cli.completion import print_script

    raise typer.Exit(print_script(shell))


@app.command("language-server", epilog=examples("tenuto language-server --listen 127.0.0.1:7070"))
def language_server(
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Port 0: any. Beyond loopback: with TENUTO_AUTH_SECRET.",
        ),
    ] = "127.0.0.1:50061",
) -> None:
    """Run the code of `code` nodes. For engines and workers that set `languages.server` to this address."""
    from tenuto.cli.languages import serve_languages

    raise typer.Exit(serve_languages(listen))


@app.command()
def version() -> None:
    """Print the version; so does `tenuto --version`."""
    from tenuto.model.version import VERSION

    print(f"tenuto {VERSION}")  # noqa: T201 - the answer

"""What the commands' declarations share: options, kinds of group, examples in a help text. No verb is declared here."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
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


HELP = {"help_option_names": ["-h", "--help"]}
PLURALS = {
    name + "s": name for name in ("run", "workflow", "task", "worker", "event", "token")
}  # what people type; not in any help text
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Begin": ("init", "dev", "run"),
    "Workflows": ("validate", "deploy", "workflow"),
    "Look and act": ("event", "task", "worker"),
    "A cluster": ("server", "language-server", "db", "token"),
    "This machine": ("doctor", "config", "completion", "version"),
}
"""`tenuto --help` in the order in which people meet it; what is in no group comes at the end of the last."""


class Group(TyperGroup):
    """A group whose plural names are the same, and that names what was probably meant."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, or of the word in the singular."""
        return super().get_command(ctx, cmd_name) or super().get_command(
            ctx, PLURALS.get(cmd_name, cmd_name)
        )


class Top(Group):
    """`tenuto` itself: its commands are listed in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group."""
        shown = {name: each for name, each in self.commands.items() if not each.hidden}
        grouped = {name for names in GROUPS.values() for name in names}
        rest = tuple(name for name in shown if name not in grouped)
        *_, last = GROUPS
        widest = max(map(len, shown))
        for title, names in GROUPS.items():
            rows = [
                (name.ljust(widest), shown[name].get_short_help_str(formatter.width - widest - 6))
                for name in (*names, *(rest if title == last else ()))
                if name in shown
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class RunGroup(Group):
    """`tenuto run WORD`: a word that names a subcommand is one, anything else is a FILE to run."""

    fallback = "FILE"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Send everything but a subcommand's name or a call for help to the command `FILE`."""
        known = [*self.commands, "--help", "-h"]
        if args and args[0] not in known:
            self._refuse_misspelt(ctx, args)
            args = ["FILE", *args]
        return super().parse_args(ctx, args)

    def _refuse_misspelt(self, ctx: Any, args: list[str]) -> None:
        """A word like a subcommand's, with another word behind it, is no FILE: that takes none."""
        word, *more = args
        if not more or more[0].startswith("-") or not word.isalpha():
            return
        close = get_close_matches(word, [name for name in self.commands if name != "FILE"], n=1)
        if close:
            ctx.fail(f"No such command '{word}'. Did you mean `tenuto run {close[0]}`?")

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Offer the subcommands; for a file's name the shell does it better."""
        return [item for item in super().shell_complete(ctx, incomplete) if item.value != "FILE"]


class WorkerGroup(Group):
    """`tenuto worker`: without a word it starts one."""

    fallback = "start"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Send options alone to the command `start`."""
        if not args or (args[0].startswith("-") and args[0] not in ("--help", "-h")):
            args = ["start", *args]
        return super().parse_args(ctx, args)


class FileCommand(TyperCommand):
    """`tenuto run FILE`: its own name stands for its argument."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Name the argument once."""
        return ["[OPTIONS]"]


def group(help: str, cls: type[TyperGroup] = Group) -> typer.Typer:
    """A group of verbs."""
    return typer.Typer(
        cls=cls, no_args_is_help=True, rich_markup_mode=None, help=help, context_settings=HELP
    )


def examples(*lines: str) -> str:
    """Commands to copy, at the end of a help text."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def meant(word: str, known: tuple[str, ...]) -> str:
    """A hint that names what was probably meant, else all there is."""
    close = get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"


def app_option(beside: str) -> Any:
    """`--app`. `beside`: beside what an app.py is looked for at last."""
    return typer.Option(
        "--app",
        "-A",
        metavar="MODULE[:NAME]",
        help="Where your tasks are: module:name or path.py[:name]. Default: the setting app, "
        f"else app.py beside {beside}.",
        show_default=False,
    )


def state_option(known: str) -> Any:
    """`--state`, which may be given several times. `known`: the states there are."""
    return typer.Option(
        "--state",
        metavar="STATE",
        help=f"Only in this state: {known}. May be given several times.",
        show_default=False,
    )


Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="PATH|URL",
        help="A SQLite file, or postgresql://… Default: $TENUTO_DATABASE, else .tenuto/tenuto.db.",
        show_default=False,
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="The server to ask. Default: $TENUTO_URL, else the one that has the file open.",
        show_default=False,
    ),
]
Output = Annotated[
    Format,
    typer.Option("--output", "-o", metavar="table|json|jsonl", help="How to print the answer."),
]
Limit = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, max=1000, help="At most so many.")
]
Every = Annotated[bool, typer.Option("--all", help="All there are, however many.")]
Timeout = Annotated[
    str | None,
    typer.Option(
        "--timeout",
        metavar="TIME",
        help="Wait for so long at most, such as 30s or 1h30m; then exit code 124.",
        show_default=False,
    ),
]
RunWord = Annotated[str, typer.Argument(metavar="ID", help="A run's id, or its beginning or end.")]
Given = Annotated[
    str | None,
    typer.Option(
        "--input", "-i", metavar="JSON|@FILE|-", help="The run's input.", show_default=False
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="One field of the input.", show_default=False),
]
Vars = Annotated[
    list[str] | None,
    typer.Option("--var", metavar="NAME=VALUE", help="Override one of vars.", show_default=False),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="KEY",
        help="Idempotency key: the same key is the same run.",
        show_default=False,
    ),
]
Priority = Annotated[
    int | None,
    typer.Option(
        "--priority",
        metavar="N",
        min=0,
        max=9,
        help="Of its tasks whose nodes set none, 0 to 9; higher goes first. Default: 0.",
        show_default=False,
    ),
]
NodeWord = Annotated[str, typer.Argument(metavar="NODE", help="A node's id.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Noted in its history.")]
GivenOutput = Annotated[
    str | None,
    typer.Option(
        "--output",
        metavar="JSON|@FILE|-",
        help="The output of the node that is taken as done. Default: null.",
        show_default=False,
    ),
]
Printed = Annotated[
    Format,
    typer.Option("--format", "-o", metavar="table|json|jsonl", help="How to print the plan."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

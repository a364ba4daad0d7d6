"""`tenuto graph`: a definition or a deployed version as text, Mermaid or SVG."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tenuto.cli.console import note, say
from tenuto.cli.definitions import read_definition, show_findings
from tenuto.cli.door import ask, find_door
from tenuto.cli.workflows import must_hold
from tenuto.model.errors import InvalidDefinition, Unavailable
from tenuto.sdk.workflows import SUFFIXES, Source

if TYPE_CHECKING:
    from tenuto.cli.door import Source as Answers
    from tenuto.model.graph import Graph


def draw(
    workflow: str, *, form: str, target: str | None, url: str | None, database: str | None
) -> int:
    """Print the graph of a file or of a deployed workflow, or write it to `target`.

    Raises:
        InvalidDefinition: the file has errors; NotFound, Unavailable: there is no such file or workflow.
    """
    from tenuto.app.definitions import load_definition

    source = _source(workflow, url, database)
    loaded = load_definition(source.text, file=source.file)
    if loaded.graph is None:
        raise InvalidDefinition(loaded.findings)
    show_findings(loaded.findings)
    text = _drawn(loaded.graph, form)
    if target is None:
        say(text.removesuffix("\n"))
        return 0
    try:
        Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Unavailable(f"{target} cannot be written: {error.strerror}") from None
    note(f"written to {target}")
    return 0


def _source(workflow: str, url: str | None, database: str | None) -> Source:
    if workflow in ("", "-") or workflow.endswith(SUFFIXES) or "/" in workflow:
        return read_definition(workflow)
    door = find_door(url, database)
    must_hold(door, workflow)

    async def read(answers: Answers) -> Source:
        found = await answers.get_workflow(workflow)
        return Source(str(found["source"]), f"{found['name']}@{found['version']}")

    return ask(door, read, output="json")


def _drawn(graph: Graph, form: str) -> str:
    match form:
        case "svg":
            from tenuto.views.picture import graph_svg

            return graph_svg(graph)
        case "mermaid":
            from tenuto.views.mermaid import graph_mermaid

            return graph_mermaid(graph)
        case _:
            from tenuto.views.graph_text import graph_text

            return graph_text(graph)

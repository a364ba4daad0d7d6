"""A definition's text -> its indexed graph, or all that is wrong with it. The only door for definitions.

Steps: text -> tree (`yaml`) -> definition (`shape`, which parses expressions) -> structure (`model.structure`) -> what
expressions may read (`reads`), the last two for each inline graph, too -> what types tell of them (`typecheck`). A step
that can say something although an earlier one found mistakes does so.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenuto.dsl import yaml
from tenuto.dsl.expressions import Expressions
from tenuto.dsl.findings import KINDS, Finding, Findings, Severity
from tenuto.dsl.reads import check_names, check_reads
from tenuto.dsl.shape import Shaped, Stands, shape
from tenuto.dsl.typecheck import check_types
from tenuto.model.expressions import Parser
from tenuto.model.graph import Graph, index
from tenuto.model.shapes import TaskShapes
from tenuto.model.structure import Problem, analyse

# Findings that speak of a node although they name its edges, too.
_AT_THE_NODE = frozenset(
    {
        "join_cannot_fill",
        "all_edges_conditional",
        "failure_cuts_join",
        "race_leak",
        "end_while_parallel",
        "loop_without_wait",
        "loop_no_exit",
    }
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """`graph` is None if any of the findings is an error; warnings alone come with a graph. In document order."""

    graph: Graph | None
    findings: tuple[Finding, ...]


def load(
    text: str | bytes, *, file: str, parser: Parser, tasks: TaskShapes | None = None
) -> Loaded:
    """Compile one definition. `file` names it in findings. Never raises for what the text holds.

    `tasks`: the functions of the app that will run it, where it is known.
    """
    if isinstance(text, bytes):
        text, findings = yaml.decode(text, file)
        if findings.has_errors:
            return Loaded(None, findings.in_order())
    text = text.removeprefix("\ufeff")
    findings = Findings(file, text)
    graph = _compile(text, findings, parser, tasks)
    return Loaded(None if findings.has_errors else graph, findings.in_order())


def _compile(
    text: str, findings: Findings, parser: Parser, tasks: TaskShapes | None
) -> Graph | None:
    tree = yaml.read(text, findings)
    if tree is None:
        return None
    shaped = shape(tree, findings, Expressions(parser, findings))
    if shaped is None:
        return None
    graph = _graph(shaped, frozenset(), findings)
    if graph is not None:
        check_types(shaped, graph, tree, parser, findings, tasks)
    return graph


def _graph(shaped: Shaped, outer: frozenset[str], findings: Findings) -> Graph | None:
    """The graph of a workflow or a `do:`, those inside it first. `outer`: nodes of the graphs around it."""
    definition = shaped.definition
    known = outer | {node.id for node in definition.nodes}
    inlines = [_graph(inner, known, findings) for inner in shaped.inlines]
    check_names(shaped.uses, definition, outer, findings)
    if not shaped.is_whole:
        return None
    analysis = analyse(definition)
    for problem in analysis.problems:
        assert problem.warning == (KINDS[problem.code].severity is Severity.WARNING), problem.code
        stands = _stands(problem, shaped)
        message = f"in `{shaped.where}`: {problem.message}" if shaped.where else problem.message
        findings.add(problem.code, stands.at, stands.text, message=message, hint=problem.hint)
    if analysis.structure is None:
        return None
    graph = index(definition, analysis.structure, tuple(i for i in inlines if i is not None))
    check_reads(shaped.uses, graph, shaped.sees, findings)
    return None if None in inlines else graph


def _stands(problem: Problem, shaped: Shaped) -> Stands:
    """Where the thing to mend stands: the first edge that a problem names, or its first node."""
    if problem.edges and not (problem.nodes and problem.code in _AT_THE_NODE):
        return shaped.edges_at[problem.edges[0]]
    return shaped.nodes_at[problem.nodes[0]]

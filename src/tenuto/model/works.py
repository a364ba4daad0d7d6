"""What a definition holds, wherever it stands: work for workers, child runs, expressions.

It stands in nodes, in bodies and sources of a foreach, in handlers and in inline graphs. Whoever asks which tasks or
queues there are asks here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields

from tenuto.model.definition import Call, Definition, Detail, Foreach, Work
from tenuto.model.expressions import Expression

HTTP = "http"
CODE = "code"
"""Names of work that no function of a user's does; no function may have them."""
ON_FAILURE = "on_failure"


@dataclass(frozen=True, slots=True)
class Asked:
    """Work, and where it stands.

    Attributes:
        where: `charge`, `charge.compensate`, `each.source`, `each/fetch` for a node of the graph in `each`,
            `on_failure`.
        node: id of the innermost node around it; empty in `on_failure` of the workflow.
    """

    where: str
    node: str
    work: Work

    @property
    def task(self) -> str | None:
        """The name of the user's function; None if it is computed (X1), or if there is none."""
        name = self.work.name
        return name if isinstance(name, str) and name not in (HTTP, CODE) else None

    @property
    def owner(self) -> str:
        """Where it stands, in words."""
        return f"node {self.where}" if self.node else self.where


def works(
    definition: Definition, nodes: Collection[int] | None = None, *, above: str = ""
) -> Iterator[Asked]:
    """All work of a definition, in document order.

    Args:
        definition: of a workflow, or an inline graph.
        nodes: numbers of those that are still to do; None: all. Handlers are always still to do.
        above: where an inline graph stands.
    """
    for number, node in enumerate(definition.nodes):
        where = above + node.id
        if nodes is None or number in nodes:
            yield from _of_detail(definition, node.detail, where, node.id)
        if node.compensate is not None:
            undo = f"{where}.compensate"
            yield from _of_detail(definition, node.compensate.detail, undo, node.id)
    if definition.on_failure is not None:
        yield from _of_detail(definition, definition.on_failure.detail, above + ON_FAILURE, "")


def _of_detail(definition: Definition, detail: Detail, where: str, node: str) -> Iterator[Asked]:
    match detail:
        case Work():
            yield Asked(where, node, detail)
        case Foreach(body=body, source=source):
            if source is not None:
                yield Asked(f"{where}.source", node, source)
            yield from _of_detail(definition, body, where, node)
        case Call(inline=int(number)):
            inner = definition.inlines[number]
            only = inner.nodes[0] if len(inner.nodes) == 1 else None
            if only is not None and only.id == node and only.compensate is None:
                # A `do:` that is one node is a graph whose only node is called like the one around it.
                yield from _of_detail(inner, only.detail, where, node)
            else:
                yield from works(inner, above=f"{where}/")
        case _:
            pass


def own_calls(definition: Definition) -> Iterator[Call]:
    """Child runs that a run may begin itself: by nodes and their items, to undo them, and after it failed."""
    for detail in _details(definition):
        body = detail.body if isinstance(detail, Foreach) else detail
        if isinstance(body, Call):
            yield body


def own_expressions(definition: Definition) -> Iterator[Expression]:
    """Expressions that a run evaluates itself; those of inline graphs are the business of theirs."""
    if definition.output is not None:
        yield definition.output
    for edge in definition.edges:
        if edge.when is not None:
            yield edge.when
    for detail in _details(definition):
        yield from expressions_of(detail)


def expressions_of(detail: Detail) -> Iterator[Expression]:
    """Expressions of one node's work, of its items and its source too."""
    if detail is None:
        return
    for field in fields(detail):
        value = getattr(detail, field.name)
        if isinstance(value, Expression):
            yield value
        elif isinstance(value, Work | Call):
            yield from expressions_of(value)


def _details(definition: Definition) -> Iterator[Detail]:
    for node in definition.nodes:
        yield node.detail
        if node.compensate is not None:
            yield node.compensate.detail
    if definition.on_failure is not None:
        yield definition.on_failure.detail

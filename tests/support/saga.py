"""Graphs whose nodes can be undone, for tests of closing (SEMANTICS C)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from tests.support.graphs import definition, index_of, value
from tests.support.world import World

from tenuto.machine.actions import Action
from tenuto.model.definition import (
    Call,
    Detail,
    Foreach,
    Handler,
    NodeType,
    Work,
)
from tenuto.model.expressions import Expression, ExpressionKind, Read, Root
from tenuto.model.graph import Graph
from tenuto.model.instants import DAY_US
from tenuto.model.retry import RetryPolicy

ONCE = RetryPolicy()


def saga(
    text: str,
    *,
    undo: Collection[str] | Mapping[str, Handler] = (),
    started: Collection[str] = (),
    on_failure: Handler | None = None,
    closing_timeout_us: int = DAY_US,
    types: Mapping[str, str] | None = None,
    join: Mapping[str, int] | None = None,
    details: Mapping[str, Detail] | None = None,
    cancel_losers: Collection[str] = (),
    optional: Collection[str] = (),
    timeout_us: int | None = None,
    output: Expression | None = None,
) -> Graph:
    """`graphs.graph` with handlers: the nodes of `undo` have a compensation, those of `started` one that covers work
    that was handed out.
    """
    plain = definition(
        text,
        types=types,
        join=join,
        details=details,
        cancel_losers=cancel_losers,
        optional=optional,
        timeout_us=timeout_us,
        output=output,
    )
    handlers = dict(undo) if isinstance(undo, Mapping) else {id: undoing(id) for id in undo}
    handlers |= {id: undoing(id, started=True) for id in started}
    nodes = tuple(replace(node, compensate=handlers.get(node.id)) for node in plain.nodes)
    return index_of(
        replace(plain, nodes=nodes, on_failure=on_failure, closing_timeout_us=closing_timeout_us)
    )


def undoing(
    id: str,
    *reads: Read,
    started: bool = False,
    retry: RetryPolicy = ONCE,
    queue_timeout_us: int | None = None,
) -> Handler:
    """A task that undoes a node; its input is found in the world's script under `undo-<id>`."""
    work = Work(
        f"undo-{id}",
        reading(f"undo-{id}", f"nodes.{id}.compensate", *reads)
        if reads
        else value("{}", f"nodes.{id}.compensate"),
        retry=retry,
        queue_timeout_us=queue_timeout_us,
    )
    return Handler(NodeType.TASK, work, started)


def last(*reads: Read) -> Handler:
    """A task for `on_failure`."""
    found = reading("last", "on_failure", *reads) if reads else value("{}", "on_failure")
    return Handler(NodeType.TASK, Work("alert", found))


def reading(text: str, where: str, *reads: Read) -> Expression:
    return Expression(ExpressionKind.VALUE, text, where, reads)


def nodes(id: str, field: str = "output") -> Read:
    return Read(Root.NODES, id, field)


def calling(id: str, **more: object) -> Call:
    """A call of the workflow `other`."""
    return replace(Call("other", None, value("{}", f"nodes.{id}.input")), **more)  # type: ignore[arg-type]


def each(id: str, items: str = "[1,2,3]", **more: object) -> Foreach:
    """A task for each item of a list."""
    over = Expression(ExpressionKind.ITEMS, items, f"nodes.{id}.over")
    return replace(Foreach(Work(id, value("{}", f"nodes.{id}.params")), over), **more)  # type: ignore[arg-type]


def undos(world: World) -> list[str]:
    """Handlers begun so far, in order."""
    return [place for place in world.ledger.tasks if "!" in place]


def orders(world: World) -> tuple[Action, ...]:
    """What the last decision ordered."""
    assert world.decision is not None
    return world.decision.actions

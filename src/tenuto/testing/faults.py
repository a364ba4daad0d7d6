"""What a node does in a test instead of its work: return, fail, hang, be lost. Data and their table; executes nothing.

A mock stands for a node (by id, in whatever workflow or `do:`), for an item (`each[3]`) or the handler of one
(`charge!undo`), for a task (by name), or for a whole workflow that is called. A node's own goes before its task's, a
later one before an earlier one.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

from tenuto.model.definition import Call as CallDetail
from tenuto.model.definition import Definition, Foreach, Node, NodeType, Work
from tenuto.model.errors import InvalidInput, NotFound
from tenuto.model.failures import Failure
from tenuto.model.ids import ON_FAILURE, Place, parts_of
from tenuto.ports.gateway import Failed, Lease, Result, Success
from tenuto.runtime.results import Refused, canonical
from tenuto.sdk.typed import plain
from tenuto.testing.clock import duration_of
from tenuto.worker.calls import failure_of, result_of, text_of

UNSET = object()
STUB = "mock:"
"""Before the name of a workflow: the task that a stub of it does."""
_NAMED_MAX = 8
_OK = 200
_REDIRECTED = 300


# -- behaviours ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ends:
    """An attempt ends at once with this result."""

    result: Result


@dataclass(frozen=True, slots=True)
class Calls:
    """An attempt ends with what this function makes of its params."""

    function: Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class Hangs:
    """An attempt does not end by itself."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker dies with an attempt: nobody reports it, and its lease runs out."""


@dataclass(frozen=True, slots=True)
class Real:
    """The work itself is done."""


Behaviour = Ends | Calls | Hangs | Lost | Real


def returns(value: object = None) -> Ends:
    """The attempt succeeds with this value: JSON, or what becomes JSON as a task's result does (models, dates, …).

    Raises:
        InvalidInput: JSON cannot hold it.
    """
    result = result_of(value, plain)
    if isinstance(result, Failed):
        raise InvalidInput(result.message, path="returns")
    return Ends(result)


def raises(
    failure: str | Failure | BaseException,
    message: str = "",
    *,
    details: object = None,
    retryable: bool = True,
    retry_after: str | timedelta = "0s",
) -> Ends:
    """The attempt fails.

    Args:
        failure: a code (`"http.503"`), an exception as a task would raise it, or a `Failure`; the other arguments are
            for a code only.
        retry_after: the shortest back-off that the other side asks for.
    """
    if isinstance(failure, BaseException):
        failed = failure_of(failure)
        return Ends(failed)
    if isinstance(failure, Failure):
        return Ends(
            Failed(
                code=failure.code,
                message=failure.message,
                details=failure.details,
                retryable=failure.retryable,
            )
        )
    if not isinstance(failure, str) or not failure:
        raise InvalidInput(
            f"{failure!r} is neither a code nor an exception; write raises='http.503' or"
            " raises=TaskError('declined')",
            path="raises",
        )
    try:
        kept = None if details is None else canonical(details)
    except Refused as refused:
        raise InvalidInput(refused.message, path="details") from None
    return Ends(
        Failed(
            code=text_of(failure),
            message=text_of(message or "made to fail by a mock"),
            details=kept,
            retryable=retryable,
            retry_after_us=duration_of(retry_after),
        )
    )


def response(
    body: object = None, *, status: int = _OK, headers: Mapping[str, str] | None = None
) -> Ends:
    """What an `http` node makes of this answer: its output, or the failure `http.<status>`."""
    answer = {"status": status, "headers": dict(headers or {}), "body": body}
    if _OK <= status < _REDIRECTED:
        return returns(answer)
    return raises(f"http.{status}", f"the mock answered {status}", details=answer)


def hangs() -> Hangs:
    """The attempt does not end until a clock ends it, it is cancelled, or `Mock.let_go` is called."""
    return Hangs()


def lost() -> Lost:
    """The worker dies with the attempt; it is handed out again once its lease has run out."""
    return Lost()


def real() -> Real:
    """The work itself is done; for one of several `attempts`."""
    return Real()


# -- the table ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One attempt that was begun.

    Attributes:
        params: the node's params as JSON values; of an `http` node its request.
        at: when, by the clock of the test.
        mocked: whether a mock took the place of the work.
    """

    node: str
    task: str
    run_id: str
    params: Any
    attempt: int
    at: datetime
    mocked: bool

    @property
    def request(self) -> Any:
        """The same as `params`, for `http` nodes."""
        return self.params


@dataclass(eq=False)
class Mock:
    """One entry of the table. Attributes: `used`, how many attempts it stood for, or runs of a `workflow`."""

    node: str | None
    task: str | None
    behaviours: tuple[Behaviour, ...]
    workflow: str | None = None
    used: int = 0
    checked: bool = False
    hanging: list[asyncio.Future[Result]] = field(default_factory=list, repr=False)

    def __str__(self) -> str:
        if self.workflow is not None:
            return f"workflow {self.workflow!r}"
        return f"node {self.node!r}" if self.node is not None else f"task {self.task!r}"

    def let_go(self, returns: object = UNSET, *, raises: object = UNSET) -> int:
        """End the attempts that hang by this mock: with a value (None by default) or a failure. Returns how many."""
        result = one_of({"returns": returns, "raises": raises}) or Ends(Success(output="null"))
        assert isinstance(result, Ends)
        ended = 0
        for future in list(self.hanging):
            future.get_loop().call_soon_threadsafe(_resolve, future, result.result)
            ended += 1
        self.hanging.clear()
        return ended

    def at(self, attempt: int) -> Behaviour:
        """What the attempt does; the last one stands for all later ones."""
        return self.behaviours[min(attempt, len(self.behaviours)) - 1]


def _resolve(future: asyncio.Future[Result], result: Result) -> None:
    if not future.done():
        future.set_result(result)


class Mocks:
    """All mocks of a test, newest first."""

    def __init__(self) -> None:
        self.all: list[Mock] = []
        self._definitions: dict[str, Definition] = {}

    def add(self, mock: Mock, known: Iterable[str]) -> None:
        """Add one. `known`: tasks that the app has. Raises NotFound, InvalidInput."""
        if mock.workflow is not None:
            mock.checked = True
        elif self._definitions or mock.task in set(known):
            self._check(mock, known)
        self.all = [mock, *self.all]  # the engine's thread may be reading the old one

    def learn(self, definition: Definition, known: Iterable[str]) -> None:
        """A workflow is known: what was mocked before is looked for in it. Raises NotFound, InvalidInput."""
        self._definitions[definition.name] = definition
        for mock in self.all:
            if not mock.checked:
                self._check(mock, known)

    def find(self, place: Place, task: str) -> Mock | None:
        """The mock that stands for the work of a place, which does this task."""
        names = names_of(place)
        by_node = (mock for name in names for mock in self.all if mock.node == name)
        by_task = (mock for mock in self.all if mock.task == task)
        return next(by_node, None) or next(by_task, None)

    def names(self) -> tuple[str, ...]:
        """Tasks that mocks stand for."""
        nodes = {_bare(mock.node) for mock in self.all if mock.node is not None}
        return (
            *(mock.task for mock in self.all if mock.task is not None),
            *(
                work.name
                for definition in self._definitions.values()
                for node, work in _works(definition)
                if _bare(node) in nodes and isinstance(work.name, str)
            ),
        )

    def _check(self, mock: Mock, known: Iterable[str]) -> None:
        if mock.node is not None:
            self._check_node(mock.node)
        else:
            assert mock.task is not None
            self._check_task(mock.task, known)
        mock.checked = True

    def _check_node(self, id: str) -> None:
        works = [
            name for definition in self._definitions.values() for name, _ in _works(definition)
        ]
        if id in works or _bare(id) in works:
            return
        found = [
            (definition, node)
            for whole in self._definitions.values()
            for definition in _graphs(whole)
            for node in definition.nodes
            if node.id == id
        ]
        if found:
            definition, node = found[0]
            raise InvalidInput(
                f"node {id!r} of {definition.name} is a `{node.type}`, which no worker runs; "
                + _cure(node)
            )
        workers = [name for name in works if "!" not in name]
        where = ", ".join(repr(name) for name in self._definitions)
        raise NotFound("node", id, f"in {where}; {_meant(id, workers, 'a worker runs')}")

    def _check_task(self, name: str, known: Iterable[str]) -> None:
        names = {
            work.name
            for definition in self._definitions.values()
            for _, work in _works(definition)
            if isinstance(work.name, str)
        } | set(known)
        if name not in names:
            raise NotFound("task", name, _meant(name, sorted(names), "there are"))


def names_of(place: Place) -> tuple[str, ...]:
    """By which mocks of nodes the work of a place goes: its item's or handler's, then its node's. A page's by none."""
    if place.startswith("!"):
        return (place.partition("~")[0],)
    parts = parts_of(place)
    if parts.page is not None:
        return ()
    if parts.undo:
        return (f"{parts.node}!undo",)
    return (parts.node,) if parts.index is None else (f"{parts.node}[{parts.index}]", parts.node)


def workflow_of(task: str) -> str:
    """The name of the workflow that a stub's task stands for; any other task's as it is."""
    return task.removeprefix(STUB)


def _bare(name: str) -> str:
    """Without the item."""
    return name.partition("[")[0]


def _graphs(definition: Definition) -> Iterator[Definition]:
    """A definition, and the graphs in it."""
    yield definition
    for inline in definition.inlines:
        yield from _graphs(inline)


def _works(definition: Definition) -> Iterator[tuple[str, Work]]:
    """What a worker does in a definition, by the names that mocks know it by: nodes, items, handlers."""
    for graph in _graphs(definition):
        if graph.on_failure is not None and isinstance(graph.on_failure.detail, Work):
            yield ON_FAILURE, graph.on_failure.detail
        for node in graph.nodes:
            detail = node.detail.body if isinstance(node.detail, Foreach) else node.detail
            if isinstance(detail, Work):
                yield node.id, detail
            if node.compensate is not None and isinstance(node.compensate.detail, Work):
                yield f"{node.id}!undo", node.compensate.detail


def _cure(node: Node) -> str:
    detail = node.detail.body if isinstance(node.detail, Foreach) else node.detail
    if isinstance(detail, CallDetail):
        if isinstance(detail.name, str):
            called = detail.name.partition("@")[0]
            return f"mock the workflow that it calls: env.mock(workflow={called!r}, …)"
        return "mock the nodes of what it calls"
    return _CURES.get(node.type, "mock the nodes before it")


_CURES = {
    NodeType.WAIT: "turn the clock with env.advance(…)",
    NodeType.WAIT_FOR_EVENT: "send its event with env.send_event(…)",
}


def _meant(wrong: str, names: Sequence[str], there: str) -> str:
    near = get_close_matches(wrong, names, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    shown = ", ".join(dict.fromkeys(names[:_NAMED_MAX])) + (
        ", …" if len(names) > _NAMED_MAX else ""
    )
    return f"{there} {shown}" if names else f"{there} none"


def one_of(given: Mapping[str, object]) -> Behaviour | None:
    """The behaviour that the arguments of a mock describe; None: none was given. Raises InvalidInput for several."""
    said = {
        name: value for name, value in given.items() if value is not UNSET and value is not False
    }
    if len(said) > 1:
        raise InvalidInput(f"a mock does one thing, not {' and '.join(said)}; use attempts=[…]")
    for name, value in said.items():
        match name:
            case "returns":
                return value if isinstance(value, Ends) else returns(value)
            case "raises":
                return value if isinstance(value, Ends) else raises(value)  # type: ignore[arg-type]
            case "calls":
                return _calling(value)
            case "hangs":
                return Hangs()
            case _:
                return Lost()
    return None


def each_of(attempts: object) -> tuple[Behaviour, ...]:
    """The behaviours of `attempts=[…]`, first attempt first. Raises InvalidInput."""
    if not isinstance(attempts, Sequence) or isinstance(attempts, str) or not attempts:
        raise InvalidInput(
            "a list is needed, like [raises('http.503'), returns({})]", path="attempts"
        )
    for number, each in enumerate(attempts, 1):
        if not isinstance(each, Behaviour):
            raise InvalidInput(
                f"{each!r} is none of returns(…), raises(…), response(…), hangs(), lost(), real()",
                path=f"attempts[{number}]",
            )
    return tuple(attempts)


def _calling(function: object) -> Calls:
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise InvalidInput(
            f"{function!r} is no plain function of the params; write calls=lambda params: …",
            path="calls",
        )
    return Calls(function)


def params_of(lease: Lease) -> Any:
    """What a test is told of an attempt's input: of a `code` node its params, not its code."""
    value = json.loads(lease.input)
    if lease.name.startswith(STUB):
        return value["input"]
    if lease.name == "code" and isinstance(value, dict):
        return value.get("params")
    return value

"""`Step`: one node without a name, for `do`, `compensate`, `on_failure` and `source`; and the own keys of node types.

What a type's keys are is said here once: a graph's nodes are made of the same.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

from tenuto.sdk.builder.functions import registered, source_of
from tenuto.sdk.builder.keys import (
    ChildKeys,
    Condition,
    Defaults,
    Duration,
    Language,
    Name,
    Number,
    Params,
    Request,
    rendered,
)
from tenuto.sdk.builder.origins import MadeMap, Origin, here, mistake
from tenuto.sdk.builder.references import Json, Ref

TaskName: TypeAlias = str | Ref | Callable[..., Any]
"""A registered function, its name, or what computes the name."""
Keys: TypeAlias = Mapping[str, object]


class Part(ABC):
    """What may stand inside a node: a step, or a graph. `origin`: where it was made."""

    __slots__ = ()
    name: str
    origin: Origin | None

    @abstractmethod
    def part(self, use: str) -> MadeMap:
        """Its tree under the key `use`. Raises InvalidDefinition where it cannot stand there."""


class EachKeys(TypedDict, total=False):
    """Keys that only a foreach has.

    Attributes:
        over: the list: a reference, or text in CEL.
        source: a task's step that hands out the list in pages, instead of `over`.
        do: what is done for an item: a step or a graph; or one of `task` and `call`.
        task, params: a registered function, and its arguments; `params` also of a graph in `do`.
        call, input, output: a workflow, what it is given, and what of its output is the item's.
        concurrency: items under way at a time.
        tolerate: how many may fail, or a share like `5%`.
        batch: items handed out together, as a list.
    """

    over: Condition
    source: Step
    do: Part
    task: TaskName
    params: Params
    call: Name | Part
    input: object
    output: object
    concurrency: Number
    tolerate: Number
    batch: Number


class StepEachKeys(EachKeys, Defaults, total=False):
    """Keys of a foreach that is a step."""


def tree_of(type: str, what: str, *keys: Keys) -> dict[str, Json]:
    """A node's tree. What is None is not given; `what` names the node in mistakes."""
    tree: dict[str, Json] = {"type": type}
    for part in keys:
        for key, value in part.items():
            if value is not None:
                tree[key] = (
                    value if isinstance(value, MadeMap) else rendered(key, value, f"{what}.{key}")
                )
    return tree


def task_keys(task: TaskName | None, params: Params | None) -> Keys:
    """Of a `task`. A function's params must have the names of its parameters."""
    name = task
    if task is not None and not isinstance(task, str | Ref):
        known = registered(task)
        name = known.name
        given = {} if params is None else params
        misfit = known.misfit_of_names(given) if isinstance(given, Mapping) else None
        if misfit is not None:
            raise mistake("bad_value", misfit, "give it the params that it takes", text=known.name)
    return {"task": name, "params": params}


def code_keys(
    code: str | Callable[..., Any], language: Language, params: Params | None, memory: str | None
) -> Keys:
    """Of a `code` node."""
    if not isinstance(code, str):
        if language == "javascript":
            raise mistake("bad_value", "a Python function is no javascript", "give it as text")
        code = source_of(code)
    return {"language": language, "code": code, "params": params, "memory": memory}


def call_keys(
    workflow: Name | Part | None,
    do: Part | None,
    params: Params | None,
    input: object,
    output: object,
    *,
    wait: bool,
) -> Keys:
    """Of a `call`."""
    return {
        "call": _called(workflow),
        "do": _part(do, "do"),
        "params": params,
        "input": input,
        "output": output,
        "wait": None if wait else False,
    }


def each_keys(given: Mapping[str, Any]) -> Keys:
    """Of a `foreach`, and what else it was given, as it is."""
    keys = dict(given)
    if keys.get("task") is not None and keys.get("do") is None:
        keys |= task_keys(keys["task"], keys.get("params"))
    source = keys.get("source")
    if source is not None:
        keys["source"] = _part(source, "source")
    return keys | {"call": _called(keys.get("call")), "do": _part(keys.get("do"), "do")}


def _called(workflow: object) -> object:
    """A workflow's name; of a built one, its own."""
    if not isinstance(workflow, Part):
        return workflow
    if not workflow.name:
        shown = type(workflow).__name__
        cure = "give a graph or a step to `do`"
        raise mistake("wrong_type", f"`call` names a workflow, and a {shown} is none", cure)
    return workflow.name


def _part(given: object, use: str) -> MadeMap | None:
    return None if given is None else part_of(given, use)


def part_of(given: object, use: str) -> MadeMap:
    """What stands under the key `use`. Raises InvalidDefinition for what can be no part."""
    if isinstance(given, Part):
        return given.part(use)
    cure = "make one: `Step.http(…)`, `Step.task(…)`, or a `Graph`"
    raise mistake("wrong_type", f"`{use}` cannot be {given!r:.60}", cure)


class Step(Part):
    """One node without a name and edges: what a foreach or a call does, what undoes a node, what follows a failed run.

    Its methods take what those of a workflow take; what may stand where, the compiler says.
    """

    __slots__ = ("name", "origin", "tree")

    def __init__(self, type: str, *keys: Keys) -> None:
        self.name = ""
        self.origin = here()
        self.tree = tree_of(type, type, *keys)

    def __repr__(self) -> str:
        return f"<step {self.tree['type']}>"

    def part(self, use: str) -> MadeMap:
        """Its keys, as the definition has them under the key `use`."""
        if use == "source":
            if self.tree["type"] != "task":
                cure = "write `source=Step.task(…)`"
                raise mistake("bad_value", "a source is a task that hands out pages", cure)
            return MadeMap({k: v for k, v in self.tree.items() if k != "type"}, self.origin)
        return MadeMap(self.tree, self.origin)

    @classmethod
    def http(cls, *, request: Request, **keys: Unpack[Defaults]) -> Step:
        """Call an API."""
        return cls("http", {"request": request}, keys)

    @classmethod
    def task(
        cls, task: TaskName, *, params: Params | None = None, **keys: Unpack[Defaults]
    ) -> Step:
        """Call a function that a worker registered: the function itself, its name, or what computes that."""
        return cls("task", task_keys(task, params), keys)

    @classmethod
    def code(
        cls,
        code: str | Callable[..., Any],
        *,
        language: Language = "python",
        params: Params | None = None,
        memory: str | None = None,
        **keys: Unpack[Defaults],
    ) -> Step:
        """Run code that the definition itself holds."""
        return cls("code", code_keys(code, language, params, memory), keys)

    @classmethod
    def call(
        cls,
        workflow: Name | Part | None = None,
        *,
        do: Part | None = None,
        params: Params | None = None,
        input: object = None,
        output: object = None,
        wait: bool = True,
        **keys: Unpack[ChildKeys],
    ) -> Step:
        """Start a workflow, or the graph `do`, as a run of its own, and wait for it."""
        return cls("call", call_keys(workflow, do, params, input, output, wait=wait), keys)

    @classmethod
    def foreach(cls, **keys: Unpack[StepEachKeys]) -> Step:
        """Do something for each item of a list."""
        return cls("foreach", each_keys(keys))

    @classmethod
    def emit(
        cls, event: Name, *, key: object, payload: object = None, keep: Duration | None = None
    ) -> Step:
        """Send an event to whoever waits for it."""
        return cls("emit", {"event": event, "key": key, "payload": payload, "keep": keep})

    @classmethod
    def wait(
        cls, *, for_: Duration | None = None, until: str | dt.datetime | Ref | None = None
    ) -> Step:
        """Wait for a while, or until a moment with an offset."""
        return cls("wait", {"for": for_, "until": until})

    @classmethod
    def wait_for_event(
        cls,
        event: Name,
        *,
        key: object = None,
        match: Condition | None = None,
        fail_when: Condition | None = None,
        timeout: Duration | None = None,
        heartbeat_timeout: Duration | None = None,
    ) -> Step:
        """Wait for an event."""
        return cls(
            "wait_for_event",
            {"event": event, "key": key, "match": match, "fail_when": fail_when},
            {"timeout": timeout, "heartbeat_timeout": heartbeat_timeout},
        )

    @classmethod
    def set(cls, values: Params) -> Step:
        """Compute values."""
        return cls("set", {"values": values})

    @classmethod
    def fail(cls, code: str, *, message: object = None, details: object = None) -> Step:
        """Fail, as an item or as a call."""
        return cls("fail", {"code": code, "message": message, "details": details})

    @classmethod
    def end(
        cls, *, as_: Literal["success", "cancelled"] | None = None, output: object = None
    ) -> Step:
        """End the run that it is."""
        return cls("end", {"as": as_, "output": output})

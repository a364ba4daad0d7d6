"""A run of a test, to look at and to check. Whatever looks first lets everything happen that can happen by now.

The verbs that wait have coroutines of the same name with an `a` before it, as in the SDK.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tenuto.model.errors import NotFound, TenutoError
from tenuto.model.ids import RunId
from tenuto.model.instants import format_duration, format_instant
from tenuto.testing.faults import UNSET
from tenuto.testing.shown import hides
from tenuto.testing.sync import RunVerbs
from tenuto.views.report import Report, report_json, waits_told
from tenuto.views.timeline import Step

if TYPE_CHECKING:
    from tenuto.sdk.nested import Item, Iteration, Plan
    from tenuto.sdk.run import Run as SdkRun
    from tenuto.views.family import ItemCounts

_T = TypeVar("_T")
_SHOWN_MAX = 2_000


class Looks(Protocol):
    """What is read of a run as it stands."""

    async def report(self, run_id: RunId) -> Report: ...
    async def node(self, run_id: RunId, id: str) -> Node: ...
    async def path(self, run_id: RunId) -> list[str]: ...


class Around(Protocol):
    """The engine that a run is of."""

    def wait(self, coroutine: Coroutine[Any, Any, _T], verb: str) -> _T: ...
    async def adrain(self) -> None: ...
    async def settle(self) -> None: ...
    async def read(self, make: Callable[[Looks], Coroutine[Any, Any, _T]]) -> _T: ...


class NotFinished(TenutoError):
    """A result was asked for of a run that has none yet."""

    exit_code = 1


class RunCheck(AssertionError):
    """A run is not what a test says that it is; the message ends with the run's timeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node of a run, as it stands.

    Attributes:
        state: pending, running, ready, retry, waiting, success, dead, skipped or cancelled.
        attempts: handed out in its current pass; 0 where no worker runs it.
        iteration: pass of its innermost loop, None outside loops.
        waits_for: in words; empty if for nothing.
        items: of a foreach, how far it is: `total`, `succeeded`, `failed`, `active`, `cancelled`; None before that.
        undo: what became of undoing its work: `due`, `undoing`, `undone`, `failed`, `cancelled`; empty for nothing.
        input: what its worker was given; None if none.
        output, error: JSON values; None while there is none. The error is `{code, message, kind, details, node}`.
    """

    id: str
    type: str
    state: str
    attempts: int
    iteration: int | None
    waits_for: str
    items: ItemCounts | None
    undo: str
    input: Any
    output: Any
    error: Any


__tracebackhide__ = hides


class Run(RunVerbs):
    """One run, made by `Engine.start`. `id`: as everywhere else; `engine`: that it is of."""

    def __init__(self, run: SdkRun, engine: Around) -> None:
        self.id: RunId = run.id
        self._run, self.engine = run, engine

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    # -- looking -----------------------------------------------------------------------------------------------------

    async def astatus(self) -> str:
        """Its state: pending, running, paused, closing, success, failed, cancelled or timed_out."""
        return (await self._report()).state

    async def ais_final(self) -> bool:
        """Whether it has ended."""
        return (await self._report()).is_final

    async def aresult(self) -> Any:
        """Its output as a JSON value.

        Raises:
            RunFailed: it ended as failed, cancelled or timed_out.
            NotFinished: it has not ended; says what it waits for.
        """
        report = await self._report()
        if not report.is_final:
            raise NotFinished(
                f"run {self.id} of {report.workflow} has not ended: {waits_of(report)};"
                " turn the clock with env.run_to_end(run), or make happen what it waits for"
            )
        return await self._run.aresult()

    async def anodes(self) -> dict[str, Node]:
        """All nodes, in the definition's order."""
        report = await self._report()
        return {line.id: await self._node(line.id) for line in report.nodes}

    async def anode(self, id: str) -> Node:
        """One node. Raises NotFound, which says what was probably meant."""
        report = await self._report()
        ids = [line.id for line in report.nodes]
        if id not in ids:
            near = get_close_matches(id, ids, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(ids)}"
            raise NotFound("node", id, f"in {report.workflow!r}; {hint}")
        return await self._node(id)

    async def atimeline(self) -> tuple[Step, ...]:
        """Attempts, waits and requests from outside, in the order of their start; instants in microseconds."""
        return (await self._report()).timeline

    async def apath(self) -> list[str]:
        """Nodes that ended as success or dead, in the order of their ends; in loops once for each pass."""
        await self.engine.adrain()
        return await self.engine.read(lambda reading: reading.path(self.id))

    async def adescribe(self) -> str:
        """The run as lines for people: state, timeline, what it waits for, error."""
        return describe(await self._report())

    # -- acting ------------------------------------------------------------------------------------------------------

    async def acancel(self, reason: str = "") -> None:
        """Ask it to end as cancelled. Raises Conflict when it has ended already."""
        await self._run.acancel(reason)
        await self.engine.settle()

    async def apause(self) -> None:
        """Hand out no more of its tasks. Raises Conflict when it has ended or is paused."""
        await self._run.apause()
        await self.engine.settle()

    async def aresume(self, *, freeze_timers: bool = False) -> None:
        """Go on after a pause; with `freeze_timers` waits and deadlines move by its length. Raises Conflict when it is
        not paused.
        """
        await self._run.aresume(freeze_timers=freeze_timers)
        await self.engine.settle()

    async def aterminate(self, reason: str = "") -> None:
        """End it at once, undoing nothing. Raises Conflict when it has ended already."""
        await self._run.aterminate(reason)
        await self.engine.settle()

    async def askip(self, node: str, output: object = None) -> None:
        """Take a node as done, with this output. Raises NotFound, Conflict, as `tenuto.Run.skip`."""
        await self._run.askip(node, output)
        await self.engine.settle()

    async def aretry(
        self, *, skip: str | None = None, output: object = None, dry_run: bool = False
    ) -> Plan:
        """Go on after it did not succeed; says what is done again. Raises NotFound, Conflict, as `tenuto.Run.retry`."""
        plan = await self._run.aretry(skip=skip, output=output, dry_run=dry_run)
        await self.engine.settle()
        return plan

    async def areplay(
        self, node: str, input: object = None, *, vars: Mapping[str, object] | None = None
    ) -> Run:
        """Start a new run that keeps what this one did before `node`. Raises as `tenuto.Run.replay`."""
        run = await self._run.areplay(node, input, vars=vars)
        await self.engine.settle()
        return Run(run, self.engine)

    # -- looking inside ----------------------------------------------------------------------------------------------

    async def achildren(self) -> list[Run]:
        """The runs that it has called, oldest first."""
        await self.engine.adrain()
        return [Run(child, self.engine) for child in await self._run.achildren()]

    async def aitems(self, node: str, *, state: str | None = None) -> list[Item]:
        """The items of a foreach that have begun, in order. Raises NotFound, InvalidInput."""
        await self.engine.adrain()
        return await self._run.aitems(node, state=state)

    async def aiterations(self, node: str) -> list[Iteration]:
        """The passes of a node in loops, oldest first. Raises NotFound, InvalidInput."""
        await self.engine.adrain()
        return await self._run.aiterations(node)

    # -- checking ----------------------------------------------------------------------------------------------------

    async def aassert_success(self, output: object = UNSET) -> None:
        """It has ended as success, with this output if one is given. Raises RunCheck."""
        report = await self._report()
        if report.state != "success":
            raise RunCheck(f"expected success, but the run is {report.state}\n{describe(report)}")
        if output is not UNSET and report.output != output:
            raise RunCheck(
                f"expected the output {_shown(output)}, got {_shown(report.output)}\n"
                + describe(report)
            )

    async def aassert_failed(self, code: str | None = None, node: str | None = None) -> None:
        """It has ended as failed or timed_out, with this code and at this node if they are given. Raises RunCheck."""
        report = await self._report()
        if report.state not in ("failed", "timed_out"):
            raise RunCheck(f"expected a failure, but the run is {report.state}\n{describe(report)}")
        error = report.error if isinstance(report.error, Mapping) else {}
        for name, wanted in (("code", code), ("node", node)):
            if wanted is not None and error.get(name) != wanted:
                raise RunCheck(
                    f"expected the failure's {name} {wanted!r}, got {error.get(name)!r}\n"
                    + describe(report)
                )

    async def aassert_waiting(self, node: str, for_: str = "") -> None:
        """A node waits or is to be tried again; `for_` stands in what it waits for. Raises RunCheck, NotFound."""
        found = await self.anode(node)
        if found.state not in ("waiting", "retry", "ready"):
            what = f"expected {node} to wait, but it is {found.state}"
        elif for_ not in found.waits_for:
            what = f"expected {node} to wait for {for_!r}, but it waits for {found.waits_for}"
        else:
            return
        raise RunCheck(f"{what}\n{await self.adescribe()}")

    # -- reading -----------------------------------------------------------------------------------------------------

    async def _report(self) -> Report:
        await self.engine.adrain()
        return await self.engine.read(lambda reading: reading.report(self.id))

    async def _node(self, id: str) -> Node:
        return await self.engine.read(lambda reading: reading.node(self.id, id))


def check_path(path: Sequence[str], wanted: Sequence[str | Iterable[str]]) -> str | None:
    """What is wrong with a path; None: nothing. A set among the wanted is nodes that end in any order."""
    left = list(path)
    for place, step in enumerate(wanted, 1):
        group = [step] if isinstance(step, str) else list(step)
        got = left[: len(group)]
        if sorted(got) != sorted(group):
            return f"step {place} is {' and '.join(got) or 'missing'}, not {' and '.join(group)}"
        del left[: len(group)]
    return f"after the last step came {', '.join(left)}" if left else None


def waits_of(report: Report) -> str:
    """What an unfinished run waits for, in one line."""
    return waits_told(report_json(report))


def describe(report: Report) -> str:
    """A report as lines for people."""
    ended = "" if report.ended_at is None else f" after {format_duration(report.lasted_us)}"
    started = format_instant(report.created_at)
    lines = [f"run {report.run_id} of {report.workflow}: {report.state}{ended}, started {started}"]
    rows = [_row(step, report.created_at) for step in report.timeline]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    for row in rows:
        cells = [f"{cell:<{width}}" for cell, width in zip(row[:3], widths, strict=True)]
        lines.append(("  " + "  ".join([*cells, row[3]])).rstrip())
    if not report.is_final:
        lines.append(f"  now: {waits_of(report)}")
    if report.error is not None:
        lines.append(f"  error: {_shown(report.error)}")
    return "\n".join(lines)


def _row(step: Step, origin: int) -> tuple[str, str, str, str]:
    """When, where, what, how it ended."""
    at = "" if step.started_at is None else f"+{format_duration(step.started_at - origin)}"
    took = ""
    if (
        step.started_at is not None
        and step.ended_at is not None
        and step.ended_at > step.started_at
    ):
        took = f" after {format_duration(step.ended_at - step.started_at)}"
    what = step.what if step.attempt is None else f"attempt {step.attempt}"
    said = f" {step.code}" if step.code else ""
    return (
        at,
        step.place or "run",
        what,
        f"{step.result}{said}{took}" + (f": {step.message}" if step.message else ""),
    )


def _shown(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"

"""`Run`: one run of a program's engine, or of a server's. Its verbs without `a` are generated (`sdk/sync.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from tenuto.model.errors import InvalidInput
from tenuto.model.ids import RunId
from tenuto.model.states import RunState
from tenuto.sdk import workflows
from tenuto.sdk.nested import (
    PAGE,
    Item,
    Iteration,
    Plan,
    all_pages,
    item_of,
    iteration_of,
    plan_of,
)
from tenuto.sdk.outcomes import outcome
from tenuto.sdk.sync import RunVerbs
from tenuto.sdk.waiting import waits_of

if TYPE_CHECKING:
    from tenuto.app.embedded import Engine
    from tenuto.sdk.far import Far, FarLink
    from tenuto.sdk.link import Link


class App(Protocol):
    """The program that a run is of: `Tenuto`."""

    link: Link | FarLink
    near: Link
    far: Far | None


class Run(RunVerbs):
    """One run. Made by `start` and `enqueue`, or by `get_run` from an id."""

    def __init__(self, id: str, app: App) -> None:
        self.id = RunId(id)
        self._app = app
        self.link, self._near, self._far = app.link, app.near, app.far

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    async def aresult(self, timeout: float | None = None) -> Any:
        """Wait for the end; the run's output as a JSON value.

        Args:
            timeout: seconds, None for ever; the run itself goes on.

        Raises:
            RunFailed: it ended as failed, cancelled or timed_out.
            TimeoutError: it has not ended in time; says what it waits for.
        """
        workflows.check_timeout(timeout)
        try:
            async with asyncio.timeout(timeout):
                if self._far is not None:
                    return (await self._far.outcomes([self.id]))[0]
                return await self._near.ask(lambda engine: outcome(engine, self.id))
        except TimeoutError:
            why = await waits_of(self._near, self._far, [self.id])
            raise TimeoutError(f"run {self.id} has not ended within {timeout:g} s{why}") from None

    async def astatus(self) -> str:
        """Its state: pending, running, paused, closing, success, failed, cancelled or timed_out."""
        if self._far is not None:
            return await self._far.status(self.id)
        detail = await self._near.ask(lambda engine: engine.reads.get_run(self.id))
        open_ = detail.run.state in (RunState.PENDING, RunState.RUNNING)
        return "paused" if detail.run.paused and open_ else detail.run.state

    async def acancel(self, reason: str = "") -> None:
        """Ask it to end as cancelled. Raises Conflict when it has ended already."""
        from tenuto.dsl.limits import REASON_MAX
        from tenuto.dsl.storable import check_word

        check_word(reason, "reason", REASON_MAX)
        if self._far is not None:
            await self._far.cancel(self.id, reason)
            return
        await self._near.ask(lambda engine: engine.commands.cancel(self.id, reason))

    async def apause(self) -> None:
        """Hand out no more attempts of it until it is resumed. Nothing else stops: waits and time-outs pass, nodes
        that need no worker go on, and it may end. Raises Conflict when it has ended or is paused.
        """
        if self._far is not None:
            await self._far.pause(self.id)
            return
        await self._near.ask(lambda engine: engine.commands.pause(self.id))

    async def aresume(self, *, freeze_timers: bool = False) -> None:
        """Go on after a pause. Raises Conflict when it is not paused.

        Args:
            freeze_timers: waits and deadlines that have not passed yet move by the time that it was paused;
                `until:` does not.
        """
        if self._far is not None:
            await self._far.resume(self.id, freeze_timers=freeze_timers)
            return
        await self._near.ask(
            lambda engine: engine.commands.resume(self.id, freeze_timers=freeze_timers)
        )

    async def aterminate(self, reason: str = "") -> None:
        """End it at once, and its children too: nothing is undone, no `on_failure` runs. Raises Conflict when it has
        ended already.
        """
        from tenuto.dsl.limits import REASON_MAX
        from tenuto.dsl.storable import check_word

        check_word(reason, "reason", REASON_MAX)
        if self._far is not None:
            await self._far.terminate(self.id, reason)
            return
        await self._near.ask(lambda engine: engine.commands.terminate(self.id, reason))

    async def askip(self, node: str, output: object = None) -> None:
        """Take a node as done: one that is under way, or one that failed the run, which then goes on.

        Args:
            node: its id.
            output: any JSON value, in place of what its work would have yielded.

        Raises:
            NotFound: there is no such node.
            Conflict: it has nothing under way, and did not fail the run; or the run cannot go on.
        """
        _check_node(node, "node")
        text = workflows.given_text(output, "output")
        if self._far is not None:
            await self._far.skip(self.id, node, output)
            return
        await self._near.ask(lambda engine: engine.commands.skip(self.id, node, text))

    async def aretry(
        self, *, skip: str | None = None, output: object = None, dry_run: bool = False
    ) -> Plan:
        """Go on with a run that failed, was cancelled or timed out: what failed or was cut short is done again, and
        all that follows from it.

        Args:
            skip: a node that is taken as done, with `output`, instead of being run again.
            output: of that node, any JSON value.
            dry_run: only say what would be done.

        Returns:
            What is done again, and what is kept.

        Raises:
            NotFound: there is no such node.
            Conflict: it cannot go on, with the reason.
        """
        if skip is None and output is not None:
            raise InvalidInput("is that of a node which is skipped; name it: skip=…", path="output")
        if skip is not None:
            _check_node(skip, "skip")
        text = None if skip is None else workflows.given_text(output, "output")
        if self._far is not None:
            return plan_of(
                await self._far.retry(self.id, skip=skip, output=output, dry_run=dry_run)
            )
        from tenuto.coordinator.outlook import outlook_json

        outlook = await self._near.ask(
            lambda engine: engine.commands.retry(self.id, skip=skip, output=text, dry_run=dry_run)
        )
        return plan_of(outlook_json(outlook))

    async def areplay(
        self, node: str, input: object = None, *, vars: Mapping[str, object] | None = None
    ) -> Run:
        """Start a new run of the same version that keeps what this one did before `node`.

        Args:
            node: with which the new run begins.
            input: in place of this one's; None is this one's.
            vars: over this one's.

        Raises:
            NotFound: there is no such node.
            InvalidInput: `input` fails the schema, or a var is unknown.
            Conflict: it has not ended, or what it kept has been undone.
        """
        found, _ = await self._replay(node, input, vars, dry_run=False)
        assert found is not None
        return Run(found, self._app)

    async def aplan_replay(
        self, node: str, input: object = None, *, vars: Mapping[str, object] | None = None
    ) -> Plan:
        """What `replay` would do. Arguments and errors as there."""
        _, plan = await self._replay(node, input, vars, dry_run=True)
        return plan

    async def _replay(
        self, node: str, input: object, vars: Mapping[str, object] | None, *, dry_run: bool
    ) -> tuple[str | None, Plan]:
        _check_node(node, "node")
        text = None if input is None else workflows.given_text(input, "input")
        given = workflows.given_vars({} if vars is None else vars)
        if self._far is not None:
            new, document = await self._far.replay(
                self.id, node, input=input, vars=vars, dry_run=dry_run
            )
            return new, plan_of(document)
        from tenuto.coordinator.outlook import outlook_json

        new, outlook = await self._near.ask(
            lambda engine: engine.commands.replay(
                self.id, node, input=text, vars=given, dry_run=dry_run
            )
        )
        return new, plan_of(outlook_json(outlook))

    # -- looking inside --------------------------------------------------------------------------------------------

    async def achildren(self) -> list[Run]:
        """The runs that it has called, oldest first."""
        found = await self._pages(
            lambda source, cursor: source.list_children(self.id, limit=PAGE, cursor=cursor)
        )
        return [Run(child["run_id"], self._app) for child in reversed(found)]

    async def aitems(self, node: str, *, state: str | None = None) -> list[Item]:
        """The items of a foreach that have begun, in order, with their values.

        Args:
            node: the foreach.
            state: only those in this state: pending, running, retry, success, dead or cancelled.

        Raises:
            NotFound: there is no such node.
            InvalidInput: it is no foreach, or there is no such state.
        """
        states = () if state is None else (state,)
        found = await self._pages(
            lambda source, cursor: source.list_items(
                self.id, node, states=states, limit=PAGE, cursor=cursor
            )
        )
        return [item_of(each) for each in found]

    async def aiterations(self, node: str) -> list[Iteration]:
        """The passes of a node in loops, oldest first, with their values.

        Raises:
            NotFound: there is no such node.
            InvalidInput: it is in no loop.
        """
        found = await self._pages(
            lambda source, cursor: source.list_iterations(self.id, node, limit=PAGE, cursor=cursor)
        )
        return [iteration_of(each) for each in found]

    async def _pages(
        self, page: Callable[[Any, str | None], Coroutine[Any, Any, Mapping[str, Any]]]
    ) -> list[Mapping[str, Any]]:
        """All entries of a list. `page` asks a server, or the reading verbs of the engine, which are the same."""
        if self._far is not None:
            return await self._far.pages(page)

        async def all_of(engine: Engine) -> list[Mapping[str, Any]]:
            from tenuto.views.answers import Answers

            answers = Answers(reads=engine.reads, now=engine.now)
            return await all_pages(partial(page, answers))

        return await self._near.ask(all_of)


def _check_node(node: object, what: str) -> None:
    from tenuto.dsl.storable import check_word

    if not check_word(node, what):
        raise InvalidInput("is empty; give a node's id", path=what)

"""The reading verbs: what REST answers and the command line shows of a file, as documents. Reads only.

A run is named by its id, or by the beginning or end of it. Pages carry a cursor, which is only ever given back.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tenuto.model.errors import InvalidInput, NotFound
from tenuto.model.graph import Graph
from tenuto.model.ids import RunId, split_task_id
from tenuto.model.states import RunState, TaskState
from tenuto.model.stored import decode_graph
from tenuto.model.version import VERSION
from tenuto.ports.reads import Reads, RunFilter, RunWhole, TaskFilter, VersionRow
from tenuto.ports.store import DEFAULT_NAMESPACE, DefinitionRow, RunRow
from tenuto.views import documents
from tenuto.views.diff import Side, diff_document
from tenuto.views.documents import Document, page_document
from tenuto.views.family import shown_state
from tenuto.views.look import find_run, look, plain, read_whole
from tenuto.views.nodes import items_page, iterations_page, node_document
from tenuto.views.report import NodeLine, Report, report_json
from tenuto.views.shelf import Shelf
from tenuto.views.timeline import node_of
from tenuto.views.verify import check_run, checked_json
from tenuto.views.versions import find_version, locate_version, unknown_alias

T = TypeVar("T")
RUN_STATES = ("pending", "running", "paused", *list(RunState)[2:])
"""As people see them."""
TASK_STATES = ("pending", "running", *list(TaskState)[1:])
"""As people see them: a pending task with a lease is running."""
LIMIT = 50
LIMIT_MAX = 1_000
HISTORY_MAX = 10_000
SMALL_MAX = 200
"""Events and nodes of a run whose report is made sooner than another thread takes it over."""
SMALL_TEXTS = 65_536
"""And characters of its values."""
_RUN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VERSION = re.compile(r"[0-9]{1,10}")
_PASSES = re.compile(r"[0-9]{1,10}(\.[0-9]{1,10})*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The reading verbs over one database.

    Attributes:
        now: microseconds, for ages; nothing is decided by it.
        database: as commands must name it; empty for the default.
        engine: as in `views.report.Known`: the process that drives the runs, None if there is none, empty if unknown.
        shelf: graphs that were looked at.
    """

    reads: Reads
    now: Callable[[], int]
    database: str = ""
    engine: str | None = ""
    namespace: str = DEFAULT_NAMESPACE
    shelf: Shelf = field(default_factory=Shelf)

    # -- runs ------------------------------------------------------------------------------------------------------

    async def list_runs(  # noqa: PLR0913 - a filter each, by keyword
        self,
        *,
        workflow: str | None = None,
        states: Sequence[str] = (),
        key: str | None = None,
        since: int | None = None,
        until: int | None = None,
        parent: str | None = None,
        children: bool = False,
        limit: int = LIMIT,
        cursor: str | None = None,
    ) -> Document:
        """Runs, newest first; those that another run called only with `children`, or of one `parent`.

        `since` and `until` are instants. Raises InvalidInput, NotFound (the parent).
        """
        _check_states(states, RUN_STATES)
        wanted = RunFilter(
            namespace=self.namespace,
            workflow=None if workflow is None else plain(workflow),
            states=tuple(states),
            key=None if key is None else plain(key),
            since=since,
            until=until,
            before=_run_cursor(cursor),
            parent=None if parent is None else await self.find(parent),
            top=not children,
            limit=_checked_limit(limit) + 1,
        )
        rows = await self._shown_runs(wanted)
        following = rows[limit - 1].run_id if len(rows) > limit else None
        return page_document([documents.run_document(row) for row in rows[:limit]], following)

    async def _shown_runs(self, wanted: RunFilter) -> Sequence[RunRow]:
        """Runs by the state that people see: a paused one is not listed as running, one that failed while it was
        paused not as paused.
        """
        found: list[RunRow] = []
        while page := await self.reads.list_runs(wanted):
            found += [
                row
                for row in page
                if not wanted.states or shown_state(row.state, paused=row.paused) in wanted.states
            ]
            if len(found) >= wanted.limit or len(page) < wanted.limit:
                break
            wanted = replace(wanted, before=page[-1].run_id)
        return found[: wanted.limit]

    async def count_runs(self) -> Document:
        """How many runs there are of each state, without those that another run called."""
        counts = await self.reads.count_runs(self.namespace, top=True)
        return {str(state): counts.get(state, 0) for state in RUN_STATES}

    async def find(self, text: str) -> RunId:
        """The run that `text` names. Raises NotFound, InvalidInput (several)."""
        return await find_run(self.reads, text)

    async def found(self, text: str, use: Callable[[RunId], Awaitable[T]]) -> T:
        """What `use` makes of the run that `text` names. A whole id is looked for only where `use` raises NotFound."""
        if _RUN_ID.fullmatch(text):
            try:
                return await use(RunId(text))
            except NotFound:
                pass  # then it says what may be meant
        return await use(await self.find(text))

    async def report(self, text: str) -> Report:
        """Everything about a run, as `render` shows it. Raises NotFound, InvalidInput."""
        found, _ = await self._look(text)
        return found

    async def _look(self, text: str) -> tuple[Report, Graph]:
        async def seen(run_id: RunId) -> tuple[Report, Graph]:
            return await self._report(run_id)

        return await self.found(text, seen)

    async def _report(self, run_id: RunId, whole: RunWhole | None = None) -> tuple[Report, Graph]:
        report, _, graph = await look(
            self.reads,
            run_id,
            now=self.now(),
            database=self.database,
            engine=self.engine,
            shelf=self.shelf,
            whole=whole,
        )
        return report, graph

    async def get_run(self, text: str) -> Document:
        """Everything about a run."""
        return report_json(await self.report(text))

    async def begin_run(self, row: RunRow) -> RunWhole:
        """What `finish_run` makes a report of, of a run whose row is known: one reading, and a bounded one."""
        return await read_whole(self.reads, row.run_id, events_max=SMALL_MAX, row=row)

    async def finish_run(self, whole: RunWhole) -> Document:
        """Everything about a run, as `get_run`; reads what `begin_run` has not."""
        report, _ = await self._report(whole.detail.run.run_id, whole)
        return report_json(report)

    async def get_run_row(self, run_id: RunId) -> Document:
        """A run as lists show it."""
        # One row of an index, whatever the size of the run: the newest before all that sort after it.
        rows = await self.reads.list_runs(
            RunFilter(namespace=self.namespace, before=RunId(f"{run_id}~"), limit=1)
        )
        if not rows or rows[0].run_id != run_id:
            raise NotFound("run", run_id)
        return documents.run_document(rows[0])

    async def get_run_rows(self, run_ids: Sequence[RunId]) -> Sequence[Document]:
        """The same of many; without those that are not there."""
        return [documents.run_document(row) for row in await self.reads.get_runs(run_ids)]

    async def run_graph(self, text: str) -> tuple[Graph, Sequence[NodeLine]]:
        """The graph of a run, and how its nodes stand."""
        report, graph = await self._look(text)
        return graph, report.nodes

    async def list_children(
        self, text: str, *, limit: int = LIMIT, cursor: str | None = None
    ) -> Document:
        """Runs that a run has called, newest first. Raises NotFound, InvalidInput."""
        return await self.list_runs(parent=text, limit=limit, cursor=cursor)

    async def list_items(
        self,
        text: str,
        node: str,
        *,
        states: Sequence[str] = (),
        limit: int = LIMIT,
        cursor: str | None = None,
    ) -> Document:
        """Items of a foreach that have begun, in order, with their values. Raises NotFound, InvalidInput."""
        _check_states(states, TASK_STATES)
        return await items_page(
            self.reads,
            await self.find(text),
            plain(node),
            states=states,
            limit=_checked_limit(limit),
            after=-1 if cursor is None else _number(cursor, "cursor"),
        )

    async def list_iterations(
        self, text: str, node: str, *, limit: int = LIMIT, cursor: str | None = None
    ) -> Document:
        """Passes of a node in loops, oldest first, with their values. Raises NotFound, InvalidInput."""
        return await iterations_page(
            self.reads,
            await self.find(text),
            plain(node),
            limit=_checked_limit(limit),
            after=_passes(cursor),
        )

    async def run_history(self, text: str, *, after: int = 0, limit: int = LIMIT_MAX) -> Document:
        """Events with a number above `after`; the cursor is the last one's."""
        if not 1 <= limit <= HISTORY_MAX:
            raise InvalidInput(f"must be 1 to {HISTORY_MAX:,}", path="limit")
        run_id = await self.find(text)
        rows = await self.reads.history(run_id, after=after, limit=limit + 1)
        following = str(rows[limit - 1].seq) if len(rows) > limit else None
        return page_document([documents.event_document(row) for row in rows[:limit]], following)

    async def run_notes(
        self, text: str, *, node: str | None = None, limit: int = LIMIT_MAX
    ) -> Document:
        """What attempts said, oldest first; of one node, or of one place of it. The newest `limit` notes of the run."""
        run_id = await self.find(text)
        rows = await self.reads.notes(run_id, limit=HISTORY_MAX)
        kept = [row for row in rows if node is None or node in (row.place, node_of(row.place))]
        shown = kept[-_checked_limit(limit) :]
        return page_document([documents.note_document(row) for row in shown], None)

    async def run_node(self, text: str, node: str) -> Document:
        """Payloads, attempts and notes of a node in its current pass, or of the place that `node` names."""
        report, graph = await self._look(text)
        return await node_document(self.reads, report, graph, plain(node))

    async def export_run(self, text: str) -> Document:
        """All that is kept of a run, as one document."""
        run_id = await self.find(text)
        detail = await self.reads.get_run(run_id)
        row = await self.reads.get_definition(detail.run.definition.partition("#")[0])
        history = await self.reads.history(run_id)
        while len(more := await self.reads.history(run_id, after=len(history))):
            history = (*history, *more)
        return {
            "tenuto": VERSION,
            "run": await self.get_run(run_id),
            "definition": await self._version(replace(row, version=detail.run.version)),
            "history": [documents.event_document(each) for each in history],
            "payloads": [
                documents.payload_document(each) for each in await self.reads.all_payloads(run_id)
            ],
            "notes": [
                documents.note_document(each)
                for each in await self.reads.notes(run_id, limit=1_000_000)
            ],
        }

    async def verify_run(self, text: str) -> Document:
        """Fold the history and compare: `{"run_id", "events", "ok", "differences"}`."""
        return checked_json(await check_run(self.reads, await self.find(text)))

    # -- workflows -------------------------------------------------------------------------------------------------

    async def list_workflows(self, *, limit: int = LIMIT, cursor: str | None = None) -> Document:
        """Names with their newest versions, by name."""
        rows = await self.reads.list_workflows(
            self.namespace, after=plain(cursor or ""), limit=_checked_limit(limit) + 1
        )
        following = rows[limit - 1].name if len(rows) > limit else None
        return page_document([documents.workflow_document(row) for row in rows[:limit]], following)

    async def get_workflow(self, name: str) -> Document:
        """The newest version of a name; of `order@3` or `order@stable` the one that is named. Raises NotFound."""
        return await self._version(await self.find_version(name))

    async def list_versions(
        self, name: str, *, limit: int = LIMIT, cursor: str | None = None
    ) -> Document:
        """Versions, newest first. Raises NotFound for an unknown name."""
        rows = await self.reads.list_versions(
            self.namespace,
            plain(name),
            before=None if cursor is None else _number(cursor, "cursor"),
            limit=_checked_limit(limit) + 1,
        )
        if not rows:
            await self.find_version(name)
        following = str(rows[limit - 1].version) if len(rows) > limit else None
        return page_document(
            [documents.version_row_document(row) for row in rows[:limit]], following
        )

    async def get_version(self, name: str, version: int) -> Document:
        """One version. Raises NotFound."""
        return await self._version(await self.find_version(name, version))

    async def find_version(self, name: str, version: int | str | None = None) -> DefinitionRow:
        """The row of a version: a number or an alias, also behind the name's `@`; by default the newest.

        Raises NotFound, InvalidInput.
        """
        reference = None if version is None else str(version)
        return await find_version(self.reads, self.namespace, name, reference)

    async def locate_version(self, name: str, version: int | str | None = None) -> VersionRow:
        """The same without its text and graph, in one small reading. Raises as `find_version`."""
        reference = None if version is None else str(version)
        return await locate_version(self.reads, self.namespace, name, reference)

    async def list_aliases(self, name: str) -> Document:
        """The aliases of a name, each with its version. Raises NotFound for an unknown name."""
        name = (await self.find_version(name)).name
        rows = await self.reads.list_aliases(self.namespace, name)
        return page_document([documents.alias_document(name, row) for row in rows], None)

    async def get_alias(self, name: str, alias: str) -> Document:
        """One alias. Raises NotFound."""
        name = (await self.find_version(name)).name
        rows = await self.reads.list_aliases(self.namespace, name)
        for row in rows:
            if row.alias == alias:
                return documents.alias_document(name, row)
        raise unknown_alias(name, alias, rows)

    async def diff_versions(
        self, name: str, *, old: str | None = None, new: str | None = None
    ) -> Document:
        """What changed from one version to another: texts and graphs (`views.diff`).

        Both are numbers or aliases. `new` is the newest by default, `old` the one before `new`.
        Raises NotFound, InvalidInput (nothing is older).
        """
        after = await self.find_version(name, new)
        before = await (self.find_version(name, old) if old is not None else self._before(after))
        return diff_document(_side(before), _side(after))

    async def _before(self, row: DefinitionRow) -> DefinitionRow:
        older = await self.reads.list_versions(
            self.namespace, row.name, before=row.version, limit=1
        )
        if not older:
            raise InvalidInput(
                f"no version of {row.name} is older than {row.version}; there is nothing to compare"
            )
        return await self.reads.get_version(self.namespace, row.name, older[0].version)

    async def _version(self, row: DefinitionRow) -> Document:
        known = await self.reads.list_aliases(self.namespace, row.name)
        aliases = [each.alias for each in known if each.version == row.version]
        return documents.version_document(row, decode_graph(row.graph).definition, aliases)

    # -- the rest --------------------------------------------------------------------------------------------------

    async def list_tasks(
        self,
        *,
        states: Sequence[str] = (),
        queue: str | None = None,
        limit: int = LIMIT,
        cursor: str | None = None,
    ) -> Document:
        """Tasks, those of the newest runs first. Raises InvalidInput."""
        _check_states(states, TASK_STATES)
        try:
            before = None if cursor is None else split_task_id(plain(cursor))
        except ValueError:
            raise InvalidInput(
                "is none of ours; leave it out to begin anew", path="cursor"
            ) from None
        rows = await self.reads.list_tasks(
            TaskFilter(
                namespace=self.namespace,
                states=tuple(states),
                queue=None if queue is None else plain(queue),
                before=before,
                limit=_checked_limit(limit) + 1,
            )
        )
        following = None
        if len(rows) > limit:
            last = rows[limit - 1]
            following = f"{last.run_id}/{last.task.place}"
        return page_document([documents.task_document(row) for row in rows[:limit]], following)

    async def list_workers(self) -> Document:
        """Workers as last heard of, by id."""
        rows = await self.reads.list_workers()
        return page_document([documents.worker_document(row) for row in rows], None)

    async def list_awaited(self, *, event: str | None = None) -> Document:
        """Addresses that open waits wait for."""
        rows = await self.reads.list_awaited(
            self.namespace, None if event is None else plain(event)
        )
        return page_document([documents.awaited_document(row) for row in rows], None)


def is_small(whole: RunWhole) -> bool:
    """Whether a report of this takes no time to speak of."""
    last = whole.events[-1].seq if whole.events else 0
    snapshot = whole.detail.snapshot
    size = sum(len(text) for text in whole.texts.values() if text is not None)
    return last >= snapshot.seq and len(snapshot.nodes) <= SMALL_MAX and size <= SMALL_TEXTS


def _side(row: DefinitionRow) -> Side:
    return Side(f"{row.name}@{row.version}", row.source, decode_graph(row.graph).definition)


def _check_states(given: Sequence[str], known: Sequence[str]) -> None:
    for state in given:
        if state not in known:
            raise InvalidInput(
                f"there is no state {state!r}; there are {', '.join(known)}", path="state"
            )


def _checked_limit(limit: int) -> int:
    if not 1 <= limit <= LIMIT_MAX:
        raise InvalidInput(f"must be 1 to {LIMIT_MAX:,}", path="limit")
    return limit


def _run_cursor(cursor: str | None) -> RunId | None:
    if cursor is not None and not _RUN_ID.fullmatch(cursor):
        raise InvalidInput("is none of ours; leave it out to begin anew", path="cursor")
    return None if cursor is None else RunId(cursor)


def _passes(cursor: str | None) -> tuple[int, ...]:
    if cursor is not None and not _PASSES.fullmatch(cursor):
        raise InvalidInput("is none of ours; leave it out to begin anew", path="cursor")
    return () if cursor is None else tuple(map(int, cursor.split(".")))


def _number(text: str, path: str) -> int:
    if not _VERSION.fullmatch(text):  # beyond, no store could compare it
        raise InvalidInput("is none of ours; leave it out to begin anew", path=path)
    return int(text)

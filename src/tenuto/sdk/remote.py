"""The client of REST: a server's verbs as coroutines with the names and documents of `views.answers`, and its errors.

Knows no command and no Python value of a run: documents in, documents out. One `Remote` belongs to one event loop.
A request that may be repeated is repeated when its connection is lost; starts and events carry a key for that.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

import httpx2

from tenuto.dsl.storable import check_word
from tenuto.model.instants import format_instant
from tenuto.model.states import FINAL_RUN_STATES
from tenuto.runtime.results import canonical
from tenuto.sdk.exchange import CONNECT_S, Document, Exchange
from tenuto.sdk.wire import (
    Calm,
    drawn,
    members,
    read_events,
    reason_of,
    run_segment,
    segment,
)

LIMIT = 50
WAIT_S = 25.0
"""Longest single request of a wait: below what anything between client and server bears."""
SILENCE_S = 60.0
"""A stream that says nothing for so long is opened anew; a server sends signs of life more often."""


@dataclass(frozen=True, slots=True)
class Sending:
    """One event of several, with what `Remote.send_event` takes."""

    event: str
    key: str
    payload: object = None
    _: KW_ONLY
    event_id: str | None = None
    keep: str | None = None


class Remote(Exchange):
    """One server. Use it as an async context manager, or call `close`.

    Every verb raises Unavailable where the server cannot be reached or is none of ours, and what the engine itself
    would raise for the request.
    """

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
        """A page of runs, newest first."""
        wanted = {
            "workflow": workflow,
            "state": list(states),
            "key": key,
            "since": None if since is None else format_instant(since),
            "until": None if until is None else format_instant(until),
            "parent": parent,
            "children": "true" if children else None,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._get("/runs", wanted)

    async def count_runs(self) -> Document:
        """How many runs there are of each state."""
        return await self._get("/runs/counts")

    async def get_run(self, text: str) -> Document:
        """Everything about a run."""
        return await self._get(f"/runs/{run_segment(text)}")

    async def run_history(self, text: str, *, after: int = 0, limit: int = 1_000) -> Document:
        """A page of events."""
        return await self._get(
            f"/runs/{run_segment(text)}/history", {"after": after, "limit": limit}
        )

    async def run_notes(
        self, text: str, *, node: str | None = None, limit: int = 1_000
    ) -> Document:
        """What attempts said."""
        return await self._get(f"/runs/{run_segment(text)}/notes", {"node": node, "limit": limit})

    async def run_node(self, text: str, node: str) -> Document:
        """Payloads, attempts and notes of a node."""
        return await self._get(f"/runs/{run_segment(text)}/nodes/{segment(node, 'node')}")

    async def list_children(
        self, text: str, *, limit: int = LIMIT, cursor: str | None = None
    ) -> Document:
        """A page of the runs that a run has called, newest first."""
        return await self._get(
            f"/runs/{run_segment(text)}/children", {"limit": limit, "cursor": cursor}
        )

    async def list_items(
        self,
        text: str,
        node: str,
        *,
        states: Sequence[str] = (),
        limit: int = LIMIT,
        cursor: str | None = None,
    ) -> Document:
        """A page of the items of a foreach that have begun, in order."""
        return await self._get(
            f"/runs/{run_segment(text)}/nodes/{segment(node, 'node')}/items",
            {"state": list(states), "limit": limit, "cursor": cursor},
        )

    async def list_iterations(
        self, text: str, node: str, *, limit: int = LIMIT, cursor: str | None = None
    ) -> Document:
        """A page of the passes of a node in loops, oldest first."""
        return await self._get(
            f"/runs/{run_segment(text)}/nodes/{segment(node, 'node')}/iterations",
            {"limit": limit, "cursor": cursor},
        )

    async def export_run(self, text: str) -> Document:
        """All that is kept of a run."""
        return await self._get(f"/runs/{run_segment(text)}/export")

    async def verify_run(self, text: str) -> Document:
        """Whether its history folds to what is stored."""
        return await self._get(f"/runs/{run_segment(text)}/verify")

    async def start_run(
        self,
        workflow: str,
        input: object = None,
        *,
        version: int | None = None,
        key: str | None = None,
        vars: Mapping[str, object] | None = None,
        priority: int = 0,
    ) -> Document:
        """Start a run; its document. `input`: None is none at all.

        A start is safe to repeat: where the caller gave no `key`, the request brings one of its own.

        Raises:
            Refused: a value that JSON cannot hold.
        """
        fields = _start_fields(workflow, input, version, key, vars, priority)
        headers = {} if key is not None else {"Idempotency-Key": drawn("once")}
        return await self._call("POST", "/runs", fields=fields, headers=headers, again=True)

    async def run(
        self,
        workflow: str,
        input: object = None,
        *,
        version: int | None = None,
        key: str | None = None,
        vars: Mapping[str, object] | None = None,
        priority: int = 0,
        timeout_s: float | None = None,
    ) -> Document:
        """Start a run and wait for its end, in one request where it is short: the run with its `output` and `error`;
        its report where that takes longer, or after `timeout_s`: look at `state`. As safe to repeat as `start_run`, and
        so are its errors; the rest is as `wait_run` says it.
        """
        fields = _start_fields(workflow, input, version, key, vars, priority)
        headers = {} if key is not None else {"Idempotency-Key": drawn("once")}
        clock = asyncio.get_running_loop().time
        until = None if timeout_s is None else clock() + timeout_s
        held = WAIT_S if timeout_s is None else min(WAIT_S, max(0.0, timeout_s))
        found = await self._call(
            "POST",
            "/runs",
            params={"wait": f"{held:g}"},
            fields=fields,
            headers=headers,
            again=True,
            patience_s=self._patience_s,
            read_s=held + self._timeout_s,
        )
        if found["state"] in FINAL_RUN_STATES and "output" in found:
            return found
        left = None if until is None else max(0.0, until - clock())
        report = await self.wait_run(found["run_id"], left)
        return {**report, "deduplicated": found["deduplicated"]}

    async def start_runs(
        self,
        workflow: str,
        runs: Sequence[tuple[object, str | None]],
        *,
        version: int | None = None,
        vars: Mapping[str, object] | None = None,
        priority: int = 0,
    ) -> Document:
        """Start a run for each (input, key), at most 500; their ids in order, or none where an input is wrong.

        As safe to repeat as `start_run`, and so are its errors.
        """
        starts = (
            f'{{"input":{canonical(value, name="input")},'
            f'"key":{json.dumps(drawn("once") if key is None else check_word(key, "key"))}}}'
            for value, key in runs
        )
        fields = {"runs": f"[{','.join(starts)}]"}
        if version is not None:
            fields["version"] = str(version)
        if vars:
            fields["vars"] = canonical(dict(vars), name="vars")
        if priority:
            fields["priority"] = str(priority)
        path = f"/workflows/{segment(workflow, 'workflow')}/runs"
        return await self._call("POST", path, fields=fields, again=True)

    async def cancel_run(self, text: str, reason: str = "") -> Document:
        """Ask a run to end as cancelled. Raises Conflict where it has ended."""
        fields = {"reason": json.dumps(reason)} if reason else {}
        return await self._call("POST", f"/runs/{run_segment(text)}/cancel", fields=fields)

    async def pause_run(self, text: str) -> Document:
        """Hand out no more of its tasks."""
        return await self._call("POST", f"/runs/{run_segment(text)}/pause", fields={})

    async def resume_run(self, text: str, *, freeze_timers: bool = False) -> Document:
        """Go on after a pause or a quarantine."""
        fields = {"freeze_timers": "true"} if freeze_timers else {}
        return await self._call("POST", f"/runs/{run_segment(text)}/resume", fields=fields)

    async def terminate_run(self, text: str, reason: str = "") -> Document:
        """End a run at once, without undoing anything. Raises Conflict where it has ended."""
        fields = {"reason": json.dumps(reason)} if reason else {}
        return await self._call("POST", f"/runs/{run_segment(text)}/terminate", fields=fields)

    async def skip_node(self, text: str, node: str, output: object = None) -> Document:
        """Take a node as done, with this output.

        Raises:
            Refused: an output that JSON cannot hold.
            Conflict: it has neither anything under way, nor failed the run.
        """
        return await self._call(
            "POST",
            f"/runs/{run_segment(text)}/nodes/{segment(node, 'node')}/skip",
            fields={"output": canonical(output, name="output")},
        )

    async def retry_run(
        self,
        text: str,
        *,
        skip: str | None = None,
        output: object = None,
        dry_run: bool = False,
    ) -> Document:
        """Go on with a run that did not succeed: `{"run_id", "dry_run", "plan"}`.

        Args:
            text: the run.
            skip: a node that is taken as done, with `output`, instead of being run again.
            output: of that node.
            dry_run: only say what would be done.

        Raises:
            Refused: an output that JSON cannot hold.
            Conflict: it cannot, with the reason.
        """
        fields = {}
        if skip is not None:
            given = canonical(output, name="output")
            fields["skip"] = f'{{"node":{json.dumps(skip)},"output":{given}}}'
        return await self._call(
            "POST",
            f"/runs/{run_segment(text)}/retry",
            params={"dry_run": "true"} if dry_run else None,
            fields=fields,
            again=dry_run,
        )

    async def replay_run(
        self,
        text: str,
        node: str,
        *,
        input: object = None,
        vars: Mapping[str, object] | None = None,
        dry_run: bool = False,
    ) -> Document:
        """Start a run that keeps what another one did before a node: `{"run_id", "dry_run", "plan"}`.

        Args:
            text: the other run.
            node: with which the new one begins.
            input: in place of the old one; None is the old one.
            vars: over those of the old one.
            dry_run: only say what would be done.

        Raises:
            Refused: a value that JSON cannot hold.
            Conflict: it cannot, with the reason.
        """
        fields = {"from": json.dumps(node)}
        if input is not None:
            fields["input"] = canonical(input, name="input")
        if vars:
            fields["vars"] = canonical(dict(vars), name="vars")
        return await self._call(
            "POST",
            f"/runs/{run_segment(text)}/replay",
            params={"dry_run": "true"} if dry_run else None,
            fields=fields,
            again=dry_run,
        )

    async def wait_run(self, text: str, timeout_s: float | None = None) -> Document:
        """Wait for the end of a run; how it stands then, or after `timeout_s`: look at `state`.

        A quarantined run has no end, so it ends the wait.
        """
        clock = asyncio.get_running_loop().time
        until = None if timeout_s is None else clock() + timeout_s
        while True:
            left = WAIT_S if until is None else min(WAIT_S, max(0.0, until - clock()))
            began = clock()
            found = await self._call(
                "GET",
                f"/runs/{run_segment(text)}/wait",
                params={"timeout": f"{left:g}"},
                again=True,
                patience_s=self._patience_s,
                read_s=left + self._timeout_s,
            )
            over = until is not None and clock() >= until
            if found.get("state") in FINAL_RUN_STATES or found.get("quarantine") or over:
                return found
            if clock() - began < min(left, 1.0):
                await asyncio.sleep(0.2)  # a server that is about to end waits for nobody

    async def follow_run(
        self, text: str, last: int | str | None = None
    ) -> AsyncIterator[tuple[str, Document]]:
        """What happens to a run, as (event, document): `state`, `history`, `note`, and `end` as the last.

        A lost stream is opened anew where it broke off: `state` comes again then, and notes of that moment are lost.

        Args:
            text: the run.
            last: number of the last event seen; what came after it is told first. None: from now on.
        """
        await self._greet()
        path, calm = f"/runs/{run_segment(text)}/events", Calm(self._patience_s)
        timeout = httpx2.Timeout(self._timeout_s, connect=CONNECT_S, read=SILENCE_S)
        while True:
            headers = {"Accept": "text/event-stream"}
            if last is not None:
                headers["Last-Event-ID"] = str(last)
            try:
                request = self._client.stream("GET", path, headers=headers, timeout=timeout)
                async with request as answer:
                    if answer.status_code == 200:
                        async for event, data, number in read_events(answer):
                            calm.reset()
                            last = number or last
                            yield event, json.loads(data)
                            if event == "end":
                                return
                    else:
                        await answer.aread()
                        await self._refused_stream(answer, calm)
            except httpx2.TransportError as error:
                reason = reason_of(error)
            else:
                reason = "the stream ended"
            await calm.wait(self._gone(reason))

    async def _refused_stream(self, answer: httpx2.Response, calm: Calm) -> None:
        """Raise unless it is worth while to ask again."""
        if answer.status_code in (429, 503):
            await calm.wait(self._failure(answer))
            return
        raise self._failure(answer)

    # -- workflows -------------------------------------------------------------------------------------------------

    async def validate(self, source: str, file: str | None = None) -> Document:
        """`{"valid", "findings", "name"}` of a definition's text."""
        return await self._post_source("/workflows/validate", source, file)

    async def deploy(
        self, source: str, file: str | None = None, *, aliases: Sequence[str] = ()
    ) -> Document:
        """Store a definition; its version, with `created` False where the newest was the same.

        `aliases` mean it from now on.

        Raises:
            InvalidDefinition: with all findings.
        """
        made = await self._post_source("/workflows", source, file, aliases)
        made.setdefault("created", True)
        return made

    async def _post_source(
        self, path: str, source: str, file: str | None, aliases: Sequence[str] = ()
    ) -> Document:
        fields = {"source": json.dumps(source)}
        if file is not None:
            fields["file"] = json.dumps(file)
        if aliases:
            fields["aliases"] = json.dumps(list(aliases))
        return await self._call("POST", path, fields=fields, again=True)

    async def list_workflows(self, *, limit: int = LIMIT, cursor: str | None = None) -> Document:
        """A page of names with their newest versions."""
        return await self._get("/workflows", {"limit": limit, "cursor": cursor})

    async def get_workflow(self, name: str) -> Document:
        """The newest version of a name; of `order@3` or `order@stable` the one that is named."""
        return await self._get(f"/workflows/{segment(name, 'workflow')}")

    async def list_versions(
        self, name: str, *, limit: int = LIMIT, cursor: str | None = None
    ) -> Document:
        """A page of versions, newest first."""
        path = f"/workflows/{segment(name, 'workflow')}/versions"
        return await self._get(path, {"limit": limit, "cursor": cursor})

    async def get_version(self, name: str, version: int) -> Document:
        """One version."""
        return await self._get(f"/workflows/{segment(name, 'workflow')}/versions/{version}")

    async def delete_version(self, name: str, version: int) -> Document:
        """Delete a version. Raises NotFound, Conflict (an unfinished run or an alias has it)."""
        path = f"/workflows/{segment(name, 'workflow')}/versions/{version}"
        return await self._call("DELETE", path)

    async def diff_versions(
        self, name: str, *, old: str | None = None, new: str | None = None
    ) -> Document:
        """What changed from one version to another. Raises NotFound, InvalidInput (nothing is older)."""
        path = f"/workflows/{segment(name, 'workflow')}/diff"
        return await self._get(path, {"from": old, "to": new})

    async def list_aliases(self, name: str) -> Document:
        """All aliases of a name."""
        return await self._get(f"/workflows/{segment(name, 'workflow')}/aliases")

    async def get_alias(self, name: str, alias: str) -> Document:
        """One alias. Raises NotFound."""
        return await self._get(_alias_path(name, alias))

    async def set_alias(self, name: str, alias: str, version: int) -> Document:
        """Let `name@alias` mean this version from now on; `was`: what it meant before. Raises NotFound."""
        fields = {"version": json.dumps(version)}
        # Not repeated: the second answer would tell of the first one's version.
        return await self._call("PUT", _alias_path(name, alias), fields=fields)

    async def drop_alias(self, name: str, alias: str) -> Document:
        """Let `name@alias` mean nothing; what it meant. Raises NotFound."""
        return await self._call("DELETE", _alias_path(name, alias))

    # -- the rest --------------------------------------------------------------------------------------------------

    async def list_tasks(
        self,
        *,
        states: Sequence[str] = (),
        queue: str | None = None,
        limit: int = LIMIT,
        cursor: str | None = None,
    ) -> Document:
        """A page of tasks."""
        wanted = {"state": list(states), "queue": queue, "limit": limit, "cursor": cursor}
        return await self._get("/tasks", wanted)

    async def list_workers(self) -> Document:
        """Workers as last heard of."""
        return await self._get("/workers")

    async def list_awaited(self, *, event: str | None = None) -> Document:
        """Addresses that open waits wait for."""
        return await self._get("/events/awaited", {"event": event})

    async def send_event(
        self,
        event: str,
        key: str,
        payload: object = None,
        *,
        event_id: str | None = None,
        keep: str | None = None,
    ) -> bool:
        """Put an event into the mailbox. False: one with this id was there already.

        Safe to repeat: where the caller gave no `event_id`, the request brings one of its own.

        Raises:
            Refused: a payload that JSON cannot hold.
        """
        fields = _event_fields(Sending(event, key, payload, event_id=event_id, keep=keep))
        answer = await self._call("POST", "/events", fields=fields, again=True)
        # Sent twice by us because an answer was lost, it was stored all the same.
        return bool(answer.get("stored")) or event_id is None

    async def send_events(self, events: Sequence[Sending]) -> list[bool]:
        """Put events into the mailbox, at most 500; for each, in order, as `send_event` says it. None is stored where
        one is wrong. As safe to repeat as `send_event`.

        Raises:
            Refused: a payload that JSON cannot hold.
        """
        bodies = ",".join("{" + members(_event_fields(each)) + "}" for each in events)
        answer = await self._call(
            "POST", "/events/batch", fields={"events": f"[{bodies}]"}, again=True
        )
        return [
            bool(item["stored"]) or event.event_id is None
            for event, item in zip(events, answer["items"], strict=True)
        ]

    async def heartbeat(self, event: str, key: str) -> int:
        """Show a sign of life to those who wait for an event; how many they are."""
        fields = {"event": json.dumps(event), "key": json.dumps(key)}
        answer = await self._call("POST", "/events/heartbeat", fields=fields, again=True)
        return int(answer["waits"])

    async def health(self) -> Document:
        """`{"status", "version", "database", "pid", "url"}`, a server that is going down, too."""
        return await self._hello()


def _start_fields(
    workflow: str,
    input: object,
    version: int | None,
    key: str | None,
    vars: Mapping[str, object] | None,
    priority: int,
) -> dict[str, str]:
    """Of the body of a start, as JSON texts."""
    fields = {"workflow": json.dumps(workflow)}
    if version is not None:
        fields["version"] = str(version)
    if input is not None:
        fields["input"] = canonical(input, name="input")
    if vars:
        fields["vars"] = canonical(dict(vars), name="vars")
    if key is not None:
        fields["key"] = json.dumps(check_word(key, "key"))
    if priority:  # left out, so that a server of before takes it
        fields["priority"] = str(priority)
    return fields


def _event_fields(event: Sending) -> dict[str, str]:
    """Of the body of an event, as JSON texts; it carries an id in any case, so that it may be sent again."""
    given = {"event": event.event, "key": event.key, "event_id": event.event_id or drawn("once")}
    fields = {name: json.dumps(text) for name, text in given.items()}
    fields["payload"] = canonical(event.payload, name="payload")
    if event.keep is not None:
        fields["keep"] = json.dumps(event.keep)
    return fields


def _alias_path(name: str, alias: str) -> str:
    return f"/workflows/{segment(name, 'workflow')}/aliases/{segment(alias, 'alias')}"

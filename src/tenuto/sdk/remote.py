"""The client of REST: a server's verbs as coroutines with the names and documents of `views.answers`, and its errors.

Knows no command and no Python value of a run: documents in, documents out. One `Remote` belongs to one event loop.
A request that may be repeated is repeated when its connection is lost; starts and events carry a key for that.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx2

from tenuto.dsl.storable import check_word
from tenuto.model.errors import Unavailable
from tenuto.model.instants import format_instant
from tenuto.model.states import FINAL_RUN_STATES
from tenuto.model.version import VERSION
from tenuto.runtime.results import canonical
from tenuto.sdk.problems import error_of, problem_of, strange
from tenuto.sdk.wire import (
    Calm,
    body_of,
    check_address,
    drawn,
    is_loopback,
    is_unknown_name,
    is_without_tls,
    object_of,
    query,
    read_events,
    reason_of,
    retry_after,
    run_segment,
    segment,
    trust,
)

Document = dict[str, Any]

TIMEOUT_S = 30.0
PATIENCE_S = 20.0
"""How long who waits for a run keeps on asking a server that has gone, before it says so."""
CONNECT_S = 5.0
LIMIT = 50
WAIT_S = 25.0
"""Longest single request of a wait: below what anything between client and server bears."""
SILENCE_S = 60.0
"""A stream that says nothing for so long is opened anew; a server sends signs of life more often."""
_KEPT_S = 2.0
"""Idle connections are kept for less than a server keeps them: else a request would meet its end."""
_REFUSALS_MAX = 5
_QUICK_S = 1.5
_LOST = (
    httpx2.ReadError,
    httpx2.WriteError,
    httpx2.CloseError,
    httpx2.RemoteProtocolError,
)
_HIDDEN = re.compile(r"//[^/@]*@")
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class Remote:
    """One server. Use it as an async context manager, or call `close`.

    Every verb raises Unavailable where the server cannot be reached or is none of ours, and what the engine itself
    would raise for the request.

    Attributes:
        url: the server's address for people, without `/v1` and without a password.
        version: of the server, once it has answered.
    """

    def __init__(
        self, url: str, *, timeout_s: float = TIMEOUT_S, patience_s: float = PATIENCE_S
    ) -> None:
        """Nothing is asked yet.

        Args:
            url: `http://host:port`.
            timeout_s: seconds for one answer.
            patience_s: seconds for which waits and streams look for a server that has gone.
        """
        address = check_address(url)
        self.url = _HIDDEN.sub("//***@", address)
        self.version = ""
        self._patience_s, self._timeout_s = patience_s, timeout_s
        self._client = httpx2.AsyncClient(
            base_url=f"{address}/v1",
            headers={"User-Agent": f"tenuto/{VERSION}", "Accept": "application/json"},
            timeout=httpx2.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
            limits=httpx2.Limits(keepalive_expiry=_KEPT_S),
            follow_redirects=False,
            trust_env=not is_loopback(address),  # no proxy leads to this very machine
            verify=trust(address),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    # -- runs ------------------------------------------------------------------------------------------------------

    async def list_runs(
        self,
        *,
        workflow: str | None = None,
        states: Sequence[str] = (),
        key: str | None = None,
        since: int | None = None,
        until: int | None = None,
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
    ) -> Document:
        """Start a run; its document. `input`: None is none at all.

        A start is safe to repeat: where the caller gave no `key`, the request brings one of its own.

        Raises:
            Refused: a value that JSON cannot hold.
        """
        fields = {"workflow": json.dumps(workflow)}
        if version is not None:
            fields["version"] = str(version)
        if input is not None:
            fields["input"] = canonical(input, name="input")
        if vars:
            fields["vars"] = canonical(dict(vars), name="vars")
        if key is not None:
            fields["key"] = json.dumps(check_word(key, "key"))
        headers = {} if key is not None else {"Idempotency-Key": drawn("once")}
        return await self._call("POST", "/runs", fields=fields, headers=headers, again=True)

    async def cancel_run(self, text: str, reason: str = "") -> Document:
        """Ask a run to end as cancelled. Raises Conflict where it has ended."""
        fields = {"reason": json.dumps(reason)} if reason else {}
        return await self._call("POST", f"/runs/{run_segment(text)}/cancel", fields=fields)

    async def pause_run(self, text: str) -> Document:
        """Hand out no more of its tasks."""
        return await self._call("POST", f"/runs/{run_segment(text)}/pause", fields={})

    async def resume_run(self, text: str) -> Document:
        """Go on after a pause or a quarantine."""
        return await self._call("POST", f"/runs/{run_segment(text)}/resume", fields={})

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

    async def deploy(self, source: str, file: str | None = None) -> Document:
        """Store a definition; its version, with `created` False where the newest was the same.

        Raises:
            InvalidDefinition: with all findings.
        """
        made = await self._post_source("/workflows", source, file)
        made.setdefault("created", True)
        return made

    async def _post_source(self, path: str, source: str, file: str | None) -> Document:
        fields = {"source": json.dumps(source)}
        if file is not None:
            fields["file"] = json.dumps(file)
        return await self._call("POST", path, fields=fields, again=True)

    async def list_workflows(self, *, limit: int = LIMIT, cursor: str | None = None) -> Document:
        """A page of names with their newest versions."""
        return await self._get("/workflows", {"limit": limit, "cursor": cursor})

    async def get_workflow(self, name: str) -> Document:
        """The newest version of a name."""
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
        self, event: str, key: str, payload: object = None, *, event_id: str | None = None
    ) -> bool:
        """Put an event into the mailbox. False: one with this id was there already.

        Safe to repeat: where the caller gave no `event_id`, the request brings one of its own.

        Raises:
            Refused: a payload that JSON cannot hold.
        """
        given = {"event": event, "key": key, "event_id": event_id or drawn("once")}
        fields = {name: json.dumps(text) for name, text in given.items()}
        fields["payload"] = canonical(payload, name="payload")
        answer = await self._call("POST", "/events", fields=fields, again=True)
        # Sent twice by us because an answer was lost, it was stored all the same.
        return bool(answer.get("stored")) or event_id is None

    async def health(self) -> Document:
        """`{"status", "version", "database", "pid", "url"}`, a server that is going down, too."""
        answer = await self._exchange("GET", "/health", again=True)
        return self._healthy(answer)

    # -- exchange --------------------------------------------------------------------------------------------------

    async def _get(self, path: str, params: Mapping[str, object] | None = None) -> Document:
        return await self._call("GET", path, params=params, again=True)

    async def _call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, object] | None = None,
        fields: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        again: bool = False,
        patience_s: float = _QUICK_S,
        read_s: float | None = None,
    ) -> Document:
        """One verb: its document. `fields`: of the body's object, as JSON texts. `again`: may be repeated."""
        await self._greet()
        answer = await self._exchange(
            method,
            path,
            params=params,
            fields=fields,
            headers=headers,
            again=again,
            patience_s=patience_s,
            read_s=read_s,
        )
        document = object_of(answer) if answer.is_success else None
        if document is None:
            raise self._failure(answer)
        return document

    async def _greet(self) -> None:
        """Once: is it a Tenuto server that answers?"""
        if not self.version:
            await self.health()

    def _healthy(self, answer: httpx2.Response) -> Document:
        document = object_of(answer)
        known = document or {}
        if isinstance(known.get("version"), str) and isinstance(known.get("status"), str):
            self.version = known["version"]
            return known
        raise self._failure(answer)

    async def _exchange(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, object] | None = None,
        fields: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        again: bool,
        patience_s: float = _QUICK_S,
        read_s: float | None = None,
    ) -> httpx2.Response:
        """One answer, whatever it says; asks again as far as that is safe."""
        request = self._client.build_request(
            method,
            path,
            params=query(params),
            content=None if fields is None else body_of(fields),
            headers={
                **({} if fields is None else {"Content-Type": "application/json"}),
                **(headers or {}),
            },
        )
        if read_s is not None:
            request.extensions["timeout"] = httpx2.Timeout(read_s, connect=CONNECT_S).as_dict()
        calm, refusals = Calm(patience_s), 0
        while True:
            try:
                answer = await self._client.send(request)
            except _NEVER_SENT as error:
                if not self.version:
                    raise self._nobody(error) from None
                await calm.wait(self._gone(reason_of(error)))
            except _LOST as error:
                if not again:
                    raise Unavailable(
                        f"the connection to {self.url} was lost before it answered; it may have "
                        "been done: look before you try again"
                    ) from None
                await calm.wait(self._gone(reason_of(error)))
            except httpx2.TimeoutException:
                raise Unavailable(
                    f"{self.url} has not answered within {read_s or self._timeout_s:g} s"
                ) from None
            except httpx2.HTTPError as error:
                raise Unavailable(f"{self.url} cannot be asked: {reason_of(error)}") from None
            else:
                if answer.status_code == 429 and refusals < _REFUSALS_MAX:
                    refusals += 1
                    await asyncio.sleep(retry_after(answer))
                elif answer.status_code == 503 and again and patience_s > _QUICK_S:
                    await calm.wait(self._failure(answer))
                else:
                    return answer

    # -- failures --------------------------------------------------------------------------------------------------

    def _failure(self, answer: httpx2.Response) -> Exception:
        problem = problem_of(answer.status_code, answer.headers, answer.content)
        if problem is None:
            error: Exception = strange(answer.status_code, answer.headers, self.url)
        else:
            error = error_of(problem, self.url)
        if self.version not in ("", VERSION) and (problem is None or answer.status_code == 405):
            return Unavailable(
                f"{self.url} does not know this request: it is Tenuto {self.version}, and this is "
                f"{VERSION}; bring the older one up to date"
            )
        return error

    def _nobody(self, error: Exception) -> Unavailable:
        if isinstance(error, httpx2.ConnectTimeout | httpx2.PoolTimeout):
            return Unavailable(f"{self.url} cannot be reached: no answer within {CONNECT_S:g} s")
        reason = reason_of(error)
        if "refused" in reason.lower() or "attempts failed" in reason.lower():
            return Unavailable(f"nobody listens at {self.url}; start a server with `tenuto dev`")
        if is_without_tls(reason):
            plain = self.url.replace("https:", "http:", 1)
            return Unavailable(f"{self.url} answers without TLS; write {plain}")
        if is_unknown_name(error):
            return Unavailable(f"{self.url} cannot be reached: its name is not known; check it")
        return Unavailable(f"{self.url} cannot be reached: {reason}")

    def _gone(self, reason: str) -> Unavailable:
        return Unavailable(
            f"the server at {self.url} has gone ({reason}); start it again with `tenuto dev`"
        )

"""The workers' service: gRPC in front of a `TaskGateway`. Listens, lets streams in, sees them out again.

Theory of operation. Each worker has one stream, which is a `Session` (`rpc.session`): it reads messages, and each call
becomes a task of this server's, not of the stream's: a client that goes away cancels its parked `lease`, and nothing
else. A report runs to its end, is stored, and gets the same verdict when it comes again. gRPC's own handler does the
writing, and never raises: an exception, CancelledError above all, would leave the client waiting (grpc#29248).

A stream is ended for five reasons, each said: its client's wish, a breach of the protocol, a token that no longer
holds, a newer stream of the same worker, this server's stop. Before a stop, and after some minutes on one server so
that load evens out, a worker is asked to go elsewhere (`drain`); it comes back with all that it holds.

Guarantees nothing about leases: those are the gateway's. If this process dies, workers register elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ParamSpec

import grpc
import grpc.aio

from tenuto.model.errors import Conflict, Denied, Unavailable
from tenuto.model.ids import WorkerId
from tenuto.model.instants import SECOND_US
from tenuto.ports.access import Authorize, everybody
from tenuto.ports.clock import Dice
from tenuto.ports.gateway import TaskGateway
from tenuto.proto.worker.v1 import worker_pb2 as pb
from tenuto.proto.worker.v1 import worker_pb2_grpc as stubs
from tenuto.rpc.session import REPLACED, STOPPED, Context, Ending, Session
from tenuto.rpc.wire import RENEWAL, SERVER_OPTIONS, WORKER_MAX, Tls, claim_loop
from tenuto.runtime.logging import get_logger
from tenuto.runtime.service import pause

SERVICE = "tenuto.worker.v1.Workers"
STREAMS_MAX = 10_000
"""Workers on one server: beyond, they are sent elsewhere."""
STREAM_AGE_US = 5 * 60 * SECOND_US
"""After this, more or less by a fifth, a worker is asked to connect anew: servers that came later get their share."""
DRAIN_US = 5 * SECOND_US
"""How long workers have to go elsewhere when this server stops."""
CHECK_US = 5 * SECOND_US
"""How often a stream's token is looked at again."""
_FIRST_S = 2.0
_READY_US = SECOND_US
_SILENT_S = 15.0
"""How long a stream may take from its beginning to `welcome`."""
_COMPLAINT_S = 5.0
"""How long nothing more is said of the same kind of trouble with workers; twice as long each time, up to the next."""
_COMPLAINT_MAX_S = 300.0
_NAMES_MAX = 5
"""Workers that are named of many in the same trouble."""
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
SILENT = Ending(grpc.StatusCode.DEADLINE_EXCEEDED, "no worker has registered on this stream")
_CALLS_US = 10 * SECOND_US
"""How long calls under way may take to end, after the last stream has."""

P = ParamSpec("P")

Notes = Callable[[Sequence[str]], Awaitable[Sequence[str]]]
"""What a worker for these queues is to be told at its start, a line each."""

log = get_logger("rpc")


class WorkerServer:
    """Serves workers, as a service. One `run` in its life.

    Attributes:
        port: where it listens, once opened; for a given port 0, the one that was free.
    """

    name = "workers"

    def __init__(  # noqa: PLR0913 - each is a choice of the caller's, by keyword
        self,
        gateway: TaskGateway,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        authorize: Authorize = everybody,
        dice: Dice,
        lease_us: int = 10 * SECOND_US,
        tls: Tls | None = None,
        reflection: bool = False,
        ready: Callable[[], bool] = lambda: True,
        notes: Notes | None = None,
        stream_age_us: int = STREAM_AGE_US,
        drain_us: int = DRAIN_US,
        check_us: int = CHECK_US,
        streams_max: int = STREAMS_MAX,
    ) -> None:
        """`authorize`: who a token stands for. `lease_us`: as the gateway grants. `reflection`: whether the service
        describes itself to whoever can connect. `ready`: whether this process can do its work, for the health service.
        `notes`: soon, and what it raises is a bug; None: there is nothing to tell.
        """
        self.gateway = gateway
        self.lease_us = lease_us
        self.port = port
        self._host = host
        self._authorize = authorize
        self._dice = dice
        self._tls = tls
        self._reflection = reflection
        self._ready = ready
        self._notes = notes
        self._stream_age_us = stream_age_us
        self._drain_us = drain_us
        self._check_us = check_us
        self._streams_max = streams_max
        self._server: grpc.aio.Server | None = None
        self._sessions: dict[Session, None] = {}
        self._workers: dict[WorkerId, Session] = {}
        self._partings: dict[WorkerId, asyncio.Task[None]] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._complaints: dict[str, _Complaint] = {}
        self._ended = False
        self._changed = asyncio.Event()
        self._stopping = False
        self.group: asyncio.TaskGroup

    @property
    def streams(self) -> int:
        """Workers that are connected."""
        return len(self._sessions)

    # -- its life --------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Listen; `run` does it otherwise. Workers are let in once it runs.

        Raises:
            Conflict: the address cannot be listened on.
        """
        # Of the cluster's packages, which the embedded engine does without.
        from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # noqa: PLC0415

        claim_loop()
        server = grpc.aio.server(options=SERVER_OPTIONS)
        stubs.add_WorkersServicer_to_server(_Servicer(self), server)  # type: ignore[no-untyped-call]
        self._health = health.aio.HealthServicer()
        self._states = health_pb2.HealthCheckResponse
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        await self._tell_health(serving=False)
        if self._reflection:
            from grpc_reflection.v1alpha import reflection  # noqa: PLC0415

            names = (SERVICE, "grpc.health.v1.Health", reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, server)
        host = f"[{self._host}]" if ":" in self._host else self._host
        address = f"{host}:{self.port}"
        try:
            if self._tls is None:
                self.port = server.add_insecure_port(address)
            else:
                self.port = server.add_secure_port(address, _credentials(self._tls))
        except RuntimeError as error:
            raise Conflict(f"{address} cannot be listened on: is another server there?") from error
        self._server = server

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until `stopping` is set, then send workers elsewhere, and end."""
        if self._server is None:
            await self.open()
        assert self._server is not None
        async with asyncio.TaskGroup() as self.group:
            await self._server.start()
            log.info("workers_served", host=self._host, port=self.port)
            watch = self.group.create_task(self._watch(stopping))
            try:
                await stopping.wait()
                await self._drain()
                watch.cancel()
                await self._server.stop(0)
                await self._until(lambda: not self._calls, _CALLS_US)
            finally:
                self._ended = True
                watch.cancel()
                for task in self._calls:
                    task.cancel()
                await self._server.stop(0)

    async def _drain(self) -> None:
        self._stopping = True
        await self._tell_health(serving=False)
        for session in list(self._sessions):
            session.drain("this server stops: connect elsewhere")
        if not await self._until(lambda: not self._sessions, self._drain_us):
            for session in list(self._sessions):
                session.end(STOPPED)
            await self._until(lambda: not self._sessions, SECOND_US)

    async def _watch(self, stopping: asyncio.Event) -> None:
        """Say whether this process can do its work, look at tokens again, send on who is here for long."""
        serving: bool | None = None
        loop = asyncio.get_running_loop()
        checked_at = loop.time()
        while True:
            if (now := self._ready()) is not serving:
                serving = now
                await self._tell_health(serving=now)
            if not await pause(stopping, min(_READY_US, self._check_us)):
                return
            recheck = loop.time() - checked_at >= self._check_us / 1_000_000
            if recheck:
                checked_at = loop.time()
            for session in list(self._sessions):
                if recheck:
                    self._recheck(session)
                if session.drain_at <= loop.time():
                    session.drain(RENEWAL)
                elif not session.registered and loop.time() - session.opened_at > _SILENT_S:
                    session.end(SILENT)

    def _recheck(self, session: Session) -> None:
        try:
            session.grantee = self._authorize(session.token)
            session.grantee.must_serve(frozenset(session.queues))
        except Denied as denied:
            session.end(Ending.denied(denied))

    async def _tell_health(self, *, serving: bool) -> None:
        state = self._states.SERVING if serving else self._states.NOT_SERVING
        for service in ("", SERVICE):
            await self._health.set(service, state)

    async def _until(self, holds: Callable[[], bool], within_us: int) -> bool:
        try:
            async with asyncio.timeout(within_us / 1_000_000):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    # -- streams ---------------------------------------------------------------------------------------------------

    async def converse(self, context: Context) -> None:
        """One stream, from its beginning to its end."""
        if self._stopping or len(self._sessions) >= self._streams_max:
            why = "this server stops" if self._stopping else "this server has enough workers"
            await _refuse(context, Ending(UNAVAILABLE, f"{why}: connect elsewhere"))
            return
        token = _token(context)
        try:
            grantee = self._authorize(token)
        except Denied as denied:
            name = await _refuse(context, Ending.denied(denied))
            told = {"worker": name} if name else {"peer": context.peer()}
            self.complain("worker_refused", **told, reason=str(denied))
            return
        session = Session(self, token=token, grantee=grantee)
        age = self._stream_age_us * (0.8 + 0.4 * self._dice.draw()) / 1_000_000
        session.drain_at = asyncio.get_running_loop().time() + age
        self._sessions[session] = None
        try:
            ending = await session.run(context)
            if ending is not None:
                ending.put_on(context)
        finally:
            del self._sessions[session]
            self._tell_gone(session)
            self.parted(session)
            self._changed.set()

    def complain(self, event: str, **told: object) -> None:
        """Log what a worker does wrong; of many alike in a short time the first, and later how many there were: who is
        refused comes again, and anybody who can connect could fill the log.
        """
        complaint = self._complaints.setdefault(event, _Complaint())
        unsaid = complaint.now(asyncio.get_running_loop().time(), told.get("worker"))
        if unsaid is not None:
            log.warning(event, **told, **unsaid)

    def _tell_gone(self, session: Session) -> None:
        """Say that a worker has gone; not when it is here by a newer stream, or is about to be."""
        if not session.welcomed:
            return
        here = self._workers.get(session.worker or WorkerId("")) is not session
        tell = log.debug if here or session.drained == RENEWAL else log.info
        tell("worker_gone", worker=session.worker, leases=session.leases)

    def settle(self, session: Session, worker: WorkerId) -> None:
        """This session speaks for that worker. Ends an older stream of the same worker.

        Raises:
            Denied: somebody else's worker has that id, and is here.
        """
        older = self._workers.get(worker)
        if older is not None and older is not session:
            if older.grantee.name != session.grantee.name:
                raise Denied(f"worker {worker} belongs to somebody else", known=True)
            older.end(REPLACED)
        self._workers[worker] = session

    def parted(self, session: Session) -> None:
        """A stream is over. Nothing more is granted to its worker here, unless a newer stream speaks for it."""
        worker = session.worker
        if worker is None or self._workers.get(worker, session) is not session:
            return
        self._workers.pop(worker, None)
        if not session.left:
            task = self.spawn(self._leave, worker)
            if task is not None:
                self._partings[worker] = task

    async def _leave(self, worker: WorkerId) -> None:
        try:
            await self.gateway.leave(worker)
        except Unavailable as error:
            # It may be here again at once; if not, its row ends by itself.
            log.debug("worker_row_kept", worker=worker, reason=str(error))
        finally:
            if self._partings.get(worker) is asyncio.current_task():
                del self._partings[worker]

    async def until_parted(self, worker: WorkerId) -> None:
        """Wait until an earlier stream's end is through: it would make the gateway forget who has come since."""
        while worker in self._partings:
            await asyncio.wait([self._partings[worker]])

    async def notes_for(self, queues: Sequence[str]) -> Sequence[str]:
        """What whoever runs a worker for these queues should read; nothing when that cannot be told: it is let in."""
        if self._notes is None:
            return ()
        try:
            return await self._notes(queues)
        except Exception:
            log.exception("call_failed")
            return ()

    def spawn(
        self, work: Callable[P, Coroutine[None, None, None]], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Task[None] | None:
        """A task of this server's. None: it has ended, and what is not done now is found by recovery."""
        if self._ended:
            return None
        task = self.group.create_task(self._guarded(work, *args, **kwargs))
        self._calls.add(task)
        task.add_done_callback(self._ended_call)
        return task

    async def _guarded(
        self, work: Callable[P, Coroutine[None, None, None]], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        try:
            await work(*args, **kwargs)
        except Exception:
            log.exception("call_failed")  # a bug of ours ends this call, not the server

    def _ended_call(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        self._changed.set()


@dataclass(slots=True)
class _Complaint:
    """One kind of trouble with workers: when it was said last, for how long no more is, and what was not said since."""

    said_at: float = float("-inf")
    quiet_s: float = 0.0
    unsaid: int = 0
    names: dict[str, None] = field(default_factory=dict)

    def now(self, now: float, name: object) -> dict[str, object] | None:
        """It happened once more. None: no line; else what belongs into it beside the trouble itself."""
        if now - self.said_at < self.quiet_s:
            self.unsaid += 1
            if name and len(self.names) < _NAMES_MAX:
                self.names[str(name)] = None
            return None
        told: dict[str, object] = {}
        if self.unsaid:
            told["unsaid"] = self.unsaid
            others = ", ".join(each for each in self.names if each != name)
            told |= {"others": others} if others else {}
        grown = self.quiet_s * 2 if self.unsaid else 0.0
        self.quiet_s = min(max(grown, _COMPLAINT_S), _COMPLAINT_MAX_S)
        self.said_at, self.unsaid, self.names = now, 0, {}
        return told


class _Servicer(stubs.WorkersServicer):
    def __init__(self, server: WorkerServer) -> None:
        self._server = server

    async def Work(self, _requests: object, context: Context) -> None:  # noqa: N802 - the service's word
        try:
            await self._server.converse(context)
        except (Exception, asyncio.CancelledError):
            # Raised out of here, CancelledError would leave the client waiting for ever.
            log.exception("stream_failed")


async def _refuse(context: Context, ending: Ending) -> str:
    """End a stream that does not begin; not before its first message is read: a client whose write fails since the
    stream has ended learns from gRPC that it failed, and never why. Returns who it says that it is.
    """
    name = ""
    with suppress(TimeoutError):
        async with asyncio.timeout(_FIRST_S):
            first = await context.read()
            if isinstance(first, pb.FromWorker):
                name = first.register.worker[:WORKER_MAX]
    ending.put_on(context)
    return name


def _token(context: Context) -> str | None:
    """The token that came along, without its kind."""
    for key, value in context.invocation_metadata() or ():
        if key == "authorization" and isinstance(value, str):
            kind, _, token = value.partition(" ")
            return token.strip() if kind.lower() == "bearer" else value
    return None


def _credentials(tls: Tls) -> grpc.ServerCredentials:
    if tls.certificate is None or tls.key is None:
        raise Conflict("a server's TLS needs a certificate and its key")
    return grpc.ssl_server_credentials(
        [(tls.key, tls.certificate)],
        root_certificates=tls.ca,
        require_client_auth=tls.ca is not None,
    )

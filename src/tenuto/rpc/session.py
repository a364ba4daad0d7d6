"""One worker's stream on the server: messages in, calls of the gateway, answers out. No sockets to open, no threads.

What it says it puts into an outbox that gRPC's handler empties (`run`). It reads no more while that is full, or while
what it has read and not answered is large: a worker that does not listen is not listened to, and its own sending comes
to a stop. What takes nothing for long is cut. Leases that could not be written any more are given back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, Protocol

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from tenuto.model.errors import Denied, InvalidInput, Unavailable
from tenuto.model.ids import LeaseId, WorkerId
from tenuto.model.payload import PAYLOAD_MAX
from tenuto.model.version import VERSION
from tenuto.ports.access import Grantee
from tenuto.ports.gateway import Beat, Lease, Load, TaskGateway, Verdict, WorkerInfo
from tenuto.proto.worker.v1 import worker_pb2 as pb
from tenuto.rpc.mapping import (
    Malformed,
    beats_of,
    beats_on,
    lease_batches,
    lease_of,
    notes_of,
    report_of,
    verdicts_to,
    worker_of,
)
from tenuto.rpc.outbox import Outbox
from tenuto.rpc.states import CALLS_MAX, Breach, Side, State, Stream, Word
from tenuto.rpc.wire import LEASE_WAIT_US, MESSAGE_MAX, PROTOCOL, REPORTS_MAX
from tenuto.runtime.logging import get_logger
from tenuto.runtime.service import is_ending

Context = grpc.aio.ServicerContext[pb.FromWorker, pb.FromServer]

P = ParamSpec("P")

log = get_logger("rpc")

BOX_MAX = CALLS_MAX
"""Messages that wait to be written, from which on nothing more is read."""
UNANSWERED_MAX = 4 * 2**20
"""Bytes of open calls, from which on nothing more is read."""
TAKES_NOTHING_S = 30.0
"""How long a worker may leave one message unread before its stream is cut."""
_ONE_AT_A_TIME = (Word.REGISTER, Word.HEARTBEAT, Word.NOTE, Word.RELEASE, Word.LOSE)
"""Words of which a worker may say many at once, and which are done one after another: so a flood of them delays
nobody but its worker. Reports are not among them: the coordinator takes them together.
"""


class Host(Protocol):
    """What a stream needs of its server."""

    gateway: TaskGateway
    lease_us: int

    def spawn(
        self, work: Callable[P, Coroutine[None, None, None]], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Task[None] | None:
        """A task that outlives the stream. None: too late."""
        ...

    def complain(self, event: str, **told: object) -> None:
        """Log what a worker does wrong; not each time."""
        ...

    def settle(self, session: Session, worker: WorkerId) -> None:
        """This stream speaks for that worker. Raises Denied: somebody else does."""
        ...

    def parted(self, session: Session) -> None:
        """This stream is over."""
        ...

    async def notes_for(self, queues: Sequence[str]) -> Sequence[str]:
        """What whoever runs a worker for these queues should read."""
        ...

    async def until_parted(self, worker: WorkerId) -> None:
        """Wait until the end of an earlier stream of that worker is through."""
        ...


@dataclass(frozen=True, slots=True)
class Ending:
    """How a stream ends: its status and what it says. None in its place: in order."""

    code: grpc.StatusCode
    text: str

    @staticmethod
    def denied(error: Denied) -> Ending:
        """The token is none, a wrong one, or one for something else."""
        code = grpc.StatusCode
        return Ending(code.PERMISSION_DENIED if error.known else code.UNAUTHENTICATED, str(error))

    def put_on(self, context: Context) -> None:
        """Set it; the handler's return sends it."""
        context.set_code(self.code)
        context.set_details(self.text)


STOPPED = Ending(grpc.StatusCode.UNAVAILABLE, "this server stops: connect elsewhere")
FAILED = Ending(grpc.StatusCode.UNAVAILABLE, "the server failed; its log says how")
UNREADABLE = Ending(grpc.StatusCode.INVALID_ARGUMENT, "a message that is no `FromWorker`")
REPLACED = Ending(grpc.StatusCode.ABORTED, "this worker has a newer stream")


class Session:
    """One stream. Not shared, not kept.

    Attributes:
        token, grantee: what the worker showed, and what it means.
        worker, queues: who registered on this stream, None before; what it serves.
        welcomed: it has been let in.
        left: it said `leave`: it is gone for good.
        drained: why it was asked to go; empty: it was not.
        drain_at: when it is to be asked to connect anew, in seconds of the loop.
    """

    def __init__(self, server: Host, *, token: str | None, grantee: Grantee) -> None:
        self.token = token
        self.grantee = grantee
        self.worker: WorkerId | None = None
        self.queues: tuple[str, ...] = ()
        self.welcomed = False
        self.left = False
        self.drained = ""
        self.drain_at = float("inf")
        self.opened_at = asyncio.get_running_loop().time()
        self._server = server
        self._gateway = server.gateway
        self._stream = Stream(Side.SERVER)
        self._capacity = 0
        self._wait_us = min(LEASE_WAIT_US, server.lease_us // 3)
        self._holding = _Holding(server.lease_us / 1_000_000)
        self._leases: dict[int, asyncio.Task[None]] = {}
        self._admission: asyncio.Task[None] | None = None
        self._turns = {word: asyncio.Lock() for word in _ONE_AT_A_TIME}
        self._context: Context
        self._outbox: Outbox[pb.FromServer] = Outbox(self._write)
        self._unanswered: dict[int, int] = {}
        self._room_again = asyncio.Event()
        self._others = asyncio.Event()
        self._over = False
        self._ending: Ending | None = None

    # -- its life --------------------------------------------------------------------------------------------------

    async def run(self, context: Context) -> Ending | None:
        """Read and write until it is over; says how it ends. Never raises: see `rpc.server`."""
        self._context = context
        reader = self._server.spawn(self._read, context)
        try:
            while reader is not None:
                while not self._outbox.idle:
                    async with asyncio.timeout(TAKES_NOTHING_S):
                        await self._outbox.write()
                    self._room_again.set()
                if self._over:
                    break
                await self._outbox.until_news()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the client is gone, however gRPC says it
            log.debug(
                "stream_broken", worker=self.worker, reason=str(error) or type(error).__name__
            )
        finally:
            self.end(None)
            # Of what is cut while it is written nobody knows whether it arrived, so it is not given back here, but when
            # the worker registers without it, or when its lease is over.
            unsaid = self._outbox.close()
            self._give_back([lease_of(task) for message in unsaid for task in _tasks_in(message)])
            if reader is not None:
                reader.cancel()
        return self._ending

    async def _write(self, message: pb.FromServer) -> None:
        await self._context.write(message)

    def end(self, ending: Ending | None) -> None:
        """End the stream once what is in the outbox is written. No more is granted from here on."""
        if not self._over:
            self._over, self._ending = True, ending
            self._stop_leasing()
            if self._admission is not None:
                # Carried out later, it would give away what the worker is granted on its next stream.
                self._admission.cancel()
            self._others.set()
            self._room_again.set()
            self._outbox.wake()

    @property
    def registered(self) -> bool:
        """Whether its worker has been welcomed."""
        return self._stream.state not in {State.NEW, State.REGISTERING}

    @property
    def leases(self) -> int:
        """How many the worker has, as far as is known here."""
        return self._holding.count()

    def drain(self, reason: str) -> None:
        """Ask the worker to go elsewhere; once is enough."""
        if self._stream.may_say(Word.DRAIN):
            self.drain_at = float("inf")
            self.drained = reason
            self._say(Word.DRAIN, 0, pb.Drain(reason=reason))
            self._stop_leasing()
        elif not self.registered:
            self.end(STOPPED)

    def _stop_leasing(self) -> None:
        for task in self._leases.values():
            task.cancel()

    # -- hearing ---------------------------------------------------------------------------------------------------

    async def _read(self, context: Context) -> None:
        try:
            while not self._over:
                message = await context.read()
                if not isinstance(message, pb.FromWorker):  # the worker ended its side
                    self.end(None)
                    return
                self._hear(message)
                # What was asked goes first: asking gRPC for more costs as much as most answers.
                await asyncio.sleep(0)
                while not self._over and self._is_full:
                    self._room_again.clear()
                    await self._room_again.wait()
        except (Breach, Malformed) as trouble:
            self._server.complain("protocol_broken", worker=self.worker, reason=str(trouble))
            self.end(Ending(grpc.StatusCode.INVALID_ARGUMENT, str(trouble)))
        except Denied as denied:
            self._server.complain("worker_refused", worker=self.worker, reason=str(denied))
            self.end(Ending.denied(denied))
        except (grpc.RpcError, grpc.aio.UsageError, grpc.aio.InternalError) as error:
            log.debug("stream_broken", worker=self.worker, reason=str(error))
            self.end(None)
        except DecodeError:
            self._server.complain("protocol_broken", worker=self.worker, reason=UNREADABLE.text)
            self.end(UNREADABLE)
        except Exception:
            log.exception("stream_failed", worker=self.worker)
            self.end(FAILED)  # a bug of ours; or it would stay open with nobody who reads it

    @property
    def _is_full(self) -> bool:
        return len(self._outbox) >= BOX_MAX or sum(self._unanswered.values()) >= UNANSWERED_MAX

    def _hear(self, message: pb.FromWorker) -> None:
        field = message.WhichOneof("message")
        if field is None:
            raise Breach("an empty message, or one of a later version of the protocol")
        word, call, body = Word(field), message.call, getattr(message, field)
        first = self._stream.state is State.NEW
        self._stream.hear(word, call)
        if word is not Word.CANCEL:
            self._unanswered[call] = message.ByteSize()
        if word is Word.REGISTER:
            self._hear_register(call, body, first=first)
        elif word is Word.CANCEL:
            if call in self._leases:
                self._leases[call].cancel()
        elif word is Word.LEASE:
            task = self._server.spawn(self._serve, word, call, body)
            if task is not None:
                self._leases[call] = task
        else:
            self._server.spawn(self._serve, word, call, body)

    def _hear_register(self, call: int, body: pb.Register, *, first: bool) -> None:
        if body.protocol != PROTOCOL:
            newer, older = (
                ("server", "worker") if body.protocol < PROTOCOL else ("worker", "server")
            )
            self.end(
                Ending(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    f"the worker ({body.version or 'of no version'}) speaks version {body.protocol} of the protocol,"
                    f" this server (tenuto {VERSION}) version {PROTOCOL}: the {newer} is newer, upgrade the {older}",
                )
            )
            return
        info = worker_of(body)
        if self.worker not in {None, info.id}:
            raise Breach(f"this stream is that of worker {self.worker}, not of {info.id}")
        self.grantee.must_serve(frozenset(info.queues))
        self._server.settle(self, info.id)
        self.worker, self.queues, self._capacity = info.id, info.queues, info.capacity
        held = beats_of(body.held) if first else None
        task = self._server.spawn(self._register, call, info, held)
        if first:
            self._admission = task

    # -- calls -----------------------------------------------------------------------------------------------------

    async def _register(self, call: int, info: WorkerInfo, held: Sequence[Beat] | None) -> None:
        """`held`: None: not the first of this stream."""
        first = held is not None
        await self._server.until_parted(info.id)
        try:
            async with self._turns[Word.REGISTER]:
                await self._gateway.register(info, held)
        except Exception as error:
            told = str(error) if isinstance(error, Unavailable) else FAILED.text
            if told is FAILED.text:
                log.exception("call_failed", worker=self.worker, word=Word.REGISTER)
            if first:
                self._admission = None
                self.end(Ending(grpc.StatusCode.UNAVAILABLE, told))
            else:
                self._fail(call, pb.CODE_UNAVAILABLE, told)
            return
        if first:
            self._admission = None
        # Whoever comes with leases was told at its start, and has no time to lose.
        notes = await self._server.notes_for(info.queues) if first and not held else ()
        if self._over:
            self._server.parted(self)
            return
        if first:
            self._holding.start(beat.lease_id for beat in held or ())
            self.welcomed = True
            log.info("worker_connected", worker=info.id, version=info.version)
        limits = pb.Limits(
            message_bytes=MESSAGE_MAX,
            payload_bytes=PAYLOAD_MAX,
            calls=CALLS_MAX,
            reports=REPORTS_MAX,
            wait_us=self._wait_us,
        )
        self._say(
            Word.WELCOME,
            call,
            pb.Welcome(
                protocol=PROTOCOL,
                version=VERSION,
                lease_us=self._server.lease_us,
                limits=limits,
                notes=notes,
            ),
        )

    async def _serve(self, word: Word, call: int, body: object) -> None:
        """One call, from its message to its answer. Exceptions become answers."""
        assert self.worker is not None
        try:
            match body:
                case pb.Lease():
                    await self._lease(self.worker, call, body)
                case pb.Heartbeat():
                    await self._heartbeat(self.worker, call, body)
                case pb.Report():
                    await self._report(self.worker, call, body)
                case pb.Note():
                    async with self._turns[word]:
                        await self._gateway.note(self.worker, notes_of(body.lines))
                    self._say(Word.DONE, call, pb.Done())
                case pb.Release() | pb.Lose():
                    verb = self._gateway.lose if word is Word.LOSE else self._gateway.release
                    async with self._turns[word]:
                        beats = beats_of(body.beats)
                        await verb(self.worker, beats)
                    self._holding.drop(beat.lease_id for beat in beats)
                    self._say(Word.DONE, call, pb.Done())
                case _:
                    await self._leave(self.worker, call)
        except (Malformed, InvalidInput) as error:
            self._fail(call, pb.CODE_INVALID, str(error))
        except Denied as error:
            self._fail(call, pb.CODE_DENIED, str(error))
        except Unavailable as error:
            self._fail(call, pb.CODE_UNAVAILABLE, str(error))
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_ending():
                raise  # the server itself is being ended
            log.exception("call_failed", worker=self.worker, word=word)
            if word is Word.LEAVE:
                self.end(FAILED)
            else:
                self._fail(call, pb.CODE_UNAVAILABLE, FAILED.text)

    async def _lease(self, worker: WorkerId, call: int, body: pb.Lease) -> None:
        leases: Sequence[Lease] = ()
        try:
            self.grantee.must_serve(frozenset(self.queues))
            room = self._room(body.free)
            wait_us = min(body.wait_us, self._wait_us) if body.wait_us > 0 else self._wait_us
            async with asyncio.timeout(wait_us / 1_000_000):
                if room > 0 and self._stream.state is State.WORKING and not self._over:
                    leases = await self._gateway.lease(worker, room)
                elif self._stream.state is State.WORKING:
                    await (
                        asyncio.Event().wait()
                    )  # full: it is to wait like one for whom there is nothing
        except (TimeoutError, asyncio.CancelledError):
            pass  # what was granted meanwhile is given back by the gateway
        finally:
            self._leases.pop(call, None)
        self._deliver(call, leases)

    async def _report(self, worker: WorkerId, call: int, body: pb.Report) -> None:
        if len(body.results) > REPORTS_MAX:
            raise Malformed(f"{len(body.results)} results in one message: at most {REPORTS_MAX}")
        reports = [report_of(result) for result in body.results]
        names = [report.lease_id for report in reports]
        working = self._stream.state is State.WORKING and not self._over
        want = self._room(body.want, names) if working else 0
        answer = await self._gateway.report(worker, reports, want)
        self._holding.drop(names)
        self._deliver(call, answer.leases, answer.verdicts)

    async def _heartbeat(self, worker: WorkerId, call: int, body: pb.Heartbeat) -> None:
        load = Load(
            busy=max(0, body.busy), capacity=max(0, body.capacity), lag_us=max(0, body.lag_us)
        )
        async with self._turns[Word.HEARTBEAT]:
            beats = beats_of(body.beats)
            verdicts = await self._gateway.heartbeat(worker, beats, load)
        for beat, verdict in zip(beats, verdicts, strict=True):
            if verdict is Verdict.OK:
                self._holding.take([beat.lease_id])
            else:
                self._holding.drop([beat.lease_id])
        self._say(Word.VERDICTS, call, pb.Verdicts(verdicts=verdicts_to(verdicts)))

    async def _leave(self, worker: WorkerId, call: int) -> None:
        """The last call: after the answers of all others."""
        self._stop_leasing()
        while not self._over and len(self._stream.open) > 1:
            self._others.clear()
            await self._others.wait()
        try:
            await self._gateway.leave(worker)
        except Unavailable as error:
            self.end(Ending(grpc.StatusCode.UNAVAILABLE, str(error)))
            return
        self.left = True
        self._say(Word.LEFT, call, pb.Left())
        self.end(None)

    def _room(self, free: int, ending: Iterable[LeaseId] = ()) -> int:
        """How many leases may be granted now: a worker never has more than its capacity, whatever it asks for."""
        return max(0, min(free, self._capacity - self._holding.count(ending)))

    # -- saying ----------------------------------------------------------------------------------------------------

    def _deliver(
        self, call: int, leases: Sequence[Lease], verdicts: Sequence[Verdict] | None = None
    ) -> None:
        """Leases, to a `lease` or with the verdicts of a `report`; in several messages if they are large."""
        if self._over:
            self._give_back(leases)
            return
        self._holding.take(lease.lease_id for lease in leases)
        *parts, last = lease_batches(leases)
        for part in parts:
            self._say(Word.PART, call, pb.Leases(tasks=part))
        if verdicts is None:
            self._say(Word.LEASES, call, pb.Leases(tasks=last))
        else:
            told = verdicts_to(verdicts)
            self._say(Word.REPORTED, call, pb.Reported(verdicts=told, tasks=last))

    def _fail(self, call: int, code: pb.Code, text: str) -> None:
        self._say(Word.FAILED, call, pb.Failed(code=code, message=text))

    def _say(self, word: Word, call: int, body: object) -> None:
        if self._over:
            return
        self._stream.say(word, call)
        if word is not Word.PART:
            self._unanswered.pop(call, None)
            self._room_again.set()
        self._outbox.put(pb.FromServer(call=call, **{word.value: body}))  # type: ignore[arg-type]
        self._others.set()

    def _give_back(self, leases: Iterable[Lease]) -> None:
        """Leases that the worker never saw."""
        beats = beats_on(leases)
        if beats:
            self._server.spawn(self._release, beats)

    async def _release(self, beats: Sequence[Beat]) -> None:
        assert self.worker is not None
        try:
            await self._gateway.release(self.worker, beats)
        except Unavailable as error:
            log.warning("leases_left_to_recovery", count=len(beats), reason=str(error))


class _Holding:
    """Which leases a worker has, as far as this stream knows. One that nobody extends is over by itself."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._until: dict[LeaseId, float] = {}

    def start(self, leases: Iterable[LeaseId]) -> None:
        """What it held when it connected."""
        self._until.clear()
        self.take(leases)

    def take(self, leases: Iterable[LeaseId]) -> None:
        """Granted, or extended."""
        until = asyncio.get_running_loop().time() + self._lease_s
        for lease_id in leases:
            self._until[lease_id] = until

    def drop(self, leases: Iterable[LeaseId]) -> None:
        """Over."""
        for lease_id in leases:
            self._until.pop(lease_id, None)

    def count(self, ending: Iterable[LeaseId] = ()) -> int:
        """How many it has, without those that are just ending."""
        now = asyncio.get_running_loop().time()
        for lease_id in [each for each, until in self._until.items() if until <= now]:
            del self._until[lease_id]
        return len(self._until) - sum(lease_id in self._until for lease_id in ending)


def _tasks_in(message: pb.FromServer) -> Iterable[pb.Task]:
    match message.WhichOneof("message"):
        case "leases":
            return message.leases.tasks
        case "part":
            return message.part.tasks
        case "reported":
            return message.reported.tasks
        case _:
            return ()

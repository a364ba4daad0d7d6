"""The workers' gateway of a process elsewhere: `TaskGateway` over one gRPC stream to one of several servers.

Theory of operation. `run` keeps one stream up, for as long as a worker is registered: it connects, registers with all
that the worker holds, says again what had no answer, and when the stream breaks does so with the next server, at once;
when none answers, after a pause that grows. Verbs put their call into the outbox and wait for its answer, whatever
streams that takes, until their deadline: then Unavailable. All of them may be said twice (see the port), but `lease`:
a `lease` without an answer is over with its stream, and asked anew.

A lease is the worker's from the moment its answer was heard. Between that moment and the worker's own knowledge of it
are some turns of the loop; what is on this way (`_landing`) is said to be held too, or a stream that breaks right then
would make the server give away what is about to be worked on. Answers of an earlier stream are never heard, since there
is one stream at a time: an asked-for drain waits for the open answers, then closes, then connects.

Exactly one loop of a process uses gRPC: the one this runs on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from tenuto.model.errors import InvalidInput, InvariantViolated, Unavailable
from tenuto.model.ids import WorkerId
from tenuto.model.instants import SECOND_US
from tenuto.ports.clock import Dice
from tenuto.ports.gateway import Answer, Beat, Lease, Load, Note, Report, Verdict, WorkerInfo
from tenuto.proto.worker.v1 import worker_pb2 as pb
from tenuto.rpc.connection import Address, Connection, Lost, Refused, addresses, first_open
from tenuto.rpc.mapping import (
    beat_to,
    beats_on,
    lease_of,
    note_batches,
    register_to,
    report_to,
    result_batches,
    too_large,
    unsayable,
    verdicts_of,
)
from tenuto.rpc.states import State, Word
from tenuto.rpc.wire import AROUND, ITEM_MAX, LEASE_WAIT_US, RENEWAL, Tls, claim_loop
from tenuto.runtime.backoff import Backoff
from tenuto.runtime.logging import get_logger

__all__ = ["Refused", "RemoteGateway"]

ANSWER_US = 30 * SECOND_US
"""How long a call may wait for its answer, over all streams that this takes."""
_FIRST = 1
"""The number of the `register` that begins each stream; all other calls have greater ones."""
_SHORT_US = 5 * SECOND_US
"""The same for what is not worth more: `leave`, notes."""
_LATE_US = SECOND_US
"""How much later than it promised a server may end a `lease` call."""
_STEADY_S = 1.0
"""A stream that is over before that counts as a try that failed."""
_SILENCE_SHARE = 0.6
"""Of a lease: a server that answers nothing for so long is left, as long as leases can still be extended elsewhere."""
_DRAIN_S = 3.0
"""How long a stream that is to be left may take to answer what is open."""
_NOBODY_MAX_US = SECOND_US
"""The longest pause while no server is there at all: they are found soon after they start."""
_REPEAT_S = 60.0
"""How long an outage goes on before it is said again."""
_NOTED_MAX = 1_000
"""Different lines of servers that are shown, and remembered so that none is shown twice."""
_HERD_S = 0.1
"""Most that the first try after a break is put off, so that a server's workers do not come to the next all at once."""

log = get_logger("rpc")


class Call:
    """Something said, until it is answered. `leases`: parts of its answer."""

    __slots__ = ("answer", "body", "leases", "number", "word")

    def __init__(self, number: int, word: Word, body: object) -> None:
        self.number = number
        self.word = word
        self.body = body
        self.leases: list[Lease] = []
        self.answer: asyncio.Future[pb.FromServer] = asyncio.get_running_loop().create_future()


class RemoteGateway:
    """A worker's gateway on other machines: the port, and the service that keeps the stream. For one worker.

    Raises, besides what the port says:
        Refused: an Unavailable that will hardly pass by itself: no token, a wrong one, another protocol.
    """

    name = "gateway"

    def __init__(
        self,
        servers: Sequence[str],
        *,
        token: Callable[[], str | None] = lambda: None,
        held: Callable[[], Sequence[Beat]] | None = None,
        dice: Dice,
        tls: Tls | None = None,
        wait_us: int = LEASE_WAIT_US,
        answer_us: int = ANSWER_US,
    ) -> None:
        """`servers`: `host:port`, of which one is used at a time; a name may have several addresses. `token`: asked at
        each connection. `held`: what the worker holds, asked at each connection; None: what `register` was told.
        """
        self._servers = tuple(servers)
        self._token = token
        self._held = held
        self._told_held: Sequence[Beat] = ()
        self._dice = dice
        self._tls = tls
        self._longest_s = self._wait_s = wait_us / 1_000_000
        self._answer_us = answer_us
        self._worker: WorkerInfo | None = None
        self._number = _FIRST
        self._calls: dict[int, Call] = {}
        self._landing: dict[int, Sequence[Lease]] = {}
        self._connection: Connection | None = None
        self._up = asyncio.Event()
        self._wanted = asyncio.Event()
        self._last: Address | None = None
        self._outage: dict[str, float] = {}
        self._noted: set[str] = set()
        self._trouble: Unavailable = Unavailable("not connected yet")
        self._refused: Refused | None = None
        self._over = False
        self._lease_s = 10.0
        self._item_max = ITEM_MAX

    @property
    def server(self) -> Address | None:
        """The address of the server that it is connected to; None: to none just now."""
        return (
            self._connection.address if self._connection is not None and self._up.is_set() else None
        )

    @property
    def lease_us(self) -> int:
        """How long the server that it is, or was last, connected to grants leases."""
        return int(self._lease_s * 1_000_000)

    # -- the port --------------------------------------------------------------------------------------------------

    async def register(self, worker: WorkerInfo, held: Sequence[Beat] | None = None) -> None:
        if self._worker is not None and self._worker.id != worker.id:
            raise InvariantViolated(f"this gateway is that of worker {self._worker.id}")
        self._worker = worker
        if held is not None:
            self._told_held = tuple(held)
        self._wanted.set()
        await self._ask(Word.REGISTER, register_to(worker, ()), self._answer_us)

    async def lease(self, worker: WorkerId, free: int) -> Sequence[Lease]:
        self._check(worker)
        loop = asyncio.get_running_loop()
        until = loop.time() + self._wait_s
        while (left := until - loop.time()) > 0.001:
            try:
                async with asyncio.timeout(left):
                    await self._up.wait()
                wait_us = max(1, int((until - loop.time()) * 1_000_000))
                call = self._open(Word.LEASE, pb.Lease(free=free, wait_us=wait_us))
                await self._until_answered(call, wait_us + _LATE_US)
            except Lost:
                continue
            except TimeoutError:
                break
            return self._landed(call)
        return ()

    async def heartbeat(
        self, worker: WorkerId, beats: Sequence[Beat], load: Load
    ) -> Sequence[Verdict]:
        self._check(worker)
        body = pb.Heartbeat(
            beats=map(beat_to, beats), busy=load.busy, capacity=load.capacity, lag_us=load.lag_us
        )
        answer, _ = await self._ask(Word.HEARTBEAT, body, self._answer_us)
        return _as_many(verdicts_of(answer.verdicts.verdicts), beats)

    async def report(self, worker: WorkerId, reports: Sequence[Report], want: int) -> Answer:
        self._check(worker)
        *earlier, last = result_batches([self._fitting(report) for report in reports])
        verdicts: list[Verdict] = []
        for batch in earlier:
            answer, _ = await self._ask(Word.REPORT, pb.Report(results=batch), self._answer_us)
            verdicts += verdicts_of(answer.reported.verdicts)
        answer, leases = await self._ask(
            Word.REPORT, pb.Report(results=last, want=want), self._answer_us
        )
        verdicts += verdicts_of(answer.reported.verdicts)
        try:
            return Answer(verdicts=_as_many(verdicts, reports), leases=tuple(leases))
        except Unavailable:
            self._unwanted(leases)
            raise

    async def note(self, worker: WorkerId, notes: Sequence[Note]) -> None:
        self._check(worker)
        for lines in note_batches(notes):
            await self._ask(Word.NOTE, pb.Note(lines=lines), _SHORT_US)

    async def release(self, worker: WorkerId, beats: Sequence[Beat]) -> None:
        self._check(worker)
        await self._ask(Word.RELEASE, pb.Release(beats=map(beat_to, beats)), self._answer_us)

    async def lose(self, worker: WorkerId, beats: Sequence[Beat]) -> None:
        self._check(worker)
        await self._ask(Word.LOSE, pb.Lose(beats=map(beat_to, beats)), self._answer_us)

    async def leave(self, worker: WorkerId) -> None:
        self._check(worker)
        try:
            await self._ask(Word.LEAVE, pb.Leave(), _SHORT_US)
        finally:
            self._wanted.clear()
            self._worker = None

    # -- calls -----------------------------------------------------------------------------------------------------

    def _check(self, worker: WorkerId) -> None:
        if self._worker is None or self._worker.id != worker:
            raise Unavailable(f"worker {worker} is not registered")

    async def _ask(
        self, word: Word, body: object, within_us: int
    ) -> tuple[pb.FromServer, Sequence[Lease]]:
        """Say something until it is answered, over as many streams as that takes.

        Raises:
            Unavailable: no answer came, or it says so.
        """
        call = self._open(word, body)
        try:
            answer = await self._until_answered(call, within_us)
        except TimeoutError:
            silent = f"no answer to `{word}` within {within_us / 1_000_000:g} s"
            raise Unavailable(silent if self._up.is_set() else str(self._trouble)) from None
        return answer, self._landed(call)

    async def _until_answered(self, call: Call, within_us: int) -> pb.FromServer:
        try:
            async with asyncio.timeout(within_us / 1_000_000):
                answer = await call.answer
        except BaseException:
            self._abandon(call)
            raise
        if answer.HasField("failed"):
            raise _failure(answer.failed)
        return answer

    def _open(self, word: Word, body: object) -> Call:
        if self._over:
            raise Unavailable("the connection of this worker is closed")
        self._number += 1
        call = Call(self._number, word, body)
        self._calls[call.number] = call
        self._send(call)
        return call

    def _send(self, call: Call) -> None:
        """Say it, if that may be said just now; else it is said on the next stream."""
        connection = self._connection
        if connection is not None and self._up.is_set() and connection.stream.may_say(call.word):
            connection.say(call.word, call.number, call.body)

    def _abandon(self, call: Call) -> None:
        """Nobody waits for its answer any more."""
        call.body = None
        self._unwanted(self._landed(call))
        connection = self._connection
        if connection is None or call.number not in connection.stream.open:
            self._calls.pop(call.number, None)
        elif call.word is Word.LEASE and connection.stream.may_say(Word.CANCEL):
            connection.say(Word.CANCEL, call.number, pb.Cancel())

    def _landed(self, call: Call) -> Sequence[Lease]:
        """The leases of an answer; from here on its caller's."""
        return self._landing.pop(call.number, ())

    def _unwanted(self, leases: Sequence[Lease]) -> None:
        """Leases that came when nobody waited for them any more: others may have them."""
        if leases and not self._over:
            call = self._open(Word.RELEASE, pb.Release(beats=map(beat_to, beats_on(leases))))
            call.answer.cancel()  # nobody waits for this answer, but it is said until it has one

    def _fitting(self, report: Report) -> pb.Result:
        """A result that a message can hold; or the failure that it is too large, or nothing that protobuf can hold."""
        try:
            message = report_to(report)
        except UnicodeEncodeError:
            return report_to(unsayable(report))
        size = message.ByteSize()
        return message if size <= self._item_max else report_to(too_large(report, size))

    # -- the service -----------------------------------------------------------------------------------------------

    async def run(self, stopping: asyncio.Event) -> None:
        """Keep the stream up until `stopping` is set. What is open then fails: stop whoever uses this first."""
        claim_loop()
        try:
            async with asyncio.TaskGroup() as group:
                keeper = group.create_task(self._keep(), name="gateway-keep")
                await stopping.wait()
                keeper.cancel()
        finally:
            self._over = True
            for call in self._calls.values():
                if not call.answer.done():
                    call.answer.set_exception(
                        Unavailable("the connection of this worker is closed")
                    )
            self._calls.clear()

    async def _keep(self) -> None:
        nobody_there = Backoff(self._dice.draw, initial_us=100_000, max_us=_NOBODY_MAX_US)
        sent_away = Backoff(self._dice.draw, initial_us=100_000)
        while True:
            await self._wanted.wait()
            self._refused = None
            if await self._visit():
                nobody_there.reset()
                sent_away.reset()
                await asyncio.sleep(self._dice.draw() * _HERD_S)
            elif self._wanted.is_set():
                self._refuse()
                backoff = nobody_there if self._refused is None else sent_away
                await asyncio.sleep(backoff.next_us() / 1_000_000)

    async def _visit(self) -> bool:
        """Try all servers, until a stream to one of them has lasted. False: none has."""
        loop = asyncio.get_running_loop()
        found, trouble = await addresses(self._servers, self._dice, last=self._last)
        if not found:
            self._lose(Lost(trouble or "no server is named"), None)
        left = list(found)
        while left and self._wanted.is_set():
            address, closed = await first_open(left)
            if address is None:
                self._lose(Lost(closed), left[0])
                break
            left.remove(address)
            begun = loop.time()
            if await self._attend(address) and loop.time() - begun > _STEADY_S:
                return True
        return False

    async def _attend(self, address: Address) -> bool:
        """One stream, from its beginning to its end. Whether it was up."""
        try:
            token = self._token()
        except InvalidInput as error:
            if self._last is None:
                raise
            # Its file is just being written, say: no reason to give up what this worker holds.
            self._lose(Lost(str(error)), address)
            return False
        connection = Connection(address, token=token, tls=self._tls)
        up = False
        try:
            worker = self._worker
            if worker is None:
                return False
            announced = [call for call in self._calls.values() if call.word is Word.REGISTER]
            welcome = await connection.open(register_to(worker, self._holds()))
            up = True
            self._begin(connection, welcome, announced)
            await self._converse(connection)
        except Unavailable as error:
            self._lose(error, address)
        finally:
            self._up.clear()
            self._connection = None
            await connection.close()
            self._sort_out()
        return up

    def _holds(self) -> Sequence[Beat]:
        """All leases of this worker's, those included whose answer its task has not seen yet."""
        held = {b.lease_id: b for b in (self._told_held if self._held is None else self._held())}
        for leases in self._landing.values():
            held |= {beat.lease_id: beat for beat in beats_on(leases)}
        return tuple(held.values())

    def _begin(
        self, connection: Connection, welcome: pb.Welcome, announced: Sequence[Call]
    ) -> None:
        """The stream is up: say what waits for it."""
        # Of the first time the caller of `register` knows.
        if self._outage and self._last is not None:
            log.info("server_connected", server=str(connection.address), version=welcome.version)
        self._outage.clear()
        self._told_held = ()
        self._lease_s = welcome.lease_us / 1_000_000
        if welcome.limits.wait_us > 0:
            self._wait_s = min(self._longest_s, welcome.limits.wait_us / 1_000_000)
        self._item_max = min(ITEM_MAX, max(0, welcome.limits.message_bytes - AROUND)) or ITEM_MAX
        self._last = connection.address
        self._connection = connection
        self._up.set()
        for call in announced:
            self._calls.pop(call.number, None)
            if not call.answer.done():
                call.answer.set_result(pb.FromServer(welcome=welcome))
        self._note(connection, welcome.notes)
        for number in sorted(self._calls):
            self._send(self._calls[number])

    def _note(self, connection: Connection, notes: Iterable[str]) -> None:
        """Show what a server has to say to whoever runs this worker; each line once, whichever server says it."""
        for line in notes:
            if line not in self._noted and len(self._noted) < _NOTED_MAX:
                self._noted.add(line)
                log.warning("server_said", server=str(connection.address), reason=line)

    async def _converse(self, connection: Connection) -> None:
        """Hear until the stream is over. Returns when it has ended in order.

        Raises:
            Unavailable: it broke.
        """
        ending: Unavailable | None = None
        async with asyncio.TaskGroup() as group:
            helpers = [
                group.create_task(connection.write(), name="gateway-write"),
                group.create_task(self._watch(connection), name="gateway-watch"),
            ]
            try:
                while (message := await connection.hear()) is not None:
                    self._hear(message)
                    if message.HasField("drain"):
                        reason = message.drain.reason
                        tell = log.debug if reason == RENEWAL else log.info
                        tell("server_left", server=str(connection.address), reason=reason)
                        helpers.append(group.create_task(self._quit(connection)))
                    # Who was answered goes first: asking gRPC for more costs more than what most do with an answer.
                    await asyncio.sleep(0)
            except Unavailable as error:
                if connection.stream.state is not State.OVER:
                    ending = error
            for helper in helpers:
                helper.cancel()
        if ending is not None:
            raise ending

    def _hear(self, message: pb.FromServer) -> None:
        """Hand an answer to whoever waits for it."""
        if message.HasField("drain"):
            return
        call = self._calls[message.call]
        if message.HasField("part"):
            call.leases += map(lease_of, message.part.tasks)
            return
        del self._calls[message.call]
        tasks = message.reported.tasks if message.HasField("reported") else message.leases.tasks
        leases = [*call.leases, *map(lease_of, tasks)]
        if call.answer.done():
            self._unwanted(leases)
            return
        if leases:
            self._landing[call.number] = leases
        call.answer.set_result(message)

    async def _quit(self, connection: Connection) -> None:
        """Leave a server that wants to be left: in order, if that does not take long."""
        self._up.clear()
        loop = asyncio.get_running_loop()
        until = loop.time() + _DRAIN_S
        for number, word in list(connection.stream.open.items()):
            if word is Word.LEASE and connection.stream.may_say(Word.CANCEL):
                connection.say(Word.CANCEL, number, pb.Cancel())
        try:
            async with asyncio.timeout_at(until):
                while connection.stream.open:
                    await connection.until_heard()
        except TimeoutError:
            log.debug("answers_not_awaited", count=len(connection.stream.open))
        await connection.finish()
        await asyncio.sleep(max(0.0, until - loop.time()))
        connection.break_off("the server did not end the stream")

    async def _watch(self, connection: Connection) -> None:
        """Break off a stream on which the server answers nothing, though it is asked."""
        loop = asyncio.get_running_loop()
        bound = max(self._lease_s * _SILENCE_SHARE, self._wait_s + 2.0)
        asked_at: float | None = None
        while True:
            await asyncio.sleep(bound / 5)
            if not connection.stream.open:
                asked_at = None
            elif asked_at is None:
                asked_at = loop.time()
            elif loop.time() - max(asked_at, connection.heard_at) > bound:
                connection.break_off(f"the server has said nothing for {bound:.0f} s")

    def _sort_out(self) -> None:
        """The stream is over: what may be said again waits for the next one."""
        for call in list(self._calls.values()):
            call.leases.clear()
            if call.word is Word.LEASE or (call.body is None):
                del self._calls[call.number]
                if not call.answer.done():
                    call.answer.set_exception(Lost("the stream is gone"))

    def _lose(self, error: Unavailable, address: Address | None) -> None:
        """Tell of an outage once; again when it has another kind of reason, and each minute."""
        self._trouble = error
        where = {} if address is None else {"server": str(address)}
        if len(self._servers) > 1:
            where["servers"] = ",".join(self._servers)
        if isinstance(error, Refused):
            self._refused = error
            if self._last is None:  # whoever registers is told, and need not try again
                log.debug("server_refused", **where, reason=str(error))
                return
        kind, now = type(error).__name__, asyncio.get_running_loop().time()
        if now - self._outage.get(kind, float("-inf")) < _REPEAT_S:
            log.debug("server_unreachable", **where, reason=str(error))
            return
        told = "server_unreachable" if self._outage else "server_lost"
        self._outage[kind] = now
        log.warning(told, **where, reason=str(error))

    def _refuse(self) -> None:
        """No server that is there will have this worker: whoever announces it learns that, instead of waiting."""
        refused = self._refused
        if refused is None:
            return
        for call in [each for each in self._calls.values() if each.word is Word.REGISTER]:
            del self._calls[call.number]
            if not call.answer.done():
                call.answer.set_exception(Refused(str(refused), denied=refused.denied))


def _as_many(verdicts: Sequence[Verdict], asked: Sequence[object]) -> tuple[Verdict, ...]:
    """A verdict for each, or it is no answer."""
    if len(verdicts) != len(asked):
        raise Unavailable(f"the server gave {len(verdicts)} verdicts about {len(asked)} leases")
    return tuple(verdicts)


def _failure(failed: pb.Failed) -> Exception:
    if failed.code == pb.CODE_DENIED:
        return Refused(failed.message)
    if failed.code == pb.CODE_INVALID:
        return InvariantViolated(f"the server cannot make sense of this worker: {failed.message}")
    return Unavailable(failed.message)

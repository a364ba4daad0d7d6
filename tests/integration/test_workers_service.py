"""The workers' service, by messages as they are: who is let in, what is refused and how it is said, how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.support.gateway import MemoryGateway
from tests.support.streams import Raw, Served, a_register, a_server

from tenuto.model.errors import Conflict, Denied, InvariantViolated
from tenuto.model.payload import PAYLOAD_MAX
from tenuto.model.version import VERSION
from tenuto.ports.access import Grantee, Scope
from tenuto.ports.gateway import Beat, Failed, Success, Verdict, WorkerInfo
from tenuto.proto.worker.v1 import worker_pb2 as pb
from tenuto.rpc import server as module
from tenuto.rpc.server import SERVICE, WorkerServer
from tenuto.rpc.wire import MESSAGE_MAX

CODE = grpc.StatusCode
NAMED: dict[str, Any] = {"run_id": "r", "place": "p", "lease_id": "l"}


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with a_server() as served:
        yield served


@pytest.fixture
async def raw(served: Served) -> AsyncIterator[Raw]:
    stream = Raw(served.port)
    yield stream
    await stream.close()


def a_result(task: Any, **result: Any) -> pb.Result:
    return pb.Result(
        run_id=task.run_id,
        place=task.place,
        attempt=task.attempt,
        lease_id=task.lease_id,
        **(result or {"output": "1"}),
    )


# -- beginning ---------------------------------------------------------------------------------------------------------


async def test_the_welcome_names_version_lease_and_limits(raw: Raw) -> None:
    message = await raw.register()

    assert (message.call, message.welcome.protocol, message.welcome.version) == (1, 1, VERSION)
    assert message.welcome.lease_us == 10_000_000
    limits = message.welcome.limits
    assert limits.message_bytes == PAYLOAD_MAX + 4 * 2**20 == MESSAGE_MAX
    assert (limits.payload_bytes, limits.calls, limits.reports) == (PAYLOAD_MAX, 100, 500)
    assert limits.wait_us == 3_000_000


async def test_the_first_welcome_of_a_worker_without_leases_tells_of_its_queues() -> None:
    asked: list[tuple[str, ...]] = []

    async def notes(queues: Sequence[str]) -> Sequence[str]:
        asked.append(tuple(queues))
        return [f"nobody names {queue}" for queue in queues]

    async with a_server(notes=notes) as served:
        stream = Raw(served.port)
        first = await stream.register(queues=["a", "b"])
        again = await stream.ask(2, register=a_register(queues=["c"]))
        await stream.close()
        busy = Raw(served.port)
        holding = await busy.register(worker="busy-12345678", held=[pb.Beat(**NAMED)])
        await busy.close()

    assert list(first.welcome.notes) == ["nobody names a", "nobody names b"]
    assert (again.call, list(again.welcome.notes)) == (2, [])
    assert holding.HasField("welcome")
    assert asked == [("a", "b")]


async def test_a_worker_is_let_in_also_if_what_it_should_be_told_cannot_be_found_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def notes(_queues: Sequence[str]) -> Sequence[str]:
        raise RuntimeError("a bug")

    async with a_server(notes=notes) as served:
        stream = Raw(served.port)
        message = await stream.register()
        await stream.close()

    assert (message.HasField("welcome"), list(message.welcome.notes)) == (True, [])
    assert "call_failed" in caplog.text


@pytest.mark.parametrize(
    ("protocol", "cure"),
    [
        (2, "the worker is newer, upgrade the server"),
        (0, "the server is newer, upgrade the worker"),
    ],
)
async def test_another_version_of_the_protocol_is_refused_with_both_and_the_cure(
    raw: Raw, protocol: int, cure: str
) -> None:
    """Catalogue L6."""
    await raw.say(1, register=a_register(protocol=protocol, version="js-3"))

    code, text = await raw.ending()

    assert code is CODE.FAILED_PRECONDITION
    assert "the worker (js-3) speaks version" in text
    assert f"version {protocol} of the protocol" in text
    assert f"this server (tenuto {VERSION}) version 1" in text
    assert cure in text


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"lease": pb.Lease(free=1)}, "`lease` has no meaning while the stream is new"),
        ({}, "an empty message, or one of a later version of the protocol"),
        ({"register": a_register(worker="")}, "a worker's id has 1 to 200 printable characters"),
        ({"register": a_register(worker="a\nb")}, "1 to 200 printable characters"),
        ({"register": a_register(capacity=0)}, "a worker's capacity is 1 to 10,000, not 0"),
    ],
)
async def test_a_breach_ends_the_stream_and_says_what_it_was(
    raw: Raw, message: dict[str, Any], told: str
) -> None:
    await raw.say(1, **message)

    code, text = await raw.ending()

    assert code is CODE.INVALID_ARGUMENT
    assert told in text


async def test_a_stream_is_that_of_one_worker(raw: Raw) -> None:
    await raw.register()
    await raw.say(2, register=a_register(worker="other-12345678"))

    code, text = await raw.ending()

    assert (code, text) == (
        CODE.INVALID_ARGUMENT,
        "this stream is that of worker raw-12345678, not of other-12345678",
    )


async def test_a_stream_on_which_nobody_registers_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SILENT_S", 0.05)
    async with a_server(check_us=20_000) as served:
        stream = Raw(served.port)

        code, text = await stream.ending()

        assert (code, text) == (CODE.DEADLINE_EXCEEDED, "no worker has registered on this stream")
        await stream.close()


async def test_a_gateway_that_is_not_available_sends_a_worker_elsewhere(
    served: Served, raw: Raw
) -> None:
    served.gateway.down.add("register")
    await raw.say(1, register=a_register())

    assert await raw.ending() == (CODE.UNAVAILABLE, "register is down")


async def test_a_full_server_sends_workers_elsewhere() -> None:
    """G6: the limit of what is let in."""
    async with a_server(streams_max=1) as served:
        first = Raw(served.port)
        await first.register()
        second = Raw(served.port)
        await second.say(1, register=a_register(worker="second-12345678"))

        code, text = await second.ending()

        assert (code, text) == (
            CODE.UNAVAILABLE,
            "this server has enough workers: connect elsewhere",
        )
        await first.close()
        await second.close()


async def test_an_address_that_is_taken_is_told(served: Served) -> None:
    second = WorkerServer(served.gateway, port=served.port, dice=served.server._dice)

    with pytest.raises(Conflict, match=f"127.0.0.1:{served.port} cannot be listened on"):
        await second.open()


# -- who ---------------------------------------------------------------------------------------------------------------


class Door:
    """Tokens of a test, which may be taken away."""

    def __init__(self) -> None:
        self.tokens: dict[str | None, Grantee] = {
            "root": Grantee(scope=Scope.ADMIN, name="root"),
            "all": Grantee(scope=Scope.WORKER, name="all"),
            "mine": Grantee(scope=Scope.WORKER, name="mine", queues=frozenset({"a", "b"})),
        }

    def __call__(self, token: str | None) -> Grantee:
        if token is None:
            raise Denied("a token is needed")
        if token not in self.tokens:
            raise Denied("the token has expired")
        return self.tokens[token]


@pytest.mark.parametrize(
    ("token", "queues", "code", "told"),
    [
        ("root", ["a", "*"], None, ""),
        ("all", ["a", "*"], None, ""),
        ("mine", ["a"], None, ""),
        (None, ["a"], CODE.UNAUTHENTICATED, "a token is needed"),
        ("other", ["a"], CODE.UNAUTHENTICATED, "the token has expired"),
        (
            "mine",
            ["a", "c"],
            CODE.PERMISSION_DENIED,
            "this token is for queues a, b, not for queue c",
        ),
        ("mine", ["*"], CODE.PERMISSION_DENIED, "this token is for queues a, b, not for queue *"),
    ],
)
async def test_who_may_work_for_what(
    token: str | None, queues: list[str], code: Any, told: str
) -> None:
    """S19, S20: anonymous workers, wrong tokens, queues of others."""
    async with a_server(authorize=Door()) as served:
        stream = Raw(served.port, token)
        if code is None:
            assert (await stream.register(queues=queues)).HasField("welcome")
        else:
            await stream.say(1, register=a_register(queues=queues))
            assert await stream.ending() == (code, told)
            assert served.gateway.calls == []
        await stream.close()


async def test_a_worker_may_not_take_up_queues_later_that_are_not_its_tokens() -> None:
    """S20."""
    async with a_server(authorize=Door()) as served:
        stream = Raw(served.port, "mine")
        await stream.register(queues=["a"])
        await stream.say(2, register=a_register(queues=["c"]))

        assert (await stream.ending())[0] is CODE.PERMISSION_DENIED
        assert served.gateway.calls[:1] == ["register"]
        await stream.close()


async def test_a_token_that_is_cut_down_mid_stream_leases_no_more() -> None:
    """S20: looked at when a lease is asked for, not only when a worker registers."""
    door = Door()
    async with a_server(authorize=door, check_us=3_600_000_000) as served:
        stream = Raw(served.port, "mine")
        await stream.register(queues=["a"])
        [session] = served.server._sessions
        session.grantee = Grantee(scope=Scope.WORKER, name="mine", queues=frozenset({"b"}))

        answer = await stream.ask(2, lease=pb.Lease(free=1))

        assert (answer.failed.code, answer.failed.message) == (
            pb.CODE_DENIED,
            "this token is for queue b, not for queue a",
        )
        assert "lease" not in served.gateway.calls
        await stream.close()


async def test_a_token_that_expires_ends_its_stream_with_the_reason() -> None:
    door = Door()
    async with a_server(authorize=door, check_us=20_000) as served:
        stream, other = Raw(served.port, "all"), Raw(served.port, "mine")
        await stream.register()
        await other.register(worker="other-12345678", queues=["a"])

        del door.tokens["all"]

        assert await stream.ending() == (CODE.UNAUTHENTICATED, "the token has expired")
        assert (await other.ask(2, note=pb.Note())).HasField("done")
        await stream.close()
        await other.close()


async def test_a_newer_stream_of_a_worker_takes_the_place_of_the_older(served: Served) -> None:
    older, newer = Raw(served.port), Raw(served.port)
    await older.register()

    await newer.register()

    assert await older.ending() == (CODE.ABORTED, "this worker has a newer stream")
    assert (await newer.ask(2, note=pb.Note())).HasField("done")
    assert served.server.streams == 1
    await newer.close()
    await served.gateway.until(lambda: "leave" in served.gateway.calls)
    assert (
        served.gateway.calls.count("leave") == 1
    )  # the older one's end said nothing of the worker
    await older.close()


async def test_nobody_takes_the_place_of_another_grantees_worker() -> None:
    """S21."""
    async with a_server(authorize=Door()) as served:
        stream, thief = Raw(served.port, "all"), Raw(served.port, "mine")
        await stream.register()
        await thief.say(1, register=a_register(queues=["a"]))

        assert await thief.ending() == (
            CODE.PERMISSION_DENIED,
            "worker raw-12345678 belongs to somebody else",
        )
        assert (await stream.ask(2, note=pb.Note())).HasField("done")
        await stream.close()
        await thief.close()


# -- calls -------------------------------------------------------------------------------------------------------------


async def test_a_lease_call_ends_empty_when_its_time_is_over(raw: Raw) -> None:
    await raw.register()

    answer = await raw.ask(2, lease=pb.Lease(free=1, wait_us=20_000))

    assert (answer.call, list(answer.leases.tasks)) == (2, [])


async def test_waiting_for_a_task_takes_no_more_than_a_third_of_a_lease() -> None:
    async with a_server() as served:
        served.server.lease_us = 2_100_000
        stream = Raw(served.port)

        assert (await stream.register()).welcome.limits.wait_us == 700_000
        await stream.close()


async def test_a_lease_call_ends_empty_when_it_is_cancelled(served: Served, raw: Raw) -> None:
    await raw.register()
    await raw.say(2, lease=pb.Lease(free=1))
    await served.gateway.until(lambda: "lease" in served.gateway.calls)

    answer = await raw.ask(2, cancel=pb.Cancel())

    assert (answer.call, list(answer.leases.tasks)) == (2, [])


async def test_a_worker_never_has_more_than_its_capacity(served: Served, raw: Raw) -> None:
    """S23: whatever it asks for, and however often."""
    for _ in range(10):
        served.gateway.offer("work")
    await raw.register(capacity=4)

    first = await raw.ask(2, lease=pb.Lease(free=3))
    second = await raw.ask(3, lease=pb.Lease(free=1_000_000))
    full = await raw.ask(4, lease=pb.Lease(free=1, wait_us=20_000))
    [done, *_] = first.leases.tasks
    reported = await raw.ask(5, report=pb.Report(results=[a_result(done)], want=1_000))

    assert [len(each.leases.tasks) for each in (first, second, full)] == [3, 1, 0]
    assert list(reported.reported.verdicts) == [pb.VERDICT_OK]
    assert len(reported.reported.tasks) == 1


async def test_leases_beyond_one_message_come_in_parts(served: Served, raw: Raw) -> None:
    text = '"' + "x" * 900_000 + '"'
    for _ in range(8):
        served.gateway.offer("work", input=text)
    await raw.register(capacity=8)
    await raw.say(2, lease=pb.Lease(free=8))

    heard = [await raw.hear()]
    while heard[-1].HasField("part"):
        heard.append(await raw.hear())

    tasks = [task for each in heard for task in (*each.part.tasks, *each.leases.tasks)]
    assert [each.call for each in heard] == [2] * 4
    assert [task.input for task in tasks] == [text] * 8


@pytest.mark.parametrize(
    ("output", "code", "told"),
    [
        ("{", "invalid_result", "result is no JSON"),
        ("", "invalid_result", "result is no JSON"),
        ("NaN", "invalid_result", "result is no JSON"),
        ('"\\u0000"', "invalid_result", "NUL character"),
        ("1" * 300, "invalid_result", "beyond 64 bits"),
        ("[" * 500 + "]" * 500, "invalid_result", "nested deeper"),
        ("[" * 2_000 + "]" * 2_000, "invalid_result", "depth limit"),
        ('"' + "x" * PAYLOAD_MAX + '"', "payload_too_large", "bytes of JSON"),
        ('"' + "x" * (4 * 2**20) + '"', "payload_too_large", "bytes of JSON"),
    ],
)
async def test_a_result_that_cannot_be_kept_fails_its_attempt_for_good(
    served: Served, raw: Raw, output: str, code: str, told: str
) -> None:
    """B18, S22, G3: a verdict, not a loop."""
    lease = served.gateway.offer("work")
    await raw.register()
    [task] = (await raw.ask(2, lease=pb.Lease(free=1))).leases.tasks

    answer = await raw.ask(3, report=pb.Report(results=[a_result(task, output=output)]))

    assert list(answer.reported.verdicts) == [pb.VERDICT_OK]
    failure = await served.gateway.failure(lease)
    assert (failure.code, failure.retryable) == (code, False)
    assert told in failure.message


async def test_outputs_are_kept_in_canonical_form(served: Served, raw: Raw) -> None:
    lease = served.gateway.offer("work")
    await raw.register()
    [task] = (await raw.ask(2, lease=pb.Lease(free=1))).leases.tasks

    await raw.ask(3, report=pb.Report(results=[a_result(task, output='{"b": 1,\n"a": "é"}')]))

    assert served.gateway.results[lease.task_id] == Success(output='{"a":"é","b":1}')


async def test_a_failure_of_any_kind_of_text_can_be_kept(served: Served, raw: Raw) -> None:
    lease = served.gateway.offer("work")
    await raw.register()
    [task] = (await raw.ask(2, lease=pb.Lease(free=1))).leases.tasks
    failure = pb.Failure(code="", message="a\0b", details="{", permanent=True, retry_after_us=-5)

    await raw.ask(3, report=pb.Report(results=[a_result(task, failure=failure)]))

    result = served.gateway.results[lease.task_id]
    assert isinstance(result, Failed)
    assert (result.code, result.message, result.retryable) == ("failed", "ab", False)
    assert result.retry_after_us == 0
    assert "details is no JSON" in (result.details or "")


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (pb.Report(results=[pb.Result(**NAMED, attempt=1)]), "a result is an output or a failure"),
        (pb.Report(results=[pb.Result(**NAMED, output="1")]), "an attempt is counted from 1"),
        (
            pb.Report(results=[pb.Result(attempt=1, output="1")] * 501),
            "501 results in one message: at most 500",
        ),
    ],
)
async def test_a_report_that_makes_no_sense_is_refused_and_the_stream_goes_on(
    raw: Raw, report: pb.Report, told: str
) -> None:
    await raw.register()

    answer = await raw.ask(2, report=report)

    assert (answer.failed.code, answer.failed.message) == (pb.CODE_INVALID, told)
    assert (await raw.ask(3, note=pb.Note())).HasField("done")


async def test_a_message_above_the_limit_ends_the_stream_and_says_why(raw: Raw) -> None:
    """G3."""
    await raw.register()
    result = pb.Result(attempt=1, output="x" * (MESSAGE_MAX + 1))
    await raw.say(2, report=pb.Report(results=[result]))

    code, text = await raw.ending()

    assert code is CODE.RESOURCE_EXHAUSTED
    assert "larger than max" in text


async def test_nothing_compressed_is_taken_in(served: Served) -> None:
    """S26."""
    stream = Raw(served.port, compression=grpc.Compression.Gzip)
    await stream.say(1, register=a_register(names=["x" * 100_000]))

    code, _ = await stream.ending()

    # The second, when the stream is reset before its status has been read.
    assert code in {CODE.UNIMPLEMENTED, CODE.INTERNAL}
    assert served.gateway.calls == []
    await stream.close()


async def test_an_outage_of_the_gateway_is_an_answer(served: Served, raw: Raw) -> None:
    await raw.register()
    served.gateway.down |= {"heartbeat", "lease"}

    first = await raw.ask(2, heartbeat=pb.Heartbeat())
    second = await raw.ask(3, lease=pb.Lease(free=1))

    for answer in (first, second):
        assert answer.failed.code == pb.CODE_UNAVAILABLE
        assert answer.failed.message.endswith("is down")


class Broken(MemoryGateway):
    """A gateway with bugs."""

    async def note(self, worker: Any, notes: Any) -> None:
        raise RuntimeError("a bug")

    async def release(self, worker: Any, beats: Any) -> None:
        raise asyncio.CancelledError

    async def leave(self, worker: Any) -> None:
        raise KeyError("another")


async def test_a_bug_of_ours_is_an_answer_too() -> None:
    """G7: CancelledError above all."""
    async with a_server(Broken()) as served:
        stream = Raw(served.port)
        await stream.register()

        answers = [
            await stream.ask(2, note=pb.Note()),
            await stream.ask(3, release=pb.Release(beats=[pb.Beat(**NAMED)])),
        ]
        await stream.say(4, leave=pb.Leave())

        for answer in answers:
            assert answer.failed.code == pb.CODE_UNAVAILABLE
            assert answer.failed.message == "the server failed; its log says how"
        assert await stream.ending() == (CODE.UNAVAILABLE, "the server failed; its log says how")
        await stream.close()


async def test_bytes_that_are_no_message_end_the_stream_and_are_said(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """S22: broken UTF-8 among them."""
    for data in (b"\xff" * 100, b"\x08\x01\x12\x06\x08\x01\x12\x02\xff\xfe"):
        stream = Raw(served.port)
        call: Any = stream.channel.stream_stream("/tenuto.worker.v1.Workers/Work")()
        await call.write(data)

        assert await call.code() is CODE.INVALID_ARGUMENT
        assert await call.details() == "a message that is no `FromWorker`"
        await stream.close()

    assert "Traceback" not in caplog.text


async def test_names_that_no_store_can_hold_are_refused_and_the_stream_goes_on(
    served: Served, raw: Raw
) -> None:
    """S22: a NUL ended a server on PostgreSQL once."""
    await raw.register()
    beat = pb.Beat(run_id="a\0b", place="p", lease_id="l")
    result = pb.Result(run_id="a\0b", place="p", lease_id="l", attempt=1, output="1")
    line = pb.Line(run_id="a\0b", place="p", attempt=1, kind=pb.KIND_LOG)

    messages: list[dict[str, Any]] = [
        {"heartbeat": pb.Heartbeat(beats=[beat])},
        {"report": pb.Report(results=[result])},
        {"release": pb.Release(beats=[beat])},
        {"lose": pb.Lose(beats=[beat])},
        {"note": pb.Note(lines=[line])},
    ]
    for call, message in enumerate(messages, start=2):
        assert (await raw.ask(call, **message)).failed.code == pb.CODE_INVALID
    assert served.gateway.results == {}


# -- a worker that does not listen -------------------------------------------------------------------------------------


class Eager(MemoryGateway):
    """Counts heartbeats, and how many are under way."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = self.at_once = self.most = 0

    async def heartbeat(self, worker: Any, beats: Any, load: Any) -> Any:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        self.heard += 1
        return [Verdict.STALE] * len(beats)


async def test_what_a_worker_says_without_listening_is_not_read_for_ever() -> None:
    """S23: the answers that it does not take would fill the memory."""
    gateway = Eager()
    async with a_server(gateway) as served:
        stream = Raw(served.port)
        await stream.register()
        beats = [pb.Beat(run_id="r", place="p", lease_id="l")] * 10_000
        said = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(3):
                while said < 2_000:
                    await stream.call.write(
                        pb.FromWorker(call=said + 2, heartbeat=pb.Heartbeat(beats=beats))
                    )
                    said += 1

        assert said < 500, "it could say all of it: 2,000 answers of 10,000 verdicts wait"
        assert gateway.heard < 500
        assert gateway.most == 1, "heartbeats of one worker are done one after another"
        await stream.close()


async def test_a_stream_that_takes_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenuto.rpc.session.TAKES_NOTHING_S", 0.3)
    async with a_server(Eager()) as served:
        stream = Raw(served.port)
        await stream.register()
        beats = [pb.Beat(run_id="r", place="p", lease_id="l")] * 10_000
        with suppress(TimeoutError, grpc.aio.AioRpcError, asyncio.InvalidStateError):
            async with asyncio.timeout(10):
                for call in range(2, 2_000):
                    await stream.call.write(
                        pb.FromWorker(call=call, heartbeat=pb.Heartbeat(beats=beats))
                    )
        while served.server.streams:  # noqa: ASYNC110 - the test's timeout bounds it
            await asyncio.sleep(0.05)
        await stream.close()


def _said(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    """The log's events of a name, however lines are written just now."""
    events = [getattr(record, "tenuto", {}) for record in caplog.records]
    return [each for each in events if each.get("event") == event]


async def test_who_is_refused_again_and_again_is_not_a_line_each_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Catalogue J8."""
    # As long as it takes to be refused twenty times, and to say who is refused.
    monkeypatch.setattr(module, "_COMPLAINT_S", module._COMPLAINT_MAX_S)
    monkeypatch.setattr(module, "_FIRST_S", 60.0)

    def nobody(_token: str | None) -> Grantee:
        raise Denied("this needs a token")

    async with a_server(authorize=nobody) as served:
        for _ in range(20):
            stream = Raw(served.port)
            await stream.say(1, register=a_register())
            await stream.ending()
            await stream.close()

    refused = _said(caplog, "worker_refused")
    assert [line["worker"] for line in refused] == ["raw-12345678"]


def test_trouble_that_goes_on_is_said_more_and_more_seldom_and_names_who_it_was() -> None:
    complaint = module._Complaint()
    said = [
        (at, told) for at in range(14 * 60) if (told := complaint.now(at, f"w{at % 3}")) is not None
    ]

    assert [at for at, _ in said] == [0, 5, 15, 35, 75, 155, 315, 615]
    assert said[0][1] == {}
    assert said[1][1] == {"unsaid": 4, "others": "w1, w0"}
    assert complaint.now(10_000, None) is not None  # a line of its own again, after a long silence


@pytest.mark.parametrize("leaves", [True, False])
async def test_that_a_worker_has_gone_is_one_line_with_what_it_leaves(
    served: Served, caplog: pytest.LogCaptureFixture, *, leaves: bool
) -> None:
    caplog.set_level("INFO", "tenuto.rpc")
    served.gateway.offer("work")
    stream = Raw(served.port)
    await stream.register()
    await stream.ask(2, lease=pb.Lease(free=1))
    if leaves:
        await stream.ask(
            3, release=pb.Release(beats=[pb.Beat(run_id="r", place="p", lease_id="l")])
        )
        await stream.say(4, leave=pb.Leave())
        await stream.ending()
    await stream.close()
    while served.server.streams:  # noqa: ASYNC110 - the test's timeout bounds it
        await asyncio.sleep(0.01)

    gone = _said(caplog, "worker_gone")
    assert [(line["worker"], line["leases"]) for line in gone] == [("raw-12345678", 1)]


# -- ending ------------------------------------------------------------------------------------------------------------


async def test_a_report_runs_to_its_end_though_its_client_is_gone(served: Served) -> None:
    """G8: and what it would have brought is given back."""
    gateway = served.gateway
    lease = gateway.offer("work")
    following = gateway.offer("work", after=lease)
    stream = Raw(served.port)
    await stream.register()
    [task] = (await stream.ask(2, lease=pb.Lease(free=1))).leases.tasks
    gateway.hold.clear()
    await stream.say(3, report=pb.Report(results=[a_result(task)], want=1))
    await gateway.reported.wait()
    await stream.close()
    await gateway.until(lambda: "leave" in gateway.calls)

    gateway.hold.set()

    assert await gateway.output(lease) == 1
    await gateway.until(lambda: following.task_id in gateway.released)


async def test_leave_is_the_last_word(served: Served, raw: Raw) -> None:
    await raw.register()
    await raw.say(2, lease=pb.Lease(free=1))
    await served.gateway.until(lambda: "lease" in served.gateway.calls)
    await raw.say(3, leave=pb.Leave())

    heard = [await raw.hear() for _ in range(3)]

    assert (heard[0].call, heard[0].HasField("leases")) == (2, True)
    assert (heard[1].call, heard[1].HasField("left")) == (3, True)
    assert heard[2] is None
    assert served.gateway.calls.count("leave") == 1


async def test_a_stop_sends_workers_elsewhere_and_answers_what_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G4, G11."""
    # What is open is answered because of the stop, and the worker goes by itself: no time that passes does either.
    monkeypatch.setattr("tenuto.rpc.session.LEASE_WAIT_US", 600_000_000)
    gateway = MemoryGateway(lease_us=3_600_000_000)
    async with a_server(gateway, drain_us=600_000_000) as served:
        served.server.lease_us = gateway.lease_us
        raw = Raw(served.port)
        lease = gateway.offer("work")
        await raw.register()
        [task] = (await raw.ask(2, lease=pb.Lease(free=1))).leases.tasks
        gateway.hold.clear()
        await raw.say(3, lease=pb.Lease(free=1))
        await raw.say(4, report=pb.Report(results=[a_result(task)]))
        await gateway.reported.wait()

        served.stop.set()

        drain, empty = await raw.hear(), await raw.hear()
        assert drain.drain.reason == "this server stops: connect elsewhere"
        assert (empty.call, list(empty.leases.tasks)) == (3, [])
        gateway.hold.set()
        verdict = await raw.hear()
        assert (verdict.call, list(verdict.reported.verdicts)) == (4, [pb.VERDICT_OK])
        crossed = await raw.ask(5, lease=pb.Lease(free=1))  # the drain
        assert crossed.leases == pb.Leases()
        await raw.call.done_writing()
        assert await raw.hear() is None
        await served.running
        assert await gateway.output(lease) == 1
        await raw.close()


async def test_a_worker_that_does_not_go_is_left_behind_in_bounded_time() -> None:
    """G11."""
    async with a_server(drain_us=50_000) as served:
        stream = Raw(served.port)
        await stream.register()

        served.stop.set()
        await served.running

        code, _ = await stream.ending()
        assert code in {CODE.UNAVAILABLE, CODE.CANCELLED}
        await stream.close()


async def test_a_stopping_server_lets_nobody_in() -> None:
    async with a_server(drain_us=60_000_000) as served:
        stream = Raw(served.port)
        await stream.register()
        served.stop.set()
        assert (await stream.hear()).HasField("drain")

        late = Raw(served.port)
        await late.say(1, register=a_register(worker="late-12345678"))

        assert await late.ending() == (
            CODE.UNAVAILABLE,
            "this server stops: connect elsewhere",
        )
        await stream.close()
        await late.close()


# -- beside it ---------------------------------------------------------------------------------------------------------


async def health_of(port: int, service: str = SERVICE) -> Any:
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
        return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


async def test_the_health_service_says_whether_work_can_be_done() -> None:
    ready = False
    async with a_server(ready=lambda: ready, check_us=10_000) as served:
        assert await health_of(served.port) == await health_of(served.port, "") == "NOT_SERVING"

        ready = True

        while await health_of(served.port) != "SERVING":  # noqa: ASYNC110 - Watch is another test's
            await asyncio.sleep(0.01)
        assert await health_of(served.port, "") == "SERVING"


@pytest.mark.parametrize("switch", [True, False])
async def test_the_service_describes_itself_where_it_is_told_to(switch: bool) -> None:
    """S25."""
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

    async with (
        a_server(reflection=switch) as served,
        grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel,
    ):
        asks = reflection_pb2.ServerReflectionRequest(list_services="")
        # All that is asked comes along with the call: a write of its own may find a call that has been refused.
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([asks]))
        if switch:
            answer = await call.read()
            assert SERVICE in {each.name for each in answer.list_services_response.service}
        else:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call.read()
            assert caught.value.code() is CODE.UNIMPLEMENTED
        call.cancel()


async def test_a_registration_whose_stream_is_over_gives_nothing_away_later() -> None:
    """The database did not answer in time, so the worker came again, and got work."""

    class Slow(MemoryGateway):
        async def register(self, worker: WorkerInfo, held: Sequence[Beat] | None = None) -> None:
            if "register" not in self.calls:
                self.calls.append("register")
                self._changed.set()
                await go.wait()
            await super().register(worker, held)

    go, gateway = asyncio.Event(), Slow()
    async with a_server(gateway) as served:
        older = Raw(served.port)
        await older.say(1, register=a_register())
        await gateway.until(lambda: "register" in gateway.calls)
        newer = Raw(served.port)
        await newer.register()
        lease = gateway.offer("work")
        await newer.ask(2, lease=pb.Lease(free=1, wait_us=1_000_000))
        go.set()
        await asyncio.sleep(0.05)

        assert lease.lease_id in gateway.held
        await older.close()
        await newer.close()


async def test_a_second_loop_may_not_use_grpc(served: Served) -> None:
    """G10."""

    def elsewhere() -> None:
        async def open_another() -> None:
            await WorkerServer(MemoryGateway(), dice=served.server._dice).open()

        asyncio.run(open_another())

    with pytest.raises(InvariantViolated, match="two event loops of one process use gRPC"):
        await asyncio.to_thread(elsewhere)

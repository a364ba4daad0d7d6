"""A worker's connection: whom it finds, what it says of outages, how it moves from server to server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.backing.ports import free_port
from tests.support.gateway import MemoryGateway
from tests.support.gateways import IDLE, a_worker, beat, report
from tests.support.streams import a_server
from tests.support.tcp import a_tcp_server
from tests.support.worker import Half

from tenuto.adapters.local.dice import SystemDice
from tenuto.model.errors import Denied, InvalidInput, Unavailable
from tenuto.ports.access import Grantee, Scope
from tenuto.ports.gateway import Beat, Failed, Lease, Success, Verdict, WorkerInfo
from tenuto.rpc import client as client_module
from tenuto.rpc import connection, wire
from tenuto.rpc.client import Refused, RemoteGateway
from tenuto.rpc.session import Ending

ME = a_worker().id


@asynccontextmanager
async def a_client(*ports: int | str, **options: Any) -> AsyncIterator[RemoteGateway]:
    servers = [port if isinstance(port, str) else f"127.0.0.1:{port}" for port in ports]
    gateway = RemoteGateway(servers, dice=options.pop("dice", SystemDice(1)), **options)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(gateway.run(stop))
        try:
            yield gateway
        finally:
            stop.set()


async def turn_until(holds: Callable[[], object]) -> None:
    while not holds():  # noqa: ASYNC110 - the test's timeout bounds it
        await asyncio.sleep(0.005)


async def until_troubled(gateway: RemoteGateway) -> None:
    """Have it try to connect, until it knows why it cannot: that is what a call says whose patience is over."""
    gateway._worker = a_worker()
    gateway._wanted.set()
    await turn_until(lambda: gateway._outage)


def reports_of(leases: Sequence[Lease]) -> list[Any]:
    return [report(lease) for lease in leases]


# -- finding a server --------------------------------------------------------------------------------------------------


async def test_the_first_server_that_answers_is_taken() -> None:
    """G15: a dead address among several costs no stall."""
    async with a_server() as served, a_client(free_port(), free_port(), served.port) as gateway:
        await gateway.register(a_worker())

        assert gateway.server is not None
        assert gateway.server.port == served.port


async def test_a_name_may_have_several_addresses_and_a_silent_one_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G15: one that takes the connection and never says anything."""
    monkeypatch.setattr(connection, "CONNECT_S", 0.3)
    port = free_port()
    silent = socket.create_server(("127.0.0.2", port))
    loop = asyncio.get_running_loop()

    async def getaddrinfo(host: str, port: int, **_: Any) -> Any:
        assert host == "servers.test"
        return [(2, 1, 6, "", (ip, port)) for ip in ("127.0.0.2", "127.0.0.1", "127.0.0.2")]

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
    async with (
        a_server(port=port) as served,
        a_client(f"servers.test:{port}", dice=Half()) as gateway,
    ):
        await gateway.register(a_worker())

        assert str(gateway.server) == f"servers.test (127.0.0.1:{served.port})"
    silent.close()


async def test_a_name_that_is_not_known_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async def getaddrinfo(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    async with a_client("nowhere.test:1", answer_us=100_000) as gateway:
        await until_troubled(gateway)
        with pytest.raises(Unavailable, match=r"nowhere\.test has no address .*not known"):
            await gateway.register(a_worker())


async def test_what_can_be_no_name_is_said() -> None:
    async with a_client("a..b:1", answer_us=100_000) as gateway:
        await until_troubled(gateway)
        with pytest.raises(Unavailable, match=r"a\.\.b has no address"):
            await gateway.register(a_worker())


@pytest.mark.parametrize("server", ["", "host", "host:", ":7", "host:0", "host:x", "host:70000"])
def test_a_server_is_host_and_port(server: str) -> None:
    with pytest.raises(ValueError, match="is no `host:port`"):
        connection.split_server(server)


def test_a_server_may_be_an_address_of_ipv6() -> None:
    assert connection.split_server("[::1]:7") == ("::1", 7)
    assert connection.Address("::1", "::1", 7).target == "ipv6:[::1]:7"


async def test_nobody_there_is_unavailable_with_a_reason_once_the_patience_is_over() -> None:
    async with a_client(free_port(), answer_us=100_000) as gateway:
        await until_troubled(gateway)
        with pytest.raises(Unavailable, match="nobody listens there"):
            await gateway.register(a_worker())


async def test_a_lease_ends_empty_also_where_nobody_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_server() as served, a_client(served.port, wait_us=100_000) as gateway:
        await gateway.register(a_worker())
        await served.kill()
        await turn_until(lambda: gateway.server is None)

        assert await gateway.lease(ME, 1) == ()


async def test_a_stranger_at_that_address_is_refused_by_name() -> None:
    import grpc.aio

    stranger = grpc.aio.server()
    port = stranger.add_insecure_port("127.0.0.1:0")
    await stranger.start()
    async with a_client(port) as gateway:
        with pytest.raises(Refused, match="no server of Tenuto for workers"):
            await gateway.register(a_worker())
    await stranger.stop(0)


async def test_another_version_of_the_protocol_is_refused_with_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tenuto.rpc import mapping

    monkeypatch.setattr(mapping, "PROTOCOL", 2)
    async with a_server() as served, a_client(served.port) as gateway:
        with pytest.raises(Refused, match=r"version 2 .* version 1: the worker is newer"):
            await gateway.register(a_worker())


# -- tokens ------------------------------------------------------------------------------------------------------------


async def test_a_wrong_token_is_said_at_once() -> None:
    def authorize(token: str | None) -> Grantee:
        raise Denied("the signature is wrong" if token else "a token is needed")

    async with a_server(authorize=authorize) as served:
        for token, told in ((None, "a token is needed"), ("x", "the signature is wrong")):
            async with a_client(served.port, token=lambda token=token: token) as gateway:
                with pytest.raises(Refused, match=f"does not know who this is: {told}"):
                    await gateway.register(a_worker())


async def test_a_refusal_that_meets_messages_on_their_way_does_not_end_the_worker() -> None:
    """The second of them is begun when the stream is over already."""
    async with a_server() as served, a_client(served.port) as gateway:
        await gateway.register(a_worker())
        assert gateway._connection is not None
        first, [session] = gateway._connection, served.server._sessions
        call = first._call
        write = call.write

        async def slow(message: Any) -> None:
            over = call.done()
            await write(message)
            if not over:
                await call.code()

        call.write = slow
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(gateway.heartbeat(ME, [], IDLE))
            await asyncio.sleep(0.05)
            session.end(Ending.denied(Denied("the token has expired", known=True)))

        assert gateway._connection is not first


async def test_bytes_that_are_no_message_end_the_stream_and_no_worker() -> None:
    async with a_server() as served, a_client(served.port) as gateway:
        await gateway.register(a_worker())
        first = gateway._connection
        assert first is not None

        async def unreadable() -> None:
            return None

        first._call.read = unreadable
        await gateway.heartbeat(ME, [], IDLE)  # whose answer is read before
        await turn_until(lambda: "no message of this protocol" in str(gateway._trouble))
        await turn_until(lambda: gateway.server is not None)

        assert gateway._connection is not first


async def test_a_token_that_cannot_be_read_for_a_moment_ends_no_worker() -> None:
    """A file that is written anew is empty first. At the start it is a mistake, and told."""
    readable = True

    def token() -> str:
        if not readable:
            raise InvalidInput("the file holds no tokens")
        return "x"

    async with a_server() as served, a_client(served.port, token=token) as gateway:
        await gateway.register(a_worker())
        first = gateway._connection
        assert first is not None
        readable = False
        first.break_off("a cut")
        await turn_until(lambda: "holds no tokens" in str(gateway._trouble))
        readable = True
        await turn_until(lambda: gateway.server is not None)


async def test_a_token_that_expires_is_replaced_and_work_goes_on_under_its_leases() -> None:
    good = {"first"}
    token = "first"

    def authorize(shown: str | None) -> Grantee:
        if shown not in good:
            raise Denied("the token has expired")
        return Grantee(scope=Scope.WORKER, name="w")

    held: list[Lease] = []
    async with a_server(authorize=authorize, check_us=20_000) as served:
        served.gateway.offer("work")
        async with a_client(
            served.port, token=lambda: token, held=lambda: [beat(each) for each in held]
        ) as gateway:
            await gateway.register(a_worker())
            held += await gateway.lease(ME, 1)
            good.clear()
            await turn_until(lambda: served.server.streams == 0)

            good.add("second")
            token = "second"

            assert (await gateway.report(ME, reports_of(held), 0)).verdicts == (Verdict.OK,)


# -- outages -----------------------------------------------------------------------------------------------------------


async def test_an_outage_is_one_line_and_its_end_another(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "tenuto.rpc")
    async with (
        a_server(port=free_port()) as served,
        a_client(served.port, wait_us=20_000) as gateway,
    ):
        await gateway.register(a_worker())
        caplog.clear()
        await served.kill()
        await turn_until(lambda: gateway.server is None)
        for _ in range(30):
            await gateway.lease(ME, 1)

        async with a_server(port=served.port):
            await turn_until(lambda: gateway.server)
            lines = [r.getMessage() for r in caplog.records if "server_" in r.getMessage()]

    assert [line.split()[0] for line in lines] == [
        "event='server_lost'",
        "event='server_connected'",
    ]
    assert f"127.0.0.1:{served.port}" in lines[0]
    assert "reason=" in lines[0]
    assert "servers=" not in lines[0]  # there is but one


async def test_what_a_server_says_to_whoever_runs_a_worker_is_shown_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "tenuto.rpc")
    told = ["nobody names defualt"]

    async def notes(_queues: Sequence[str]) -> Sequence[str]:
        return told

    async with a_server(port=free_port(), notes=notes) as served, a_client(served.port) as gateway:
        await gateway.register(a_worker())
        await served.kill()
        await turn_until(lambda: gateway.server is None)

        told.append("something else")
        async with a_server(port=served.port, notes=notes):
            await turn_until(lambda: gateway.server)
            await turn_until(lambda: "something else" in caplog.text)

    said = [r for r in caplog.records if "server_said" in r.getMessage()]
    assert {record.levelname for record in said} == {"WARNING"}
    assert [told[0] in said[0].getMessage(), told[1] in said[1].getMessage()] == [True, True]
    assert len(said) == 2


async def test_an_outage_is_said_again_now_and_then(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client_module, "_REPEAT_S", 0.2)
    async with a_client(free_port()) as gateway:
        gateway._worker = a_worker()
        gateway._wanted.set()
        await turn_until(lambda: caplog.text.count("server_unreachable") >= 2)

    assert caplog.text.count("server_lost") == 1


async def test_a_name_without_an_address_is_said_without_a_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def getaddrinfo(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    async with a_client("no.such.host.invalid:1") as gateway:
        gateway._worker = a_worker()
        gateway._wanted.set()
        await turn_until(lambda: "server_lost" in caplog.text)

    assert "no.such.host.invalid has no address" in caplog.text
    assert "None" not in caplog.text


async def test_rest_in_the_place_of_the_workers_port_is_refused_with_the_cure() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(24)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")
        await writer.drain()

    async with a_tcp_server(answer) as port, a_client(port) as gateway:
        with pytest.raises(
            Refused, match="workers go to the server's --grpc-port, by default 50051"
        ):
            await gateway.register(a_worker())


async def test_a_first_refusal_is_told_to_who_registers_and_not_logged_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def nobody(_token: str | None) -> Grantee:
        raise Denied("this needs a token")

    async with a_server(authorize=nobody) as served, a_client(served.port) as gateway:
        with pytest.raises(Refused, match="this needs a token"):
            await gateway.register(a_worker())

    assert "server_lost" not in caplog.text


async def test_a_renewed_stream_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "tenuto.rpc")
    async with a_server(stream_age_us=200_000) as served, a_client(served.port) as gateway:
        await gateway.register(a_worker())
        caplog.clear()
        await turn_until(lambda: "worker_connected" in caplog.text)

        assert "server_" not in caplog.text
        assert "worker_gone" not in caplog.text


async def test_a_call_waits_for_the_next_server() -> None:
    async with a_server() as first, a_server(first.gateway) as second:
        first.gateway.offer("work")
        async with a_client(first.port, second.port) as gateway:
            await gateway.register(a_worker())
            [lease] = await gateway.lease(ME, 1)
            assert gateway.server is not None
            there = first if gateway.server.port == first.port else second
            first.gateway.hold.clear()

            async with asyncio.TaskGroup() as group:
                reporting = group.create_task(gateway.report(ME, [report(lease)], 0))
                await first.gateway.reported.wait()
                await there.kill()
                first.gateway.hold.set()

            assert reporting.result().verdicts in {(Verdict.OK,), (Verdict.STALE,)}
            assert gateway.server.port != there.port


async def test_a_server_that_says_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is stuck, though its connection lives."""
    monkeypatch.setattr(client_module, "_SILENCE_SHARE", 0.02)

    class Well(MemoryGateway):
        """Whose stream is given the usual patience: a pause of the machine is no reason to leave it, too."""

        async def register(self, worker: WorkerInfo, held: Sequence[Beat] | None = None) -> None:
            monkeypatch.setattr(client_module, "_SILENCE_SHARE", 100)
            await super().register(worker, held)

    stuck, well = MemoryGateway(), Well()
    stuck.hold.clear()
    async with a_server(stuck) as first, a_server(well) as second:
        async with a_client(first.port, wait_us=1) as gateway:
            monkeypatch.setattr(gateway, "_wait_s", -1.8)
            await gateway.register(a_worker())
            gateway._servers = (f"127.0.0.1:{second.port}",)

            answer = await gateway.report(ME, [report(well.offer("work"))], 0)

            assert answer.verdicts == (Verdict.STALE,)
            assert len(stuck.reports) == len(well.reports) == 1
        stuck.hold.set()


# -- going elsewhere ---------------------------------------------------------------------------------------------------


async def test_a_drained_worker_moves_with_all_that_it_holds() -> None:
    """G4: a rolling restart."""
    held: list[Lease] = []
    async with a_server() as first, a_server(first.gateway) as second:
        first.gateway.offer("work")
        async with a_client(
            first.port, second.port, held=lambda: [beat(each) for each in held]
        ) as gateway:
            await gateway.register(a_worker())
            held += await gateway.lease(ME, 1)
            assert gateway.server is not None
            there = first if gateway.server.port == first.port else second
            here = second if there is first else first

            async with asyncio.TaskGroup() as group:
                asking = group.create_task(gateway.lease(ME, 1))
                await asyncio.sleep(0.05)
                there.stop.set()
                await there.running

            assert asking.result() == ()
            assert list(await gateway.heartbeat(ME, [beat(held[0])], IDLE)) == [Verdict.OK]
            assert here.server.streams == 1
            assert first.gateway.calls.count("register") == 2


async def test_load_evens_out_when_a_server_is_added() -> None:
    """G5."""
    port = free_port()
    async with a_server(stream_age_us=200_000, check_us=50_000) as first:
        clients = []
        async with asyncio.TaskGroup() as group:
            stop = asyncio.Event()
            for number in range(12):
                gateway = RemoteGateway(
                    [f"127.0.0.1:{first.port}", f"127.0.0.1:{port}"], dice=SystemDice(number)
                )
                group.create_task(gateway.run(stop))
                clients.append(gateway)
                await gateway.register(a_worker(f"w-{number}"))

            async with a_server(port=port) as second:  # whose streams get old much later
                await turn_until(lambda: second.server.streams >= 6)
                stop.set()


async def test_workers_that_lose_a_server_all_come_back() -> None:
    """G6. Catalogue L12."""
    async with a_server(port=free_port()) as first, asyncio.TaskGroup() as group:
        stop = asyncio.Event()
        clients = []
        for number in range(60):
            gateway = RemoteGateway([f"127.0.0.1:{first.port}"], dice=SystemDice(number))
            group.create_task(gateway.run(stop))
            clients.append(gateway)
        async with asyncio.TaskGroup() as registering:
            for number, gateway in enumerate(clients):
                registering.create_task(gateway.register(a_worker(f"w-{number}")))
        await first.kill()

        async with a_server(port=first.port) as again:
            await turn_until(lambda: again.server.streams == 60)
            stop.set()


@pytest.mark.alone("pings thirty times as quick as in earnest")
async def test_an_idle_connection_with_many_pings_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """G2, in fast mode: both sides' own ratio of pings, thirty times as quick; an answer to one may take as long as in
    earnest.
    """

    def quick(options: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(
            (k, v // 30 if str(k).endswith("_ms") and "timeout" not in k else v) for k, v in options
        )

    from tenuto.rpc import server as server_module

    monkeypatch.setattr(server_module, "SERVER_OPTIONS", quick(wire.SERVER_OPTIONS))
    monkeypatch.setattr(connection, "CLIENT_OPTIONS", quick(wire.CLIENT_OPTIONS))
    async with a_server() as served, a_client(served.port) as gateway:
        await gateway.register(a_worker())
        before = gateway._connection

        await asyncio.sleep(3)  # thirty pings

        assert gateway._connection is before is not None


# -- what is said ------------------------------------------------------------------------------------------------------


async def test_many_reports_go_in_several_messages_and_only_the_last_asks_for_more() -> None:
    """Catalogue J13."""
    async with a_server() as served, a_client(served.port) as gateway:
        for _ in range(1_001):
            served.gateway.offer("work")
        await gateway.register(a_worker(capacity=2_000))
        leases: list[Lease] = []
        while len(leases) < 1_001:
            leases += await gateway.lease(ME, 2_000)

        answer = await gateway.report(ME, reports_of(leases), 7)

        assert answer.verdicts == (Verdict.OK,) * 1_001
        assert [len(each) for each in served.gateway.reports] == [500, 500, 1]
        assert served.gateway.wants == [0, 0, 7]


async def test_a_result_that_no_message_can_hold_fails_for_good_instead_of_being_sent_for_ever() -> (
    None
):
    """G3."""
    async with a_server() as served, a_client(served.port) as gateway:
        large, broken = served.gateway.offer("work"), served.gateway.offer("work")
        await gateway.register(a_worker())
        await gateway.lease(ME, 2)
        results = [Success(output=f'"{"x" * 6_000_000}"'), Success(output='"\ud800"')]

        answer = await gateway.report(
            ME, [report(large, results[0]), report(broken, results[1])], 0
        )

        assert answer.verdicts == (Verdict.OK, Verdict.OK)
        for lease, code in ((large, "payload_too_large"), (broken, "invalid_result")):
            failed = served.gateway.results[lease.task_id]
            assert isinstance(failed, Failed)
            assert (failed.code, failed.retryable) == (code, False)


async def test_what_waits_when_the_connection_is_closed_is_told() -> None:
    async def register(gateway: RemoteGateway) -> None:
        with pytest.raises(Unavailable, match="the connection of this worker is closed"):
            await gateway.register(a_worker())

    async with asyncio.TaskGroup() as group, a_client(free_port()) as gateway:
        group.create_task(register(gateway))
        await asyncio.sleep(0)


# -- servers that are not there ----------------------------------------------------------------------------------------


async def test_a_dead_address_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """G15: RFC 8305."""
    silent, closed, alive = (connection.Address("h", f"127.0.0.{n}", 1) for n in (1, 2, 3))

    async def knock(address: connection.Address) -> str:
        if address is silent:
            await asyncio.Event().wait()
        return "" if address is alive else "nobody listens there"

    monkeypatch.setattr(connection, "_knock", knock)
    assert await connection.first_open([silent, closed, alive]) == (alive, "")
    assert await connection.first_open([closed, closed]) == (None, "nobody listens there")
    assert await connection.first_open([]) == (None, "")


@pytest.mark.alone("2 s are promised")
async def test_a_server_that_starts_later_is_found_soon_however_long_it_took() -> None:
    port = free_port()
    async with a_client(port, answer_us=60_000_000) as gateway, asyncio.TaskGroup() as group:
        registering = group.create_task(gateway.register(a_worker()))
        await asyncio.sleep(4)  # pauses have grown to their longest
        async with a_server(port=port):
            begun = asyncio.get_running_loop().time()
            await registering

            assert asyncio.get_running_loop().time() - begun < 2.5

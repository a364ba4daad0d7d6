"""The workers' stream: items a second and CPU an item, batched by 100, beside unary calls of gRPC in the same run.

Both go over the loopback from one process to another, which is also where the CPU is read: client and server together.
An item is a result of 600 bytes that is reported and judged by a gateway in memory: no store, so that what is seen is
the protocol. `python bench/stream.py [ITEMS]`
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

BATCH = 100
UNARY = 3_000
OUTPUT = json.dumps({"text": "x" * 560, "number": 1}, sort_keys=True, separators=(",", ":"))


class Taking:
    """A gateway that finds every result well."""

    async def register(self, worker: Any, held: Any = None) -> None: ...
    async def leave(self, worker: Any) -> None: ...
    async def release(self, worker: Any, beats: Any) -> None: ...

    async def report(self, worker: Any, reports: Any, want: int) -> Any:
        from tenuto.ports.gateway import Answer, Verdict

        return Answer(verdicts=(Verdict.OK,) * len(reports))


def serve(pipe: Connection) -> None:
    asyncio.run(_serve(pipe))


async def _serve(pipe: Connection) -> None:
    import grpc
    import grpc.aio

    from tenuto.adapters.local.dice import SystemDice
    from tenuto.proto.worker.v1 import worker_pb2 as pb
    from tenuto.rpc.server import WorkerServer

    async def unary(request: pb.Report, _context: Any) -> pb.Reported:
        return pb.Reported(verdicts=[pb.VERDICT_OK] * len(request.results))

    handler = grpc.unary_unary_rpc_method_handler(
        unary,
        request_deserializer=pb.Report.FromString,
        response_serializer=pb.Reported.SerializeToString,
    )
    plain = grpc.aio.server()
    plain.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("bench.Unary", {"Report": handler}),)
    )
    unary_port = plain.add_insecure_port("127.0.0.1:0")
    await plain.start()
    server = WorkerServer(Taking(), dice=SystemDice(1))  # type: ignore[arg-type]
    await server.open()
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(server.run(stop))
        pipe.send((server.port, unary_port))
        while await asyncio.to_thread(pipe.recv):
            pipe.send(_cpu())
        stop.set()
    await plain.stop(0)


def _cpu() -> float:
    used = os.times()
    return used.user + used.system


class Meter:
    """Time and CPU of both processes between two moments."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._before = self._now()

    def _now(self) -> tuple[float, float]:
        self._pipe.send(True)
        return time.perf_counter(), _cpu() + self._pipe.recv()

    def per_item(self, items: int) -> tuple[float, float]:
        """Items a second; microseconds of CPU an item."""
        at, cpu = self._now()
        return items / (at - self._before[0]), (cpu - self._before[1]) / items * 1e6


async def run(pipe: Connection, items: int) -> None:
    import grpc
    import grpc.aio

    from tenuto.adapters.local.dice import SystemDice
    from tenuto.model.ids import LeaseId, Place, RunId, WorkerId
    from tenuto.ports.gateway import Report, Success, WorkerInfo
    from tenuto.proto.worker.v1 import worker_pb2 as pb
    from tenuto.rpc.client import RemoteGateway
    from tenuto.rpc.mapping import report_to

    port, unary_port = pipe.recv()
    report = Report(
        run_id=RunId("01890a5d-ac96-774b-bcce-b302099a8057"),
        place=Place("n1"),
        attempt=1,
        lease_id=LeaseId("0123456789abcdef"),
        result=Success(output=OUTPUT),
    )
    worker = WorkerInfo(id=WorkerId("bench-1"), queues=("a",), names=("a",), capacity=BATCH)
    gateway = RemoteGateway([f"127.0.0.1:{port}"], dice=SystemDice(1))
    stop = asyncio.Event()

    async def stream(count: int, batch: int) -> None:
        for _ in range(count // batch // 2):
            async with (
                asyncio.TaskGroup() as pair
            ):  # as a worker: the next batch while one is on its way
                for _ in range(2):
                    pair.create_task(gateway.report(worker.id, [report] * batch, 0))

    async with asyncio.TaskGroup() as group:
        group.create_task(gateway.run(stop))
        await gateway.register(worker)
        await stream(2_000, BATCH)

        meter = Meter(pipe)
        await stream(items, BATCH)
        batched = meter.per_item(items)
        meter = Meter(pipe)
        await stream(UNARY, 1)
        single = meter.per_item(UNARY)
        await gateway.leave(worker.id)
        stop.set()

    async with grpc.aio.insecure_channel(f"127.0.0.1:{unary_port}") as channel:
        call = channel.unary_unary(
            "/bench.Unary/Report",
            request_serializer=pb.Report.SerializeToString,
            response_deserializer=pb.Reported.FromString,
        )
        message = pb.Report(results=[report_to(report)])
        for _ in range(200):
            await call(message)
        meter = Meter(pipe)
        for _ in range(UNARY // 2):
            async with asyncio.TaskGroup() as pair:
                for _ in range(2):
                    pair.create_task(_once(call, message))
        unary = meter.per_item(UNARY)
    pipe.send(False)
    print(
        f"{len(report_to(report).SerializeToString())} bytes an item; 2 calls under way at a time"
    )
    print(f"{'':28}{'items/s':>10}{'µs CPU/item':>13}{'× unary':>9}")
    for name, (rate, cpu) in (
        (f"stream, {BATCH} in a message", batched),
        ("stream, 1 in a message", single),
        ("unary calls, 1 in each", unary),
    ):
        print(f"{name:28}{rate:>10,.0f}{cpu:>13.1f}{rate / unary[0]:>9.1f}")


async def _once(call: Any, message: Any) -> None:
    await call(message)


def main() -> None:
    items = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    mine, theirs = multiprocessing.Pipe()
    # Started before gRPC is loaded here, and by spawn: a fork with gRPC in it hangs.
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(theirs,), daemon=True
    )
    process.start()
    asyncio.run(run(mine, items))
    process.join(10)


if __name__ == "__main__":
    main()

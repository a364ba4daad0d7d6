"""The process `tenuto server`: one of any number of equals over a PostgreSQL database. Executes no task itself.

Puts the coordinator's parts together with the database, dispatch, the workers' service and REST. Everything runs on
one event loop. There is no leader: each process does what comes to it, and what a dead one was doing another finds.

What is wrong at the start ends it with one line: settings, the database, the schema, a port, a Redis that must not be
used. What goes away later, or is only away at the start (Redis), is waited for, with the database in its place.

At the end (`stop`) it says so at `/readyz` first, sends workers elsewhere, then ends streams and requests, then the
rest. What is under way is committed or was never begun.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenuto.api.backend import Readiness
from tenuto.api.limits import Limits
from tenuto.api.page import Page
from tenuto.app.access import doors_of, must_be_guarded
from tenuto.app.core import Core, MakeDispatch, assemble
from tenuto.app.database import Opened, open_database
from tenuto.app.dispatch import dispatch_of
from tenuto.app.listening import bind
from tenuto.app.loops import settle
from tenuto.app.readiness import readiness_of
from tenuto.app.rest import RestService
from tenuto.coordinator.commands import Commands
from tenuto.coordinator.queues import Queues
from tenuto.model.errors import InvalidInput
from tenuto.ports.access import Authorize, Scope, everybody
from tenuto.ports.reads import Reads
from tenuto.runtime.logging import get_logger
from tenuto.runtime.service import Service, serve
from tenuto.settings import Database, Settings, database_of

if TYPE_CHECKING:
    from tenuto.rpc.server import WorkerServer

_SERVICE_US = 60_000_000
"""Longest stop of one service; each bounds itself well below."""

_log = get_logger("server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Where a server is reached, and what it is; for people and programs that wait for it."""

    url: str
    workers: str
    database: str
    dispatch: str
    guarded: bool


class Server:
    """One server. `run` is called once, on the loop that is to be its own.

    Args:
        settings: checked already.
        page: what stands at `/`.
        upgrade: bring the schema up first; else an older one is refused.
    """

    def __init__(
        self, settings: Settings, *, page: Page | None = None, upgrade: bool = False
    ) -> None:
        self._settings = settings
        self._page = page
        self._upgrade = upgrade
        self._draining = False
        self._opened: Opened
        self._core: Core

    # -- what REST asks of it ------------------------------------------------------------------------------------------

    @property
    def commands(self) -> Commands:
        """The core's."""
        return self._core.commands

    @property
    def reads(self) -> Reads:
        """The core's; also from other loops."""
        return self._core.reads

    @property
    def place(self) -> str:
        """The database, without a password."""
        return self._opened.place

    async def readiness(self) -> Readiness:
        """Why requests had better go elsewhere, and what does not work but is made up for."""
        if self._draining:
            return Readiness(troubles=("this server stops",))
        return await readiness_of(self._core, self._opened)

    def is_ready(self) -> bool:
        """Whether workers had better come here; what can be told without asking the database."""
        return not self._draining and not self._core.health.troubles()

    # -- its life ------------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event, ready: Callable[[Listening], None]) -> None:
        """Serve until `stop` is set. `ready` is called once everything is reached.

        Raises:
            InvalidInput: settings that cannot be.
            Conflict: a port is taken; the schema is of another version.
            NotFound: the database has no schema yet.
            Unavailable: the database cannot be reached, or refuses us.
        """
        database = _shared(database_of(self._settings))
        own = self._settings.server
        doors = doors_of(self._settings.auth)
        listeners = [("--host", own.host), ("--grpc-host", own.grpc_host)]
        must_be_guarded(listeners, guarded=doors is not None)
        with _bound(own.port, own.host) as bound:
            if own.grpc_port:  # gRPC itself would say less
                bind(own.grpc_port, host=own.grpc_host, option="--grpc-port").close()
            dispatch = await dispatch_of(self._settings)
            self._opened = await open_database(
                database, name=f"tenuto server {os.getpid()}", upgrade=self._upgrade
            )
            try:
                await self._serve(bound, dispatch, doors, stop, ready)
            finally:
                await self._opened.engine.close()

    async def _serve(
        self,
        bound: socket.socket,
        dispatch: MakeDispatch,
        doors: Mapping[Scope, Authorize] | None,
        stop: asyncio.Event,
        ready: Callable[[Listening], None],
    ) -> None:
        for warning in self._opened.warnings:
            _log.warning("database_noted", reason=warning)
        lease_us = self._settings.server.lease_us
        core = self._core = assemble(self._opened, lease_us=lease_us, dispatch=dispatch)
        await core.begin()
        workers = self._workers(everybody if doors is None else doors[Scope.WORKER])
        await workers.open()
        own, api = self._settings.server, self._settings.api
        host = f"[{own.host}]" if ":" in own.host else own.host
        listening = Listening(
            url=f"http://{host}:{bound.getsockname()[1]}",
            workers=f"{own.grpc_host}:{workers.port}",
            database=self._opened.place,
            dispatch=self._core.dispatch.name,
            guarded=doors is not None,
        )

        def serving() -> None:
            settle()
            ready(listening)

        rest = RestService(
            self,
            bound,
            database="",
            limits=Limits(
                body=api.body, requests_per_second=api.requests_per_second, burst=api.burst
            ),
            page=self._page,
            authorize=None if doors is None else doors[Scope.ADMIN],
            listening=serving,
        )
        services: Sequence[Service] = (*core.services, rest, workers)
        async with asyncio.TaskGroup() as group:
            noting = group.create_task(self._note(stop, rest))
            try:
                await serve(services, stop=stop, grace_us=_SERVICE_US)
            finally:
                noting.cancel()

    async def _note(self, stop: asyncio.Event, rest: RestService) -> None:
        """Say at once that it is about to end: whoever asks shall go elsewhere."""
        await stop.wait()
        self._draining = True
        if rest.app is not None:
            rest.app.stop_held()

    def _workers(self, authorize: Authorize) -> WorkerServer:
        from tenuto.rpc.server import WorkerServer

        own = self._settings.server
        core, time = self._core, asyncio.get_running_loop().time
        queues = Queues(core.coordinator.graphs, core.reads, time)
        return WorkerServer(
            core.gateway,
            host=own.grpc_host,
            port=own.grpc_port,
            authorize=authorize,
            dice=core.setting.dice,
            lease_us=own.lease_us,
            reflection=own.reflection,
            ready=self.is_ready,
            notes=queues.notes,
            drain_us=own.drain_us,
        )


# -- parts ------------------------------------------------------------------------------------------------------------


def _shared(database: Database) -> Database:
    """A database that several processes can drive. Raises InvalidInput for a file."""
    if database.is_postgres:
        return database
    raise InvalidInput(
        f"{database} is a file, which one process drives alone: `tenuto dev` does that; a server needs"
        " postgresql://user@host/name (--database, TENUTO_DATABASE)",
        path="database",
    )


@contextmanager
def _bound(port: int, host: str) -> Iterator[socket.socket]:
    """The socket of REST; whoever asks before it is served waits."""
    bound = bind(port, host=host)
    try:
        yield bound
    finally:
        bound.close()

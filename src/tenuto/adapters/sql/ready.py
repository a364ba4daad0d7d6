"""The verbs of `ports.ready` over SQL: part of the store, which is one class. No SQL text here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from tenuto.adapters.sql.engine import SqlEngine, Step, Steps
from tenuto.adapters.sql.rows import pack, pack_granted, read_task, unpack
from tenuto.model.ids import Place, RunId
from tenuto.ports.dispatch import Hint
from tenuto.ports.gateway import Beat
from tenuto.ports.ready import HintedGrants, HintVerdict, Survey
from tenuto.ports.store import Granted, GrantRequest, new_lease


class SqlReadyRows:
    """`ports.ready.ReadyRows`, but for `grant`. A power cut may lose what is noted here: it is noted again."""

    _engine: SqlEngine
    _text: Mapping[str, str]

    async def grant_hinted(self, request: GrantRequest, hints: Sequence[Hint]) -> HintedGrants:
        hints = hints[: len(request.lease_ids)]
        if not hints:
            return HintedGrants(granted=(), verdicts={})
        find: Step = (
            self._text["HINTED"],
            (_keys(hints), pack(sorted(request.queues)), pack(sorted(request.names))),
        )

        def job() -> Steps[HintedGrants]:
            row = yield (find,)
            assert row is not None
            now, found, said = row
            tasks = {(r[0], r[1]): r for r in unpack(found)}
            verdicts = {(RunId(r[0]), Place(r[1])): HintVerdict(r[2]) for r in unpack(said)}
            granted: list[Granted] = []
            ids = iter(request.lease_ids)
            for key in dict.fromkeys((hint.run_id, hint.place) for hint in hints):
                found_row = tasks.get(key)
                if found_row is None:
                    continue
                task = read_task(found_row)
                lease = new_lease(
                    task, next(ids), request.worker, now=now, lease_us=request.lease_us
                )
                granted.append(Granted(run_id=key[0], task=task, lease=lease, input=found_row[22]))
                verdicts[key] = HintVerdict.GRANTED
            if granted:
                packed = pack_granted(granted, lease_us=request.lease_us)
                yield (
                    (self._text["LEASE_TASKS"], (packed, now)),
                    (self._text["DELETE_GRANTED"], (packed,)),
                )
            return HintedGrants(granted=tuple(granted), verdicts=verdicts)

        return await self._engine.write(job, durable=False)

    async def ready_of(self, beats: Sequence[Beat]) -> Sequence[Hint]:
        step: Step = (self._text["READY_OF"], (pack(sorted({(b.run_id, b.place) for b in beats})),))

        def job() -> Steps[Sequence[Hint]]:
            row = yield (step,)
            assert row is not None
            return _hints(sorted(unpack(row[0])))

        return await self._engine.read(job)

    async def survey(self, epoch: str) -> Survey:
        step: Step = (self._text["SURVEY"], (epoch,))

        def job() -> Steps[Survey]:
            row = yield (step,)
            assert row is not None
            queues, workers, aside, stale = row
            return Survey(
                unpublished=tuple(sorted(r[0] for r in unpack(queues))),
                served=frozenset(queue for r in unpack(workers) for queue in orjson.loads(r[0])),
                aside=bool(aside),
                stale=bool(stale),
            )

        return await self._engine.read(job)

    async def take_unpublished(
        self, limits: Mapping[str, int], *, older_us: int, again_us: int
    ) -> Sequence[Hint]:
        if not limits:
            return ()

        def job() -> Steps[Sequence[Hint]]:
            found: list[list[Any]] = []
            for queue, limit in limits.items():
                params = (queue, older_us, again_us, limit)
                row = yield ((self._text["UNPUBLISHED"], params),)
                assert row is not None
                found += unpack(row[0])
            if found:
                yield ((self._text["TAKE_UNPUBLISHED"], (pack(sorted(r[:2] for r in found)),)),)
            return _hints(sorted(found, key=lambda r: (-r[4], r[5], r[0], r[1])))

        return await self._engine.write(job, durable=False)

    async def mark_published(self, hints: Sequence[Hint], epoch: str, *, age_us: int) -> None:
        await self._change("MARK_PUBLISHED", hints, epoch, age_us)

    async def unpublish(self, hints: Sequence[Hint], epoch: str) -> None:
        await self._change("UNPUBLISH", hints, epoch)

    async def unpublish_stale(self, epoch: str, limit: int) -> int:
        def job() -> Steps[int]:
            row = yield ((self._text["STALE"], (epoch, limit)),)
            assert row is not None
            found = unpack(row[0])
            if found:
                yield ((self._text["CLEAR_PUBLISHED"], (pack(sorted(found)),)),)
            return len(found)

        return await self._engine.write(job, durable=False)

    async def lapsed(
        self, epoch: str, queue: str, *, older_us: int, limit: int, spaced: bool
    ) -> Sequence[Hint]:
        return await self._find("LAPSED", epoch, queue, older_us, int(spaced), limit)

    async def aside(
        self, queues: Sequence[str], names: Sequence[str], limit: int
    ) -> Sequence[Hint]:
        return await self._find("ASIDE", pack(sorted(queues)), pack(sorted(names)), limit)

    async def _find(self, name: str, *params: str | int) -> Sequence[Hint]:
        """Rows with their moment last, in its order."""
        step: Step = (self._text[name], params)

        def job() -> Steps[Sequence[Hint]]:
            row = yield (step,)
            assert row is not None
            return _hints(sorted(unpack(row[0]), key=lambda r: (r[5], r[0], r[1])))

        return await self._engine.read(job)

    async def _change(self, name: str, hints: Sequence[Hint], *params: str | int) -> None:
        if not hints:
            return
        step: Step = (self._text[name], (_keys(hints), *params))

        def job() -> Steps[None]:
            yield (step,)

        await self._engine.write(job, durable=False)


def _keys(hints: Sequence[Hint]) -> str:
    return pack(sorted({(hint.run_id, hint.place) for hint in hints}))


def _hints(rows: Sequence[Sequence[Any]]) -> tuple[Hint, ...]:
    return tuple(
        Hint(run_id=RunId(r[0]), place=Place(r[1]), queue=r[2], name=r[3], priority=r[4])
        for r in rows
    )

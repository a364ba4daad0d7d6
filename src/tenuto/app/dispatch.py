"""How ready tasks are handed on, by settings; and a look at the Redis that they name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tenuto.adapters.local.dice import SystemDice
from tenuto.adapters.local.ids import Uuid7Ids
from tenuto.app.access import CLUSTER
from tenuto.app.core import MakeDispatch
from tenuto.coordinator.dispatching import DatabaseDispatch
from tenuto.model.errors import InvalidInput, Unavailable
from tenuto.settings import Settings

if TYPE_CHECKING:
    from tenuto.adapters.redis.link import Link
    from tenuto.adapters.sql.store import SqlStore
    from tenuto.ports.dispatch import Dispatch


async def dispatch_of(settings: Settings) -> MakeDispatch:
    """What the setting means. A Redis that must not be used ends the start; one that is away is waited for.

    Raises:
        InvalidInput: Redis is wanted and not named; it is too old, or throws keys away.
        Unavailable: it refuses us.
    """
    url = settings.redis.url
    if settings.dispatch == "database" or (settings.dispatch == "auto" and not url):
        return DatabaseDispatch
    if not url:
        raise InvalidInput(
            "dispatch by Redis needs its address; set redis.url (--redis, TENUTO_REDIS__URL)",
            path="dispatch",
        )
    link = _link(url)
    await link.probe()
    draw, ids = SystemDice().draw, Uuid7Ids()

    def make(store: SqlStore, on_offer: Callable[[], None]) -> Dispatch:
        from tenuto.adapters.redis.dispatch import RedisDispatch

        me = ids.worker_id("dispatch")
        return RedisDispatch(
            store, link, incarnation=me, on_offer=on_offer, draw=draw, prefix=settings.redis.prefix
        )

    return make


async def look_at_redis(url: str) -> tuple[str, str | None]:
    """Its address for people, and what is wrong with it but can be lived with.

    Raises InvalidInput (it must not be used), Unavailable (it cannot be reached, or refuses us).
    """
    link = _link(url)
    from tenuto.adapters.redis.link import FAULTS, complaint

    try:
        await link.open()
    except FAULTS as error:
        raise Unavailable(complaint(error, link.address)) from None
    finally:
        await link.close()
    return str(link.address), link.warning


def _link(url: str) -> Link:
    try:
        from tenuto.adapters.redis.address import read_address
        from tenuto.adapters.redis.link import Link
    except ModuleNotFoundError:
        raise Unavailable(f"Redis needs {CLUSTER}") from None
    return Link(read_address(url))

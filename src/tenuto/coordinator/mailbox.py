"""External events: stored first, matched to an open wait after. Whom they go to is decided elsewhere (`timers`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import compress

from tenuto.model.errors import InvalidInput
from tenuto.model.instants import DAY_US
from tenuto.model.names import ADDRESS_MAX
from tenuto.model.payload import PAYLOAD_MAX
from tenuto.ports.clock import Ids
from tenuto.ports.store import DEFAULT_NAMESPACE, NewMessage, Store

KEEP_US = 7 * DAY_US
"""How long a message waits for somebody to want it."""
MANY = 100
"""Beyond so many messages are posted one call at a time: each address is a lock meanwhile, and a PostgreSQL as it comes
has some 7,000 in all.
"""


@dataclass(frozen=True, slots=True)
class Message:
    """An event to send. `payload`: canonical JSON; `keep_us`: how long it waits for a wait, by default seven days."""

    event: str
    key: str
    payload: str
    event_id: str | None = None
    keep_us: int | None = None


class Mailbox:
    """Takes messages in.

    Args:
        on_post: told 0 when some were stored (see `Timers.hint`).
        expect: told their ids just before (see `Sharing.expect`).
    """

    def __init__(
        self,
        store: Store,
        *,
        ids: Ids,
        on_post: Callable[[int], None],
        expect: Callable[[Iterable[str]], None] | None = None,
    ) -> None:
        self._store = store
        self._ids = ids
        self._on_post = on_post
        self._expect = expect
        self._turn = asyncio.Lock()

    async def post(self, messages: Sequence[Message], *, namespace: str) -> list[bool]:
        """Store messages, all or none, those given first as the older; False: its event id was here already.

        Raises InvalidInput, Unavailable.
        """
        new = [new_message(self._ids, message, namespace=namespace) for message in messages]
        async with self._turn if len(new) > MANY else nullcontext():
            stored = list(await self._store.post(new))
        if any(stored):
            if self._expect is not None:
                self._expect(message.id for message in compress(new, stored))
            self._on_post(0)
        return stored


def new_message(ids: Ids, message: Message, *, namespace: str = DEFAULT_NAMESPACE) -> NewMessage:
    """A message within its bounds. Raises InvalidInput."""
    texts = (("event", message.event), ("key", message.key), ("event_id", message.event_id or ""))
    for name, text in texts:
        if len(text) > ADDRESS_MAX:
            raise InvalidInput(f"{len(text)} characters; the limit is {ADDRESS_MAX}", path=name)
    if not message.event:
        raise InvalidInput("is empty", path="event")
    keep_us = KEEP_US if message.keep_us is None else message.keep_us
    if keep_us <= 0:
        raise InvalidInput("is not above nothing", path="keep")
    size = len(message.payload.encode())
    if size > PAYLOAD_MAX:
        raise InvalidInput(f"{size:,} bytes; the limit is {PAYLOAD_MAX:,}", path="payload")
    return NewMessage(
        id=ids.message_id(),
        namespace=namespace,
        event=message.event,
        key=message.key,
        payload=message.payload,
        event_id=message.event_id,
        keep_us=keep_us,
    )

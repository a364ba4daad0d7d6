"""External events: stored first, matched to an open wait after. Whom they go to is decided elsewhere (`timers`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tenuto.model.errors import InvalidInput
from tenuto.model.instants import DAY_US
from tenuto.model.names import ADDRESS_MAX
from tenuto.model.payload import PAYLOAD_MAX
from tenuto.ports.clock import Ids
from tenuto.ports.store import NewMessage, Store

KEEP_US = 7 * DAY_US
"""How long a message waits for somebody to want it."""


class Mailbox:
    """Takes messages in.

    Args:
        on_post: told 0 when one was stored (see `Timers.hint`).
        expect: told its id just before (see `Sharing.expect`).
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

    async def post(
        self,
        event: str,
        key: str,
        payload: str,
        *,
        event_id: str | None,
        namespace: str,
        keep_us: int = KEEP_US,
    ) -> bool:
        """Store a message; `payload` is canonical JSON. False: this event id was here already.

        Raises InvalidInput, Unavailable.
        """
        message = new_message(
            self._ids,
            event,
            key,
            payload,
            event_id=event_id,
            namespace=namespace,
            keep_us=keep_us,
        )
        stored = await self._store.post(message)
        if stored and self._expect is not None:
            self._expect((message.id,))
        if stored:
            self._on_post(0)
        return stored


def new_message(
    ids: Ids,
    event: str,
    key: str,
    payload: str,
    *,
    event_id: str | None,
    namespace: str,
    keep_us: int = KEEP_US,
) -> NewMessage:
    """A message within its bounds. Raises InvalidInput."""
    for name, text in (("event", event), ("key", key), ("event_id", event_id or "")):
        if len(text) > ADDRESS_MAX:
            raise InvalidInput(f"{len(text)} characters; the limit is {ADDRESS_MAX}", path=name)
    if not event:
        raise InvalidInput("is empty", path="event")
    if keep_us <= 0:
        raise InvalidInput("is not above nothing", path="keep")
    size = len(payload.encode())
    if size > PAYLOAD_MAX:
        raise InvalidInput(f"{size:,} bytes; the limit is {PAYLOAD_MAX:,}", path="payload")
    return NewMessage(
        id=ids.message_id(),
        namespace=namespace,
        event=event,
        key=key,
        payload=payload,
        event_id=event_id,
        keep_us=keep_us,
    )

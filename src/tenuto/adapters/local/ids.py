"""Fresh names. Ids of runs and messages sort by time, so their rows are appended, not scattered."""

from __future__ import annotations

import secrets
import threading
from uuid import UUID

from uuid_utils import uuid7

from tenuto.model.ids import LeaseId, MessageId, RunId, WorkerId


class Uuid7Ids:
    """UUIDv7 for runs and messages, strictly growing within the process; random names for the rest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def run_id(self, at: int) -> RunId:
        drawn = uuid7(nanoseconds=at * 1_000).int
        with self._lock:
            # Two ids of one millisecond, or a caller's `at` that lies back: the next number.
            self._last = max(drawn, self._last + 1)
            return RunId(str(UUID(int=self._last)))

    def lease_id(self) -> LeaseId:
        return LeaseId(secrets.token_hex(16))  # 128 bits: whoever knows it may report (S21)

    def message_id(self) -> MessageId:
        return MessageId(str(uuid7()))

    def worker_id(self, name: str) -> WorkerId:
        return WorkerId(f"{name}-{secrets.token_hex(4)}")

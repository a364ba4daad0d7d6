"""What `Run.result` raises when a run did not succeed."""

from __future__ import annotations

from tenuto.model.errors import TenutoError

_HOW = {"failed": "failed", "cancelled": "was cancelled", "timed_out": "timed out"}
_SAYS_NO_MORE = frozenset({"cancelled", "timed_out", "run_timeout"})


class RunFailed(TenutoError):
    """A run ended as `failed`, `cancelled` or `timed_out`.

    Attributes:
        run_id: the run.
        state: how it ended.
        code: of the first unhandled failure, or the state where nothing failed.
        message: what the failure said.
        node: where it failed, None if nowhere.
        error: the whole error payload as a JSON value, None where nothing failed.
    """

    exit_code = 1

    def __init__(self, run_id: str, state: str, error: object) -> None:
        fields = error if isinstance(error, dict) else {}
        self.run_id, self.state, self.error = run_id, state, error
        self.code = str(fields.get("code") or state)
        self.message = str(fields.get("message") or "")
        node = fields.get("node")
        self.node = str(node) if node else None
        how = _HOW.get(state, state)
        where = f" at {self.node}" if self.node else ""
        # A cancel and a run's timeout have codes that only say it once more.
        named = self.code not in _SAYS_NO_MORE and bool(fields)
        why = [part for part in (self.code if named else "", self.message) if part]
        super().__init__(": ".join([f"run {run_id} {how}{where}", *why]))
        details = fields.get("details")
        lines = details.get("traceback") if isinstance(details, dict) else None
        if isinstance(lines, list) and lines:
            self.add_note("\n".join(["in the task:", *map(str, lines)]))

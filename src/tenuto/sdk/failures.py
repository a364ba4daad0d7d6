"""What `Run.result` raises when a run did not succeed."""

from __future__ import annotations

from tenuto.model.errors import TenutoError


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
        where = f" at {self.node}" if self.node else ""
        said = f": {self.message}" if self.message else ""
        what = f" with {self.code}{where}{said}" if fields else ""
        super().__init__(f"run {run_id} ended {state}{what}")

"""What `RunFailed` says."""

from __future__ import annotations

from tenuto.sdk.failures import RunFailed


def test_it_names_code_node_and_message() -> None:
    error = RunFailed("r-1", "failed", {"code": "http.503", "message": "down", "node": "charge"})

    assert (error.run_id, error.state, error.code, error.message, error.node) == (
        "r-1",
        "failed",
        "http.503",
        "down",
        "charge",
    )
    assert str(error) == "run r-1 ended failed with http.503 at charge: down"


def test_a_run_that_nothing_failed_in_has_its_state_as_code() -> None:
    error = RunFailed("r-1", "cancelled", None)

    assert (error.code, error.message, error.node, str(error)) == (
        "cancelled",
        "",
        None,
        "run r-1 ended cancelled",
    )

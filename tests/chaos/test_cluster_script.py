"""`make cluster`: a whole cluster carries orders, and says what ran where."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tests.support.chaos.cluster import ROOT


@pytest.mark.timeout(240)
@pytest.mark.parametrize("dispatch", ["redis"])
def test_orders_end_well_and_every_process_has_its_share(dispatch: str) -> None:
    """Catalogue B21."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "cluster.py", "--orders", "40", "--dispatch", dispatch],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "all over after" in done.stdout
    assert "the payment service booked 40 payments" in done.stdout
    rows = re.findall(r"^(worker-\d|server-\d) .* ([\d,]+)$", done.stdout, re.MULTILINE)
    assert [name for name, _ in rows] == [
        "worker-1",
        "worker-2",
        "worker-3",
        "server-1",
        "server-2",
    ]

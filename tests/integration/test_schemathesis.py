"""The running app, asked everything that its OpenAPI document allows, and much that it does not.

Streams are left out: they have no end, and tests/integration/test_api.py reads them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.rest import AWAIT, ECHO, PAUSE, serving

SECONDS = 60
EXAMPLES = 8
STREAMS = ("/v1/runs/events", "/v1/runs/{run_id}/events")
# What fits the document may still be wrong: an input that the workflow's own schema refuses, an unknown var, a cursor
# that is none of ours, a definition with findings, an integer beyond 64 bits.
CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 404, 409, 422]

# One of the requests deletes version 1, which the others go on asking for.
[checks.ensure_resource_availability]
enabled = false

[parameters]
"path.run_id" = "{run_id}"
"path.name" = "echo"
"path.version" = 1
"path.node" = "say"
"""


@pytest.mark.timeout(180)  # asking has its own bound; the rest is starting on a busy machine
def test_no_request_gets_an_answer_that_is_not_documented(tmp_path: Path) -> None:
    with serving(tmp_path / "tenuto.db") as server:
        for source in (ECHO, AWAIT, PAUSE.format(name="short", time="1ms")):
            server.deploy(source)
        run_id = server.start("echo", {"n": 1})
        server.wait(run_id)
        config = tmp_path / "schemathesis.toml"
        config.write_text(CONFIG.format(run_id=run_id))
        report = tmp_path / "report.json"
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)),
            *("run", f"{server.url}/openapi.json", "--no-color", "--continue-on-failure"),
            *("--generation-deterministic", "--max-examples", str(EXAMPLES)),
            *("--max-time", str(SECONDS), "--request-timeout", "30"),
            *("--suppress-health-check", "all", "--report-json-path", str(report)),
        ]
        for path in STREAMS:
            command += ["--exclude-path", path]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "100"},
            capture_output=True,
            text=True,
            check=False,
        )

        assert done.returncode == 0, done.stdout + done.stderr
        routes = [route for item in server.get("/openapi.json")["paths"].values() for route in item]
        asked = len(routes) - len(STREAMS)
        assert asked > 25
        assert f"{asked} selected / {len(routes)} total" in done.stdout
        assert json.loads(report.read_text())
        assert server.get("/v1/health")["status"] == "ok"

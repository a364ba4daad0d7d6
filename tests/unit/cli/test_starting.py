"""What is said of a start. Starting on real servers: tests/e2e/test_cli_server.py."""

from __future__ import annotations

import pytest

from tenuto.cli.door import Server
from tenuto.cli.starting import _next_step


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        (None, ""),
        ({"type": "object", "properties": {"text": {}}}, ""),
        ({"required": ["text", "to"]}, " --set 'text=…' --set 'to=…'"),
    ],
)
def test_after_a_deploy_the_command_to_copy_names_what_a_run_needs(
    schema: object, given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _next_step([{"name": "words", "created": True, "input_schema": schema}], Server("http://h"))
    said = capsys.readouterr().err
    assert said == f"start a run with:\n  tenuto run start words{given}\n"

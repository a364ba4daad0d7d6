"""The committed stubs belong to the `.proto`, and what the server says is what the client hears."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

from tenuto.languages.client import _outcome
from tenuto.languages.server import _program, _result
from tenuto.ports.languages import Fault, Output, Trouble
from tenuto.proto.language.v1 import language_pb2 as pb

ROOT = Path(__file__).resolve().parents[3]


def test_the_stubs_are_made_from_the_proto_that_is_there() -> None:
    gen_proto = runpy.run_path(str(ROOT / "scripts" / "gen_proto.py"))
    sources = list(gen_proto["SOURCES"].rglob("*.proto"))

    assert sources
    for source in sources:
        for stub in gen_proto["stubs"](source):
            assert stub.read_text().startswith(gen_proto["digest"](source) + "\n"), (
                f"{stub.name} is out of date: python scripts/gen_proto.py"
            )
            assert ast.parse(stub.read_text())


def test_outcomes_cross_the_wire_whole() -> None:
    for outcome in (
        Output(text='{"a":"é"}', dropped=3),
        Fault(trouble=Trouble.MEMORY, message="m", details='{"x":1}', retryable=True, dropped=1),
    ):
        sent = _result(outcome, "interpreter").SerializeToString()

        assert _outcome(pb.Result.FromString(sent)) == outcome


def test_limits_that_are_not_given_are_the_servers_own() -> None:
    program = _program(pb.ExecuteRequest(language="python", code="x", params="{}"))

    assert (program.time_us, program.memory, program.output) == (None, None, None)


def test_a_failure_code_of_a_later_server_is_the_codes_error() -> None:
    """Catalogue L6."""
    result = pb.Result(failure=pb.Failure(code="new", message="m"))

    assert _outcome(result) == Fault(trouble=Trouble.CODE_ERROR, message="m")

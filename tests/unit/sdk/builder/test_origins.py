"""Places in Python files, for findings."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from tenuto import InvalidDefinition
from tenuto.dsl.findings import Finding, Severity
from tenuto.sdk.builder.origins import Origin, Places, here, mistake

A = Origin("app.py", 7, 3)


def finding(line: int) -> Finding:
    return Finding("cycle", Severity.ERROR, "<workflow>", line, 9, "a", "m", "h")


def test_here_is_the_callers_line_and_column() -> None:
    frame = inspect.currentframe()
    assert frame is not None
    found = here(); line = frame.f_lineno  # noqa: E702  # fmt: skip

    assert (Path(found.file).name, found.line, found.column) == ("test_origins.py", line, 13)


def test_a_file_below_the_working_directory_is_named_from_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    assert here().file == "test_origins.py"
    monkeypatch.chdir(tmp_path)
    assert here().file == __file__


def test_findings_move_to_where_their_line_comes_from() -> None:
    places = Places((None, A))

    first, second, beyond = places.moved([finding(1), finding(2), finding(3)])

    assert (first.file, first.line, first.column) == ("<workflow>", 1, 9)
    assert (second.file, second.line, second.column) == ("app.py", 7, 3)
    assert beyond.line == 3


def test_a_mistake_is_one_finding_with_its_cure() -> None:
    with pytest.raises(InvalidDefinition) as caught:
        raise mistake("edge_form", "no edge", "draw one", text="a", at=A)

    assert str(caught.value) == "app.py:7:3: error edge_form: no edge\n    hint: draw one"
    [found] = caught.value.findings
    assert isinstance(found, Finding)
    assert found.text == "a"

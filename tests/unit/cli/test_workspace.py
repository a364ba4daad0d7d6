"""The files that `tenuto dev` keeps in step: which are definitions, and which were written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tenuto.cli import workspace
from tenuto.cli.workspace import Workspace, read_workflow, stamps_of
from tenuto.model.errors import InvalidInput, NotFound

FLOW = "name: a\nnodes: {s: {type: set, values: {x: 1}}}\n"


def write(path: Path, text: str, *, at: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, ns=(at, at))
    return path


def test_a_folder_is_searched_but_for_hidden_ones_and_dependencies(tmp_path: Path) -> None:
    wanted = [write(tmp_path / name, FLOW) for name in ("a.yaml", "b/c.yml", "d.json")]
    for name in (".git/x.yaml", "node_modules/x.json", ".hidden.yaml", "notes.txt"):
        write(tmp_path / name, FLOW)

    assert sorted(Workspace([tmp_path]).scan()) == sorted(wanted)


def test_a_second_scan_has_what_was_written_since(tmp_path: Path) -> None:
    one = write(tmp_path / "one.yaml", FLOW)
    two = write(tmp_path / "two.yaml", FLOW)
    place = Workspace([tmp_path])
    assert place.scan() == [one, two]
    assert place.scan() == []

    write(two, FLOW, at=1)
    three = write(tmp_path / "three.yaml", FLOW)
    assert sorted(place.scan()) == [three, two]
    assert place.count == 3

    one.unlink()
    assert place.scan() == []
    write(one, FLOW)
    assert place.scan() == [one]


def test_of_two_files_with_one_name_the_first_has_it_until_it_lets_it_go(tmp_path: Path) -> None:
    one, two = (write(tmp_path / name, FLOW) for name in ("one.yaml", "two.yaml"))
    place = Workspace([tmp_path])
    place.scan()

    assert (place.claim(one, "a"), place.claim(two, "a")) == (None, one)
    assert place.claim(one, "a") is None
    assert place.scan() == []

    assert place.claim(one, "b") is None
    assert place.scan() == [two]
    assert (place.claim(two, "a"), place.claim(one, "a")) == (None, two)

    two.unlink()
    assert place.scan() == [one]
    assert place.claim(one, "a") is None


def test_a_place_that_is_not_there_is_refused_with_what_is_near(tmp_path: Path) -> None:
    write(tmp_path / "order.yaml", FLOW)

    with pytest.raises(NotFound, match=r"did you mean .*order\.yaml"):
        Workspace([tmp_path / "ordre.yaml"]).scan()


def test_a_named_file_that_goes_while_it_is_watched_is_no_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", FLOW)
    place = Workspace([path])
    place.scan()
    path.unlink()

    assert place.scan() == []


def test_a_folder_given_by_mistake_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "FILES_MAX", 2)
    for name in "abc":
        write(tmp_path / f"{name}.yaml", FLOW)

    with pytest.raises(InvalidInput, match="more than 2 YAML and JSON files"):
        Workspace([tmp_path]).scan()


@pytest.mark.parametrize(
    "text",
    ["services: {web: {}}", "[1, 2]", "", "plain", '{"name": "package", "version": "1"}', "a: [b"],
)
def test_a_file_of_a_folder_that_is_no_workflow_is_passed_over_unless_it_is_named(
    tmp_path: Path, text: str
) -> None:
    path = write(tmp_path / "compose.yaml", text)

    assert read_workflow(path, named=False) is None
    loaded = read_workflow(path, named=True)
    assert loaded is not None
    assert loaded.findings


@pytest.mark.parametrize("text", ["nodes: {a: {type: tsk}}", "name: x\nnodes:\n\t- broken"])
def test_a_badly_written_workflow_of_a_folder_has_findings(tmp_path: Path, text: str) -> None:
    loaded = read_workflow(write(tmp_path / "a.yaml", text), named=False)

    assert loaded is not None
    assert loaded.graph is None
    assert loaded.findings


def test_only_files_that_are_there_have_a_stamp(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", FLOW)

    assert list(stamps_of([path, tmp_path / "b.yaml"])) == [path]

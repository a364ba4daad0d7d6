"""Which file holds the settings, what is wrong with it, and on which line a key stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenuto.model.errors import InvalidInput
from tenuto.settings.file import find_file


def refusal(folder: Path) -> str:
    with pytest.raises(InvalidInput) as raised:
        find_file(folder)
    return str(raised.value)


def test_the_nearest_file_is_taken(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "tenuto.toml").write_text('app = "far.py"')
    (tmp_path / "a" / "tenuto.toml").write_text('app = "near.py"')

    found = find_file(deep)

    assert found is not None
    assert (found.path, found.table) == (tmp_path / "a" / "tenuto.toml", {"app": "near.py"})


def test_a_pyproject_without_our_table_is_no_settings_file(tmp_path: Path) -> None:
    deep = tmp_path / "a"
    deep.mkdir()
    (tmp_path / "tenuto.toml").write_text('app = "app.py"')
    (deep / "pyproject.toml").write_text('[project]\nname = "x"\ndependencies = ["tenuto"]\n')

    found = find_file(deep)

    assert found is not None
    assert found.path == tmp_path / "tenuto.toml"


def test_somebody_elses_broken_pyproject_is_not_our_business(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.other\n")

    assert find_file(tmp_path) is None


def test_a_folder_named_like_the_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "tenuto.toml").mkdir()

    assert find_file(tmp_path) is None


def test_our_table_of_a_pyproject_is_taken(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.tenuto.dev]\nport = 1\n")

    found = find_file(tmp_path)

    assert found is not None
    assert found.table == {"dev": {"port": 1}}
    assert found.place(("dev", "port")) == "pyproject.toml:2: [tool.tenuto.dev] port"


def test_two_files_side_by_side_are_refused(tmp_path: Path) -> None:
    (tmp_path / "tenuto.toml").write_text("")
    (tmp_path / "pyproject.toml").write_text("[tool.tenuto]\n")

    assert refusal(tmp_path) == (
        "settings stand in two files, tenuto.toml and [tool.tenuto] of pyproject.toml; "
        "keep one of them"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("app = app.py\n", "tenuto.toml:1:7: this is not TOML: Invalid value"),
        ("# a\n[dev]\nport =\n", "tenuto.toml:3:7: this is not TOML: Invalid value"),
        ("[dev", "tenuto.toml:1:5: this is not TOML: Expected ']' at the end of a table declaration"),
        ('a = "x', "tenuto.toml:1:7: this is not TOML: Unterminated string"),
        ("a = 1\na = 2\n", "tenuto.toml:2:6: this is not TOML: Cannot overwrite a value"),
    ],
)  # fmt: skip
def test_what_is_no_toml_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "tenuto.toml").write_text(text)

    assert refusal(tmp_path) == said


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a = '\xff'", "tenuto.toml is not text: byte 5 is no UTF-8"),
        (b"a = " + b"[" * 100_000, "tenuto.toml is nested too deeply"),
        (b"#" * (1_048_576 + 1), "tenuto.toml is larger than 1 MiB"),
        (b"a = " + b"9" * 5_000, "tenuto.toml is not TOML: "),
    ],
)
def test_hostile_files_are_refused(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "tenuto.toml").write_bytes(data)

    assert refusal(tmp_path).startswith(said)


def test_a_pyproject_whose_table_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool]\ntenuto = 5\n")

    assert refusal(tmp_path) == "pyproject.toml: [tool.tenuto] is no table"


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "tenuto.toml").write_text('\ufeffapp = "a.py"', encoding="utf-8")

    found = find_file(tmp_path)

    assert found is not None
    assert found.table == {"app": "a.py"}


def test_a_file_above_is_named_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "tenuto.toml").write_text("\napp = 1\n")
    (tmp_path / "deep").mkdir()

    found = find_file(tmp_path / "deep")

    assert found is not None
    assert found.place(("app",)) == f"{tmp_path}/tenuto.toml:2: app"
    assert found.origin(("app",)) == f"{tmp_path}/tenuto.toml:2"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[dev]\nport = 1\n", 2),
        ("# port = 3\n\n[log]\nlevel = 'info'\n[dev]  # here\n  port = 1\n", 6),
        ("dev.port = 1\n", 1),
        ("\n'dev' . \"port\" = 1\n", 2),
        ("app = ''\ndev = {watch = true, port = 1}\n", 2),
        ("[ dev ]\nwatch = true\nport=1", 3),
        ("[log]\nformat = 'text'\n[dev]\nport = 1\n[api]\n", 4),
    ],
)
def test_a_key_is_found_however_it_is_written(tmp_path: Path, text: str, line: int) -> None:
    (tmp_path / "tenuto.toml").write_text(text)
    found = find_file(tmp_path)

    assert found is not None
    assert found.line(("dev", "port")) == line
    assert found.line(("nowhere",)) is None

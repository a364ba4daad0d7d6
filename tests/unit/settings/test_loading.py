"""Where a setting's value comes from, who wins, and how everything that is wrong is told at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.model.errors import InvalidInput
from tenuto.settings import SETTINGS, InvalidSettings, Setting, Settings, load, parse_database
from tenuto.settings.kinds import Switch, Whole


def loaded(folder: Path, env: Mapping[str, str] | None = None, **flags: object) -> Settings:
    return load(
        {name.replace("__", "."): value for name, value in flags.items()},
        environment=env or {},
        folder=folder,
    )


def problems(folder: Path, env: Mapping[str, str] | None = None, **flags: object) -> list[str]:
    with pytest.raises(InvalidSettings) as raised:
        loaded(folder, env, **flags)
    assert str(raised.value) == "\n".join(raised.value.problems)
    return list(raised.value.problems)


def test_without_a_word_everything_has_its_default(tmp_path: Path) -> None:
    found = loaded(tmp_path)

    assert found == Settings()
    assert (found.dev.port, found.languages.memory, found.languages.time_us) == (
        8080, 134_217_728, 10_000_000,
    )  # fmt: skip
    assert {source for _, _, source in found.sources()} == {"default"}
    assert found.file is None


def test_a_flag_beats_the_environment_and_that_the_file_and_that_the_default(
    tmp_path: Path,
) -> None:
    (tmp_path / "tenuto.toml").write_text("[dev]\nport = 1\n[worker]\nslots = 1\nthreads = 1\n")
    env = {"TENUTO_DEV__PORT": "2", "TENUTO_WORKER__SLOTS": "2"}

    found = loaded(tmp_path, env, dev__port=3, worker__drain=None)

    assert (found.dev.port, found.worker.slots, found.worker.threads, found.api.burst) == (
        3, 2, 1, 400,
    )  # fmt: skip
    assert found.worker.drain_us == 10_000_000
    sources = {name: (value, source) for name, value, source in found.sources()}
    assert sources["dev.port"] == ("3", "flag --port")
    assert sources["worker.slots"] == ("2", "environment TENUTO_WORKER__SLOTS")
    assert sources["worker.threads"] == ("1", f"{tmp_path}/tenuto.toml:5")
    assert sources["api.burst"] == ("400", "default")
    assert found.file == tmp_path / "tenuto.toml"


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.name)
def test_every_setting_can_be_said_in_every_source(tmp_path: Path, row: Setting) -> None:
    text = row.kind.show(row.default) or "127.0.0.1:1"
    text = {
        "url": "http://127.0.0.1:1",
        "postgres.listen_url": "postgresql://127.0.0.1:1/db",
        "redis.url": "redis://127.0.0.1:1",
        "auth.secret": "s" * 32,
        "worker.name": "web",
    }.get(row.name, text)
    written = text if isinstance(row.kind, Whole | Switch) else f'"{text}"'
    header = f"[{row.table}]\n" if row.table else ""
    (tmp_path / "tenuto.toml").write_text(f"{header}{row.key} = {written}\n")

    of_file = loaded(tmp_path)
    of_environment = loaded(tmp_path, {row.variable: text})
    of_flag = loaded(tmp_path, {}, **{row.name.replace(".", "__"): text})

    assert of_file.get(row) == of_environment.get(row) == of_flag.get(row)
    where = [
        next(source for name, _, source in each.sources() if name == row.name)
        for each in (of_file, of_environment, of_flag)
    ]
    assert where == [
        f"{tmp_path}/tenuto.toml:{2 if row.table else 1}",
        f"environment {row.variable}",
        f"flag {row.option}",
    ]


def test_an_empty_variable_is_not_set(tmp_path: Path) -> None:
    assert loaded(tmp_path, {"TENUTO_DEV__PORT": "", "TENUTO_DATABASE": ""}) == Settings()


def test_vars_secrets_and_other_programs_variables_are_none_of_ours(tmp_path: Path) -> None:
    env = {"TENUTO_VAR_x": "1", "TENUTO_SECRET_TOKEN": "t", "TENUTO_TEST_SEED": "1",
           "TENUTO_BENCH_DIR": "/", "TENUTOX": "1", "_TENUTO_COMPLETE": "x"}  # fmt: skip

    assert loaded(tmp_path, env) == Settings()


def test_relative_paths_of_a_file_are_relative_to_it(tmp_path: Path) -> None:
    deep = tmp_path / "deep"
    deep.mkdir()
    (tmp_path / "tenuto.toml").write_text('app = "src/app.py:flows"\ndatabase = "runs.db"\n')

    here, below = loaded(tmp_path), loaded(deep)

    assert (here.app, here.database) == ("src/app.py:flows", "runs.db")
    assert (below.app, below.database) == (f"{tmp_path}/src/app.py:flows", f"{tmp_path}/runs.db")


@pytest.mark.parametrize(
    ("text", "database"),
    [
        ("sqlite:///a%20b.db", "{}/a b.db"),
        ("sqlite:////var/runs.db", "/var/runs.db"),
        (":memory:", ":memory:"),
        ("/var/runs.db", "/var/runs.db"),
        ("~/runs.db", f"{Path.home()}/runs.db"),
    ],
)
def test_only_relative_paths_are_joined(tmp_path: Path, text: str, database: str) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "tenuto.toml").write_text(f'app = "flows:app"\ndatabase = "{text}"\n')

    found = loaded(tmp_path / "deep")

    assert (found.app, found.database) == ("flows:app", database.format(tmp_path))


def test_a_path_of_the_environment_is_relative_to_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "tenuto.toml").write_text("")

    assert loaded(tmp_path / "deep", {"TENUTO_DATABASE": "x.db"}).database == "x.db"


def test_all_problems_of_all_sources_are_told_at_once(tmp_path: Path) -> None:
    """Catalogue L13."""
    (tmp_path / "tenuto.toml").write_text(
        'databse = "x"\nport = 1\n[devv]\nport = 1\n[dev]\nport = "eighty"\nprt = 1\n'
        '[worker]\ndrain = 10\n[log]\nlevel = ""\n'
    )
    env = {"TENUTO_DEV_PORT": "1", "TENUTO_WORKER__SLOTS": "0", "TENUTO_ZZZ": "1"}

    assert problems(tmp_path, env, api__body="big") == [
        "tenuto.toml:1: databse: there is no such setting; did you mean database?",
        "tenuto.toml:2: port: there is no such setting here; it belongs to [dev]",
        "tenuto.toml:3: devv: there is no such table; did you mean [dev]?",
        "tenuto.toml:6: [dev] port: 'eighty' is no whole number; give one from 0 to 65535",
        "tenuto.toml:7: [dev] prt: there is no such setting; did you mean port?",
        'tenuto.toml:9: [worker] drain: 10 has no unit; write it like "10s"',
        (
            "tenuto.toml:11: [log] level: it is empty; leave it out, or give "
            "`debug` or `info` or `warning` or `error`"
        ),
        "TENUTO_DEV_PORT: there is no such variable; did you mean TENUTO_DEV__PORT?",
        "TENUTO_WORKER__SLOTS: 0 is out of bounds; give one from 1 to 10000",
        "TENUTO_ZZZ: there is no such variable; `tenuto config show` lists the settings",
        "--body: 'big' is no size; write it like 64KB, 128MiB or 1048576",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('database = "postgresql://u:canary@h"', ("tenuto.toml:1: database: postgresql://u:***@h names no "
         "database; write it like postgresql://user:password@host:5432/name")),
        ("database = 'mysql://h/d'", ("tenuto.toml:1: database: 'mysql' is no kind of database; "
         "write a path, sqlite:///path or postgresql://user@host/name")),
        ("dev = 5", "tenuto.toml:1: dev: 5 is no table; write [dev] and its settings below it"),
        ("[app]\nx = 1",
         "tenuto.toml:1: app: a table is no text; give `module:name` or `path.py:name` in quotes"),
        ("[zzz]", ("tenuto.toml:1: zzz: there is no such table; "
         "there are [dev], [server], [postgres], [redis], [auth], [worker], [languages], [api], "
         "[log]")),
        ("[dev.port]\nx = 1",
         "tenuto.toml:1: [dev] port: a table is no whole number; give one from 0 to 65535"),
        ("[dev]\ndatabase = 'x'", ("tenuto.toml:2: [dev] database: there is no such setting here; "
         "it belongs to the top, above all tables")),
        ("'dev.port' = 1", ("tenuto.toml:1: dev.port: there is no such setting; "
         "there are app, database, dispatch, url")),
        ("[log]\nzzz = 1", "tenuto.toml:2: [log] zzz: there is no such setting; there are level, format"),
        ("database = ''", ("tenuto.toml:1: database: it is empty; leave it out, or give a path, "
         "`sqlite:///path`, `:memory:` or `postgresql://user@host/name`")),
    ],
)  # fmt: skip
def test_a_key_that_cannot_be_is_told_with_the_cure(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "tenuto.toml").write_text(text)

    assert problems(tmp_path) == [said]


def test_a_folder_as_database_is_found_where_the_file_stands(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "tenuto.toml").write_text("database = 'deep'")

    [said] = problems(tmp_path / "deep")

    assert said.startswith(f"{tmp_path}/tenuto.toml:1: database: deep is a directory; name a file")


def test_the_tree_cannot_be_changed(tmp_path: Path) -> None:
    found = loaded(tmp_path)

    with pytest.raises(FrozenInstanceError):
        found.dev.port = 1  # type: ignore[misc]


def test_parse_database_without_a_word_asks_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tenuto.toml").write_text("database = 'mine.db'")
    monkeypatch.chdir(tmp_path)

    assert str(parse_database(None, {})) == "mine.db"
    assert str(parse_database(None, {"TENUTO_DATABASE": "env.db"})) == "env.db"
    assert str(parse_database("other.db", {})) == "other.db"


KEYS = [*(row.key for row in SETTINGS), "dev", "log", "x", "dev.port", "'dev'.\"port\"", "[dev]"]
WORTHS = [
    "1",
    "-1",
    "9" * 40,
    "true",
    '"x"',
    '"10s"',
    "[1]",
    "{port = 1}",
    "{}",
    "1.5",
    "nan",
    "2026-01-01",
    '"""',
    "",
]
LINES = st.one_of(
    st.builds("{} = {}".format, st.sampled_from(KEYS), st.sampled_from(WORTHS)),
    st.sampled_from(["[dev]", "[log]", "[[dev]]", "[dev.port]", "[x]", "# c", "[", "'", '"""']),
    st.text(max_size=6),
)


@given(st.lists(LINES, max_size=6))
def test_whatever_a_file_holds_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("settings")
    (folder / "tenuto.toml").write_text("\n".join(lines), encoding="utf-8")

    try:
        found = loaded(folder)
    except InvalidInput as error:
        assert all(line.startswith("tenuto.toml") for line in str(error).split("\n"))  # noqa: PT017
    else:
        assert len(found.sources()) == len(SETTINGS)


@given(
    st.sampled_from([row.variable for row in SETTINGS]),
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20),
)
def test_whatever_a_variable_holds_it_is_read_or_refused_by_its_name(
    tmp_path_factory: pytest.TempPathFactory, name: str, text: str
) -> None:
    folder = tmp_path_factory.getbasetemp()

    try:
        loaded(folder, {name: text})
    except InvalidSettings as error:
        assert str(error).startswith(f"{name}: ")  # noqa: PT017


def test_settings_load_no_library() -> None:
    code = "import sys, tenuto.settings; print(*sorted({n.partition('.')[0] for n in sys.modules}))"

    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, 'src'); {code}"],
        cwd=Path(__file__).resolve().parents[3], env=dict(os.environ),
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    # Without site-packages: had settings needed anything but Python, they would not have loaded.
    assert "tenuto" in done.stdout.split()
    assert not {"pydantic", "typer", "rich", "structlog", "yaml"} & set(done.stdout.split())

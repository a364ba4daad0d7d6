"""Settings as a person meets them: what files, the environment and flags change, and what `config show` says of it."""

from __future__ import annotations

import json
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from tests.support.command import HANG_S, Tenuto, json_of, read_until

from tenuto.settings import SETTINGS


def runs_in(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        [count] = connection.execute("SELECT count(*) FROM runs").fetchone()
    return int(count)


def test_a_database_of_the_file_is_used_from_any_folder_below(tenuto: Tenuto) -> None:
    tenuto.write(tenuto_toml='app = "app.py"\ndatabase = "mine.db"\n')
    (tenuto.folder / "deep").mkdir()
    below = Tenuto(tenuto.folder / "deep")

    ran = tenuto("run", "greet.yaml", "--set", "name=Ada")
    again = below("run", "../greet.yaml", "--set", "name=Bob")

    assert (ran.returncode, again.returncode) == (0, 0), again.stderr
    assert runs_in(tenuto.folder / "mine.db") == 2
    assert not (tenuto.folder / "deep" / ".tenuto").exists()


def test_a_flag_beats_the_environment_and_that_the_file(tenuto: Tenuto) -> None:
    tenuto.write(tenuto_toml='database = "file.db"\n')
    env = {"TENUTO_DATABASE": "env.db"}

    tenuto("run", "greet.yaml", "--set", "name=x", "--database", "flag.db", env=env)
    tenuto("run", "greet.yaml", "--set", "name=x", env=env)
    tenuto("run", "greet.yaml", "--set", "name=x")

    found = [runs_in(tenuto.folder / name) for name in ("flag.db", "env.db", "file.db")]
    assert found == [1, 1, 1]


def test_commands_that_go_on_need_no_flag_for_the_database_of_the_settings(
    tenuto: Tenuto, background: list[subprocess.Popen[str]]
) -> None:
    tenuto.write(tenuto_toml='database = "mine.db"\n')
    started = tenuto.start("run", "approval.yaml", "--set", "id=1")
    background.append(started)

    told = read_until(started, ["tenuto event send"])[-1].strip()

    assert "--database" not in told
    words = [*shlex.split(told)[1:-1], '{"by": "Ada"}']
    assert tenuto(*words).returncode == 0
    assert started.wait(HANG_S) == 0


def test_the_sdk_reads_the_same_file(tenuto: Tenuto) -> None:
    tenuto.write(tenuto_toml='database = "mine.db"\n[dev]\nport = "x"\n')
    code = "from tenuto import InvalidInput, Tenuto\ntry: Tenuto()\nexcept InvalidInput as error: print(error)"
    words = [sys.executable, "-c", code]

    wrong = subprocess.run(words, cwd=tenuto.folder, capture_output=True, text=True, check=True)
    tenuto.write(tenuto_toml='database = "mine.db"\n')
    words[-1] = "from tenuto import Tenuto; print(Tenuto().database)"
    right = subprocess.run(words, cwd=tenuto.folder, capture_output=True, text=True, check=True)

    assert wrong.stdout.startswith("tenuto.toml:3: [dev] port: 'x' is no whole number")
    assert right.stdout == "mine.db\n"


def test_with_one_slot_no_two_attempts_run_at_the_same_time(tenuto: Tenuto) -> None:
    tenuto.write(
        tenuto_toml="[worker]\nslots = 1\n",
        wide_yaml="name: wide\nnodes:\n"
        + "".join(
            f"  n{n}: {{type: task, task: nap, params: {{seconds: 0.3}}}}\n" for n in range(3)
        ),
    )

    done = tenuto("run", "wide.yaml", "-o", "json")

    steps = [step for step in json_of(done)["timeline"] if step["what"] == "attempt"]
    spans = sorted((step["start_us"], step["start_us"] + step["duration_us"]) for step in steps)
    assert len(spans) == 3
    assert all(end <= start for (_, end), (start, _) in pairwise(spans)), spans


LOGS = """
import logging
from tenuto import Tenuto, current
app = Tenuto()
@app.task
def speak():
    current().logger.info("spoke", louder=True)
    current().logger.warning("shouted")
"""
SPEAK = "name: speak\nnodes:\n  a: {type: task, task: speak}\n"


def test_logs_are_json_lines_where_the_settings_say_so(tenuto: Tenuto) -> None:
    tenuto.write(app_py=LOGS, speak_yaml=SPEAK)

    done = tenuto("run", "speak.yaml", env={"TENUTO_LOG__FORMAT": "json"})

    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert [(line["event"], line["level"]) for line in lines] == [
        ("spoke", "info"), ("shouted", "warning"),
    ]  # fmt: skip
    assert lines[0]["louder"] is True
    assert {"run_id", "attempt", "timestamp"} <= set(lines[0])


def test_a_log_level_leaves_out_what_is_below(tenuto: Tenuto) -> None:
    tenuto.write(app_py=LOGS, speak_yaml=SPEAK)

    done = tenuto("run", "speak.yaml", env={"TENUTO_LOG__LEVEL": "warning"})

    assert "shouted" in done.stderr
    assert "spoke" not in done.stderr


def test_config_show_lists_every_setting(tenuto: Tenuto) -> None:
    tenuto.write(tenuto_toml="[worker]\nslots = 7\n")

    lines = tenuto("config", "show").stdout.splitlines()

    assert "worker.slots             7" in lines
    assert "database                 .tenuto/tenuto.db" in lines
    assert "url" in lines
    assert len(lines) == len(SETTINGS)


def test_config_show_says_where_each_value_is_from(tenuto: Tenuto) -> None:
    tenuto.write(tenuto_toml="# mine\n[worker]\nslots = 7\n")
    env = {"TENUTO_WORKER__DRAIN": "1m30s", "TENUTO_URL": "http://ann:pw@h:1"}

    done = tenuto("config", "show", "--sources", "-o", "json", env=env)

    rows = {row["name"]: (row["value"], row["source"]) for row in json_of(done)}
    assert rows["worker.slots"] == (7, f"{tenuto.folder}/tenuto.toml:3")
    assert rows["dev.watch"] == (True, "default")
    assert rows["worker.drain"] == ("1m30s", "environment TENUTO_WORKER__DRAIN")
    assert rows["languages.memory"] == ("128MiB", "default")
    assert rows["url"] == ("http://ann:***@h:1", "environment TENUTO_URL")


@pytest.mark.parametrize("output", ["table", "json", "jsonl"])
def test_a_secret_is_named_and_never_shown(tenuto: Tenuto, output: str) -> None:
    env = {"TENUTO_SECRET_TOKEN": "s3cr3t", "TENUTO_VAR_region": "north"}

    done = tenuto("config", "show", "--sources", "-o", output, env=env)

    assert "s3cr3t" not in done.stdout + done.stderr
    assert "secrets.TOKEN" in done.stdout
    assert "TENUTO_SECRET_TOKEN" in done.stdout
    assert "vars.region" in done.stdout
    assert "north" in done.stdout


def test_the_doctor_names_the_settings_file(tenuto: Tenuto) -> None:
    tenuto.write(tenuto_toml="")

    checks = {check["name"]: check["found"] for check in json_of(tenuto("doctor", "-o", "json"))}

    assert checks["settings"] == f"{tenuto.folder}/tenuto.toml"

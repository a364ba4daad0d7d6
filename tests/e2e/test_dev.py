"""`tenuto dev` as a user runs it: the first lines, changed files, a taken port, and its end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import pytest
from tests.support.command import APP, HANG_S, HELD, SLEEPY, Tenuto, until_there
from tests.support.dev import Dev

FLOW = "name: {name}\nnodes: {{s: {{type: set, values: {{x: {x}}}}}}}\noutput: '${{nodes.s.output.x}}'\n"


def write(path: Path, text: str) -> None:
    """As an editor does: the file is there in one piece, and newer than it was."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    if path.exists():
        at = path.stat().st_mtime_ns + 1_000_000
        os.utime(beside, ns=(at, at))
    beside.replace(path)


def test_it_says_in_eight_lines_where_it_is_and_what_it_has(tenuto: Tenuto) -> None:
    with Dev(tenuto.folder) as dev:
        assert dev.document("/v1/health")["status"] == "ok"
        lines = list(dev.lines)

    assert len(lines) <= 8, lines
    told = "\n".join(lines)
    assert "database .tenuto/tenuto.db: 0 runs" in told
    assert "app app.py: tasks block, evil, hello, nap, refuse" in told
    assert "workflows approval v1, greet v1, sleepy v1" in told


def test_a_run_that_is_started_over_rest_is_driven_to_its_end_and_told(tenuto: Tenuto) -> None:
    with Dev(tenuto.folder) as dev:
        run_id = dev.start("greet", {"name": "Ann"})

        assert dev.result(run_id)["output"] == {"said": "Hello Ann", "times": 1}
        dev.until(f"greet {run_id[-8:]} success after")
        assert dev.stop() == 0


def test_the_page_is_there(tenuto: Tenuto) -> None:
    with Dev(tenuto.folder) as dev:
        answer = dev.ask("GET", "/")

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")


def test_a_changed_definition_becomes_a_new_version(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    write(path, FLOW.format(name="a", x=1))
    with Dev(tmp_path) as dev:
        dev.until("workflows a v1")
        write(path, FLOW.format(name="a", x=2))
        dev.until("a v2 deployed: a.yaml changed")

        assert dev.result(dev.start("a"))["output"] == 2
        write(tmp_path / "b.yaml", FLOW.format(name="b", x=3))
        dev.until("b v1 deployed: b.yaml is new")


def test_of_two_files_with_one_name_the_first_stays_in_use(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", FLOW.format(name="a", x=1))
    write(tmp_path / "b.yaml", FLOW.format(name="a", x=2))
    with Dev(tmp_path) as dev:
        told = "a.yaml and b.yaml both say name: a; give one another name; a.yaml stays in use"
        dev.until(told)
        seen = len(dev.lines)
        write(tmp_path / "b.yaml", FLOW.format(name="a", x=3))
        dev.until(told, after=seen)
        assert dev.result(dev.start("a"))["output"] == 1

        (tmp_path / "a.yaml").unlink()
        dev.until("a v2 deployed: b.yaml changed")
        assert dev.result(dev.start("a"))["output"] == 3


def test_files_that_were_named_are_all_that_is_watched_and_it_says_so(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", FLOW.format(name="a", x=1))
    with Dev(tmp_path, "a.yaml") as dev:
        dev.until("watches a.yaml only")


def test_params_that_do_not_fit_and_changed_settings_are_told(tmp_path: Path) -> None:
    write(tmp_path / "app.py", NUMBER.format(1))
    write(tmp_path / "n.yaml", "name: n\nnodes: {n: {type: task, task: number, params: {x: 1}}}\n")
    with Dev(tmp_path) as dev:
        dev.until(
            r"n\.yaml:2:\d+: warning task_params: task number\(\) -> int has no parameter 'x'"
        )
        write(tmp_path / "tenuto.toml", "[worker]\nslots = 5\n")
        dev.until("tenuto.toml changed: start again to use it")


def test_a_database_that_is_deleted_ends_it_with_the_reason(tenuto: Tenuto) -> None:
    with Dev(tenuto.folder) as dev:
        shutil.rmtree(tenuto.folder / ".tenuto")

        assert dev.process.wait(HANG_S) == 6
        dev.until("error: .*tenuto.db was deleted while an engine has it open")


@pytest.mark.alone("a command waits 5 s for a server that starts anew")
def test_a_start_anew_hands_out_again_what_is_under_way_and_commands_wait_for_it(
    tmp_path: Path,
) -> None:
    """Its own limit for a drain is far longer; the attempt that it takes away does not count."""
    app = "import asyncio, pathlib\n" + NUMBER.replace("def", "async def")
    body, _, rest = app.partition("    return {}\n")
    held = "    pathlib.Path('begun').touch()\n    await asyncio.sleep(3600)\n"
    write(tmp_path / "app.py", body + held + rest)
    write(tmp_path / "n.yaml", "name: n\nnodes: {n: {type: task, task: number}}\n")
    command = Tenuto(tmp_path)
    with Dev(tmp_path, env={"TENUTO_WORKER__DRAIN": "1h"}) as dev:
        run_id = dev.start("n")
        until_there(tmp_path / "begun")
        write(tmp_path / "app.py", body + "    return 2\n")
        dev.until(r"starting anew; waits for 1 task under way \(n\), 1s at most")
        started = command("run", "start", "n", "--wait")

        assert started.returncode == 0, started.stderr
        report = dev.result(run_id)
        assert report["output"] == {"n": 2}
        assert report["nodes"][0]["attempts"] == 1
        assert dev.stop() == 0


def test_a_broken_definition_is_findings_and_the_version_before_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    write(path, FLOW.format(name="a", x=1))
    with Dev(tmp_path) as dev:
        dev.until("workflows a v1")
        write(path, "name: a\nnodes: {s: {type: sett, values: {}}}\n")
        dev.until(r"a\.yaml:2:\d+: error unknown_type")

        assert dev.result(dev.start("a"))["output"] == 1
        write(path, FLOW.format(name="a", x=5))
        dev.until("a v2 deployed")


def test_a_broken_definition_at_the_start_does_not_keep_the_others_away(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "name: a\nnodes: {s: {type: sett}}\n")
    write(tmp_path / "b.yaml", FLOW.format(name="b", x=1))
    with Dev(tmp_path) as dev:
        dev.until(r"a\.yaml:2:\d+: error unknown_type")
        dev.until("workflows b v1")


def test_changed_code_of_the_app_counts_once_it_loads(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    text = "from tenuto import Tenuto\napp = Tenuto()\n@app.task\ndef number() -> int:\n    return {}\n"
    write(app, text.format(1))
    write(tmp_path / "n.yaml", "name: n\nnodes: {n: {type: task, task: number}}\n")
    with Dev(tmp_path) as dev:
        dev.until("workflows")
        assert dev.result(dev.start("n"))["output"] == {"n": 1}
        write(app, "from tenuto import Tenutoo\n")
        dev.until("app.py changed, but does not load; the code before goes on")
        assert dev.result(dev.start("n"))["output"] == {"n": 1}

        seen = len(dev.lines)
        write(app, text.format(2))
        dev.until("app.py changed: starting anew")
        dev.until("workflows n", after=seen)
        assert dev.result(dev.start("n"))["output"] == {"n": 2}
        assert dev.stop() == 0


NUMBER = (
    "from tenuto import Tenuto\napp = Tenuto()\n@app.task\ndef number() -> int:\n    return {}\n"
)


def slow_to_load(value: int) -> str:
    """An app that says when it is being loaded by a server, and goes on loading when it is told to."""
    gate = """
import pathlib, sys, time
if "-c" not in sys.orig_argv:
    pathlib.Path("loading").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.01)
"""
    return gate + NUMBER.format(value)


def until_anew(dev: Dev, *, after: int = 0) -> None:
    """Wait for a start anew, among lines after the first `after`, until the fresh process answers: the one before may
    still take a request, and have it done by the code that it has.
    """
    dev.until(" on http://", after=dev.past("starting anew", after=after))


def test_what_is_written_while_the_app_loads_is_not_missed(tmp_path: Path) -> None:
    write(tmp_path / "app.py", NUMBER.format(1))
    write(tmp_path / "n.yaml", "name: n\nnodes: {n: {type: task, task: number}}\n")
    with Dev(tmp_path) as dev:
        write(tmp_path / "app.py", slow_to_load(2))
        until_there(tmp_path / "loading")
        write(tmp_path / "app.py", NUMBER.format(3))
        (tmp_path / "go").touch()
        until_anew(dev, after=dev.past("starting anew"))

        assert dev.result(dev.start("n"))["output"] == {"n": 3}


def test_settings_that_are_written_while_the_app_loads_are_told(tmp_path: Path) -> None:
    write(tmp_path / "app.py", slow_to_load(1))
    write(tmp_path / "n.yaml", "name: n\nnodes: {n: {type: task, task: number}}\n")
    starting = Dev(tmp_path)
    until_there(tmp_path / "loading")
    write(tmp_path / "tenuto.toml", "[worker]\nslots = 5\n")
    (tmp_path / "go").touch()
    with starting as dev:
        dev.until("tenuto.toml changed: start again to use it")


def test_an_app_that_breaks_while_the_server_starts_anew_is_waited_for(tmp_path: Path) -> None:
    write(tmp_path / "app.py", NUMBER.format(1))
    write(tmp_path / "n.yaml", "name: n\nnodes: {n: {type: task, task: number}}\n")
    with Dev(tmp_path) as dev:
        write(tmp_path / "app.py", slow_to_load(2) + "import nothing_like_this\n")
        # It loads for the trial, which is not held up, and breaks for the server.
        (tmp_path / "nothing_like_this.py").touch()
        until_there(tmp_path / "loading")
        (tmp_path / "nothing_like_this.py").unlink()
        (tmp_path / "go").touch()
        dev.until("waiting for it to be mended: .*nothing_like_this")
        write(tmp_path / "app.py", NUMBER.format(3))

        assert dev.result(dev.start("n"))["output"] == {"n": 3}
        assert dev.stop() == 0


def test_an_app_beside_no_definition_is_watched_too(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    write(tmp_path / "mine.py", NUMBER.format(1))
    write(tmp_path / "flows/n.yaml", "name: n\nnodes: {n: {type: task, task: number}}\n")
    with Dev(tmp_path, "flows", "--app", "mine:app") as dev:
        write(tmp_path / "mine.py", NUMBER.format(2))
        dev.until("mine.py changed: starting anew")
        until_anew(dev)

        assert dev.result(dev.start("n"))["output"] == {"n": 2}


def test_what_a_task_of_before_has_left_running_is_waited_for(tmp_path: Path) -> None:
    """It has inherited the database's lock, so whatever it does is not done a second time meanwhile."""
    os.mkfifo(tmp_path / "held")
    app = NUMBER + (
        "    import os, pathlib\n    if not pathlib.Path('begun').exists():\n"
        "        os.system('touch begun; cat held > /dev/null')\n"
    )
    body, _, rest = app.partition("    return {}\n")
    write(tmp_path / "app.py", body + rest + "    return 1\n")
    write(tmp_path / "n.yaml", "name: n\nnodes: {n: {type: task, task: number}}\n")
    with Dev(tmp_path, env={"TENUTO_WORKER__DRAIN": "100ms"}) as dev:
        run_id = dev.start("n")
        until_there(tmp_path / "begun")
        write(tmp_path / "app.py", body + rest + "    return 2\n")
        dev.until("waiting: .* is still in use by a process")
        (tmp_path / "held").write_text("")  # ends it

        assert dev.result(run_id)["output"] == {"n": 2}
        assert dev.stop() == 0


def test_unfinished_runs_go_on_after_a_kill(tenuto: Tenuto) -> None:
    with Dev(tenuto.folder) as dev:
        run_id = dev.start("approval", {"id": "7"})
        dev.until_document("/v1/events/awaited", lambda page: page["items"])
        dev.process.kill()
    with Dev(tenuto.folder) as dev:
        dev.until("1 unfinished run goes on")
        sent = dev.ask(
            "POST", "/v1/events", json={"event": "order.approved", "key": "7", "payload": 1}
        )
        assert sent.status_code == 202
        assert dev.result(run_id)["output"] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_and_tasks_under_way_finish(
    tenuto: Tenuto, number: signal.Signals
) -> None:
    held = SLEEPY.replace("task: nap, params: {seconds: 0.3}", "task: held", 1)
    tenuto.write(app_py=APP + HELD, sleepy_yaml=held)
    with Dev(tenuto.folder, env={"TENUTO_WORKER__DRAIN": "1h"}) as dev:
        run_id = dev.start("sleepy")
        until_there(tenuto.folder / "begun")
        dev.process.send_signal(number)
        dev.until("stopping: tasks under way have")
        (tenuto.folder / "go").touch()
        assert dev.end() == 0
        assert dev.lines[-1].endswith("stopped")
    shown = tenuto("run", "show", run_id, "-o", "json")
    report = json.loads(shown.stdout)

    assert [node["attempts"] for node in report["nodes"]] in ([1, 0, 0], [1, 1, 0], [1, 1, 1])
    assert all(step["result"] == "success" for step in report["timeline"])


def test_a_taken_port_is_told_with_its_holder_and_the_next_one_is_offered(tenuto: Tenuto) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = tenuto("dev", "--port", str(port))
        with Dev(tenuto.folder, port=None, env={"TENUTO_DATABASE": "other.db"}) as other:
            assert other.url

    assert refused.returncode == 4
    assert f"port {port} is in use by process {os.getpid()}" in refused.stderr
    assert "is free: --port" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_second_one_on_the_same_database_says_where_the_first_is(tenuto: Tenuto) -> None:
    with Dev(tenuto.folder) as dev:
        refused = tenuto("dev", "--port", "0")

        assert refused.returncode == 4
        assert f"pid {dev.process.pid}" in refused.stderr
        assert f"which answers at {dev.url}; start it there" in refused.stderr
        driven = tenuto("run", "greet.yaml", "--set", "name=Ann")
        carried = tenuto("run", "--carry-on", "1f3a")

    assert driven.returncode == carried.returncode == 4
    who = f"error: .tenuto/tenuto.db is in use by the server at {dev.url} (pid {dev.process.pid}); "
    assert driven.stderr == (
        f"{who}start it there: `tenuto run start greet.yaml`; or name another file with --database\n"
    )
    assert carried.stderr == (
        f"{who}it drives the run: `tenuto run watch 1f3a`; or name another file with --database\n"
    )


def test_its_log_can_be_json(tenuto: Tenuto) -> None:
    with Dev(tenuto.folder, "--port", "0", env={"TENUTO_LOG__FORMAT": "json"}, port=None) as dev:
        dev.result(dev.start("greet", {"name": "Ann"}))
        dev.until('"event": "run"')
        lines = [json.loads(line) for line in dev.lines]

    assert {"serving", "database", "app", "deployed", "run"} <= {line["event"] for line in lines}


def test_a_task_that_the_app_lacks_is_told_at_once(tenuto: Tenuto) -> None:
    write(tenuto.folder / "x.yaml", "name: x\nnodes: {n: {type: task, task: helo}}\n")
    with Dev(tenuto.folder) as dev:
        dev.until(r"x\.yaml: the app app\.py has no task 'helo' \(node n\); did you mean 'hello'")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("nowhere.yaml",), 3, "no file 'nowhere.yaml'"),
        (("--app", "nothing:app"), 2, "there is no module 'nothing'"),
        (("--port", "99999"), 2, "port"),
        (("--database", "mysql://x"), 2, "'mysql' is no kind of database"),
        (("--database", "."), 2, "is a directory"),
        (("--prot", "1"), 2, "No such option"),
    ],
)
def test_mistakes_at_the_start_are_one_line(
    tenuto: Tenuto, words: tuple[str, ...], code: int, message: str
) -> None:
    done = tenuto("dev", *words)

    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_is_left_behind(tenuto: Tenuto) -> None:
    write(
        tenuto.folder / "code.yaml",
        "name: code\nnodes:\n  c: {type: code, language: python, code: 'def main(params): return 1'}\n",
    )
    with Dev(tenuto.folder, env={"TENUTO_TEST_MARK": str(tenuto.folder)}) as dev:
        assert dev.result(dev.start("code"))["output"] == {"c": 1}
        mark = f"TENUTO_TEST_MARK={tenuto.folder}".encode()
        dev.stop()

    def is_one(path: Path) -> bool:
        with suppress(OSError):
            return mark in path.read_bytes().split(b"\0")
        return False

    # What was killed at the end is there until it has had its turn of the processor.
    left, given_up_at = list(Path("/proc").glob("[0-9]*/environ")), monotonic() + HANG_S
    while left := [path for path in left if is_one(path)]:
        assert monotonic() < given_up_at, left
        sleep(0.01)


def test_a_waiting_run_tells_what_ends_the_wait(tenuto: Tenuto) -> None:
    with Dev(tenuto.folder) as dev:
        run_id = dev.start("approval", {"id": "9"})
        report = dev.until_document(
            f"/v1/runs/{run_id}", lambda run: run["nodes"][0]["state"] == "waiting"
        )

    assert report["nodes"][0]["waits_for"] == "event order.approved key 9"
    assert report["nodes"][0]["command"].startswith("tenuto event send order.approved --key 9")

"""`tenuto run`: one run from its start to its end, and how it is shown."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios

import pytest
from tests.support.command import (
    APP,
    COMMAND,
    HANG_S,
    HELD,
    Tenuto,
    json_of,
    read_until,
    until_there,
)


def test_a_run_is_carried_to_its_end_with_timeline_and_output(tenuto: Tenuto) -> None:
    done = tenuto("run", "greet.yaml", "--set", "name=you", "--var", "greeting=Hi")

    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0] == "start node attempt result took code"
    assert lines[1].split()[1:4] == ["hello", "1", "success"]
    assert lines[-4:] == ["{", '"said": "Hi you",', '"times": 1', "}"]


def test_json_alone_stands_on_stdout(tenuto: Tenuto) -> None:
    done = tenuto("run", "greet.yaml", "--input", '{"name": "you"}', "-o", "json")

    report = json_of(done)
    assert report["state"] == "success"
    assert report["output"] == {"said": "Hello you", "times": 1}
    assert [(step["node"], step["attempt"], step["result"]) for step in report["timeline"]] == [
        ("hello", 1, "success")
    ]
    assert "attempt 1 success" in done.stderr


def test_jsonl_has_each_step_and_at_last_the_whole(tenuto: Tenuto) -> None:
    done = tenuto("run", "sleepy.yaml", "-o", "jsonl")

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["node"] for line in lines[:-1]] == ["a", "b", "c"]
    assert lines[-1]["state"] == "success"


def test_what_tasks_print_and_log_never_mixes_with_json(tenuto: Tenuto) -> None:
    tenuto.write(
        loud_py="import os\nfrom tenuto import Tenuto, current\napp = Tenuto()\n"
        "@app.task\ndef hello(name, greeting):\n    print('printed')\n"
        "    os.system('echo shouted')\n    current().logger.info('logged')\n    return name\n"
    )

    done = tenuto("run", "greet.yaml", "--set", "name=x", "-A", "loud.py", "-o", "json")

    assert json_of(done)["output"]["said"] == "x"
    assert all(word in done.stderr for word in ("printed", "shouted"))
    assert re.search(r"^\d\d:\d\d:\d\d hello logged$", done.stderr, re.MULTILINE)


def test_a_failed_run_is_exit_code_1_with_its_error(tenuto: Tenuto) -> None:
    tenuto.write(
        bad_yaml="name: bad\nnodes:\n  a: {type: task, task: refuse, retry: {max_attempts: 2, initial: 1ms}}\n"
    )

    done = tenuto("run", "bad.yaml")

    assert done.returncode == 1
    assert "error: no_stock: none left (node a)" in done.stdout
    assert "a  attempt 1 failed" in done.stderr
    assert "a  attempt 2 failed" in done.stderr


def test_the_same_key_is_the_same_run(tenuto: Tenuto) -> None:
    first = json_of(tenuto("run", "greet.yaml", "--set", "name=a", "--key", "k", "-o", "json"))

    again = tenuto("run", "greet.yaml", "--set", "name=b", "--key", "k", "-o", "json")

    assert json_of(again)["run_id"] == first["run_id"]
    assert json_of(again)["output"] == first["output"]
    assert f"the key 'k' has its run already: {first['run_id']}" in again.stderr


def test_other_unfinished_runs_are_counted_and_left_alone(
    tenuto: Tenuto, background: list[subprocess.Popen[str]]
) -> None:
    parked = _park(tenuto, background)

    done = tenuto("run", "greet.yaml", "--set", "name=x")

    assert done.returncode == 0
    assert "1 other unfinished run left alone; see `tenuto run list`" in done.stderr
    assert json_of(tenuto("run", "show", parked, "-o", "json"))["state"] == "running"


def test_a_runs_own_children_are_no_other_runs(
    tenuto: Tenuto, background: list[subprocess.Popen[str]]
) -> None:
    tenuto.write(
        parent_yaml="name: parent\nnodes: {sub: {type: call, do: {nodes: {w: {type: wait, for: 1h}}}}}\n"
    )
    parent = tenuto.start("run", "parent.yaml", "--key", "p")
    background.append(parent)
    read_until(parent, ["sub  waits for run"])
    parent.kill()
    parent.wait(HANG_S)

    again = tenuto.start("run", "parent.yaml", "--key", "p")
    background.append(again)
    said = read_until(again, ["sub  waits for run"])
    assert not [line for line in said if "other unfinished" in line]


def test_a_run_is_found_by_the_end_or_the_beginning_of_its_id(tenuto: Tenuto) -> None:
    run_id = json_of(tenuto("run", "greet.yaml", "--set", "name=x", "-o", "json"))["run_id"]

    for part in (run_id, run_id[-8:], run_id[:18], run_id.upper()):
        assert json_of(tenuto("run", "show", part, "-o", "json"))["run_id"] == run_id


def test_show_tells_all_about_a_run(tenuto: Tenuto) -> None:
    run_id = json_of(tenuto("run", "greet.yaml", "--set", "name=x", "-o", "json"))["run_id"]

    shown = tenuto("run", "show", run_id).stdout

    for part in (run_id, "greet version 1", "success", "hello", "task", '"said": "Hello x"'):
        assert part in shown


def test_the_list_is_newest_first_and_filters(tenuto: Tenuto) -> None:
    ids = [
        json_of(tenuto("run", "greet.yaml", "--set", f"name={n}", "-o", "json"))["run_id"]
        for n in range(3)
    ]

    listed = json_of(tenuto("run", "list", "-o", "json"))
    one = tenuto("run", "list", "--limit", "1")
    none = tenuto("run", "list", "--workflow", "other")

    assert [run["run_id"] for run in listed] == ids[::-1]
    assert ids[2][-8:] in one.stdout
    assert ids[1][-8:] not in one.stdout
    assert (none.returncode, none.stdout) == (0, "")
    assert (
        none.stderr
        == "no runs of that kind in .tenuto/tenuto.db; start one with `tenuto run FILE`\n"
    )


def test_an_empty_list_says_how_to_start(tenuto: Tenuto) -> None:
    done = tenuto("run", "list")

    assert done.returncode == 0
    assert done.stderr == "no runs in .tenuto/tenuto.db; start one with `tenuto run FILE`\n"
    assert json_of(tenuto("run", "list", "-o", "json")) == []


def test_verify_folds_the_history_in_another_process(tenuto: Tenuto) -> None:
    run_id = json_of(tenuto("run", "sleepy.yaml", "-o", "json"))["run_id"]

    done = tenuto("run", "verify", run_id)
    every = json_of(tenuto("run", "verify", "--all", "-o", "json"))

    assert (done.returncode, done.stdout) == (0, "ok: 4 events fold to the stored state\n")
    assert every == [{"run_id": run_id, "events": 4, "ok": True, "differences": []}]


def test_an_event_sent_to_a_waiting_run_ends_its_wait(
    tenuto: Tenuto, background: list[subprocess.Popen[str]]
) -> None:
    process = tenuto.start("run", "approval.yaml", "--set", "id=o-1", "-o", "json")
    background.append(process)
    said = read_until(process, ["tenuto event send"])[-2:]
    assert said[0].endswith("approved  waits for event order.approved key o-1; send it with:\n")
    assert said[1] == "  tenuto event send order.approved --key o-1 --payload '{…}'\n"

    sent = tenuto("event", "send", "order.approved", "--key", "o-1", "--payload", '{"by": "me"}')

    out, _ = process.communicate(timeout=60)
    assert (sent.stdout, sent.stderr) == ("sent order.approved key o-1\n", "")
    assert sent.returncode == 0
    assert json.loads(out)["output"] == {"by": "me"}


def test_an_event_sent_before_waits_in_the_mailbox(tenuto: Tenuto) -> None:
    assert tenuto("run", "greet.yaml", "--set", "name=x").returncode == 0
    noted = ""
    for _ in range(2):
        words = ["order.approved", "--key", "o-1", "--payload", "5", "--id", "once"]
        done = tenuto("event", "send", *words)
        noted = noted or done.stderr

    report = json_of(tenuto("run", "approval.yaml", "--set", "id=o-1", "-o", "json"))

    assert done.stdout == "dropped: an event with the id once was sent before\n"
    assert noted == "nobody waits for it now; it is kept for 7 days, for the first wait that does\n"
    assert report["output"] == 5
    assert [(step["node"], step["what"], step["result"]) for step in report["timeline"]] == [
        ("approved", "event", "success")
    ], "it has a line although it was there before the wait"


def test_a_parked_run_is_cancelled_from_outside(
    tenuto: Tenuto, background: list[subprocess.Popen[str]]
) -> None:
    parked = _park(tenuto, background)

    done = tenuto("run", "cancel", parked, "--reason", "no longer wanted")

    assert (done.returncode, done.stdout) == (0, f"run {parked} cancelled\n")
    assert json_of(tenuto("run", "show", parked, "-o", "json"))["state"] == "cancelled"
    assert tenuto("run", "cancel", parked).stderr == (f"error: run {parked} is already cancelled\n")


def test_warnings_of_a_definition_are_shown_and_do_not_stop_it(tenuto: Tenuto) -> None:
    tenuto.write(
        warn_yaml="name: warn\nnodes:\n  a: {type: set, values: {x: 1}}\n  b: {type: set, values: {y: 2}}\n"
        "edges:\n  - {from: a, to: b, when: 'nodes.a.output.x > 0'}\n"
    )

    done = tenuto("run", "warn.yaml")

    assert done.returncode == 0
    assert "warning all_edges_conditional" in done.stderr


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["run", "FILE", "--help"]])
def test_help_is_printed_at_once(tenuto: Tenuto, words: list[str]) -> None:
    done = tenuto(*words)

    assert done.returncode == 0
    assert done.stdout.startswith("Usage: tenuto")


def test_the_doctor_finds_a_healthy_file_healthy(tenuto: Tenuto) -> None:
    assert tenuto("run", "greet.yaml", "--set", "name=x").returncode == 0

    done = tenuto("doctor", "-o", "json")

    checks = {check["name"]: check for check in json_of(done)}
    assert done.returncode == 0
    assert {
        "python",
        "sqlite",
        "expressions",
        "fsync",
        "lock",
        "schema",
        "content",
        "orphans",
    } <= set(checks)
    assert {check["grade"] for name, check in checks.items() if name not in ("fsync", "disk")} == {
        "ok"
    }


def test_the_doctor_names_the_engine_that_has_the_file(
    tenuto: Tenuto, background: list[subprocess.Popen[str]]
) -> None:
    holder = tenuto.start("run", "approval.yaml", "--set", "id=1")
    background.append(holder)
    read_until(holder, ["waits for event"])

    done = tenuto("doctor")

    assert f"an engine has it open (pid {holder.pid})" in done.stdout


def test_the_version_is_that_of_the_package(tenuto: Tenuto) -> None:
    from tenuto import __version__

    assert tenuto("version").stdout == f"tenuto {__version__}\n"


BUGGY = """
from tenuto import Tenuto, current
app = Tenuto()
def inner(order):
    return order["missing"]
@app.task
def bug(order):
    if current().attempt == 1:
        raise ValueError("out of labels")
    return inner(order)
"""
BUG = (
    "name: bug\nnodes:\n  a: {type: task, task: bug, params: {order: {}},"
    " retry: {max_attempts: 2, initial: 1ms}}\n"
)


def test_a_bug_of_the_users_is_shown_with_its_own_lines(tenuto: Tenuto) -> None:
    tenuto.write(buggy_py=BUGGY, bug_yaml=BUG)

    done = tenuto("run", "bug.yaml", "-A", "buggy.py")
    [run] = json_of(tenuto("run", "list", "-o", "json"))
    shown = tenuto("run", "show", run["run_id"])

    for out in (done.stdout, shown.stdout):
        assert out.endswith(
            "error: KeyError: 'missing' (node a)\n"
            '  File "buggy.py", line 10, in bug\n    return inner(order)\n'
            '  File "buggy.py", line 5, in inner\n    return order["missing"]\n'
        )


def test_what_a_retried_attempt_failed_with_is_told_everywhere(tenuto: Tenuto) -> None:
    tenuto.write(buggy_py=BUGGY, bug_yaml=BUG)

    done = tenuto("run", "bug.yaml", "-A", "buggy.py", "-o", "json")
    shown = tenuto("run", "show", json_of(done)["run_id"])

    assert [step["message"] for step in json_of(done)["timeline"]] == [
        "out of labels",
        "'missing'",
    ]
    assert re.search(r"a  attempt 1 failed after \S+: ValueError: out of labels\n", done.stderr)
    assert "ValueError\n           out of labels\n" in shown.stdout


def test_the_timeline_ends_a_run_also_where_both_streams_are_one(tenuto: Tenuto) -> None:
    done = subprocess.run(
        [COMMAND, "run", "greet.yaml", "--set", "name=x"],
        cwd=tenuto.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=HANG_S,
        check=True,
    )

    live, timeline = done.stdout.split("start ", 1)
    assert "hello  attempt 1 success" in live
    assert re.search(r"hello +1 +success", timeline)


def test_which_way_a_run_went_is_told(tenuto: Tenuto) -> None:
    tenuto.write(
        way_yaml="name: way\nnodes:\n  pick: {type: switch}\n  a: {type: set, values: {x: 1}}\n"
        "  b: {type: set, values: {x: 2}}\nedges:\n"
        "  - {from: pick, to: a, when: '1 > 2'}\n  - {from: pick, to: b, else: true}\n"
    )

    done = tenuto("run", "way.yaml")

    assert "pick → b; skipped: a\n" in done.stdout


def test_a_run_is_paused_and_resumed_from_outside(
    tenuto: Tenuto, background: list[subprocess.Popen[str]]
) -> None:
    parked = _park(tenuto, background)

    paused = tenuto("run", "pause", parked)
    listed = json_of(tenuto("run", "list", "--state", "paused", "-o", "json"))
    running = json_of(tenuto("run", "list", "--state", "running", "-o", "json"))
    shown = tenuto("run", "show", parked)
    refused = tenuto("run", "--carry-on", parked)
    resumed = tenuto("run", "resume", parked)

    assert (paused.returncode, paused.stdout) == (0, f"run {parked} paused\n")
    assert ([run["run_id"] for run in listed], running) == ([parked], [])
    assert f"it is paused; resume it with:\n  tenuto run resume {parked}\n" in shown.stdout
    assert f"\n  tenuto run resume {parked}\n" in refused.stderr
    assert refused.returncode == 4
    assert (resumed.returncode, resumed.stdout) == (0, f"run {parked} resumed\n")
    assert json_of(tenuto("run", "show", parked, "-o", "json"))["state"] == "running"


def test_a_run_whose_engine_was_killed_does_not_look_alive(
    tenuto: Tenuto, background: list[subprocess.Popen[str]]
) -> None:
    tenuto.write(
        app_py=APP + HELD,
        long_yaml="name: long\nnodes:\n  e: {type: wait_for_event, event: x, key: k}\n"
        "  a: {type: task, task: held}\n",
    )
    process = tenuto.start("run", "long.yaml")
    background.append(process)
    until_there(tenuto.folder / "begun")
    [run] = json_of(tenuto("run", "list", "-o", "json"))

    alive = tenuto("run", "show", run["run_id"]).stdout
    process.kill()
    process.wait(HANG_S)
    orphan = tenuto("run", "show", run["run_id"]).stdout

    assert f"process {process.pid} has the file open" in alive
    assert "--carry-on" not in alive
    assert re.search(r"\na +task +interrupted +1 +waits for an engine", orphan)
    assert orphan.endswith(
        f"no engine drives it; carry it on with:\n  tenuto run --carry-on {run['run_id']}\n"
    )


def test_commands_to_copy_stay_whole_in_a_narrow_terminal(
    tenuto: Tenuto, background: list[subprocess.Popen[str]]
) -> None:
    parked = _park(tenuto, background, key="order-2026-11-29-000001-of-somebody-with-a-long-name")

    lines = in_terminal(tenuto, "run", "show", parked)

    assert (
        "  tenuto event send order.approved"
        " --key order-2026-11-29-000001-of-somebody-with-a-long-name --payload '{…}'"
    ) in lines
    assert f"  tenuto run --carry-on {parked}" in lines


def test_an_event_that_is_nearly_awaited_is_answered_with_the_one_meant(
    tenuto: Tenuto, background: list[subprocess.Popen[str]]
) -> None:
    _park(tenuto, background)

    done = tenuto("event", "send", "order.aproved", "--key", "parked")

    assert done.returncode == 0
    assert done.stderr.endswith("\na run waits for order.approved key parked; did you mean that?\n")


def test_the_bare_command_and_its_version_are_answers(tenuto: Tenuto) -> None:
    bare, version = tenuto(), tenuto("--version")

    assert (bare.returncode, bare.stderr) == (0, "")
    assert bare.stdout.startswith("Usage: tenuto")
    assert (version.returncode, version.stdout) == (0, tenuto("version").stdout)


def in_terminal(tenuto: Tenuto, *words: str) -> list[str]:
    """What a terminal of 80 columns is sent, without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    with subprocess.Popen(
        [COMMAND, *words],
        cwd=tenuto.folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
    ):
        os.close(theirs)
        sent = b""
        try:
            while piece := os.read(ours, 65_536):
                sent += piece
        except OSError:
            pass  # the other end is closed
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sent.decode())
    return [line.rstrip() for line in text.splitlines()]


def _park(tenuto: Tenuto, background: list[subprocess.Popen[str]], key: str = "parked") -> str:
    """A run that waits for an event, and no engine."""
    process = tenuto.start("run", "approval.yaml", "--set", f"id={key}")
    background.append(process)
    read_until(process, ["waits for event"])
    process.terminate()
    assert process.wait(60) == 143
    [run] = json_of(tenuto("run", "list", "-o", "json"))
    return str(run["run_id"])

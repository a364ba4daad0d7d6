"""Every mistake of a user's is one clear line with the right exit code, and nothing is lost."""

from __future__ import annotations

import json
import re
import resource
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest
from tests.support.command import (
    APP,
    APPROVAL,
    COMMAND,
    HANG_S,
    HELD,
    Tenuto,
    json_of,
    read_until,
    until_there,
)

import tenuto as tenuto_sdk

OK, FAILED, USAGE, NOT_FOUND, CONFLICT, UNAVAILABLE = 0, 1, 2, 3, 4, 6
INTERRUPTED = 130

TABLE: list[tuple[str, list[str], int, str]] = [
    ("missing file", ["run", "great.yaml"], NOT_FOUND,
     "error: no file 'great.yaml'; did you mean greet.yaml?"),
    ("missing file, nothing near", ["run", "zzz.yaml"], NOT_FOUND, "error: no file 'zzz.yaml'"),
    ("a word that is neither", ["run", "lst"], USAGE,
     "error: 'lst' is no .yaml, .yml or .json file; did you mean `tenuto run list`?"),
    ("a deployed workflow for a file", ["run", "signup"], USAGE,
     ("error: 'signup' is no .yaml, .yml or .json file; a deployed workflow is started with "
     "`tenuto run start signup`")),
    ("stop for cancel", ["run", "stop", "1f3a"], USAGE,
     "error: Got unexpected extra argument(s) (1f3a); see `tenuto run FILE --help`"),
    ("an option of a verb without its value", ["run", "start", "x", "--key"], USAGE,
     "error: Option '--key' requires an argument; see `tenuto run start --help`"),
    ("a file that was named and is not there", ["run", "list", "--database", "nowhere.db"],
     NOT_FOUND, "error: no database 'nowhere.db'"),
    ("an empty word", ["run", ""], USAGE,
     "error: FILE is empty; name a .yaml, .yml or .json file"),
    ("a key of broken bytes", ["run", "greet.yaml", "--set", "name=x", "--key", "a\udcff"], USAGE,
     "error: --key: it holds half a character (a lone surrogate)"),
    ("an event's id of broken bytes", ["event", "send", "e", "--key", "k", "--id", "\udcff"], USAGE,
     "error: --id: it holds half a character (a lone surrogate)"),
    ("input with NUL", ["run", "greet.yaml", "--input", '{"name": "a\\u0000b"}'], USAGE,
     "error: input.name: it holds a NUL character; remove it, or use base64"),
    ("input that is null", ["run", "greet.yaml", "--input", "null"], USAGE,
     "error: input: null is not of type 'object'; give an object"),
    ("a home of nobody's", ["run", "list", "--database", "~nobody-here/t.db"], USAGE,
     ("error: database: ~nobody-here/t.db names the home of an unknown user; write the path "
     "itself")),
    ("a word that is no choice", ["run", "list", "-o", "xml"], USAGE,
     ("error: Invalid value for '--output' / '-o': 'xml' is not one of 'table', 'json', 'jsonl'; "
     "see `tenuto run list --help`")),
    ("a folder", ["run", "."], USAGE,
     "error: . is a directory; name a file in it, such as approval.yaml"),
    ("a folder named like a file", ["run", "folder.yaml"], USAGE,
     "error: folder.yaml is a directory; name a file in it"),
    ("a folder as input", ["run", "greet.yaml", "--input", "@."], USAGE,
     "error: --input: . is a directory; name a file in it"),
    ("no input", ["run", "greet.yaml"], USAGE,
     "error: input: 'name' is a required property; add it: --set name=… or --input @FILE"),
    ("input of a wrong type", ["run", "greet.yaml", "--input", '{"name": 1}'], USAGE,
     "error: input.name: 1 is not of type 'string'; give text in quotes"),
    ("input that is no JSON", ["run", "greet.yaml", "--input", "{name: x}"], USAGE,
     ("error: --input: '{name: x}' is no JSON: Expecting property name enclosed in double quotes "
     "at line 1, column 2; quote it for the shell: '{\"key\": 1}'")),
    ("a set without a value", ["run", "greet.yaml", "--set", "name"], USAGE,
     "error: --set: 'name' is not of the form name=value"),
    ("a set of a wrong type", ["run", "greet.yaml", "--set", "name=x", "--set", "times=often"],
     USAGE, "error: input.times: 'often' is not of type 'integer'; give a whole number"),
    ("an unknown var", ["run", "greet.yaml", "--set", "name=x", "--var", "greting=Hi"], USAGE,
     "error: vars.greting: the definition declares no such var; did you mean `greeting`?"),
    ("an unknown module", ["run", "greet.yaml", "--set", "name=x", "-A", "nowhere_app"], USAGE,
     ("error: there is no module 'nowhere_app' here (FOLDER); write module:app or "
     "path/to/file.py:app")),
    ("an unknown attribute", ["run", "greet.yaml", "--set", "name=x", "-A", "app.py:ap"], USAGE,
     "error: app.py has no 'ap'; did you mean app.py:app?"),
    ("an unknown run", ["run", "show", "0000"], NOT_FOUND,
     "error: no run '0000'; there is no file .tenuto/tenuto.db; start one with `tenuto run FILE`"),
    ("an unknown run to carry on", ["run", "greet.yaml", "--carry-on", "0000"], NOT_FOUND,
     "error: no run '0000'; there is no file .tenuto/tenuto.db"),
    ("an unknown state", ["run", "list", "--state", "done"], USAGE,
     ("error: --state: there is no state 'done'; there are pending, running, paused, closing, "
     "success, failed, cancelled, timed_out")),
    ("an unknown verb", ["rum"], USAGE,
     "error: No such command 'rum'. Did you mean 'run'? See `tenuto --help`"),
    ("a server's address", ["run", "list", "--database", "http://h"], USAGE,
     ("error: database: http://h is the address of a server, no database; it belongs to --url, "
     "or TENUTO_URL")),
    ("another engine", ["run", "list", "--database", "mysql://h/d"], USAGE,
     ("error: database: 'mysql' is no kind of database; write a path, sqlite:///path or"
     " postgresql://user@host/name")),
    ("a folder as database", ["run", "list", "--database", "."], USAGE,
     "error: database: . is a directory; name a file in it, such as tenuto.db"),
    ("a database where no file can be", ["run", "greet.yaml", "--set", "name=x", "--database",
     "/proc/x/t.db"], UNAVAILABLE, "error: /proc/x/t.db cannot be made: No such file or directory"),
    ("an event for no database", ["event", "send", "e", "--key", "k"], NOT_FOUND,
     ("error: no database '.tenuto/tenuto.db'; run a workflow first, or name the file with "
     "--database")),
    ("a payload that is no JSON", ["event", "send", "e", "--key", "k", "--payload", "{"], USAGE,
     ("error: --payload: '{' is no JSON: Expecting property name enclosed in double quotes at "
     "line 1, column 2")),
    ("neither a file nor a run", ["run", "--set", "name=x"], USAGE,
     "error: `tenuto run` needs a FILE to start, or an unfinished run: --carry-on ID"),
    ("an input for a run that began", ["run", "--carry-on", "0000", "--set", "name=x"], USAGE,
     "error: --set: a run that is carried on has its own already"),
    ("verify of nothing", ["run", "verify"], USAGE, "error: give the ID of one run, or --all"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "said"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_a_mistake_is_one_line_with_its_cure(
    tenuto: Tenuto, words: list[str], code: int, said: str
) -> None:
    (tenuto.folder / "folder.yaml").mkdir()

    done = tenuto(*words)

    assert done.stderr == said.replace("FOLDER", str(tenuto.folder)) + "\n"
    assert done.stdout == ""
    assert done.returncode == code
    assert not (tenuto.folder / ".tenuto").exists(), "nothing was started"


def test_broken_yaml_is_findings_with_their_places(tenuto: Tenuto) -> None:
    tenuto.write(broken_yaml="name: x\nnodes:\n  a: [task\n")

    done = tenuto("run", "broken.yaml")

    assert done.returncode == USAGE
    assert re.match(r"error: broken\.yaml:\d+:\d+: error syntax: this is not YAML", done.stderr)
    assert "Traceback" not in done.stderr


def test_all_findings_come_at_once(tenuto: Tenuto) -> None:
    tenuto.write(
        wrong_yaml="name: x\nnodes:\n  a: {type: tusk}\n  b: {type: wait, for: 5}\n  c: {typ: set}\n"
    )

    done = tenuto("validate", "wrong.yaml", "-o", "json")

    found = json_of(done)
    assert done.returncode == USAGE
    assert {(one["line"], one["file"]) for one in found} == {
        (line, "wrong.yaml") for line in (3, 4, 5)
    }


def test_a_binary_file_is_a_finding(tenuto: Tenuto) -> None:
    (tenuto.folder / "picture.yaml").write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")

    done = tenuto("run", "picture.yaml")

    assert done.returncode == USAGE
    assert done.stderr.startswith("error: picture.yaml:1:1: error encoding:")


def test_several_files_are_all_validated_although_one_is_missing(tenuto: Tenuto) -> None:
    done = tenuto("validate", "zzz.yaml", "greet.yaml")

    assert done.stdout == "greet.yaml: ok: greet, 1 node, 0 edges\n"
    assert done.stderr == "error: no file 'zzz.yaml'\n"
    assert done.returncode == NOT_FOUND


def test_an_error_in_the_users_app_shows_the_users_line(tenuto: Tenuto) -> None:
    tenuto.write(app_py="from tenuto import Tenuto\napp = Tenuto()\n1 / 0\n")

    done = tenuto("run", "greet.yaml", "--set", "name=x")

    assert done.returncode == USAGE
    assert done.stderr == (
        "error: the app app.py cannot be loaded: ZeroDivisionError: division by zero\n"
        f"  {tenuto.folder}/app.py:3: 1 / 0\n"
    )


def test_a_database_in_use_is_a_conflict_that_names_the_process(
    tenuto: Tenuto, background: list[subprocess.Popen[str]]
) -> None:
    holder = tenuto.start("run", "approval.yaml", "--set", "id=1")
    background.append(holder)
    read_until(holder, ["waits for event"])

    done = tenuto("run", "greet.yaml", "--set", "name=x")

    assert done.returncode == CONFLICT
    assert done.stderr == (
        f"error: .tenuto/tenuto.db is in use by another engine (pid {holder.pid});"
        " stop that one, or name another file with --database\n"
    )
    assert tenuto("run", "list").returncode == OK, "reading goes on"


def test_a_database_of_a_newer_version_is_left_alone(tenuto: Tenuto) -> None:
    assert tenuto("run", "greet.yaml", "--set", "name=x").returncode == OK
    database = tenuto.folder / ".tenuto" / "tenuto.db"
    with sqlite3.connect(database) as connection:
        connection.execute(
            "INSERT INTO schema_migrations SELECT 9999, 'later', checksum, applied_at"
            " FROM schema_migrations LIMIT 1"
        )
    connection.close()

    for words in (["run", "greet.yaml", "--set", "name=x"], ["run", "list"], ["doctor"]):
        done = tenuto(*words)

        said = done.stdout if words == ["doctor"] else done.stderr
        assert "newer" in said
        assert "Traceback" not in done.stderr
        assert done.returncode == (FAILED if words == ["doctor"] else CONFLICT)


def test_a_file_of_another_program_is_left_alone(tenuto: Tenuto) -> None:
    other = tenuto.folder / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    (tenuto.folder / "text.db").write_text("no database at all, but long enough to be read as one")

    foreign = tenuto("run", "greet.yaml", "--set", "name=x", "--database", "other.db")
    text = tenuto("run", "greet.yaml", "--set", "name=x", "--database", "text.db")

    assert foreign.returncode == CONFLICT
    assert "is a database of another program" in foreign.stderr
    assert text.returncode in (CONFLICT, UNAVAILABLE)
    assert len(text.stderr.splitlines()) == 1
    assert (tenuto.folder / "text.db").read_text().startswith("no database")


def test_a_full_disk_ends_the_command_and_loses_nothing(tenuto: Tenuto) -> None:
    """A limit on the size of files stands for the disk: permissions and quotas do not bind root."""
    assert tenuto("run", "greet.yaml", "--set", "name=first").returncode == OK

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, 16_384))

    done = subprocess.run(
        [COMMAND, "run", "greet.yaml", "--set", "name=second"],
        cwd=tenuto.folder,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        preexec_fn=limit,
        check=False,
    )

    assert done.returncode == UNAVAILABLE, done.stderr
    assert "Traceback" not in done.stderr
    runs = json_of(tenuto("run", "list", "-o", "json"))
    assert [run["state"] for run in runs] == ["success"]
    assert tenuto("run", "verify", "--all").returncode == OK


STOCK = "name: stock\nnodes:\n  a: {type: task, task: stock.reserve}\n"


def test_a_task_that_the_app_lacks_is_told_at_once_and_waited_for(
    tenuto: Tenuto, background: list[subprocess.Popen[str]]
) -> None:
    tenuto.write(stock_yaml=STOCK, typo_yaml=STOCK.replace("stock.reserve", "helo"))

    for file, told in (
        (
            "stock.yaml",
            (
                "warning: the app app.py has no task 'stock.reserve' (node a); "
                "it has block, evil, hello, nap, refuse; the run waits there"
            ),
        ),
        (
            "typo.yaml",
            (
                "warning: the app app.py has no task 'helo' (node a); did you mean 'hello'? "
                "It has block, evil, hello, nap, refuse; the run waits there"
            ),
        ),
    ):
        process = tenuto.start("run", file)
        background.append(process)
        read_until(process, [told])
        read_until(process, ["waits for a worker that has `"])
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=HANG_S) == INTERRUPTED
    runs = json_of(tenuto("run", "list", "-o", "json"))
    assert [run["state"] for run in runs] == ["running", "running"]


DEEP = """
name: deep
nodes:
  each:
    type: foreach
    over: "[]"
    task: hello
    params: {name: "${item}"}
    compensate:
      type: call
      do: {nodes: {back: {type: foreach, over: "[1]", do: {type: task, task: helo}}}}
"""


def test_a_task_that_only_an_item_of_an_undoing_graph_names_is_missed(tenuto: Tenuto) -> None:
    tenuto.write(deep_yaml=DEEP)
    told = (
        "the app app.py has no task 'helo' (node each.compensate/back); did you mean 'hello'? "
        "It has block, evil, hello, nap, refuse"
    )

    checked = tenuto("validate", "deep.yaml", "--app", "app.py")
    done = tenuto("run", "deep.yaml")

    assert (checked.returncode, done.returncode) == (OK, OK), checked.stderr + done.stderr
    assert f"warning: deep.yaml: {told}; a run waits there\n" in checked.stderr
    assert f"warning: {told}; the run waits there\n" in done.stderr


def test_tasks_without_an_app_are_told_with_where_it_was_looked_for(
    tenuto: Tenuto, background: list[subprocess.Popen[str]]
) -> None:
    (tenuto.folder / "flows").mkdir()
    (tenuto.folder / "flows" / "stock.yaml").write_text(STOCK)

    process = tenuto.start("run", "flows/stock.yaml")
    background.append(process)

    read_until(
        process,
        [
            (
                "warning: nobody has the task 'stock.reserve' (node a): no app.py beside flows/stock.yaml; "
                "name your app with --app; the run waits there"
            )
        ],
    )


def test_a_task_that_nobody_knows_is_waited_for_in_words_until_somebody_has_it(
    tenuto: Tenuto,
) -> None:
    with tenuto_sdk.Tenuto(tenuto.folder / ".tenuto" / "tenuto.db") as app:
        run_id = app.start(STOCK).id
    shown = tenuto("run", "show", run_id)
    assert "waits for a worker that has `stock.reserve`" in shown.stdout

    app_py = tenuto.folder / "app.py"
    app_py.write_text(
        app_py.read_text() + '\n@app.task(name="stock.reserve")\ndef late():\n    return 1\n'
    )
    carried = tenuto("run", "--carry-on", run_id)

    assert "warning" not in carried.stderr
    assert carried.returncode == OK


def test_a_run_is_carried_on_with_its_own_file_and_version_only(tenuto: Tenuto) -> None:
    tenuto.write(old_yaml=APPROVAL)
    with tenuto_sdk.Tenuto(tenuto.folder / ".tenuto" / "tenuto.db") as app:
        run_id = app.start(tenuto.folder / "old.yaml", {"id": "o-1"}).id
        app.send_event("order.approved", "o-1", 7)
    tenuto.write(old_yaml=APPROVAL.replace("output: ", "output: 1 # "))

    other = tenuto("run", "greet.yaml", "--carry-on", run_id)
    mended = tenuto("run", "old.yaml", "--carry-on", run_id, "-o", "json")

    assert other.stderr == (
        f"error: run {run_id} is one of 'approval', but greet.yaml is 'greet'; "
        "name its own file, or none\n"
    )
    assert other.returncode == USAGE
    assert "old.yaml has changed since; the run keeps version 1" in mended.stderr
    assert json_of(mended)["output"] == 7


def test_results_that_json_cannot_hold_fail_their_nodes(tenuto: Tenuto) -> None:
    kinds = ("nul", "surrogate", "nan", "huge", "deep", "cycle", "large")
    nodes = {
        kind: {"type": "task", "task": "evil", "params": {"kind": kind}, "optional": True}
        for kind in kinds
    }
    (tenuto.folder / "evil.json").write_text(json.dumps({"name": "evil", "nodes": nodes}))

    report = json_of(tenuto("run", "evil.json", "-o", "json"))

    assert report["state"] == "success"
    assert {node["id"]: node["error"]["code"] for node in report["nodes"]} == {
        kind: "payload_too_large" if kind == "large" else "invalid_result" for kind in kinds
    }
    assert tenuto("run", "verify", report["run_id"]).returncode == OK


def test_a_disk_that_fills_up_stops_the_run_until_there_is_room(
    tenuto: Tenuto, background: list[subprocess.Popen[str]]
) -> None:
    held = (
        "name: held\nnodes:\n  a: {type: task, task: held}\n"
        "  b: {type: task, task: nap, params: {seconds: 0}, needs: [a]}\n"
    )
    tenuto.write(app_py=APP + HELD, held_yaml=held)
    process = tenuto.start("run", "held.yaml")
    background.append(process)
    until_there(tenuto.folder / "begun")
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
    (tenuto.folder / "go").touch()
    read_until(process, ["unavailable"])
    resource.prlimit(
        process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    )

    _, err = process.communicate(timeout=HANG_S)

    assert process.returncode == OK, err
    assert "Traceback" not in err
    assert tenuto("run", "verify", "--all").returncode == OK


def test_an_unknown_id_is_answered_with_the_one_meant(tenuto: Tenuto) -> None:
    run_id = json_of(tenuto("run", "greet.yaml", "--set", "name=x", "-o", "json"))["run_id"]
    typo = run_id[:-1] + ("0" if run_id[-1] != "0" else "1")

    done = tenuto("run", "show", typo)

    assert done.returncode == NOT_FOUND
    assert done.stderr == f"error: no run {typo!r}; did you mean {run_id}?\n"


def test_a_closed_pipe_is_no_error(tenuto: Tenuto) -> None:
    assert tenuto("run", "greet.yaml", "--set", "name=x").returncode == OK

    done = subprocess.run(
        f"{COMMAND} run list -o jsonl | true",
        shell=True,
        cwd=tenuto.folder,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )

    assert done.stderr == ""


def test_a_bug_is_told_as_one_with_how_to_report_it(tenuto: Tenuto) -> None:
    """A row that the engine cannot have written stands for the bug."""
    run_id = json_of(tenuto("run", "greet.yaml", "--set", "name=x", "-o", "json"))["run_id"]
    with sqlite3.connect(tenuto.folder / ".tenuto" / "tenuto.db") as connection:
        connection.execute("UPDATE events SET kind = 'NeverWas' WHERE seq = 2")
    connection.close()

    done = tenuto("run", "show", run_id)

    assert done.returncode == 70
    assert "this is a bug in tenuto" in done.stderr
    assert "tenuto version" in done.stderr


def test_verify_names_each_column_that_differs(tenuto: Tenuto) -> None:
    run_id = json_of(tenuto("run", "greet.yaml", "--set", "name=x", "-o", "json"))["run_id"]
    with sqlite3.connect(tenuto.folder / ".tenuto" / "tenuto.db") as connection:
        connection.execute("UPDATE tasks SET attempt = 7")
        connection.execute("UPDATE run_states SET nodes = 'x'")
    connection.close()

    done = tenuto("run", "verify", run_id)

    assert done.returncode == FAILED
    assert done.stderr.splitlines() == [
        "run_states.nodes: folds to 's', stored is 'x'",
        "tasks hello.attempt: folds to 1, stored is 7",
    ]


def test_standard_input_is_a_definition_too(tenuto: Tenuto) -> None:
    text = Path(tenuto.folder / "greet.yaml").read_text()

    done = tenuto(
        "run", "-", "--input", '{"name": "you"}', "-A", "app.py", "-o", "json", input=text
    )

    assert json.loads(done.stdout)["output"] == {"said": "Hello you", "times": 1}


@pytest.mark.parametrize(
    "words",
    [
        ["run", "show", "\udcff"],
        ["run", "verify", "\udcff"],
        ["run", "cancel", "\udcff"],
        ["run", "greet.yaml", "--carry-on", "\udcff"],
    ],
)
def test_an_id_of_broken_bytes_is_not_found(tenuto: Tenuto, words: list[str]) -> None:
    assert tenuto("run", "greet.yaml", "--set", "name=x").returncode == OK

    done = tenuto(*words)

    assert done.returncode == NOT_FOUND
    assert done.stderr == "error: no run '\\udcff'; `tenuto run list` shows those there are\n"


SHELL = [
    ("run sleepy.yaml -o jsonl | head -c 1", OK, ""),
    ("run sleepy.yaml 2>&1 >/dev/null | true", OK, ""),
    ("run sleepy.yaml 2>/dev/full", OK, ""),
    ("run sleepy.yaml <&- >&- 2>&-", OK, ""),
    ("run sleepy.yaml -o json >&-", OK, ""),
    ("run sleepy.yaml >/dev/full", UNAVAILABLE, "standard output cannot be written: No space"),
    ("run sleepy.yaml -o json >/dev/full", UNAVAILABLE, "standard output cannot be written: No"),
    ("run list >/dev/full", UNAVAILABLE, "standard output cannot be written: No space"),
    ("version >/dev/full", UNAVAILABLE, "standard output cannot be written: No space"),
    ("version >&-", OK, ""),
    ("--help >/dev/full", UNAVAILABLE, "standard output cannot be written: No space"),
]


@pytest.mark.parametrize(("line", "code", "said"), SHELL, ids=[row[0] for row in SHELL])
def test_a_lost_stream_stops_no_run(tenuto: Tenuto, line: str, code: int, said: str) -> None:
    assert tenuto("run", "greet.yaml", "--set", "name=x").returncode == OK

    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {COMMAND} {line}"],
        cwd=tenuto.folder,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )

    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert {run["state"] for run in json_of(tenuto("run", "list", "-o", "json"))} == {"success"}


def test_a_working_directory_that_is_gone_is_told(tenuto: Tenuto) -> None:
    line = f"mkdir gone && cd gone && rmdir ../gone && {COMMAND} run {tenuto.folder}/greet.yaml"

    done = subprocess.run(
        ["bash", "-c", f"{line} --set name=x"],
        cwd=tenuto.folder,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )

    assert done.returncode == UNAVAILABLE
    assert done.stderr == ("error: the working directory is gone; change into one that exists\n")


def test_a_run_alone_in_its_file_counts_no_others(tenuto: Tenuto) -> None:
    """It may end between the look at it and the count: tried where that was likely."""
    for _ in range(4):
        assert "unfinished" not in tenuto("run", "greet.yaml", "--set", "name=x").stderr

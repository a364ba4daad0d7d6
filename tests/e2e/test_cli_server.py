"""The commands over a real `tenuto dev`, over its file, and where there is neither."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.backing.ports import free_port
from tests.support.command import (
    ALONE,
    APP,
    APPROVAL,
    COMMAND,
    GREET,
    HANG_S,
    SLEEPY,
    Tenuto,
    json_of,
    read_until,
)
from tests.support.dev import Dev

from tenuto import Tenuto as Sdk
from tenuto.sdk.problems import START

OK, FAILED, USAGE, NOT_FOUND, CONFLICT, UNAVAILABLE, TIMED_OUT = 0, 1, 2, 3, 4, 6, 124
INTERRUPTED = 130
FILE = ".tenuto/tenuto.db"
REFUSED = "name: refused\nnodes: {r: {type: task, task: refuse}}\n"
CHATTY = """
name: chatty
nodes:
  say: {type: task, task: say}
  ask: {type: wait_for_event, event: go, key: k, needs: [say]}
  more: {type: task, task: say, needs: [ask]}
"""
SAY = """

@app.task
def say() -> None:
    current().logger.info("one line")
    current().logger.info("\\x1b[31mred")
"""
MANY = "name: many\nnodes: {s: {type: set, values: {x: 1}}}\n"


@dataclass
class Project:
    """A folder whose file a server has open, with a run of each kind that has ended."""

    tenuto: Tenuto
    dev: Dev
    greeted: str
    refused: str

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.tenuto(*words)

    def waiting(self, id: str) -> str:
        """A run that waits for order.approved with this key."""
        run = self.dev.start("approval", {"id": id})
        self.dev.until_document(
            "/v1/events/awaited", lambda page: any(each["key"] == id for each in page["items"])
        )
        return run


def write_app(tenuto: Tenuto) -> None:
    tenuto.write(
        app_py=APP.replace("import TaskError, Tenuto", "import TaskError, Tenuto, current") + SAY,
        greet_yaml=GREET,
        sleepy_yaml=SLEEPY,
        approval_yaml=APPROVAL,
        refused_yaml=REFUSED,
        chatty_yaml=CHATTY,
        many_yaml=MANY,
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    tenuto = Tenuto(tmp_path_factory.mktemp("project"))
    write_app(tenuto)
    with Dev(tenuto.folder, "--no-watch") as dev:
        greeted = dev.start("greet", {"name": "Ann"})
        refused = dev.start("refused")
        dev.result(greeted)
        dev.result(refused)
        yield Project(tenuto, dev, greeted, refused)


# -- reading: a server and a file answer the same --------------------------------------------------------------------

READING = [
    ["run", "list", "--workflow", "greet"],
    ["run", "list", "--state", "failed", "--limit", "1"],
    ["run", "show", "GREETED"],
    ["run", "show", "REFUSED"],
    ["run", "show", "GREETED", "--node", "hello"],
    ["run", "show", "REFUSED", "--node", "r"],
    ["run", "verify", "GREETED"],
    ["run", "logs", "GREETED"],
    ["run", "wait", "GREETED", "REFUSED"],
    ["run", "watch", "REFUSED"],
    ["workflow", "list"],
    ["workflow", "show", "greet"],
    ["task", "list", "--state", "dead"],
    ["task", "list", "--queue", "nowhere"],
    ["event", "list", "--event", "nothing.waits"],
]


@pytest.mark.parametrize(
    ("words", "output"),
    [(words, "json") for words in READING] + [(words, "jsonl") for words in READING[1:5]],
    ids=lambda given: given if isinstance(given, str) else " ".join(given),
)
def test_a_server_and_its_file_print_the_same_json(
    project: Project, words: list[str], output: str
) -> None:
    named = [
        word.replace("GREETED", project.greeted).replace("REFUSED", project.refused)
        for word in words
    ]

    by_server = project(*named, "-o", output)
    by_file = project(*named, "-o", output, "--database", FILE)

    assert by_server.stdout == by_file.stdout
    assert by_server.returncode == by_file.returncode
    assert by_server.stderr == by_file.stderr
    assert bool(by_server.stderr) is ("watch" in words and output == "json"), "only progress"
    for line in by_server.stdout.splitlines():
        json.loads(line)


def test_an_export_is_all_that_is_kept_either_way(project: Project) -> None:
    by_server = project("run", "export", project.greeted)
    by_file = project("run", "export", project.greeted, "--database", FILE, "--to", "run.json")

    exported = json_of(by_server)
    assert exported == json.loads((project.tenuto.folder / "run.json").read_text())
    assert exported["run"]["run_id"] == project.greeted
    assert (by_file.stdout, by_file.stderr) == ("", "wrote run.json\n")


@pytest.mark.parametrize("more", [[], ["--database", FILE]], ids=["server", "file"])
def test_tables_show_what_people_look_for(project: Project, more: list[str]) -> None:
    # Of this workflow: of all, other tests may have started more than a page of them.
    listed = project("run", "list", "--workflow", "greet", *more).stdout
    shown = project("run", "show", project.refused[-8:], *more).stdout
    node = project("run", "show", project.greeted, "--node", "hello", *more).stdout

    assert re.search(rf"(?m)^{project.greeted[-8:]}  greet v1 +success ", listed)
    assert f"run {project.refused} failed after" in shown
    assert "error: no_stock: none left (node r)" in shown
    assert '"name": "Ann"' in node
    assert 'output:\n"Hello Ann"' in node.replace("output: ", "output:")
    assert re.search(
        r"(?m)^\w{8}  r +refuse +default +dead +1 +no_stock: none left",
        project("task", "list", "--state", "dead", *more).stdout,
    )
    assert re.search(r"(?m)^greet +1 +1 +[0-9a-f]{12} ", project("workflow", "list", *more).stdout)
    assert "hello  task" in project("workflow", "show", "greet", *more).stdout
    assert project("workflow", "show", "greet", "--source", *more).stdout == GREET
    assert re.search(r"(?m)^embedded-\w+ +\d+/50 +all ", project("worker", "list", *more).stdout)
    assert project("run", "verify", project.greeted, *more).stdout.startswith("ok: ")
    assert project("run", "wait", project.refused, *more).stdout == (
        f"run {project.refused} failed: no_stock: none left (node r)\n"
    )


def test_lists_are_filtered_by_key_and_time(project: Project) -> None:
    project("run", "start", "many", "--key", "filtered")

    def found(*words: str) -> list[str]:
        return [run["key"] for run in json_of(project("run", "list", *words, "-o", "json"))]

    assert found("--key", "filtered") == ["filtered"]
    assert "filtered" in found("--since", "1h")
    assert "filtered" not in found("--until", "1h")
    assert found("--since", "2999-01-01T00:00:00Z") == []


# -- starting and changing -------------------------------------------------------------------------------------------


def test_a_run_of_a_name_is_started_and_waited_for(project: Project) -> None:
    done = project(
        "run", "start", "greet", "--set", "name=7", "--var", "greeting=1", "--wait", "-o", "json"
    )

    assert done.returncode == OK
    assert json_of(done)["output"] == {"said": "1 7", "times": 1}, "text stays text"


def test_who_waits_for_a_run_is_told_its_output(project: Project) -> None:
    done = project("run", "start", "greet", "--set", "name=7", "--var", "greeting=1", "--wait")

    said = 'success\noutput:\n{\n  "said": "1 7",\n  "times": 1\n}\n'
    assert done.stdout.endswith(said)
    run_id = done.stdout.split()[1]
    assert project("run", "wait", run_id).stdout == f"run {run_id} {said}"


def test_a_run_of_a_file_is_deployed_first(project: Project) -> None:
    project.tenuto.write(fresh_yaml=MANY.replace("many", "fresh"))
    first = project("run", "start", "fresh.yaml", "--key", "k1")
    second = project("run", "start", "fresh.yaml", "--key", "k1")

    run_id = re.fullmatch(r"run (\S+) \w+\n", first.stdout)
    assert run_id is not None
    told = rf"watch it with:\n  tenuto run watch {run_id[1][-8:]}\n"
    over = rf"look at it with:\n  tenuto run show {run_id[1][-8:]}\n"  # it may have ended by then
    assert re.search(f"{told}|{over}", first.stderr)
    assert f"run {run_id[1]} " in second.stdout
    assert "the key 'k1' has its run already" in second.stderr


@pytest.mark.rule("X1.3")
def test_a_priority_is_shown_where_it_is_set_and_a_bad_one_is_refused(project: Project) -> None:
    run_id = project("run", "start", "greet", "--set", "name=7", "--priority", "6").stdout.split()[
        1
    ]

    assert re.search(r"priority +6 *\n", project("run", "show", run_id).stdout)
    project.dev.result(run_id)  # other tests list the runs of `greet`, twice
    refused = project("run", "start", "greet", "--set", "name=7", "--priority", "10")
    assert refused.returncode == USAGE
    assert "--priority" in refused.stderr


def test_a_wait_says_by_its_exit_code_how_the_run_ended(project: Project) -> None:
    assert project("run", "start", "refused", "--wait").returncode == FAILED
    late = project("run", "start", "approval", "--set", "id=late", "--wait", "--timeout", "10ms")
    assert late.returncode == TIMED_OUT
    assert re.fullmatch(
        r"run \S+ \w+\nthe time is up; the runs go on\nrun \w{8}: \w+ waits for event \S+ key \S+.*\n",
        late.stderr,
    )


def test_a_run_is_paused_resumed_and_cancelled_through_its_server(project: Project) -> None:
    run = project.waiting("steer")

    assert project("run", "pause", run[-8:]).stdout == f"run {run} paused\n"
    assert "it is paused; resume it with:" in project("run", "show", run).stdout
    assert project("run", "resume", run).stdout == f"run {run} resumed\n"
    assert project("run", "cancel", run, "--reason", "enough", "--database", FILE).stdout == (
        f"run {run} cancelled\n"
    )
    assert project.dev.result(run)["state"] == "cancelled"


def test_an_event_is_sent_through_the_server_to_who_waits(project: Project) -> None:
    run = project.waiting("7 b")

    listed = project("event", "list")
    sent = project("event", "send", "order.approved", "--key", "7 b", "--payload", '{"by": 1}')

    assert re.search(r"(?m)^order.approved  7 b +1", listed.stdout)
    assert (sent.stdout, sent.stderr) == ("sent order.approved key 7 b\n", "")
    assert project.dev.result(run)["output"] == {"by": 1}


def test_an_event_that_nobody_waits_for_names_the_one_meant(project: Project) -> None:
    run = project.waiting("meant")
    sent = project("event", "send", "order.aproved", "--key", "meant")

    assert "a run waits for order.approved key meant; did you mean that?" in sent.stderr
    project("run", "cancel", run)


def test_definitions_are_deployed_all_or_none(project: Project) -> None:
    project.tenuto.write(
        good_yaml=MANY.replace("many", "good"), bad_yaml="name: bad\nnodes: {a: {type: tusk}}\n"
    )

    refused = project("deploy", "good.yaml", "bad.yaml")
    made = project("deploy", "good.yaml")
    again = project("workflow", "deploy", "good.yaml", "greet.yaml", "-o", "jsonl")

    assert refused.returncode == USAGE
    assert refused.stderr.startswith("error: bad.yaml:2:19: error")
    assert made.stdout == "good.yaml: deployed: good version 1\n"
    assert made.stderr == "start a run with:\n  tenuto run start good\n"
    assert [json.loads(line)["created"] for line in again.stdout.splitlines()] == [False, False]


def test_what_changed_between_versions_is_shown(project: Project) -> None:
    text = "name: changing\nnodes:\n  a: {type: set, values: {x: 1}}\n  b: {type: set, values: {y: 1}}\n"
    project.tenuto.write(changing_yaml=text)
    project("deploy", "changing.yaml")
    only = project("workflow", "diff", "changing")
    changed = text.replace("x: 1", "x: 2").replace("  b:", "  c:") + "edges:\n  - a -> c\n"
    project.tenuto.write(changing_yaml=changed)
    project("deploy", "changing.yaml")

    done = project("workflow", "diff", "changing")
    found = json_of(project("workflow", "diff", "changing@2", "changing@1", "-o", "json"))
    graph = project("workflow", "diff", "changing", "--graph", "--database", FILE)
    same = project("workflow", "diff", "changing.yaml", "--graph")
    project.tenuto.write(newer_yaml=changed.replace("x: 2", "x: 3"))
    newer = project("workflow", "diff", "changing.yaml", "newer.yaml")

    assert only.stderr == (
        "error: no version of changing is older than 1; there is nothing to compare\n"
    )
    assert "--- changing@1\n+++ changing@2\n" in done.stdout
    assert "-  a: {type: set, values: {x: 1}}\n" in done.stdout
    assert done.stderr == (
        "nodes added: c\nnodes removed: b\nnodes changed: a\nedges added: a -> c\n"
    )
    assert (found["old"], found["new"]) == ("changing@2", "changing@1")
    assert found["nodes"]["added"] == [{"id": "b", "type": "set"}]
    assert graph.stdout == (
        "changing@1 → changing@2\n+ node c  set\n- node b  set\n~ node a  set\n"
        "    values.x: 1 → 2\n+ edge a -> c\n"
    )
    assert same.stdout == "changing@2 and changing.yaml mean the same\n"
    assert "+++ newer.yaml\n" in newer.stdout


def test_aliases_are_set_moved_shown_and_dropped(project: Project) -> None:
    text = MANY.replace("many", "named")
    project.tenuto.write(named_yaml=text)
    first = project("deploy", "named.yaml", "--alias", "stable", "--alias", "canary")
    again = project("deploy", "named.yaml", "--alias", "stable")
    project.tenuto.write(named_yaml=text.replace("x: 1", "x: 2"))
    second = project("deploy", "named.yaml", "--alias", "canary", "-o", "json")

    moved = project("workflow", "alias", "named", "stable", "2")
    shown = project("workflow", "show", "named@canary")
    run = json_of(project("run", "start", "named@1", "--wait", "-o", "json"))
    dropped = project("workflow", "alias", "named", "stable", "--drop")

    assert first.stdout == (
        "named.yaml: deployed: named version 1\nnamed.yaml: named@stable: new → 1\n"
        "named.yaml: named@canary: new → 1\n"
    )
    assert again.stdout == (
        "named.yaml: unchanged: named version 1\nnamed.yaml: named@stable: 1, as before\n"
    )
    [document] = json_of(second)
    assert document["moved"] == [{"name": "named", "alias": "canary", "version": 2, "was": 1}]
    assert moved.stdout == "named@stable: 1 → 2\n"
    assert "aliases: canary → 2, stable → 2\n" in shown.stdout
    assert (run["version"], run["semantics"]) == (1, 1)
    assert dropped.stdout == "named@stable dropped; it was version 2\n"
    assert json_of(project("workflow", "show", "named", "-o", "json"))["aliases"] == ["canary"]


def test_a_version_is_deleted_unless_something_needs_it(project: Project) -> None:
    text = APPROVAL.replace("approval", "needed")
    project.tenuto.write(needed_yaml=text)
    project("deploy", "needed.yaml")
    run = project.dev.start("needed", {"id": "needed"})

    refused = project("workflow", "delete", "needed@1", "--yes")
    project("run", "cancel", run)
    deleted = project("workflow", "delete", "needed@1", "--yes")
    shown = json_of(project("run", "show", run, "-o", "json"))

    assert refused.returncode == CONFLICT
    assert refused.stderr == (
        f"error: version 1 of 'needed' cannot be deleted: run {run} is not over; wait for the end, or "
        "cancel: tenuto run cancel ID\n"
    )
    assert (deleted.returncode, deleted.stdout) == (OK, "needed version 1 deleted\n")
    assert project("workflow", "show", "needed").returncode == NOT_FOUND
    assert (shown["version"], shown["state"]) == (1, "cancelled")


def test_a_file_that_nobody_has_open_is_changed_the_same(tmp_path: Path) -> None:
    tenuto = Tenuto(tmp_path)
    text = MANY.replace("many", "alone")
    with Sdk(tmp_path / FILE) as app:
        app.deploy(text)
        app.deploy(text.replace("x: 1", "x: 2"))

    moved = tenuto("workflow", "alias", "alone", "stable", "1", "-o", "json")
    needed = tenuto("workflow", "delete", "alone@1", "--yes")
    unknown = tenuto("workflow", "alias", "alone", "stabel", "--drop")
    dropped = tenuto("workflow", "alias", "alone", "stable", "--drop")
    deleted = tenuto("workflow", "delete", "alone@1", "--yes", "-o", "json")

    assert json_of(moved) == {"name": "alone", "alias": "stable", "version": 1, "was": None}
    assert needed.returncode == CONFLICT
    assert "the alias 'stable' means it; let it mean another one, or drop it" in needed.stderr
    assert unknown.stderr == "error: no alias 'alone@stabel'; did you mean alone@stable?\n"
    assert dropped.stdout == "alone@stable dropped; it was version 1\n"
    assert json_of(deleted) == {"name": "alone", "version": 1}


def test_logs_are_what_attempts_said_and_following_ends_with_the_run(project: Project) -> None:
    run = project.dev.start("chatty")
    following = project.tenuto.start("run", "logs", run, "-f")
    assert following.stdout is not None
    first = [following.stdout.readline(), following.stdout.readline()]
    project("event", "send", "go", "--key", "k")
    rest, _ = following.communicate(timeout=HANG_S)

    assert [line[14:] for line in first] == ["say  one line\n", "say  \\x1b[31mred\n"]
    assert [line[14:] for line in rest.splitlines()] == ["more  one line", "more  \\x1b[31mred"]
    assert following.returncode == OK
    noted = project("run", "logs", run, "--node", "more", "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line)["text"] for line in noted] == ["one line", "\x1b[31mred"]


def test_three_hundred_runs_are_listed_page_by_page(project: Project) -> None:
    with Sdk(project.dev.url) as app:
        app.results(app.start_many("many", [{}] * 300), timeout=HANG_S)
    more = [[], ["--database", FILE]]
    few = [project("run", "list", "--workflow", "many", "--limit", "7", *each) for each in more]
    every = [
        json_of(project("run", "list", "--workflow", "many", "--all", "-o", "json", *each))
        for each in more
    ]

    assert [len(each.stdout.splitlines()) for each in few] == [8, 8]
    assert few[0].stderr == few[1].stderr == "the newest 7; --limit shows more, --all shows all\n"
    assert every[0] == every[1]
    ids = [run["run_id"] for run in every[0]]
    assert len(ids) >= 300
    assert ids == sorted(set(ids), reverse=True)


# -- mistakes --------------------------------------------------------------------------------------------------------

NOBODY = "http://127.0.0.1:1"
MISTAKES: list[tuple[list[str], int, str]] = [
    (["run", "show", "zzz"], NOT_FOUND, "error: no run 'zzz'; `tenuto run list` shows those there are"),
    (["run", "show", ""], USAGE, "error: a run's id is empty"),
    (["run", "show", "GREETED", "--node", "helo"], NOT_FOUND,
     "error: no node 'helo'; did you mean 'hello'?"),
    (["run", "watch", "zzz"], NOT_FOUND, "error: no run 'zzz'; `tenuto run list` shows those there are"),
    (["run", "wait", "zzz"], NOT_FOUND, "error: no run 'zzz'; `tenuto run list` shows those there are"),
    (["run", "wait", "GREETED", "--timeout", "soon"], USAGE,
     "error: --timeout: 'soon' is not a duration; write it like 500ms, 10s, 1h30m or 2d"),
    (["run", "cancel", "GREETED"], CONFLICT, "error: run GREETED is already success"),
    (["run", "pause", "GREETED"], CONFLICT, "error: run GREETED is already success"),
    (["run", "resume", "GREETED"], CONFLICT, "error: run GREETED is already success"),
    (["run", "cancel", "GREETED", "--reason", "x" * 3000], USAGE,
     "error: --reason: 3,000 characters; the limit is 2,000"),
    (["run", "start", "gret"], NOT_FOUND, "error: no workflow 'gret'; did you mean 'greet'?"),
    (["run", "start", ""], USAGE, "error: WORKFLOW: is empty; give a workflow's name, or a .yaml file"),
    (["run", "start", "gret.yaml"], NOT_FOUND, "error: no file 'gret.yaml'; did you mean greet.yaml?"),
    (["run", "start", "greet", "--version", "9"], NOT_FOUND,
     "error: no version 'greet 9'; the newest is 1"),
    (["run", "start", "greet.yaml", "--version", "1"], USAGE,
     "error: --version: a file is deployed as its newest version; leave it out"),
    (["run", "start", "greet"], USAGE,
     "error: input: 'name' is a required property; add it: --set name=… or --input @FILE"),
    (["run", "start", "greet", "--input", "null"], USAGE,
     "error: input: null is not of type 'object'; give an object"),
    (["run", "start", "greet", "--set", "name=x", "--var", "greting=Hi"], USAGE,
     "error: vars.greting: the definition declares no such var; did you mean `greeting`?"),
    (["run", "start", "greet", "--set", "name=x", "--key", "a\udcff"], USAGE,
     "error: key: it holds half a character (a lone surrogate)"),
    (["run", "start", "greet", "--set", "name=x", "--timeout", "1s"], USAGE,
     "error: --timeout: belongs to --wait"),
    (["run", "list", "--state", "done"], USAGE,
     ("error: --state: there is no state 'done'; there are pending, running, paused, closing, "
      "success, failed, cancelled, timed_out")),
    (["run", "list", "--since", "yesterday"], USAGE,
     ("error: --since: 'yesterday' is no moment; write 2h for two hours ago, or "
      "2026-12-24T18:00:00+01:00")),
    (["run", "list", "--url", NOBODY], UNAVAILABLE,
     f"error: nobody listens at {NOBODY}; {START}"),
    (["run", "start", "greet", "--url", NOBODY], UNAVAILABLE,
     f"error: nobody listens at {NOBODY}; {START}"),
    (["run", "list", "--url", "localhost:8080"], USAGE,
     ("error: --url: 'localhost:8080' is no address of a server; write it like "
      "http://127.0.0.1:8080")),
    (["run", "list", "--url", NOBODY, "--database", "x.db"], USAGE,
     "error: --url: a server has its own database; leave out --database"),
    (["run", "start", "greet", "--database", "other.db"], UNAVAILABLE,
     "error: no server has other.db open; start one with `tenuto dev --database other.db`"),
    (["run", "export", "GREETED", "--to", "nowhere/run.json"], UNAVAILABLE,
     "error: nowhere/run.json cannot be written: No such file or directory"),
    (["workflow", "show", "gret"], NOT_FOUND, "error: no workflow 'gret'; did you mean 'greet'?"),
    (["workflow", "show", "greet", "--version", "9"], NOT_FOUND,
     "error: no version 'greet 9'; the newest is 1"),
    (["run", "start", "greet@9", "--set", "name=x"], NOT_FOUND, "error: no version 'greet 9'; the newest is 1"),
    (["run", "start", "greet@stable"], NOT_FOUND, "error: no alias 'greet@stable'; greet has no aliases"),
    (["run", "start", "greet@"], USAGE,
     "error: workflow: 'greet@' names no version; write order@3, order@stable, or order for the newest"),
    (["run", "start", "greet@1", "--version", "1"], USAGE,
     "error: --version: greet@1 says which one already; leave it out"),
    (["workflow", "show", "greet@9"], NOT_FOUND, "error: no version 'greet 9'; the newest is 1"),
    (["workflow", "show", "gret@stable"], NOT_FOUND, "error: no workflow 'gret'; did you mean 'greet'?"),
    (["workflow", "show", "greet@1", "--version", "1"], USAGE,
     "error: --version: greet@1 says which one already; leave it out"),
    (["workflow", "diff", "greet@1", "greet@9"], NOT_FOUND, "error: no version 'greet 9'; the newest is 1"),
    (["workflow", "diff", "greet", "1"], USAGE, "error: NEW: 1 names no workflow; write greet@1"),
    (["workflow", "diff", "greet", "1", "9"], USAGE,
     "error: Got unexpected extra argument(s) (9); see `tenuto workflow diff --help`"),
    (["workflow", "diff", "gret"], NOT_FOUND, "error: no workflow 'gret'; did you mean 'greet'?"),
    (["workflow", "diff", "gret.yaml"], NOT_FOUND, "error: no file 'gret.yaml'; did you mean greet.yaml?"),
    (["workflow", "diff", "greet"], USAGE,
     "error: no version of greet is older than 1; there is nothing to compare"),
    (["workflow", "alias", "greet", "stable"], USAGE,
     "error: VERSION: is missing; name one, as in `tenuto workflow alias greet stable 3`"),
    (["workflow", "alias", "greet", "stable", "9"], NOT_FOUND, "error: no version 'greet 9'; the newest is 1"),
    (["workflow", "alias", "gret", "stable", "1"], NOT_FOUND, "error: no workflow 'gret'; did you mean 'greet'?"),
    (["workflow", "alias", "greet", "2", "1"], USAGE,
     ("error: alias: '2' is no alias; use at most 63 letters, digits, `_`, `.` and `-`, and begin with a letter, "
     "as in stable")),
    (["workflow", "alias", "greet", "stable", "newest"], USAGE,
     "error: VERSION: 'newest' is no number; give that of a version, such as 3"),
    (["workflow", "alias", "greet", "stable", "1", "--drop"], USAGE,
     "error: --drop: takes no VERSION; leave one of the two out"),
    (["workflow", "alias", "greet", "stable", "--drop"], NOT_FOUND,
     "error: no alias 'greet@stable'; greet has no aliases"),
    (["workflow", "delete", "greet"], USAGE,
     ("error: NAME@VERSION: 'greet' names no version by its number; write greet@N, N its number; "
     "`tenuto workflow show greet` lists them")),
    (["workflow", "delete", "greet@stable", "--yes"], USAGE,
     ("error: NAME@VERSION: 'greet@stable' names no version by its number; write greet@N, N its number; "
     "`tenuto workflow show greet` lists them")),
    (["workflow", "delete", "greet@1"], USAGE, "error: --yes: is needed where nobody can be asked"),
    (["workflow", "delete", "greet@9", "--yes"], NOT_FOUND, "error: no version 'greet 9'; the newest is 1"),
    (["deploy", "greet.yaml", "--alias", "2"], USAGE,
     ("error: alias: '2' is no alias; use at most 63 letters, digits, `_`, `.` and `-`, and begin with a letter, "
     "as in stable")),
    (["task", "list", "--state", "failed"], USAGE,
     ("error: --state: there is no state 'failed'; there are ready, running, retry, success, "
      "dead, cancelled")),
    (["event", "send", "", "--key", "k"], USAGE, "error: NAME: is empty"),
    (["event", "send", "e", "--key", "k", "--payload", "{"], USAGE,
     ("error: --payload: '{' is no JSON: Expecting property name enclosed in double quotes at "
      "line 1, column 2")),
    (["deploy", "nothing-of-this-kind.yaml"], NOT_FOUND,
     "error: no file 'nothing-of-this-kind.yaml'"),
    (["deploy", "app.py"], USAGE, "error: 'app.py' is no .yaml, .yml or .json file"),
    (["worflow", "list"], USAGE, "error: No such command 'worflow'. Did you mean 'workflow'? See `tenuto --help`"),
    (["task", "lst"], USAGE, "error: No such command 'lst'. Did you mean 'list'? See `tenuto task --help`"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "said"),
    MISTAKES,
    ids=[" ".join(row[0])[:60] or "nothing" for row in MISTAKES],
)
def test_a_mistake_is_one_line_with_its_cure(
    project: Project, words: list[str], code: int, said: str
) -> None:
    done = project(*(word.replace("GREETED", project.greeted) for word in words))

    assert done.stderr == said.replace("GREETED", project.greeted) + "\n"
    assert (done.stdout, done.returncode) == ("", code)


def test_where_there_is_nothing_lists_are_empty_and_teach_the_next_command(tenuto: Tenuto) -> None:
    told = {
        "run": f"no runs in {FILE}; start one with `tenuto run FILE`\n",
        "workflow": f"no workflows in {FILE}; `tenuto deploy FILE` stores one\n",
        "task": f"no tasks in {FILE}\n",
        "worker": f"no workers in {FILE}; `tenuto dev` is one, and so is `tenuto run FILE`\n",
        "event": f"no run waits for an event in {FILE}\n",
    }

    for noun, said in told.items():
        done = tenuto(f"{noun}s", "list")
        assert (done.stdout, done.stderr, done.returncode) == ("", said, OK)
        assert json_of(tenuto(noun, "list", "-o", "json")) == []


def test_where_no_server_runs_what_needs_one_says_how_to_start_it(tenuto: Tenuto) -> None:
    start = tenuto("run", "start", "greet.yaml", "--set", "name=x")
    deploy = tenuto("deploy", "greet.yaml")

    assert start.returncode == deploy.returncode == UNAVAILABLE
    assert start.stderr == (
        f"error: no server has {FILE} open; start one with `tenuto dev greet.yaml`, or carry one "
        "run to its end here with `tenuto run greet.yaml`\n"
    )
    assert deploy.stderr == (
        f"error: no server has {FILE} open; start one with `tenuto dev greet.yaml`\n"
    )


def test_a_run_command_under_way_is_named_by_who_it_is_in_the_way_of(
    tenuto: Tenuto, background: list[subprocess.Popen[str]]
) -> None:
    driving = tenuto.start("run", "approval.yaml", "--set", "id=1")
    background.append(driving)
    read_until(driving, ["waits for event"])
    [run] = json_of(tenuto("run", "list", "-o", "json"))

    cancel, start = tenuto("run", "cancel", run["run_id"]), tenuto("run", "start", "greet")

    who = f"error: process {driving.pid} has {FILE} open and takes no requests; "
    assert (cancel.stderr, cancel.returncode) == (
        f"{who}stop it (Ctrl-C), then try again\n",
        CONFLICT,
    )
    assert (start.stderr, start.returncode) == (
        f"{who}when it has ended, start a server with `tenuto dev`\n",
        UNAVAILABLE,
    )
    assert tenuto("event", "send", "order.approved", "--key", "1").returncode == OK
    assert driving.wait(HANG_S) == OK


# -- watching --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [[], ["--database", FILE]], ids=["server", "file"])
def test_a_run_is_watched_to_its_end(project: Project, more: list[str]) -> None:
    run = project.waiting(f"watched{len(more)}")
    watching = project.tenuto.start("run", "watch", run[-8:], *more)
    read_until(watching, ["tenuto event send order.approved"])
    project("event", "send", "order.approved", "--key", f"watched{len(more)}", "--payload", "7")
    out, err = watching.communicate(timeout=HANG_S)

    assert watching.returncode == OK
    assert "approved  event received after" in err
    assert f"run {run} success after" in out
    assert out.endswith("output:\n7\n")


def test_watching_a_run_that_failed_exits_with_1_and_its_error(project: Project) -> None:
    done = project("run", "watch", project.refused)

    assert done.returncode == FAILED
    assert "error: no_stock: none left (node r)" in done.stdout


def test_interrupting_a_watch_stops_nothing_else(project: Project) -> None:
    run = project.waiting("interrupted")
    watching = project.tenuto.start("run", "watch", run)
    read_until(watching, ["tenuto event send order.approved"])
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=HANG_S)

    assert (err, watching.returncode) == ("no longer watching; the run goes on\n", INTERRUPTED)
    assert project.dev.document(f"/v1/runs/{run}")["state"] == "running"
    project("run", "cancel", run)


def test_on_a_terminal_the_watched_run_is_shown_live(project: Project) -> None:
    run = project.waiting("live")
    master, slave = pty.openpty()
    watching = subprocess.Popen(
        [COMMAND, "run", "watch", run],
        cwd=project.tenuto.folder,
        env=os.environ | ALONE | {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"},
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=slave,
        text=True,
    )
    os.close(slave)
    seen = _read_terminal(master, f"approval  {run[-8:]}  running".encode())
    project("event", "send", "order.approved", "--key", "live")
    out, _ = watching.communicate(timeout=HANG_S)
    os.close(master)

    assert watching.returncode == OK
    assert b"\x1b[" in seen, "drawn, not logged"
    assert f"run {run} success after" in out


def _read_terminal(master: int, wanted: bytes) -> bytes:
    seen, until = b"", time.monotonic() + HANG_S
    while wanted not in re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", seen):
        assert time.monotonic() < until, seen
        if select.select([master], [], [], 0.5)[0]:
            seen += os.read(master, 65_536)
    return seen


def test_on_a_terminal_it_is_said_which_file_is_read(tenuto: Tenuto) -> None:
    assert tenuto("run", "greet.yaml", "--set", "name=x").returncode == OK
    master, slave = pty.openpty()
    done = subprocess.run(
        [COMMAND, "run", "list"],
        cwd=tenuto.folder,
        env=os.environ | ALONE,
        stdout=subprocess.PIPE,
        stderr=slave,
        check=True,
        timeout=HANG_S,
    )
    os.close(slave)

    said = _read_terminal(master, b"reading the file")
    os.close(master)
    assert f"no server has {FILE} open; reading the file".encode() in said
    assert b"success" in done.stdout


@pytest.fixture
def own(tmp_path: Path) -> Tenuto:
    """A project of the test's own, to kill the server of."""
    made = Tenuto(tmp_path)
    write_app(made)
    return made


SEEN = {
    "watch": "tenuto event send order.approved",
    "wait": "waits for event order.approved",  # who waits is told after a while
}
"""What is said by who has the server's answer."""


@pytest.mark.parametrize("verb", ["watch", "wait"])
def test_a_server_that_is_killed_and_comes_back_is_found_again(own: Tenuto, verb: str) -> None:
    port = free_port()
    with Dev(own.folder, port=port) as dev:
        run = dev.start("approval", {"id": "1"})
        looking = own.start("run", verb, run)
        read_until(looking, [SEEN[verb]])
        dev.process.kill()
        dev.process.wait(HANG_S)
    with Dev(own.folder, port=port):
        assert own("event", "send", "order.approved", "--key", "1").returncode == OK
        out, err = looking.communicate(timeout=HANG_S)

    assert looking.returncode == OK, err
    assert f"run {run} success" in out


@pytest.mark.parametrize("verb", ["watch", "wait"])
def test_a_server_that_is_killed_and_stays_away_is_told(own: Tenuto, verb: str) -> None:
    with Dev(own.folder, port=free_port()) as dev:  # nobody else is given the port meanwhile
        run = dev.start("approval", {"id": "1"})
        looking = own.start("run", verb, run, "--url", dev.url)
        read_until(looking, [SEEN[verb]])
        dev.process.kill()
        out, err = looking.communicate(timeout=HANG_S)

    assert (out, looking.returncode) == ("", UNAVAILABLE)
    assert re.fullmatch(
        rf"(?s).*error: the server at {dev.url} has gone \(.+\); start it again, or name another\n",
        err,
    )
    assert "Traceback" not in err


def test_a_reader_who_leaves_ends_following_quietly(project: Project) -> None:
    run = project.dev.start("chatty")
    following = project.tenuto.start("run", "logs", run, "-f")
    assert following.stdout is not None
    following.stdout.readline()
    following.stdout.readline()
    following.stdout.close()
    project("event", "send", "go", "--key", "k")

    assert following.wait(HANG_S) == OK
    assert following.stderr is not None
    assert following.stderr.read() == ""
    following.stderr.close()


# -- help ------------------------------------------------------------------------------------------------------------


def test_help_lists_verbs_in_groups_without_plurals(tenuto: Tenuto) -> None:
    said = tenuto("--help").stdout

    assert re.findall(r"(?m)^(\w[\w ]*):$", said) == [
        "Options", "Begin", "Workflows", "Look and act", "A cluster", "This machine",
    ]  # fmt: skip
    assert re.search(r"(?m)^  run  ", said)
    assert "runs " not in said
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize(
    "words",
    [["run", "FILE"], ["run", "start"], ["run", "list"], ["run", "show"], ["run", "watch"],
     ["run", "wait"], ["run", "logs"], ["run", "cancel"], ["run", "pause"], ["run", "resume"],
     ["run", "verify"], ["run", "export"], ["workflow", "list"], ["workflow", "show"],
     ["workflow", "diff"], ["workflow", "deploy"], ["deploy"], ["task", "list"],
     ["worker", "list"], ["event", "send"], ["event", "list"]],
    ids=" ".join,
)  # fmt: skip
def test_the_help_of_each_verb_has_examples_to_copy(tenuto: Tenuto, words: list[str]) -> None:
    said = tenuto(*words, "--help").stdout

    shown = " ".join(words).replace(" FILE", "")
    assert re.search(rf"(?m)^  Examples:\n    tenuto {shown}( |$)", said)

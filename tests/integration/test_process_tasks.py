"""`@app.task(process=True)` through the front door: programs of a user's kind, on files, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tenuto import InvalidInput, Tenuto

HEAD = """\
import asyncio, ctypes, os, select, signal, sys, threading, time
import tenuto
from tenuto import RunFailed, Tenuto

app = Tenuto("runs.db")

def flow(task, more=""):
    return f"name: w\\nnodes:\\n  n: {{type: task, task: {task}{more}}}\\n"
"""


def program(folder: Path, text: str, name: str = "program.py", head: str = HEAD) -> Path:
    path = folder / name
    path.write_text(head + textwrap.dedent(text))
    return path


def run(
    *arguments: str | Path, folder: Path, code: int = 0, stdin: str | None = None
) -> tuple[str, str]:
    """Run Python until it ends by itself; what it wrote to stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *map(str, arguments)],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=90,
        input=stdin,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


def test_a_loop_that_never_yields_is_ended_by_its_timeout_and_the_next_attempt_succeeds(
    tmp_path: Path,
) -> None:
    path = program(
        tmp_path,
        """
        @app.task(process=True)
        def spin():
            if tenuto.current().attempt > 1:
                return os.getpid()
            while True:
                pass

        if __name__ == "__main__":
            with app:
                run = app.start(flow("spin", ", timeout: 4s, retry: {max_attempts: 9}"))
                print(run.result(timeout=60)["n"] != os.getpid())
        """,
    )

    assert run(path, folder=tmp_path) == ("True\n", "")


def test_a_process_that_says_nothing_is_ended_by_its_heartbeat_timeout(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        """
        @app.task(process=True)
        def silent():
            if tenuto.current().attempt > 1:
                return "again"
            os.kill(os.getpid(), signal.SIGSTOP)

        if __name__ == "__main__":
            with app:
                # On a busy machine another process may take longer than that to come up, too.
                more = ", heartbeat_timeout: 2s, retry: {max_attempts: 9}"
                print(app.start(flow("silent", more)).result(timeout=60)["n"])
        """,
    )

    assert run(path, folder=tmp_path) == ("again\n", "")


def test_a_cancelled_runs_process_is_gone(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        """
        @app.task(process=True)
        def spin():
            print(os.getpid(), flush=True)
            while True:
                pass

        if __name__ == "__main__":
            with app:
                reading, writing = os.pipe()
                keep = os.dup(1)
                os.dup2(writing, 1)  # children print where the program prints
                run = app.start(flow("spin"))
                pid = int(os.read(reading, 100))
                handle = os.pidfd_open(pid)
                os.dup2(keep, 1)
                run.cancel()
                try:
                    run.result(timeout=30)
                except RunFailed as failed:
                    print(failed.state)
                print(bool(select.select([handle], [], [], 30)[0]))
        """,
    )

    assert run(path, folder=tmp_path)[0] == "cancelled\nTrue\n"


def test_typed_arguments_and_results_are_converted_in_the_child(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        """
        import datetime
        import pydantic

        class Order(pydantic.BaseModel):
            id: int
            due: datetime.date

        class Receipt(pydantic.BaseModel):
            order: Order
            pid: int

        @app.task(process=True)
        def charge(order: Order, context: tenuto.Context) -> Receipt:
            assert isinstance(order, Order) and context.attempt == 1
            return Receipt(order=order, pid=os.getpid())

        if __name__ == "__main__":
            with app:
                receipt = app.enqueue(charge, order={"id": 1, "due": "2030-01-02"}).result(timeout=60)
                print(receipt["order"], receipt["pid"] != os.getpid())
                wrong = app.start(flow("charge", ", params: {order: {id: one}}"))
                try:
                    wrong.result(timeout=60)
                except RunFailed as failed:
                    print("bad_arguments" in str(failed), "order.id" in str(failed))
        """,
    )

    said, _ = run(path, folder=tmp_path)
    assert said == "{'due': '2030-01-02', 'id': 1} True\nTrue True\n"


def test_a_program_under_dash_m_and_one_in_a_package_work(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    program(
        tmp_path / "shop",
        """
        @app.task(process=True)
        def here():
            return [__name__, os.getpid()]

        if __name__ == "__main__":
            with app:
                name, pid = app.enqueue(here).result(timeout=60)
                print(name, pid != os.getpid())
        """,
        "orders.py",
    )
    (tmp_path / "shop" / "__init__.py").write_text("")
    program(
        tmp_path,
        """
        from shop.orders import app, here
        with app:
            print(app.enqueue(here).result(timeout=60)[0])
        """,
        "main.py",
        head="",
    )

    assert run("-m", "shop.orders", folder=tmp_path)[0] == "__mp_main__ True\n"
    # Without a main guard: the functions are in a module of their own, so the program is not imported at all.
    assert run("main.py", folder=tmp_path)[0] == "shop.orders\n"


def test_a_program_without_a_main_guard_is_told_so_and_starts_nothing(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        """
        app = Tenuto(":memory:")

        @app.task(process=True)
        def work():
            return 1

        print("begins")
        with app:
            try:
                print(app.enqueue(work).result(timeout=60))
            except RunFailed as failed:
                print(failed)
        """,
    )

    said, _ = run(path, folder=tmp_path)
    assert said.count("begins") == 2  # itself, and the one child
    assert "task_not_importable" in said
    assert 'put what starts runs under `if __name__ == "__main__":`' in said


def test_a_program_that_exits_or_breaks_when_a_child_imports_it_is_told_so(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        """
        @app.task(process=True)
        def work():
            return 1

        if __name__ != "__main__":
            {}["lacking"]
        with app:
            try:
                app.enqueue(work).result(timeout=60)
            except RunFailed as failed:
                print(failed)
        """,
    )

    said, _ = run(path, folder=tmp_path)
    assert f"a child process cannot import {path}: KeyError: 'lacking'" in said
    assert "spawnable.py" not in said  # nothing of ours between the user and his line


def test_an_interactive_session_is_told_to_use_a_file(tmp_path: Path) -> None:
    text = "import tenuto\n@tenuto.Tenuto().task(process=True)\ndef work(): return 1\n"

    for arguments, stdin in ((["-c", text], None), (["-"], text)):
        _, said = run(*arguments, folder=tmp_path, code=1, stdin=stdin)
        assert "is made in an interactive session" in said
        assert said.rstrip().endswith("put it into a file")


def test_an_app_loaded_from_a_path_by_the_command_line_works(tmp_path: Path) -> None:
    program(
        tmp_path,
        """
        @app.task(process=True)
        def here():
            return __name__
        """,
        "this.py",  # the file's own name is another module's
    )
    (tmp_path / "w.yaml").write_text("name: w\nnodes:\n  n: {type: task, task: here}\n")
    said, _ = run(
        Path(sys.executable).with_name("tenuto"),
        *("run", "w.yaml", "--app", "this.py", "--database", "runs.db", "-o", "json"),
        folder=tmp_path,
    )

    assert "tenuto_app_this" in said


def test_print_goes_where_the_programs_prints_go_and_nothing_is_left_at_the_end(
    tmp_path: Path,
) -> None:
    """Warnings are errors: no zombie, no unclosed descriptor, no tracker's complaint."""
    path = program(
        tmp_path,
        """
        @app.task(process=True)
        def speak():
            print("out")
            print("err", file=sys.stderr)
            return os.getpid()

        if __name__ == "__main__":
            pid = app.enqueue(speak).result(timeout=60)
            app.close()
            print(os.path.exists(f"/proc/{pid}"))
        """,
    )

    assert run(path, folder=tmp_path) == ("out\nFalse\n", "err\n")


def test_a_program_that_ends_without_closing_leaves_nothing(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        """
        @app.task(process=True)
        def pid():
            return os.getpid()

        if __name__ == "__main__":
            print(app.enqueue(pid).result(timeout=60))
        """,
    )

    said, complaint = run(path, folder=tmp_path)
    assert not Path(f"/proc/{said.strip()}").exists()
    assert complaint == ""


def test_ctrl_c_in_the_terminal_reaches_no_child(tmp_path: Path) -> None:
    """The whole foreground group gets SIGINT; the attempt ends within the drain, and nobody prints a traceback."""
    path = program(
        tmp_path,
        """
        @app.task(process=True)
        def work(go):
            print("up", flush=True)
            return open(go).read()

        if __name__ == "__main__":
            run = app.enqueue(work, go="go")
            try:
                print("waiting", flush=True)
                run.result()
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            app.close()
            with Tenuto("runs.db") as again:
                print(again.get_run(run.id).result(timeout=60))
        """,
    )
    os.mkfifo(tmp_path / "go")
    child = subprocess.Popen(
        [sys.executable, str(path)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdout is not None
    assert {child.stdout.readline() for _ in range(2)} == {"up\n", "waiting\n"}
    os.killpg(child.pid, signal.SIGINT)
    assert child.stdout.readline() == "interrupted\n"
    (tmp_path / "go").write_text("done")
    out, err = child.communicate(timeout=60)

    assert (out, err, child.returncode) == ("done\n", "", 0)


@pytest.mark.parametrize("processes", [0, -1, 1.5])
def test_a_bound_that_is_none_is_refused(processes: int) -> None:
    with pytest.raises(InvalidInput, match="processes must be whole numbers"):
        Tenuto(processes=processes)

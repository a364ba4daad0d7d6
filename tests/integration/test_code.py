"""Code nodes whole: a real engine, its language server and interpreters, in each of the three languages."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_engine import Driver, engine_with

from tenuto.model.ids import Place
from tenuto.model.payload import PayloadKind
from tenuto.model.states import RunState
from tenuto.settings.tree import Languages

ALL = ("python", "javascript", "cpython")
SETTING = Languages(memory=64 * 2**20, time_us=60_000_000, output=65_536)
"""Half of the usual memory, so that bombs go off sooner; and time for them to do so on a busy machine."""


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with engine_with(languages=SETTING) as driver:
        yield driver


def workflow(language: str, code: str, keys: str = "", params: object = None) -> str:
    """A workflow of one code node."""
    node = {"type": "code", "language": language, "code": code, "params": params or {}}
    text = json.dumps(node, ensure_ascii=False)
    return f"name: w\nnodes:\n  a: {text[:-1]}{', ' + keys if keys else ''}}}\n"


def run(driver: Driver, language: str, code: str, keys: str = "", params: object = None) -> Any:
    """The output of a node that succeeds."""
    row = driver.run(workflow(language, code, keys, params))
    assert row.state == RunState.SUCCESS, failure(driver, row.run_id)
    return json.loads(driver.payload(row.run_id, "a", PayloadKind.OUTPUT))


def fail(driver: Driver, language: str, code: str, keys: str = "") -> dict[str, Any]:
    """The error of a node that fails."""
    row = driver.run(workflow(language, code, keys))
    assert row.state == RunState.FAILED, driver.payload(row.run_id, "a", PayloadKind.OUTPUT)
    return failure(driver, row.run_id)


def failure(driver: Driver, run_id: Any) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(driver.payload(run_id, "a", PayloadKind.ERROR))
    return error


def notes(driver: Driver, run_id: Any) -> list[tuple[str, str]]:
    rows = driver.ask(driver.engine.reads.notes(run_id, place=Place("a"), limit=2_000))
    return [(str(row.kind), row.text) for row in rows]


def in_each(python: str, javascript: str, cpython: str | None = None) -> pytest.MarkDecorator:
    """The same program in each language."""
    codes = zip(ALL, (python, javascript, cpython or python), strict=True)
    return pytest.mark.parametrize(("language", "code"), list(codes), ids=ALL)


HARD = {"text": "$${x} \"'\\ \t é 😀 \u2028", "n": 2**53, "f": 1.5, "l": [None, True, {}], "ü": 1}


@in_each("def main(params): return params", "function main(params) { return params }")
def test_params_come_and_go_unharmed(driver: Driver, language: str, code: str) -> None:
    """Catalogue I-16."""
    assert run(driver, language, code, params={"v": "${1 + 1}"}) == {"v": 2}
    assert run(driver, language, code, params=HARD) == HARD | {"text": str(HARD["text"])[1:]}


@pytest.mark.rule("X7.1")
@in_each(
    'def main(params): return "${a} $${b} \\u00e9 é 😀 \\"\'{{x}}"',
    'function main(params) { return "${a} $${b} \\u00e9 é 😀 \\"\'{{x}}" }',
)
def test_code_is_no_template(driver: Driver, language: str, code: str) -> None:
    assert run(driver, language, code) == "${a} $${b} é é 😀 \"'{{x}}"


@in_each(
    "async def main(params): return [await part(), 2]\nasync def part(): return 1",
    "async function main(params) { return [await part(), 2] }\nasync function part() { return 1 }",
)
def test_main_may_be_asynchronous(driver: Driver, language: str, code: str) -> None:
    assert run(driver, language, code) == [1, 2]


@in_each("def main(params): pass", "function main(params) {}")
def test_nothing_returned_is_null(driver: Driver, language: str, code: str) -> None:
    assert run(driver, language, code) is None


@in_each(
    "def main(params):\n    x = 0\n    return 1 / x",
    "function main(params) {\n  const x = null\n  return x.y\n}",
)
def test_an_exception_names_the_line_of_the_code(driver: Driver, language: str, code: str) -> None:
    error = fail(driver, language, code)

    kind = "TypeError" if language == "javascript" else "ZeroDivisionError"
    assert error["code"] == "code_error"
    assert error["message"].startswith(f"{kind}: ")
    assert error["message"].endswith(" (line 3)")
    assert error["details"]["type"] == kind
    assert error["details"]["line"] == 3
    assert error["details"]["traceback"]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        # The definition is checked for what stands there in plain sight.
        (
            "def main(params):\n    raise SystemExit(len([1]))",
            "exceptions are made of one text here",
        ),
        (
            "def main(params):\n    try:\n        import requests\n    finally: pass",
            "put it into a task",
        ),
        (
            "def main(params):\n    try:\n        import uuid\n    finally: pass",
            "say `language: cpython`",
        ),
    ],
)
def test_what_python_lacks_is_said_with_its_cure(driver: Driver, code: str, says: str) -> None:
    error = fail(driver, "python", code)

    assert error["code"] == "code_error"
    assert says in error["message"]
    assert "monty" not in error["message"]


def test_cpython_that_lacks_a_package_names_the_cure(driver: Driver) -> None:
    error = fail(driver, "cpython", "import no_such_package\ndef main(params): pass")

    assert "No module named 'no_such_package' (line 1); put it into a task" in error["message"]


@in_each(
    "def main(params):\n    print('é', 1)\n    print()\n    print('rest', end='')",
    "function main(params) { console.log('é', 1); console.info(''); console.log('rest') }",
)
def test_what_is_printed_is_noted_line_by_line(driver: Driver, language: str, code: str) -> None:
    row = driver.run(workflow(language, code))

    assert notes(driver, row.run_id) == [("stdout", "é 1"), ("stdout", ""), ("stdout", "rest")]


@in_each(
    "import sys\ndef main(params): print('oh', file=sys.stderr)",
    "function main(params) { console.error('oh') }",
)
def test_the_error_stream_is_noted_as_such(driver: Driver, language: str, code: str) -> None:
    row = driver.run(workflow(language, code))

    assert notes(driver, row.run_id) == [("stderr", "oh")]


@in_each(
    "def main(params):\n    print('before')\n    while True: pass",
    "function main(params) { console.log('before'); while (true); }",
)
def test_logs_are_kept_when_the_time_is_over(driver: Driver, language: str, code: str) -> None:
    trivial = (
        "function main() { return 1 }" if language == "javascript" else "def main(params): return 1"
    )
    assert run(driver, language, trivial) == 1  # what has to be started has been
    for time in ("2s", "15s"):  # on a busy machine it may be over before the code has begun
        row = driver.run(workflow(language, code, f"timeout: {time}"))
        assert failure(driver, row.run_id)["code"] == "timeout"
        if kept := notes(driver, row.run_id):
            break

    assert kept == [("stdout", "before")]


@in_each(
    "def main(params):\n    while True: pass",
    "function main(params) { while (true); }",
)
def test_without_a_timeout_the_time_is_limited_too(language: str, code: str) -> None:
    with engine_with(languages=Languages(time_us=200_000)) as driver:
        error = fail(driver, language, code)

    assert error["code"] == "timeout"
    assert error["message"] == "the code took longer than 200ms"


def test_a_timeout_may_be_longer_than_the_languages_own() -> None:
    code = "import time\ndef main(params):\n    time.sleep(0.4)\n    return 1"
    with engine_with(languages=Languages(time_us=100_000)) as driver:
        assert run(driver, "cpython", code, "timeout: 60s") == 1


@in_each(
    "import re\ndef main(params): return 'x' * 10_000_000_000",
    "function main(params) { const a = []; while (true) a.push('x'.repeat(100000) + a.length) }",
)
def test_a_memory_bomb_is_a_failure_of_its_own(driver: Driver, language: str, code: str) -> None:
    assert fail(driver, language, code) == {
        "code": "memory",
        "message": "the code needs more memory than 64 MiB",
        "kind": "task",
        "details": None,
        "node": "a",
    }


@in_each(
    "def main(params):\n    found = []\n    while True: found.append([0] * 100)",
    "function main(params) { const a = []; while (true) a.push([1, 2, 3]) }",
)
def test_a_list_that_grows_for_ever_is_stopped(driver: Driver, language: str, code: str) -> None:
    assert fail(driver, language, code)["code"] == "memory"


@in_each(
    "def main(params): return 'x' * 100_000",
    "function main(params) { return 'x'.repeat(100000) }",
)
def test_a_result_that_is_too_large_is_refused(driver: Driver, language: str, code: str) -> None:
    error = fail(driver, language, code)

    assert error["code"] == "output_too_large"
    assert "100,002 bytes of JSON, more than the 65,536 allowed" in error["message"]


@in_each(
    "def main(params):\n    for n in range(1_000_000): print(n)\n    return 1",
    "function main(params) { for (let n = 0; n < 1_000_000; n++) console.log(n); return 1 }",
)
def test_a_million_lines_are_bounded(driver: Driver, language: str, code: str) -> None:
    row = driver.run(workflow(language, code, "timeout: 60s"))

    assert row.state == RunState.SUCCESS
    kept = notes(driver, row.run_id)
    assert 900 < len(kept) <= 1_001
    assert ("stdout", "0") in kept
    assert any("dropped" in text for _, text in kept)


@in_each(
    "def f(n): return f(n + 1)\ndef main(params): return f(0)",
    "function f(n) { return f(n + 1) + 1 }\nfunction main(params) { return f(0) }",
)
def test_endless_recursion_is_an_exception(driver: Driver, language: str, code: str) -> None:
    error = fail(driver, language, code)

    assert error["code"] == "code_error"
    assert error["details"]["type"] in ("RecursionError", "RangeError", "InternalError")


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("javascript", "function main() { return /(a+)+b/.test('a'.repeat(80)) }"),
        ("cpython", "import re\ndef main(params): return re.match('(a+)+b', 'a' * 80)"),
    ],
)
def test_a_regex_that_never_ends_is_stopped(driver: Driver, language: str, code: str) -> None:
    assert fail(driver, language, code, "timeout: 300ms")["code"] == "timeout"


BAD = {
    "python": [
        ("{'a': [1, {'b': float('nan')}]}", "result.a[1].b is NaN"),
        ("[float('-inf')]", "result[0] is an infinity"),
        ("{'x': b'1'}", "result.x is a bytes"),
        ("{1, 2}", "result is a set"),
        ("{1: 2}", "result has the key 1 (int)"),
        ("{'a b': print}", 'result["a b"] is a '),
        ("[2 ** 64]", "result[0] is an integer beyond 64 bits"),
        ("-2 ** 63 - 1", "result is an integer beyond 64 bits"),
        ("'a' + chr(0)", "result holds a NUL character"),
    ],
    "javascript": [
        ("{a: [1, {b: NaN}]}", "result.a[1].b is NaN"),
        ("[-Infinity]", "result[0] is an infinity"),
        ("{x: new Uint8Array(2)}", "result.x is a Uint8Array"),
        ("new Set([1])", "result is a Set"),
        ("{'a b': main}", 'result["a b"] is a function'),
        ("{a: undefined}", "result.a is undefined"),
        ("[1n]", "result[0] is a BigInt"),
        ("new Date(0)", "result is a Date"),
        ("Symbol('x')", "result is a symbol"),
        ("1e20", "result is an integer beyond 64 bits"),
        ("'a\\0'", "result holds a NUL character"),
        ("'\\ud800'", "result holds a lone surrogate"),
    ],
}
BAD["cpython"] = [
    *BAD["python"],
    ("chr(0xD800)", "result holds a lone surrogate"),
    ("object()", "result is an object"),
]


@pytest.mark.parametrize(
    ("language", "value", "says"),
    [(language, value, says) for language in ALL for value, says in BAD[language]],
)
def test_what_json_cannot_hold_is_refused_with_its_place(
    driver: Driver, language: str, value: str, says: str
) -> None:
    """Catalogue I-16."""
    code = f"def main(params):\n    return {value}"
    if language == "javascript":
        code = f"function main(params) {{ return ({value}) }}"

    error = fail(driver, language, code)

    assert error["code"] == "invalid_result"
    assert says in error["message"]


@in_each(
    "def main(params):\n    a = []\n    a.append(a)\n    return a",
    "function main(params) { const a = []; a.push(a); return a }",
)
def test_a_result_that_holds_itself_is_refused(driver: Driver, language: str, code: str) -> None:
    error = fail(driver, language, code)

    assert error["code"] == "invalid_result"
    assert "contains itself" in error["message"]


@in_each(
    "def main(params):\n    a = []\n    for n in range(70): a = [a]\n    return a",
    "function main(params) { let a = []; for (let n = 0; n < 70; n++) a = [a]; return a }",
)
def test_a_result_that_is_too_deep_is_refused(driver: Driver, language: str, code: str) -> None:
    error = fail(driver, language, code)

    assert error["code"] == "invalid_result"
    assert "deeper than 64 levels" in error["message"]


@in_each(
    "def main(params): return [{'n': n, 't': (n,)} for n in range(900)]",
    "function main(params) { return Array.from({length: 900}, (_, n) => ({n, t: [n]})) }",
)
def test_a_usual_large_result_passes(driver: Driver, language: str, code: str) -> None:
    assert run(driver, language, code) == [{"n": n, "t": [n]} for n in range(900)]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import os\ndef main(params): os._exit(3)", "ended with the exit code 3"),
        ("import sys\ndef main(params): sys.exit('no')", "SystemExit: no (line 2)"),
        ("import os\ndef main(params): os.fork()", "PermissionError: [Errno 1]"),
        ("import os\ndef main(params):\n    while True: os.fork()", "PermissionError: [Errno 1]"),
        ("import subprocess\ndef main(params): subprocess.run('ls')", "PermissionError: [Errno 1]"),
        ("import os\ndef main(params): os.execv('/bin/ls', ['ls'])", "PermissionError: [Errno 1]"),
        ("import os\ndef main(params): os.kill(os.getpid(), 11)", "by the signal SIGSEGV"),
        ("import os\ndef main(params): os.closerange(0, 100)", "before `main` returned"),
        ("def main(params):\n    with open('x', 'w') as f:\n        f.write('x' * 10**8)", "Error"),
    ],
)
def test_cpython_code_harms_only_itself(driver: Driver, code: str, says: str) -> None:
    error = fail(driver, "cpython", code)

    assert error["code"] in ("code_error", "memory")
    assert says in error["message"] or error["code"] == "memory"
    assert run(driver, "cpython", "def main(params): return 1") == 1


@pytest.mark.parametrize(
    "said",
    [
        "json.dumps({'output': '{}', 'dropped': 10**30})",
        "json.dumps({'output': '\\ud800'})",
        "json.dumps({'code': 'nope', 'message': []})",
        "'[' * 100_000",
        "'no JSON'",
    ],
)
def test_an_answer_that_cpython_code_forges_is_no_more_than_its_result(
    driver: Driver, said: str
) -> None:
    code = (
        "import json, os\ndef main(params):\n    for fd in range(3, 100):\n"
        f"        try: os.write(fd, ({said}).encode())\n"
        "        except OSError: pass\n    os._exit(0)"
    )
    row = driver.run(workflow("cpython", code))

    if row.state == RunState.FAILED:
        assert failure(driver, row.run_id)["code"] == "invalid_result"
    assert run(driver, "cpython", "def main(params): return 1") == 1


@pytest.mark.parametrize(
    "call", ["l.syscall(438, server, 4, 0)", "l.ptrace(16, os.getppid(), 0, 0)"]
)
def test_cpython_code_does_not_look_into_other_processes(driver: Driver, call: str) -> None:
    code = (
        "import ctypes, os\ndef main(params):\n"
        "    l, server = ctypes.CDLL(None, use_errno=True), os.pidfd_open(os.getppid())\n"
        f"    return [{call}, ctypes.get_errno()]"
    )

    assert run(driver, "cpython", code) == [-1, 1]


def test_cpython_code_sees_an_empty_folder_and_no_environment(driver: Driver) -> None:
    code = (
        "import os, sys\ndef main(params):\n"
        "    open('left', 'w').close()\n"
        "    return [sorted(os.environ), os.listdir('.'), os.getcwd(), 'tenuto' in sys.modules]"
    )

    for _ in range(2):
        environment, files, folder, knows_us = run(driver, "cpython", code)
        assert set(environment) <= {"LC_CTYPE"}
        assert files == ["left"]
        assert not Path(folder).exists()
        assert knows_us is False


def test_cpython_threads_work(driver: Driver) -> None:
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def main(params):\n"
        "    with ThreadPoolExecutor(4) as pool: return list(pool.map(abs, [-1, -2, -3]))"
    )

    assert run(driver, "cpython", code) == [1, 2, 3]


def test_cpython_that_is_off_says_how_to_turn_it_on() -> None:
    with engine_with(languages=Languages(cpython="off")) as driver:
        error = fail(driver, "cpython", "def main(params): return 1")

    assert error["code"] == "language_unavailable"
    assert "TENUTO_LANGUAGES__CPYTHON" in error["message"]


@pytest.mark.parametrize(
    "code",
    [
        "import os\ndef main(params): return os.listdir('/')",
        "def main(params): return open('/etc/passwd').read()",
        "import os\ndef main(params): return os.environ['PATH']",
    ],
)
def test_python_reaches_nothing_of_the_host(driver: Driver, code: str) -> None:
    assert fail(driver, "python", code)["code"] == "code_error"


@pytest.mark.parametrize(
    "name", ["require", "process", "fetch", "std", "os", "__say", "setTimeout"]
)
def test_javascript_is_given_nothing_but_console(driver: Driver, name: str) -> None:
    assert run(driver, "javascript", f"function main() {{ return typeof {name} }}") == "undefined"


@in_each(
    "found = []\ndef main(params):\n    found.append(1)\n    return len(found)",
    "globalThis.found ??= 0\nfunction main(params) { return ++globalThis.found }",
)
def test_nothing_is_left_for_the_next_execution(driver: Driver, language: str, code: str) -> None:
    assert [run(driver, language, code) for _ in range(3)] == [1, 1, 1]


@in_each(
    "def main(params): return params['n'] * 2",
    "function main(params) { return params.n * 2 }",
)
def test_a_hundred_at_once_all_get_their_own_result(
    driver: Driver, language: str, code: str
) -> None:
    runs = [driver.begin(workflow(language, code, params={"n": n})) for n in range(100)]

    for n, run_id in enumerate(runs):
        row = driver.end(run_id)
        assert row.state == RunState.SUCCESS
        assert json.loads(driver.payload(run_id, "a", PayloadKind.OUTPUT)) == n * 2


@pytest.mark.parametrize("language", ALL)
def test_a_server_that_is_killed_costs_one_attempt(tmp_path: Path, language: str) -> None:
    """The code spins until a file is there; only `cpython` can see it, the others spin in their first attempt."""
    code = "def main(params):\n    print('on')\n    while params['n'] == 0: pass\n    return 1"
    if language == "javascript":
        code = "function main({n}) { console.log('on'); while (n == 0); return 1 }"
    text = (
        "name: w\nnodes:\n"
        "  s: {type: task, task: count}\n"
        f"  a: {json.dumps({'type': 'code', 'language': language, 'code': code})[:-1]},"
        " needs: s, params: {n: 0}, retry: {max_attempts: 2, initial: 10ms}, timeout: 30s}\n"
    )
    with engine_with(count, languages=SETTING) as driver:
        run_id = driver.begin(text)
        wait_for_note(driver, run_id)
        os.kill(server_of(driver), signal.SIGKILL)
        wait_for(lambda: len(notes(driver, run_id)) == 2)
        driver.ask(driver.engine.commands.cancel(run_id, ""))
        assert driver.end(run_id).state == RunState.CANCELLED
        assert driver.kinds(run_id).count("AttemptFailed") == 1
        code = code.replace("== 0", "== 1")
        assert run(driver, language, code, params={"n": 0}) == 1


def test_a_start_of_the_server_that_takes_longer_than_a_timeout_is_not_begun_anew() -> None:
    """Starting it takes longer than any attempt here may last."""
    with engine_with(languages=SETTING) as driver:
        keys = "timeout: 100ms, retry: {max_attempts: 1000, initial: 1ms, factor: 1}"
        assert run(driver, "python", "def main(params): return 1", keys) == 1


def count() -> int:
    return 1


def server_of(driver: Driver) -> int:
    worker = driver.engine._worker
    assert worker is not None
    pid = worker._languages.pid
    assert pid is not None
    return pid


def wait_for_note(driver: Driver, run_id: Any) -> None:
    wait_for(lambda: bool(notes(driver, run_id)))


def wait_for(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    while not holds():
        pause.wait(0.02)

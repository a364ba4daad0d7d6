"""The table of mistakes: what a newcomer does wrong, at every door, and the whole of what he is told.

No traceback, the exit code or status that DESIGN section 7 gives, and nothing stored. What one door alone gets wrong in
many ways has tables of its own: test_bad_input, test_settings_mistakes, test_cli_server, test_dev.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import COMMAND, HANG_S
from tests.support.command import Tenuto as Command
from tests.support.mistakes import Doors, Met, Mistake, Request, Shell
from tests.support.rest import AWAIT, ECHO, PAUSE, serving

import tenuto
from tenuto import testing
from tenuto.api.limits import Limits
from tenuto.sdk.problems import START

_tenuto: Any = tenuto
Tenuto: Any = tenuto.Tenuto
engine: Any = testing.engine
"""Untyped: rows give what types forbid."""

OK, FAILED, USAGE, NOT_FOUND, CONFLICT, UNAVAILABLE = 0, 1, 2, 3, 4, 6
INTERRUPTED = 130

# -- the command line --------------------------------------------------------------------------------------------------

RUN = "tenuto run greet.yaml"
NAMED = f"{RUN} --set name=x"

CLI = [
    Mistake("cli", "a verb of another product", Shell("tenuto serve"),
            "error: No such command 'serve'. Did you mean `tenuto dev`? See `tenuto --help`", USAGE),
    Mistake("cli", "a verb without its noun", Shell("tenuto list"),
            "error: No such command 'list'. Did you mean `tenuto run list`? See `tenuto --help`", USAGE),
    Mistake("cli", "help as a verb", Shell("tenuto help"),
            "error: No such command 'help'. Did you mean `tenuto --help`? See `tenuto --help`", USAGE),
    Mistake("cli", "a misspelt option", Shell(f"{RUN} --inptu '{{}}'"),
            "error: No such option: --inptu (Possible options: --input); see `tenuto run FILE --help`",
            USAGE),
    Mistake("cli", "an option of another product", Shell("tenuto dev --host 0.0.0.0"),
            "error: No such option: --host (Possible options: --port); see `tenuto dev --help`", USAGE),
    Mistake("cli", "an option without its value", Shell(f"{RUN} --input"),
            "error: Option '--input' requires an argument; see `tenuto run FILE --help`", USAGE),
    Mistake("cli", "two files", Shell(f"{NAMED} approval.yaml"),
            "error: Got unexpected extra argument(s) (approval.yaml); see `tenuto run FILE --help`", USAGE),
    Mistake("cli", "a shell is missing", Shell("tenuto completion"),
            "error: Missing argument 'bash|zsh|fish'. Choose from: bash, zsh, fish; "
            "see `tenuto completion --help`", USAGE),
    Mistake("cli", "JSON in single quotes", Shell(f"""{RUN} --input "{{'name': 'x'}}" """),
            """error: --input: "{'name': 'x'}" is no JSON: Expecting property name enclosed in double """
            """quotes at line 1, column 2; quote it for the shell: '{"key": 1}'""", USAGE),
    Mistake("cli", "a comma too many", Shell(f"""{RUN} --input '{{"name": "x" }}{{'"""),
            """error: --input: '{"name": "x" }{' is no JSON: Extra data at line 1, column 15""", USAGE),
    Mistake("cli", "an input file that is not there", Shell(f"{RUN} --input @inptu.json",
            files={"input.json": "{}"}),
            "error: no file 'inptu.json'; did you mean input.json?", NOT_FOUND),
    Mistake("cli", "an input file that is cut off", Shell(f"{RUN} --input @in.json",
            files={"in.json": '{"name":\n'}),
            "error: --input: in.json is no JSON: Expecting value at line 2, column 1", USAGE),
    Mistake("cli", "an input file with a comma too many", Shell(f"{RUN} --input @in.json",
            files={"in.json": '{"name": [1,\n]}'}),
            "error: --input: in.json is no JSON: a comma before the closing bracket at line 2, column 1; "
            "take it out", USAGE),
    Mistake("cli", "a list for an object", Shell(f"{RUN} --input '[1]'"),
            "error: input: [1] is not of type 'object'; give an object", USAGE),
    Mistake("cli", "a set without a name", Shell(f"{RUN} --set =x"),
            "error: --set: '=x' is not of the form name=value", USAGE),
    Mistake("cli", "a script for a definition", Shell("tenuto run app.py"),
            "error: 'app.py' is no .yaml, .yml or .json file", USAGE),
    Mistake("cli", "a script for a folder", Shell("tenuto dev app.py"),
            "error: 'app.py' is no .yaml, .yml or .json file, and no folder; "
            "name an app with --app app.py", USAGE),
    Mistake("cli", "no word behind a noun", Shell("tenuto event send"),
            "error: Missing argument 'NAME'; see `tenuto event send --help`", USAGE),
    Mistake("cli", "an event without its key", Shell("tenuto event send order.approved"),
            "error: Missing option '--key'; see `tenuto event send --help`", USAGE),
    Mistake("cli", "an engine that comes later", Shell(f"{NAMED} --database mysql://h/d"),
            "error: database: 'mysql' is no kind of database; write a path, sqlite:///path or "
            "postgresql://user@host/name", USAGE),
    Mistake("cli", "a URL with two slashes", Shell(f"{NAMED} --database sqlite://x.db"),
            "error: database: sqlite URLs have no host, but this one names 'x.db'; write sqlite:///x.db",
            USAGE),
    Mistake("cli", "an empty variable for a database", Shell(f'{NAMED} --database "$NOWHERE"'),
            "error: database: is empty; give a file such as .tenuto/tenuto.db", USAGE),
    Mistake("cli", "an alias where nothing is", Shell("tenuto workflow alias greet stable 1"),
            "error: no workflow 'greet'; there is no file .tenuto/tenuto.db; `tenuto deploy FILE` stores one",
            NOT_FOUND),
    Mistake("cli", "a deletion where nothing is", Shell("tenuto workflow delete greet@1 --yes"),
            "error: no workflow 'greet'; there is no file .tenuto/tenuto.db; `tenuto deploy FILE` stores one",
            NOT_FOUND),
    Mistake("cli", "a diff of a file that is wrong", Shell("tenuto workflow diff greet.yaml bad.yaml",
            files={"bad.yaml": "name: bad\nnodes: {a: {type: tusk}}\n"}),
            "error: bad.yaml:2:19: error unknown_type: there is no node type `tusk`\n"
            "    hint: did you mean `task`?", USAGE),
    Mistake("cli", "an empty variable for a server", Shell('tenuto run list --url "$NOWHERE"'),
            "error: --url: is empty; give one like http://127.0.0.1:8080", USAGE),
]  # fmt: skip

# -- files -------------------------------------------------------------------------------------------------------------


def yaml(what: str, text: str, said: str) -> Mistake:
    """A definition that is wrong, deployed by the SDK: what `validate` prints."""

    def deploy(doors: Doors) -> object:
        return doors.app.deploy(doors.file("x.yaml", f"name: x\n{text}"))

    return Mistake("file", what, deploy, f"x.yaml:{said}", "InvalidDefinition")


ONE = "  a: {type: wait, for: 1s}\n"

FILES = [
    yaml("a tab", "nodes:\n\ta: {type: wait}\n",
         "3:1: error syntax: this is not YAML: found character that cannot start any token\n"
         "    hint: a tab cannot indent; use spaces"),
    yaml("no colon", f"nodes\n{ONE}",
         "3:4: error syntax: this is not YAML: could not find expected ':'\n"
         "    hint: check the indentation, and that every quote and bracket above is closed"),
    yaml("two of a key", f"nodes:\n{ONE}{ONE}",
         "4:3: error duplicate_key: `a` stands twice in the same mapping; the first is on line 3\n"
         "    hint: keep one of the two"),
    yaml("a list of nodes", "nodes:\n  - {type: wait, for: 1s}\n",
         "3:3: error wrong_type: `nodes` is a list; it must be a mapping\n"
         "    hint: write `nodes: {first: {type: task, task: …}}`"),
    yaml("a misspelt node type", "nodes:\n  a: {type: wiat, for: 1s}\n",
         "3:13: error unknown_type: there is no node type `wiat`\n    hint: did you mean `wait`?"),
    yaml("a key of another product", f"nodes:\n{ONE}  b: {{type: wait, for: 1s, depends_on: [a]}}\n",
         "4:28: error unknown_key: a wait node has no key `depends_on`\n    hint: did you mean `needs`?"),
    yaml("steps for nodes", f"nodes:\n{ONE}steps: []\n",
         "4:1: error unknown_key: the workflow has no key `steps`\n    hint: did you mean `nodes`?"),
    yaml("an unknown need", f"nodes:\n{ONE}  b: {{type: wait, for: 1s, needs: [aa]}}\n",
         "4:36: error unknown_node: there is no node `aa`\n    hint: did you mean `a`?"),
    yaml("a cycle", "nodes:\n  a: {type: wait, for: 1s, needs: [b]}\n  b: {type: wait, for: 1s, needs: [a]}\n",
         "3:36: error cycle: `a → b → a` is a cycle; mark the edge that goes back with `loop: {max: N}`\n"
         "    hint: if `b → a` goes back, write `loop: {max: 10}` on it"),
    yaml("an edge of the wrong form", f"nodes:\n{ONE}  b: {{type: wait, for: 1s}}\nedges: [a => b]\n",
         "5:9: error edge_form: this is not an edge\n"
         "    hint: write `a -> b`, or `{from: a, to: b}` with `on`, `when`, `else` or `loop`"),
    yaml("a half expression", "nodes:\n  a: {type: set, values: {x: '${input.n +}'}}\n",
         "3:42: error expression: the expression ends too early\n    hint: mend the expression here"),
    yaml("an expression that is not closed", "nodes:\n  a: {type: set, values: {x: '${input.n'}}\n",
         "3:31: error template_unclosed: `${` is never closed\n"
         "    hint: close it with `}`; a literal `${` is written `$${`"),
    yaml("an expression of Python's", f"nodes:\n  s: {{type: switch}}\n{ONE}edges:\n"
         "  - {from: s, to: a, when: 'true and true'}\n  - {from: s, to: a, else: true}\n",
         "6:34: error expression: unexpected `and`: write `&&`\n    hint: mend the expression here"),
    yaml("a misspelt node in an expression", f"nodes:\n{ONE}"
         "  b: {type: set, values: {x: '${nodes.aa.output}'}, needs: [a]}\n",
         "4:33: error unknown_reference: there is no node `aa`\n    hint: did you mean `nodes.a`?"),
    yaml("a duration without a unit", "nodes:\n  a: {type: wait, for: 5}\n",
         "3:24: error duration_type: `for` is a number; a duration is text with a unit\n"
         "    hint: write it like `5s`"),
    yaml("a node's name with a hyphen", "nodes:\n  my-node: {type: wait, for: 1s}\n",
         "3:3: error bad_id: `my-node` cannot be a node's id: it must be up to 63 letters, digits and `_`, and "
         "begin with no digit\n    hint: rename it, for example to `my_node`"),
    yaml("code that is no Python", "nodes:\n  a: {type: code, language: python, code: 'def main(params:'}\n",
         "3:52: error code_syntax: this is not Python: '(' was never closed\n    hint: mend the code here"),
    yaml("code without a main", "nodes:\n  a: {type: code, language: javascript, code: 'let x = 1'}\n",
         "3:48: error code_no_main: the code has no `main`\n"
         "    hint: define `function main(params) { … }`; what it returns is the node's output"),
    yaml("a language that is none", "nodes:\n  a: {type: code, language: ruby, code: x}\n",
         "3:29: error bad_value: `language` cannot be `ruby`; it must be one of python, javascript, cpython\n"
         "    hint: write one of python, javascript, cpython"),
    Mistake("file", "a link to nowhere", Shell("ln -s nowhere.yaml l.yaml; tenuto run l.yaml"),
            "error: no file 'l.yaml'; it is a link to nowhere.yaml, which is not there", NOT_FOUND),
    Mistake("file", "a pipe that nobody fills", Shell("mkfifo f.yaml; tenuto run f.yaml"),
            "error: f.yaml is no file that can be read again; give one, or -", USAGE),
    Mistake("file", "a file for a folder", Shell("tenuto run app.py/greet.yaml"),
            "error: app.py/greet.yaml cannot be read: Not a directory", USAGE),
    Mistake("file", "a file where the folder of the database should be", Shell(f"touch .tenuto; {NAMED}"),
            "error: .tenuto/tenuto.db cannot be made: .tenuto is no directory; name another file with "
            "--database", UNAVAILABLE),
    Mistake("file", "a file where the folder of a server's database should be",
            Shell("touch .tenuto; tenuto dev --port 0"),
            "error: .tenuto/tenuto.db cannot be made: .tenuto is no directory; name another file with "
            "--database", UNAVAILABLE),
    Mistake("file", "a database where nobody may write", Shell(f"{NAMED} --database /proc/t.db"),
            "error: /proc/t.db cannot be locked: t.db.lock: No such file or directory; make the directory "
            "writable", UNAVAILABLE),
    Mistake("file", "a full disk for a database", Shell(f"{NAMED} --database /dev/full"),
            "error: /dev/full cannot grow: the disk is full; free some space", UNAVAILABLE),
    Mistake("file", "a text for a database", Shell(f"mkdir d; seq 1000 > d/t; {NAMED} --database d/t"),
            "error: d/t is not a database; name another file, this one is left as it is", CONFLICT),
    Mistake("file", "an empty file on standard input", Shell("tenuto run -"),
            "error: <stdin>:1:1: error syntax: this is not YAML: it is empty\n"
            "    hint: start with `name:` and `nodes:`", USAGE),
]  # fmt: skip

# -- the user's app ----------------------------------------------------------------------------------------------------

HEAD = "from tenuto import Tenuto\napp = Tenuto()\n"
HELLO = f"{HEAD}@app.task\ndef hello(name, greeting): return name\n"


def app(what: str, text: str, said: str) -> Mistake:
    """An app.py that is wrong."""
    return Mistake("app", what, Shell(NAMED, app=text), f"error: {said}", USAGE)


def broken(what: str, text: str, said: str, at: str) -> Mistake:
    """An app.py that raises, with the line that did."""
    return app(what, text, f"the app app.py cannot be loaded: {said}\n  app.py:{at}")


APPS = [
    app("a syntax error", f"{HEAD}x = (\n",
        "the app app.py has a syntax error: '(' was never closed\n  app.py:3: x = ("),
    app("no app", "x = 1\n", "app.py has no 'app'; write `app = Tenuto()` in it"),
    app("an app of another framework", "import fastapi\napp = fastapi.FastAPI()\n",
        "app.py:app is a FastAPI, not a Tenuto; write `app = Tenuto()` in it"),
    app("the class itself", "from tenuto import Tenuto\napp = Tenuto\n",
        "app.py:app is a class, not a Tenuto; write `app = Tenuto()` in it"),
    broken("a module that is not installed", "import nowhere_module\n",
           "ModuleNotFoundError: No module named 'nowhere_module'", "1: import nowhere_module"),
    broken("it ends the process", "import sys\nsys.exit(3)\n", "SystemExit: 3", "2: sys.exit(3)"),
    broken("a task twice", f"{HELLO}@app.task\ndef hello(): pass\n",
           "InvalidTask: two tasks are named 'hello': app.hello (line 3) and app.hello (line 5); "
           "give one of them another name", "5: @app.task"),
    broken("a generator", f"{HEAD}@app.task\ndef a(): yield 1\n",
           "InvalidTask: task 'a' is a generator; a task returns one value", "3: @app.task"),
    broken("a parameter by position", f"{HEAD}@app.task\ndef a(x, /): pass\n",
           "InvalidTask: task 'a' takes 'x' by position only; params are keyword arguments", "3: @app.task"),
    broken("an annotation that is not there", f"{HEAD}@app.task\ndef a(x: 'Nix'): pass\n",
           "InvalidTask: task 'a': the annotation of 'x', `Nix`, names 'Nix', which is not there when the "
           "module runs; import or define it at the top level of the module, outside `if TYPE_CHECKING:`",
           "3: @app.task"),
    broken("an annotation that JSON cannot become", f"import io\n{HEAD}@app.task\ndef a(x: io.StringIO): pass\n",
           "InvalidTask: task 'a': parameter 'x' is annotated with `StringIO`, which params (JSON) cannot become; "
           "take a text or a number that names it, or a model of it", "4: @app.task"),
    broken("a name by position", f'{HEAD}@app.task("hello")\ndef a(): pass\n',
           "InvalidTask: 'hello' is no function; write @app.task above one, or @app.task(name=…)",
           '3: @app.task("hello")'),
    broken("an option of another product", f"{HEAD}@app.task(retries=3)\ndef a(): pass\n",
           "TypeError: Tenuto.task() got an unexpected keyword argument 'retries'",
           "3: @app.task(retries=3)"),
    broken("no slot", "from tenuto import Tenuto\napp = Tenuto(slots=0)\n",
           "InvalidInput: slots, threads and processes must be whole numbers of at least 1",
           "2: app = Tenuto(slots=0)"),
    broken("a lambda in a process", f"{HEAD}app.task(name='l', process=True)(lambda: 1)\n",
           "InvalidTask: task 'l' has process=True, and is a lambda, which another process cannot find; "
           "name it with `def`", "3: app.task(name='l', process=True)(lambda: 1)"),
    broken("an inner function in a process",
           f"{HEAD}def f():\n  @app.task(process=True)\n  def a(): pass\nf()\n",
           "InvalidTask: task 'a' has process=True, and stands inside another function, where another "
           "process cannot find it; move it to the top level of its module",
           "4: @app.task(process=True)"),
    broken("stderr closed, then an error", f"{HEAD}import sys\nsys.stderr.close()\n1 / 0\n",
           "ZeroDivisionError: division by zero", "5: 1 / 0"),
    broken("the descriptor of stderr closed, then an error", f"{HEAD}import os\nos.close(2)\n1 / 0\n",
           "ZeroDivisionError: division by zero", "5: 1 / 0"),
    Mistake("app", "runs are started by the import", Shell(NAMED, stores=True, app=(
            f"{HELLO}app.start('greet.yaml', {{'name': 'x'}}).result(timeout=30)\n")),
            "error: the app app.py opens its database while it is imported; put what starts runs under "
            '`if __name__ == "__main__":`', USAGE),
]  # fmt: skip

# -- ports, servers and the environment --------------------------------------------------------------------------------

NO_TENUTO = (
    "error: what answers at http://127.0.0.1:OTHER is no Tenuto server (status 200); check the address, or "
    + START
)
PORTS = [
    Mistake("port", "taken by another product", Shell("tenuto dev --port OTHER"),
            "error: port OTHER is in use by process PID; NEXT is free: --port NEXT", CONFLICT),
    Mistake("port", "no number", Shell("tenuto dev --port http"),
            "error: Invalid value for '--port': give a whole number; see `tenuto dev --help`", USAGE),
    Mistake("port", "below zero", Shell("tenuto dev --port -1"),
            "error: Invalid value for '--port': give 0 or more; "
            "see `tenuto dev --help`", USAGE),
    Mistake("port", "a server of another product", Shell("tenuto run list --url http://127.0.0.1:OTHER"),
            NO_TENUTO, UNAVAILABLE),
    Mistake("port", "a start on another product", Shell("tenuto run start greet --url http://127.0.0.1:OTHER"),
            NO_TENUTO, UNAVAILABLE),
    Mistake("port", "https for http", Shell("tenuto run list --url https://127.0.0.1:OTHER"),
            "error: https://127.0.0.1:OTHER answers without TLS; write http://127.0.0.1:OTHER", UNAVAILABLE),
    Mistake("port", "a URL without its scheme", Shell("tenuto run list --url 127.0.0.1:8080"),
            "error: --url: '127.0.0.1:8080' is no address of a server; write it like http://127.0.0.1:8080",
            USAGE),
    Mistake("port", "a port that cannot be", Shell("tenuto run list --url http://127.0.0.1:99999"),
            "error: --url: 'http://127.0.0.1:99999' is no address of a server; write it like "
            "http://127.0.0.1:8080", USAGE),
    Mistake("port", "an address that is none", Shell("tenuto run list --url http://256.1.1.1:8080"),
            "error: url: 'http://256.1.1.1:8080' is no address: Invalid IPv4 address: '256.1.1.1'", USAGE),
    Mistake("port", "a host that is not there", Shell("tenuto run list --url http://no..where:8080"),
            "error: http://no..where:8080 cannot be reached: its name is not known; check it",
            UNAVAILABLE),
    Mistake("environment", "a server that is not there", Shell("TENUTO_URL=http://127.0.0.1:1 tenuto run list"),
            "error: nobody listens at http://127.0.0.1:1; " + START, UNAVAILABLE),
    Mistake("environment", "a port that is no number", Shell("TENUTO_DEV__PORT=http tenuto dev"),
            "error: TENUTO_DEV__PORT: 'http' is no whole number; give one from 0 to 65535", USAGE),
    Mistake("environment", "a size that is none", Shell("TENUTO_LANGUAGES__MEMORY=lots tenuto doctor"),
            "error: TENUTO_LANGUAGES__MEMORY: 'lots' is no size; write it like 64KB, 128MiB or 1048576", USAGE),
    Mistake("environment", "a variable that is none", Shell(f"TENUTO_VARS_GREETING=Hi {NAMED}"),
            "error: TENUTO_VARS_GREETING: there is no such variable; `tenuto config show` lists the settings", USAGE),
    Mistake("environment", "a folder that is gone, dev", Shell("mkdir g; cd g; rmdir ../g; tenuto dev --port 0"),
            "error: the working directory is gone; change into one that exists", UNAVAILABLE),
    Mistake("environment", "a folder that is gone, init", Shell("mkdir g; cd g; rmdir ../g; tenuto init x"),
            "error: the working directory is gone; change into one that exists", UNAVAILABLE),
    Mistake("environment", "no input on standard input", Shell("tenuto run - <&-"),
            "error: <stdin>:1:1: error syntax: this is not YAML: it is empty\n"
            "    hint: start with `name:` and `nodes:`", USAGE),
    Mistake("environment", "a language with another encoding",
            Shell(f"LC_ALL=C {RUN} --set name=Zoë --var größe=x"),
            "error: vars.größe: the definition declares no such var; it declares `greeting`", USAGE),
    Mistake("environment", "an optimised Python", Shell("python -OO -m tenuto run greet.yaml"),
            "error: input: 'name' is a required property; add it: --set name=… or --input @FILE", USAGE),
    Mistake("environment", "an error to a disk that is full", Shell("tenuto run gret.yaml 2>/dev/full"),
            "", NOT_FOUND),
    Mistake("environment", "an error to nobody", Shell("tenuto run gret.yaml 2>&-"), "", NOT_FOUND),
]  # fmt: skip

# -- REST --------------------------------------------------------------------------------------------------------------

RUNS = "/v1/runs"
JSON = {"Content-Type": "application/json"}


def post(
    what: str, body: object, said: str, kind: str = "422 invalid_input", path: str = RUNS
) -> Mistake:
    """A body that is wrong."""
    return Mistake("rest", what, Request("POST", path, body), said, kind)


def raw(what: str, text: str, said: str, kind: str = "400 bad_request", **headers: str) -> Mistake:
    """A text for a body."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return Mistake(
        "rest", what, Request("POST", RUNS, text=text, headers=given or JSON), said, kind
    )


def get(what: str, path: str, said: str, kind: str = "422 invalid_input") -> Mistake:
    """An address that is wrong."""
    return Mistake("rest", what, Request("GET", path), said, kind)


E1 = {"n": 1}
NO_ALIAS = "is no alias; use at most 63 letters, digits, `_`, `.` and `-`, and begin with a letter, as in stable"

REST = [
    raw("JSON in single quotes", "{'workflow': 'echo'}",
        "the body is no JSON: line 1 column 2: unexpected character, expected a string key"),
    raw("a comma too many", '{"workflow": "echo",}',
        "the body is no JSON: line 1 column 20: trailing comma is not allowed"),
    raw("an empty body", "", "the body is empty; send a JSON object"),
    raw("a list for a body", "[]", "the body must be a JSON object", "422 invalid_input"),
    raw("a number without an end", '{"workflow": "echo", "input": NaN}',
        "the body is no JSON: line 1 column 31: unexpected character, expected a JSON value"),
    raw("a form", "workflow=echo",
        "the body is 'application/x-www-form-urlencoded'; send application/json",
        "415 unsupported_media_type", Content_Type="application/x-www-form-urlencoded"),
    raw("no kind of body", '{"workflow": "echo"}', "the request has no Content-Type; send application/json",
        "415 unsupported_media_type", Accept="*/*"),
    raw("a body without an end", f'{{"workflow": "{"x" * 4_200_000}"}}',
        "the body has 4,200,016 bytes; the limit is 4,194,304 (api.body)", "413 payload_too_large"),
    post("nothing said", {}, "workflow: is missing; add it"),
    post("a misspelt field", {"workflow": "echo", "inputs": E1},
         "inputs: there is no such field; did you mean 'input'?"),
    post("a number for a name", {"workflow": 5}, "workflow: must be text"),
    post("a text for a number", {"workflow": "echo", "version": "one"}, "version: must be a whole number"),
    post("a list for vars", {"workflow": "echo", "vars": [1]}, "vars: must be an object"),
    post("an unknown var", {"workflow": "echo", "input": E1, "vars": {"greting": 1}},
         "vars.greting: the definition declares no such var; did you mean `greeting`?"),
    post("an unknown workflow", {"workflow": "ecko"}, "no workflow 'ecko'; did you mean 'echo'?", "404 not_found"),
    post("an unknown version", {"workflow": "echo", "version": 9}, "no version 'echo 9'; the newest is 1",
         "404 not_found"),
    post("an alias that is none", {"workflow": "echo@stabel"}, "no alias 'echo@stabel'; echo has no aliases",
         "404 not_found"),
    post("a version named twice", {"workflow": "echo@1", "version": 1},
         "version: echo@1 says which one already; leave out the other"),
    post("a version left out", {"workflow": "echo@"},
         "workflow: 'echo@' names no version; write order@3, order@stable, or order for the newest"),
    Mistake("rest", "an alias that is a number", Request("PUT", "/v1/workflows/echo/aliases/3", {"version": 1}),
            f"alias: '3' {NO_ALIAS}", "422 invalid_input"),
    Mistake("rest", "an alias without a version", Request("PUT", "/v1/workflows/echo/aliases/stable", {}),
            "version: is missing; add it", "422 invalid_input"),
    Mistake("rest", "an alias of no version", Request("PUT", "/v1/workflows/echo/aliases/stable", {"version": 9}),
            "no version 'echo 9'; the newest is 1", "404 not_found"),
    Mistake("rest", "an alias of a text", Request("PUT", "/v1/workflows/echo/aliases/stable", {"version": "1"}),
            "version: must be a whole number", "422 invalid_input"),
    Mistake("rest", "a drop of nothing", Request("DELETE", "/v1/workflows/echo/aliases/stable"),
            "no alias 'echo@stable'; echo has no aliases", "404 not_found"),
    Mistake("rest", "aliases that are one text", Request("POST", "/v1/workflows", {"source": ECHO, "aliases": "a"}),
            "aliases: must be a list", "422 invalid_input"),
    Mistake("rest", "a deploy with an alias that is none",
            Request("POST", "/v1/workflows", {"source": PAUSE.format(name="new", time="1s"), "aliases": ["a b"]}),
            f"alias: 'a b' {NO_ALIAS}", "422 invalid_input"),
    Mistake("rest", "an unknown version deleted", Request("DELETE", "/v1/workflows/echo/versions/9"),
            "no version 'echo 9'; the newest is 1", "404 not_found"),
    Mistake("rest", "a diff with nothing", Request("GET", "/v1/workflows/echo/diff"),
            "no version of echo is older than 1; there is nothing to compare", "422 invalid_input"),
    Mistake("rest", "a diff by other words", Request("GET", "/v1/workflows/echo/diff?old=1"),
            "there is no parameter 'old'; there are from, to", "422 invalid_input"),
    post("an input of the wrong type", {"workflow": "echo", "input": {"n": "1"}},
         "input.n: '1' is not of type 'integer'; give a whole number"),
    post("JSON in text for an input", {"workflow": "echo", "input": '{"n": 1}'},
         "input: '{\"n\": 1}' is not of type 'object'; give an object"),
    Mistake("rest", "two keys that differ",
            Request("POST", RUNS, {"workflow": "echo", "input": E1, "key": "a"}, None, {"Idempotency-Key": "b"}),
            "key: the header Idempotency-Key says another; send one of them", "422 invalid_input"),
    Mistake("rest", "a name that is not the server's", Request("GET", RUNS, headers={"Host": "evil.example"}),
            "the request is for 'evil.example', which is no name of this server; use http://127.0.0.1:PORT",
            "403 forbidden_host"),
    Mistake("rest", "a page of another site",
            Request("POST", RUNS, {"workflow": "echo"}, None, {"Origin": "http://evil.example"}),
            "a page of http://evil.example may not change anything here", "403 forbidden_origin"),
    Mistake("rest", "a method that does not fit", Request("PUT", RUNS),
            "/v1/runs does not take PUT; it takes GET, POST", "405 method_not_allowed"),
    get("an address that is not there", "/v1/run", "there is nothing at /v1/run; see /docs", "404 not_found"),
    get("an unknown parameter", "/v1/runs?status=failed", "there is no parameter 'status'; did you mean 'state'?"),
    get("an unknown state", "/v1/runs?state=done",
        "state: there is no 'done'; there are 'pending', 'running', 'paused', 'closing', 'success', 'failed', "
        "'cancelled' or 'timed_out'"),
    get("a limit in words", "/v1/runs?limit=many", "limit: must be a whole number"),
    get("a limit of none", "/v1/runs?limit=0", "limit: must be greater than or equal to 1"),
    get("a cursor of one's own", "/v1/runs?cursor=2", "cursor: is none of ours; leave it out to begin anew"),
    get("a moment in words", "/v1/runs?since=yesterday",
        "since: 'yesterday' is not an RFC 3339 time; write it like 2026-12-24T18:00:00+01:00"),
    get("a time-out with its unit", "/v1/runs/RUN/wait?timeout=1h", "timeout: must be a number"),
    get("an unknown run", "/v1/runs/0198ffff", "no run '0198ffff'; `tenuto run list` shows those there are",
        "404 not_found"),
    get("a run with an endless name", f"/v1/runs/{'a' * 3_000}",
        f"no run '{'a' * 100}…'; `tenuto run list` shows those there are", "404 not_found"),
    get("an unknown node", "/v1/runs/DONE/nodes/sya", "no node 'sya'; did you mean 'say'?", "404 not_found"),
    get("the word for the newest version", "/v1/workflows/echo/versions/latest", "version: must be a whole number"),
    post("cancel of a run that has ended", None, "run RUN is already success", "409 conflict",
         "/v1/runs/DONE/cancel"),
    post("resume of a run that is not paused", None, "run RUN is not paused", "409 conflict",
         "/v1/runs/RUN/resume"),
    post("a misspelt reason", {"reson": "x"}, "reson: there is no such field; did you mean 'reason'?",
         path="/v1/runs/RUN/cancel"),
    post("an event without its key", {"event": "e"}, "key: is missing; add it", path="/v1/events"),
    post("a definition as an object", {"source": {"name": "x"}}, "source: must be text", path="/v1/workflows"),
    post("a definition with an error", {"source": "name: x\nnodes:\n  a: {type: wiat}\n"},
         "3:13: there is no node type `wiat`", "422 invalid_definition", "/v1/workflows"),
]  # fmt: skip

# -- the SDK -----------------------------------------------------------------------------------------------------------

INPUT, GONE, MISSING, TAKEN = "InvalidInput", "Unavailable", "NotFound", "Conflict"


async def _start(doors: Doors) -> object:
    return doors.app.start(ECHO, E1)


async def _result(run: Any) -> object:
    return run.result()


def _pause_twice(doors: Doors) -> object:
    run = doors.app.start(PAUSE.format(name="long", time="1h"))
    run.pause()
    return run.pause()


def _open_twice(doors: Doors) -> object:
    with Tenuto(doors.folder / "two.db") as first:
        first.open()
        return Tenuto(doors.folder / "two.db").open()


NOT_A_PLACE = "is no place for runs; give a path, or a URL, as text"
SDK = [
    Mistake("sdk", "start of nothing", lambda d: d.app.start(None),
            "None is no workflow; give a path, a deployed name, the text or a Workflow", INPUT),
    Mistake("sdk", "start of an empty text", lambda d: d.app.start(""),
            "the workflow is empty; give a path, a deployed name or the text", INPUT),
    Mistake("sdk", "start of a tree", lambda d: d.app.start({"name": "x"}),
            "{'name': 'x'} is no workflow; give a path, a deployed name, the text or a Workflow", INPUT),
    Mistake("sdk", "start of a missing file", lambda d: d.app.start("gret.yaml"), "no file 'gret.yaml'", MISSING),
    Mistake("sdk", "start of an unknown name", lambda d: d.app.start("greet"),
            "no workflow 'greet'; deploy it first, or give the path of its file", MISSING),
    Mistake("sdk", "start of an unknown alias", lambda d: (d.app.deploy(ECHO), d.app.start("echo@stable")),
            "no alias 'echo@stable'; echo has no aliases", MISSING),
    Mistake("sdk", "start of half a name", lambda d: d.app.start("echo@"),
            "workflow: 'echo@' names no version; write order@3, order@stable, or order for the newest", INPUT),
    Mistake("sdk", "an alias for a list of aliases", lambda d: d.app.deploy(ECHO, aliases="stable"),
            "aliases: 'stable' is no list; give a list of texts", INPUT),
    Mistake("sdk", "an alias that is a number", lambda d: d.app.set_alias("echo", "3", 1),
            f"alias: '3' {NO_ALIAS}", INPUT),
    Mistake("sdk", "a version as text", lambda d: d.app.set_alias("echo", "stable", "1"),
            "version: '1' is no number of a version; give one such as 3", INPUT),
    Mistake("sdk", "aliases of an unknown name", lambda d: d.app.aliases("ekko"),
            "no workflow 'ekko'", MISSING),
    Mistake("sdk", "a version that is not there deleted",
            lambda d: (d.app.deploy(ECHO), d.app.delete_version("echo", 9)),
            "no version 'echo 9'; the newest is 1", MISSING),
    Mistake("sdk", "deploy of a name", lambda d: d.app.deploy("greet"),
            "'greet' is neither a .yaml, .yml or .json file nor a text", INPUT),
    Mistake("sdk", "an input of the wrong type", lambda d: d.app.start(ECHO, {"n": "x"}),
            "input.n: 'x' is not of type 'integer'; give a whole number", INPUT),
    Mistake("sdk", "no input", lambda d: d.app.start(ECHO), "input: 'n' is a required property; add it", INPUT),
    Mistake("sdk", "an input of JSON in text", lambda d: d.app.start(ECHO, '{"n": 1}'),
            "input: '{\"n\": 1}' is not of type 'object'; give an object", INPUT),
    Mistake("sdk", "an input that JSON lacks", lambda d: d.app.start(ECHO, {"n": {1}}),
            "input.n: set is no JSON value", INPUT),
    Mistake("sdk", "a key that is a number", lambda d: d.app.start(ECHO, E1, key=5), "key: 5 is no text", INPUT),
    Mistake("sdk", "a list of vars", lambda d: d.app.start(ECHO, E1, vars=["greeting"]),
            "vars: ['greeting'] is no mapping; give a dict of names and values", INPUT),
    Mistake("sdk", "an unknown var", lambda d: d.app.start(ECHO, E1, vars={"greting": 1}),
            "vars.greting: the definition declares no such var; did you mean `greeting`?", INPUT),
    Mistake("sdk", "a var that JSON lacks", lambda d: d.app.start(ECHO, E1, vars={"greeting": {1}}),
            "vars.greeting is a set, which JSON cannot hold: give sorted(value)", INPUT),
    Mistake("sdk", "one input for many", lambda d: d.app.start_many(ECHO, E1),
            "inputs: {'n': 1} is no list; give a list of inputs", INPUT),
    Mistake("sdk", "one wrong input of many", lambda d: d.app.start_many(ECHO, [E1, {"n": None}]),
            "input.n: null is not of type 'integer'; give a whole number", INPUT),
    Mistake("sdk", "a verb that waits in a coroutine", lambda d: asyncio.run(_start(d)),
            "start() would block the event loop that runs here; use `await …astart(…)`", "RuntimeError"),
    Mistake("sdk", "a result in a coroutine", lambda d: asyncio.run(_result(d.ended)),
            "result() would block the event loop that runs here; use `await …aresult(…)`", "RuntimeError"),
    Mistake("sdk", "a result that does not come", lambda d: d.app.start(AWAIT, {"order": "7"}).result(timeout=0.01),
            "run RUN has not ended within 0.01 s: ask waits for event order.approved key 7", "TimeoutError"),
    Mistake("sdk", "a time-out with its unit", lambda d: d.waiting.result(timeout="1s"),
            "timeout: '1s' is no number of seconds; give one such as 30, or None", INPUT),
    Mistake("sdk", "results of ids", lambda d: d.app.results([d.ended.id]),
            "runs: 'RUN' is no Run; get it with get_run(id)", INPUT),
    Mistake("sdk", "results of one", lambda d: d.app.results(d.ended),
            "runs: Run('RUN') is no list; give a list of runs", INPUT),
    Mistake("sdk", "an unknown run", lambda d: d.app.get_run("nope"), "no run 'nope'", MISSING),
    Mistake("sdk", "a run for its id", lambda d: d.app.get_run(d.ended), "run_id: Run('RUN') is no text", INPUT),
    Mistake("sdk", "cancel of a run that has ended", lambda d: d.ended.cancel(), "run RUN is already success",
            TAKEN),
    Mistake("sdk", "pause twice", _pause_twice, "run RUN is already paused", TAKEN),
    Mistake("sdk", "resume of a run that is not paused", lambda d: d.waiting.resume(), "run RUN is not paused",
            TAKEN),
    Mistake("sdk", "an unregistered function", lambda d: d.app.enqueue(len),
            "no task 'len'; register it with @app.task", MISSING),
    Mistake("sdk", "an unknown task", lambda d: d.app.enqueue("dubble", n=1), "no task 'dubble'; did you mean "
            "'double'?", "UnknownTask"),
    Mistake("sdk", "a task that was called", lambda d: d.app.enqueue(d.double(2)),
            "4 is no task; give the function itself, not called, or its name", INPUT),
    Mistake("sdk", "a parameter that lacks", lambda d: d.app.enqueue(d.double),
            "task double(n: int) -> int needs 'n'", INPUT),
    Mistake("sdk", "a parameter of the wrong type", lambda d: d.app.enqueue(d.double, n="x"),
            'task double(n: int) -> int: n must be a whole number, not "x"', INPUT),
    Mistake("sdk", "a parameter that JSON lacks", lambda d: d.app.enqueue(d.double, n=len),
            "params.n is a builtin_function_or_method, which JSON cannot hold: give dicts, lists, strings, "
            "numbers, booleans or None", INPUT),
    Mistake("sdk", "an event whose key is a number", lambda d: d.app.send_event("e", 5), "key: 5 is no text", INPUT),
    Mistake("sdk", "an event that JSON lacks", lambda d: d.app.send_event("e", "k", {1}),
            "payload is a set, which JSON cannot hold: give sorted(value)", INPUT),
    Mistake("sdk", "half a URL", lambda _: Tenuto("postgresql://u:pw@h"),
            "database: postgresql://u:***@h names no database; write it like "
            "postgresql://user:password@host:5432/name", INPUT),
    Mistake("sdk", "an engine that is none", lambda _: Tenuto("redis://h"),
            "database: 'redis' is no kind of database; write a path, sqlite:///path or postgresql://user@host/name",
            INPUT),
    Mistake("sdk", "a number for a place", lambda _: Tenuto(8080), f"8080 {NOT_A_PLACE}", INPUT),
    Mistake("sdk", "a folder for a file", lambda d: Tenuto(d.folder),
            "database: FOLDER is a directory; name a file in it, such as tenuto.db", INPUT),
    Mistake("sdk", "slots in text", lambda _: Tenuto(slots="5"),
            "slots, threads and processes must be whole numbers of at least 1", INPUT),
    Mistake("sdk", "two engines on one file", _open_twice,
            "two.db is in use by another engine of this process; close that one, or open another file: "
            'Tenuto("other.db")', TAKEN),
    Mistake("sdk", "a file below a file", lambda d: Tenuto(d.file("f", "") / "x.db").open(),
            'f/x.db cannot be made: f is no directory; open another file: Tenuto("other.db")', GONE),
    Mistake("sdk", "a server that is not there", lambda _: Tenuto("http://127.0.0.1:1").open(),
            "nobody listens at http://127.0.0.1:1; " + START, GONE),
    Mistake("sdk", "a server of another product", lambda d: Tenuto(f"http://127.0.0.1:{d.other}").open(),
            NO_TENUTO.removeprefix("error: "), GONE),
    Mistake("sdk", "https for http", lambda d: Tenuto(f"https://127.0.0.1:{d.other}").open(),
            "https://127.0.0.1:OTHER answers without TLS; write http://127.0.0.1:OTHER", GONE),
    Mistake("sdk", "an address without a host", lambda _: Tenuto("http://"),
            "url: 'http://' is no address of a server; write it like http://127.0.0.1:8080", INPUT),
    Mistake("sdk", "an input for a server, of the wrong type", lambda d: d.far.start("echo", {"n": "x"}),
            "input.n: 'x' is not of type 'integer'; give a whole number", INPUT),
    Mistake("sdk", "a list of vars for a server", lambda d: d.far.start("echo", E1, vars=["greeting"]),
            "vars: ['greeting'] is no mapping; give a dict of names and values", INPUT),
    Mistake("sdk", "an unknown workflow of a server", lambda d: d.far.start("ecko"),
            "no workflow 'ecko'; did you mean 'echo'?", MISSING),
    Mistake("sdk", "a broken definition for a server", lambda d: d.far.deploy("name: x\nnodes: {a: {type: wiat}}\n"),
            "<text>:2:19: error unknown_type: there is no node type `wiat`\n    hint: did you mean `wait`?",
            "InvalidDefinition"),
    Mistake("sdk", "a task that is no function", lambda d: d.app.task("double"),
            "'double' is no function; write @app.task above one, or @app.task(name=…)", "InvalidTask"),
    Mistake("sdk", "a task with a gap in its name", lambda d: d.app.task(name="a b")(lambda: 1),
            "'a b' is no task name: 1 to 200 letters, digits and `_.:-`, the first none of the signs; give "
            "another with name=", "InvalidTask"),
    Mistake("sdk", "a misspelt public name", lambda _: _tenuto.Tenutoo,
            "module 'tenuto' has no attribute 'Tenutoo'", "AttributeError"),
]  # fmt: skip

# -- code, tasks and tests ---------------------------------------------------------------------------------------------

MAIN = "def main(params):\n    return "


def code(what: str, language: str, text: str, said: str, **more: object) -> Mistake:
    """A code node that fails its run."""
    return Mistake(
        "code",
        what,
        lambda doors: doors.code(language, text, **more),
        f"run RUN failed at n: {said}",
        "RunFailed",
    )


CODE = [
    code("a missing key", "python", f"{MAIN}params['x']", "code_error: KeyError: x (line 2)"),
    code("a missing key in full Python", "cpython", f"{MAIN}params['x']", "code_error: KeyError: 'x' (line 2)"),
    code("a member of nothing", "javascript", "function main(p) { return p.x.y }",
         "code_error: TypeError: cannot read property 'y' of undefined (line 1)"),
    code("an endless loop", "python", "def main(params):\n    while True: pass", "timeout: no result within 200ms",
         timeout="200ms"),
    code("an endless loop in JavaScript", "javascript", "function main(p) { while (true) {} }",
         "timeout: no result within 200ms", timeout="200ms"),
    code("more and more memory", "javascript",
         "function main(p) { const a = []; while (true) a.push('x'.repeat(1e6) + a.length) }",
         "memory: the code needs more memory than 128 MiB"),
    code("a recursion without an end", "python", f"{MAIN}main(params)",
         "code_error: RecursionError: maximum recursion depth exceeded (line 2)"),
    code("a set", "python", f"{MAIN}{{1, 2}}",
         "invalid_result: result is a set, which JSON cannot hold: return sorted(value)"),
    code("no number", "cpython", f"{MAIN}float('nan')",
         "invalid_result: result is NaN, which JSON cannot hold: return None or a string"),
    code("no number in JavaScript", "javascript", "function main(p) { return NaN }",
         "invalid_result: result is NaN, which JSON cannot hold: return null or a string"),
    code("a file of the host", "python", f"{MAIN}open('/etc/passwd').read()",
         "code_error: PermissionError: Permission denied: '/etc/passwd' (line 2)"),
    code("the end of the process", "cpython", "import os\ndef main(params):\n    os._exit(0)",
         "code_error: the code's process ended with the exit code 0 before `main` returned"),
    code("a question to nobody", "cpython", f"{MAIN}input()",
         "code_error: EOFError: EOF when reading a line (line 2)"),
    code("a promise without an end", "javascript", "async function main(p) { await new Promise(() => {}) }",
         "code_error: `main` waits for a promise that nothing will ever resolve"),
    Mistake("code", "a module that the sandbox lacks",
            lambda d: d.code("python", f"import requests\n{MAIN}1"),
            "<text>:1:89: error python_subset: `language: python` has no module `requests`\n"
            "    hint: put it into a task of app.py: code nodes have only Python's own modules",
            "InvalidDefinition"),
    code("a module that no code node has", "cpython", f"import no_such_package\n{MAIN}1",
         "code_error: ModuleNotFoundError: No module named 'no_such_package' (line 1); put it into a task of app.py: "
         "code nodes have only Python's own modules"),
    code("an exit with a number", "python", f"import sys\n{MAIN}[SystemExit(n) for n in [3]]",
         "code_error: RuntimeError: exceptions are made of one text here, as in ValueError('no such user'); say "
         "`language: cpython` for all of Python"),
    Mistake("code", "a main without params", lambda d: d.code("python", "def main():\n    return 1"),
            "<text>:1:82: error code_no_main: `main` is called with one argument, the params\n"
            "    hint: define `def main(params): …`; what it returns is the node's output", "InvalidDefinition"),
    Mistake("code", "a task that returns no number", lambda d: d.app.enqueue("give", kind="nan").result(30),
            "run RUN failed at give: invalid_result: result is NaN, which JSON cannot hold: return None or a "
            "string", "RunFailed"),
    Mistake("code", "a task that returns a function", lambda d: d.app.enqueue("give", kind="function").result(30),
            "run RUN failed at give: invalid_result: result is a function, which JSON cannot hold: return dicts, "
            "lists, strings, numbers, booleans or None", "RunFailed"),
    Mistake("code", "a task with a bug", lambda d: d.app.enqueue("give", kind="x").result(30),
            "run RUN failed at give: KeyError: 'x'", "RunFailed"),
]  # fmt: skip

PROCESS_HEAD = f"import os, sys\n{HEAD}@app.task(process=True)\ndef hello(name, greeting): "


def process(what: str, body: str, said: str) -> Mistake:
    """A task in a process of its own that fails its run."""
    shell = Shell(
        f'{NAMED} -o json 2>/dev/null | python -c \'import json, sys; e = json.load(sys.stdin)["error"]; '
        'sys.exit(e["code"] + ": " + e["message"])\'; exit ${PIPESTATUS[0]}',
        app=f"{PROCESS_HEAD}{body}\n",
        stores=True,
    )
    return Mistake("process", what, shell, said, FAILED)


PROCESS = [
    process(
        "it ends itself",
        "os._exit(3)",
        "process_died: the process of this attempt ended itself with exit code 3",
    ),
    process("it ends Python", "sys.exit(3)", "SystemExit: 3"),
    process(
        "it returns a set",
        "return {1, 2}",
        "invalid_result: result is a set, which JSON cannot hold: return sorted(value)",
    ),
    process(
        "it takes stdout away",
        "sys.stdout.close(); os.close(1); return {1}",
        "invalid_result: result is a set, which JSON cannot hold: return sorted(value)",
    ),
]

TESTING = [
    Mistake("testing", "no app", lambda _: engine("app"),
            "'app' is no Tenuto app; give the object that has @app.task", INPUT),
    Mistake("testing", "an app of a server", lambda _: engine(Tenuto("http://127.0.0.1:1")),
            "this app speaks to a server; give one that has the engine inside", INPUT),
    Mistake("testing", "before it is open", lambda _: engine(Tenuto()).start(ECHO, E1),
            "this engine is not open; use it inside `with tenuto.testing.engine(app) as env:`", TAKEN),
    Mistake("testing", "a clock without a unit", lambda d: d.env.advance(5),
            "5 is no duration; write it like '500ms', '10s', '1h30m', '2d'", INPUT),
    Mistake("testing", "a clock in words", lambda d: d.env.advance("two days"),
            "'two days' is not a duration; write it like 500ms, 10s, 1h30m or 2d", INPUT),
    Mistake("testing", "a clock that goes back", lambda d: d.env.advance_to("2001-01-01T00:00:00Z"),
            "the clock only goes forward: it shows 2026-01-01T00:00:00.000Z already", INPUT),
    Mistake("testing", "a mock of nothing", lambda d: d.env.mock(returns=1),
            "mock one node, mock('charge', …), one task, mock(task='…', …), or one workflow, mock(workflow='…', …)",
            INPUT),
    Mistake("testing", "a mock that does two things", lambda d: d.env.mock("a", returns=1, hangs=True),
            "a mock does one thing, not returns and hangs; use attempts=[…]", INPUT),
    Mistake("testing", "a mock that returns NaN", lambda d: d.env.mock("a", returns=float("nan")),
            "returns: result is NaN, which JSON cannot hold: return None or a string", INPUT),
    Mistake("testing", "a result before the end",
            lambda d: d.env.start(PAUSE.format(name="long", time="1h")).result(),
            "run RUN of long has not ended: pause waits for its time in 1h00m; turn the clock with "
            "env.run_to_end(run), or make happen what it waits for", "NotFinished"),
    Mistake("testing", "an unknown node", lambda d: d.env.start(ECHO, E1).node("sya"),
            "no node 'sya'; in 'echo'; did you mean 'say'?", MISSING),
]  # fmt: skip

TABLE = CLI + FILES + APPS + PORTS + REST + SDK + CODE + PROCESS + TESTING


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with Doors(tmp_path_factory.mktemp("doors")) as doors:
        yield doors


@pytest.mark.parametrize("row", TABLE, ids=[row.id for row in TABLE])
def test_a_mistake_is_told_whole_and_changes_nothing(
    row: Mistake, doors: Doors, tmp_path: Path
) -> None:
    met = doors.meet(row, tmp_path)

    stores = isinstance(row.how, Shell) and row.how.stores
    assert met == Met(row.said, row.kind, stores)


def test_too_many_requests_are_told_when_to_come_again() -> None:
    with serving(limits=Limits(requests_per_second=1, burst=1)) as server:
        # A machine that pauses for a second lets one more pass.
        many = (server.client.get(RUNS) for _ in range(100))
        refused = next(answer for answer in many if answer.status_code != 200)
        health = server.client.get("/healthz")

    assert refused.status_code == 429
    assert refused.json()["detail"] == (
        "more than 1 requests a second (api.requests_per_second); try again in 1 s"
    )
    assert refused.headers["retry-after"] == "1"
    assert health.status_code == 200, "whoever watches is never turned away"


STREAMS = {
    "stdout is nothing": "sys.stdout = None",
    "stdout is closed": "sys.stdout.close()",
    "the descriptor of stdout is closed": "os.close(1)",
    "stdout is a text in memory": "import io; sys.stdout = io.StringIO()",
    "the descriptor of stderr is closed": "os.close(2)",
    "stderr is nothing": "sys.stderr = None",
    "stderr is closed": "sys.stderr.close()",
    "both are nothing": "sys.stdout = sys.stderr = None",
}


@pytest.mark.parametrize("output", ["table", "json"])
@pytest.mark.parametrize("done", STREAMS.values(), ids=STREAMS)
def test_what_an_app_does_to_the_streams_takes_no_answer_away(
    tenuto: Command, done: str, output: str
) -> None:
    tenuto.write(app_py=f"import os, sys\n{HELLO}{done}\n")

    ran = tenuto("run", "greet.yaml", "--set", "name=x", "-o", output)

    assert ran.returncode == OK, ran.stderr
    assert "Traceback" not in ran.stderr + ran.stdout
    assert '"said": "x"' in ran.stdout


def test_a_task_that_closes_stderr_hides_no_failure(tenuto: Command) -> None:
    tenuto.write(app_py=f"import sys\n{HEAD}@app.task\ndef hello(name, greeting):\n"
                 "  sys.stderr.close()\n  sys.stdout.close()\n  1 / 0\n")  # fmt: skip

    ran = tenuto("run", "greet.yaml", "--set", "name=x", "-o", "json")

    assert ran.returncode == FAILED
    assert json.loads(ran.stdout)["error"]["code"] == "ZeroDivisionError"
    assert "attempt 1 failed" in ran.stderr


SURROUNDINGS: dict[str, dict[str, str | None]] = {
    "no home": {"HOME": None},
    "no language": {"LANG": None, "LC_ALL": None, "LC_CTYPE": None},
    "a language without letters": {"LC_ALL": "C"},
    "no terminal": {"TERM": None},
    "a dumb terminal": {"TERM": "dumb", "NO_COLOR": "1"},
    "a terminal without columns": {"COLUMNS": "x", "LINES": "0"},
    "no temporary folder": {"TMPDIR": "/nowhere"},
    "a Python that optimises": {"PYTHONOPTIMIZE": "2"},
    "a Python that takes warnings for errors": {"PYTHONWARNINGS": "error"},
    "a Python that watches itself": {"PYTHONDEVMODE": "1"},
}


@pytest.mark.parametrize("surroundings", SURROUNDINGS.values(), ids=SURROUNDINGS)
def test_odd_surroundings_are_no_mistake(
    tenuto: Command, surroundings: dict[str, str | None]
) -> None:
    env = {k: v for k, v in {**os.environ, **surroundings}.items() if v is not None}
    words = [str(COMMAND), "run", "greet.yaml", "--set", "name=Zoë"]

    ran = subprocess.run(
        words, cwd=tenuto.folder, env=env, capture_output=True, timeout=HANG_S, check=False
    )

    assert ran.returncode == OK, ran.stderr
    assert b"Traceback" not in ran.stderr
    assert b'"said": "Hello Zo' in ran.stdout
    # A Python that watches itself says so itself when a busy machine was slow.
    said = [line for line in ran.stderr.splitlines() if not line.startswith(b"Executing <")]
    assert len(said) == 1, ran.stderr

"""Every mistake in settings, `init` and `config` is told with its place and cure, and nothing is started or written."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.command import Tenuto

USAGE, NOT_FOUND, CONFLICT, UNAVAILABLE = 2, 3, 4, 6
SHOW = ("config", "show")


class Mistake(NamedTuple):
    what: str
    words: tuple[str, ...]
    said: str
    code: int = USAGE
    toml: str | None = None
    pyproject: str | None = None
    env: tuple[tuple[str, str], ...] = ()


TABLE = [
    Mistake("an unknown key", SHOW, toml="[dev]\nprt = 1\n",
            said="tenuto.toml:2: [dev] prt: there is no such setting; did you mean port?"),
    Mistake("an unknown table", SHOW, toml="[develop]\nport = 1\n",
            said="tenuto.toml:1: develop: there is no such table; did you mean [dev]?"),
    Mistake("a key in the wrong table", SHOW, toml="port = 1\n",
            said="tenuto.toml:1: port: there is no such setting here; it belongs to [dev]"),
    Mistake("a port that is no number", SHOW, toml='[dev]\nport = "http"\n',
            said="tenuto.toml:2: [dev] port: 'http' is no whole number; give one from 0 to 65535"),
    Mistake("a number in quotes", SHOW, toml='[dev]\nport = "8080"\n',
            said="tenuto.toml:2: [dev] port: '8080' is text; write 8080 without quotes"),
    Mistake("a port that is too large", SHOW, toml="[dev]\nport = 99999\n",
            said="tenuto.toml:2: [dev] port: 99999 is out of bounds; give one from 0 to 65535"),
    Mistake("a duration without a unit", SHOW, toml="[worker]\ndrain = 10\n",
            said='tenuto.toml:2: [worker] drain: 10 has no unit; write it like "10s"'),
    Mistake("a size that is none", SHOW, toml='[languages]\nmemory = "much"\n',
            said="tenuto.toml:2: [languages] memory: 'much' is no size; "
            "write it like 64KB, 128MiB or 1048576"),
    Mistake("a word that is no choice", SHOW, toml='[log]\nlevel = "warn"\n',
            said="tenuto.toml:2: [log] level: 'warn' is no choice; did you mean warning? "
            "It is one of debug, info, warning, error"),
    Mistake("no TOML", SHOW, toml="app = app.py\n",
            said="tenuto.toml:1:7: this is not TOML: Invalid value"),
    Mistake("no TOML, in a verb that needs a database", ("run", "list"), toml="[dev\n",
            said="tenuto.toml:1:5: this is not TOML: "
            "Expected ']' at the end of a table declaration"),
    Mistake("two files", SHOW, toml="", pyproject="[tool.tenuto]\n",
            said="settings stand in two files, tenuto.toml and [tool.tenuto] of pyproject.toml; "
            "keep one of them"),
    Mistake("a key of pyproject", SHOW, pyproject="[tool.tenuto]\ndatbase = 'x'\n",
            said="pyproject.toml:2: [tool.tenuto] datbase: there is no such setting; "
            "did you mean database?"),
    Mistake("an unknown variable", SHOW, env=(("TENUTO_DEV_PORT", "1"),),
            said="TENUTO_DEV_PORT: there is no such variable; did you mean TENUTO_DEV__PORT?"),
    Mistake("an unknown variable, and a run", ("run", "greet.yaml", "--set", "name=x"),
            env=(("TENUTO_DATABSE", "x.db"),),
            said="TENUTO_DATABSE: there is no such variable; did you mean TENUTO_DATABASE?"),
    Mistake("a variable that is neither true nor false", SHOW, env=(("TENUTO_DEV__WATCH", "maybe"),),
            said="TENUTO_DEV__WATCH: 'maybe' is neither true nor false; "
            "give true, 1, yes, false, 0 or no"),
    Mistake("several at once", ("doctor",), toml="[dev]\nport = -1\nprot = 2\n",
            env=(("TENUTO_WORKER__SLOTS", "0"),),
            said="tenuto.toml:2: [dev] port: -1 is out of bounds; give one from 0 to 65535\n"
            "tenuto.toml:3: [dev] prot: there is no such setting; did you mean port?\n"
            "TENUTO_WORKER__SLOTS: 0 is out of bounds; give one from 1 to 10000"),
    Mistake("half a URL", ("run", "list"), toml='database = "postgresql://u:pw@h"\n',
            said="tenuto.toml:1: database: postgresql://u:***@h names no database; "
            "write it like postgresql://user:password@host:5432/name"),
    Mistake("a secret that is too short", SHOW, env=(("TENUTO_AUTH_SECRET", "hunter2"),),
            said="TENUTO_AUTH_SECRET: it is too short; give 32 bytes or more, "
            "such as `openssl rand -hex 32` prints"),
    Mistake("a Redis that is none", SHOW, env=(("TENUTO_REDIS__URL", "http://u:pw@h"),),
            said="TENUTO_REDIS__URL: 'http://u:***@h' is no address of a Redis; "
            "write it like redis://127.0.0.1:6379/0, or redis+cluster://a:6379,b:6379"),
    Mistake("an app that is not there", ("run", "greet.yaml", "--set", "name=x"),
            toml='app = "apps.py"\n', said="there is no file apps.py"),
    Mistake("a url that is none", SHOW, env=(("TENUTO_URL", "localhost:8080"),),
            said="TENUTO_URL: 'localhost:8080' is no address of a server; "
            "write it like http://127.0.0.1:8080"),
    Mistake("a language server without a port", SHOW, toml='[languages]\nserver = "localhost"\n',
            said="tenuto.toml:2: [languages] server: 'localhost' is no host:port; "
            "write it like 127.0.0.1:50061"),
    Mistake("init into a file", ("init", "greet.yaml"),
            said="FOLDER: greet.yaml is a file; name a folder"),
    Mistake("init into nothing", ("init", ""), said="FOLDER: is empty"),
    Mistake("init where an app is", ("init",), code=CONFLICT,
            said="app.py is in . already, and nothing is written over; name another folder"),
    Mistake("init where an app and settings are", ("init", "."), code=CONFLICT, toml="",
            said="app.py, tenuto.toml are in . already, and nothing is written over; "
            "name another folder"),
    Mistake("init beside settings in pyproject", ("init",), code=CONFLICT,
            pyproject="[tool.tenuto]\n",
            said="app.py, [tool.tenuto] of pyproject.toml are in . already, "
            "and nothing is written over; name another folder"),
    Mistake("init where nobody may write", ("init", "/proc/tenuto"), code=UNAVAILABLE,
            said="/proc/tenuto cannot be made: No such file or directory; nothing was made"),
    Mistake("init below a file", ("init", "app.py/deep"), code=UNAVAILABLE,
            said="app.py/deep cannot be made: Not a directory; nothing was made"),
    Mistake("a shell that is none", ("completion", "tcsh"),
            said="Invalid value for 'bash|zsh|fish': 'tcsh' is not one of 'bash', 'zsh', 'fish'; "
            "see `tenuto completion --help`"),
    Mistake("a verb of config's that is none", ("config", "shwo"),
            said="No such command 'shwo'. Did you mean 'show'? See `tenuto config --help`"),
]  # fmt: skip


@pytest.mark.parametrize("mistake", TABLE, ids=[row.what for row in TABLE])
def test_a_mistake_is_told_with_its_place_and_cure(tenuto: Tenuto, mistake: Mistake) -> None:
    if mistake.toml is not None:
        tenuto.write(tenuto_toml=mistake.toml)
    if mistake.pyproject is not None:
        tenuto.write(pyproject_toml=mistake.pyproject)
    before = _content(tenuto.folder)

    done = tenuto(*mistake.words, env=dict(mistake.env))

    assert done.stderr == f"error: {mistake.said}\n"
    assert done.stdout == ""
    assert done.returncode == mistake.code
    assert _content(tenuto.folder) == before, "nothing was started or written"


def _content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else ""
        for path in folder.rglob("*")
        if "__pycache__" not in path.parts
    }

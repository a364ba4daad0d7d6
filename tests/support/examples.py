"""The examples as their readers use them: the files, the payment service in its own process, stories of runs."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from urllib.request import urlopen

from tests.support.command import HANG_S

from tenuto import Run, Tenuto
from tenuto.views.look import look
from tenuto.views.report import report_json

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
NAMES = ("etl", "order", "pipeline", "poll")


def definition(name: str) -> Path:
    """The YAML file of an example."""
    return EXAMPLES / name / f"{name}.yaml"


def load_app(name: str) -> Tenuto:
    """A fresh import of an example's app.py; its database is the default one of this moment."""
    return cast("Tenuto", load(EXAMPLES / name / "app.py", f"example_{name}").app)


def load(path: Path, name: str) -> ModuleType:
    """A fresh import of a file, under a name that is not in sys.modules."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def edited(name: str, folder: Path, changes: dict[str, str]) -> Path:
    """A copy of an example's definition beside a link to its app, with texts replaced that stand there once each."""
    text = definition(name).read_text()
    for old, new in changes.items():
        assert text.count(old) == 1, f"{name}.yaml no longer says {old!r} once"
        text = text.replace(old, new)
    made = folder / f"{name}.yaml"
    made.write_text(text)
    (folder / "app.py").write_text((EXAMPLES / name / "app.py").read_text())
    return made


@dataclass
class PaymentService:
    """examples/order/service.py at work. `journal`: its file, one synced line for each effect."""

    url: str
    journal: Path
    process: subprocess.Popen[str]
    heard: list[str] = field(default_factory=list)

    def wait_for(self, words: str) -> str:
        """Its next line that holds the words; it prints one for each request."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.heard.append(line)
            if words in line:
                return line
        raise AssertionError(f"the service never said {words!r}: {self.heard}")

    def effects(self, path: str) -> list[dict[str, Any]]:
        """What the journal's file holds of one kind, e.g. `/charges`."""
        if not self.journal.exists():
            return []
        lines = [json.loads(line) for line in self.journal.read_text().splitlines()]
        return [line for line in lines if line["path"] == path]

    def asked(self) -> dict[str, int]:
        """How often each effect was asked for, by `PATH KEY`, as the service counts."""
        with urlopen(f"{self.url}/journal", timeout=HANG_S) as answer:
            return {f"{made['path']} {made['key']}": made["asked"] for made in json.load(answer)}


@contextmanager
def payment_service(folder: Path, *words: str) -> Iterator[PaymentService]:
    """The service on a free port. `words`: its further arguments."""
    journal = folder / "journal.jsonl"
    command = [sys.executable, str(EXAMPLES / "order" / "service.py"), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--with-parent", "--journal", str(journal), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        yield PaymentService(first.strip().removeprefix("listening on "), journal, process)
    finally:
        process.kill()
        process.communicate()


def story(run: Run) -> dict[str, Any]:
    """A run as `tenuto run FILE -o json` tells it. Its engine must be open."""
    report, _, _ = run.link.wait(
        run._near.ask(lambda engine: look(engine.reads, run.id, now=0)), "story"
    )
    return cast("dict[str, Any]", report_json(report))


def attempts(report: dict[str, Any], node: str) -> list[tuple[str, str | None]]:
    """(result, code) of each attempt of a node, in order."""
    steps: Sequence[dict[str, Any]] = report["timeline"]
    return [(step["result"], step["code"]) for step in steps if step["node"] == node]


def states(report: dict[str, Any]) -> dict[str, str]:
    """Node -> its state."""
    return {node["id"]: node["state"] for node in report["nodes"]}

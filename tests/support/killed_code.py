"""A process to be killed: an engine whose one run is in code that never ends.

Run as `python -m tests.support.killed_code DB LANGUAGE`. Says `on` once the code runs.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tenuto.adapters.cel import CelParser
from tenuto.app.embedded import Engine
from tenuto.coordinator.commands import StartRequest
from tenuto.dsl.compile import load
from tenuto.worker.registry import Registry

ENDLESS = {
    "python": "def main(params):\n          print('on')\n          while True: pass",
    "javascript": "function main() { console.log('on'); while (true); }",
    "cpython": "import re\n      def main(params):\n          print('on')\n          re.match('(a+)+b', 'a' * 99)",
}


def main() -> None:
    """Start the run, and stay."""
    database, language = Path(sys.argv[1]), sys.argv[2]
    text = (
        "name: endless\nnodes:\n  a:\n    type: code\n    timeout: 1h\n"
        f"    language: {language}\n    code: |\n      {ENDLESS[language]}\n"
    )
    engine = Engine(database, registry=Registry())
    engine.start()
    loaded = load(text, file="endless.yaml", parser=CelParser())
    assert loaded.graph is not None, loaded.findings
    row = engine.call(engine.commands.deploy(loaded.graph)).result()
    request = StartRequest(
        graph_hash=row.hash,
        workflow=row.name,
        version=row.version,
        input="{}",
        vars=loaded.graph.definition.vars,
    )
    [started] = engine.call(engine.commands.start([request])).result()
    while not engine.call(engine.reads.notes(started.run_id)).result():
        time.sleep(0.02)
    sys.stdout.write("on\n")
    sys.stdout.flush()
    time.sleep(3_600)


if __name__ == "__main__":
    main()

"""The first minute, measured: an empty virtual environment, `pip install .`, `tenuto dev`, a page and a green run.

    python bench/first_minute.py [--no-install PATH-TO-TENUTO]

The clock that counts starts when the install is done: from the command to the page that answers, and to the end of a
run of examples/order with its approval. The server runs without a network where the system allows that (`unshare`).
Memory is that of all its processes, as Pss: what they share counts once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ORDER = ROOT / "examples" / "order"
PORT = 18_080
AIM_S, AIM_MB = 10.0, 150.0
WAIT_S = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-install", metavar="TENUTO", help="measure this command instead")
    given = parser.parse_args().no_install
    with tempfile.TemporaryDirectory(prefix="tenuto-first-") as name:
        folder = Path(name)
        command, installed_s = (given, 0.0) if given else install(folder)
        if given is None:
            print(
                f"install          {installed_s:6.1f} s   {size_mb(folder / 'venv'):5.0f} MB in the environment"
            )
        inside = folder / "measure.json"
        env = {**os.environ, "TENUTO_BENCH_COMMAND": str(command), "TENUTO_BENCH_FOLDER": name}
        offline = without_network()
        done = subprocess.run([*offline, sys.executable, "-c", _INSIDE], env=env, check=False)
        if done.returncode:
            return done.returncode
        found = json.loads(inside.read_text())
    report(found, offline=bool(offline))
    return 0


def install(folder: Path) -> tuple[Path, float]:
    """A fresh environment with what `pip install .` brings; where the command is, and the seconds of the install."""
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    began = time.monotonic()
    python = str(venv / "bin" / "python")
    quiet = ("--quiet", "--disable-pip-version-check")
    subprocess.run([python, "-m", "pip", "install", *quiet, str(ROOT)], check=True)
    return venv / "bin" / "tenuto", time.monotonic() - began


def without_network() -> list[str]:
    """The words before a command that take its network away but for loopback; empty where that is not allowed."""
    words = [
        "unshare",
        "--net",
        "--map-root-user",
        "--",
        "sh",
        "-c",
        'ip link set lo up && exec "$@"',
        "sh",
    ]
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return []
    tried = subprocess.run([*words, "true"], capture_output=True, check=False)
    return words if tried.returncode == 0 else []


def measure(command: str, folder: Path) -> dict[str, Any]:
    """Start, look, run, stop."""
    service = subprocess.Popen(
        [sys.executable, ORDER / "service.py", "--port", "9000"], stdout=subprocess.DEVNULL
    )
    log = (folder / "log").open("w+")
    began = time.monotonic()
    dev = subprocess.Popen(
        [command, "dev", ORDER, "--port", str(PORT), "--database", folder / "order.db"],
        cwd=folder,
        stderr=log,
        stdin=subprocess.DEVNULL,
    )
    try:
        until(lambda: b"<html" in fetch("/"))
        page_s = time.monotonic() - began
        until(lambda: json.loads(fetch("/v1/workflows"))["items"])
        run = post("/v1/runs", {"workflow": "order", "input": {"order_id": "A-1", "amount": 9000}})
        post("/v1/events", {"event": "order.approved", "key": "A-1", "payload": {"by": "bench"}})
        while (report := json.loads(fetch(f"/v1/runs/{run['run_id']}/wait?timeout=30")))[
            "ended_at"
        ] is None:
            if time.monotonic() - began > WAIT_S:
                raise SystemExit(f"the run has not ended: {report}")
        green_s = time.monotonic() - began
        time.sleep(1)
        processes = family(dev.pid)
        found = {
            "page_s": page_s,
            "green_s": green_s,
            "state": report["state"],
            "processes": len(processes),
            "main_mb": pss_mb(dev.pid),
            "all_mb": sum(pss_mb(pid) for pid in processes),
            "rss_mb": rss_mb(dev.pid),
            "lines": 0,
        }
        dev.terminate()
        dev.wait(WAIT_S)
        log.seek(0)
        lines = log.read().splitlines()
        found["lines"] = next((n for n, line in enumerate(lines) if " after " in line), len(lines))
        return found
    finally:
        for process in (dev, service):
            if process.poll() is None:
                process.kill()
            process.wait()
        log.close()


def until(holds: Any) -> None:
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            if holds():
                return
        except OSError:
            pass
        if time.monotonic() > deadline:
            raise SystemExit("the server does not answer")
        time.sleep(0.02)


def fetch(path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}{path}", timeout=40) as answer:
        text: bytes = answer.read()
        return text


def post(path: str, body: object) -> dict[str, Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}{path}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found


def family(pid: int) -> list[int]:
    """A process and all that came of it."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [each for word in task.read_text().split() for each in family(int(word))]
    return found if children.exists() else [pid]


def pss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def size_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def report(found: dict[str, Any], *, offline: bool) -> None:
    network = "no network but loopback" if offline else "with the network that there is"
    print(f"page answers     {found['page_s']:6.2f} s   ({network})")
    print(f"run is {found['state']:<9} {found['green_s']:6.2f} s   aim {AIM_S:.0f} s")
    print(f"first lines      {found['lines']:6d}     aim 8")
    print(
        f"main process     {found['rss_mb']:6.0f} MB resident (Pss {found['main_mb']:.0f})   aim {AIM_MB:.0f} MB"
    )
    print(
        f"all {found['processes']} processes  {found['all_mb']:6.0f} MB Pss: with the interpreters of code nodes"
    )


_INSIDE = f"""
import json, os, runpy
from pathlib import Path
bench = runpy.run_path({str(Path(__file__).resolve())!r})
folder = Path(os.environ.pop("TENUTO_BENCH_FOLDER"))
found = bench["measure"](os.environ.pop("TENUTO_BENCH_COMMAND"), folder)
(folder / "measure.json").write_text(json.dumps(found))
"""

if __name__ == "__main__":
    sys.exit(main())

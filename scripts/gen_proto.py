"""Makes the gRPC stubs under `src/tenuto/proto` from `proto/`: `python scripts/gen_proto.py`.

The stubs are committed, so that nobody who installs needs a compiler. They are made by the oldest supported tools, in
an environment of their own: what those write runs on every later protobuf, what newer ones write not on an older. Each
file begins with the digest of its `.proto`, by which a test tells stubs that are out of date.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "proto"
TARGET = ROOT / "src" / "tenuto" / "proto"
TOOLS = "grpcio-tools==1.76.0"

_IMPORT = re.compile(r"^from tenuto\.(?!proto\b)([\w.]+) import", re.MULTILINE)


def digest(source: Path) -> str:
    """The line by which a stub names the text it was made from."""
    return f"# sha256 of {source.name}: {hashlib.sha256(source.read_bytes()).hexdigest()}"


def stubs(source: Path) -> list[Path]:
    """The files that are made from one `.proto`."""
    folder = TARGET / source.relative_to(SOURCES / "tenuto").parent
    return [folder / f"{source.stem}_pb2{end}" for end in (".py", ".pyi", "_grpc.py")]


def generate(source: Path) -> None:
    """Write the stubs of one `.proto`."""
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    with tempfile.TemporaryDirectory() as folder:
        outputs = [f"--{kind}_out={folder}" for kind in ("python", "pyi", "grpc_python")]
        run = [uv, "run", "--no-project", "--quiet", "--with", TOOLS, "python", "-m"]
        subprocess.run(
            [*run, "grpc_tools.protoc", f"-I{SOURCES}", *outputs, str(source)], check=True
        )
        for stub in stubs(source):
            made = Path(folder) / source.relative_to(SOURCES).with_name(stub.name)
            text = _IMPORT.sub(r"from tenuto.proto.\1 import", made.read_text())
            what = f'"""Made from `{source.relative_to(ROOT)}` by scripts/gen_proto.py. Not to be edited."""'
            stub.parent.mkdir(parents=True, exist_ok=True)
            stub.write_text(f"{digest(source)}\n{what}\n\n{text}")


if __name__ == "__main__":
    for found in sorted(SOURCES.rglob("*.proto")):
        generate(found)
        print(found.relative_to(ROOT))

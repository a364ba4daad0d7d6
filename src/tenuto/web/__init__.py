"""The page: static files that a browser runs as they are, and the headers that keep it honest. No server, no routes.

The app mounts `files()` at their paths and answers a GET of any of `ROUTES` with the file `/`; the page's script reads
the address. Every answer with one of these files carries `HEADERS`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files as resources
from typing import NamedTuple

from tenuto.views.picture import MARKS, STYLE

CONTENT_SECURITY_POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; "
    "require-trusted-types-for 'script'; trusted-types picture"
)
"""No inline script or style, nothing from elsewhere, and no text is ever parsed as HTML: the only text that becomes
elements is a graph's SVG, by the policy `picture` (api.js).
"""
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
"""`no-cache`: a browser may keep a file, and asks with its ETag whether it still holds."""
PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""The Content-Security-Policy of a `graph.svg`: its own style, and nothing else."""
ROUTES = ("/", "/runs", "/runs/{run}", "/workflows", "/workflows/{workflow}")
"""Addresses of the page, as path templates."""

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class File(NamedTuple):
    """What to answer. `etag` is quoted, as the header has it."""

    content_type: str
    content: bytes
    etag: str


@cache
def files() -> Mapping[str, File]:
    """Path -> file: `/` is the page, everything else is below `/static/`."""
    found = {"/": _file("index.html", _read("index.html"))}
    for entry in sorted(resources(__name__).joinpath("static").iterdir(), key=lambda e: e.name):
        if entry.name != "index.html":
            found[f"/static/{entry.name}"] = _file(entry.name, entry.read_bytes())
    marks = json.dumps(dict(MARKS), indent=2)
    made = {
        "marks.js": f"// State -> the path of its mark in a box of 16 by 16.\nexport const MARKS = {marks};\n",
        "picture.css": STYLE.lstrip(),
    }
    for name, text in made.items():
        found[f"/static/{name}"] = _file(name, text.encode())
    return found


def _read(name: str) -> bytes:
    return resources(__name__).joinpath("static", name).read_bytes()


def _file(name: str, content: bytes) -> File:
    ending = name[name.rindex(".") :]
    return File(_TYPES[ending], content, f'"{sha256(content).hexdigest()[:32]}"')

"""The reference of REST, made from the OpenAPI document: an outline, and that as a page or as Markdown.

The page is one file without scripts: what a reader needs is there without a network. Trying things out is `curl`'s.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from typing import Any

from tenuto.api.problems import KINDS
from tenuto.api.service import EVERYWHERE

Node = Mapping[str, Any]

_REF = "#/components/schemas/"
_STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 ui-sans-serif,system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}h2{margin-top:2.5rem;border-bottom:1px solid #8886}h3{margin-top:2rem;font-size:1rem}
code,h3{font-family:ui-monospace,Menlo,Consolas,monospace}code{font-size:.92em}
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;
border-bottom:1px solid #8883}td:first-child{white-space:nowrap}.scroll{overflow-x:auto}
"""
POLICY = (
    "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; style-src"
    f" 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'"
)
"""The page's Content-Security-Policy."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts with `code` marks; `head` names the columns."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading (level 2 or 3), its paragraphs and tables. `anchor`: the name of a link to it."""

    level: int
    title: str
    parts: Sequence[str | Table]
    anchor: str = ""


def outline(document: Node) -> Iterator[Section]:
    """The reference of an OpenAPI document: the problems, then each route by tag, then the documents."""
    rows = [(f"`{kind.code}`", str(kind.status), kind.title) for kind in KINDS.values()]
    about = (
        "Every error is `application/problem+json`: `type`, `title`, `status`, `detail` (a line: the cause, the "
        "place, the cure), `code` (stable), where there is one `path` (of the first), `hint`, `problems` (the lines "
        "of `detail`, if they are several), `findings`. Any route may answer "
        f"{', '.join(f'`{code}`' for code in EVERYWHERE)}; below stands what comes beside these."
    )
    yield Section(2, "Problems", [about, Table(("code", "status", "meaning"), rows)], "problems")
    shapes = document["components"]["schemas"]
    grouped: dict[str, list[Section]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            sections = grouped.setdefault(operation["tags"][0], [])
            sections.append(_operation(f"{method.upper()} {path}", operation, shapes))
    for tag, sections in grouped.items():
        yield Section(2, tag.capitalize(), [])
        yield from sections
    yield Section(2, "Documents", [])
    for name, shape in sorted(shapes.items()):
        yield Section(3, name, [*_about(shape), _fields(shape)], name)


def _operation(title: str, operation: Node, shapes: Node) -> Section:
    parts: list[str | Table] = [f"{operation['summary']}."]
    if operation.get("description"):
        parts.append(_joined(operation["description"]))
    rows = []
    for each in operation.get("parameters", ()):
        name = f"`{each['name']}`"
        rows.append((name, each["in"], _type(each["schema"]), each.get("description", "")))
    if rows:
        parts.append(Table(("parameter", "in", "type", "meaning"), rows))
    content = operation.get("requestBody", {}).get("content", {})
    for media, body in content.items():
        schema = body["schema"]
        if "$ref" in schema:
            parts.append(f"Body (`{media}`):")
            parts.append(_fields(shapes[schema["$ref"].removeprefix(_REF)]))
        else:
            parts.append(f"or `{media}`: the text itself.")
    answers = []
    for status, answer in operation["responses"].items():
        meaning = _beside(answer["description"])
        if not meaning:
            continue
        shown = [
            _type(each["schema"]) if "json" in media else f"`{media}`"
            for media, each in answer.get("content", {}).items()
        ]
        answers.append((status, ", ".join(shown), meaning))
    parts.append(Table(("status", "document", "meaning"), answers))
    return Section(3, title, parts, operation["operationId"])


def _beside(description: str) -> str:
    """What an answer may mean beside the problems of all routes; empty for nothing."""
    if not description.startswith("`"):
        return description
    kept = [each for each in description.split("; ") if each.split("`")[1] not in EVERYWHERE]
    return "; ".join(kept)


def _about(shape: Node) -> list[str]:
    return [_joined(shape["description"])] if shape.get("description") else []


def _joined(text: str) -> str:
    return " ".join(text.split())


def _fields(shape: Node) -> Table:
    required = shape.get("required", ())
    rows = [
        (
            f"`{name}`" + ("" if name in required else " (optional)"),
            _type(field),
            field.get("description", ""),
        )
        for name, field in shape.get("properties", {}).items()
    ]
    return Table(("field", "type", "meaning"), rows)


def _type(schema: Node) -> str:
    """A type in words."""
    if "$ref" in schema:
        return f"`{schema['$ref'].removeprefix(_REF)}`"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_type(schema['items'])}"
    if schema.get("format") == "date-time":
        return "instant"
    if kind in ("integer", "number"):
        low, high = schema.get("minimum"), schema.get("maximum")
        ends = "" if low is None else f" from {low:,}"
        return f"{kind}{ends}" + ("" if high is None or high > 2**31 else f" to {high:,}")
    return str(kind) if kind else "any JSON"


def as_markdown(document: Node) -> str:
    """The outline for the docs."""
    lines = []
    for section in outline(document):
        title = (
            section.title
            if section.level == 2 or " " not in section.title
            else f"`{section.title}`"
        )
        lines += ["#" * section.level + f" {title}", ""]
        for part in section.parts:
            if isinstance(part, str):
                lines += [part, ""]
            elif part.rows:
                lines.append(f"| {' | '.join(part.head)} |")
                lines.append("|---" * len(part.head) + "|")
                lines += [
                    f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
                    for row in part.rows
                ]
                lines.append("")
    return "\n".join(lines)


def as_page(document: Node) -> str:
    """The outline as a page of its own."""
    info = document["info"]
    parts = [
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport"'
            f' content="width=device-width"><title>{escape(info["title"])} REST</title>'
            f"<style>{_STYLE}</style></head><body><h1>{escape(info['title'])} REST</h1>"
        ),
        *(f"<p>{_marked(text)}</p>" for text in info["description"].split("\n\n")),
        '<p>For programs: <a href="/openapi.json">/openapi.json</a>.</p>',
    ]
    for section in outline(document):
        tag = f"h{section.level}"
        anchor = f' id="{escape(section.anchor)}"' if section.anchor else ""
        parts.append(f"<{tag}{anchor}>{escape(section.title)}</{tag}>")
        parts += [
            f"<p>{_marked(part)}</p>" if isinstance(part, str) else _html_table(part)
            for part in section.parts
        ]
    return "\n".join([*parts, "</body></html>\n"])


def _html_table(table: Table) -> str:
    if not table.rows:
        return ""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.head)
    rows = "".join(
        f"<tr{_anchor(row)}>{''.join(f'<td>{_marked(cell)}</td>' for cell in row)}</tr>"
        for row in table.rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _anchor(row: Sequence[str]) -> str:
    """A problem's `type` leads to its row."""
    name = row[0].strip("`")
    return f' id="{name}"' if name in KINDS else ""


def _marked(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text, quote=False))

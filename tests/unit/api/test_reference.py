"""The OpenAPI document, the page made from it, and docs/rest.md."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

from tenuto.api.app import describe
from tenuto.api.problems import KINDS
from tenuto.api.reference import POLICY, as_page

ROOT = Path(__file__).parents[3]


def test_the_page_in_the_docs_is_fresh() -> None:
    script = "import sys; sys.path.insert(0, 'scripts'); import gen_rest; print(gen_rest.generate(), end='')"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert (ROOT / "docs" / "rest.md").read_text() == done.stdout, "run scripts/gen_rest.py"


def test_every_route_says_what_it_does_and_what_may_go_wrong() -> None:
    for path, methods in describe()["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], path
            assert operation["tags"], path
            answers = operation["responses"]
            assert {"403", "422", "429", "500", "503"} <= set(answers), path
            has_body = method not in ("get", "delete")
            assert {"400", "413", "415"} <= set(answers) or not has_body, path
            for status, answer in answers.items():
                [media] = answer["content"]
                assert (media == "application/problem+json") == (status >= "400"), path


def test_every_reference_in_the_document_leads_somewhere() -> None:
    document = describe()
    shapes = document["components"]["schemas"]
    named = set()

    def walk(node: object) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                named.add(node["$ref"].removeprefix("#/components/schemas/"))
            for part in node.values():
                walk(part)
        elif isinstance(node, list):
            for part in node:
                walk(part)

    walk(document)
    assert named <= set(shapes)
    assert set(shapes["Problem"]["properties"]["code"]["enum"]) == set(KINDS)


def test_the_page_has_a_style_that_its_policy_allows_and_no_script() -> None:
    page = as_page(describe())
    style = page.partition("<style>")[2].partition("</style>")[0]

    assert b64encode(sha256(style.encode()).digest()).decode() in POLICY
    assert "<script" not in page
    opened: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("meta", "!doctype"):
                opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

    reader = Reader()
    reader.feed(page)
    reader.close()
    assert opened == []

from __future__ import annotations

import json
import re

from tenuto import web
from tenuto.views.picture import MARKS

TEXTS = {path: file.content.decode() for path, file in web.files().items()}
SCRIPTS = {path: text for path, text in TEXTS.items() if path.endswith(".js")}


def test_every_file_that_the_page_names_is_served() -> None:
    named = set(re.findall(r'(?:href|src)="(/static/[^"]+)"', TEXTS["/"]))
    for text in SCRIPTS.values():
        named |= set(re.findall(r'from "([^"]+)"', text))

    assert len(named) > 10
    assert named <= TEXTS.keys()


def test_no_file_is_served_that_nobody_names() -> None:
    everything = "\n".join(TEXTS.values())

    assert [path for path in TEXTS if path != "/" and f'"{path}"' not in everything] == []


def test_files_have_types_that_a_browser_runs_and_tags_of_their_content() -> None:
    files = web.files()

    assert files["/"].content_type == "text/html; charset=utf-8"
    assert files["/static/app.js"].content_type == "text/javascript; charset=utf-8"
    assert files["/static/style.css"].content_type == "text/css; charset=utf-8"
    assert all(re.fullmatch('"[0-9a-f]{32}"', file.etag) for file in files.values())
    assert len({file.etag for file in files.values()}) == len(files)


def test_the_page_has_nothing_inline_and_nothing_from_elsewhere() -> None:
    page = TEXTS["/"]

    assert re.findall(r"<script(?![^>]* src=)", page) == []
    assert "<style" not in page
    assert re.findall(r"\s(?:style|on\w+)=", page) == []
    for path, text in TEXTS.items():
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == [], path


def test_scripts_never_parse_text_as_markup() -> None:
    sinks = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"

    assert {path for path, text in SCRIPTS.items() if re.search(sinks, text)} == set()
    assert [path for path, text in SCRIPTS.items() if "parseFromString" in text] == [
        "/static/api.js"
    ]


def test_marks_of_the_page_are_those_of_pictures() -> None:
    found = re.search(r"MARKS = (\{.*\});", TEXTS["/static/marks.js"], re.DOTALL)

    assert found is not None
    assert json.loads(found[1]) == dict(MARKS)


def test_a_view_stays_short_enough_to_hold_in_the_head() -> None:
    assert {path: n for path, text in SCRIPTS.items() if (n := text.count("\n")) > 300} == {}

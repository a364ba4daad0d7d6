"""Builds the docs site into build/docs/site and checks it; `--serve` shows it while it is written.

The pages are read in two places: in the repository, where links lead to files, and on the site, which has only pages.
So the build lays the site's pages out under build/docs/pages: docs/ as it is, and from outside of it what PAGES and
examples/ name. An example becomes one page: its README, then its files. Links are turned to where their targets
stand on the site; one that leads to anything else is an error, not a dead end. Mermaid diagrams are left out, since
the site's script for them would be fetched from elsewhere.

Checked: every relative link of every page, in the repository and on the site, with its anchor; images and their texts;
that each page is in the nav of zensical.toml, and the nav names no other. Each mistake is a line `file:line: what`, and
then the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
CONFIG = "zensical.toml"
PAGES = {  # outside of docs/ -> page of the site
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
}
READ_IN_THE_REPOSITORY_ONLY = ("README.md",)  # on the site, docs/index.md stands for it
LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".md": "markdown"}
SHOWN = {*LANGUAGES, ".csv"}

FENCE = re.compile(r"^\s*(`{3,}|~{3,})(\w*)")
CODE = re.compile(r"(`+)(?:(?!\1).)+?\1(?!`)")
LINK = re.compile(
    r"(?P<image>!?)\[(?P<text>[^\]\[]*(?:\[[^\]]*\][^\]\[]*)*)\]\((?P<target>[^()\s]+)\)"
)
MERMAID = re.compile(r"^```mermaid\n.*?^```\n", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a page outside of code blocks, with inline code blanked so that columns stay."""

    number: int
    text: str
    bare: str


@dataclass(slots=True)
class Site:
    """One build: where it reads, where it writes, and what is wrong so far."""

    root: Path
    mistakes: list[str] = field(default_factory=list)

    @property
    def pages(self) -> Path:
        return self.root / "build" / "docs" / "pages"

    @property
    def built(self) -> Path:
        return self.root / "build" / "docs" / "site"

    def wrong(self, file: Path, line: int, what: str) -> None:
        self.mistakes.append(f"{file.relative_to(self.root)}:{line}: {what}")


def prose(text: str) -> Iterator[Line]:
    """The lines outside of code blocks."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        found = FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif found:
            fence = found[1]
        else:
            yield Line(number, line, CODE.sub(lambda code: "\0" * len(code[0]), line))


def links(line: Line) -> Iterator[re.Match[str]]:
    """The inline links of a line that are not shown as code."""
    for found in LINK.finditer(line.text):
        if line.bare[found.start("target") - 1] == "(":
            yield found


def anchors(text: str) -> set[str]:
    """The anchors that headings of a page have, in the repository's view and on the site."""
    seen: dict[str, int] = {}
    for line in prose(text):
        if heading := HEADING.match(line.text):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "")
            slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
            seen[slug] = seen.get(slug, 0) + 1
    # Of headings that repeat, the two views count differently: only the first can be linked.
    return set(seen)


def sources(root: Path) -> dict[Path, str]:
    """Every page -> its place on the site; "" for one that is read in the repository only."""
    found = {root / name: place for name, place in PAGES.items()}
    found |= {root / name: "" for name in READ_IN_THE_REPOSITORY_ONLY}
    docs = root / "docs"
    found |= {path: path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    for path in (root / "examples").glob("*/README.md"):
        found[path] = f"examples/{path.parent.name}.md"
    return dict(sorted(found.items()))


def place_of(target: Path, places: dict[Path, str], root: Path) -> str | None:
    """Where the site has what a link of the repository leads to; None: nowhere."""
    if target in places:
        return places[target] or "index.md"
    docs, examples = root / "docs", root / "examples"
    if target.is_relative_to(docs):
        return target.relative_to(docs).as_posix() if target.is_file() else None
    if target == examples:
        return "index.md#examples"
    if target.is_relative_to(examples):
        name, *inside = target.relative_to(examples).parts
        shown = f"#{slug_of_file(Path(*inside))}" if inside else ""
        return f"examples/{name}.md{shown}"
    return None


def slug_of_file(path: Path) -> str:
    return re.sub(r"[^\w\- ]", "", path.as_posix().lower())


def check_sources(site: Site, places: dict[Path, str]) -> None:
    """Links and images as the repository's view follows them."""
    texts = {path: path.read_text() for path in places}
    known = {path: anchors(text) for path, text in texts.items()}
    for path, text in texts.items():
        for line in prose(text):
            for link in links(line):
                said = link["target"]
                if link["image"] and not link["text"].strip():
                    site.wrong(
                        path,
                        line.number,
                        f"the image {said} has no text for those who do not see it",
                    )
                if ELSEWHERE.match(said):
                    continue
                name, _, anchor = said.partition("#")
                target = Path(os.path.normpath(path.parent / unquote(name))) if name else path
                if not target.exists():
                    site.wrong(path, line.number, f"{said} leads nowhere")
                elif anchor and anchor not in known.get(target, set()):
                    site.wrong(path, line.number, f"{said}: the page has no such heading")


def turned(site: Site, path: Path, place: str, places: dict[Path, str]) -> str:
    """A page's text with its links turned to the places of the site, and without Mermaid diagrams."""
    text = MERMAID.sub(lambda block: "\n" * block[0].count("\n"), path.read_text())
    lines = text.splitlines()
    for line in prose(text):
        for link in reversed(list(links(line))):
            said = link["target"]
            if ELSEWHERE.match(said) or said.startswith("#"):
                continue
            name, _, anchor = said.partition("#")
            target = Path(os.path.normpath(path.parent / unquote(name)))
            found = place_of(target, places, site.root)
            if found is None:
                if target.exists():
                    site.wrong(
                        path,
                        line.number,
                        f"{said} is no page of the site: write its name without a link",
                    )
                continue
            if anchor:
                found = f"{found.partition('#')[0]}#{anchor}"
            there, mark, anchor = found.partition("#")
            relative = os.path.relpath(there, Path(place).parent) + mark + anchor
            start, end = link.span("target")
            lines[line.number - 1] = (
                lines[line.number - 1][:start] + relative + lines[line.number - 1][end:]
            )
    return "\n".join(lines) + "\n"


def files_of(example: Path) -> str:
    """The files of an example, one heading and code block for each."""
    parts = ["\n## Files\n"]
    for path in sorted(example.rglob("*")):
        if (
            path.suffix in SHOWN
            and path.name != "README.md"
            and not path.is_relative_to(example / "out")
        ):
            name = path.relative_to(example).as_posix()
            anchor = slug_of_file(path.relative_to(example))
            text = path.read_text().rstrip("\n")
            parts.append(
                f'<h3 id="{anchor}">{name}</h3>\n\n````{LANGUAGES.get(path.suffix, "text")}\n{text}\n````\n'
            )
    return "\n".join(parts)


def lay_out(site: Site, places: dict[Path, str]) -> None:
    """Write the site's pages, and copy what they show."""
    shutil.rmtree(site.pages, ignore_errors=True)
    for path, place in places.items():
        if not place:
            continue
        made = site.pages / place
        made.parent.mkdir(parents=True, exist_ok=True)
        shown = files_of(path.parent) if place.startswith("examples/") else ""
        made.write_text(turned(site, path, place, places) + shown)
    docs = site.root / "docs"
    for path in docs.rglob("*"):
        if path.is_file() and path.suffix != ".md":
            made = site.pages / path.relative_to(docs)
            made.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, made)


def named(nav: object) -> Iterator[str]:
    """The pages that the nav names."""
    match nav:
        case str():
            yield nav
        case list():
            for each in nav:
                yield from named(each)
        case dict():
            for each in nav.values():
                yield from named(each)
        case _:
            raise ValueError(f"{nav!r} is no part of a nav")


def check_nav(site: Site, places: dict[Path, str]) -> None:
    """Each page once in the nav, and nothing else."""
    config = site.root / CONFIG
    text = config.read_text()
    nav = list(named(tomllib.loads(text)["project"]["nav"]))
    lines = text.splitlines()
    for path, place in places.items():
        if place and nav.count(place) != 1:
            how = "is not in" if place not in nav else "stands more than once in"
            site.wrong(path, 1, f"the page {how} the nav of {CONFIG}")
    for place in nav:
        if place not in places.values():
            number = next(n for n, line in enumerate(lines, 1) if f'"{place}"' in line)
            site.wrong(config, number, f"the nav names {place}, which is no page")


class Built(HTMLParser):
    """What a built page offers and asks for: ids, links, and what it loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.asked: list[str] = []
        self.loaded: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        self.ids.add(said.get("id", ""))
        if tag == "a" and "href" in said:
            self.asked.append(said["href"])
        if tag in ("img", "script") and "src" in said:
            self.loaded.append(said["src"])
        if tag == "link" and said.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(said["href"])


def check_built(site: Site, places: dict[Path, str]) -> None:
    """Links as the built pages have them; what the theme adds included."""
    pages = {path: Built(path) for path in site.built.rglob("*.html") if path.name != "404.html"}
    by_place = {place: path for path, place in places.items()}
    for page, built in pages.items():
        place = page.relative_to(site.built).with_suffix(".md").as_posix()
        source = by_place.get(place) or by_place.get(place.replace("index.md", "README.md"), page)
        for said in built.loaded:
            if ELSEWHERE.match(said) or said.startswith("//"):
                if not said.startswith("data:"):
                    site.wrong(source, 1, f"on the site, {said} would be fetched from elsewhere")
            elif not (page.parent / said.partition("?")[0]).exists():
                site.wrong(source, 1, f"on the site, {said} is not there")
        for said in built.asked:
            if ELSEWHERE.match(said) or said.startswith("//"):
                continue
            name, _, anchor = said.partition("#")
            target = Path(os.path.normpath(page.parent / unquote(name))) if name else page
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                site.wrong(source, line_of(source, said), f"on the site, {said} leads nowhere")
            elif anchor and target in pages and unquote(anchor) not in pages[target].ids:
                site.wrong(
                    source,
                    line_of(source, said),
                    f"on the site, {said}: the page has no such heading",
                )


def line_of(source: Path, said: str) -> int:
    """The first line that has the end of a link; 1 where none has."""
    end = said.partition("#")[2] or Path(said).stem
    return next((n for n, line in enumerate(source.read_text().splitlines(), 1) if end in line), 1)


def zensical(site: Site, *words: str) -> int:
    """Run the generator of the environment that runs this script."""
    command = [str(Path(sys.executable).with_name("zensical")), *words, "-f", CONFIG]
    return subprocess.run(command, cwd=site.root, check=False).returncode


def build(root: Path) -> list[str]:
    """Lay the pages out, build the site, check both; what is wrong."""
    site = Site(root)
    places = sources(root)
    check_nav(site, places)
    check_sources(site, places)
    lay_out(site, places)
    if site.mistakes:
        return site.mistakes
    shutil.rmtree(site.built, ignore_errors=True)
    if zensical(site, "build", "--clean", "--strict"):
        return [f"{CONFIG}:1: zensical refuses the pages; its words stand above"]
    check_built(site, places)
    return site.mistakes


def main() -> int:
    """Build, and say what is wrong."""
    parser = argparse.ArgumentParser(description="Build the docs site and check it.")
    parser.add_argument("--serve", action="store_true", help="show it at localhost:8000")
    if parser.parse_args().serve:
        site = Site(ROOT)
        lay_out(site, sources(ROOT))
        return zensical(site, "serve")
    mistakes = build(ROOT)
    for mistake in mistakes:
        print(mistake, file=sys.stderr)
    if mistakes:
        print(f"docs: {len(mistakes)} to mend", file=sys.stderr)
        return 1
    print(f"docs: {Site(ROOT).built.relative_to(ROOT)}/index.html")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

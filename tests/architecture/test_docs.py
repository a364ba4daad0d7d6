"""The docs site: it builds strictly, and what is wrong with a page is said with file and line."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.scripts import load_script

ROOT = Path(__file__).resolve().parents[2]
NAV = 'site_name = "S"\ndocs_dir = "build/docs/pages"\nsite_dir = "build/docs/site"\nuse_directory_urls = false\n'


@pytest.fixture
def docs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_script("docs", monkeypatch)


def a_repository(root: Path, **pages: str) -> None:
    """A small one: the texts of docs/NAME.md, beside what every page of ours needs."""
    for name in ("ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "README"):
        (root / f"{name}.md").write_text(f"# {name}\n")
    example = root / "examples" / "one"
    example.mkdir(parents=True)
    (example / "README.md").write_text("# one\n\nBack to [the pages](../../docs/index.md#first).\n")
    (example / "app.py").write_text("print('`${x}`')\n")
    (root / "docs").mkdir()
    for name, text in {"index": "# Index\n\n## First\n", **pages}.items():
        (root / "docs" / f"{name}.md").write_text(text)
    names = [
        *(f"{path.stem}.md" for path in sorted((root / "docs").glob("*.md"))),
        "examples/one.md",
    ]
    names += [f"project/{name}.md" for name in ("architecture", "contributing", "changelog")]
    listed = ",\n".join(f'  "{name}"' for name in names)
    theme = "[project.theme]\nfont = false\n"
    slugs = 'toc.slugify.object = "pymdownx.slugs.slugify"\ntoc.slugify.kwds.case = "lower"\n'
    toc = f"[project.markdown_extensions]\ntables = {{}}\n{slugs}"
    (root / "zensical.toml").write_text(f"[project]\n{NAV}nav = [\n{listed},\n]\n{theme}{toc}")


def test_the_site_of_a_small_repository_builds_and_its_links_lead_where_the_pages_are(
    docs: ModuleType, tmp_path: Path
) -> None:
    a_repository(
        tmp_path,
        more="# More\n\n[a](index.md#first), [b](../examples/one), [c](../examples/one/app.py), "
        "[d](../ARCHITECTURE.md), `[e](none.md)`\n\n```yaml\n[f](none.md)\n```\n",
    )

    assert docs.build(tmp_path) == []
    built = (tmp_path / "build" / "docs" / "site" / "more.html").read_text()
    for address in ("index.html#first", "examples/one.html", "examples/one.html#apppy"):
        assert f'href="{address}"' in built
    assert "<code>print" not in built
    assert "app.py" in (tmp_path / "build" / "docs" / "site" / "examples" / "one.html").read_text()


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("[a](none.md)", "docs/more.md:3: none.md leads nowhere"),
        ("[a](index.md#second)", "docs/more.md:3: index.md#second: the page has no such heading"),
        ("[a](#second)", "docs/more.md:3: #second: the page has no such heading"),
        (
            "![](index.md)",
            "docs/more.md:3: the image index.md has no text for those who do not see it",
        ),
        ("![a](page.png)", "docs/more.md:3: page.png leads nowhere"),
        (
            "[a](../zensical.toml)",
            "docs/more.md:3: ../zensical.toml is no page of the site: write its name without a link",
        ),
    ],
)
def test_a_link_that_leads_nowhere_is_told_with_its_line(
    docs: ModuleType, tmp_path: Path, text: str, mistake: str
) -> None:
    a_repository(tmp_path, more=f"# More\n\n{text}\n")

    assert docs.build(tmp_path) == [mistake]


def test_a_page_that_is_not_in_the_nav_and_a_nav_without_a_page_are_told(
    docs: ModuleType, tmp_path: Path
) -> None:
    a_repository(tmp_path, more="# More\n", gone="# Gone\n")
    (tmp_path / "docs" / "gone.md").rename(tmp_path / "docs" / "come.md")

    assert docs.build(tmp_path) == [
        "docs/come.md:1: the page is not in the nav of zensical.toml",
        "zensical.toml:7: the nav names gone.md, which is no page",
    ]


def test_what_the_built_pages_ask_for_is_looked_at_too(docs: ModuleType, tmp_path: Path) -> None:
    a_repository(tmp_path, more="# More\n\nText\n")
    assert docs.build(tmp_path) == []
    page = tmp_path / "build" / "docs" / "site" / "more.html"
    page.write_text(
        page.read_text().replace(
            "<p>Text</p>",
            '<a href="no.html">x</a><a href="index.html#no">y</a>'
            '<script src="https://cdn.example/x.js"></script><img src="no.png">',
        )
    )

    site = docs.Site(tmp_path)
    docs.check_built(site, docs.sources(tmp_path))

    assert site.mistakes == [
        "docs/more.md:1: on the site, https://cdn.example/x.js would be fetched from elsewhere",
        "docs/more.md:1: on the site, no.png is not there",
        "docs/more.md:1: on the site, no.html leads nowhere",
        "docs/more.md:1: on the site, index.html#no: the page has no such heading",
    ]


def test_our_own_pages_have_no_link_that_leads_nowhere_and_are_all_in_the_nav(
    docs: ModuleType, tmp_path: Path
) -> None:
    """The build itself is the stage `docs`; this is its quick part."""
    for name in ("docs", "examples"):
        shutil.copytree(
            ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".tenuto")
        )
    for name in (
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "README.md",
        "zensical.toml",
    ):
        shutil.copyfile(ROOT / name, tmp_path / name)
    site = docs.Site(tmp_path)
    places = docs.sources(tmp_path)
    docs.check_nav(site, places)
    docs.check_sources(site, places)
    docs.lay_out(site, places)

    assert site.mistakes == []

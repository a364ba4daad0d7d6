"""`scripts/rules.py` finds what no test proves: it reads docs/rules.md and the marks of the tests.

That every sentence has its test is the script's own verdict, which the lint stage asks for.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.scripts import load_script

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "rules.py"
PAGE = """# The rules

- **T1.1** An edge has one of four
  states.
- **T1.2** Decided once.

A line of prose with **T9.9** in it.

- **X10.12** The last one.
"""
TESTS = '''
pytestmark = pytest.mark.rule("T1.1")

@pytest.mark.parametrize("a", [1])
@pytest.mark.rule("T1.2", "X10.12")
def test_a(a): ...

@pytest.mark.rule("T2.1")
class TestB:
    @pytest.mark.rule("T1.2")
    async def test_c(self): ...

MARK = pytest.mark.rule("nowhere")
"""@pytest.mark.rule("text")"""
'''


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_script("rules", monkeypatch)


def test_sentences_are_the_numbered_items_of_the_page(rules: ModuleType) -> None:
    assert rules.sentences(PAGE) == {
        "T1.1": "An edge has one of four states.",
        "T1.2": "Decided once.",
        "X10.12": "The last one.",
    }


def test_the_page_has_no_number_twice_and_none_that_is_not_read(rules: ModuleType) -> None:
    text = (ROOT / "docs" / "rules.md").read_text()

    assert len(rules.sentences(text)) == text.count("\n- **") > 100


def test_marks_cite_on_a_test_a_class_and_the_module_only(rules: ModuleType) -> None:
    found = [(c.rule, c.line) for c in rules.citations(Path("test_x.py"), TESTS)]

    assert sorted(found) == [("T1.1", 2), ("T1.2", 5), ("T1.2", 10), ("T2.1", 8), ("X10.12", 5)]


@pytest.mark.parametrize("mark", ["[pytest.mark.slow, pytest.mark.rule('T1.1')]", "[other]"])
def test_a_module_may_have_several_marks(rules: ModuleType, mark: str) -> None:
    found = [c.rule for c in rules.citations(Path("x.py"), f"pytestmark = {mark}\n")]

    assert found == (["T1.1"] if "rule" in mark else [])


def test_what_nobody_cites_and_what_is_not_there_are_told(rules: ModuleType) -> None:
    sentences = {"T1.1": "Decided once.", "T1.2": "Together."}
    cited = [rules.Citation("T1.2", Path("a.py"), 3), rules.Citation("T9.9", Path("b.py"), 7)]

    assert rules.report(sentences, cited) == [
        "T1.1 has no test: Decided once.",
        "b.py:7 cites T9.9, which is not in rules.md",
    ]
    assert rules.report(sentences, [*cited[:1], rules.Citation("T1.1", Path("a.py"), 4)]) == []


@pytest.mark.parametrize("missing", [False, True])
def test_it_fails_if_anything_is_wrong(tmp_path: Path, missing: bool) -> None:
    for folder in ("scripts", "docs", "tests/unit"):
        (tmp_path / folder).mkdir(parents=True)
    copy = tmp_path / "scripts" / "rules.py"
    copy.write_text(SCRIPT.read_text())
    (tmp_path / "docs" / "rules.md").write_text("- **T1.1** Decided once.\n")
    cited = "T1.2" if missing else "T1.1"
    test = f'@pytest.mark.rule("{cited}")\ndef test_a() -> None: ...\n'
    (tmp_path / "tests" / "unit" / "test_a.py").write_text(test)

    done = subprocess.run([sys.executable, str(copy)], capture_output=True, text=True, check=False)

    assert done.returncode == int(missing)
    assert ("T1.1 has no test" in done.stdout) == missing
    assert ("1 sentences, cited 1 times" in done.stdout) != missing

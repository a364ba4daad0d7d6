"""`tenuto graph`, `tenuto schema` and `tenuto validate --app`: what is written before anything runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.command import Tenuto

APP = """
from tenuto import Tenuto
app = Tenuto()
@app.task
def charge(order: str, amount: int = 1) -> str:
    return order
"""
FLOW = """name: shop
input: {type: object, additionalProperties: false, properties: {order_id: {type: string}}}
nodes:
  charge: {type: task, task: charge, params: {order: "${input.order_id}"}}
  tell: {type: set, needs: charge, values: {text: "${nodes.charge.output}"}}
"""


@pytest.fixture
def shop(tmp_path: Path) -> Tenuto:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "shop.yaml").write_text(FLOW)
    return Tenuto(tmp_path)


def test_a_graph_is_printed_or_written_in_three_forms(shop: Tenuto) -> None:
    text = shop("graph", "shop.yaml")
    mermaid = shop("graph", "shop.yaml", "--format", "mermaid")
    written = shop("graph", "shop.yaml", "-f", "svg", "-o", "shop.svg")

    assert text.stdout.splitlines() == [
        "shop: 2 nodes, 1 edge",
        "",
        "1  charge  task",
        "     → tell",
        "2  tell    set",
    ]
    assert mermaid.stdout.splitlines()[0] == "flowchart TD"
    assert (written.stdout, written.stderr) == ("", "written to shop.svg\n")
    assert (shop.folder / "shop.svg").read_text().startswith("<svg ")
    assert [done.returncode for done in (text, mermaid, written)] == [0, 0, 0]


def test_a_workflow_in_the_database_is_drawn_by_its_name_and_version(shop: Tenuto) -> None:
    assert shop("run", "shop.yaml", "--set", "order_id=a").returncode == 0

    for name in ("shop", "shop@1"):
        done = shop("graph", name)
        assert (done.returncode, done.stdout) == (0, shop("graph", "shop.yaml").stdout), done.stderr
    assert shop("graph", "shop@9").returncode == 3


def test_the_graph_of_a_file_with_errors_is_its_findings(shop: Tenuto) -> None:
    (shop.folder / "shop.yaml").write_text(FLOW.replace("needs: charge", "needs: chrage"))

    done = shop("graph", "shop.yaml")

    assert (done.returncode, done.stdout) == (2, "")
    assert "shop.yaml:5:28: error unknown_node" in done.stderr
    assert "did you mean `charge`?" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("graph", "nothing.yaml"), 3, "nothing.yaml"),
        (("graph", "nothing"), 3, "nothing"),
        (("graph", "shop.yaml", "-o", "no/such/file"), 6, "no/such/file cannot be written"),
        (("graph", "shop.yaml", "--format", "png"), 2, "png"),
        (("validate", "shop.yaml", "--app", "nowhere.py"), 2, "there is no file nowhere.py"),
    ],
)
def test_mistakes_are_one_line_each(
    shop: Tenuto, words: tuple[str, ...], code: int, told: str
) -> None:
    done = shop(*words)

    assert done.returncode == code
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert told in done.stderr


def test_the_schema_is_printed(shop: Tenuto) -> None:
    done = shop("schema")

    assert json.loads(done.stdout)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_validate_with_an_app_checks_params_and_what_is_read_of_results(shop: Tenuto) -> None:
    text = FLOW.replace("order: ", "ordr: ").replace("charge.output}", "charge.output + 1}")
    (shop.folder / "shop.yaml").write_text(text)

    alone = shop("validate", "shop.yaml")
    done = shop("validate", "shop.yaml", "--app", "app.py")

    assert alone.returncode == 0
    assert done.returncode == 2
    assert (
        "shop.yaml:4:47: warning task_params: task charge(order: str, amount: int = 1)"
        in done.stdout
    )
    assert "did you mean 'order'?" in done.stdout
    assert "error type_mismatch: `+` does not take string and int" in done.stdout


def test_run_refuses_what_cannot_go_well_with_its_app(shop: Tenuto) -> None:
    (shop.folder / "shop.yaml").write_text(FLOW.replace("charge.output}", "charge.output + 1}"))

    done = shop("run", "shop.yaml", "--set", "order_id=a")

    assert done.returncode == 2
    assert "error type_mismatch" in done.stderr

"""Names that expressions read."""

from __future__ import annotations

from tenuto import Graph, Workflow


def test_names_of_the_run_and_of_what_is_inside_are_references() -> None:
    wf = Workflow("w")

    assert [
        str(ref)
        for ref in (
            *(wf.input.a, wf.vars.url, wf.secrets.TOKEN, wf.error.code, wf.iteration, wf.params.n),
            *(wf.item.id, wf.index, wf.event.ok, wf.cursor, wf.child_output.total, wf.node.entered_at),
        )
    ] == [
        *("${input.a}", "${vars.url}", "${secrets.TOKEN}", "${error.code}", "${iteration}"),
        *("${params.n}", "${item.id}", "${index}", "${event.ok}", "${cursor}", "${output.total}"),
        "${node.entered_at}",
    ]  # fmt: skip
    assert Graph().params.a == wf.params.a

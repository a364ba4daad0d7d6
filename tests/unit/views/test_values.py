"""Outputs are put together from the payloads that their places name."""

from __future__ import annotations

from tenuto.machine.codec import encode_output
from tenuto.model.ids import Place
from tenuto.model.payload import JoinView, PayloadKey, PayloadKind
from tenuto.sdk.tenuto import Tenuto
from tenuto.views.values import read_value, value_keys, value_of

TWO = "name: two\nnodes:\n  a: {type: set, values: {x: 1}}\n  b: {type: set, values: {y: [2]}}\n"


def output(node: str) -> PayloadKey:
    return PayloadKey(Place(node), PayloadKind.OUTPUT)


def test_a_stored_place_is_read_as_the_value_it_names() -> None:
    nested = JoinView(
        (("left", output("a")), ("none", None), ("in", JoinView((("b", output("b")),))))
    )
    stored = [None, "null", encode_output(output("a")), encode_output(nested)]

    with Tenuto(":memory:") as app:
        run = app.start(TWO)
        run.result(timeout=30)

        async def read() -> list[object]:
            return [
                await app.link.ask(lambda engine, text=text: read_value(engine.reads, run.id, text))  # type: ignore[misc]
                for text in stored
            ]

        values = app.link.wait(read(), "read")

    assert values == [
        None,
        None,
        {"x": 1},
        {"left": {"x": 1}, "none": None, "in": {"b": {"y": [2]}}},
    ]


def test_a_stored_place_says_which_payloads_it_needs() -> None:
    nested = encode_output(
        JoinView((("left", output("a")), ("in", JoinView((("b", output("b")),)))))
    )
    texts = {output("a"): "1", output("b"): "[2]"}

    assert value_keys(nested) == (output("a"), output("b"))
    assert value_of(nested, texts) == {"left": 1, "in": {"b": [2]}}
    assert (value_keys(None), value_of(None, {})) == ((), None)

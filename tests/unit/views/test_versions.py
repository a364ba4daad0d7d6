"""Which version a name means. What a store finds is tested through every door: tests/integration/test_versions.py."""

from __future__ import annotations

import pytest

from tenuto.model.errors import InvalidInput
from tenuto.ports.reads import AliasRow
from tenuto.views.versions import meant, split_reference, unknown_alias


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("order", ("order", None)),
        ("order@3", ("order", "3")),
        ("order@stable", ("order", "stable")),
        ("order@a@b", ("order", "a@b")),
    ],
)
def test_a_name_says_its_version_behind_the_at(text: str, parts: tuple[str, str | None]) -> None:
    assert split_reference(text) == parts


@pytest.mark.parametrize("text", ["order@", "@", "@stable"])
def test_half_a_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="names no version; write order@3, order@stable"):
        split_reference(text)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "no alias 'order@stabel'; order has no aliases"),
        (("canary", "stable"), "no alias 'order@stabel'; did you mean order@stable?"),
        (("x", "y"), "no alias 'order@stabel'; there are x, y"),
        (tuple("abcdefg"), "no alias 'order@stabel'; there are a, b, c, d, e, …"),
    ],
)
def test_an_unknown_alias_names_what_there_is(names: tuple[str, ...], said: str) -> None:
    known = [AliasRow(alias=name, version=1) for name in names]

    assert str(unknown_alias("order", "stabel", known)) == said


def test_what_is_meant_is_named_only_where_it_is_close() -> None:
    assert meant("ordre", ["order", "refund"]) == "did you mean 'order'?"
    assert meant("zzz", ["order", "refund"]) == ""

"""The table of keys: every hint of it leads somewhere."""

from __future__ import annotations

import pytest

from tenuto.adapters.cel import CelParser
from tenuto.dsl.compile import load
from tenuto.dsl.keys import CHILD_KEYS, ELSEWHERE, ITEM_KEYS, LEAF_TYPES, OWN, WORK_KEYS
from tenuto.model.definition import WORKER_TYPES, NodeType

PARSER = CelParser()


def test_every_type_has_its_keys() -> None:
    assert set(OWN) == set(NodeType)
    assert all(len(set(keys)) == len(keys) for keys in OWN.values())


def test_every_worker_takes_the_keys_of_work_and_items_take_some_of_them() -> None:
    assert all(set(WORK_KEYS) <= set(OWN[type]) for type in WORKER_TYPES)
    assert set(CHILD_KEYS) < set(ITEM_KEYS) < set(WORK_KEYS)


def test_c3_whoever_does_work_may_be_undone_and_undoing_is_a_leaf() -> None:
    assert {type for type, keys in OWN.items() if "compensate" in keys} == WORKER_TYPES | {
        NodeType.CALL,
        NodeType.FOREACH,
    }
    assert set(LEAF_TYPES) == WORKER_TYPES | {NodeType.CALL, NodeType.EMIT}


@pytest.mark.parametrize("key", sorted(set(ELSEWHERE) - {"compensate", "on_failure"}))
def test_a_key_that_stands_elsewhere_says_where(key: str) -> None:
    loaded = load(f"name: a\nnodes: {{a: {{type: fork, {key}: 1}}}}\n", file="a", parser=PARSER)

    finding = next(f for f in loaded.findings if f.code == "key_not_allowed")
    assert (finding.text, finding.hint) == (key, ELSEWHERE[key])

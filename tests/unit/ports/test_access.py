"""What a grantee may."""

from __future__ import annotations

import pytest

from tenuto.model.errors import Denied
from tenuto.ports.access import Grantee, Scope, everybody


def test_a_worker_administers_nothing() -> None:
    Grantee(scope=Scope.ADMIN).must_administer()
    with pytest.raises(
        Denied, match="this token is for workers; this needs one of scope admin"
    ) as raised:
        Grantee(scope=Scope.WORKER).must_administer()

    assert raised.value.known


def test_a_token_for_some_queues_serves_no_others() -> None:
    some = Grantee(scope=Scope.WORKER, queues=frozenset({"a", "b"}))

    some.must_serve(frozenset({"a"}))
    Grantee(scope=Scope.WORKER).must_serve(frozenset({"a", "c"}))
    with pytest.raises(Denied, match="this token is for queues a, b, not for queue c") as raised:
        some.must_serve(frozenset({"a", "c"}))

    assert raised.value.known


def test_on_one_machine_everybody_may_everything() -> None:
    everybody(None).must_administer()
    everybody("x").must_serve(frozenset({"any"}))

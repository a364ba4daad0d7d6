"""Which dispatch settings mean. What Redis's own does: tests/conformance/dispatch."""

from __future__ import annotations

import pytest

from tenuto.app.dispatch import dispatch_of, look_at_redis
from tenuto.coordinator.dispatching import DatabaseDispatch
from tenuto.model.errors import InvalidInput, Unavailable
from tenuto.settings import Settings
from tenuto.settings.tree import Redis

NOWHERE = "redis://:canary@127.0.0.1:1/0"


@pytest.mark.parametrize(
    ("dispatch", "url"), [("auto", ""), ("database", ""), ("database", NOWHERE)]
)
async def test_without_redis_the_database_does_it(dispatch: str, url: str) -> None:
    settings = Settings(dispatch=dispatch, redis=Redis(url=url))

    assert await dispatch_of(settings) is DatabaseDispatch


async def test_redis_needs_its_address() -> None:
    with pytest.raises(InvalidInput, match=r"dispatch: .* needs its address; set redis\.url"):
        await dispatch_of(Settings(dispatch="redis"))


@pytest.mark.parametrize("dispatch", ["auto", "redis"])
async def test_a_redis_that_is_away_is_waited_for(dispatch: str) -> None:
    made = await dispatch_of(Settings(dispatch=dispatch, redis=Redis(url=NOWHERE)))

    assert made is not DatabaseDispatch


async def test_a_look_at_a_redis_that_is_away_says_so_without_its_password() -> None:
    with pytest.raises(Unavailable, match=r"^nobody listens at redis://127\.0\.0\.1:1$") as raised:
        await look_at_redis(NOWHERE)

    assert "canary" not in str(raised.value)

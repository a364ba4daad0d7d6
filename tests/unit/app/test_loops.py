"""The loop of long-lived processes."""

from __future__ import annotations

import asyncio
import gc
import sys

import pytest
import uvloop

from tenuto.app.loops import YOUNG_MAX, loop_factory, run, settle


async def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_it_is_uvloop_where_that_is_installed() -> None:
    assert isinstance(run(_loop()), uvloop.Loop)


def test_it_is_asyncio_s_own_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)

    assert loop_factory() is None
    assert not isinstance(run(_loop()), uvloop.Loop)


def test_what_is_loaded_is_not_looked_at_again() -> None:
    before = gc.get_threshold()
    try:
        settle()

        assert gc.get_freeze_count() > 1_000
        assert gc.get_threshold()[0] == YOUNG_MAX
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)

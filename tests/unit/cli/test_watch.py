"""Watching over a server that comes and goes. Watching real ones: tests/e2e/test_cli_server.py."""

from __future__ import annotations

import pytest
from tests.support.scripted import Asked, answer, event, scripted, stream

from tenuto.cli import watch
from tenuto.cli.watch import BLIND_MAX, _each_change
from tenuto.model.errors import NotFound, TenutoError, Unavailable
from tenuto.sdk.remote import Remote

STATE = stream([event("state", {})])


async def looks(*answers: bool | TenutoError) -> int:
    """How often it was looked, where each stream brings one piece of news and breaks."""
    given = iter(answers)
    count = 0

    async def look() -> bool:
        nonlocal count
        count += 1
        found = next(given)
        if isinstance(found, TenutoError):
            raise found
        return found

    with scripted(lambda asked, before: STATE) as site:
        async with Remote(site.url) as remote:
            await _each_change(remote, "r-1", look)
    return count


async def test_it_is_looked_after_each_piece_of_news_until_all_is_seen() -> None:
    assert await looks(False, False, True) == 3


async def test_a_server_that_is_away_for_a_while_is_no_end() -> None:
    assert await looks(False, Unavailable("gone"), Unavailable("gone"), True) == 4


async def test_a_server_that_never_shows_the_run_again_is_one() -> None:
    with pytest.raises(Unavailable, match="gone"):
        await looks(*[Unavailable("gone")] * (BLIND_MAX + 1))


async def test_a_run_that_is_not_there_ends_it_plainly() -> None:
    with pytest.raises(NotFound, match="no run 'r-1'"):
        await looks(False, NotFound("run", "r-1"))


async def test_who_waits_is_told_what_for_after_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watch, "TELL_S", 0.05)
    node = {"id": "mail", "state": "ready", "waits_for": "a worker that has `mail`"}
    early: dict[str, object] = {
        "run_id": "01939d6e-0000-7000-8000-00000000abcd",
        "state": "running",
        "quarantine": None,
        "closing": None,
        "nodes": [node],
        "children": {"newest": []},
    }
    late = {**early, "state": "success"}

    def respond(asked: Asked, _: int) -> bytes:
        # What is left after the telling is longer than one request waits.
        return answer(200, late if asked.path.endswith("?timeout=25") else early)

    for telling, left, state in ((True, 60.0, "success"), (False, 0.1, "running")):
        with scripted(respond) as site:
            async with Remote(site.url, patience_s=0) as remote:
                found = await watch._end_of(remote, "r-1", left, telling=telling)
        assert found["state"] == state

    assert capsys.readouterr().err == "run 0000abcd: mail waits for a worker that has `mail`\n"

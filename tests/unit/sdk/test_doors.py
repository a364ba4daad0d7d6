"""Runs that are started and waited for in one call: in this process and over a server, to the same end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.rest import AWAIT, ECHO, PAUSE, serving

from tenuto.model.errors import InvalidInput, NotFound
from tenuto.sdk import waiting
from tenuto.sdk.doors import far_of, id_of
from tenuto.sdk.failures import RunFailed
from tenuto.sdk.tenuto import Tenuto

FAILING = "name: failing\nnodes: {a: {type: fail, code: broken, message: it is}}\n"


@pytest.fixture(params=["here", "server"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tenuto]:
    if request.param == "here":
        with Tenuto(tmp_path / "runs.db") as made:
            yield made
        return
    with serving(tmp_path / "runs.db") as server, Tenuto(server.url) as made:
        yield made


def test_a_run_to_its_end_yields_its_output(app: Tenuto) -> None:
    assert app.run(ECHO, {"n": 1}, vars={"greeting": "hi"}) == {"n": 1, "greeting": "hi"}
    assert app.run("echo", {"n": 2}, key="k", timeout=30)["n"] == 2
    assert app.run("echo@1", {"n": 3}, key="k", priority=2)["n"] == 2, "one key, one run"


async def test_its_coroutine_does_the_same(app: Tenuto) -> None:
    await app.adeploy(ECHO)

    assert await app.arun("echo", {"n": 1}) == {"n": 1, "greeting": "hello"}
    await app.aclose()


def test_one_that_fails_says_so(app: Tenuto) -> None:
    with pytest.raises(RunFailed, match="broken"):
        app.run(FAILING)


def test_one_that_takes_longer_goes_on_and_says_what_it_waits_for(
    app: Tenuto, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "LOOK_S", 60.0)  # a busy machine's engine takes longer to say why
    with pytest.raises(TimeoutError, match=r"has not ended within 0\.1 s: ask waits for event"):
        app.run(AWAIT, {"order": "A-1"}, key="late", timeout=0.1)
    app.send_event("order.approved", "A-1", 5)

    assert app.run("approval", {"order": "A-1"}, key="late") == 5


def test_what_cannot_be_started_is_refused_as_a_start_is(app: Tenuto) -> None:
    app.deploy(ECHO)
    with pytest.raises(InvalidInput, match=r"input\.n"):
        app.run("echo", {"n": "x"})
    with pytest.raises(InvalidInput, match="timeout"):
        app.run("echo", {"n": 1}, timeout="soon")  # type: ignore[arg-type]  # what is refused
    with pytest.raises(InvalidInput, match="priority"):
        app.run("echo", {"n": 1}, priority=10)
    with pytest.raises(NotFound, match="ecco"):
        app.run("ecco")


def test_a_run_that_is_no_short_one_is_waited_for_on(
    app: Tenuto, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenuto.sdk.remote.WAIT_S", 0.01)

    assert app.run(PAUSE.format(name="nap", time="300ms"), timeout=30) == {"pause": None}


def test_only_an_address_is_a_server_and_only_a_run_a_run() -> None:
    assert far_of("runs.db") is None
    assert far_of(Path("http:/x")) is None
    with pytest.raises(InvalidInput, match="is no Run; get it with get_run"):
        id_of("an-id")

"""The life of definitions, with an engine of one's own and over a server: versions, aliases, what changed, deleting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.rest import Server, serving

from tenuto import Conflict, InvalidInput, NotFound, Tenuto
from tenuto.api import models
from tenuto.api.diffs import Diff
from tenuto.model.ids import RunId
from tenuto.sdk.remote import Remote

TEXT = """
name: {name}
nodes:
  say: {{type: set, values: {{n: {n}}}}}
output: "${{nodes.say.output.n}}"
"""
WAITS = """
name: waits
nodes:
  ask: {type: wait_for_event, event: go, key: "${input.key}"}
"""
WITHIN_S = 30


def text(name: str, n: int) -> str:
    return TEXT.format(name=name, n=n)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


@pytest.fixture(params=["near", "far"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Untyped: tests give what types forbid."""
    place = str(tmp_path / "t.db")
    if request.param == "far":
        place = request.getfixturevalue("server").url
    with Tenuto(place) as made:
        yield made


# -- versions ---------------------------------------------------------------------------------------------------------


def test_an_identical_definition_is_no_new_version_and_says_so(app: Any) -> None:
    first, again = app.deploy(text("once", 1)), app.deploy(text("once", 1))
    commented = app.deploy(text("once", 1) + "# a comment\n")
    other = app.deploy(text("once", 2))

    assert [each.version for each in (first, again, commented, other)] == [1, 1, 1, 2]
    assert [each.created for each in (first, again, commented, other)] == [True, False, False, True]
    assert first.hash == commented.hash != other.hash


def test_deploying_older_content_again_is_a_new_version(app: Any) -> None:
    versions = [app.deploy(text("back", n)).version for n in (1, 2, 1)]

    assert versions == [1, 2, 3]
    assert app.start("back@1").result(WITHIN_S) == app.start("back@3").result(WITHIN_S) == 1


def test_versions_are_listed_newest_first_with_what_means_them(app: Any) -> None:
    for n in (1, 2):
        app.deploy(text("listed", n), aliases=["canary"])
    app.set_alias("listed", "stable", 1)

    found = app.versions("listed")

    assert [(each.version, each.aliases) for each in found] == [(2, ("canary",)), (1, ("stable",))]
    assert found[0].name == "listed"
    assert found[0].created_at.tzinfo is not None
    with pytest.raises(NotFound, match=r"no workflow 'liste'; did you mean 'listed'\?"):
        app.versions("liste")


# -- aliases ----------------------------------------------------------------------------------------------------------


def test_an_alias_is_moved_and_tells_what_it_meant(app: Any) -> None:
    for n in (1, 2):
        app.deploy(text("moved", n))

    told = [app.set_alias("moved", "stable", version) for version in (1, 2, 2)]

    assert told == [None, 1, 2]
    assert app.aliases("moved") == {"stable": 2}
    assert app.start("moved@stable").result(WITHIN_S) == 2
    assert app.start("moved@1").result(WITHIN_S) == 1
    assert app.drop_alias("moved", "stable") == 2
    assert app.aliases("moved") == {}


def test_a_run_keeps_its_version_when_its_alias_moves(app: Any) -> None:
    """Catalogue I-9."""
    one = "name: kept\nnodes:\n  ask: {type: wait_for_event, event: go, key: kept}\noutput: 1\n"
    app.deploy(one, aliases=["stable"])
    run = app.start("kept@stable")
    app.deploy(one.replace("output: 1", "output: 2"), aliases=["stable"])

    app.send_event("go", "kept")

    assert app.aliases("kept") == {"stable": 2}
    assert run.result(WITHIN_S) == 1


def test_many_who_move_an_alias_at_once_leave_one_chain(app: Any) -> None:
    for n in range(5):
        app.deploy(text("chained", n))

    async def move_all() -> Sequence[int | None]:
        moves = [app.aset_alias("chained", "stable", version) for version in range(1, 6)]
        return cast("Sequence[int | None]", await asyncio.gather(*moves))

    before = asyncio.run(move_all())

    last = app.aliases("chained")["stable"]
    assert sorted(each or 0 for each in [*before, last]) == [0, 1, 2, 3, 4, 5]


NO_ALIAS = "is no alias; use at most 63 letters, digits"


@pytest.mark.parametrize("alias", ["3", "", "a b", "a@b", "-x", "x" * 64, "ä", "a/b", None, 3])
def test_what_is_no_alias_is_refused_before_anything_is_stored(app: Any, alias: Any) -> None:
    with pytest.raises(InvalidInput, match=NO_ALIAS):
        app.set_alias("nothing", alias, 1)
    with pytest.raises(InvalidInput, match=NO_ALIAS):
        app.deploy(text("refused", 1), aliases=["fine", alias])
    with pytest.raises(NotFound):
        app.versions("refused")


@pytest.mark.parametrize("version", ["1", 1.0, True, 0, -1, 2**31, None])
def test_a_version_is_a_whole_number(app: Any, version: Any) -> None:
    for verb in (app.delete_version, lambda name, at: app.set_alias(name, "stable", at)):
        with pytest.raises(InvalidInput, match="is no number of a version; give one such as 3"):
            verb("nothing", version)


def test_what_is_not_there_is_named_with_what_is_probably_meant(app: Any) -> None:
    app.deploy(text("there", 1), aliases=["stable", "canary"])
    app.deploy(text("there", 2))
    app.deploy(text("bare", 1))

    mistakes: list[tuple[Callable[[], object], str]] = [
        (lambda: app.start("thre@stable"), r"no workflow 'thre'; did you mean 'there'\?"),
        (
            lambda: app.start("there@stabel"),
            r"no alias 'there@stabel'; did you mean there@stable\?",
        ),
        (lambda: app.start("there@x"), "no alias 'there@x'; there are canary, stable"),
        (lambda: app.start("bare@x"), "no alias 'bare@x'; bare has no aliases"),
        (lambda: app.start("there@3"), "no version 'there 3'; the newest is 2"),
        (lambda: app.start(f"there@{'9' * 5_000}"), "no version 'there 999"),
        (lambda: app.set_alias("there", "stable", 3), "no version 'there 3'; the newest is 2"),
        (lambda: app.set_alias("thre", "stable", 1), r"did you mean 'there'\?"),
        (lambda: app.drop_alias("there", "stabel"), r"did you mean there@stable\?"),
        (lambda: app.drop_alias("thre", "stable"), r"did you mean 'there'\?"),
        (lambda: app.delete_version("there", 9), "no version 'there 9'; the newest is 2"),
        (lambda: app.aliases("thre"), r"did you mean 'there'\?"),
    ]
    for verb, said in mistakes:
        with pytest.raises(NotFound, match=said):
            verb()


@pytest.mark.parametrize("name", ["order@", "@3", "@"])
def test_a_name_without_its_half_is_refused(app: Any, name: str) -> None:
    with pytest.raises(InvalidInput, match="names no version; write order@3, order@stable"):
        app.start(name)


def test_a_version_is_not_named_twice(app: Any) -> None:
    app.deploy(text("twice", 1))

    with pytest.raises(InvalidInput, match="twice@1 says which one already"):
        app.set_alias("twice@1", "stable", 1)


# -- deleting ---------------------------------------------------------------------------------------------------------


def test_a_version_that_is_needed_is_not_deleted_and_the_cure_is_named(app: Any) -> None:
    app.deploy(WAITS, aliases=["stable"])
    runs = [app.start("waits", {"key": key}) for key in ("a", "b")]
    app.deploy(text("waits", 2))

    with pytest.raises(Conflict, match=f"2 runs of it, {runs[0].id} to {runs[1].id}, are not over"):
        app.delete_version("waits", 1)
    runs[0].cancel()
    with pytest.raises(
        Conflict, match=f"run {runs[1].id} is not over; wait for the end, or cancel"
    ):
        app.delete_version("waits", 1)
    runs[1].cancel()
    with pytest.raises(Conflict, match=r"the alias 'stable' means it; .* waits stable --drop"):
        app.delete_version("waits", 1)
    app.drop_alias("waits", "stable")
    app.delete_version("waits", 1)

    assert [each.version for each in app.versions("waits")] == [2]
    assert runs[0].status() == "cancelled"
    with pytest.raises(NotFound, match="no version 'waits 1'; it has been deleted"):
        app.start("waits@1")
    with pytest.raises(NotFound, match="no version 'waits 1'; it has been deleted"):
        app.delete_version("waits", 1)


def test_the_number_of_a_deleted_version_is_not_given_again(app: Any) -> None:
    for n in (1, 2):
        app.deploy(text("numbers", n))
    app.delete_version("numbers", 2)

    assert app.start("numbers").result(WITHIN_S) == 1
    assert app.start(text("numbers", 2)).result(WITHIN_S) == 2
    assert [each.version for each in app.versions("numbers")] == [3, 1]


def test_without_a_version_a_workflow_is_no_more(app: Any) -> None:
    app.deploy(text("gone", 1))
    app.delete_version("gone", 1)

    for verb in (app.start, app.versions):
        with pytest.raises(NotFound, match="no workflow 'gone'"):
            verb("gone")


# -- REST -------------------------------------------------------------------------------------------------------------


def test_documents_are_those_that_the_models_describe(server: Server) -> None:
    body = {"source": text("shaped", 1), "aliases": ["stable", "stable"]}
    deployed = server.client.post("/v1/workflows", json=body).json()
    server.deploy(text("shaped", 2))
    path = "/v1/workflows/shaped"

    models.Deployed.model_validate(deployed)
    assert deployed["moved"] == [{"name": "shaped", "alias": "stable", "version": 1, "was": None}]
    moved = server.client.put(f"{path}/aliases/stable", json={"version": 2}).json()
    assert models.MovedAlias.model_validate(moved).was == 1
    models.AliasPage.model_validate(server.get(f"{path}/aliases"))
    assert server.get(f"{path}/aliases/stable") == {
        "name": "shaped",
        "alias": "stable",
        "version": 2,
    }
    Diff.model_validate(server.get(f"{path}/diff"))
    version = server.get(f"{path}@stable")
    models.Version.model_validate(version)
    assert (version["version"], version["semantics"], version["aliases"]) == (2, 1, ["stable"])
    assert server.client.delete(f"{path}/aliases/stable").json()["version"] == 2
    deleted = server.client.delete(f"{path}/versions/1").json()
    assert deleted == {"name": "shaped", "version": 1}


def test_a_run_says_by_which_version_and_rules_it_goes(server: Server) -> None:
    """Catalogue I-21."""
    server.client.post("/v1/workflows", json={"source": text("pinned", 1), "aliases": ["stable"]})
    server.deploy(text("pinned", 2))

    found = [
        server.wait(server.start(workflow, **more))
        for workflow, more in (
            ("pinned@stable", {}),
            ("pinned@1", {}),
            ("pinned", {"version": 1}),
            ("pinned", {}),
        )
    ]

    assert [(run["workflow"], run["version"], run["semantics"]) for run in found] == [
        ("pinned", 1, 1),
        ("pinned", 1, 1),
        ("pinned", 1, 1),
        ("pinned", 2, 1),
    ]


def test_runs_of_a_deleted_version_are_shown_verified_and_exported(server: Server) -> None:
    server.deploy(text("past", 1))
    run = server.start("past")
    server.wait(run)
    server.client.delete("/v1/workflows/past/versions/1")

    assert server.get(f"/v1/runs/{run}")["output"] == 1
    assert server.get(f"/v1/runs/{run}/verify")["ok"]
    assert server.get(f"/v1/runs/{run}/export")["definition"]["source"] == text("past", 1)
    assert server.client.get("/v1/workflows/past").status_code == 404


def test_a_failed_run_of_a_deleted_version_is_retried(server: Server) -> None:
    """Catalogue I-10."""
    server.deploy("name: fails\nnodes:\n  stop: {type: set, values: {n: '${input.n + 1}'}}\n")
    run = server.start("fails")
    server.wait(run)
    server.client.delete("/v1/workflows/fails/versions/1")

    commands = server.engine.commands
    server.engine.call(commands.retry(RunId(run), skip="stop")).result()

    assert server.wait(run)["state"] == "success"


def test_versions_are_compared_by_number_and_alias(server: Server) -> None:
    server.client.post("/v1/workflows", json={"source": text("cmp", 1), "aliases": ["stable"]})
    for n in (2, 3):
        server.deploy(text("cmp", n))
    path = "/v1/workflows/cmp/diff"

    def ends(**query: str) -> list[str]:
        found = server.get(path, **query)
        return [found["old"], found["new"]]

    assert ends() == ["cmp@2", "cmp@3"]
    assert ends(to="2") == ["cmp@1", "cmp@2"]
    assert ends(**{"from": "stable"}) == ["cmp@1", "cmp@3"]
    assert ends(**{"from": "3", "to": "stable"}) == ["cmp@3", "cmp@1"]
    server.client.delete("/v1/workflows/cmp/versions/2")
    assert ends() == ["cmp@1", "cmp@3"]
    [changed] = server.get(path)["nodes"]["changed"]
    assert changed["changes"] == [{"what": "values.n", "old": 1, "new": 3}]


async def test_the_client_of_rest_has_the_same_verbs(server: Server) -> None:
    async with Remote(server.url) as remote:
        made = await remote.deploy(text("remote", 1), aliases=["stable"])
        await remote.deploy(text("remote", 2))
        moved = await remote.set_alias("remote", "stable", 2)
        dropped = await remote.drop_alias("remote", "stable")
        deleted = await remote.delete_version("remote", 1)

        assert made["moved"][0]["was"] is None
        assert (moved["was"], moved["version"], dropped["version"]) == (1, 2, 2)
        assert deleted == {"name": "remote", "version": 1}
        assert (await remote.list_aliases("remote"))["items"] == []
        with pytest.raises(NotFound, match="remote has no aliases"):
            await remote.get_alias("remote", "stable")
        with pytest.raises(InvalidInput, match="no version of remote is older than 2; there"):
            await remote.diff_versions("remote")


def test_a_body_of_text_has_no_aliases(server: Server) -> None:
    answer = server.client.post(
        "/v1/workflows", content=text("plain", 1), headers={"Content-Type": "application/yaml"}
    )

    assert json.loads(answer.text)["moved"] == []

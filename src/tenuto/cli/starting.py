"""`tenuto run start` and `tenuto deploy`: what only a server does, which goes on when the command has ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tenuto.cli.arguments import naming_options, read_input, read_vars
from tenuto.cli.console import note, say
from tenuto.cli.definitions import read_definition
from tenuto.cli.door import Door, Server, ask_server, server_for
from tenuto.cli.render import clean, end_text, short_id
from tenuto.cli.versions import alias_line
from tenuto.cli.watch import wait_for
from tenuto.dsl.storable import check_alias
from tenuto.model.errors import InvalidDefinition, InvalidInput
from tenuto.model.states import FINAL_RUN_STATES
from tenuto.sdk.problems import read_findings
from tenuto.sdk.workflows import SUFFIXES
from tenuto.views.cures import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenuto.dsl.findings import Finding
    from tenuto.sdk.remote import Remote
    from tenuto.sdk.workflows import Source as Text

Document = dict[str, Any]


def start_run(
    door: Door,
    workflow: str,
    *,
    version: int | None,
    input: str | None,
    sets: Sequence[str],
    vars: Sequence[str],
    key: str | None,
    priority: int | None = None,
    wait: bool,
    timeout_s: float | None,
    output: str,
) -> int:
    """Start a run of a deployed workflow, or of a file, which is deployed first."""
    if timeout_s is not None and not wait:
        raise InvalidInput("belongs to --wait", path="--timeout")
    text = _definition(workflow)
    if text is not None and version is not None:
        raise InvalidInput(
            "a file is deployed as its newest version; leave it out", path="--version"
        )
    if version is not None and "@" in workflow:
        raise InvalidInput(f"{workflow} says which one already; leave it out", path="--version")
    file = "" if text is None or workflow == "-" else f" {quoted(workflow)}"
    server = server_for(
        door,
        f"tenuto dev{file}",
        instead=f", or carry one run to its end here with `tenuto run{file}`" if file else "",
    )

    async def start(remote: Remote) -> Document:
        if text is not None:
            stored = await _deploy(remote, text)
        elif version is not None:
            stored = await remote.get_version(workflow, version)
        else:
            stored = await remote.get_workflow(workflow)
        schema = stored["input_schema"]
        value = _checked_input(input, sets, None if schema is None else json.dumps(schema))
        run = await remote.start_run(
            stored["name"],
            value,
            version=stored["version"],
            key=key,
            vars=_overrides(stored["vars"], vars),
            priority=priority or 0,
        )
        if run.get("deduplicated"):
            note(f"the key {key!r} has its run already")
        if output == "table" and run["state"] in FINAL_RUN_STATES:
            return {**run, "error": (await remote.get_run(run["run_id"]))["error"]}
        return run

    run = ask_server(server, start)
    if wait:
        if output == "table":
            note(f"run {run['run_id']} {run['state']}")
        return wait_for(server, [run["run_id"]], timeout_s=timeout_s, output=output)
    if output != "table":
        say(json.dumps(run, ensure_ascii=False))
        return 0
    if run["state"] in FINAL_RUN_STATES:
        say(f"run {run['run_id']} {end_text(run['state'], run.get('error'))}")
        note(f"look at it with:\n  tenuto run show {short_id(run['run_id'])}{server.words}")
        return 0
    say(f"run {run['run_id']} {run['state']}")
    note(f"watch it with:\n  tenuto run watch {short_id(run['run_id'])}{server.words}")
    return 0


def deploy_files(
    door: Door, names: Sequence[str], *, aliases: Sequence[str] = (), output: str
) -> int:
    """Store definitions; none of them where one has an error. `aliases` mean each of them from now on."""
    for alias in aliases:
        check_alias(alias)
    texts = [read_definition(name) for name in names]
    _refuse_twins(names, texts)
    files = "".join(f" {quoted(name)}" for name in names if name != "-")
    server = server_for(door, f"tenuto dev{files}")

    async def deploy(remote: Remote) -> list[Document]:
        findings: list[Finding] = []
        for text in texts:
            findings += read_findings(
                (await remote.validate(_decoded(text), text.file))["findings"]
            )
        if any(finding.severity == "error" for finding in findings):
            raise InvalidDefinition(findings)
        for finding in findings:
            note(finding)
        return [await remote.deploy(_decoded(text), text.file, aliases=aliases) for text in texts]

    made = ask_server(server, deploy)
    if output == "json":
        say(json.dumps(made, ensure_ascii=False))
    elif output == "jsonl":
        for each in made:
            say(json.dumps(each, ensure_ascii=False))
    else:
        for name, each in zip(names, made, strict=True):
            how = "deployed" if each["created"] else "unchanged"
            say(f"{name}: {how}: {clean(each['name'])} version {each['version']}")
            for moved in each["moved"]:
                say(f"{name}: {alias_line(moved)}")
        _next_step(made, server)
    return 0


def _refuse_twins(names: Sequence[str], texts: Sequence[Text]) -> None:
    """Raise InvalidInput for two files with one workflow's name: the later would replace the other."""
    from tenuto.app.definitions import load_definition
    from tenuto.cli.workspace import both_say

    owners: dict[str, str] = {}
    for name, text in zip(names, texts, strict=True) if len(texts) > 1 else ():
        graph = load_definition(text.text, file=text.file).graph
        if graph is None:
            continue  # the server says what is wrong with it
        owner = owners.setdefault(graph.definition.name, name)
        if owner != name:
            raise InvalidInput(both_say(owner, name, clean(graph.definition.name)))


def _next_step(made: Sequence[Document], server: Server) -> None:
    if len(made) == 1 and made[0]["created"]:
        given = "".join(
            f" --set {quoted(f'{name}=…')}" for name in _needed(made[0]["input_schema"])
        )
        name = quoted(made[0]["name"])
        note(f"start a run with:\n  tenuto run start {name}{given}{server.words}")


def _needed(schema: object) -> Sequence[str]:
    """Fields of the input that a run cannot start without."""
    if not isinstance(schema, dict):
        return ()
    return [str(each) for each in schema.get("required", ())]


def _definition(workflow: str) -> Text | None:
    """The text of a file; None for a name."""
    if workflow == "-" or workflow.endswith(SUFFIXES) or "/" in workflow:
        return read_definition(workflow)
    if not workflow:
        raise InvalidInput("is empty; give a workflow's name, or a .yaml file", path="WORKFLOW")
    return None


async def _deploy(remote: Remote, text: Text) -> Document:
    made = await remote.deploy(_decoded(text), text.file)
    if made["created"]:
        note(f"deployed {clean(made['name'])} version {made['version']}")
    return made


def _decoded(text: Text) -> str:
    """As it is sent; what is no UTF-8 is found here as the compiler would find it."""
    if isinstance(text.text, str):
        return text.text
    try:
        return text.text.decode("utf-8-sig")
    except UnicodeDecodeError:
        from tenuto.app.definitions import load_definition

        raise InvalidDefinition(load_definition(text.text, file=text.file).findings) from None


def _checked_input(given: str | None, sets: Sequence[str], schema: str | None) -> object:
    """The input; what is wrong with it is found here, as `run FILE` would find it."""
    from tenuto.dsl.given import default_input
    from tenuto.dsl.inputs import check_input

    value = read_input(given, sets, schema)
    with naming_options(given, sets):
        check_input(schema, default_input(schema, value) if given is None else value)
    return value


def _overrides(declared: Document, texts: Sequence[str]) -> Document:
    """The given vars as values: text where the default is text, else JSON where it is some."""
    from tenuto.dsl.inputs import apply_vars

    given = read_vars(texts)
    merged = json.loads(apply_vars(json.dumps(declared), given, {}))
    return {name: merged[name] for name in given}

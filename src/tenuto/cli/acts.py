"""`tenuto run cancel|terminate|pause|resume|skip|retry|replay`: asking something of a run, of a server's or of a file's
that no engine has open.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tenuto.cli.arguments import read_json, read_vars
from tenuto.cli.console import answers, note, say
from tenuto.cli.door import Door, File, Server, ask, ask_server, changing, must_exist
from tenuto.cli.look import now_us
from tenuto.cli.render import clean, short_id
from tenuto.cli.tables import plan_lines
from tenuto.model.errors import InvalidInput
from tenuto.model.states import FINAL_RUN_STATES
from tenuto.runtime.results import canonical
from tenuto.views.answers import Answers
from tenuto.views.cures import go_on_command

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from tenuto.app.embedded import Engine
    from tenuto.cli.door import Source
    from tenuto.coordinator.commands import Commands
    from tenuto.coordinator.outlook import Outlook
    from tenuto.model.ids import RunId
    from tenuto.sdk.remote import Remote

    Verb = Callable[[Commands, RunId], Coroutine[Any, Any, Any]]

Document = dict[str, Any]
_T = TypeVar("_T")


def cancel_run(door: Door, text: str, reason: str) -> int:
    """Cancel an unfinished run."""
    reason = _checked_reason(reason)
    return _command(
        door,
        text,
        "cancelled",
        lambda commands, run_id: commands.cancel(run_id, reason),
        lambda remote: remote.cancel_run(text, reason),
    )


def terminate_run(door: Door, text: str, reason: str) -> int:
    """End an unfinished run at once, without handlers."""
    reason = _checked_reason(reason)
    return _command(
        door,
        text,
        "terminated",
        lambda commands, run_id: commands.terminate(run_id, reason),
        lambda remote: remote.terminate_run(text, reason),
    )


def pause_run(door: Door, text: str) -> int:
    """Pause an unfinished run."""
    return _command(
        door,
        text,
        "paused",
        lambda commands, run_id: commands.pause(run_id),
        lambda remote: remote.pause_run(text),
    )


def resume_run(door: Door, text: str, *, freeze_timers: bool = False) -> int:
    """Lift the pause or the quarantine of a run. In a file that no engine has open nothing of it is driven."""
    return _command(
        door,
        text,
        "resumed",
        lambda commands, run_id: commands.resume(run_id, freeze_timers=freeze_timers),
        lambda remote: remote.resume_run(text, freeze_timers=freeze_timers),
    )


def skip_node(door: Door, text: str, node: str, output: str | None) -> int:
    """Take a node as done, with this output."""
    value = _checked_node(node, "NODE", output)
    given = canonical(value, name="output")
    return _command(
        door,
        text,
        f"goes on without {clean(node)}",
        lambda commands, run_id: commands.skip(run_id, node, given),
        lambda remote: remote.skip_node(text, node, value),
    )


# -- again -------------------------------------------------------------------------------------------------------------


def retry_run(
    door: Door,
    text: str,
    *,
    skip: str | None,
    output: str | None,
    dry_run: bool,
    sure: bool,
    format: str,
) -> int:
    """Show what a retry would do, and do it once the user has said that he means it."""
    if skip is None and output is not None:
        raise InvalidInput(
            "is that of a node which is skipped; name it: --skip NODE", path="--output"
        )
    value = None if skip is None else _checked_node(skip, "--skip", output)
    given = None if skip is None else canonical(value, name="output")

    async def by_engine(commands: Commands, run_id: RunId, *, dry: bool) -> Document:
        return _document(
            run_id, await commands.retry(run_id, skip=skip, output=given, dry_run=dry), dry=dry
        )

    def by_remote(remote: Remote, *, dry: bool) -> Coroutine[Any, Any, Document]:
        return remote.retry_run(text, skip=skip, output=value, dry_run=dry)

    return _planned(
        door,
        text,
        by_engine,
        by_remote,
        question="retry the run?",
        did="goes on",
        dry_run=dry_run,
        sure=sure,
        format=format,
    )


def replay_run(
    door: Door,
    text: str,
    node: str,
    *,
    input: str | None,
    vars: Sequence[str],
    dry_run: bool,
    sure: bool,
    format: str,
) -> int:
    """Show what a replay would do, and start it once the user has said that he means it."""
    _checked_node(node, "--from", None)
    value = None if input is None else read_json(input, what="--input")
    given = None if value is None else canonical(value, name="input")
    constants = read_vars(vars)

    async def by_engine(commands: Commands, run_id: RunId, *, dry: bool) -> Document:
        new, outlook = await commands.replay(run_id, node, input=given, vars=constants, dry_run=dry)
        return _document(new, outlook, dry=dry)

    def by_remote(remote: Remote, *, dry: bool) -> Coroutine[Any, Any, Document]:
        named = {name: _json_or_text(each) for name, each in constants.items()}
        return remote.replay_run(text, node, input=value, vars=named, dry_run=dry)

    return _planned(
        door,
        text,
        by_engine,
        by_remote,
        question="start the new run?",
        did=f"started: it replays {clean(text)} from {clean(node)}",
        dry_run=dry_run,
        sure=sure,
        format=format,
    )


def _planned(
    door: Door,
    text: str,
    by_engine: Callable[..., Coroutine[Any, Any, Document]],
    by_remote: Callable[..., Coroutine[Any, Any, Document]],
    *,
    question: str,
    did: str,
    dry_run: bool,
    sure: bool,
    format: str,
) -> int:
    """The plan first, the question, then the deed. `-o json` prints one document: of the plan, or of the deed."""
    told = format == "table"
    if told or dry_run or not sure:
        plan = _ask(door, text, partial(by_engine, dry=True), partial(by_remote, dry=True))
        if told:
            console = answers()
            for line in plan_lines(plan["plan"]):
                console.print(line, markup=False, soft_wrap=True)
        if dry_run:
            if not told:
                say(json.dumps(plan, ensure_ascii=False))
            return 0
        if not sure:
            ask_user(question)
    done = _ask(door, text, partial(by_engine, dry=False), partial(by_remote, dry=False))
    if not told:
        say(json.dumps(done, ensure_ascii=False))
    else:
        say(f"run {done['run_id']} {did}")
    _say_next(door, done["run_id"], told=told)
    return 0


def ask_user(question: str) -> None:
    """Raise InvalidInput unless somebody at a terminal says yes."""
    if sys.stdin.isatty() and sys.stderr.isatty():
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
        raise InvalidInput("nothing was done")
    raise InvalidInput("is needed where nobody can be asked", path="--yes")


def _document(run_id: RunId | None, outlook: Outlook, *, dry: bool) -> Document:
    from tenuto.coordinator.outlook import outlook_json

    return {"run_id": run_id, "dry_run": dry, "plan": outlook_json(outlook)}


# -- parts -------------------------------------------------------------------------------------------------------------


def _command(
    door: Door,
    text: str,
    done: str,
    by_engine: Verb,
    by_remote: Callable[[Remote], Coroutine[Any, Any, Document]],
) -> int:
    """Ask something of a run, and say how it stands then."""

    async def and_look(commands: Commands, run_id: RunId, engine: Engine) -> Document:
        await by_engine(commands, run_id)
        return await Answers(reads=engine.reads, now=now_us).get_run_row(run_id)

    run = _ask(door, text, and_look, by_remote, with_engine=True)
    closing = done == "cancelled" and run["state"] not in FINAL_RUN_STATES
    say(f"run {run['run_id']} {'is closing: it will be cancelled' if closing else done}")
    if done != "paused" and run["state"] not in FINAL_RUN_STATES:
        _say_next(door, run["run_id"], told=done.startswith("goes on"))
    return 0


def _ask(
    door: Door,
    text: str,
    by_engine: Callable[..., Coroutine[Any, Any, _T]],
    by_remote: Callable[[Remote], Coroutine[Any, Any, _T]],
    *,
    with_engine: bool = False,
) -> _T:
    """Through the server of who has the file open, or through an engine of our own that drives nothing meanwhile."""
    if isinstance(door, File):
        must_exist(door, text)
    door = changing(door)
    if isinstance(door, Server):
        return ask_server(door, by_remote)
    from tenuto.app.embedded import Engine

    run_id: RunId = ask(door, _finder(text), output="json")
    engine = Engine(door.database, focus=True)
    engine.start()
    try:
        more = (engine,) if with_engine else ()
        return engine.call(by_engine(engine.commands, run_id, *more)).result()
    finally:
        engine.stop(grace_s=1.0)


def _say_next(door: Door, run_id: str, *, told: bool) -> None:
    """How to watch it; a run in a file that nobody drives stands still until somebody does."""
    driver = changing(door)
    if told and isinstance(driver, Server):
        note(f"watch it with:\n  tenuto run watch {short_id(run_id)}{driver.words}")
    if isinstance(changing(door), File):
        assert isinstance(door, File)
        if door.database.is_postgres:
            return  # its servers drive it
        database = str(door.database) if door.named else ""
        note(f"no engine drives it; carry it on with:\n  {go_on_command(run_id, database)}")


def _finder(text: str) -> Callable[[Source], Coroutine[Any, Any, RunId]]:
    async def find(source: Source) -> RunId:
        assert isinstance(source, Answers)
        return await source.find(text)

    return find


def _checked_reason(reason: str) -> str:
    from tenuto.dsl.limits import REASON_MAX
    from tenuto.dsl.storable import check_word

    return check_word(reason, "--reason", REASON_MAX)


def _checked_node(node: str, what: str, output: str | None) -> object:
    """The output that a node is given; None for none. Raises InvalidInput."""
    from tenuto.dsl.storable import check_word

    if not node:
        raise InvalidInput("is empty; give a node's id", path=what)
    check_word(node, what)
    return None if output is None else read_json(output, what="--output")


def _json_or_text(text: str) -> object:
    """The value of a `--var`, as the engine reads it."""
    try:
        return json.loads(text)
    except ValueError:
        return text

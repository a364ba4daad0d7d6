"""Records histories that must fold the same for ever: `python -m tests.golden.record`, from the root.

A file that exists is never written again: what a release has written, every later release must read. A new kind of
event or a new field gets a new scenario beside the old ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import MISSING, asdict, fields, replace
from pathlib import Path

from tests.support.graphs import definition, graph, index_of, key, value
from tests.support.saga import saga
from tests.support.world import World

from tenuto.machine.columns import encode_snapshot
from tenuto.machine.events import Deadline, TimerKind
from tenuto.machine.fold import Ledger
from tenuto.machine.snapshot import Snapshot, Task
from tenuto.model.definition import (
    Call,
    Fail,
    Foreach,
    Handler,
    NodeType,
    Tolerance,
    Wait,
    WaitForEvent,
    Work,
)
from tenuto.model.expressions import Expression, ExpressionKind, Fault
from tenuto.model.retry import Jitter, RetryPolicy
from tenuto.model.stored import encode_graph

FOLDER = Path(__file__).parent / "histories"


def failures_and_clocks() -> World:
    """Every way an attempt can end, back-off, and a late success after the cancel."""
    busy = Work(
        "a", value("{}"), retry=RetryPolicy(max_attempts=4), timeout_us=5, total_timeout_us=10**9
    )
    waiting = Work("q", value("{}"), queue_timeout_us=20, heartbeat_timeout_us=7)
    world = World(
        graph("a -> b; a -failure-> f; q -failure-> g; z", details={"a": busy, "q": waiting})
    ).start()
    late = world.grant("z")
    world.fail("a", "http.503", retry_after_us=3_000_000)
    world.fire("a", TimerKind.BACKOFF)
    world.lose("a")
    world.pass_deadline("a", Deadline.ATTEMPT)
    world.fire("a", TimerKind.BACKOFF)
    world.pause()
    world.resume()
    world.now += 20
    world.pass_deadline("q", Deadline.QUEUE)
    world.fail("a", "ValueError", retryable=False)
    world.succeed("f")
    world.cancel("enough")
    world.accept(world.success_of(late))
    return world


def loops_and_races() -> World:
    """Two loops, one in the other, a race in the inner one whose loser is reset, withheld tokens, views."""
    text = (
        "o -> i; o -failure-> x; i -> p; i -> q; p -> j; q -> j; j -> s;"
        "s -> i when 'inner' loop 3; s -> t else; t -> o when 'outer' loop 2; t -> e else"
    )
    world = World(
        graph(
            text,
            types={"j": "join", "s": "switch", "t": "switch"},
            join={"j": 1},
            cancel_losers=["j"],
        ),
        {"inner": [True, False, False], "outer": [True, False]},
    ).start()
    for _ in range(2):
        world.succeed("o")
        for _ in range(2 if world.snapshot.passes[0] == 1 else 1):
            world.succeed("i")
            world.succeed("p")
    world.succeed("e")
    return world


def waits_and_messages() -> World:
    """A wait, a message that was there before, one that came later, a timeout, an unhandled failure after `always`."""
    types = {
        "w": "wait",
        "v": "wait_for_event",
        "u": "wait_for_event",
        "y": "wait_for_event",
        "n": "fail",
    }
    world = World(
        graph(
            "w -> v; v -> u; u -> y; y -always-> c; c -> n",
            types=types,
            details={
                "w": Wait(for_us=5),
                "y": WaitForEvent("y", key('"k"'), timeout_us=9),
                "n": Fail("stopped", value('"told"', "m"), value('{"n":1}', "d")),
            },
            timeout_us=1_000,
        )
    )
    world.put_message("v", payload="1")
    world.start()
    world.fire("w", TimerKind.WAIT)
    world.post("u", payload="2")
    world.fire("y", TimerKind.EVENT)
    world.succeed("c")
    return world


def conditions_and_faults() -> World:
    """Conditions that hold, don't, and fail; an optional node; a cut-off join; a loop that needs several events."""
    text = (
        "a -> b when 'yes'; a -> c when 'no'; b -> d when 'broken'; b -failure-> r; c -> m; r -> m;"
        "m -> k; k -> m when 'again' loop 500; k -> z else"
    )
    world = World(
        graph(text, types={"a": "set", "m": "set", "k": "switch", "z": "set"}, optional=["c"]),
        {
            "yes": True,
            "no": False,
            "broken": Fault("expression_error", "no such key: `x`"),
            "again": lambda scope, call: call <= 150,
        },
    ).start()
    world.succeed("b")
    world.succeed("r")
    world.go_on()
    return world


def lists_and_children() -> World:
    """A list in batches of which one fails too often, one page by page, a child that fails and is tried again."""
    work = Work("hash", value("{}"))
    over = Expression(ExpressionKind.ITEMS, "list", "nodes.f.over")
    call = Call(None, 0, value("{}"), retry=RetryPolicy(max_attempts=2, jitter=Jitter.NONE))
    inside = graph("x")
    inside = replace(inside, definition=replace(inside.definition, inline=True))
    plain = definition(
        "f -failure-> c; p -> c; c -> d",
        types={"f": "foreach", "p": "foreach", "c": "call"},
        details={
            "f": Foreach(work, over=over, batch=2, concurrency=2, tolerate=Tolerance(1)),
            "p": Foreach(work, source=Work("pages", value('"page"'))),
            "c": call,
        },
    )
    outside = index_of(replace(plain, inlines=(inside.definition,)))
    outside = replace(outside, inlines=(inside,))
    world = World(outside, {"list": "[1,2,3,4,5,6,7,8]"}).start()
    world.succeed("p[p0]", '{"items":[1],"next":"more"}')
    world.succeed("p[p1]", '{"items":[2,3],"next":null}')
    for index in range(3):
        world.succeed(f"p[{index}]")
    world.fail("f[0]")
    world.succeed("f[1]")
    world.fail("f[2]")
    world.child("c").fail("x")
    world.tell()
    world.fire("c", TimerKind.BACKOFF)
    world.child("c").succeed("x")
    world.tell()
    world.pause()
    world.now += 1_000
    world.resume(freeze=True)
    world.succeed("d")
    return world


def closing_and_undoing() -> World:
    """Three nodes with handlers, one cancelled under way and late; the drain, undoing, `on_failure`."""
    world = World(
        saga(
            "a -> b; b -> c; z",
            undo=["a", "b"],
            started=["z"],
            on_failure=Handler(NodeType.TASK, Work("tell", value('"told"'))),
        )
    ).start()
    late = world.grant("z")
    world.succeed("a")
    world.succeed("b")
    world.fail("c")
    world.accept(world.success_of(late))
    world.drained()
    for place in ("z!undo", "b!undo"):
        world.succeed(place)
    world.fail("a!undo")
    world.succeed("!on_failure")
    return world


def retries_and_skips() -> World:
    """A run that is retried twice: a task goes on, a loop goes on in its pass, a node is taken as done."""
    text = "h -> a; a -> s; s -> h when 'again' loop 3; s -> e else; e -> g"
    world = World(graph(text, types={"s": "switch"}), {"again": [True, False]}).start()
    world.succeed("h")
    world.succeed("a")
    world.succeed("h")
    world.fail("a")
    world.retry()
    world.succeed("a")
    world.fail("e")
    world.retry(skip="e", output='"given"')
    world.skip("g", '"also given"')
    return world


def replayed() -> World:
    """A new run that keeps what another one did before its second node."""
    source = World(graph("a -> b; b -> c")).start()
    for id in "abc":
        source.succeed(id)
    world = source.replay("b")
    world.succeed("b")
    world.terminate("enough")
    return world


SCENARIOS: dict[str, Callable[[], World]] = {
    function.__name__: function
    for function in (
        failures_and_clocks,
        loops_and_races,
        waits_and_messages,
        conditions_and_faults,
        lists_and_children,
        closing_and_undoing,
        retries_and_skips,
        replayed,
    )
}


COLUMNS = tuple(field.name for field in fields(Task))
"""Columns of a task row now; a file names those that there were when it was recorded."""
FIRST_COLUMNS = tuple(field.name for field in fields(Task) if field.default is MISSING)
"""Of the files that name none."""


def folded_form(
    snapshot: Snapshot, ledger: Ledger, columns: Collection[str] = COLUMNS
) -> dict[str, object]:
    """All decided columns, as plain JSON."""
    nodes, edges, rest = encode_snapshot(snapshot)
    return {
        "state": snapshot.state.value,
        "paused": snapshot.paused,
        "seq": snapshot.seq,
        "at": snapshot.at,
        "nodes": nodes,
        "edges": edges,
        "rest": rest,
        "tasks": [_sparse(task, columns) for _, task in sorted(ledger.tasks.items())],
        "timers": [asdict(timer) for _, timer in sorted(ledger.timers.items())],
        "waits": [asdict(wait) for _, wait in sorted(ledger.waits.items())],
    }


def _sparse(task: Task, columns: Collection[str]) -> dict[str, object]:
    """Without the columns that are as they begin, and those that are younger than the file."""
    begins = {f.name: f.default for f in fields(task) if f.default is not MISSING}
    return {
        name: value
        for name, value in asdict(task).items()
        if name in columns and (name not in begins or value != begins[name])
    }


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, scenario in SCENARIOS.items():
        path = FOLDER / f"{name}.json"
        if path.exists():
            continue
        world = scenario()
        recorded = {
            "graph": json.loads(encode_graph(world.graph)),
            "history": [[p.kind, at, p.place, json.loads(p.data)] for at, p in world.history],
            "columns": COLUMNS,
            "run": world.run_id,
            "folded": folded_form(*world.fold()),
        }
        path.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")
        print(path.name)


if __name__ == "__main__":
    main()

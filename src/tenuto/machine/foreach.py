"""Work for each item of a list (SEMANTICS, "foreach").

A foreach knows its items by counters only (`Items`), so an item's event costs the same whatever the list. Where an item
stands is in its task row, what it yielded in its payload; a reader gets them assembled (`ItemsView`).

    list evaluated ──▶ items begin, in index order ──▶ one ends ──▶ the next begins ──▶ all ended: success
    or page by page ─────────▲      (`concurrency`)        └──▶ more failed than `tolerate`: dead, the rest cancelled

An item is what one piece of work gets: an element of the list, or with `batch` several of them as a list. A decision
begins at most `BEGUN_MAX`; for the others an event that is due at once comes back (`go_on`). It is on its way exactly
while items could begin and have not, so whoever finds it so leaves them to it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import chain, islice

from tenuto.machine import scope
from tenuto.machine.actions import ClearTimers, SetTimer
from tenuto.machine.codec import error_text
from tenuto.machine.events import Rejection, TimerFired, TimerKind
from tenuto.machine.loops import withdraw_items
from tenuto.machine.snapshot import Items, Task, Timer
from tenuto.machine.tokens import die, succeed
from tenuto.machine.turn import Faulty, Turn, sound
from tenuto.machine.work import (
    Sight,
    begin_child,
    begin_work,
    dead_on_arrival,
    is_late,
    late,
    refuse_late,
)
from tenuto.model.definition import CONCURRENCY_MAX, ITEMS_MAX, Foreach, Work
from tenuto.model.expressions import Expression, Fault, ItemRef, Page
from tenuto.model.failures import Failure
from tenuto.model.ids import Place, item_place, page_place, parts_of
from tenuto.model.payload import PayloadKey, PayloadKind

BEGUN_MAX = 1_000
"""Items begun in one decision."""


def begin_foreach(turn: Turn, node: int, it: Foreach) -> None:
    """Evaluate the list and the bounds, and begin the first items; an empty list ends at once (T7)."""
    sight = scope.sight(turn, node)
    try:
        items = _bounds(turn, it, sight)
        if it.over is not None:
            items = sound(_list(turn, turn.place(node), items, it.over, sight))
    except Faulty as faulty:
        die(turn, node, faulty.failure)
        return
    turn.items[node] = items
    _go(turn, node, it)


def go_on(turn: Turn, node: int) -> None:
    """Begin further items: an event due at once came back for them."""
    _advance(turn, node)


def reopen(turn: Turn, node: int, again: tuple[int, ...]) -> None:
    """Go on with the recorded list: do these items again, then those never begun; failures count from 0 (R1)."""
    it = turn.node(node).detail
    assert isinstance(it, Foreach)
    items = turn.items[node]
    turn.items[node] = replace(items, active=0, failed=0, first=None, fetching=False, again=again)
    _go(turn, node, it)


def page_unfit(turn: Turn, node: int, page: int) -> Failure | None:
    """Why the output of a source's task, just put, is no page of this list."""
    items, found = turn.items[node], _page(turn, node, page)
    if not isinstance(found, Fault):
        listed = items.listed + _pieces(found.count, items.batch)
        if listed <= ITEMS_MAX:
            return None
        found = _too_many(listed)
    return Failure(found.code, found.message)


def page_arrived(turn: Turn, node: int, page: int) -> None:
    """A page of the list is here: its output payload is put, and fits."""
    items, found = turn.items[node], _page(turn, node, page)
    assert not isinstance(found, Fault)
    turn.items[node] = replace(
        items,
        listed=items.listed + _pieces(found.count, items.batch),
        complete=not found.more,
        pages=(*items.pages, items.listed),
        fetching=False,
    )
    _advance(turn, node, begins=not _may_begin(items))


def page_failed(turn: Turn, task: Task, failure: Failure | None) -> None:
    """A page could not be fetched: the foreach is dead of the same error."""
    node = task.node
    turn.items[node] = replace(turn.items[node], fetching=False)
    if failure is None:
        error = turn.fresh[PayloadKey(task.place, PayloadKind.ERROR)]
    else:
        error = error_text(failure, turn.node(node).id)
        turn.put(task.place, PayloadKind.ERROR, error)
    turn.put(turn.place(node), PayloadKind.ERROR, error)
    _fail(turn, node, None)


def item_ended(
    turn: Turn,
    node: int,
    *,
    succeeded: bool,
    place: Place | None = None,
    failure: Failure | None = None,
) -> None:
    """An item ended; `place` and `failure` for one that is dead. O(1), but for what it begins."""
    items = turn.items[node]
    waiting = _may_begin(items)
    items = replace(items, active=items.active - 1)
    if succeeded:
        turn.items[node] = replace(items, succeeded=items.succeeded + 1)
    else:
        assert place is not None
        if failure is not None:
            turn.put(place, PayloadKind.ERROR, error_text(failure, turn.node(node).id))
        index = parts_of(place).index
        assert index is not None
        turn.items[node] = _with_failure(items, index)
    _advance(turn, node, begins=not waiting)


def on_total_timeout(turn: Turn, event: TimerFired) -> Rejection | None:
    """The whole took too long: what is open of it is cancelled, and not waited for."""
    node = turn.active_at(event.place)
    if node is None or node not in turn.items:
        return Rejection.STALE
    message = "all items together passed total_timeout"
    _fail(turn, node, Failure("total_timeout", message))
    return None


def sight_of(turn: Turn, node: int, index: int) -> Sight:
    """What an item's own inputs may read."""
    home = turn.place(node)
    item = _item(home, turn.items[node], index)
    return scope.sight_of_item(turn, node, item_place(home, index), item, index)


# -- the list and the bounds --------------------------------------------------------------------------------------


def _bounds(turn: Turn, it: Foreach, sight: Sight) -> Items:
    """The bounds, evaluated once (X1). Raises Faulty."""
    concurrency = sound(turn.number(it.concurrency, sight))
    if not 1 <= concurrency <= CONCURRENCY_MAX:
        message = f"concurrency is {concurrency}; it may be 1 to {CONCURRENCY_MAX:,}"
        raise Faulty(Failure("expression_error", message))
    tolerance = sound(turn.tolerance(it.tolerate, sight))
    batch = sound(turn.number(it.batch, sight))
    return Items(
        listed=0,
        complete=False,
        concurrency=concurrency,
        tolerate=tolerance.count,
        percent=tolerance.percent,
        batch=batch,
    )


def _list(turn: Turn, place: Place, items: Items, over: Expression, sight: Sight) -> Items | Fault:
    """The list, evaluated once and recorded."""
    found = turn.listed(over, sight(over))
    if isinstance(found, Fault):
        return found
    if found.count > ITEMS_MAX:
        return _too_many(found.count)
    turn.put(place, PayloadKind.LIST, found.text)
    return replace(items, listed=_pieces(found.count, items.batch), complete=True)


def _page(turn: Turn, node: int, page: int) -> Page | Fault:
    return turn.page(PayloadKey(page_place(turn.place(node), page), PayloadKind.OUTPUT))


def _pieces(count: int, batch: int) -> int:
    """How many items so many elements make."""
    return -(-count // batch) if batch else count


def _too_many(count: int) -> Fault:
    return Fault("too_many_items", f"the list has {count:,} items; the limit is {ITEMS_MAX:,}")


def _item(place: Place, items: Items, index: int) -> ItemRef:
    """Where an item is found: in the list, or in its page."""
    if not items.pages:
        key, first = PayloadKey(place, PayloadKind.LIST), 0
    else:
        page = bisect_right(items.pages, index) - 1
        key, first = PayloadKey(page_place(place, page), PayloadKind.OUTPUT), items.pages[page]
    at = (index - first) * (items.batch or 1)
    return ItemRef(key, at, items.batch, paged=bool(items.pages))


def _go(turn: Turn, node: int, it: Foreach) -> None:
    """Start the clock of the whole, and the first items."""
    if it.total_timeout_us is not None:
        total = turn.number(it.total_timeout_us, scope.sight(turn, node))
        if isinstance(total, Fault):
            die(turn, node, Failure(total.code, total.message))
            return
        timer = Timer(turn.place(node), TimerKind.TOTAL, turn.at + total, turn.seq)
        turn.actions.append(SetTimer(timer))
    _advance(turn, node)


# -- one step -----------------------------------------------------------------------------------------------------


def _advance(turn: Turn, node: int, *, begins: bool = True) -> None:
    """Begin what may begin, ask for the next page, and end the node if it is time."""
    it = turn.node(node).detail
    assert isinstance(it, Foreach)
    if begins and turn.ids.get(node, 1) < turn.epoch:
        turn.foresee(_next_places(turn, node))
    while not _has_failed(turn.items[node]) and begins and _may_begin(turn.items[node]):
        if turn.begun >= BEGUN_MAX:
            timer = Timer(turn.place(node), TimerKind.CONTINUE, turn.at, turn.seq)
            turn.actions.append(SetTimer(timer))
            break
        _begin_next(turn, node, it)
    items = turn.items[node]
    if _has_failed(items):
        _fail(turn, node, _failure(items))
    elif _is_done(items):
        turn.actions.append(ClearTimers(turn.place(node)))
        succeed(turn, node)
    elif _wants_page(items):
        _fetch(turn, node, it)


def _next_places(turn: Turn, node: int) -> list[Place]:
    """Where the items live that this decision may begin. After a retry they may have rows (R3)."""
    items, home = turn.items[node], turn.place(node)
    room = min(BEGUN_MAX - turn.begun, items.concurrency - items.active)
    indexes = chain(items.again, range(items.next, items.listed))
    return [item_place(home, index) for index in islice(indexes, max(0, room))]


def _begin_next(turn: Turn, node: int, it: Foreach) -> None:
    """Begin the next item. One that cannot begin is dead, and an item like any other."""
    items = turn.items[node]
    if items.again:
        index, items = items.again[0], replace(items, again=items.again[1:])
    else:
        index, items = items.next, replace(items, next=items.next + 1)
    turn.begun += 1
    home = turn.place(node)
    place = item_place(home, index)
    if late(turn, place):
        turn.items[node] = replace(items, succeeded=items.succeeded + 1)
        return
    sight = sight_of(turn, node, index)
    failure: Failure | None
    if isinstance(it.body, Work):
        failure = begin_work(turn, node, place, it.body, sight)
    elif it.body.inline is not None:
        failure = begin_child(turn, node, place, it.body, sight, index=index, item=True)
    else:
        failure = begin_child(turn, node, place, it.body, sight)
    if failure is None:
        turn.items[node] = replace(items, active=items.active + 1)
        return
    turn.put(place, PayloadKind.ERROR, error_text(failure, turn.node(node).id))
    dead_on_arrival(turn, node, place, it.body)
    turn.items[node] = _with_failure(items, index)


def _fetch(turn: Turn, node: int, it: Foreach) -> None:
    """Ask for the next page."""
    assert it.source is not None
    items = turn.items[node]
    page = len(items.pages)
    place = page_place(turn.place(node), page)
    if is_late(turn, place):
        unfit = page_unfit(turn, node, page)
        if unfit is None:
            late(turn, place)
            page_arrived(turn, node, page)
        else:
            refuse_late(turn, place)
            _fail(turn, node, unfit)
        return
    failure = begin_work(turn, node, place, it.source, scope.sight_of_page(turn, node, page))
    if failure is not None:
        _fail(turn, node, failure)
        return
    turn.items[node] = replace(items, fetching=True)


def _fail(turn: Turn, node: int, failure: Failure | None) -> None:
    """The node is dead: what is open of it is cancelled in the same decision. `failure` None: its error is put."""
    withdraw_items(turn, node)
    turn.actions.append(ClearTimers(turn.place(node)))
    die(turn, node, failure)


# -- the counters -------------------------------------------------------------------------------------------------


def _may_begin(items: Items) -> bool:
    listed = bool(items.again) or items.next < items.listed
    return listed and items.active < items.concurrency


def _wants_page(items: Items) -> bool:
    left = items.listed - items.next
    return not items.complete and not items.fetching and left < items.concurrency


def _is_done(items: Items) -> bool:
    begun = items.complete and items.next == items.listed and not items.again
    return begun and not items.active


def _with_failure(items: Items, index: int) -> Items:
    first = index if items.first is None else items.first
    return replace(items, failed=items.failed + 1, first=first)


def _has_failed(items: Items) -> bool:
    """More items failed than is tolerated. Percent is of the whole list, exactly, so not before it is known."""
    if not items.percent:
        return items.failed > items.tolerate
    return items.complete and items.failed * 100 > items.tolerate * items.listed


def _failure(items: Items) -> Failure:
    tolerated = f"{items.tolerate}%" if items.percent else f"{items.tolerate}"
    return Failure(
        "foreach_failed",
        f"{items.failed} of {items.listed} items failed, {tolerated} are tolerated",
        details=f'{{"failed":{items.failed},"index":{items.first},"total":{items.listed}}}',
    )

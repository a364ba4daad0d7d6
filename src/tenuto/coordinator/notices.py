"""What a notice means to the run that it is for: facts about children and parents (SEMANTICS F6, C2, C4, C6). No I/O.

A notice is written by the commit that makes it true and goes with the commit that decides it; between the two it may be
handed in any number of times. So each fact loads the notice itself: one that is gone says nothing. One whose event is
refused (the run is final, say) goes all the same: it has nothing more to say.

What a parent wants of its child may have changed since it was said, and notices come in any order: so CANCEL,
TERMINATE, PAUSE and RETRY look at the parent's rows when they are decided, and count only if they are still meant.

A child is always begun by its START notice, also where its parent wants it no more: the CANCEL that was written beside
it ends it in the ordinary way, and the parent, which waits for every child that it ever started, hears of that end.
"""

from __future__ import annotations

from tenuto.coordinator import telling
from tenuto.coordinator.batch import Batch
from tenuto.coordinator.outputs import lists_of, payloads_of, text_of_output
from tenuto.coordinator.waiting import (
    Again,
    Beginning,
    Call,
    Found,
    Moment,
    Settled,
    Starting,
    Waiting,
    Wanted,
    text_of,
)
from tenuto.machine.codec import decode_output
from tenuto.machine.events import (
    CancelRequested,
    ChildSettled,
    Event,
    ParentPaused,
    Rejection,
    RetryRequested,
    RunStarted,
    TerminateRequested,
)
from tenuto.machine.snapshot import Snapshot, Task
from tenuto.model.errors import InvariantViolated
from tenuto.model.ids import RunId
from tenuto.model.payload import PAYLOAD_MAX, Text
from tenuto.model.states import FINAL_RUN_STATES, RunState, TaskState
from tenuto.ports.store import Loaded, NewRun, NoticeKind, NoticeRow, RunRow

TOO_LARGE = "payload_too_large"


def fact_of(notice: NoticeRow, call: Call, slot: int) -> Waiting:
    """What to decide about a notice."""
    return _FACTS[notice.kind](notice, call, slot)


class _Notice(Waiting):
    """Of one run to another. Its answer: whether it is gone now."""

    __slots__ = ("_loaded", "notice")

    passes_quarantine = False
    is_stored = True

    def __init__(self, notice: NoticeRow, call: Call, slot: int) -> None:
        super().__init__(notice.run_id, call, slot)
        self.notice = notice
        self._loaded = notice

    def want(self, wanted: Wanted) -> None:
        notice = self.notice
        wanted.notices[notice.run_id, notice.kind, notice.place] = None

    def decided(self, batch: Batch, rejected: Rejection | None) -> None:
        batch.use_notice(self._loaded)

    def answer_to(self, rejected: Rejection | None) -> object:
        return True

    def absent(self) -> object:
        return False

    def _stands(self, loaded: Loaded) -> bool:
        notice = self.notice
        found = loaded.notices.get((notice.run_id, notice.kind, notice.place))
        if found is None or found.sender != notice.sender:
            return False
        self._loaded = found  # what is decided is the one that was read, and only that one may go
        return True

    def _drop(self, batch: Batch) -> Settled:
        batch.use_notice(self._loaded)
        return Settled(True)


class StartNotice(_Notice, Starting):
    """A child is to begin. Its texts are copies of its parent's."""

    __slots__ = ("_order",)

    begins_child = True

    def __init__(self, notice: NoticeRow, call: Call, slot: int) -> None:
        super().__init__(notice, call, slot)
        self._order = telling.read_order(notice.data)

    def want(self, wanted: Wanted) -> None:
        super().want(wanted)
        parent = self.notice.sender
        wanted.runs[self.run_id] = None
        wanted.runs[parent] = None
        for key in self._order.texts(self.notice.place).values():
            wanted.payloads[parent, key] = None

    def definition(self, loaded: Loaded) -> str | None:
        stands = self._stands(loaded) and self.notice.sender in loaded.runs
        return self._order.definition if stands else None

    def beginning(self, loaded: Loaded, at: int) -> Beginning:
        notice, order = self.notice, self._order
        parent = notice.sender
        texts = {}
        for own, key in order.texts(notice.place).items():
            text = loaded.payloads.get((parent, key))
            if text is None:
                raise InvariantViolated(f"{key} of run {parent} is for its child, and not stored")
            texts[own] = text
        new_run = NewRun(
            namespace=loaded.runs[parent][0].namespace,
            workflow=order.workflow,
            version=order.version,
            definition=order.definition,
            key=None,
            created_at=at,
            parent=(parent, notice.place),
        )
        return Beginning(new_run, texts)

    def event(self, batch: Batch, loaded: Loaded, moment: Moment) -> Event | Settled | Wanted:
        notice, order = self.notice, self._order
        if not self._stands(loaded):
            return Settled(False)
        if batch.snapshot.state is not RunState.PENDING:
            return self._drop(batch)
        return RunStarted(
            at=moment.now,
            parent=(notice.sender, notice.place) if order.waited else None,
            index=order.index,
            depth=order.depth,
            paused=order.waited and _is_held(loaded, notice.sender),
            priority=order.priority,
        )


class SettledNotice(_Notice):
    """A child is final. Its output is put together here, so that the parent has it whole."""

    __slots__ = ("_child", "_parts")

    def __init__(self, notice: NoticeRow, call: Call, slot: int) -> None:
        super().__init__(notice, call, slot)
        self._child: RunRow | None = None
        self._parts: Loaded | None = None

    def want(self, wanted: Wanted) -> None:
        super().want(wanted)
        wanted.runs[self.notice.sender] = None
        wanted.tasks[self.run_id, self.notice.place] = None

    def fill(self, batch: Batch, loaded: Loaded) -> None:
        self._parts = None
        found = loaded.tasks.get((self.run_id, self.notice.place))
        if found is not None:
            batch.tasks[self.notice.place] = found[0]
        child = loaded.runs.get(self.notice.sender)
        self._child = None if child is None else child[0]

    def event(self, batch: Batch, loaded: Loaded, moment: Moment) -> Event | Settled | Wanted:
        child = self._child
        if not self._stands(loaded):
            return Settled(False)
        if child is None or child.state not in FINAL_RUN_STATES:
            return self._drop(batch)  # it goes on, and will say so when it ends
        succeeded = child.state == RunState.SUCCESS
        told = decode_output(child.output if succeeded else child.error)
        if self._parts is None:
            wanted = Wanted()
            for key in payloads_of(told):
                wanted.payloads[child.run_id, key] = None
            for place in lists_of(told):
                wanted.items[child.run_id, place] = None
            if wanted:
                return wanted
            self._parts = loaded
        parts = self._parts
        text = text_of(
            text_of_output(
                told,
                lambda key: parts.payloads.get((child.run_id, key)),
                {place: parts.items[child.run_id, place] for place in lists_of(told)},
            )
        )
        return self._event(batch, child, text, moment)

    def learn(self, found: Found) -> None:
        self._parts = found.loaded

    def _event(self, batch: Batch, child: RunRow, text: Text, moment: Moment) -> ChildSettled:
        state, code = RunState(child.state), ""
        output, error = (text, None) if state is RunState.SUCCESS else (None, text)
        if error is not None and child.error is None:
            error = None
        if output is not None and output.size > PAYLOAD_MAX:
            state, code, output = RunState.FAILED, TOO_LARGE, None
        return ChildSettled(
            at=max(moment.now, batch.snapshot.at),
            place=self.notice.place,
            child=child.run_id,
            state=state,
            output=output,
            error=error,
            draw=moment.dice.draw(),
            code=code,
        )


class _ToChild(_Notice):
    """Of a parent to the child that the task at its place has."""

    __slots__ = ()

    travels_alone = True

    def want(self, wanted: Wanted) -> None:
        super().want(wanted)
        notice = self.notice
        wanted.runs[notice.sender] = None
        wanted.tasks[notice.sender, notice.place] = None

    def _waiting(self, loaded: Loaded) -> Task | None:
        """The parent's task, if it still waits for this child."""
        found = loaded.tasks.get((self.notice.sender, self.notice.place))
        return found[0] if found is not None and found[0].child == self.run_id else None


class CancelNotice(_ToChild):
    """The parent wants its child no more."""

    __slots__ = ()

    def event(self, batch: Batch, loaded: Loaded, moment: Moment) -> Event | Settled | Wanted:
        if not self._stands(loaded):
            return Settled(False)
        if not self._is_meant(loaded):
            return self._drop(batch)
        at = max(moment.now, batch.snapshot.at)
        reason = f"cancelled by the run that called it, {self.notice.sender}"
        if self.notice.kind is NoticeKind.TERMINATE:
            return TerminateRequested(at=at, reason=reason)
        return CancelRequested(at=at, reason=reason)

    def _is_meant(self, loaded: Loaded) -> bool:
        task = self._waiting(loaded)
        if task is None:
            return False
        parent = loaded.runs.get(self.notice.sender)
        return (
            task.state is TaskState.CANCELLED
            or bool(task.ending)
            or parent is None
            or parent[1].state in FINAL_RUN_STATES
        )


class PauseNotice(_Notice):
    """The parent's flag may have changed: what it is now is what counts (C6)."""

    __slots__ = ()

    travels_alone = True

    def want(self, wanted: Wanted) -> None:
        super().want(wanted)
        wanted.runs[self.notice.sender] = None

    def event(self, batch: Batch, loaded: Loaded, moment: Moment) -> Event | Settled | Wanted:
        if not self._stands(loaded):
            return Settled(False)
        return ParentPaused(
            at=max(moment.now, batch.snapshot.at),
            paused=_is_held(loaded, self.notice.sender),
            freeze="freeze" in self._loaded.data,
        )


class RetryNotice(_ToChild):
    """The parent was retried, and this child is part of what it does again (R1)."""

    __slots__ = ("_again", "_awaited")

    def __init__(self, notice: NoticeRow, call: Call, slot: int) -> None:
        super().__init__(notice, call, slot)
        self._again: Again | None = None
        self._awaited = False

    def fill(self, batch: Batch, loaded: Loaded) -> None:
        self._again = None
        self._awaited = self._waiting(loaded) is not None

    def event(self, batch: Batch, loaded: Loaded, moment: Moment) -> Event | Settled | Wanted:
        if not self._stands(loaded):
            return Settled(False)
        task = self._waiting(loaded)
        if task is None or task.state is not TaskState.PENDING or task.ending:
            self._tell_again(batch)
            return self._drop(batch)
        if self._again is None:
            wanted = Wanted()
            wanted.again[self.run_id] = None
            return wanted
        return RetryRequested(
            at=max(moment.now, batch.snapshot.at),
            again=self._again.items,
            children=self._again.children,
            paused=_is_held(loaded, self.notice.sender),
        )

    def learn(self, found: Found) -> None:
        self._again = found.again

    def decided(self, batch: Batch, rejected: Rejection | None) -> None:
        super().decided(batch, rejected)
        if rejected is not None:
            self._tell_again(batch)

    def _tell_again(self, batch: Batch) -> None:
        """It stays as it was; where its parent waits for it again, that is told its end once more."""
        notice = self.notice
        if self._awaited and batch.snapshot.state in FINAL_RUN_STATES:
            batch.tell(
                NoticeRow(
                    run_id=notice.sender,
                    kind=NoticeKind.SETTLED,
                    place=notice.place,
                    sender=notice.run_id,
                )
            )


_FACTS: dict[NoticeKind, type[_Notice]] = {
    NoticeKind.START: StartNotice,
    NoticeKind.SETTLED: SettledNotice,
    NoticeKind.CANCEL: CancelNotice,
    NoticeKind.TERMINATE: CancelNotice,
    NoticeKind.PAUSE: PauseNotice,
    NoticeKind.RETRY: RetryNotice,
}


def _is_held(loaded: Loaded, run_id: RunId) -> bool:
    """Whether a run is paused, by its own flag or its parent's (C6)."""
    found: tuple[RunRow, Snapshot] | None = loaded.runs.get(run_id)
    return found is not None and (found[1].paused or found[1].parent_paused)

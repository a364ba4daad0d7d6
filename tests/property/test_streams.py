"""The protocol of workers' streams: two ends that say anything they may, over a network that delays as it likes."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from tenuto.rpc.states import ANSWERS, CALLS_MAX, Side, State, Stream, Word

Message = tuple[Word, int]


class End:
    """One end, with what is on its way to it."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.stream = Stream(side)
        self.coming: deque[Message] = deque()
        self.number = 0

    def sayable(self) -> list[Message]:
        """All that it may say now, in this implementation's way of numbering."""
        said: list[Message] = []
        for word in Word:
            if not self.stream.may_say(word):
                continue
            if word in ANSWERS:
                if len(self.stream.open) < CALLS_MAX:
                    said.append((word, self.number + 1))
            elif word is Word.DRAIN:
                said.append((word, 0))
            elif word is Word.CANCEL:
                said += [(word, n) for n, of in self.stream.open.items() if of is Word.LEASE]
            else:
                said += [(word, n) for n, of in self.stream.open.items() if self._fits(word, n, of)]
        return said

    def _fits(self, word: Word, number: int, of: Word) -> bool:
        if word is Word.FAILED:
            return of is not Word.LEAVE and number != 1
        if word is Word.PART:
            return of in {Word.LEASE, Word.REPORT}
        return ANSWERS[of] is word

    def say(self, message: Message, other: End) -> None:
        word, call = message
        self.stream.say(word, call)
        self.number = max(self.number, call)
        other.coming.append(message)

    def hear(self) -> None:
        word, call = self.coming.popleft()
        self.stream.hear(word, call)  # a Breach would be a failure of the test


@given(st.data())
def test_whatever_may_be_said_is_understood_and_both_ends_agree_in_the_end(
    data: st.DataObject,
) -> None:
    worker, server = End(Side.WORKER), End(Side.SERVER)

    for _ in range(data.draw(st.integers(0, 40), "steps")):
        moves = [(end, message) for end in (worker, server) for message in end.sayable()]
        hearing = [end for end in (worker, server) if end.coming]
        if not moves and not hearing:
            break
        if hearing and (not moves or data.draw(st.booleans(), "hear")):
            data.draw(st.sampled_from(hearing), "who").hear()
        else:
            end, message = data.draw(st.sampled_from(moves), "say")
            end.say(message, server if end is worker else worker)
    while worker.coming or server.coming:
        for end in (worker, server):
            if end.coming:
                end.hear()

    assert worker.stream.state is server.stream.state
    assert worker.stream.open == server.stream.open
    stuck = not worker.sayable() and not server.sayable()
    assert stuck is (worker.stream.state is State.OVER)


@given(st.data())
def test_from_everywhere_a_worker_can_leave_in_order(data: st.DataObject) -> None:
    worker, server = End(Side.WORKER), End(Side.SERVER)
    for _ in range(data.draw(st.integers(0, 20), "steps")):
        moves = [(end, message) for end in (worker, server) for message in end.sayable()]
        hearing = [end for end in (worker, server) if end.coming]
        if hearing and (not moves or data.draw(st.booleans(), "hear")):
            data.draw(st.sampled_from(hearing), "who").hear()
        elif moves:
            end, message = data.draw(st.sampled_from(moves), "say")
            end.say(message, server if end is worker else worker)

    for _ in range(1_000):
        if worker.stream.state is State.OVER:
            break
        if server.coming:
            server.hear()
        elif worker.coming:
            worker.hear()
        elif answers := [each for each in server.sayable() if each[0] in ANSWERS.values()]:
            # `left` is the last word: a server answers all other calls before.
            server.say(min(answers, key=lambda each: each[0] is Word.LEFT), worker)
        elif worker.stream.may_say(Word.LEAVE):
            worker.say((Word.LEAVE, worker.number + 1), server)
        else:
            worker.say((Word.REGISTER, worker.number + 1), server)

    assert worker.stream.state is server.stream.state is State.OVER

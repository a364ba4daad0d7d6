"""The user's functions, on their loop and in their threads."""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading

import pytest
from tests.support.worker import a_crew, turns_until
from tests.unit.worker.expiring import LONG_US, run_out

from tenuto.ports.gateway import Success
from tenuto.worker import runner
from tenuto.worker.context import current


@pytest.mark.rule("D1.3")
async def test_params_are_keyword_arguments() -> None:
    def join(a: str, b: str = "B") -> str:
        return a + b

    async with a_crew({"join": join}) as crew:
        assert await crew.gateway.output(crew.gateway.offer("join", {"a": "A"})) == "AB"


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_bad_arguments_fail_the_attempt_for_good_and_the_worker_goes_on(kind: str) -> None:
    def plain(a: int) -> int:
        return a

    async def later(a: int) -> int:
        return a

    async with a_crew({"f": plain if kind == "def" else later}) as crew:
        wrong = crew.gateway.offer("f", {"b": 1})
        odd = crew.gateway.offer("f", input="[1]")
        right = crew.gateway.offer("f", {"a": 1})

        failure = await crew.gateway.failure(wrong)
        assert (failure.code, failure.retryable) == ("bad_arguments", False)
        assert "'b'" in failure.message
        assert (await crew.gateway.failure(odd)).code == "bad_arguments"
        assert await crew.gateway.output(right) == 1


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), ValueError()]
)
async def test_whatever_user_code_raises_the_worker_lives(error: BaseException) -> None:
    def plain() -> None:
        raise error

    async def later() -> None:
        await asyncio.sleep(0)
        raise error

    async def sound() -> int:
        return 1

    async with a_crew({"plain": plain, "later": later, "sound": sound}) as crew:
        for name in ("plain", "later"):
            failure = await crew.gateway.failure(crew.gateway.offer(name))
            assert failure.code == type(error).__name__
        assert await crew.gateway.output(crew.gateway.offer("sound")) == 1


async def test_an_exit_in_a_task_that_user_code_started_does_not_end_the_users_loop() -> None:
    spawned: list[asyncio.Task[None]] = []

    async def leave() -> None:
        raise SystemExit

    async def spawns() -> int:
        spawned.append(asyncio.create_task(leave()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return 7

    async with a_crew({"spawns": spawns}) as crew:
        assert await crew.gateway.output(crew.gateway.offer("spawns")) == 7
        assert await crew.gateway.output(crew.gateway.offer("spawns")) == 7
    for task in spawned:
        task.exception()


async def test_a_coroutine_that_cancels_itself_has_failed() -> None:
    async def gives_up() -> None:
        raise asyncio.CancelledError

    async with a_crew({"gives_up": gives_up}) as crew:
        failure = await crew.gateway.failure(crew.gateway.offer("gives_up"))

        assert failure.code == "CancelledError"


async def test_a_coroutine_is_cancelled_at_its_timeout_and_may_clean_up() -> None:
    begun, cleaned = threading.Event(), threading.Event()

    async def slow() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            assert current().cancelled
            cleaned.set()

    async with a_crew({"slow": slow}) as crew:
        lease = crew.gateway.offer("slow", attempt_us=LONG_US)
        await asyncio.to_thread(begun.wait)
        run_out(crew, lease)
        failure = await crew.gateway.failure(lease)
        await asyncio.to_thread(cleaned.wait)

        assert failure.code == "timeout"


async def test_a_function_sees_that_its_result_is_no_longer_wanted() -> None:
    begun = threading.Event()

    def polite() -> None:
        begun.set()
        while not current().cancelled:
            pass

    async with a_crew({"polite": polite}) as crew:
        lease = crew.gateway.offer("polite", attempt_us=LONG_US)
        await asyncio.to_thread(begun.wait)
        run_out(crew, lease)
        assert (await crew.gateway.failure(lease)).code == "timeout"
        await crew.user.until_free(lease.task_id)

        assert not crew.user.busy(lease.task_id)


async def test_coroutines_run_on_the_loop_that_was_given() -> None:
    async def where() -> int:
        return id(asyncio.get_running_loop())

    here = asyncio.get_running_loop()
    async with a_crew({"where": where}, loop=here) as crew:
        assert await crew.gateway.output(crew.gateway.offer("where")) == id(here)


async def test_coroutines_never_run_on_the_engines_loop_by_default() -> None:
    async def where() -> list[object]:
        return [id(asyncio.get_running_loop()), threading.current_thread().name]

    async with a_crew({"where": where}) as crew:
        found = await crew.gateway.output(crew.gateway.offer("where"))

        assert isinstance(found, list)
        loop, thread = found
        assert loop != id(asyncio.get_running_loop())
        assert thread == "tenuto-user"


async def test_coroutines_of_many_tasks_run_side_by_side() -> None:
    meeting = 0
    all_here = asyncio.Event()

    async def meet() -> int:
        nonlocal meeting
        meeting += 1
        if meeting == 50:
            all_here.set()
        await all_here.wait()
        return meeting

    async with a_crew({"meet": meet}) as crew:
        leases = [crew.gateway.offer("meet") for _ in range(50)]

        assert [await crew.gateway.output(lease) for lease in leases] == [50] * 50


async def test_a_batch_of_tiny_tasks_crosses_with_few_wakeups_of_either_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wake-up for each task in each direction would be 2,000. All are sent before the other loop goes on: which
    batches two loops that run side by side would make of them is chance.
    """
    woken = 0
    blocked, go = threading.Event(), threading.Event()
    loop_type = type(asyncio.get_running_loop())
    original = loop_type.call_soon_threadsafe

    def counted(self: object, *args: object, **kwargs: object) -> object:
        nonlocal woken
        woken += 1
        return original(self, *args, **kwargs)  # type: ignore[arg-type]

    async def tiny() -> None: ...

    async def blocking() -> None:
        blocked.set()
        go.wait()

    async with a_crew({"tiny": tiny, "blocking": blocking}, capacity=2_000) as crew:
        crew.gateway.offer("blocking")
        await asyncio.to_thread(blocked.wait)
        monkeypatch.setattr(loop_type, "call_soon_threadsafe", counted)
        leases = [crew.gateway.offer("tiny") for _ in range(1_000)]
        await turns_until(lambda: crew.user.busy(leases[-1].task_id))
        go.set()
        for lease in leases:
            assert isinstance(await crew.gateway.result(lease), Success)
        monkeypatch.undo()

    assert woken <= 10


async def test_context_variables_do_not_leak_from_one_task_to_the_next() -> None:
    seen: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="nothing")

    def plain() -> str:
        before = seen.get()
        seen.set("something")
        return before

    async def later() -> str:
        return plain()

    seen.set("the engine's")
    async with a_crew({"plain": plain, "later": later}, threads=1) as crew:
        for name in ("plain", "later"):
            for _ in range(2):
                assert await crew.gateway.output(crew.gateway.offer(name)) == "nothing"


async def test_odd_results_fail_their_attempt_and_nothing_else() -> None:
    async def odd() -> object:
        return {"x": float("nan")}

    async with a_crew({"odd": odd}) as crew:
        failure = await crew.gateway.failure(crew.gateway.offer("odd"))

        assert (failure.code, failure.retryable) == ("invalid_result", False)


async def test_the_traceback_begins_in_user_code() -> None:
    def inner() -> None:
        raise LookupError("gone")

    def outer() -> None:
        inner()

    async with a_crew({"outer": outer}) as crew:
        failure = await crew.gateway.failure(crew.gateway.offer("outer"))
        assert failure.details is not None
        lines = json.loads(failure.details)["traceback"]

        assert "in outer" in lines[0]
        assert any("in inner" in line for line in lines)


async def test_the_users_loop_that_is_closed_before_the_first_task_interrupts_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "_INTERRUPTED_US", 20_000)
    loop = asyncio.new_event_loop()
    loop.close()

    async def never() -> None: ...

    async with a_crew({"never": never}, loop=loop) as crew:
        lease = crew.gateway.offer("never")
        await crew.gateway.until(lambda: crew.gateway.released)

        assert crew.gateway.released == [lease.task_id]

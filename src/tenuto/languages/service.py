"""Executes: chooses the interpreter, sees to the limits, passes on what is printed. Knows no wire and no process."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from tenuto.languages.bounds import LINE_MAX, Bounds
from tenuto.languages.setting import OFF, Setting
from tenuto.model.instants import format_duration
from tenuto.ports.languages import Fault, Interpreter, Outcome, Program, Say, Trouble

LANGUAGES: Mapping[str, tuple[str, str]] = {
    "python": ("tenuto.languages.python", "Python"),
    "javascript": ("tenuto.languages.javascript", "JavaScript"),
    "cpython": ("tenuto.languages.cpython", "CPython"),
}
"""Language -> module and class of its interpreter, loaded when first asked for."""
CONFINEMENT: Mapping[str, str] = {
    "python": "interpreter",
    "javascript": "interpreter",
    "cpython": "restricted",
}


class Kept(Interpreter, Protocol):
    """An interpreter that holds processes.

    Attributes:
        grace_us: how much longer than its time a program may take before it is killed.
    """

    grace_us: int

    async def close(self) -> None:
        """End them."""
        ...


class Languages:
    """All interpreters of one server."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._interpreters: dict[str, Kept] = {}
        self._free = {name: asyncio.Semaphore(setting.processes) for name in LANGUAGES}

    async def run(self, program: Program, say: Say) -> Outcome:
        """Run one program within its limits and this server's. Cancelling ends it at once."""
        unavailable = self._refusal(program.language)
        if unavailable is not None:
            return Fault(trouble=Trouble.LANGUAGE_UNAVAILABLE, message=unavailable)
        program = self._bounded(program)
        assert program.time_us is not None
        bounds = Bounds()

        def admitted(stderr: bool, line: str) -> None:  # noqa: FBT001 - the port's shape
            if bounds.admit(line):
                say(stderr, line[:LINE_MAX])

        async with self._free[program.language]:
            interpreter = self._interpreter(program.language)
            try:
                async with asyncio.timeout((program.time_us + interpreter.grace_us) / 1_000_000):
                    outcome = await interpreter.run(program, admitted)
            except TimeoutError:
                outcome = Fault(trouble=Trouble.TIMEOUT, message="", retryable=True)
            except OSError as error:
                message = f"`{program.language}` cannot be started: {error.strerror or error}"
                outcome = Fault(
                    trouble=Trouble.LANGUAGE_UNAVAILABLE, message=message, retryable=True
                )
        if isinstance(outcome, Fault) and outcome.trouble is Trouble.TIMEOUT:
            time = format_duration(program.time_us)
            outcome = replace(outcome, message=f"the code took longer than {time}")
        if isinstance(outcome, Fault) and outcome.trouble is Trouble.MEMORY:
            assert program.memory is not None
            megabytes = f"{program.memory / 2**20:g} MiB"
            outcome = replace(outcome, message=f"the code needs more memory than {megabytes}")
        return replace(outcome, dropped=outcome.dropped + bounds.dropped)

    async def close(self) -> None:
        """End all processes."""
        for interpreter in self._interpreters.values():
            await interpreter.close()
        self._interpreters.clear()

    def _refusal(self, language: str) -> str | None:
        if language not in LANGUAGES:
            return f"there is no language `{language}` here; there are {', '.join(LANGUAGES)}"
        if language == "cpython" and self._setting.cpython == OFF:
            return (
                '`language: cpython` is off here: set `languages.cpython = "restricted"`'
                " (TENUTO_LANGUAGES__CPYTHON), or say `language: python`"
            )
        return None

    def _bounded(self, program: Program) -> Program:
        setting = self._setting
        return replace(
            program,
            time_us=program.time_us or setting.time_us,
            memory=min(program.memory or setting.memory, setting.memory),
            output=min(program.output or setting.output, setting.output),
        )

    def _interpreter(self, language: str) -> Kept:
        found = self._interpreters.get(language)
        if found is None:
            module, name = LANGUAGES[language]
            made = getattr(importlib.import_module(module), name)(self._setting)
            found = self._interpreters[language] = made
        return found

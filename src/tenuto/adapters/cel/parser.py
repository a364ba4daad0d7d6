"""The definition's door to CEL: checks one text, says what it reads, finds where it ends. No evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenuto.adapters.cel import lexer
from tenuto.adapters.cel.checking import check_all
from tenuto.adapters.cel.program import program_of
from tenuto.model.expressions import Parsed, ParseError
from tenuto.model.shapes import Checked, Shape


class CelParser:
    """Implements `model.expressions.Parser`. Offsets are in code points."""

    def parse(self, text: str) -> Parsed | ParseError:
        program = program_of(text)
        if isinstance(program, ParseError):
            return program
        result = "dyn" if program.result == "optional" else program.result
        return Parsed(program.names.reads, result, program.names.divides_ints)

    def end_of(self, text: str, start: int) -> int | None:
        return lexer.end_of(text, start)

    def check(
        self, texts: Sequence[str], known: Mapping[str, Shape]
    ) -> tuple[Checked | ParseError, ...]:
        return check_all(texts, known)

"""What can be wrong with a definition: one table of codes, the finding itself, and the list that collects them.

No rule is checked here; `yaml`, `shape`, `expressions`, `code`, `reads` and `compile` check and name a row of it.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

FINDINGS_MAX = 1_000
"""More than this many help nobody; the list says that it was cut."""
SUGGESTION_COST_MAX = 20_000
"""Names compared for "did you mean" in one file: bounds the time of a file full of misspelt names."""
TEXT_MAX = 80
"""Characters of the offending text that a finding shows."""


class Severity(StrEnum):
    """A warning does not keep a definition from being used."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of the table. `message` and `hint` are templates; `{text}` is always known. `about` is for the docs."""

    code: str
    message: str
    hint: str
    severity: Severity = Severity.ERROR
    about: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `line` and `column` count from 1, in code points; `text` is what stands there."""

    code: str
    severity: Severity
    file: str
    line: int
    column: int
    text: str
    message: str
    hint: str

    def __str__(self) -> str:
        head = f"{self.file}:{self.line}:{self.column}: {self.severity} {self.code}: {self.message}"
        return f"{head}\n    hint: {self.hint}" if self.hint else head

    def as_dict(self) -> dict[str, str | int]:
        """The finding for `-o json`: the fields under their own names."""
        return {
            "code": self.code,
            "severity": str(self.severity),
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "text": self.text,
            "message": self.message,
            "hint": self.hint,
        }


def _kinds(*kinds: Kind) -> Mapping[str, Kind]:
    return {kind.code: kind for kind in kinds}


def _of_graph(code: str, about: str, severity: Severity = Severity.ERROR) -> Kind:
    """A row whose message and hint come from the model, which knows the nodes."""
    return Kind(code, "{message}", "{hint}", severity, about)


_WARNING = Severity.WARNING

KINDS: Mapping[str, Kind] = _kinds(
    # --- the text ---
    Kind("encoding", "the file is not UTF-8 text: {problem}", "save the file as UTF-8"),
    Kind(
        "too_large",
        "the file has {size} bytes; the limit is {limit}",
        "move long texts into files of their own, or split the workflow",
    ),
    Kind("syntax", "this is not YAML: {problem}", "{cure}"),
    Kind("too_deep", "values are nested more than {limit} levels deep", "make the value flatter"),
    Kind(
        "alias_bomb",
        "aliases make this file more than {limit} characters longer than it is",
        "write the value out where it is needed, or pass it through `vars`",
    ),
    Kind(
        "bad_alias",
        "`*{text}` names no value that is complete at this point",
        "put `&{text}` before a value that stands above",
    ),
    Kind(
        "merge_key",
        "`<<` does not merge: YAML 1.2 has no merge keys",
        'write the keys out, or use `defaults:`; a key really called so is `"<<"`',
    ),
    Kind(
        "tag",
        "the tag `{text}` has no meaning here",
        "leave the tag out; quote a value to make it text",
    ),
    Kind("key_not_text", "the key `{text}` is {actual}, not text", "write it as text: {cure}"),
    Kind(
        "duplicate_key",
        "`{text}` stands twice in the same mapping; the first is on line {line}",
        "keep one of the two",
    ),
    Kind(
        "number_range",
        "`{text}` is a number that JSON and 64 bits cannot hold",
        'quote it to keep it as text: "{text}"',
    ),
    # --- keys and values ---
    Kind("unknown_key", "{what} has no key `{text}`", "{cure}"),
    Kind("missing_key", "{what} needs the key `{key}`", "{cure}"),
    Kind("key_not_allowed", "`{text}` has no meaning on {what}", "{cure}"),
    Kind("wrong_type", "`{key}` is {actual}; it must be {expected}", "{cure}"),
    Kind("bad_value", "`{key}` cannot be `{text}`; it must be {expected}", "{cure}"),
    Kind(
        "duration_type",
        "`{key}` is {actual}; a duration is text with a unit",
        "write it like {cure}",
    ),
    Kind("bad_duration", "{problem}", "{cure}"),
    Kind("bad_instant", "{problem}", "write it like `2026-12-24T18:00:00+01:00`"),
    Kind("wait_form", "a wait has exactly one of `for` and `until`", "keep one of the two"),
    Kind(
        "template_not_allowed",
        "`{key}` is fixed when the definition is written; `${{…}}` is not read there",
        "{cure}",
    ),
    Kind("no_nodes", "{what} has no node", "add one under `nodes:`"),
    Kind(
        "too_many_nodes",
        "the workflow has {count} nodes; the limit is {limit}",
        "split the workflow",
    ),
    Kind("unknown_type", "there is no node type `{text}`", "{cure}"),
    Kind(
        "bad_id",
        "`{text}` cannot be {what}: {problem}",
        "rename it, for example to `{cure}`",
    ),
    Kind("input_schema", "`input` is not a usable JSON Schema: {problem}", "{cure}"),
    Kind(
        "edge_form",
        "this is not an edge",
        "{cure}",
    ),
    Kind("unknown_node", "there is no node `{text}`", "{cure}"),
    Kind(
        "else_with_when",
        "an `else` edge has no condition of its own",
        "leave out `when` or `else`",
    ),
    Kind(
        "cancel_losers_without_race",
        "`cancel_losers` needs a join that does not wait for all",
        "add `join: any`, or leave `cancel_losers` out",
    ),
    Kind("compensate_not_allowed", "{problem}", "{cure}"),
    Kind("handler_not_leaf", "{problem}", "{cure}"),
    Kind("retry_rule_unreachable", "this rule never matches: {why}", "take it out, or move it up"),
    Kind("odd_failure_name", "no failure is called `{text}`", "{cure}", _WARNING),
    # --- expressions ---
    Kind("expression", "{problem}", "{cure}"),
    Kind(
        "template_unclosed",
        "`${{` is never closed",
        "close it with `}}`; a literal `${{` is written `$${{`",
    ),
    Kind(
        "jinja_braces",
        "`{text}` is plain text here: expressions stand in `${{…}}`",
        "write `${{{cure}}}`",
        _WARNING,
    ),
    Kind(
        "template_in_condition",
        "`{key}` is a bare expression, not a text with `${{…}}`",
        "leave out `${{` and `}}`",
    ),
    Kind(
        "condition_type",
        "`{key}` yields {actual}, not true or false",
        "compare it with something, for example `… != null`",
    ),
    Kind(
        "key_type",
        "`{key}` yields {actual}; it must be a text or a whole number",
        "name one field of it, or turn it into text with `string(…)`",
    ),
    Kind("computed_type", "`{key}` yields {actual}; it must be {expected}", "{cure}"),
    Kind(
        "int_division",
        "two whole numbers are divided: the rest is dropped",
        "write `double(…)` around one of them to keep the fraction",
        _WARNING,
    ),
    Kind("unknown_field", "{problem}", "{cure}", about="a key is read that its object cannot have"),
    Kind(
        "undeclared_field",
        "{problem}",
        "{cure}; a key that may well be there is declared in the schema, or read with `.?`",
        _WARNING,
        about="a key is read that is not declared, and one that is declared is nearly called so",
    ),
    Kind(
        "type_mismatch",
        "{problem}",
        "compare and compute with values of one type: `string(…)`, `int(…)` and `double(…)` turn one into another",
        about="an operator or function is given types for which there is none of the name",
    ),
    Kind(
        "never_equal",
        "{problem}",
        "turn one into the type of the other, for example with `string(…)`",
        _WARNING,
        about="values of two types are compared, which are never equal",
    ),
    Kind(
        "constant_condition",
        "`{key}` is always {value}",
        "let it read something, or leave it out",
        _WARNING,
    ),
    Kind(
        "task_params",
        "{problem}",
        "mend `params`, or the function; another app may have another function of this name",
        _WARNING,
        about="params do not fit the function that the app has registered under the task's name",
    ),
    Kind("unknown_reference", "there is no node `{node}`", "{cure}"),
    Kind(
        "not_upstream",
        "`{node}` does not come before {reader}",
        "lead an edge from `{node}` to it, or read a node that comes before",
    ),
    Kind(
        "racy_reference",
        "`{node}` may or may not have run when {reader} reads it",
        "lead an edge from `{node}` to it, so that it comes before",
    ),
    Kind(
        "unguarded_previous_pass",
        "`{node}` is read from the previous pass of the loop, and the first pass has none",
        "guard it: `nodes.{node}.?output.?key.orValue(0)` for one key of it, "
        "`nodes.{node}.?output.orValue(null)` for the whole, or `iteration == 1 ? … : …`",
    ),
    Kind(
        "unguarded_output",
        "`{node}` may have no output although the run succeeds: {when}",
        "guard it: `nodes.{node}.?output.orValue(null)`",
        _WARNING,
        about="`output` of the workflow reads a node that may not have succeeded when the run does",
    ),
    Kind(
        "not_in_loop",
        "`{text}` is read where no such loop is",
        "read `iteration` inside a loop, and `nodes.<header>.iteration` of one around it only",
    ),
    Kind(
        "iterations_inside_loop",
        "`{text}` is read inside a loop around `{node}`, where the passes are not yet all",
        "read it behind the loop; inside it keep what you need in a `set` node",
    ),
    Kind(
        "not_in_foreach",
        "`{text}` is read where no foreach is",
        "read it in what a foreach does for each item: its `params`, `input` or `do`",
    ),
    Kind(
        "outer_node",
        "`{node}` stands outside of this graph, which sees no node around it",
        "pass it in: write `params: {{{node}: …}}` beside `do`, and read `params.{node}` here",
    ),
    Kind(
        "callback_key_outside_loop",
        "`{node}` has a callback key for each pass of its loop, and {reader} stands outside of it",
        "read it inside the loop, in a node that comes before `{node}`",
    ),
    Kind("name_not_here", "`{text}` has no value in {reader}", "{cure}"),
    Kind("field_not_here", "{who} has no `{field}`", "only a {type} node has it"),
    Kind(
        "error_not_here",
        "`error` has no value in {reader}",
        "read it in a failure or always edge, or in a node that such an edge leads to; "
        "elsewhere read `nodes.<id>.error` of the node that failed",
    ),
    Kind(
        "secret_not_allowed",
        "`{text}` is read where it would be stored",
        "secrets stand only in `headers`, `auth`, `json`, `body` and `form` of an http request",
    ),
    # --- code ---
    Kind("code_syntax", "this is not {language}: {problem}", "mend the code here"),
    Kind("code_no_main", "{problem}", "{cure}"),
    Kind(
        "python_subset",
        "`language: python` has no {what}",
        "{cure}",
    ),
    # --- the graph: message and hint come from the structure ---
    _of_graph(
        "cycle",
        "edges lead in a circle, and none of them is marked as going back",
    ),
    _of_graph(
        "loop_entry",
        "a loop can be entered without passing the node that its back edge leads to",
    ),
    _of_graph(
        "loop_max_differs",
        "edges back to one node are one loop, but their `max` differ",
    ),
    _of_graph(
        "loop_keep_differs",
        "edges back to one node are one loop, but their `keep` differ",
    ),
    _of_graph(
        "loop_no_exit",
        "no edge leaves the loop",
    ),
    _of_graph(
        "loop_too_deep",
        "a node stands inside more loops than a task's name can hold",
    ),
    _of_graph(
        "loop_parallel_exit",
        "of two branches inside a loop one can leave or repeat it while the other runs",
    ),
    _of_graph(
        "unreachable",
        "no start leads to the node, or only the failure of what cannot fail",
    ),
    _of_graph(
        "switch_edge_without_condition",
        "a success edge of a switch has neither `when` nor `else`",
    ),
    _of_graph(
        "switch_always_edge",
        "a switch takes one edge, so it has none that is always taken",
    ),
    _of_graph(
        "two_else",
        "a node has two `else` edges of a kind",
    ),
    _of_graph(
        "else_without_switch",
        "`else` stands on the success edge of a node that is no switch",
    ),
    _of_graph(
        "optional_with_failure_edge",
        "an optional node has a failure edge, which would never be taken",
    ),
    _of_graph(
        "fork_edge_with_condition",
        "an edge of a fork has a condition, but a fork takes all its edges",
    ),
    _of_graph(
        "fail_has_successor",
        "an edge leaves a `fail` or `end` node",
    ),
    _of_graph(
        "duplicate_edge",
        "the same edge is there twice: ends, `on` and `when`",
    ),
    _of_graph(
        "join_cannot_fill",
        "a join waits for more tokens than can come",
    ),
    _of_graph(
        "compensate_inside_only",
        "nodes in `do` have a `compensate`, the node around them has none",
        _WARNING,
    ),
    _of_graph(
        "switch_without_else",
        "a switch fails with `no_match` when none of its conditions holds",
        _WARNING,
    ),
    _of_graph(
        "all_edges_conditional",
        "the branch may end silently, since all its edges have conditions",
        _WARNING,
    ),
    _of_graph(
        "end_while_parallel", "an `end` cancels what may still be running beside it", _WARNING
    ),
    _of_graph(
        "failure_cuts_join", "a handled failure of one branch makes the join be skipped", _WARNING
    ),
    _of_graph(
        "race_leak",
        "a branch gets past the join that it races for, so the node is not in the race",
        _WARNING,
    ),
    _of_graph(
        "races_too_large",
        "the any/count joins have too many nodes before them, all counted together",
    ),
    _of_graph(
        "loop_without_wait", "a loop of many passes has neither work nor a wait in it", _WARNING
    ),
    Kind(
        "too_many_findings",
        "there are more than {limit} findings; the rest is not shown",
        "mend these first",
        _WARNING,
    ),
)
"""Every code that the loader can give."""

_BREAK = re.compile(r"\r\n|\r|\n")


class Findings:
    """Collects the findings of one file. Places are offsets into its text, in code points."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self._starts: list[int] = []
        self._found: list[tuple[int, Finding]] = []
        self._seen: set[tuple[str, int, str]] = set()
        self._dropped = False
        self._cost = 0

    def add(self, code: str, at: int, text: str = "", **words: object) -> None:
        """Record that `text`, which stands at offset `at`, is wrong. `words` fill the row's templates."""
        kind = KINDS[code]
        filled = {"text": _short(text), **words}
        message = kind.message.format_map(filled)
        if (code, at, message) in self._seen:
            return  # a value behind an alias is read once per use
        self._seen.add((code, at, message))
        if len(self._found) >= FINDINGS_MAX:
            self._dropped = True
            return
        line, column = self.position(at)
        finding = Finding(
            code=code,
            severity=kind.severity,
            file=self.file,
            line=line,
            column=column,
            text=_short(text),
            message=message,
            hint=kind.hint.format_map(filled),
        )
        self._found.append((at, finding))

    def position(self, at: int) -> tuple[int, int]:
        """Line and column of an offset, from 1."""
        if not self._starts:
            self._starts = [0, *(found.end() for found in _BREAK.finditer(self.text))]
        line = bisect_right(self._starts, at)
        return line, at - self._starts[line - 1] + 1

    @property
    def is_full(self) -> bool:
        """Whether more findings would not be shown: no need to look for them."""
        return len(self._found) >= FINDINGS_MAX

    def suggest(self, name: str, candidates: Collection[str]) -> str | None:
        """The candidate that was probably meant, or None. Stops looking when the file is full of mistakes."""
        if self._cost > SUGGESTION_COST_MAX or len(name) > TEXT_MAX:
            return None
        self._cost += len(candidates) + 1
        close = [c for c in candidates if abs(len(c) - len(name)) <= max(2, len(name) // 3)]
        folded = {c.lower(): c for c in close}
        match = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
        return folded[match[0]] if match else None

    @property
    def has_errors(self) -> bool:
        """Whether anything found keeps the definition from being used."""
        return any(finding.severity is Severity.ERROR for _, finding in self._found)

    def in_order(self) -> tuple[Finding, ...]:
        """All findings in document order."""
        found = sorted(self._found, key=lambda pair: pair[0])
        if self._dropped:
            kind = KINDS["too_many_findings"]
            words = {"limit": FINDINGS_MAX}
            cut = Finding(
                code=kind.code,
                severity=kind.severity,
                file=self.file,
                line=found[-1][1].line,
                column=found[-1][1].column,
                text="",
                message=kind.message.format_map(words),
                hint=kind.hint,
            )
            return (*(finding for _, finding in found), cut)
        return tuple(finding for _, finding in found)


def did_you_mean(suggestion: str | None, otherwise: str) -> str:
    """The hint for a misspelt name."""
    return f"did you mean `{suggestion}`?" if suggestion else otherwise


def _short(text: str) -> str:
    line = text.strip().replace("\r", " ").replace("\n", " ")
    return line if len(line) <= TEXT_MAX else line[: TEXT_MAX - 1] + "…"


def as_markdown() -> str:
    """The table for the docs."""
    rows = []
    for kind in KINDS.values():
        message = kind.about or kind.message.replace("{{", "{").replace("}}", "}")
        rows.append(f"| `{kind.code}` | {kind.severity} | {message} |")
    return "\n".join(["| code | severity | message |", "|---|---|---|", *rows])

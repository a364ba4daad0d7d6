"""The engine's complaints in the user's words: of texts that do not compile, and of evaluations that failed.

Only wording: what is wrong was found by the engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from tenuto.adapters.cel.names import OWN_FIELDS
from tenuto.model.expressions import ParseError, Root

_FUNCTIONS = (
    "all", "base64", "base64_decode", "bool", "bytes", "charAt", "contains", "distinct", "double",
    "duration", "dyn", "endsWith", "exists", "exists_one", "filter", "first", "flatten", "format",
    "has", "hasValue", "indexOf", "int", "join", "json_decode", "json_encode", "lastIndexOf",
    "lowerAscii", "map", "matches", "merge", "optMap", "optional.none", "optional.of", "orValue",
    "range", "replace", "reverse", "sha256", "size", "slice", "sort", "sortBy", "split",
    "startsWith", "string", "substring", "timestamp", "trim", "type", "uint", "upperAscii", "uuid",
    "value",
)  # fmt: skip
_SPELLINGS = {
    "True": "true", "False": "false", "None": "null", "nil": "null", "undefined": "null",
    "len": "size", "length": "size", "count": "size", "str": "string", "float": "double",
    "lower": "lowerAscii", "toLowerCase": "lowerAscii", "upper": "upperAscii", "includes": "contains",
    "toUpperCase": "upperAscii", "strip": "trim", "any": "exists", "some": "exists", "steps": "nodes",
    "env": "vars", "inputs": "input", "outputs": "nodes", "coalesce": "first", "unique": "distinct",
    "toJson": "json_encode", "to_json": "json_encode", "fromJson": "json_decode", "concat": "merge",
}  # fmt: skip
_FOLDS = frozenset(
    {"sum", "reduce", "fold", "total", "avg", "average", "mean", "accumulate", "aggregate"}
)
_OPERATORS = {"_?_:_": "? :", "<jump_condition>": "? :", "_[_]": "[]", "@in": "in", "_?._": ".?"}
_BOOLEAN = frozenset({"&&", "||", "!", "? :"})
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_WORD_OPERATORS = {"and": "&&", "or": "||", "not": "!"}
_KINDS = {
    "int64": "int", "uint64": "uint", "null_type": "null", "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Duration": "duration",
}  # fmt: skip

_ACCESS = (
    "Key not found in map",
    "Applying SELECT to non-message",
    "Invalid container type",
    "Index error",
    "No value with name",
    "No matching overloads found : _[_]",
    "No matching overloads found : _?._",
)
_ERROR = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")
_STATUS = re.compile(r"\A[A-Z_]+: | \[[A-Z_]+\]\Z")
_UNDECLARED = re.compile(r"undeclared reference to '([^']*)'")
_OVERLOAD = re.compile(r"found no matching overload for '([^']*)' applied to '\((.*)\)'")
_TOKEN = re.compile(r"token recognition error at: '([\s\S]*)'\Z")
_EXPECTED = re.compile(r"expecting '(.{1,2})'\Z|missing '(.)' at")
_UNEXPECTED = re.compile(
    r"(?:extraneous input|mismatched input|no viable alternative at input) '(.*?)'"
)
_MAP_KEY = re.compile(r"Unsupported map key type: (\w+)")
_LACKING = re.compile(r"No matching overloads found : (?:\((\S+)\)\.)?([^(]+)(?:\((.*)\))?")


def parse_error(text: str, complaint: str) -> ParseError:
    """Say what is wrong with a text that does not compile. The first complaint that can be placed decides."""
    if not text.strip():
        return ParseError(0, "the expression is empty")
    if "recursion" in complaint:
        return ParseError(0, "the expression is nested too deeply: at most 32 levels")
    if "codepoint limit" in complaint:
        return ParseError(0, "the expression is longer than 100,000 characters")
    if key := _MAP_KEY.search(complaint):
        kind = key[1].lower().removesuffix("_type")
        return ParseError(0, f"a map has keys of type {kind}: keys are strings")
    faults = [(_offset(text, int(m[1]), int(m[2])), m[3]) for m in _ERROR.finditer(complaint)]
    if not faults:
        return ParseError(0, _STATUS.sub("", complaint).splitlines()[0])
    offset, message = faults[0]
    message = _STATUS.sub("", message)
    if undeclared := _UNDECLARED.search(message):
        return _undeclared(text, offset, undeclared[1])
    if message.startswith("reserved identifier: "):
        word = message.removeprefix("reserved identifier: ")
        close = _suggestion(word, calls=False)
        return ParseError(offset, f"`{word}` is a reserved word", suggestion=close)
    return ParseError(offset, _worded(text, offset, message))


def run_error(complaint: str) -> str:
    """Say why an evaluation failed, as far as the engine's text tells; who knows the data can say more."""
    message = _STATUS.sub("", complaint)
    if "Iteration budget" in message:
        return (
            "more than 10,000 iterations: expressions are for decisions, use a task for heavy data"
        )
    if lacking := _LACKING.search(message):
        kinds = ", ".join(part for part in (lacking[1], lacking[3]) if part)
        return _no_overload(lacking[2], kinds)
    for pattern, words in (
        (r"Key not found in map : \"?([\s\S]*?)\"?\Z", "no such key: {0}"),
        (
            r"Index error: index=(-?\d+) size=(\d+)",
            "index {0} is outside the list, which has {1} elements",
        ),
        (r"No value with name \"(\w+)\"", "`{0}` has no value here"),
        (r"(?i)divide by zero|division by zero", "division by zero"),
        (r"(?i)modulus by zero|modulo by zero", "modulo by zero"),
        (
            r"(?i)integer overflow|unsigned.*overflow",
            "integer overflow: the result has more than 64 bits",
        ),
        (
            r"optional\.none\(\) dereference",
            "`value()` of an optional that is none: use `orValue(…)`",
        ),
        (r"Applying SELECT to non-message", "a key was read of what is no object"),
        (r"Invalid container type: '(\w+)'", "an element was read of a value of type {0}"),
        (r"<string>\.(\w+)\([^)]*\): (.*)", "`{0}`: {1}"),
        (r"holds an optional", "the result is an optional: end it with `.orValue(…)`"),
    ):
        if found := re.search(pattern, message):
            return words.format(*found.groups())
    return message.strip() or "the evaluation failed"


def lacking_overload(complaint: str) -> tuple[str, tuple[str, ...]] | None:
    """The function and the types that the first complaint is about, if it is about a function and its types."""
    first = _ERROR.search(complaint)
    found = _OVERLOAD.search(first[3]) if first is not None else None
    if found is None:
        return None
    return found[1], tuple(_KINDS.get(kind, kind) for kind in _split_kinds(found[2]))


def is_missing_key(complaint: str) -> bool:
    """Whether a key that was read does not exist."""
    return "Key not found in map" in complaint


def is_about_access(complaint: str) -> bool:
    """Whether a key, an element or a root was read that is not there."""
    return any(words in complaint for words in _ACCESS)


def _offset(text: str, line: int, column: int) -> int:
    if line < 1 or column < 1:
        return 0
    starts = [0]
    starts.extend(index + 1 for index, letter in enumerate(text) if letter == "\n")
    return min(starts[min(line, len(starts)) - 1] + column - 1, len(text))


def _undeclared(text: str, offset: int, dotted: str) -> ParseError:
    name, _, rest = dotted.partition(".")
    calls = text[offset : offset + 1] == "("
    # A call is placed at its `(`, a dotted name at its last dot.
    start = offset if text.startswith(name, offset) else max(text.rfind(name, 0, offset), 0)
    if name == Root.NODE and not calls:
        known = ", ".join(f"`node.{field}`" for field in OWN_FIELDS)
        close = get_close_matches(rest, OWN_FIELDS, 1)
        suggestion = f"node.{close[0]}" if close else None
        return ParseError(start, f"of `node` one reads {known}, written so", suggestion=suggestion)
    if calls and name in _FUNCTIONS:
        return ParseError(start, f"`{name}` does not take that number of arguments")
    what = "function" if calls else "name"
    message = f"unknown {what} `{name}`"
    suggestion = None if calls and name.lower() in _FOLDS else _suggestion(name, calls=calls)
    if not calls and start and text[start - 1] == "-" and not suggestion:
        message += ': a key with a hyphen is read as `["…"]`, for example `input["order-id"]`'
    elif calls and not suggestion:
        message += _elsewhere(name)
    elif not suggestion:
        message += f"; an expression reads {', '.join(Root)}"
    return ParseError(start, message, suggestion=suggestion)


def _elsewhere(name: str) -> str:
    """Where to do what no function of expressions does."""
    if name.lower() in _FOLDS:
        return ": no function adds up a list; do it in a task or a `code` node"
    return "; what no function does belongs into a task or a `code` node"


def _suggestion(name: str, *, calls: bool) -> str | None:
    if name in _SPELLINGS:
        return _SPELLINGS[name]
    known = _FUNCTIONS if calls else tuple(Root)
    by_case = {word.lower(): str(word) for word in known}
    close = get_close_matches(name.lower(), by_case, 1)
    return by_case[close[0]] if close else None


def _worded(text: str, offset: int, message: str) -> str:
    message = message.removeprefix("Syntax error: ")
    if overload := _OVERLOAD.search(message):
        return _no_overload(overload[1], overload[2])
    if token := _TOKEN.search(message):
        return _bad_token(text, offset, token[1])
    if "'<EOF>'" in message and "expecting <EOF>" not in message:
        lacks = _EXPECTED.search(message)
        return "the expression ends too early" + (
            f": `{lacks[1] or lacks[2]}` is missing" if lacks else ""
        )
    if unexpected := _UNEXPECTED.search(message):
        word = unexpected[1].strip()
        if word in _WORD_OPERATORS:
            return f"unexpected `{word}`: write `{_WORD_OPERATORS[word]}`"
        return f"unexpected `{word}`"
    if message.startswith("has() argument"):
        return "`has()` asks for a key: write `has(input.name)`"
    return message


def _bad_token(text: str, offset: int, token: str) -> str:
    shown = token.strip()
    if shown.startswith("="):
        return "unexpected `=`: compare with `==`"
    if shown.startswith(("'", '"')):
        return "the string has no end"
    if shown.startswith(("&", "|")):
        return f"unexpected `{shown}`: write `{shown[0] * 2}`"
    if shown[:1].isalpha() or text[:offset][-1:].isalpha():
        return f'unexpected `{shown}`: a key with such letters is read as `["…"]`'
    return f"unexpected `{shown}`"


def _no_overload(function: str, kinds: str) -> str:
    """Name the operator or function and what it was given."""
    given = [_KINDS.get(kind, kind) for kind in _split_kinds(kinds)]
    operator = _OPERATORS.get(function, function.strip("_"))
    if operator in _BOOLEAN:
        return f"`{operator}` needs true or false"
    if operator in _COMPARISONS and set(given) == {"int", "double"}:
        return (
            f"`{operator}` cannot compare an int with a double here: write double(…) around the int"
        )
    if any(kind.startswith("optional_type") for kind in given):
        return f"`{operator}` does not take an optional: end it with `.orValue(…)`"
    if not given:
        return f"`{operator}` does not take such values"
    return f"`{operator}` does not take {_listed(given)}"


def _split_kinds(kinds: str) -> Iterator[str]:
    """Type names between top-level commas."""
    depth, part = 0, ""
    for letter in kinds:
        depth += (letter in "(<") - (letter in ")>")
        if letter == "," and not depth:
            yield part.strip()
            part = ""
        else:
            part += letter
    if part.strip():
        yield part.strip()


def _listed(words: list[str]) -> str:
    if not words:
        return "no arguments"
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"

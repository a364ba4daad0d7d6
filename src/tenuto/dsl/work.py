"""What a worker does -> a `Work` of the model: `http`, `code` and `task`, with the defaults that fill it (D, F5)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from tenuto.dsl.code import LANGUAGES, check_code
from tenuto.dsl.expressions import Owner
from tenuto.dsl.findings import did_you_mean
from tenuto.dsl.keys import CLOCKS, METHODS, REQUEST_KEYS, WORK_KEYS
from tenuto.dsl.retry import RetrySaid, read_retry
from tenuto.dsl.section import Section
from tenuto.dsl.synonyms import language_for
from tenuto.dsl.templates import has_template
from tenuto.dsl.values import Values
from tenuto.dsl.yaml import Fields, Scalar, Tree
from tenuto.model.definition import PRIORITY_MAX, Amount, Name, NodeType, Work
from tenuto.model.expressions import Expression, ExpressionKind
from tenuto.model.instants import SECOND_US
from tenuto.model.names import NAME, TASK_NAME

HTTP_TIMEOUT_US = 30 * SECOND_US
"""SEMANTICS D."""
DEFAULTS = Owner(alone="`defaults`")
"""Who reads what is computed in `defaults`."""

_SECRETS_IN = frozenset({"headers", "auth", "json", "body", "form"})


@dataclass(frozen=True, slots=True)
class Defaults:
    """What `defaults:` says, for all that a worker runs. None: nothing."""

    queue: Name = "default"
    priority: Amount | None = None
    retry: RetrySaid = RetrySaid()
    timeout: Amount | None = None
    total_timeout: Amount | None = None
    queue_timeout: Amount | None = None
    heartbeat_timeout: Amount | None = None


def read_defaults(values: Values) -> Defaults:
    """Read `defaults:`."""
    values.section.check_keys(WORK_KEYS)
    return Defaults(
        queue=_queue(values) or "default",
        priority=_priority(values),
        retry=read_retry(values),
        **{clock: values.duration(clock) for clock in CLOCKS},
    )


def read_work(
    type: NodeType, values: Values, defaults: Defaults, *, total: bool = True
) -> Work | None:
    """Read the keys of a type that a worker runs; None where they do not make one, and findings say so.

    `total`: whether the mapping's `total_timeout` is this work's; that of a foreach is the whole's.
    """
    name: Name | None
    if type is NodeType.HTTP:
        name, input = "http", _request(values)
    elif type is NodeType.CODE:
        name, input = "code", _program(values)
    else:
        values.section.require("task", "add `task: <name of a registered function>`")
        name, input = _task_name(values), values.mapping("params")
    clocks = {
        clock: values.duration(clock) for clock in CLOCKS if total or clock != "total_timeout"
    }
    if type is NodeType.HTTP and clocks["timeout"] is None and defaults.timeout is None:
        clocks["timeout"] = HTTP_TIMEOUT_US
    priority = _priority(values)
    work = Work(
        name=name or "",
        input=input or Expression(ExpressionKind.VALUE, "{}", values.where),
        queue=_queue(values) or defaults.queue,
        priority=defaults.priority if priority is None else priority,
        retry=read_retry(values).over(defaults.retry).policy(),
        timeout_us=clocks["timeout"] or defaults.timeout,
        total_timeout_us=clocks.get("total_timeout") or defaults.total_timeout,
        queue_timeout_us=clocks["queue_timeout"] or defaults.queue_timeout,
        heartbeat_timeout_us=clocks["heartbeat_timeout"] or defaults.heartbeat_timeout,
    )
    return work if name and input else None


def _task_name(values: Values) -> Name | None:
    return values.name(
        "task",
        "the name of a function, but not `http` or `code`",
        pattern=TASK_NAME,
        cure="write the name under which a worker registered the function",
    )


def _queue(values: Values) -> Name | None:
    cure = "use letters, digits, `_`, `.` and `-`"
    return values.name("queue", "the name of a queue", pattern=NAME, cure=cure)


def _priority(values: Values) -> Amount | None:
    return values.count("priority", 0, PRIORITY_MAX)


# --- code --------------------------------------------------------------------------------------------


def _program(values: Values) -> Expression | None:
    """The input of a `code` node. The code is no template (X7): what looks like one is written so that it stays."""
    section = values.section
    params = values.mapping("params")
    language = _language(section)
    section.require("code", "add `code: |` and the program below it")
    tree = section.tree.get("code")
    if tree is None:
        return None
    if not isinstance(tree, Scalar) or not isinstance(tree.value, str):
        section.wrong_type("code", tree, "text", "write `code: |` and the program below it")
        return None
    if language is None or params is None:
        return None
    check_code(language, tree, values.findings)
    kept = json.dumps(tree.value.replace("${", "$${"), ensure_ascii=False)
    text = f'{{"language":"{language}","code":{kept},"params":{params.text}}}'
    return Expression(ExpressionKind.VALUE, text, values.where, params.reads)


def _language(section: Section) -> str | None:
    """In any letter case."""
    tree = section.require("language", f"add `language:` and one of {', '.join(LANGUAGES)}")
    if isinstance(tree, Scalar) and isinstance(tree.value, str):
        folded = tree.value.lower()
        if folded in LANGUAGES:
            return folded
        meant = language_for(folded) or section.findings.suggest(folded, LANGUAGES)
        expected = f"one of {', '.join(LANGUAGES)}"
        section.bad_value("language", tree, expected, did_you_mean(meant, f"write {expected}"))
    elif tree is not None:
        section.choice("language", LANGUAGES)
    return None


# --- http --------------------------------------------------------------------------------------------

_URL = re.compile(r"https?://[^\s]+", re.IGNORECASE)
_METHOD = re.compile("|".join(METHODS), re.IGNORECASE)
_ANY = re.compile(r"(?s).*")


def _request(values: Values) -> Expression | None:
    example = "`request: {method: POST, url: …}`"
    values.section.require("request", f"add {example}")
    request = values.section.section("request", "`request`", f"write {example}")
    if request is None:
        return None
    request.check_keys(REQUEST_KEYS)
    url = request.require("url", "add `url: http://…`")
    if url is not None:
        _check_text(request, "url", url, _URL, "an `http://` or `https://` address")
    method = request.tree.get("method")
    if method is not None:
        expected = f"one of {', '.join(METHODS)}"
        _check_text(request, "method", method, _METHOD, expected)
    for key in ("headers", "query", "form"):
        part = request.section(key, f"`{key}`", f"write `{key}: {{name: value}}`")
        for name in part.tree.entries if part else ():
            assert part is not None
            value = part.tree.get(name)
            if not isinstance(value, Scalar):
                assert value is not None
                part.wrong_type(name, value, "a text or a number", "write one value")
    bodies = [key for key in ("json", "body", "form") if request.has(key)]
    for key in bodies[1:]:
        what = f"a request that has `{bodies[0]}`"
        request.refuse(key, "keep one of `json`, `body` and `form`", what)
    if (body := request.tree.get("body")) is not None:
        _check_text(request, "body", body, _ANY, "text")
    _check_auth(request)
    kept = {key: entry for key, entry in request.tree.entries.items() if key in REQUEST_KEYS}
    tree = Fields(kept, request.tree.start, request.tree.end)
    where = f"{values.where}.request"
    return values.expressions.value(tree, where, values.owner, secrets_in=_SECRETS_IN)


def _check_text(
    section: Section, key: str, tree: Tree, pattern: re.Pattern[str], expected: str
) -> None:
    """A text of a form; one with `${…}` is known only when it runs."""
    if not isinstance(tree, Scalar) or not isinstance(tree.value, str):
        section.wrong_type(key, tree, expected, f"write {expected}")
    elif not has_template(tree.value) and not pattern.fullmatch(tree.value):
        section.bad_value(key, tree, expected, f"write {expected}")


def _check_auth(request: Section) -> None:
    example = (
        'write `auth: {bearer: "${secrets.TOKEN}"}` or `auth: {basic: {username: …, password: …}}`'
    )
    auth = request.section("auth", "`auth`", example)
    if auth is None:
        return
    auth.check_keys(("basic", "bearer"))
    if auth.has("basic") == auth.has("bearer") and not (
        auth.tree.entries and not (auth.has("basic") or auth.has("bearer"))
    ):
        request.findings.add(
            "bad_value",
            request.start_of("auth"),
            request.raw(auth.tree),
            key="auth",
            expected="one of `bearer` and `basic`",
            cure=example,
        )
    if (bearer := auth.tree.get("bearer")) is not None:
        _check_text(auth, "bearer", bearer, _ANY, "text")
    basic = auth.section("basic", "`basic`", example)
    if basic is None:
        return
    basic.check_keys(("username", "password"))
    for key in ("username", "password"):
        tree = basic.require(key, example)
        if tree is not None:
            _check_text(basic, key, tree, _ANY, "text")

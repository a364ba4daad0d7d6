"""One node's keys -> a `Node` of the model: what each type takes, and the defaults that fill it (SEMANTICS D, F5).

It knows nothing of edges beyond `join`; `needs` is `shape`'s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tenuto.dsl.code import LANGUAGES, check_code
from tenuto.dsl.expressions import Expressions, Owner
from tenuto.dsl.findings import Findings, did_you_mean
from tenuto.dsl.limits import (
    ATTEMPTS_MAX,
    EVENT_NAME,
    FACTOR_MAX,
    FAILURE_CODE,
    JOIN_MAX,
    NAME,
    PRIORITY_MAX,
    TASK_NAME,
)
from tenuto.dsl.section import Section
from tenuto.dsl.synonyms import language_for, type_for
from tenuto.dsl.templates import has_template
from tenuto.dsl.yaml import Fields, Scalar, Tree
from tenuto.model.definition import (
    Detail,
    End,
    Fail,
    Node,
    NodeType,
    SetValue,
    Wait,
    WaitForEvent,
    Work,
)
from tenuto.model.expressions import Expression, ExpressionKind
from tenuto.model.instants import SECOND_US
from tenuto.model.retry import Jitter, RetryPolicy

HTTP_TIMEOUT_US = 30 * SECOND_US
"""SEMANTICS D."""

CLOCKS = ("timeout", "total_timeout", "queue_timeout", "heartbeat_timeout")
WORK_KEYS = ("queue", "priority", "retry", *CLOCKS)
REQUEST_KEYS = ("method", "url", "headers", "query", "json", "body", "form", "auth")

_COMMON = ("type", "needs", "join", "cancel_losers")
_OWN: Mapping[NodeType, tuple[str, ...]] = {
    NodeType.HTTP: ("request", "optional", *WORK_KEYS),
    NodeType.CODE: ("language", "code", "params", "optional", *WORK_KEYS),
    NodeType.TASK: ("task", "params", "optional", *WORK_KEYS),
    NodeType.SWITCH: (),
    NodeType.FORK: (),
    NodeType.JOIN: (),
    NodeType.WAIT: ("for", "until"),
    NodeType.WAIT_FOR_EVENT: ("event", "key", "timeout", "optional"),
    NodeType.SET: ("values",),
    NodeType.FAIL: ("code", "message", "details"),
    NodeType.END: ("as", "output"),
}
_TYPES = {str(type): type for type in NodeType}
_LATER_TYPES = ("foreach", "call", "emit")
_LATER_KEYS = ("do", "compensate", "rules", "give_up_on", "callback_key", "keep")
_LATER_OWN: Mapping[NodeType, tuple[str, ...]] = {
    NodeType.WAIT: ("heartbeat_timeout",),
    NodeType.WAIT_FOR_EVENT: ("match", "fail_when", "heartbeat_timeout"),
}
_SECRETS_IN = frozenset({"headers", "auth", "json", "body", "form"})
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def _elsewhere() -> Mapping[str, str]:
    """Key -> where it does stand."""
    types: dict[str, list[str]] = {}
    for type, keys in _OWN.items():
        for key in keys:
            types.setdefault(key, []).append(type)
    return {key: f"it stands on {', '.join(names)}" for key, names in types.items()}


_ELSEWHERE = _elsewhere()


@dataclass(frozen=True, slots=True)
class Defaults:
    """What `defaults:` says, for nodes that a worker runs. None: nothing."""

    queue: str = "default"
    priority: int = 0
    retry: RetryPolicy = RetryPolicy()
    timeout: int | None = None
    total_timeout: int | None = None
    queue_timeout: int | None = None
    heartbeat_timeout: int | None = None


def read_defaults(section: Section) -> Defaults:
    """Read `defaults:`."""
    section.check_keys(WORK_KEYS)
    return Defaults(
        queue=_queue(section) or "default",
        priority=section.integer("priority", -PRIORITY_MAX, PRIORITY_MAX) or 0,
        retry=_retry(section, RetryPolicy()),
        **{clock: section.duration(clock) for clock in CLOCKS},
    )


def type_of(section: Section) -> NodeType | None:
    """The node's type, in any letter case; None with a finding when it is none of this release."""
    tree = section.require("type", "add `type: task`, `type: http` or another")
    if tree is None:
        return None
    name = section.text("type", cure="write a type like `task`")
    if name is None:
        return None
    folded = name.lower()
    if folded in _LATER_TYPES:
        section.findings.add("not_yet", tree.start, name, what=f"the node type `{folded}`")
        return None
    if folded not in _TYPES:
        known = ", ".join(_TYPES)
        types = (*_TYPES, *_LATER_TYPES)
        meant = type_for(folded) or section.findings.suggest(folded, types)
        section.findings.add(
            "unknown_type", tree.start, name, cure=did_you_mean(meant, f"there are {known}")
        )
        return None
    return _TYPES[folded]


class NodeReader:
    """Reads nodes of one file, whose type is known, with its defaults."""

    def __init__(self, findings: Findings, expressions: Expressions, defaults: Defaults) -> None:
        self._findings = findings
        self._expressions = expressions
        self._defaults = defaults

    def read(self, section: Section, id: str, type: NodeType, number: int) -> Node:
        """The node; where keys are wrong its detail may be None or incomplete, and findings say so."""
        later = (*_LATER_KEYS, *_LATER_OWN.get(type, ()))
        section.check_keys(
            (*_COMMON, *_OWN[type]),
            later={key: f"`{key}` on {section.what}" for key in later},
            elsewhere=_ELSEWHERE,
        )
        join = self._join(section)
        cancel_losers = section.flag("cancel_losers") or False
        if cancel_losers and not join and _is_all(section):
            at = section.start_of("cancel_losers")
            self._findings.add("cancel_losers_without_race", at, "cancel_losers")
        return Node(
            id=id,
            type=type,
            detail=self._detail(section, f"nodes.{id}", type, Owner(node=number)),
            join=join,
            cancel_losers=cancel_losers,
            optional=section.has("optional") and (section.flag("optional") or False),
        )

    def _join(self, section: Section) -> int:
        """Tokens needed; 0 is all of them (J1, J2)."""
        tree = section.tree.get("join")
        if isinstance(tree, Scalar) and type(tree.value) is int:
            return section.integer("join", 1, JOIN_MAX) or 0
        word = section.choice("join", ("all", "any"))
        return 1 if word == "any" else 0

    def _detail(self, section: Section, where: str, type: NodeType, owner: Owner) -> Detail:
        match type:
            case NodeType.HTTP | NodeType.CODE | NodeType.TASK:
                return self._work(section, where, type, owner)
            case NodeType.WAIT:
                return _wait(section)
            case NodeType.WAIT_FOR_EVENT:
                return self._wait_for_event(section, where, owner)
            case NodeType.SET:
                tree = section.require("values", "add `values: {name: value}`")
                if section.section("values", "`values`", "write `values: {name: value}`") is None:
                    return None
                assert tree is not None
                return SetValue(self._expressions.value(tree, f"{where}.values", owner))
            case NodeType.FAIL:
                return self._fail(section, where, owner)
            case NodeType.END:
                return End(
                    cancelled=section.choice("as", ("success", "cancelled")) == "cancelled",
                    output=self._optional_value(section, "output", where, owner),
                )
            case NodeType.SWITCH | NodeType.FORK | NodeType.JOIN:
                return None

    def _work(self, section: Section, where: str, type: NodeType, owner: Owner) -> Work | None:
        if type is NodeType.HTTP:
            name: str | None = "http"
            input = self._request(section, where, owner)
        elif type is NodeType.CODE:
            name = "code"
            input = self._program(section, where, owner)
        else:
            section.require("task", "add `task: <name of a registered function>`")
            name = section.text(
                "task",
                "the name of a function, but not `http` or `code`",
                pattern=TASK_NAME,
                cure="write the name under which a worker registered the function",
            )
            input = self._params(section, where, owner)
        defaults = self._defaults
        clocks = {clock: section.duration(clock) for clock in CLOCKS}
        if type is NodeType.HTTP and clocks["timeout"] is None and defaults.timeout is None:
            clocks["timeout"] = HTTP_TIMEOUT_US
        priority = section.integer("priority", -PRIORITY_MAX, PRIORITY_MAX)
        work = Work(
            name=name or "",
            input=input or Expression(ExpressionKind.VALUE, "{}", where),
            queue=_queue(section) or defaults.queue,
            priority=defaults.priority if priority is None else priority,
            retry=_retry(section, defaults.retry),
            timeout_us=clocks["timeout"] or defaults.timeout,
            total_timeout_us=clocks["total_timeout"] or defaults.total_timeout,
            queue_timeout_us=clocks["queue_timeout"] or defaults.queue_timeout,
            heartbeat_timeout_us=clocks["heartbeat_timeout"] or defaults.heartbeat_timeout,
        )
        return work if name and input else None

    def _params(self, section: Section, where: str, owner: Owner) -> Expression | None:
        where = f"{where}.params"
        if not section.has("params"):
            return Expression(ExpressionKind.VALUE, "{}", where)
        params = section.section("params", "`params`", "write `params: {name: value}`")
        return self._expressions.value(params.tree, where, owner) if params else None

    def _program(self, section: Section, where: str, owner: Owner) -> Expression | None:
        """The input of a `code` node. The code is no template (X7): what looks like one is written so that it stays."""
        params = self._params(section, where, owner)
        language = self._language(section)
        section.require("code", "add `code: |` and the program below it")
        tree = section.tree.get("code")
        if tree is None:
            return None
        if not isinstance(tree, Scalar) or not isinstance(tree.value, str):
            section.wrong_type("code", tree, "text", "write `code: |` and the program below it")
            return None
        if language is None or params is None:
            return None
        check_code(language, tree, self._findings)
        kept = json.dumps(tree.value.replace("${", "$${"), ensure_ascii=False)
        text = f'{{"language":"{language}","code":{kept},"params":{params.text}}}'
        return Expression(ExpressionKind.VALUE, text, where, params.reads)

    def _language(self, section: Section) -> str | None:
        """In any letter case."""
        tree = section.require("language", f"add `language:` and one of {', '.join(LANGUAGES)}")
        if isinstance(tree, Scalar) and isinstance(tree.value, str):
            folded = tree.value.lower()
            if folded in LANGUAGES:
                return folded
            meant = language_for(folded) or self._findings.suggest(folded, LANGUAGES)
            expected = f"one of {', '.join(LANGUAGES)}"
            cure = did_you_mean(meant, f"write {expected}")
            self._findings.add(
                "bad_value",
                tree.start,
                section.raw(tree),
                key="language",
                expected=expected,
                cure=cure,
            )
        elif tree is not None:
            section.choice("language", LANGUAGES)
        return None

    def _request(self, section: Section, where: str, owner: Owner) -> Expression | None:
        example = "`request: {method: POST, url: …}`"
        section.require("request", f"add {example}")
        request = section.section("request", "`request`", f"write {example}")
        if request is None:
            return None
        request.check_keys(REQUEST_KEYS)
        url = request.require("url", "add `url: http://…`")
        if url is not None:
            _check_text(request, "url", url, _URL, "an `http://` or `https://` address")
        method = request.tree.get("method")
        if method is not None:
            expected = f"one of {', '.join(_METHODS)}"
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
            self._findings.add(
                "key_not_allowed",
                request.start_of(key),
                key,
                what=f"a request that has `{bodies[0]}`",
                cure="keep one of `json`, `body` and `form`",
            )
        if (body := request.tree.get("body")) is not None:
            _check_text(request, "body", body, _ANY, "text")
        _check_auth(request)
        kept = {key: entry for key, entry in request.tree.entries.items() if key in REQUEST_KEYS}
        tree = Fields(kept, request.tree.start, request.tree.end)
        return self._expressions.value(tree, f"{where}.request", owner, secrets_in=_SECRETS_IN)

    def _wait_for_event(self, section: Section, where: str, owner: Owner) -> WaitForEvent | None:
        section.require("event", "add `event: order.approved`")
        event = section.text(
            "event", "the name of an event", pattern=EVENT_NAME, cure="write it like `order.done`"
        )
        tree = section.require("key", 'add `key: "${input.order_id}"`, which tells runs apart')
        timeout_us = section.duration("timeout")
        if tree is None:
            return None
        key = self._expressions.key(tree, f"{where}.key", owner, "key")
        return WaitForEvent(event, key, timeout_us) if event else None

    def _fail(self, section: Section, where: str, owner: Owner) -> Fail | None:
        section.require("code", "add `code: out_of_stock`")
        code = section.text(
            "code", "a short code", pattern=FAILURE_CODE, cure="write it like `out_of_stock`"
        )
        message = section.tree.get("message")
        details = self._optional_value(section, "details", where, owner)
        text = None
        if message is not None:
            text = self._expressions.key(message, f"{where}.message", owner, "message")
        return Fail(code, text, details) if code else None

    def _optional_value(
        self, section: Section, key: str, where: str, owner: Owner
    ) -> Expression | None:
        tree = section.tree.get(key)
        return self._expressions.value(tree, f"{where}.{key}", owner) if tree is not None else None


def _is_all(section: Section) -> bool:
    tree = section.tree.get("join")
    return tree is None or (isinstance(tree, Scalar) and tree.value == "all")


def _queue(section: Section) -> str | None:
    return section.text(
        "queue", "the name of a queue", pattern=NAME, cure="use letters, digits, `_`, `.` and `-`"
    )


def _retry(section: Section, base: RetryPolicy) -> RetryPolicy:
    """`retry` of a mapping, key by key over `base` (SEMANTICS D)."""
    retry = section.section("retry", "`retry`", "write `retry: {max_attempts: 3}`")
    if retry is None:
        return base
    retry.check_keys(
        ("max_attempts", "initial", "factor", "max", "jitter"),
        later={key: f"`{key}` in `retry`" for key in ("rules", "give_up_on")},
    )
    max_attempts = retry.integer("max_attempts", 1, ATTEMPTS_MAX)
    initial_us = retry.duration("initial", zero=True)
    factor = retry.number("factor", 1, FACTOR_MAX)
    max_us = retry.duration("max", zero=True)
    jitter = retry.choice("jitter", tuple(Jitter))
    return RetryPolicy(
        max_attempts=base.max_attempts if max_attempts is None else max_attempts,
        initial_us=base.initial_us if initial_us is None else initial_us,
        factor=base.factor if factor is None else float(factor),
        max_us=base.max_us if max_us is None else max_us,
        jitter=base.jitter if jitter is None else Jitter(jitter),
    )


def _wait(section: Section) -> Wait | None:
    given = [key for key in ("for", "until") if section.has(key)]
    if not given:
        section.require("for", "add `for: 10m`, or `until: 2026-12-24T18:00:00+01:00`")
        return None
    for key in given[1:]:
        section.findings.add("wait_form", section.start_of(key), key)
    for_us, until_at = section.duration("for", zero=True), section.instant("until")
    if len(given) > 1 or (for_us is None and until_at is None):
        return None
    return Wait(for_us, until_at)


_URL = re.compile(r"https?://[^\s]+", re.IGNORECASE)
_METHOD = re.compile("|".join(_METHODS), re.IGNORECASE)
_ANY = re.compile(r"(?s).*")


def _check_text(
    section: Section, key: str, tree: Tree, pattern: re.Pattern[str], expected: str
) -> None:
    """A text of a form; one with `${…}` is known only when it runs."""
    if not isinstance(tree, Scalar) or not isinstance(tree.value, str):
        section.wrong_type(key, tree, expected, f"write {expected}")
    elif not has_template(tree.value) and not pattern.fullmatch(tree.value):
        section.findings.add(
            "bad_value",
            tree.start,
            section.raw(tree),
            key=key,
            expected=expected,
            cure=f"write {expected}",
        )


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

"""`retry:` of a mapping -> a `RetryPolicy`: what is said is merged key by key, then what is not said is filled in (D).

Rules are one key: those of a node take the place of those of the defaults. A rule's back-off is that of the whole
`retry` but for the keys that it says itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from difflib import get_close_matches

from tenuto.dsl.expressions import Owner
from tenuto.dsl.keys import RETRY, RULE
from tenuto.dsl.limits import ATTEMPTS_MAX, FACTOR_MAX, FAILURE_CODE, NAMES_MAX, RULES_MAX
from tenuto.dsl.section import Section
from tenuto.dsl.values import Values
from tenuto.dsl.yaml import Fields, Items, Scalar, Tree
from tenuto.model.expressions import Expression, Root
from tenuto.model.failures import NEVER_RETRIED
from tenuto.model.retry import Jitter, RetryPolicy, RetryRule, names_failure

_FAILURE_NAME = re.compile(rf"\*|{FAILURE_CODE.pattern}")
_READER = Owner(sees=frozenset({Root.ERROR}), alone="a retry rule")
_ALL = "*"


@dataclass(frozen=True, slots=True)
class _Backoff:
    """Keys of a back-off; None for what is not said."""

    initial_us: int | None = None
    factor: float | None = None
    max_us: int | None = None
    jitter: Jitter | None = None


@dataclass(frozen=True, slots=True)
class _Rule:
    on: tuple[str, ...]
    when: Expression | None
    max_attempts: int
    backoff: _Backoff


@dataclass(frozen=True, slots=True)
class RetrySaid:
    """What a `retry:` says; None for what it does not."""

    max_attempts: int | None = None
    initial_us: int | None = None
    factor: float | None = None
    max_us: int | None = None
    jitter: Jitter | None = None
    rules: tuple[_Rule, ...] | None = None
    give_up_on: tuple[str, ...] | None = None

    def over(self, base: RetrySaid) -> RetrySaid:
        """Merged key by key: what is not said here is as `base` says."""
        return RetrySaid(
            *(
                getattr(base if getattr(self, key.name) is None else self, key.name)
                for key in fields(self)
            )
        )

    def policy(self) -> RetryPolicy:
        """With the language's own values for what nobody said."""
        plain = RetryPolicy()
        initial_us = plain.initial_us if self.initial_us is None else self.initial_us
        factor = plain.factor if self.factor is None else self.factor
        max_us = plain.max_us if self.max_us is None else self.max_us
        jitter = self.jitter or plain.jitter
        rules = tuple(
            RetryRule(
                on=rule.on,
                max_attempts=rule.max_attempts,
                when=rule.when,
                initial_us=initial_us if own.initial_us is None else own.initial_us,
                factor=factor if own.factor is None else own.factor,
                max_us=max_us if own.max_us is None else own.max_us,
                jitter=own.jitter or jitter,
            )
            for rule in self.rules or ()
            for own in (rule.backoff,)
        )
        return RetryPolicy(
            max_attempts=self.max_attempts or plain.max_attempts,
            initial_us=initial_us,
            factor=factor,
            max_us=max_us,
            jitter=jitter,
            rules=rules,
            total=self.max_attempts if rules else None,
            give_up_on=self.give_up_on or (),
        )


def read_retry(values: Values) -> RetrySaid:
    """What stands under `retry`, nothing if it is absent."""
    retry = values.section.section("retry", "`retry`", "write `retry: {max_attempts: 3}`")
    if retry is None:
        return RetrySaid()
    retry.check_keys(RETRY)
    backoff = _read_backoff(retry)
    give_up_on = _names(retry, "give_up_on")
    return RetrySaid(
        max_attempts=retry.integer("max_attempts", 1, ATTEMPTS_MAX),
        initial_us=backoff.initial_us,
        factor=backoff.factor,
        max_us=backoff.max_us,
        jitter=backoff.jitter,
        rules=_read_rules(values.of(retry, f"{values.where}.retry"), give_up_on or ()),
        give_up_on=give_up_on,
    )


def _read_backoff(section: Section) -> _Backoff:
    factor = section.number("factor", 1, FACTOR_MAX)
    jitter = section.choice("jitter", tuple(Jitter))
    return _Backoff(
        initial_us=section.duration("initial", zero=True),
        factor=None if factor is None else float(factor),
        max_us=section.duration("max", zero=True),
        jitter=None if jitter is None else Jitter(jitter),
    )


def _read_rules(values: Values, give_up_on: tuple[str, ...]) -> tuple[_Rule, ...] | None:
    example = "write `rules: [{on: [timeout, http.5xx], max_attempts: 5}]`"
    items = values.section.items("rules", example)
    if items is None:
        return None
    if len(items.items) > RULES_MAX:
        expected = f"a list of at most {RULES_MAX} rules"
        values.section.bad_value("rules", items, expected, "let one rule name several failures")
        return None
    rules: list[_Rule] = []
    taken = [(name, "`give_up_on` comes first") for name in give_up_on]
    for number, tree in enumerate(items.items):
        if not isinstance(tree, Fields):
            values.section.wrong_type("rules", tree, "a list of rules", example)
            continue
        section = Section(tree, values.findings, "a retry rule", at=tree.start, name="rules")
        rule = _read_rule(values.of(section, f"{values.where}.rules[{number}]", _READER))
        if rule is None:
            continue
        why = _why_never(rule.on, taken)
        if why is not None:
            raw = values.section.raw(tree)
            values.findings.add("retry_rule_unreachable", tree.start, raw, why=why)
        if rule.when is None:
            taken += [(name, f"rule {number + 1} takes it") for name in rule.on or (_ALL,)]
        rules.append(rule)
    return tuple(rules)


def _read_rule(values: Values) -> _Rule | None:
    section = values.section
    section.check_keys(RULE)
    section.require("max_attempts", "add `max_attempts: 3`, the first try included")
    max_attempts = section.integer("max_attempts", 1, ATTEMPTS_MAX)
    on, when = _names(section, "on"), values.condition("when")
    backoff = _read_backoff(section)
    if max_attempts is None or (section.has("on") and on is None):
        return None
    return _Rule(on or (), when, max_attempts, backoff)


def _why_never(on: tuple[str, ...], taken: list[tuple[str, str]]) -> str | None:
    """Why a rule can never match, or None: each of its names is taken by what comes before, or never retried."""
    found = None
    for name in on or (_ALL,):
        if name in NEVER_RETRIED:
            why: str | None = f"`{name}` is never retried"
        else:
            why = next((why for taker, why in taken if names_failure((taker,), name, ())), None)
        if why is None:
            return None
        found = found or why
    return found


def _names(section: Section, key: str) -> tuple[str, ...] | None:
    """Names of failures: one, or a list of them."""
    tree = section.tree.get(key)
    if tree is None:
        return None
    found = tuple(_valid(section, key, tree))
    parts = tree.items if isinstance(tree, Items) else (tree,)
    if len(parts) > NAMES_MAX:
        expected = f"a list of at most {NAMES_MAX} failures"
        section.bad_value(key, tree, expected, 'write `"*"` for every failure')
    elif not parts:
        section.bad_value(
            key, tree, "the name of a failure, or a list of them", f"leave `{key}` out"
        )
    return found if len(found) == len(parts) and 0 < len(parts) <= NAMES_MAX else None


def _valid(section: Section, key: str, tree: Tree) -> Iterator[str]:
    expected = "the name of a failure, or a list of them"
    otherwise = (
        'write codes and exception classes, like `[timeout, http.5xx, ValueError]`, or `"*"`'
    )
    for part in tree.items if isinstance(tree, Items) else (tree,):
        if isinstance(part, Scalar) and isinstance(part.value, str):
            if _FAILURE_NAME.fullmatch(part.value):
                cure = _cure_of_odd(part.value)
                if cure is not None:
                    section.findings.add("odd_failure_name", part.start, part.value, cure=cure)
                yield part.value
            else:
                section.bad_value(key, part, expected, otherwise)
        elif isinstance(part, Scalar) and type(part.value) is int and 100 <= part.value < 600:
            section.wrong_type(key, part, expected, f"write `http.{part.value}`")
        else:
            section.wrong_type(key, part, expected, otherwise)


def _cure_of_odd(name: str) -> str | None:
    """What was meant by a name that no failure can have, or that is nearly one of the engine's; None for others.

    Classes have capitals, and a task may fail with any code of its own: only what is very near is asked about.
    """
    head, dot, status = name.partition(".")
    if dot and len(status) == _STATUS_SIZE and status[0].isdigit():
        if head == "http":
            known = "write `http.` and a status, such as `http.503`, or `http.4xx`, `http.5xx`"
            return None if _STATUS.fullmatch(status) else known
        near = get_close_matches(head, ["http"], n=1, cutoff=0.75)
        return f"did you mean `http.{status}`?" if near and _STATUS.fullmatch(status) else None
    if name in _CODES or not name.replace("_", "").islower():
        return None
    close = get_close_matches(name, _CODES, n=1, cutoff=0.88) if len(name) <= _CODE_MAX else []
    return f"did you mean `{close[0]}`?" if close else None


_STATUS = re.compile(r"[1-5](?:xx|[0-9][0-9])")
_STATUS_SIZE = 3
_CODE_MAX = 30
_CODES = frozenset(
    (
        *NEVER_RETRIED,
        *(
            "timeout",
            "heartbeat_timeout",
            "total_timeout",
            "run_timeout",
            "call_depth",
            "cancelled",
        ),
        *("connect", "disconnected", "address_blocked", "invalid_request", "invalid_result"),
        *(
            "bad_arguments",
            "internal",
            "process_died",
            "process_not_started",
            "task_not_importable",
        ),
        *("unknown_task", "unknown_workflow", "child_failed", "foreach_failed", "invalid_input"),
        *("invalid_json", "secret_missing", "type_mismatch"),
    )
)
"""Codes of the engine's own failures."""

"""The words of other engines, and what they are called here: hints only, nothing is accepted under another name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fractions import Fraction

from tenuto.model.instants import DURATION_MAX_US


def _table(rows: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """Their word -> ours, from rows of ours -> theirs; a word may mean several, by where it stands."""
    table: dict[str, tuple[str, ...]] = {}
    for ours, theirs in rows.items():
        for word in theirs.split():
            table[word] = (*table.get(word, ()), ours)
    return table


_KEYS = _table(
    {
        "max_attempts": "attempts maxattempts maximum_attempts tries retries max_retries maxretries count limit",
        "retry": "retries max_retries maxretries retry_policy attempts max_attempts retry_on backoff",
        "initial": "delay interval initial_interval initial_delay interval_seconds backoff wait countdown min",
        "factor": "multiplier backoff_rate backoff_coefficient backoff exponent base",
        "max": "max_delay max_interval maximum_interval max_delay_seconds cap max_passes iterations times",
        "needs": "depends_on dependson depends dependencies requires after upstream run_after",
        "when": "if cond condition where unless",
        "else": "default otherwise",
        "from": "source src",
        "to": "target dest destination next then goto",
        "on": "event outcome trigger error errors error_equals codes exceptions retry_on match",
        "nodes": "steps tasks jobs states activities",
        "edges": "transitions links connections flow",
        "vars": "variables env constants",
        "input": "inputs parameters params schema",
        "output": "outputs result results return returns",
        "task": "function func fn call callable handler activity action uses run",
        "call": "workflow subworkflow sub_workflow workflow_id workflow_name child definition",
        "do": "body steps graph iterator item_processor itemprocessor block each nodes template subgraph",
        "over": "items items_path itemspath in list each for_each foreach collection with_items range loop_over",
        "concurrency": "max_concurrency maxconcurrency parallelism parallel max_parallel limit workers",
        "tolerate": "tolerated_failures tolerated_failure_count tolerated_failure_percentage allow_failures "
        "max_failures failure_tolerance",
        "batch": "batch_size chunk chunk_size item_batcher chunks",
        "source": "item_reader reader pages generator",
        "params": "args arguments kwargs parameters input inputs data with",
        "request": "url method headers json body",
        "code": "script source program body run inline",
        "language": "lang runtime interpreter",
        "json": "payload data content",
        "query": "params qs querystring",
        "for": "duration seconds sleep delay minutes",
        "until": "at date datetime eta",
        "timeout": "deadline time_limit execution_timeout start_to_close_timeout max_time",
        "total_timeout": "schedule_to_close_timeout",
        "queue_timeout": "schedule_to_start_timeout expires",
        "event": "signal topic message channel",
        "key": "correlation correlation_key correlation_id",
        "values": "value set assign",
        "message": "reason error cause",
        "queue": "task_queue pool routing_key",
        "optional": "ignore_errors continue_on_error continue_on_failure allow_failure",
        "compensate": "compensation undo rollback revert on_rollback saga compensate_with",
        "on_failure": "catch on_error onerror on_fail failure_hook except error_handler finally",
        "closing_timeout": "cleanup_timeout compensation_timeout",
        "rules": "retry_on policies catch errors",
        "give_up_on": "non_retryable non_retryable_errors non_retryable_error_types abort_on fatal no_retry_on "
        "stop_on",
        "match": "filter where condition",
        "fail_when": "error_when fail_if fails_when",
        "heartbeat_timeout": "heartbeat heartbeat_seconds",
        "payload": "data body value content details json params input",
        "keep": "ttl expires retention max_age history",
        "wait": "sync wait_for_completion await async detached fire_and_forget",
    }
)
_TYPES = {
    word: ours[0]
    for word, ours in _table(
        {
            "wait": "sleep delay pause timer",
            "wait_for_event": "signal event approval receive human message callback",
            "switch": "if branch choice condition conditional decision gateway router",
            "fork": "parallel fanout split",
            "join": "merge gather fanin",
            "task": "function activity job step operation action",
            "http": "request rest webhook fetch https",
            "code": "script python javascript cpython js py inline",
            "set": "assign variables let pass",
            "fail": "error raise throw",
            "end": "stop exit finish succeed terminate",
            "foreach": "map for_each for loop items each parallel_map distributed_map dynamic_fork fan_out",
            "call": "subworkflow sub_workflow child_workflow subflow sub_process subprocess child workflow scope group",
            "emit": "publish send send_event throw_event notify raise_event signal_event produce",
        }
    ).items()
}


_LANGUAGES = {
    word: ours[0]
    for word, ours in _table(
        {
            "python": "py python3 monty",
            "javascript": "js ecmascript node nodejs quickjs typescript ts",
            "cpython": "cpython3 full_python",
        }
    ).items()
}


def language_for(word: str) -> str | None:
    """What a language of a `code` node is called here."""
    return _LANGUAGES.get(word)


def word_for(word: str, known: Collection[str]) -> str | None:
    """What a key of another engine is called here, if that may stand where it stands."""
    return next((ours for ours in _KEYS.get(word.lower(), ()) if ours in known), None)


def type_for(word: str) -> str | None:
    """What a node type of another engine is called here."""
    return _TYPES.get(word)


_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
"""In milliseconds, the largest first."""
_SPELT = {
    **dict.fromkeys(("msec", "msecs", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000),
    **_UNITS,
}
_NUMBER = re.compile(r"(\d{1,12}(?:\.\d{1,6})?|\.\d{1,6})\s*([a-z]*)")


def duration_hint(text: str) -> str:
    """How to write what was probably meant: `0.5s` -> `500ms`."""
    said = spell_seconds(text)
    example = "write it like `500ms`, `10s`, `1h30m` or `2d`"
    if said and "." not in text:
        return f"write `{said}`: whole numbers with d, h, m, s or ms, without blanks"
    return f"numbers are whole: write `{said}`" if said else f"{example}, in whole numbers"


def spell_seconds(text: str) -> str | None:
    """One number with a unit (seconds without) in whole numbers; None for nothing, or what is not one."""
    found = _NUMBER.fullmatch(text.strip().lower())
    if found is None or found[2] not in _SPELT:
        return None
    left = Fraction("0" + found[1]) * _SPELT[found[2]]
    if left.denominator != 1 or not 0 < left <= DURATION_MAX_US // 1_000:
        return None
    parts = []
    for unit, size in _UNITS.items():
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts)

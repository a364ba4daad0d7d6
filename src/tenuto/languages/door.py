"""The door that results of Python code pass inside their interpreter: JSON text, or why there is none.

`SOURCE` runs in Monty and in CPython alike, so it is written in what both have. The usual value takes one pass of the
json module and one comparison; only what that does not bring back unchanged is looked at piece by piece, for the place.
"""

from __future__ import annotations

OUTSIDE = "put it into a task of app.py: code nodes have only Python's own modules"
"""The cure for a module that is not Python's own."""

SOURCE = """
import json as _tenuto_json
import re as _tenuto_re

def _tenuto_refusal(value, place, holders):
    kind = type(value)
    name = kind.__name__
    if value is None or kind is bool:
        return ""
    if isinstance(value, str):
        for letter in value:
            if letter == "\\0":
                return place + " holds a NUL character: remove it, or use base64"
            if 0xD800 <= ord(letter) <= 0xDFFF:
                return place + " holds a lone surrogate (broken Unicode)"
        return ""
    if isinstance(value, int):
        if -9223372036854775808 <= value <= 18446744073709551615:
            return ""
        return place + " is an integer beyond 64 bits: return it as a string"
    if isinstance(value, float):
        if value != value:
            return place + " is NaN, which JSON cannot hold: return None or a string"
        if value in (float("inf"), float("-inf")):
            return place + " is an infinity, which JSON cannot hold: return None or a string"
        return ""
    if isinstance(value, (dict, list, tuple)):
        for holder in holders:
            if holder is value:
                return place + " contains itself: only trees are JSON"
        if len(holders) >= 64:
            return place[:60] + "… is nested deeper than 64 levels: flatten it"
        inner = holders + [value]
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    return (place + " has the key " + repr(key)[:60] + " (" + type(key).__name__
                        + "), but keys of JSON are strings: use str(key)")
                found = _tenuto_refusal(key, place + ": the key " + repr(key)[:60], inner)
                if not found:
                    word = _tenuto_re.match("[A-Za-z_][A-Za-z0-9_]*$", key)
                    at = "." + key if word else "[" + _tenuto_json.dumps(key[:60]) + "]"
                    found = _tenuto_refusal(value[key], place + at, inner)
                if found:
                    return found
        else:
            for index in range(len(value)):
                found = _tenuto_refusal(value[index], place + "[" + str(index) + "]", inner)
                if found:
                    return found
        return ""
    cures = {
        "set": "return sorted(value)", "frozenset": "return sorted(value)",
        "bytes": "return base64.b64encode(value).decode()", "Decimal": "return str(value)",
        "datetime": "return value.isoformat()", "date": "return value.isoformat()",
        "time": "return value.isoformat()", "timedelta": "return value.total_seconds()",
        "generator": "return list(value)", "coroutine": "await it",
    }
    article = " is an " if name[:1] in "aeioAEIO" else " is a "
    return (place + article + name + ", which JSON cannot hold: "
        + cures.get(name, "return dicts, lists, strings, numbers, booleans or None"))

def _tenuto_is_deep(value):
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > 64:
            return True
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list, tuple))]
    return False

def _tenuto_door(value, limit):
    problem = ""
    try:
        text = _tenuto_json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        text = ""
        problem = "result is no JSON value: " + str(error)
    many = text.count("[") + text.count("{") > 64
    doubtful = "\\\\u0000" in text or _tenuto_re.search("[0-9]{19}", text)
    if problem or (many and _tenuto_is_deep(value)) or doubtful or _tenuto_json.loads(text) != value:
        found = _tenuto_refusal(value, "result", [])
        if found or problem:
            return "invalid_result", found or problem
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "invalid_result", _tenuto_refusal(value, "result", []) or "result is broken Unicode"
    if size > limit:
        return "output_too_large", (f"the result has {size:,} bytes of JSON, more than the {limit:,} allowed:"
            " store the data elsewhere and return a reference to it")
    return "", text
"""

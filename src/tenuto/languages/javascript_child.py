"""A process that runs JavaScript: one program after another, each in a fresh QuickJS. Standard library, QuickJS only.

Frames go over its input and output: four bytes of length, then a request, or a kind and its text. The interpreter has
no access to anything; `console` is all that is given to it.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import re
import sys

from tenuto.languages import jail
from tenuto.languages.bounds import LINE_MAX, Bounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FILES_MAX = 1_048_576
STACK_MAX = 512 * 1024
_PLACE = re.compile(r"<input>:(\d+)")

PRELUDE = r"""
(() => {
  "use strict";
  const {stringify, parse} = JSON, {isArray} = Array, {keys, getPrototypeOf} = Object;
  const proto = Object.prototype, say = __say, test = RegExp.prototype.test, call = Function.prototype.call;
  const well = String.prototype.isWellFormed, toWell = String.prototype.toWellFormed;
  const includes = String.prototype.includes, join = Array.prototype.join, isSafe = Number.isSafeInteger;
  const apply = (f, self, ...args) => Reflect.apply(f, self, args);
  const String_ = String, Promise_ = Promise, then = Promise.prototype.then, resolve = Promise.resolve;
  const finite = Number.isFinite, isNaN_ = Number.isNaN, word = /^[A-Za-z_$][\w$]*$/;
  delete globalThis.__say;
  // A text that grew by additions is no string yet to whoever hands it to Python.
  const flat = text => apply(join, [text], "");
  const shown = value => {
    if (typeof value === "string") return value;
    if (value instanceof Error) return String_(value) + (value.stack ? "\n" + value.stack : "");
    if (typeof value === "object" && value !== null) {
      try { const text = stringify(value); if (text !== undefined) return text; } catch {}
    }
    try { return String_(value); } catch { return typeof value; }
  };
  const printer = stderr => (...values) => {
    let text = "";
    for (let i = 0; i < values.length; i++) text += (i ? " " : "") + shown(values[i]);
    say(stderr, flat(apply(toWell, text.length > 65536 ? text.slice(0, 65536) : text)));
  };
  const out = printer(false), err = printer(true);
  globalThis.console = {log: out, info: out, debug: out, warn: err, error: err};
  const refusal = (value, place, holders) => {
    switch (typeof value) {
      case "string":
        if (apply(includes, value, "\0")) return place + " holds a NUL character: remove it, or use base64";
        return apply(well, value) ? "" : place + " holds a lone surrogate (broken Unicode)";
      case "number":
        if (isNaN_(value)) return place + " is NaN, which JSON cannot hold: return null or a string";
        if (!finite(value)) return place + " is an infinity, which JSON cannot hold: return null or a string";
        if (value >= 18446744073709551616 && value < 1e21 || value < -9223372036854775808 && value > -1e21)
          return place + " is an integer beyond 64 bits: return it as a string";
        return "";
      case "boolean": return "";
      case "undefined": return place + " is undefined, which JSON cannot hold: leave it out, or use null";
      case "function": return place + " is a function, which JSON cannot hold";
      case "symbol": return place + " is a symbol, which JSON cannot hold";
      case "bigint": return place + " is a BigInt, which JSON cannot hold: return Number(value) or String(value)";
    }
    if (value === null) return "";
    for (const holder of holders) if (holder === value) return place + " contains itself: only trees are JSON";
    if (holders.length >= 64) return place.slice(0, 60) + "… is nested deeper than 64 levels: flatten it";
    const inner = [...holders, value];
    if (isArray(value)) {
      for (let i = 0; i < value.length; i++) {
        const found = refusal(value[i], place + "[" + i + "]", inner);
        if (found) return found;
      }
      return "";
    }
    const above = getPrototypeOf(value);
    if (above !== proto && above !== null) {
      const name = value.constructor?.name ?? "object";
      const cure = {
        Date: "return value.toISOString()", Map: "return Object.fromEntries(value)", Set: "return [...value]",
        Promise: "await it",
      }[name] ?? "return objects, arrays, strings, numbers, booleans or null";
      return place + " is a " + name + ", which JSON cannot hold: " + cure;
    }
    for (const key of keys(value)) {
      if (!apply(well, key) || apply(includes, key, "\0")) return place + " has a key that JSON cannot hold";
      const at = apply(test, word, key) ? "." + key : "[" + stringify(key.slice(0, 60)) + "]";
      const found = refusal(value[key], place + at, inner);
      if (found) return found;
    }
    return "";
  };
  const length = text => {
    let bytes = 0;
    for (let i = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      bytes += unit < 0x80 ? 1 : unit < 0x800 ? 2 : unit >= 0xd800 && unit < 0xe000 ? 2 : 3;
    }
    return bytes;
  };
  let answer = null;
  const thrown = error => {
    if (error instanceof Error) {
      let stack = "";
      try { stack = String_(error.stack ?? ""); } catch {}
      let name = "Error", message = "";
      try { name = String_(error.name); message = String_(error.message); } catch {}
      return stringify({type: name, message: name + (message ? ": " + message : ""), stack});
    }
    return stringify({type: typeof error, message: "thrown: " + shown(error), stack: ""});
  };
  const raised = error => { answer = ["raised", apply(toWell, thrown(error))]; };
  const ended = (value, limit) => {
    if (value === undefined) value = null;
    const found = refusal(value, "result", []);
    if (found) { answer = ["invalid_result", apply(toWell, found)]; return; }
    const text = stringify(value), size = length(text);
    answer = size > limit ? ["output_too_large", String_(size)] : ["output", text];
  };
  return [
    (main, params, limit) => {
      try {
        const value = main(parse(params));
        if (value !== null && typeof value === "object" && typeof value.then === "function")
          apply(then, apply(resolve, Promise_, value), found => {
            try { ended(found, limit); } catch (error) { raised(error); }
          }, raised);
        else ended(value, limit);
      } catch (error) { raised(error); }
    },
    () => answer === null ? null : apply(join, answer, "\n"),
  ];
})()
"""


def main(parent: str, library: str) -> None:
    """Serve until the input ends. `parent`: the server's process id. `library`: the file of QuickJS."""
    jail.end_with(int(parent))
    loader = importlib.machinery.ExtensionFileLoader("_quickjs", library)
    spec = importlib.util.spec_from_loader("_quickjs", loader)
    assert spec is not None
    quickjs = importlib.util.module_from_spec(spec)
    loader.exec_module(quickjs)
    jail.limit(memory=None, cpu_s=None, files=FILES_MAX)
    jail.lock(network=False)
    while True:
        head = _read(4)
        if head is None:
            return
        body = _read(int.from_bytes(head, "big"))
        if body is None:
            return
        send("result", json.dumps(run(quickjs, json.loads(body))))


def run(quickjs: Any, request: dict[str, Any]) -> dict[str, object]:
    """Run one program; the answer has `output`, or `code` and `message` with more, and what was not printed."""
    bounds = Bounds()

    def say(stderr: bool, text: str) -> None:  # noqa: FBT001 - called from JavaScript
        for line in text.split("\n"):
            if bounds.admit(line):
                send("err" if stderr else "out", line[:LINE_MAX])

    context = quickjs.Context()
    context.set_memory_limit(request["memory"])
    context.set_max_stack_size(STACK_MAX)
    context.add_callable("__say", say)
    try:
        answer = _answer(context, request)
    except quickjs.JSException as error:
        answer = _raised(str(error))
    except (UnicodeDecodeError, TypeError):
        answer = {"code": "invalid_result", "message": "the result cannot be read"}
    return {**answer, "dropped": bounds.dropped}


def _answer(context: Any, request: dict[str, Any]) -> dict[str, object]:
    tools, pick = context.eval(PRELUDE), context.eval("(list, index) => list[index]")
    start, state = pick(tools, 0), pick(tools, 1)
    context.eval(request["code"])
    if context.eval("typeof main") != "function":
        return {
            "code": "code_error",
            "message": "the code has no `main`: define `function main(params) { … }`",
            "retryable": False,
        }
    start(context.eval("main"), request["params"], request["output"])
    while (found := state()) is None and context.execute_pending_job():
        pass
    if found is None:
        return {
            "code": "code_error",
            "message": "`main` waits for a promise that nothing will ever resolve",
            "retryable": False,
        }
    kind, _, text = found.partition("\n")
    if kind == "output":
        return {"output": text}
    if kind == "output_too_large":
        message = (
            f"the result has {int(text):,} bytes of JSON, more than the {request['output']:,} allowed:"
            " store the data elsewhere and return a reference to it"
        )
        return {"code": kind, "message": message}
    if kind == "invalid_result":
        return {"code": kind, "message": text}
    error = json.loads(text)
    return _error(error["type"], error["message"], error["stack"])


def _raised(text: str) -> dict[str, object]:
    """What QuickJS says of an exception that no JavaScript of ours could look at."""
    first, _, stack = text.partition("\n")
    if first in ("null", "InternalError: out of memory"):
        return {"code": "memory", "message": "the code needs more memory than it may take"}
    name = first.partition(":")[0]
    return _error(name if name.isidentifier() else "Error", first, stack)


def _error(name: str, message: str, stack: str) -> dict[str, object]:
    # Without memory for an error QuickJS throws null; nobody else does.
    if message in ("InternalError: out of memory", "thrown: null"):
        return {"code": "memory", "message": "the code needs more memory than it may take"}
    place = _PLACE.search(stack)
    line = int(place[1]) if place else None
    return {
        "code": "code_error",
        "message": message if line is None else f"{message} (line {line})",
        "type": name,
        "line": line,
        "traceback": f"{message}\n{stack.replace('<input>', '<code>')}"[:8192].rstrip(),
        "retryable": name != "SyntaxError",
    }


def send(kind: str, text: str) -> None:
    """Write one frame."""
    data = f"{kind}\n{text}".encode("utf-8", "replace")
    data = len(data).to_bytes(4, "big") + data
    while data:
        data = data[os.write(1, data) :]


def _read(size: int) -> bytes | None:
    """Exactly so many bytes; None at the end of the input."""
    parts = sys.stdin.buffer.read(size)
    return parts if len(parts) == size else None
